"""Random settings of the explorer page, sound ones and bad ones."""

import dataclasses
import random

from tconv.explain.state import State, page_operators
from tconv.problem import Operand

FORMATS = ("XIO", "OIX", "XOI", "IOX")


def draw_state(seed: int, *, wild: bool = False) -> State:
    """Draw a setting; a wild one may have numbers and words that no operator takes."""
    dice = random.Random(seed)  # noqa: S311 - a test
    name = dice.choice(list(page_operators()))
    kind = page_operators()[name]
    fields = {each.name for each in dataclasses.fields(kind)}
    rank = dice.choice((1, 2))

    def each(low: int, high: int) -> tuple[int, ...]:
        bad = wild and dice.random() < 0.08
        return tuple(dice.randint(-1 if bad else low, high) for _ in range(rank))

    modes = ["none", "same_upper", "same_lower", "valid"]
    if kind.dialect == "onnx":
        modes = ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]
    elif kind.dialect == "openvino":
        modes[0] = "explicit"
    elif kind.dialect == "tconv":
        modes = ["none", "valid", "same"] if kind.wanted is Operand.COARSE else ["none"]
    if wild and dice.random() < 0.1:
        modes = ["same_uper", "SAME", "explicit", "xyz", "valid"]
    required = kind.dialect == "onednn" and kind.third in ("output_shape", "dst_shape")
    can_state = required or "output_shape" in fields or kind.third == "output_shape"
    stated = (
        can_state and kind.wanted is Operand.FINE and dice.random() < (0.95 if required else 0.4)
    )
    formats = {"weights_format", "filter_format"} & fields
    return State(
        op=name,
        size=each(1, 9),
        kernel=each(1, 5),
        stride=each(1, 4),
        dilation=each(1, 3),
        pads_begin=each(0, 3),
        pads_end=each(0, 3),
        output_padding=each(0, 3)
        if "output_padding" in fields and dice.random() < 0.5
        else (0,) * rank,
        output_shape=each(1, 12) if stated else None,
        auto_pad=dice.choice(modes),
        groups=dice.choice((1, 1, 2, 3)) if {"groups", "group"} & fields or "Group" in name else 1,
        x_channels=dice.randint(1, 3),
        y_channels=dice.randint(1, 3),
        batch=dice.randint(1, 2),
        data_format=dice.choice(("NCX", "NXC")) if {"data_format", "layout"} & fields else "NCX",
        filter_format=dice.choice(FORMATS) if formats else "",
        reading=dice.choice(("", "engine", "document")) if "reading" in fields else "",
        opset=dice.choice((1, 11, 22)) if "opset" in fields else 22,
    )
