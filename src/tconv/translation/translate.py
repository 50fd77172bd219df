"""Translate a call into a dialect by its name."""

from collections.abc import Callable

from tconv.calls import Runnable
from tconv.dialects.attributes import nearest, shown
from tconv.dialects.operator import BIAS, ShapeLike
from tconv.errors import ProblemError, UnsupportedError
from tconv.ops import FUNCTIONS
from tconv.translation.ask import Ask
from tconv.translation.keras import to_keras
from tconv.translation.lax import to_lax
from tconv.translation.onednn import to_onednn
from tconv.translation.onnx import to_onnx
from tconv.translation.openvino import to_openvino
from tconv.translation.torch import to_torch
from tconv.translation.translation import Translation

WRITERS: dict[str, Callable[[Ask], Translation]] = {
    "torch": to_torch,
    "onnx": to_onnx,
    "openvino": to_openvino,
    "onednn": to_onednn,
    "keras": to_keras,
    "lax": to_lax,
}
DIALECTS = tuple(WRITERS)
MOST_AXES = {"torch": 3, "openvino": 3, "keras": 3}  # by the names of their functions


def translate(
    op: Runnable | Callable[..., object],
    *shapes: ShapeLike,
    to: str,
    **arguments: object,
) -> Translation:
    """Say ``op``, called with inputs of these shapes, in another dialect.

    ``op`` is an operator, or a function such as :func:`tconv.conv_transpose` with its arguments.

    The answer has the operator of that dialect, a line of code that sets the result's name from
    the names of the inputs, and notes where the dialect has no equivalent.

    >>> from tconv import onnx
    >>> op = onnx.ConvTranspose(strides=[2], pads=[0, 1])
    >>> print(translate(op, (1, 8, 5), (8, 4, 3), to="torch"))
    torch: no equivalent call; rewritten exactly
      torch pads both ends alike: the rest of the padding is cropped off the result.
        import torch.nn.functional as F
        Y = F.conv_transpose1d(X, W, stride=(2,))[:, :, :-1]
    """
    operator = _operator(op, arguments)
    ask = _ask(operator, shapes)
    name = _dialect(to)
    if ask.rank > MOST_AXES.get(name, ask.rank):
        raise UnsupportedError(
            f"translation to {name}",
            f"{operator.inputs[0]} has {ask.rank} spatial axes, but {name} takes 1, 2 or 3.",
            got=dict(zip(operator.inputs, map(shown, shapes), strict=False)),
            rule="torch, openvino and keras have functions for 1, 2 and 3 spatial axes",
            fix='translate to "onnx", "onednn" or "lax", or use tconv itself',
        )
    return WRITERS[name](ask)


def _operator(op: object, arguments: dict[str, object]) -> Runnable:
    """Return the operator that is meant, or refuse what is none."""
    if isinstance(op, Runnable) and not arguments:
        return op
    name = getattr(op, "__name__", "")
    if name in FUNCTIONS and getattr(op, "__module__", "") == FUNCTIONS[name].__module__:
        return FUNCTIONS[name](**arguments)
    words = "has its attributes already" if isinstance(op, Runnable) else "is no operator"
    raise ProblemError(
        "tconv translate",
        f"{shown(op)} {words}.",
        got={key: shown(value) for key, value in arguments.items()},
        rule="op is an operator, or a function of tconv with its arguments as keywords",
        fix="pass for example tconv.onnx.Conv(strides=[2]), or tconv.conv and stride=2",
    )


def _dialect(to: object) -> str:
    """Return the name of a dialect in any case, or refuse it."""
    if isinstance(to, str) and to.lower() in WRITERS:
        return to.lower()
    near = nearest(to, WRITERS) if isinstance(to, str) else None
    listed = ", ".join(DIALECTS)
    raise ProblemError(
        "tconv translate",
        f"there is no dialect {shown(to)}.",
        got={},
        rule=f"to is one of: {listed}",
        fix=f"did you mean {near!r}?" if near else f"pass one of: {listed}",
    )


def _ask(op: Runnable, shapes: tuple[ShapeLike, ...]) -> Ask:
    """Return what a call asks, after the document's own checks."""
    if not 2 <= len(shapes) <= 3:
        inputs = [*op.inputs, *([f"[{op.third}]"] if op.third else [])]
        raise ProblemError(
            op.title(),
            f"{len(shapes)} shapes were given.",
            got={},
            rule=f"the inputs are {', '.join(inputs)}   ({op.document})",
            fix=f"pass the shapes of {' and '.join(op.inputs)}",
        )
    problem = op.problem(*shapes)
    op.warn_if_ambiguous(op.resolve(*shapes))
    if problem.batch == 0:
        raise ProblemError(
            op.title(),
            "the batch is 0.",
            got={op.inputs[0]: shown(shapes[0])},
            rule="only a call that computes something can be translated",
            fix="pass a batch of at least 1",
        )
    names = dict(zip(op.given, op.inputs, strict=True)) | {op.wanted: op.result}
    bias = str(op.third) if op.third in BIAS and problem.bias else None
    return Ask(problem, names, op.inputs, bias)
