"""One sound call of every operator and function, to be spoilt in one place at a time.

All of them share one geometry, so that a case can be written once for many: two groups of
two channels on the grid of the windows and three on the other, a window of 3 by 2 points.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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
    third: Shape | None  # sizes that the call cannot do without
    result: Shape

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
        **changes: Any,  # noqa: ANN401 - any attribute
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


_SMALL, _LARGE = (2, 4, *SMALL), (2, 6, *LARGE)
_WEIGHTS = (4, 3, *KERNEL)
# oneDNN: channels last.  In a Convolution the windows' grid is the output, in a ConvTranspose
# it is the input; XIO and XOI both end up as (..., 3, 4), the preview's XIO as (..., 4, 3).
_SMALL_LAST, _LARGE_LAST = (2, *SMALL, 4), (2, *LARGE, 6)
_WEIGHTS_LAST = (*KERNEL, 3, 4)


def _onednn(
    kind: type, shapes: tuple[Shape, Shape], result: Shape, third: Shape | None = None
) -> Callee:
    return Callee(f"onednn.{kind.__name__}", kind, ONEDNN, shapes, third, result)


def _openvino(kind: type, shapes: tuple[Shape, Shape], result: Shape) -> Callee:
    return Callee(f"openvino.{kind.__name__}", kind, OPENVINO, shapes, None, result)


def _onnx(kind: type, shapes: tuple[Shape, Shape], result: Shape) -> Callee:
    return Callee(f"onnx.{kind.__name__}", kind, ONNX, shapes, None, result)


def _function(
    kind: Any,  # noqa: ANN401 - a class with a name of its own
    shapes: tuple[Shape, Shape],
    result: Shape,
    third: Shape | None = None,
) -> Callee:
    return Callee(f"tconv.{kind.name}", kind, TORCH, shapes, third, result)


_EIGHT = tconv.onednn
_FOUR = tconv.openvino
_TABLE = (
    _onednn(_EIGHT.Convolution, (_LARGE_LAST, _WEIGHTS_LAST), _SMALL_LAST),
    _onednn(_EIGHT.ConvTranspose, (_SMALL_LAST, _WEIGHTS_LAST), _LARGE_LAST),
    _onednn(_EIGHT.ConvTransposeBackwardData, (_LARGE_LAST, _WEIGHTS_LAST), _SMALL_LAST),
    _onednn(_EIGHT.ConvTransposeBackpropData, (_LARGE_LAST, (*KERNEL, 4, 3)), _SMALL_LAST),
    _onednn(_EIGHT.ConvolutionBackpropData, (_SMALL_LAST, _WEIGHTS_LAST), _LARGE_LAST, _LARGE_LAST),
    _onednn(_EIGHT.ConvolutionBackwardData, (_SMALL_LAST, _WEIGHTS_LAST), _LARGE_LAST, _LARGE_LAST),
    _onednn(
        _EIGHT.ConvolutionBackwardWeights,
        (_LARGE_LAST, _SMALL_LAST),
        _WEIGHTS_LAST,
        _WEIGHTS_LAST,
    ),
    _onednn(
        _EIGHT.ConvTransposeBackwardWeights,
        (_SMALL_LAST, _LARGE_LAST),
        _WEIGHTS_LAST,
        _WEIGHTS_LAST,
    ),
    _openvino(_FOUR.Convolution, (_LARGE, (4, 6, *KERNEL)), _SMALL),
    _openvino(_FOUR.GroupConvolution, (_LARGE, (2, 2, 3, *KERNEL)), _SMALL),
    _openvino(_FOUR.ConvolutionBackpropData, (_SMALL, (4, 6, *KERNEL)), _LARGE),
    _openvino(_FOUR.GroupConvolutionBackpropData, (_SMALL, (2, 2, 3, *KERNEL)), _LARGE),
    _onnx(tconv.onnx.Conv, (_LARGE, _WEIGHTS), _SMALL),
    _onnx(tconv.onnx.ConvTranspose, (_SMALL, _WEIGHTS), _LARGE),
    _function(functional.Conv, (_LARGE, _WEIGHTS), _SMALL),
    _function(functional.ConvTranspose, (_SMALL, _WEIGHTS), _LARGE),
    _function(functional.ConvGradInput, (_SMALL, _WEIGHTS), _LARGE, _LARGE),
    _function(functional.ConvGradWeight, (_LARGE, _SMALL), _WEIGHTS, _WEIGHTS),
    _function(functional.ConvTransposeGradInput, (_LARGE, _WEIGHTS), _SMALL, _SMALL),
    _function(functional.ConvTransposeGradWeight, (_SMALL, _LARGE), _WEIGHTS, _WEIGHTS),
)

CALLEES = {callee.name: callee for callee in _TABLE}
OPERATORS = {name: callee for name, callee in CALLEES.items() if not callee.is_function}
