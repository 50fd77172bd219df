"""One sound call of every operator and function, to be spoilt in one place at a time.

All of them share one geometry, so that a case can be written once for many: two groups of
two channels on the grid of the windows and three on the other, a window of 3 by 2 points.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import tconv
from tconv.dialects import functional

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

GROUPS = 2
SMALL, LARGE = (3, 4), (5, 4)  # spatial sizes: one point a window, and what the windows cover
KERNEL = (3, 2)
STRIDES, DILATIONS, PADS = (2, 1), (1, 2), (1, 1)

ONEDNN = {
    "strides": STRIDES,
    "dilations": DILATIONS,
    "pads_begin": PADS,
    "pads_end": PADS,
    "groups": GROUPS,
}
OPENVINO = {name: value for name, value in ONEDNN.items() if name != "groups"}
ONNX = {"strides": STRIDES, "dilations": DILATIONS, "pads": PADS * 2, "group": GROUPS}
TORCH = {"stride": STRIDES, "dilation": DILATIONS, "padding": PADS, "groups": GROUPS}


@dataclass(frozen=True)
class Callee:
    """An operator or function with attributes and shapes that fit each other."""

    name: str  # "onednn.Convolution", "tconv.conv"
    kind: Any  # the class whose instances infer shapes
    attributes: Mapping[str, Any]
    shapes: tuple[Shape, Shape]  # of the two arrays, in the operator's order
    third: Shape | None = None  # sizes that the call cannot do without
    result: Shape = field(default=())

    @property
    def title(self) -> str:
        """How messages name it."""
        return self.name.replace(".", " ")

    @property
    def is_function(self) -> bool:
        """Whether it is one of the NumPy functions."""
        return self.name.startswith("tconv.")

    @property
    def inputs(self) -> tuple[str, str]:
        """The document's words for the two arrays."""
        first, second = self.kind.inputs
        return str(first), str(second)

    def op(self, /, **changes: object) -> Any:  # noqa: ANN401 - twenty classes
        """Return the operator, some attributes changed."""
        return self.kind(**{**self.attributes, **changes})

    def infer(
        self, first: object = None, second: object = None, third: object = None, **changes: object
    ) -> object:
        """Infer the result's shape, some shapes and attributes changed."""
        shapes = [
            mine if said is None else said
            for mine, said in zip(self.shapes, (first, second), strict=True)
        ]
        return self.op(**changes).infer_shape(*shapes, self.third if third is None else third)

    def arrays(self, dtype: npt.DTypeLike = np.float32, seed: int = 0) -> tuple[Array, Array]:
        """Return two arrays of small whole numbers, so that every sum is exact."""
        numbers = np.random.default_rng(seed)
        first, second = (numbers.integers(-4, 5, shape).astype(dtype) for shape in self.shapes)
        return first, second

    def bias(self, dtype: npt.DTypeLike = np.float32) -> Array | None:
        """Return a bias if the operator takes one."""
        if self.kind.third not in ("bias", "B"):
            return None
        last = self.attributes.get("data_format", "NXC") == "NXC" and self.name.startswith("onednn")
        return np.arange(self.result[-1 if last else 1]).astype(dtype)

    def run(
        self,
        first: object,
        second: object,
        third: object = None,
        *,
        out: object = None,
        **changes: object,
    ) -> Any:  # noqa: ANN401 - an array, or whatever a wrong call would give
        """Call it on two arrays in the operator's order."""
        third = self.third if third is None else third
        if not self.is_function:
            return self.op(**changes)(first, second, third, out=out)
        words = {**self.attributes, **changes, "out": out}
        function = getattr(tconv, self.name.removeprefix("tconv."))
        if "grad_input" in self.name:
            return function(third, second, first, **words)
        if "grad_weight" in self.name:
            return function(first, third, second, **words)
        return function(first, second, third, **words)


def _last(channels: int, spatial: Shape) -> Shape:
    return (2, *spatial, channels)


def _first(channels: int, spatial: Shape) -> Shape:
    return (2, channels, *spatial)


