"""Shapes that fit no operator, or not its attributes: ranks, lengths, windows."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from errors.callees import CALLEES, KERNEL, LARGE, Callee, Shape
from errors.case import Case

HUGE = 2**63

# name -> (value, how the message shows it)
NO_SHAPES: dict[str, tuple[Any, str]] = {
    "number": (5, "5"),
    "truth": (True, "True"),
    "text": ("(2, 6, 5)", "'(2, 6, 5)'"),
    "bytes": (b"\x02\x06", "b'\\x02\\x06'"),
    "dictionary": ({0: 2}, "{0: 2}"),
    "set": ({2}, "{2}"),
    "floats": ((2.0, 6.0, 5.0), "(2.0, 6.0, 5.0)"),
    "not-a-number": ([float("nan")], "[nan]"),
    "texts": (("2", "6"), "('2', '6')"),
    "truths": ((True, True, True), "(True, True, True)"),
    "nested": (((2, 6), (5, 4)), "((2, 6), (5, 4))"),
    "0-d array": (np.array(2), "array(2)"),
    "float array": (np.array([2.0, 6.0]), "array([2., 6.])"),
    "whole array": (np.ones((2, 2), int), "array([[1, 1],...[1, 1]])"),
    "long": ([0.5] * 1000, "[0.5, ..."),
}
COMMON = ("number", "text", "floats", "nested", "0-d array")
FULLY = (
    "onednn.Convolution",
    "openvino.GroupConvolutionBackpropData",
    "onnx.ConvTranspose",
    "tconv.conv_grad_input",
)


def infer(callee: Callee, note: str, wrong: str, *shapes: Any, **changes: Any) -> Case:  # noqa: ANN401 - wrong on purpose
    """Return a case about shapes; None stands for the sound shape."""
    return Case(
        f"{callee.name}-{note}", callee.title, wrong, lambda: callee.infer(*shapes, **changes)
    )


def put(shape: Shape, place: int, size: int) -> Shape:
    """Return a shape with one size replaced."""
    sizes = list(shape)
    sizes[place] = size
    return tuple(sizes)


def _at(which: int, shape: object) -> tuple[object, object]:
    return (shape, None) if which == 0 else (None, shape)


def _malformed(callee: Callee, which: int) -> Iterator[Case]:
    name, shape = callee.inputs[which], callee.shapes[which]
    # Every kind of value on one operator of a document, the commonest on the others.
    kinds = NO_SHAPES if callee.name in FULLY else {n: NO_SHAPES[n] for n in COMMON}
    for note, (value, shown) in kinds.items():
        wrong = f"the shape of {name} is {shown}, not a list of sizes."
        yield infer(callee, f"{name} {note}", wrong, *_at(which, value))
    sizes = {
        "negative": (-1, f"{name} has a negative size, -1."),
        "empty": (0, f"{name} is empty."),
        "beyond 64 bits": (HUGE, f"{name} has a size of {HUGE}, which overflows 64 bits."),
    }
    for note, (size, wrong) in sizes.items():
        yield infer(callee, f"{name} {note}", wrong, *_at(which, put(shape, 1, size)))


def _ranks(callee: Callee) -> Iterator[Case]:
    first, second = callee.inputs
    least = len(callee.shapes[1]) - 1
    for axes in (0, 1, 2):
        wrong = f"{first} has {axes} axes, but at least 3 are needed."
        yield infer(callee, f"{first} of {axes} axes", wrong, (2, 6)[:axes])
    wrong = f"{second} has {least - 1} axes, but at least {least} are needed."
    yield infer(callee, f"{second} without points", wrong, None, callee.shapes[1][: least - 1])
    wrong = f"{second} has 1 spatial axes, but {first} has 2."
    yield infer(callee, f"{second} with one axis less", wrong, None, callee.shapes[1][:least])
    wrong = f"{second} has 3 spatial axes, but {first} has 2."
    yield infer(callee, f"{second} with one axis more", wrong, None, (*callee.shapes[1], 1))


# Lists with one entry for each spatial axis.
_LENGTHS = {
    "onednn": ("strides", "dilations", "pads_begin", "pads_end", "output_padding"),
    "openvino": ("strides", "dilations", "pads_begin", "pads_end", "output_padding"),
    "onnx": ("strides", "dilations", "output_padding", "kernel_shape", "output_shape"),
    "tconv": ("stride", "dilation", "padding", "output_padding"),
}


def _lengths(callee: Callee) -> Iterator[Case]:
    first = callee.inputs[0]
    fields = callee.kind.__dataclass_fields__
    for name in _LENGTHS[callee.name.split(".")[0]]:
        if name not in fields:
            continue
        wrongs = [(1,), (1, 1, 1)]
        if name in ("strides", "dilations") and callee.name.startswith("onednn"):
            wrongs.append(())  # elsewhere an empty list stands for the default
        for value in wrongs:
            shown = str(value)
            wrong = f"{name} has {len(value)} values {shown}, but {first} has 2 spatial axes."
            yield infer(callee, f"{name} of {len(value)}", wrong, **{name: value})
    if callee.name.startswith("onnx"):
        for pads in ((1,), (1, 1), (1,) * 5):
            wrong = f"pads has {len(pads)} values, but X has 2 spatial axes."
            yield infer(callee, f"pads of {len(pads)}", wrong, pads=pads)
        wrong = "kernel_shape (3, 3) is not the (3, 2) of W."
        yield infer(callee, "kernel_shape of another window", wrong, kernel_shape=[3, 3])
    if callee.name in ("openvino.Convolution", "openvino.ConvolutionBackpropData"):
        wrong = "data has 6 axes, but 3, 4 or 5 are expected."
        yield infer(callee, "six axes", wrong, (2, *(9,) * 5), (4, *(9,) * 5))
    if callee.name == "openvino.GroupConvolution":
        wrong = "data has 6 axes, but 3, 4 or 5 are expected."
        yield infer(callee, "six axes", wrong, (2, *(9,) * 5), (2, *(9,) * 6))


# The arrays that the windows cover, where the result is one point a window.
_COVERED = {
    "onednn.Convolution": ("weights", "src"),
    "onednn.ConvTransposeBackwardData": ("weights", "diff_dst"),
    "onednn.ConvTransposeBackpropData": ("filter", "output_delta"),
    "onednn.ConvolutionBackwardWeights": ("weights_shape", "src"),
    "onednn.ConvTransposeBackwardWeights": ("weights_shape", "diff_dst"),
    "openvino.Convolution": ("filter", "data"),
    "openvino.GroupConvolution": ("filter", "data"),
    "onnx.Conv": ("W", "X"),
    "tconv.conv": ("weight", "input"),
    "tconv.conv_grad_input": ("weight", "input_shape"),
    "tconv.conv_grad_weight": ("weight_shape", "input"),
}


def wide(callee: Callee, size: int) -> dict[str, Shape]:
    """Return the weights' shape, by its place in a call, with a window of ``size`` points."""
    which = "third" if "eights" in callee.name or "grad_weight" in callee.name else "second"
    shape = callee.third if which == "third" else callee.shapes[1]
    if shape is None:
        raise AssertionError
    place = 0 if callee.name.startswith("onednn") else len(shape) - 2
    return {which: put(shape, place, size)}


