"""Results that no machine can hold: refused at once, and before anything is allocated."""

from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

import tconv
from errors.callees import CALLEES, OPERATORS, Array, Callee, Shape
from errors.case import Case
from errors.shape_cases import put

FAR = 2**44  # points: 64 TiB of float32, which numpy cannot allocate anywhere

# Operators whose result grows with the stride.
SCATTER = {
    "onednn.ConvTranspose": "strides",
    "openvino.ConvolutionBackpropData": "strides",
    "openvino.GroupConvolutionBackpropData": "strides",
    "onnx.ConvTranspose": "strides",
    "tconv.conv_transpose": "stride",
}
TOO_LARGE = "... of shape ... cannot be allocated: ..."


def endless(shape: Shape, dtype: npt.DTypeLike = np.float32) -> Array:
    """Return an array of any shape that occupies one element."""
    return np.broadcast_to(np.ones((), dtype), shape)


def _refused(callee: Callee, note: str, call: object, wrong: str = TOO_LARGE) -> Case:
    return Case(
        f"{callee.name}-{note}",
        callee.title,
        wrong,
        call,  # type: ignore[arg-type]
        kind=tconv.UnsupportedError,
    )


def _strides() -> Iterator[Case]:
    for name, stride in SCATTER.items():
        callee = CALLEES[name]
        for dtype in ("float32", "float16", "bfloat16"):
            arrays = callee.arrays(dtype)
            yield _refused(
                callee,
                f"stride for {dtype}",
                lambda callee=callee, arrays=arrays, far={stride: (FAR, 1)}: callee.run(
                    *arrays, **far
                ),
            )


def _inputs(callee: Callee) -> Iterator[Case]:
    """Pass an input that is larger than memory, since its strides are 0."""
    place = 1 if callee.name.startswith("onednn") else 2
    third = callee.third
    if "conv_transpose_grad" in callee.name or third is not None:
        return  # there the sizes are tied to another array's
    for order in ("=", ">"):
        dtype = np.dtype(f"{order}f4")
        first = endless(put(callee.shapes[0], place, FAR), dtype)
        second = callee.arrays()[1]
        yield _refused(
            callee,
            f"{callee.inputs[0]} without end, byte order {order}",
            lambda first=first, second=second: callee.run(first, second),
        )


def _weights() -> Iterator[Case]:
    for callee in OPERATORS.values():
        if callee.kind.inputs[1] not in ("weights", "filter", "W"):
            continue
        place = 0 if callee.name.startswith("onednn") else len(callee.shapes[1]) - 2
        weights = endless(put(callee.shapes[1], place, FAR))
        yield _refused(
            callee,
            "bind without end",
            lambda callee=callee, weights=weights: callee.op().bind(weights),
            wrong="...",
        )
    callee = CALLEES["onednn.ConvolutionBackwardWeights"]
    pads: dict[str, Any] = {"pads_begin": (FAR, 1), "strides": (1, 1)}
    first, second = callee.arrays()
    window = FAR + 5 + 1 - 3 + 1
    yield _refused(
        callee,
        "window without end",
        lambda: callee.run(first, second, (window, 2, 3, 4), **pads),
    )


def _windows() -> Iterator[Case]:
    for name in ("onnx.Conv", "onnx.ConvTranspose"):
        callee = CALLEES[name]
        shapes = (1, 4, FAR), (4, 4, FAR)
        yield _refused(
            callee,
            "plan for a window without end",
            lambda callee=callee, shapes=shapes: callee.kind().plan(*shapes),
            wrong=f"the window has {FAR} elements.",
        )


def most_axes() -> int:
    """Return how many axes NumPy's arrays can have: 64, or 32 before version 2."""
    try:
        return np.empty((1,) * 64).ndim
    except ValueError:
        return 32


def _axes_and_counts() -> Iterator[Case]:
    """Come to the end of what NumPy can describe, whatever the memory."""
    ones = np.ones((1,) * most_axes(), np.float32)
    for name in ("tconv.conv", "tconv.conv_transpose"):
        callee = CALLEES[name]
        function = getattr(tconv, name.removeprefix("tconv."))
        yield _refused(
            callee,
            "axes without end",
            lambda function=function: function(ones, ones),
            wrong=f"there are {most_axes() - 2} spatial axes.",
        )
    for name, stride in SCATTER.items():
        callee = CALLEES[name]
        first, second = callee.arrays()
        yield _refused(
            callee,
            "empty batch of endless pictures",
            lambda callee=callee, arrays=(first[:0], second), far={stride: (2**60, 1)}: callee.run(
                *arrays, **far
            ),
        )


def _no_memory() -> Iterator[Case]:
    """Where the machine does not tell its memory, the allocation itself must."""

    def run(callee: Callee, dtype: str, stride: int) -> object:
        arrays = callee.arrays(dtype)
        with mock.patch("os.sysconf", side_effect=OSError, create=True):
            return callee.run(*arrays, **{SCATTER[callee.name]: (stride, 1)})

    for name in SCATTER:
        callee = CALLEES[name]
        for dtype, stride in (("float32", FAR), ("float16", 2**55)):
            yield _refused(
                callee,
                f"memory not told, {dtype}",
                lambda callee=callee, dtype=dtype, stride=stride: run(callee, dtype, stride),
            )


TOLD = [
    *_strides(),
    *(case for callee in CALLEES.values() for case in _inputs(callee)),
    *_weights(),
    *_windows(),
    *_axes_and_counts(),
]
CASES = [*TOLD, *_no_memory()]
