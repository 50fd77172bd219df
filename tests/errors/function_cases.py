"""What only the NumPy functions refuse, what 64 bits cannot count, and the settings."""

from collections.abc import Iterator

import numpy as np

import tconv
from errors.callees import CALLEES, Callee
from errors.case import Case
from errors.shape_cases import FULLY, infer, put
from tconv.settings import Settings

TOP = 2**62
LONG = "9" * 5000


def _input_shapes() -> Iterator[Case]:
    for name, place in (("conv_grad_input", 2), ("conv_transpose_grad_input", 2)):
        callee = CALLEES[f"tconv.{name}"]
        shape = callee.third or ()
        for wrong_shape in (shape[1:], shape[2:], (*shape, 1)):
            count = len(wrong_shape)
            wrong = f"input_shape has {count} sizes, but weight has 2 spatial axes."
            yield infer(callee, f"{count} sizes", wrong, None, None, wrong_shape)
        right = shape[1]
        for what, spoilt, said, good in (
            ("batch", put(shape, 0, 3), 3, 2),
            ("channels", put(shape, 1, 9), 9, right),
        ):
            wrong = (
                f"input_shape {spoilt} says {said} for the {what}, "
                f"but grad_output and weight give {good}."
            )
            yield infer(callee, f"other {what}", wrong, None, None, spoilt)
        forward = name.removesuffix("_grad_input")
        size = 3 if forward == "conv" else 5
        gives = 4 if forward == "conv" else 7
        larger = put(shape, place, shape[place] + (2 if forward == "conv" else 1))
        wrong = f"grad_output has size {size} on spatial axis 1, but {forward} gives {gives} there."
        yield infer(callee, "other size", wrong, None, None, larger)


def _weight_shapes() -> Iterator[Case]:
    for forward, size, gives in (("conv", 3, 2), ("conv_transpose", 5, 6)):
        callee = CALLEES[f"tconv.{forward}_grad_weight"]
        wrong = f"grad_output has size {size} on spatial axis 1, but {forward} gives {gives} there."
        yield infer(callee, "other size", wrong, None, None, (4, 3, 4, 2))
        wrong = "weight_shape has 1 spatial axes, but input has 2."
        yield infer(callee, "three sizes", wrong, None, None, (4, 3, 3))


def _same() -> Iterator[Case]:
    for name in ("conv", "conv_grad_input", "conv_grad_weight"):
        callee = CALLEES[f"tconv.{name}"]
        yield infer(callee, "same", "padding='same' with a stride of 2.", padding="same")
        for word in ("smae", "SAME_UPPER", ""):
            wrong = f"padding is {word!r}, which is none of its words."
            yield infer(callee, f"padding {word!r}", wrong, padding=word)
    for name in ("conv_transpose", "conv_transpose_grad_input", "conv_transpose_grad_weight"):
        callee = CALLEES[f"tconv.{name}"]
        wrong = "padding is 'same', not a whole number."
        yield infer(callee, "same", wrong, padding="same")


def _missing_shapes() -> Iterator[Case]:
    for name in ("conv_grad_input", "conv_transpose_grad_input", "conv_grad_weight"):
        callee = CALLEES[f"tconv.{name}"]
        third = callee.kind.third
        first, second = callee.arrays()
        order = (None, second, first) if third == "input_shape" else (first, None, second)
        yield Case(
            f"{callee.name}-shape None",
            callee.title,
            f"{third} is None, not a list of whole numbers.",
            lambda name=name, order=order: getattr(tconv, name)(*order),  # type: ignore[misc]
        )


# Results that scatter: a stride of 2**62 between three points is too far for 64 bits.
_SCATTER = {
    "onednn.ConvTranspose": "strides",
    "openvino.ConvolutionBackpropData": "strides",
    "openvino.GroupConvolutionBackpropData": "strides",
    "onnx.ConvTranspose": "strides",
    "tconv.conv_transpose": "stride",
}