def _windows(callee: Callee) -> Iterator[Case]:
    axis = "spatial axis 1"
    if callee.name in _COVERED:
        weights, data = _COVERED[callee.name]
        room = LARGE[0] + 2
        wrong = (
            f"the window of {weights} spans {room + 1} points on {axis}, "
            f"but {data} has {room} there, padding included."
        )
        yield infer(callee, "window", wrong, **wide(callee, room + 1))
        yield infer(callee, "dilated window", wrong, **_dilated(callee, room), **wide(callee, 2))
        if "pads_begin" in callee.attributes:
            wrong = (
                f"the window of {weights} spans {room} points on {axis}, "
                f"but {data} has {LARGE[0]} there, padding included."
            )
            yield infer(callee, "window, valid", wrong, **wide(callee, room), auto_pad="valid")
    else:
        empty = f"the result would be empty: {axis} would have size {2 * 2 + KERNEL[0] - 40}."
        if callee.name.startswith("onednn") and callee.third is not None:
            asked = f"{callee.kind.third} asks for {LARGE[0]} on {axis}"
            empty = f"{asked}, but the pads leave ..."
        pads: dict[str, object] = {"pads_begin": (20, 1), "pads_end": (20, 1)}
        if callee.name.startswith("onnx"):
            pads = {"pads": (20, 1, 20, 1)}
        if callee.is_function:
            pads = {"padding": (20, 1)}
        yield infer(callee, "nothing left", empty, **pads)
    span = 2 * 2**62 + 1
    wrong = f"the window on {axis} would be {span}, which overflows 64 bits."
    yield infer(callee, "window beyond 64 bits", wrong, **_dilated(callee, 2**62))


def _dilated(callee: Callee, size: int) -> dict[str, Shape]:
    return {"dilation" if callee.is_function else "dilations": (size, 1)}


def _of(callee: Callee) -> Iterator[Case]:
    for which in (0, 1):
        yield from _malformed(callee, which)
    yield from _ranks(callee)
    yield from _lengths(callee)
    yield from _windows(callee)


CASES = [case for callee in CALLEES.values() for case in _of(callee)]
