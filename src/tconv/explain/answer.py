"""What is said of a call, as plain data: ``tconv explain --json`` and the page show it."""

import warnings
from collections.abc import Sequence
from typing import Any

from tconv.calls import Runnable
from tconv.dialects.operator import BIAS, ShapeLike
from tconv.errors import AmbiguousSpecWarning, ProblemError
from tconv.explain.explanation import Explanation, explain, odd_one, phases
from tconv.explain.state import State, call_of
from tconv.translation import DIALECTS, translate


def answer(state: State) -> dict[str, Any]:
    """Return what the page must show for a setting; a refusal is its text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AmbiguousSpecWarning)  # both readings are in the answer
        try:
            op, shapes = call_of(state)
            return record(explain(op, *shapes))
        except ProblemError as error:
            return {"error": str(error)}


def record(told: Explanation) -> dict[str, Any]:
    """Return an explanation as plain data."""
    op, shapes = told.op, told.shapes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AmbiguousSpecWarning)
        said = {to: translate(op, *shapes, to=to) for to in DIALECTS if _sayable(told, to)}
    begin, end = told.pads
    return {
        "call": call_text(op, shapes),
        "shapes": [list(shape) for shape in shapes],
        "shape": list(told.result),
        "pads_begin": list(begin),
        "pads_end": list(end),
        "axes": [
            {
                "lines": [[each.letter, each.expression, each.filled, each.value, each.why]
                          for each in lines],
                "odd": odd_one(begin[number], end[number], lines),
                "phases": [[each.number, list(each.points), list(each.taps)]
                           for each in phases(told.problem.axes[number])],
            }
            for number, lines in enumerate(told.lines)
        ],
        "readings": list(told.readings),
        "flops": told.problem.flops(),
        "bytes": told.problem.bytes(),
        "translations": {
            to: {"exact": each.exact, "notes": list(each.notes), "code": each.code}
            for to, each in said.items()
        },
    }  # fmt: skip


def call_text(op: Runnable, shapes: Sequence[ShapeLike]) -> str:
    """Return the call as Python code, by tconv's own names.

    >>> from tconv import onnx
    >>> call_text(onnx.Conv(strides=[2]), [(1, 2, 8), (4, 2, 3)])
    'tconv.onnx.Conv(strides=(2,))(X, W)'
    """
    inputs = [*op.inputs]
    if len(shapes) > 2:
        inputs.append(str(op.third) if op.third in BIAS else str(tuple(shapes[2])))
    given = ", ".join(inputs)
    if op.dialect != "tconv":
        return f"tconv.{op!r}({given})"
    name, _, arguments = repr(op).partition("(")
    return f"{name}({given}{', ' if arguments != ')' else ''}{arguments}"


def _sayable(told: Explanation, to: str) -> bool:
    return told.problem.batch > 0 and (len(told.lines) <= 3 or to in ("onnx", "onednn", "lax"))
