"""Operands that do not agree: channels, groups, batches and biases."""

from collections.abc import Iterator

from errors.callees import CALLEES, Callee, Shape
from errors.case import Case
from errors.shape_cases import infer, put

# What each says when its first array has 10 channels.
CHANNELS = {
    "onednn.Convolution": "weights takes 2 x 3 = 6 input channels, but src has 10.",
    "onednn.ConvTranspose": "weights takes 4 input channels, but src has 10.",
    "onednn.ConvTransposeBackwardData": (
        "weights takes 2 x 3 = 6 output channels, but diff_dst has 10."
    ),
    "onednn.ConvTransposeBackpropData": (
        "filter takes 2 x 3 = 6 output channels, but output_delta has 10."
    ),
    "onednn.ConvolutionBackpropData": "filter takes 4 output channels, but data has 10.",
    "onednn.ConvolutionBackwardData": "weights takes 4 output channels, but diff_dst has 10.",
    "onednn.ConvolutionBackwardWeights": (
        "weights_shape takes 2 x 3 = 6 input channels, but src has 10."
    ),
    "onednn.ConvTransposeBackwardWeights": "weights_shape takes 4 input channels, but src has 10.",
    "openvino.Convolution": "filter takes 6 input channels, but data has 10.",
    "openvino.GroupConvolution": "filter takes 2 x 3 = 6 input channels, but data has 10.",
    "openvino.ConvolutionBackpropData": "filter takes 4 input channels, but data has 10.",
    "openvino.GroupConvolutionBackpropData": (
        "filter takes 2 x 2 = 4 input channels, but data has 10."
    ),
    "onnx.Conv": "W takes 2 x 3 = 6 input channels, but X has 10.",
    "onnx.ConvTranspose": "W takes 4 input channels, but X has 10.",
    "tconv.conv": "weight takes 2 x 3 = 6 input channels, but input has 10.",
    "tconv.conv_transpose": "weight takes 4 input channels, but input has 10.",
    "tconv.conv_grad_input": "weight takes 4 output channels, but grad_output has 10.",
    "tconv.conv_grad_weight": "weight_shape takes 2 x 3 = 6 input channels, but input has 10.",
    "tconv.conv_transpose_grad_input": (
        "weight takes 2 x 3 = 6 output channels, but grad_output has 10."
    ),
    "tconv.conv_transpose_grad_weight": "weight_shape takes 4 input channels, but input has 10.",
}

# What the weight gradients say when their second array has 10 channels.
OTHER_CHANNELS = {
    "onednn.ConvolutionBackwardWeights": (
        "weights_shape takes 4 output channels, but diff_dst has 10."
    ),
    "onednn.ConvTransposeBackwardWeights": (
        "weights_shape takes 2 x 3 = 6 output channels, but diff_dst has 10."
    ),
    "tconv.conv_grad_weight": "weight_shape takes 4 output channels, but grad_output has 10.",
    "tconv.conv_transpose_grad_weight": (
        "weight_shape takes 2 x 3 = 6 output channels, but grad_output has 10."
    ),
}

# With three groups the four channels of one array cannot be divided.  Where three groups of
# three channels meet another array, that one (by its place) gets nine, so that it agrees.
UNDIVIDED = {
    "onednn.Convolution": ("weights", 0),
    "onednn.ConvTranspose": ("src", None),
    "onednn.ConvTransposeBackwardData": ("weights", 0),
    "onednn.ConvTransposeBackpropData": ("filter", 0),
    "onednn.ConvolutionBackpropData": ("data", None),
    "onednn.ConvolutionBackwardData": ("diff_dst", None),
    "onednn.ConvolutionBackwardWeights": ("diff_dst", 0),
    "onednn.ConvTransposeBackwardWeights": ("src", 1),
    "onnx.Conv": ("W", 0),
    "onnx.ConvTranspose": ("X", None),
    "tconv.conv": ("weight", 0),
    "tconv.conv_transpose": ("input", None),
    "tconv.conv_grad_input": ("grad_output", None),
    "tconv.conv_grad_weight": ("grad_output", 0),
    "tconv.conv_transpose_grad_input": ("weight", 0),
    "tconv.conv_transpose_grad_weight": ("input", 1),
}


def _with_channels(callee: Callee, which: int | None, channels: int) -> list[Shape | None]:
    """Return the shapes of a call, one array with other channels."""
    place = -1 if callee.name.startswith("onednn") else 1
    shapes: list[Shape | None] = [None, None]
    if which is not None:
        shapes[which] = put(callee.shapes[which], place, channels)
    return shapes


def _channels(callee: Callee) -> Iterator[Case]:
    shapes = _with_channels(callee, 0, 10)
    yield infer(callee, "channels", CHANNELS[callee.name], *shapes)
    if callee.name in OTHER_CHANNELS:
        first, second = callee.inputs
        shapes = _with_channels(callee, 1, 10)
        yield infer(callee, "other channels", OTHER_CHANNELS[callee.name], *shapes)
        wrong = f"{second} has a batch of 3, but {first} has 2."
        yield infer(callee, "batch", wrong, None, put(callee.shapes[1], 0, 3))


def _groups(callee: Callee) -> Iterator[Case]:
    if callee.name not in UNDIVIDED:
        return  # OpenVINO: the filter itself says how many groups there are
    named, which = UNDIVIDED[callee.name]
    groups = "group" if callee.name.startswith("onnx") else "groups"
    wrong = f"3 groups do not divide the 4 channels of {named}."
    shapes = _with_channels(callee, which, 9)
    yield infer(callee, "groups", wrong, *shapes, **{groups: 3})


def _biases(callee: Callee) -> Iterator[Case]:
    bias = callee.bias()
    if bias is None:
        return
    name, count = callee.kind.third, len(bias)
    for shape in ((count + 1,), (1,), (count, 1), (1, count)):
        wrong = f"{name} has shape {shape}, but shape ({count},) is needed."
        yield infer(callee, f"{name} of shape {shape}", wrong, None, None, shape)
    for note, empty in {"no axis": "()", "no element": "(0,)"}.items():
        wrong = f"{name} has shape {empty}, but shape ({count},) is needed."
        shapes = (0,)[: note == "no element"]
        yield infer(callee, f"{name} with {note}", wrong, None, None, shapes)
    for note, value in {"a number": 4, "a text": "4", "floats": (4.0,)}.items():
        wrong = f"{name} is {value!r}, not a list of whole numbers."
        yield infer(callee, f"{name} of shape {note}", wrong, None, None, value)


def _of(callee: Callee) -> Iterator[Case]:
    yield from _channels(callee)
    yield from _groups(callee)
    yield from _biases(callee)


CASES = [case for callee in CALLEES.values() for case in _of(callee)]