# oneDNN: channels last.  In a Convolution the windows' grid is the output, in a ConvTranspose
# it is the input; XIO and XOI both end up as (*KERNEL, 3, 4), the preview's XIO as (..., 4, 3).
_N, _V, _O, _F = tconv.onednn, tconv.openvino, tconv.onnx, functional
_SMALL, _LARGE = _last(4, SMALL), _last(6, LARGE)
_small, _large = _first(4, SMALL), _first(6, LARGE)
_WEIGHTS = (*KERNEL, 3, 4)
_weights = (4, 3, *KERNEL)

_TABLE = (
    ("onednn.Convolution", _N.Convolution, ONEDNN, (_LARGE, _WEIGHTS), None, _SMALL),
    ("onednn.ConvTranspose", _N.ConvTranspose, ONEDNN, (_SMALL, _WEIGHTS), None, _LARGE),
    (
        "onednn.ConvTransposeBackwardData",
        _N.ConvTransposeBackwardData,
        ONEDNN,
        (_LARGE, _WEIGHTS),
        None,
        _SMALL,
    ),
    (
        "onednn.ConvTransposeBackpropData",
        _N.ConvTransposeBackpropData,
        ONEDNN,
        (_LARGE, (*KERNEL, 4, 3)),
        None,
        _SMALL,
    ),
    (
        "onednn.ConvolutionBackpropData",
        _N.ConvolutionBackpropData,
        ONEDNN,
        (_SMALL, _WEIGHTS),
        _LARGE,
        _LARGE,
    ),
    (
        "onednn.ConvolutionBackwardData",
        _N.ConvolutionBackwardData,
        ONEDNN,
        (_SMALL, _WEIGHTS),
        _LARGE,
        _LARGE,
    ),
    (
        "onednn.ConvolutionBackwardWeights",
        _N.ConvolutionBackwardWeights,
        ONEDNN,
        (_LARGE, _SMALL),
        _WEIGHTS,
        _WEIGHTS,
    ),
    (
        "onednn.ConvTransposeBackwardWeights",
        _N.ConvTransposeBackwardWeights,
        ONEDNN,
        (_SMALL, _LARGE),
        _WEIGHTS,
        _WEIGHTS,
    ),
    ("openvino.Convolution", _V.Convolution, OPENVINO, (_large, (4, 6, *KERNEL)), None, _small),
    (
        "openvino.GroupConvolution",
        _V.GroupConvolution,
        OPENVINO,
        (_large, (2, 2, 3, *KERNEL)),
        None,
        _small,
    ),
    (
        "openvino.ConvolutionBackpropData",
        _V.ConvolutionBackpropData,
        OPENVINO,
        (_small, (4, 6, *KERNEL)),
        None,
        _large,
    ),
    (
        "openvino.GroupConvolutionBackpropData",
        _V.GroupConvolutionBackpropData,
        OPENVINO,
        (_small, (2, 2, 3, *KERNEL)),
        None,
        _large,
    ),
    ("onnx.Conv", _O.Conv, ONNX, (_large, _weights), None, _small),
    ("onnx.ConvTranspose", _O.ConvTranspose, ONNX, (_small, _weights), None, _large),
    ("tconv.conv", _F.Conv, TORCH, (_large, _weights), None, _small),
    ("tconv.conv_transpose", _F.ConvTranspose, TORCH, (_small, _weights), None, _large),
    ("tconv.conv_grad_input", _F.ConvGradInput, TORCH, (_small, _weights), _large, _large),
    ("tconv.conv_grad_weight", _F.ConvGradWeight, TORCH, (_large, _small), _weights, _weights),
    (
        "tconv.conv_transpose_grad_input",
        _F.ConvTransposeGradInput,
        TORCH,
        (_large, _weights),
        _small,
        _small,
    ),
    (
        "tconv.conv_transpose_grad_weight",
        _F.ConvTransposeGradWeight,
        TORCH,
        (_small, _large),
        _weights,
        _weights,
    ),
)

CALLEES = {row[0]: Callee(*row) for row in _TABLE}
OPERATORS = {name: callee for name, callee in CALLEES.items() if not callee.is_function}
