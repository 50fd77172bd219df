"""Sizes that are asked for, and results that no number can count."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from errors.callees import CALLEES, Callee
from errors.case import Case
from errors.shape_cases import infer, put

HUGE = 2**63

# name -> (value, how the message shows it)
NO_SIZES: dict[str, tuple[Any, str]] = {
    "floats": ([5.0, 4.0], "[5.0, 4.0]"),
    "texts": (["5", "4"], "['5', '4']"),
    "truths": ((True, True), "(True, True)"),
    "nested": ([[5, 4]], "[[5, 4]]"),
    "float array": (np.array([5.0, 4.0]), "array([5., 4.])"),
    "0-d array": (np.array(5), "array(5)"),
    "empty": ((), "()"),
    "matrix": (np.ones((2, 2), int), "array([[1, 1],...[1, 1]])"),
}
NO_LISTS: dict[str, Any] = {"number": 5, "text": "5,4", "set": {5, 4}, "bytes": b"54"}


def _run(callee: Callee, note: str, wrong: str, third: object) -> Case:
    arrays = callee.arrays()
    return Case(
        f"{callee.name}-call with {note}",
        callee.title,
        wrong,
        lambda: callee.run(*arrays, third),
    )


def _malformed(callee: Callee) -> Iterator[Case]:
    name = callee.kind.third
    if name in ("bias", "B", None):
        return
    for note, (value, shown) in NO_SIZES.items():
        wrong = f"{name} is {shown}, not a list of whole numbers."
        yield infer(callee, f"{name} {note}", wrong, None, None, value)
        yield _run(callee, f"{name} {note}", wrong, value)
    for note, value in NO_LISTS.items():
        wrong = f"{name} is ..."
        yield infer(callee, f"{name} {note}", wrong, None, None, value)
        yield _run(callee, f"{name} {note}", wrong, value)
    spatial = 0 if callee.third is None else len(callee.third) - 2
    for size in (-1, 0, HUGE):
        wrong = f"{name} has {size}, but a size is at least 1."
        if size == HUGE:
            wrong = f"{name} has a size of {size}, which overflows 64 bits."
        sizes = put(callee.third or (5, 4), spatial, size)
        yield infer(callee, f"{name} with {size}", wrong, None, None, sizes)
    unknown = [None] * len(callee.third or (5, 4))
    yield _run(callee, f"{name} not known", "a size is not known.", unknown)


def _no_third(callee: Callee) -> Iterator[Case]:
    if callee.kind.third is not None:
        return
    wrong = "it takes two inputs, but a third was given."
    yield infer(callee, "third shape", wrong, None, None, (4,))
    for note, value in {
        "third list": [5, 4],
        "third array": np.ones(4, np.float32),
        "third text": "bias",
        "third number": 0,
    }.items():
        yield _run(callee, note, wrong, value)


def _unknown(callee: Callee) -> Iterator[Case]:
    if callee.is_function:
        return
    first, second = callee.shapes
    for note, shapes in {
        "first": ((None, *first[1:]), second),
        "second": (first, (*second[:1], None, *second[2:])),
    }.items():
        yield Case(
            f"{callee.name}-{note} not known to plan",
            callee.title,
            "a size is not known.",
            lambda shapes=shapes: callee.op().plan(*shapes, callee.third),  # type: ignore[misc]
        )


def _onednn_gradients() -> Iterator[Case]:
    for name, shape in (("Backprop", "output_shape"), ("Backward", "dst_shape")):
        callee = CALLEES[f"onednn.Convolution{name}Data"]
        data, weights = callee.inputs
        missing = Case(
            f"{callee.name}-without",
            callee.title,
            f"{shape} is missing.",
            lambda callee=callee: callee.op().infer_shape(*callee.shapes),  # type: ignore[misc]
        )
        yield missing
        for value in ((5,), (2, 5, 4), (2, 5, 4, 6, 1)):
            shown = str(value)
            wrong = f"{shape} has {len(value)} values {shown}, but {data} has 2 spatial axes."
            yield infer(callee, f"{len(value)} sizes", wrong, None, None, value)
            yield Case(
                f"{callee.name}-{len(value)} sizes stated",
                callee.title,
                wrong,
                lambda callee=callee, stated={shape: value}: callee.op(  # type: ignore[misc]
                    **stated
                ).infer_shape(*callee.shapes),
            )
        for whole, what, said, right in (
            ((3, 5, 4, 6), "batch", 3, 2),
            ((2, 5, 4, 8), "channels", 8, 6),
        ):
            wrong = (
                f"{shape} {whole} says {said} for the {what}, "
                f"but {data} and {weights} give {right}."
            )
            yield infer(callee, f"other {what}", wrong, None, None, whole)
        for size in (4, 7):
            wrong = f"{shape} asks for {size} on spatial axis 1, but the pads leave 5 to 6."
            yield infer(callee, f"size {size}", wrong, None, None, (size, 4))
        wrong = f"{shape} asks for 9 on spatial axis 1, but the pads leave 7 to 8."
        yield infer(callee, "size, valid", wrong, None, None, (9, 6), auto_pad="valid")


def _onednn_transposed() -> Iterator[Case]:
    for name in ("BackpropData", "BackwardData", "BackwardWeights"):
        callee = CALLEES[f"onednn.ConvTranspose{name}"]
        data = callee.inputs[1 if "Weights" in name else 0]
        wrong = f"output_padding 5 leaves nothing of the 5 points of {data} on spatial axis 1."
        yield infer(callee, "all padding", wrong, output_padding=(5, 0))
        wrong = f"with output_padding 1, spatial axis 1 of {data} has size 4 or 6, but it is 5."
        yield infer(callee, "inexact padding", wrong, output_padding=(1, 0))
    for name in ("Convolution", "ConvTranspose"):
        callee = CALLEES[f"onednn.{name}BackwardWeights"]
        small, large = callee.inputs if name == "ConvTranspose" else callee.inputs[::-1]
        shape = put(callee.shapes[0 if name == "ConvTranspose" else 1], 1, 4)
        shapes = (shape, None) if name == "ConvTranspose" else (None, shape)
        wrong = f"spatial axis 1 of {small} has size 4, but {large} and weights_shape give 3."
        yield infer(callee, "other sizes", wrong, *shapes)
        yield Case(
            f"{callee.name}-without",
            callee.title,
            "weights_shape is missing.",
            lambda callee=callee: callee.op().infer_shape(*callee.shapes),  # type: ignore[misc]
        )
        wrong = "weights_shape has 3 spatial axes, but src has 2."
        yield infer(callee, "more axes", wrong, None, None, (3, 2, 1, 3, 4))
        wrong = "weights_shape has 2 axes, but at least 3 are needed."
        yield infer(callee, "two axes", wrong, None, None, (3, 4))


def _openvino() -> Iterator[Case]:
    for name in ("ConvolutionBackpropData", "GroupConvolutionBackpropData"):
        callee = CALLEES[f"openvino.{name}"]
        for value in ((5,), (2, 6, 5, 4)):
            wrong = f"output_shape has {len(value)} values {value}, but data has 2 spatial axes."
            yield infer(callee, f"{len(value)} sizes", wrong, None, None, value)


def _open_groups() -> Iterator[Case]:
    """Leave the number of groups open, with channels that fit no number of them."""
    for name, one, channels in (
        ("GroupConvolution", 3, 10),
        ("GroupConvolutionBackpropData", 2, 5),
    ):
        callee = CALLEES[f"openvino.{name}"]
        wrong = (
            f"data has {channels} channels, not a multiple of the {one} "
            "that filter takes in a group."
        )
        shapes = put(callee.shapes[0], 1, channels), (None, *callee.shapes[1][1:])
        yield infer(callee, "open groups", wrong, *shapes)


def _onnx_and_torch() -> Iterator[Case]:
    for name in ("onnx.ConvTranspose", "tconv.conv_transpose", "tconv.conv_transpose_grad_input"):
        callee = CALLEES[name]
        wrong = "output_padding is 2 on spatial axis 1, but stride is 2 and dilation 1."
        yield infer(callee, "output_padding", wrong, output_padding=(2, 0))
    callee = CALLEES["onnx.ConvTranspose"]
    wrong = "output_shape asks for 9 on spatial axis 1, but at most 8 can be reached."
    yield infer(callee, "output_shape", wrong, output_shape=(9, 4))


CASES = [
    *(
        case
        for callee in CALLEES.values()
        for cases in (_malformed, _no_third, _unknown)
        for case in cases(callee)
    ),
    *_onednn_gradients(),
    *_onednn_transposed(),
    *_openvino(),
    *_open_groups(),
    *_onnx_and_torch(),
]
