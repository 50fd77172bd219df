"""One setting of the explorer page: what its controls hold, and the call that this is."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tconv.arguments import operators
from tconv.calls import Runnable
from tconv.dialects.operator import BIAS, ShapeLike
from tconv.errors import UnsupportedError
from tconv.explain.explanation import given_letters
from tconv.explain.formulas import evaluate, rules
from tconv.ops import FUNCTIONS
from tconv.problem import Layout, Operand

Numbers = tuple[int, ...]

MOST_AXES = 2


@dataclass(frozen=True)
class State:
    """The controls; lists have one number for each spatial axis.

    ``size`` is that of the first input, or of the larger picture for a gradient by weights;
    ``x_channels`` and ``y_channels`` are those of one group on either side of the relation.
    """

    op: str
    size: Numbers
    kernel: Numbers
    stride: Numbers
    dilation: Numbers
    pads_begin: Numbers
    pads_end: Numbers
    output_padding: Numbers
    output_shape: Numbers | None = None
    auto_pad: str = "none"
    groups: int = 1
    x_channels: int = 1
    y_channels: int = 1
    batch: int = 1
    data_format: str = "NCX"
    filter_format: str = ""
    reading: str = ""
    opset: int = 22


def page_operators() -> dict[str, type[Runnable]]:
    """Return the operators that the page knows, by name; torch's words are among them."""
    functions = {f"tconv.{name}": FUNCTIONS[name] for name in ("conv", "conv_transpose")}
    return {**operators(), **functions}


def attributes_of(state: State) -> dict[str, Any]:
    """Return the attributes that a setting stands for, in the order of the operator's fields."""
    kind = page_operators()[state.op]
    explicit = state.auto_pad.lower() in ("none", "explicit", "notset", "")
    said: dict[str, Any] = {
        "strides": list(state.stride),
        "stride": list(state.stride),
        "dilations": list(state.dilation),
        "dilation": list(state.dilation),
        "auto_pad": state.auto_pad,
        "groups": state.groups,
        "group": state.groups,
        "data_format": state.data_format,
        "layout": state.data_format,
        "padding": list(state.pads_begin) if explicit else state.auto_pad,
    }
    if explicit:
        said |= {"pads_begin": list(state.pads_begin), "pads_end": list(state.pads_end)}
        said["pads"] = [*state.pads_begin, *state.pads_end]
    if any(state.output_padding):
        said["output_padding"] = list(state.output_padding)
    if state.filter_format:
        said |= {"weights_format": state.filter_format, "filter_format": state.filter_format}
    if state.reading:
        said["reading"] = state.reading
    if state.opset != 22:
        said["opset"] = state.opset
    if kind.dialect != "openvino":  # whose output_shape is an input
        said |= {
            "output_shape": _listed(state.output_shape),
            "dst_shape": _listed(state.output_shape),
        }
    if kind.wanted is Operand.WEIGHTS:
        said["weights_shape"] = list(
            _weights_layout(kind, state).shape(_sizes(state), state.kernel)
        )
    names = [each.name for each in dataclasses.fields(kind)]
    return {name: said[name] for name in names if said.get(name) is not None}


def call_of(state: State) -> tuple[Runnable, tuple[tuple[int, ...], ...]]:
    """Return the operator and the shapes of its inputs; the operator refuses what is wrong."""
    kind = page_operators()[state.op]
    op = kind(**attributes_of(state))
    spatial = dict.fromkeys(Operand, state.size) | {Operand.WEIGHTS: state.kernel}
    if op.wanted is Operand.WEIGHTS:
        spatial[Operand.COARSE] = _other_side(op, state)
    layouts = {operand: op.data_layout(operand) for operand in (Operand.COARSE, Operand.FINE)}
    layouts[Operand.WEIGHTS] = op.weights_layouts()[0]
    shapes = tuple(layouts[o].shape(_sizes(state), spatial[o]) for o in op.given)
    if op.third == "output_shape" and op.dialect == "openvino" and state.output_shape is not None:
        shapes += (state.output_shape,)
    return op, shapes


def state_of(name: str, op: Runnable, shapes: Sequence[ShapeLike]) -> State:
    """Return the setting that shows a call, or refuse what the page cannot hold."""
    problem = op.problem(*shapes)
    if len(problem.axes) > MOST_AXES or name not in page_operators():
        raise UnsupportedError(
            "tconv explain",
            f"{name} with {len(problem.axes)} spatial axes has no picture.",
            got={},
            rule="pictures have 1 or 2 spatial axes",
            fix="explain it in words, or ask for one of its axes",
        )
    axes, attributes = problem.axes, op.attributes()
    letters = [given_letters(op, problem, number) for number in range(len(axes))]
    stated = None
    third = shapes[2] if len(shapes) > 2 and op.third not in BIAS else None
    asked = third if third is not None else attributes.get(str(op.third))
    asked = asked if asked is not None else attributes.get("output_shape")
    if asked is not None and op.wanted is Operand.FINE:
        stated = tuple(axis.fine_size for axis in axes)
    first = op.given[0] if op.wanted is not Operand.WEIGHTS else Operand.FINE
    padding = attributes.get("padding")
    return State(
        op=name,
        size=problem.spatial(first),
        kernel=problem.spatial(Operand.WEIGHTS),
        stride=tuple(axis.stride for axis in axes),
        dilation=tuple(axis.dilation for axis in axes),
        pads_begin=tuple(each["pb"] for each in letters),
        pads_end=tuple(each["pe"] for each in letters),
        output_padding=tuple(each["op"] for each in letters),
        output_shape=stated,
        auto_pad=str(
            attributes.get("auto_pad") or (padding if isinstance(padding, str) else "none")
        ),
        groups=problem.groups,
        x_channels=problem.coarse_channels,
        y_channels=problem.fine_channels,
        batch=problem.batch,
        data_format="NCX" if problem.layout(first).words[-1] == "x" else "NXC",
        filter_format=str(
            attributes.get("weights_format") or attributes.get("filter_format") or ""
        ),
        reading=str(attributes.get("reading") or ""),
        opset=int(attributes.get("opset") or 22),
    )


def _listed(numbers: Numbers | None) -> list[int] | None:
    return None if numbers is None else list(numbers)


def _sizes(state: State) -> dict[str, int]:
    return {"n": state.batch, "g": state.groups, "c": state.x_channels, "f": state.y_channels}


def _weights_layout(kind: type[Runnable], state: State) -> Layout:
    """Return the order of the filter of a gradient by weights, before there is an operator."""
    spelled = (
        state.filter_format
        or {each.name: each.default for each in dataclasses.fields(kind)}["weights_format"]
    )
    blocked = "I" if "Transpose" in kind.__name__ else "O"
    return Layout(
        " ".join("x" if c == "X" else "gc" if c == blocked else "f" for c in str(spelled))
    )


def _other_side(op: Runnable, state: State) -> Numbers:
    """Return the sizes of the smaller picture that belongs to the larger one."""
    rule = rules(op)
    numbers = zip(state.size, state.kernel, state.stride, state.dilation, state.output_padding,
                  state.pads_begin, state.pads_end, strict=True)  # fmt: skip
    found = [evaluate(rule, dict(zip(["Y", "K", "s", "d", "op", "pb", "pe"], each, strict=True)))
             for each in numbers]  # fmt: skip
    return tuple(max(values["X"], 1) for values in found)
