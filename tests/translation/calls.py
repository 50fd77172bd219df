"""Random legal calls of every operator and function, with whole numbers to compute on."""

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import tconv
from tconv.arguments import operators
from tconv.calls import Runnable
from tconv.dialects.operator import BIAS
from tconv.ops import FUNCTIONS
from tconv.problem import Operand

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

KINDS: dict[str, type[Runnable]] = {
    **operators(),
    **{f"tconv.{name}": kind for name, kind in FUNCTIONS.items()},
}
MODES = ("none", "same_upper", "same_lower", "valid")
FORMATS = ("XIO", "OIX", "XOI", "IOX")


@dataclass(frozen=True)
class Drawn:
    """A legal call."""

    name: str
    op: Runnable
    shapes: tuple[Shape, ...]
    seed: int

    def arrays(self) -> dict[str, Array]:
        """Return small whole numbers for the inputs, by their names."""
        draw = np.random.default_rng(self.seed)
        names = [*self.op.inputs, *([str(self.op.third)] if self.op.third in BIAS else [])]
        return {
            name: draw.integers(-4, 5, shape).astype(np.float32)
            for name, shape in zip(names, self.shapes, strict=False)
        }

    def result(self) -> Array:
        """Return what the operator itself computes."""
        inputs: list[Any] = list(self.arrays().values())
        if len(self.shapes) > len(inputs):
            inputs.append(self.shapes[2])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tconv.AmbiguousSpecWarning)
            result: Array = self.op(*inputs)
        return result


def draw_call(seed: int, ranks: tuple[int, ...] = (1, 2, 3), name: str | None = None) -> Drawn:
    """Draw numbers until an operator takes them."""
    dice = random.Random(seed)  # noqa: S311 - a test
    while True:
        kind = name or dice.choice(list(KINDS))
        try:
            op, shapes = _draw(dice, kind, dice.choice(ranks))
            op.problem(*shapes)
        except tconv.ProblemError:
            continue
        return Drawn(kind, op, shapes, seed)


def _draw(dice: random.Random, name: str, rank: int) -> tuple[Runnable, tuple[Shape, ...]]:
    kind = KINDS[name]
    dialect = name.partition(".")[0]

    def each(low: int, high: int) -> list[int]:
        return [dice.randint(low, high) for _ in range(rank)]

    groups = dice.choice((1, 1, 2, 3))
    if (
        name.endswith((".Convolution", "openvino.ConvolutionBackpropData"))
        and dialect == "openvino"
    ):
        groups = 1
    attributes = _attributes(dice, kind, dialect, each)
    if "groups" in attributes:
        attributes["groups"] = groups
    if "group" in attributes:
        attributes["group"] = groups
    sizes = {"n": dice.randint(1, 2), "g": groups, "c": dice.randint(1, 3), "f": dice.randint(1, 3)}
    spatial = {
        Operand.COARSE: each(1, 4),
        Operand.FINE: each(1, 9),
        Operand.WEIGHTS: each(1, 4 if rank < 3 else 3),
    }
    op = kind(**attributes)
    layouts = {operand: op.data_layout(operand) for operand in (Operand.COARSE, Operand.FINE)}
    layouts[Operand.WEIGHTS] = dice.choice(op.weights_layouts())
    third: Shape | None = None
    if op.third in BIAS:
        channel = "f" if op.wanted is Operand.FINE else "c"
        third = (groups * sizes[channel],) if dice.random() < 0.4 else None
    elif op.wanted is Operand.WEIGHTS:
        third = layouts[Operand.WEIGHTS].shape(sizes, tuple(spatial[Operand.WEIGHTS]))
        spatial = _matching(dice, op, sizes, spatial)
    elif op.third is not None:
        optional = dialect == "openvino" and dice.random() < 0.5
        whole = layouts[op.wanted].shape(sizes, tuple(spatial[op.wanted]))
        third = None if optional else whole
        if third and dialect == "openvino":
            third = tuple(spatial[op.wanted])
    shapes = tuple(layouts[o].shape(sizes, tuple(spatial[o])) for o in op.given)
    return op, (*shapes, third) if third else shapes


def _matching(
    dice: random.Random, op: Runnable, sizes: dict[str, int], spatial: dict[Operand, list[int]]
) -> dict[Operand, list[int]]:
    """Make it likely that the two grids fit each other, for gradients by weights."""
    del sizes
    attributes = op.attributes()
    strides = attributes.get("strides") or attributes["stride"]
    dilations = attributes.get("dilations") or attributes["dilation"]
    extra = attributes.get("output_padding") or [0] * len(strides)
    fine = [
        s * (x - 1) + (k - 1) * d + 1 + e - dice.randint(0, 3)
        for s, x, k, d, e in zip(
            strides, spatial[Operand.COARSE], spatial[Operand.WEIGHTS], dilations, extra,
            strict=True,
        )
    ]  # fmt: skip
    return {**spatial, Operand.FINE: [max(size, 1) for size in fine]}


def _attributes(
    dice: random.Random, kind: type[Runnable], dialect: str, each: Callable[[int, int], list[int]]
) -> dict[str, Any]:
    fields = kind.__dataclass_fields__
    mode = dice.choice(MODES)
    if dialect == "tconv":
        attributes: dict[str, Any] = {
            "stride": each(1, 3), "dilation": each(1, 3), "padding": each(0, 3), "groups": 1,
            "layout": dice.choice(("NCX", "NXC")),
        }  # fmt: skip
        if "output_padding" in fields:
            attributes["output_padding"] = each(0, 2)
        elif dice.random() < 0.3:
            attributes["padding"] = dice.choice(("same", "valid"))
            attributes["stride"] = [1 for _ in attributes["stride"]]
        return attributes
    attributes = {"strides": each(1, 3), "dilations": each(1, 3)}
    if dialect == "onnx":
        attributes["group"] = 1
        attributes["auto_pad"] = "NOTSET" if mode == "none" else mode
        attributes["opset"] = dice.choice((1, 11, 22))
        if mode == "none":
            attributes["pads"] = [*each(0, 3), *each(0, 3)]
    else:
        attributes |= {"auto_pad": mode, "pads_begin": each(0, 3), "pads_end": each(0, 3)}
    if dialect == "onednn":
        attributes["groups"] = 1
        attributes["data_format"] = dice.choice(("NCX", "NXC"))
        spelled = "filter_format" if "filter_format" in fields else "weights_format"
        attributes[spelled] = dice.choice(FORMATS)
    if "output_padding" in fields and dice.random() < 0.6:
        attributes["output_padding"] = each(0, 4)
    if dialect == "onnx" and "output_shape" in fields and dice.random() < 0.3:
        attributes["output_shape"] = each(1, 9)
    if "reading" in fields:
        attributes["reading"] = dice.choice((None, "engine", "document"))
    return attributes
