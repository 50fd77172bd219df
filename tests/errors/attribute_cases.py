"""Wrong attributes: every attribute of every operator and function, spoilt in every way."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from errors.callees import CALLEES, Callee
from errors.case import Case

# The attributes that hold lists of whole numbers, and their smallest value.
LISTS = {
    "strides": 1,
    "dilations": 1,
    "pads_begin": 0,
    "pads_end": 0,
    "output_padding": 0,
    "output_shape": 1,
    "dst_shape": 1,
    "weights_shape": 1,
    "kernel_shape": 1,
    "pads": 0,
}
NUMBERS = {"groups": 1, "group": 1, "opset": 1}
WORDS = {
    "auto_pad": ("same_uper", "same_upper"),
    "data_format": ("NCHX", "NCX"),
    "weights_format": ("XIOO", "XIO"),
    "filter_format": ("OIHX", "OIX"),
    "layout": ("NXCC", "NXC"),
}
READINGS = "None, 'engine', 'document'"

# What each document lists; the engines' other attributes are unknown here.
_ONEDNN = ("strides", "dilations", "pads_begin", "pads_end", "auto_pad", "groups", "data_format")
_OPENVINO = ("strides", "dilations", "pads_begin", "pads_end", "auto_pad")
_ONNX = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides", "opset")
_TORCH = ("stride", "padding", "dilation", "groups", "layout")
ATTRIBUTES = {
    "onednn.Convolution": (*_ONEDNN, "weights_format"),
    "onednn.ConvTranspose": (*_ONEDNN, "weights_format", "output_padding"),
    "onednn.ConvTransposeBackwardData": (*_ONEDNN, "weights_format", "output_padding"),
    "onednn.ConvTransposeBackpropData": (*_ONEDNN, "filter_format", "output_padding"),
    "onednn.ConvolutionBackpropData": (
        *_ONEDNN,
        "filter_format",
        "output_padding",
        "output_shape",
        "reading",
    ),
    "onednn.ConvolutionBackwardData": (
        *_ONEDNN,
        "weights_format",
        "output_padding",
        "dst_shape",
        "reading",
    ),
    "onednn.ConvolutionBackwardWeights": (*_ONEDNN, "weights_format", "weights_shape"),
    "onednn.ConvTransposeBackwardWeights": (
        *_ONEDNN,
        "weights_format",
        "output_padding",
        "weights_shape",
    ),
    "openvino.Convolution": _OPENVINO,
    "openvino.GroupConvolution": _OPENVINO,
    "openvino.ConvolutionBackpropData": (*_OPENVINO, "output_padding", "reading"),
    "openvino.GroupConvolutionBackpropData": (*_OPENVINO, "output_padding", "reading"),
    "onnx.Conv": _ONNX,
    "onnx.ConvTranspose": (*_ONNX, "output_padding", "output_shape"),
    "tconv.conv": _TORCH,
    "tconv.conv_transpose": (*_TORCH, "output_padding"),
    "tconv.conv_grad_input": _TORCH,
    "tconv.conv_grad_weight": _TORCH,
    "tconv.conv_transpose_grad_input": (*_TORCH, "output_padding"),
    "tconv.conv_transpose_grad_weight": (*_TORCH, "output_padding"),
}

# name -> (value, how the message shows it)
NO_LISTS: dict[str, tuple[Any, str]] = {
    "truth": (True, "True"),
    "float": (2.0, "2.0"),
    "text": ("1,1", "'1,1'"),
    "bytes": (b"\x01\x01", "b'\\x01\\x01'"),
    "number": (2, "2"),
    "set": ({1}, "{1}"),
    "dictionary": ({1: 1}, "{1: 1}"),
    "iterator": (iter([1, 1]), "<..."),
    "list of floats": ([1.0, 1.0], "[1.0, 1.0]"),
    "list of not-a-number": ([float("nan")], "[nan]"),
    "list of truths": ([True, 1], "[True, 1]"),
    "list of texts": (["1", "1"], "['1', '1']"),
    "list of None": ([None, 1], "[None, 1]"),
    "nested list": ([[1], [1]], "[[1], [1]]"),
    "list of fractions": ([Fraction(1), 1], "[Fraction(1, 1), 1]"),
    "list of NumPy truths": ([np.True_, 1], "[...True..., 1]"),
    "list of NumPy floats": ([np.float32(1), 1], "[...1.0..., 1]"),
    "list of 0-d arrays": ([np.array(1), 1], "[array(1), 1]"),
    "0-d array": (np.array(1), "array(1)"),
    "float array": (np.array([1.0, 1.0]), "array([1., 1.])"),
    "truth array": (np.array([True]), "array([ True])"),
    "object array": (np.array([1, 1], object), "array([1, 1], dtype=object)"),
    "matrix": (np.ones((2, 2), int), "array([[1, 1],...[1, 1]])"),
    "masked array": (np.ma.array([1, 1], mask=[True, False]), "masked_array(..."),
}
COMMON = ("truth", "float", "text", "list of truths", "nested list", "0-d array")
NO_NUMBERS: dict[str, tuple[Any, str]] = {
    "truth": (True, "True"),
    "NumPy truth": (np.True_, "...True..."),
    "float": (2.0, "2.0"),
    "not-a-number": (float("nan"), "nan"),
    "NumPy float": (np.float64(2), "...2.0..."),
    "text": ("2", "'2'"),
    "None": (None, "None"),
    "list": ([2], "[2]"),
    "0-d array": (np.array(2), "array(2)"),
    "1-d array": (np.array([2]), "array([2])"),
    "complex": (2j, "2j"),
    "fraction": (Fraction(2), "Fraction(2, 1)"),
}
HUGE = 2**63


def _spoilt(callee: Callee, name: str, value: object, note: str, wrong: str, **more: Any) -> Case:  # noqa: ANN401 - handed on
    return Case(
        f"{callee.name}-{name}-{note}",
        callee.title,
        wrong,
        lambda: callee.op(**{name: value}),
        **more,
    )


def _lists(callee: Callee, name: str) -> Iterator[Case]:
    least = LISTS[name]
    # Every kind of value on one attribute of an operator, the commonest on the others.
    kinds = NO_LISTS if name in ("strides", "output_shape") else {n: NO_LISTS[n] for n in COMMON}
    for note, (value, shown) in kinds.items():
        wrong = f"{name} is {shown}, not a list of whole numbers."
        yield _spoilt(callee, name, value, note, wrong)
    yield from _ranges(callee, name, least)


def _ranges(callee: Callee, name: str, least: int) -> Iterator[Case]:
    kind = "positive" if least else "non-negative"
    low = f"{name} has {least - 1}, but its values are {kind}."
    high = f"{name} has {HUGE}, which overflows 64 bits."
    yield _spoilt(callee, name, [1, least - 1], "too small", low)
    yield _spoilt(callee, name, (1, HUGE), "beyond 64 bits", high)
    yield _spoilt(callee, name, np.array([HUGE], np.uint64), "beyond 64 bits in an array", high)


def _numbers(callee: Callee, name: str) -> Iterator[Case]:
    for note, (value, shown) in NO_NUMBERS.items():
        yield _spoilt(callee, name, value, note, f"{name} is {shown}, not a whole number.")
    least = NUMBERS[name]
    yield _spoilt(callee, name, least - 1, "too small", f"{name} is {least - 1}.")
    yield _spoilt(callee, name, np.int8(-1), "negative", f"{name} is -1.")
    yield _spoilt(
        callee, name, HUGE, "beyond 64 bits", f"{name} ... {HUGE}, which overflows 64 bits."
    )


def _one_or_many(callee: Callee, name: str, least: int) -> Iterator[Case]:
    """Spoil what may be one number for all axes, or a list with one for each."""
    for note, (value, shown) in NO_NUMBERS.items():
        if note not in ("list", "1-d array") and (name, note) != ("padding", "text"):
            yield _spoilt(callee, name, value, note, f"{name} is {shown}, not a whole number.")
    for note, (value, shown) in NO_LISTS.items():
        listed = "list" in note or "array" in note or note == "matrix"
        if listed and note != "0-d array" and (name == "stride" or note in COMMON):
            wrong = f"{name} is {shown}, not a list of whole numbers."
            yield _spoilt(callee, name, value, f"listed {note}", wrong)
    yield from _ranges(callee, name, least)
    yield _spoilt(callee, name, least - 1, "one too small", f"{name} is {least - 1}.")


def _words(callee: Callee, name: str) -> Iterator[Case]:
    mistyped, meant = WORDS[name]
    wrong = f"{name} is {{}}, which is none of its words."
    word = meant.upper() if callee.name.startswith("onnx") else meant
    fix = f"did you mean {word!r}?"
    yield _spoilt(callee, name, mistyped, "mistyped", wrong.format(repr(mistyped)), fix=fix)
    for value in ("", "unheard-of", 5, True, ["NXC"], b"valid", float("nan")):
        yield _spoilt(callee, name, value, f"{value!r}", wrong.format(repr(value)))
    if name != "auto_pad":  # there None says "none"
        yield _spoilt(callee, name, None, "None", wrong.format(None))
    shown = f"'{'long' * 14}..."
    yield _spoilt(callee, name, "long" * 10_000, "long", wrong.format(shown))


def _readings(callee: Callee) -> Iterator[Case]:
    fix = f"pass one of: {READINGS}"
    for value in ("Engine", "both", 1, True, ["engine"], np.array(["engine"])):
        shown = repr(value)
        yield _spoilt(callee, "reading", value, shown, f"reading is {shown}.", fix=fix)


def _unknown(callee: Callee) -> Iterator[Case]:
    listed = ATTRIBUTES[callee.name]
    mistyped = {"stride": "strides", "dilatoins": "dilations", "autopad": "auto_pad"}
    if callee.is_function:
        mistyped = {"strides": "stride", "dilations": "dilation", "paddings": "padding"}
    mistyped |= {"Groups": "groups"} if "groups" in listed else {}
    mistyped |= {"groups": "group"} if "group" in listed else {}
    mistyped |= {"output_paddings": "output_padding"} if "output_padding" in listed else {}
    for name, meant in mistyped.items():
        wrong = f"{name!r} is not one of its attributes."
        yield _spoilt(callee, name, 1, "mistyped", wrong, fix=f"did you mean {meant!r}?")
    for name in ("zzzz", "cls", "self", "zz" * 5000):
        wrong = f"{name!r} is not one of its attributes." if len(name) < 100 else "..."
        yield _spoilt(callee, name, [1], f"{name!r:.20}", wrong)
    absent = {"output_padding", "reading", "weights_shape", "output_shape"} - set(listed)
    for name in sorted(absent):
        wrong = f"{name!r} is not one of its attributes."
        yield _spoilt(callee, name, None, "of other operators", wrong)


def _missing(callee: Callee) -> Iterator[Case]:
    required = ("strides", "dilations", "pads_begin", "pads_end")
    if not callee.name.startswith(("onednn", "openvino")):
        return
    for name in required:
        wrong = f"the attribute {name} is missing."
        rest = {key: value for key, value in callee.attributes.items() if key != name}
        yield Case(
            f"{callee.name}-{name}-missing",
            callee.title,
            wrong,
            lambda rest=rest: callee.kind(**rest),  # type: ignore[misc]
            fix=f"pass {name}=",
        )
        yield _spoilt(callee, name, None, "None", wrong, fix=f"pass {name}=")


def _both_paddings(callee: Callee) -> Iterator[Case]:
    if callee.name.startswith("onnx"):
        for word in ("SAME_UPPER", "SAME_LOWER", "VALID"):
            wrong = f"pads and auto_pad={word} are both given."
            yield _spoilt(callee, "auto_pad", word.lower(), f"{word} with pads", wrong)


def _of(callee: Callee) -> Iterator[Case]:
    for name in ATTRIBUTES[callee.name]:
        if callee.is_function and name in ("stride", "dilation", "padding", "output_padding"):
            yield from _one_or_many(callee, name, 0 if "padding" in name else 1)
        elif name in LISTS:
            yield from _lists(callee, name)
        elif name in NUMBERS:
            yield from _numbers(callee, name)
        elif name in WORDS:
            yield from _words(callee, name)
        else:
            yield from _readings(callee)
    yield from _unknown(callee)
    yield from _missing(callee)
    yield from _both_paddings(callee)


CASES = [case for callee in CALLEES.values() for case in _of(callee)]