def _overflows() -> Iterator[Case]:
    for name, stride in _SCATTER.items():
        callee = CALLEES[name]
        size = 2 * TOP + 3 - 2
        wrong = f"a size of the result would be {size}, which overflows 64 bits."
        yield infer(callee, "stride beyond 64 bits", wrong, **{stride: (TOP, 1)})
        wrong = "the number of bytes of the result would be ..., which overflows 64 bits."
        yield infer(callee, "bytes beyond 64 bits", wrong, **{stride: (TOP // 2, 1)})
    none = {"groups": TOP, "dilations": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0)}
    for name, shapes, changes in (
        ("onednn.ConvTranspose", ((1, 1, 1, TOP), (1, 1, 4, TOP)), none),
        (
            "onnx.ConvTranspose",
            ((1, TOP, 1, 1), (TOP, 4, 1, 1)),
            {"group": TOP, "pads": (0,) * 4, "dilations": (1, 1)},
        ),
        (
            "tconv.conv_transpose",
            ((1, TOP, 1, 1), (TOP, 4, 1, 1)),
            {"groups": TOP, "padding": 0, "dilation": 1},
        ),
    ):
        wrong = f"a size of the result would be {4 * TOP}, which overflows 64 bits."
        yield infer(CALLEES[name], "channels beyond 64 bits", wrong, *shapes, **changes)
    yield from _window_overflows()


def _window_overflows() -> Iterator[Case]:
    """Ask for a filter that is too large to count."""
    callee = CALLEES["onednn.ConvolutionBackwardWeights"]
    pads = {"pads_begin": (TOP, 1), "pads_end": (TOP, 1), "strides": (1, 1)}
    shapes = ((2, 5, 4, 6), (2, 7, 4, 4), (2 * TOP - 1, 2, 3, 4))
    wrong = "the number of bytes of the result would be ..., which overflows 64 bits."
    yield infer(callee, "bytes beyond 64 bits", wrong, *shapes, **pads)


def _digits(callee: Callee) -> Iterator[Case]:
    """Python refuses to print numbers of more than 4300 digits."""
    huge = 10**5000
    yield infer(callee, "shape of 5001 digits", "...", put(callee.shapes[0], 1, huge))
    for name in ("groups", "group", "stride", "strides"):
        if name in callee.attributes:
            value = huge if name.startswith("group") else [1, huge]
            yield infer(callee, f"{name} of 5001 digits", f"{name} ...", **{name: value})
    if callee.third is not None:
        yield infer(callee, "third of 5001 digits", "...", None, None, put(callee.third, 1, huge))


def _settings() -> Iterator[Case]:
    for name, value in (
        ("TCONV_ENGINE", "cuda"),
        ("TCONV_NUM_THREADS", "0"),
        ("TCONV_NUM_THREADS", "-1"),
        ("TCONV_NUM_THREADS", "two"),
        ("TCONV_NUM_THREADS", "2.0"),
        ("TCONV_NUM_THREADS", "²"),
        ("TCONV_NUM_THREADS", " "),
    ):
        yield Case(
            f"settings-{name}={value}",
            "tconv settings",
            f"the environment variable {name} is {value!r}.",
            lambda name=name, value=value: Settings.read({name: value}),  # type: ignore[misc]
        )
    yield Case(
        "settings-TCONV_NUM_THREADS of 5000 digits",
        "tconv settings",
        "the environment variable TCONV_NUM_THREADS is '9...",
        lambda: Settings.read({"TCONV_NUM_THREADS": LONG}),
    )


def _threads() -> Iterator[Case]:
    for value, wrong in (
        (0, "count is 0."),
        (-1, "count is -1."),
        (True, "count is True, not a whole number."),
        ("2", "count is '2', not a whole number."),
        (2.0, "count is 2.0, not a whole number."),
        (None, "count is None, not a whole number."),
        (np.array(2), "count is array(2), not a whole number."),
        (2**63, f"count ... {2**63}, which overflows 64 bits."),
        (10**5000, "count ..."),
    ):
        shown = "5001 digits" if isinstance(value, int) and value > 2**63 else f"{value!r}"
        yield Case(
            f"set_num_threads-{shown}",
            "tconv set_num_threads",
            wrong,
            lambda value=value: tconv.set_num_threads(value),  # type: ignore[misc]
        )


CASES = [
    *_input_shapes(),
    *_weight_shapes(),
    *_same(),
    *_missing_shapes(),
    *_overflows(),
    *(case for name in FULLY for case in _digits(CALLEES[name])),
    *_settings(),
    *_threads(),
]
