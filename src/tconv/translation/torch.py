"""torch.nn.functional: one padding for both ends."""

from tconv.ops import FUNCTIONS
from tconv.problem import Layout, Operand
from tconv.translation.around import Around, around, rewritten
from tconv.translation.ask import Ask, as_gather
from tconv.translation.fit import Fit, is_same, symmetric
from tconv.translation.notes import NOTES
from tconv.translation.translation import Translation
from tconv.translation.write import keywords, write

LAYOUTS = {
    Operand.COARSE: Layout("n gc x"),
    Operand.FINE: Layout("n gf x"),
    Operand.WEIGHTS: Layout("gc f x"),
}


def to_torch(ask: Ask) -> Translation:
    """Say a call with torch.nn.functional; gradients by weights with torch.nn.grad."""
    problem = ask.problem
    axes, wanted = problem.axes, problem.wanted
    fits = [symmetric(axis, wanted) for axis in axes]
    if wanted is Operand.WEIGHTS:
        fits = [symmetric(axis, Operand.COARSE) for axis in axes]
        if any(any(fit.crop) for fit in fits):
            return rewritten(to_torch(as_gather(ask)))
    same = _same(ask, fits)
    if same:
        fits = [Fit()] * ask.rank
    padding: object = "same" if same else tuple(fit.begin for fit in fits)
    numbers = {
        "stride": ask.each("stride"),
        "padding": padding,
        "dilation": ask.each("dilation"),
        "groups": problem.groups,
    }
    if wanted is Operand.FINE:
        numbers["output_padding"] = tuple(fit.extra for fit in fits)
    name = {Operand.COARSE: "conv", Operand.FINE: "conv_transpose"}.get(wanted, "conv_grad_weight")
    usual = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}
    shown = keywords(
        {
            key: (repr(value), repr((usual[key],) * ask.rank if key in usual else 1))
            for key, value in numbers.items()
        }
    )
    parts = around(ask, LAYOUTS, fits, takes_bias=True)
    inputs = [write("torch", steps, text) for text, steps in parts.inputs]
    if wanted is Operand.WEIGHTS:
        shape = LAYOUTS[wanted].shape(problem.sizes, problem.spatial(wanted))
        fine, coarse = inputs
        call = f"grad.conv{ask.rank}d_weight({fine}, {shape}, {coarse}{shown})"
        head = "from torch.nn import functional as F, grad"
    else:
        bias = f", {ask.bias}" if parts.bias_inside else ""
        call = f"F.{name}{ask.rank}d({', '.join(inputs)}{bias}{shown})"
        head = "import torch.nn.functional as F"
    result = write("torch", parts.after, call, ask.bias)
    return _translation(ask, parts, fits, f"{head}\n{parts.result} = {result}", name, numbers)


def _same(ask: Ask, fits: list[Fit]) -> bool:
    """Tell whether padding="same" says it, which takes strides of 1 alone."""
    axes, wanted = ask.problem.axes, ask.problem.wanted
    alike = all(fit.bare for fit in fits) or wanted is not Operand.COARSE
    return not alike and all(axis.stride == 1 for axis in axes) and is_same(axes, wanted)


def _translation(  # noqa: PLR0913 - the parts of an answer
    ask: Ask, parts: Around, fits: list[Fit], code: str, name: str, numbers: dict[str, object]
) -> Translation:
    exact = all(fit.bare for fit in fits)
    weights = ask.problem.wanted is Operand.WEIGHTS
    notes = () if exact else (_why(ask, fits),)
    return Translation(
        "torch",
        exact,
        notes,
        code,
        operator=FUNCTIONS[name](**numbers),
        shapes=parts.shapes,
        before=tuple(steps for _, steps in parts.inputs),
        after=parts.after,
        places=parts.places,
        third=LAYOUTS[Operand.WEIGHTS].shape(
            ask.problem.sizes, ask.problem.spatial(Operand.WEIGHTS)
        )
        if weights
        else None,
    )


def _why(ask: Ask, fits: list[Fit]) -> str:
    if ask.problem.wanted is not Operand.FINE:
        return NOTES["torch gather"]
    return NOTES["torch grow" if any(any(fit.grow) for fit in fits) else "torch crop"]
