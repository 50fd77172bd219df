"""Convolution and ConvTranspose themselves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tconv.dialects.attributes import attribute
from tconv.dialects.call import Call, Line, Sized
from tconv.dialects.onednn.rules import (
    CONVOLUTION,
    FILTER_FORMAT,
    TRANSPOSE,
    TRANSPOSE_PRINTED,
    OneDnnOperator,
    PaddedOperator,
)
from tconv.dialects.padding import gathered, same_total, scattered
from tconv.problem import Operand


@dataclass(frozen=True, kw_only=True, repr=False)
class Convolution(OneDnnOperator):
    """Convolution (oneDNN Graph)."""

    document: ClassVar[str] = "oneDNN Graph Convolution"
    letters: ClassVar[tuple[Mapping[str, str], ...]] = (CONVOLUTION,)
    channel_words: ClassVar[Mapping[str, str]] = {"c": "output", "f": "input"}
    inputs: ClassVar[tuple[str, str]] = ("src", "weights")
    third: ClassVar[str | None] = "bias"
    result: ClassVar[str] = "dst"
    given: ClassVar[tuple[Operand, Operand]] = (Operand.FINE, Operand.WEIGHTS)
    wanted: ClassVar[Operand] = Operand.COARSE

    weights_format: str = attribute(FILTER_FORMAT, default="XIO")

    def _sized(self, call: Call, line: Line) -> Sized:
        return gathered(call, line, self._pads(line, same_total(line)))


@dataclass(frozen=True, kw_only=True, repr=False)
class ConvTranspose(PaddedOperator):
    """ConvTranspose (oneDNN Graph)."""

    document: ClassVar[str] = "oneDNN Graph ConvTranspose"
    letters: ClassVar[tuple[Mapping[str, str], ...]] = (TRANSPOSE, TRANSPOSE_PRINTED)
    channel_words: ClassVar[Mapping[str, str]] = {"c": "input", "f": "output"}
    inputs: ClassVar[tuple[str, str]] = ("src", "weights")
    third: ClassVar[str | None] = "bias"
    result: ClassVar[str] = "dst"
    given: ClassVar[tuple[Operand, Operand]] = (Operand.COARSE, Operand.WEIGHTS)
    wanted: ClassVar[Operand] = Operand.FINE

    weights_format: str = attribute(FILTER_FORMAT, default="XOI")

    def _sized(self, call: Call, line: Line) -> Sized:
        # infer_auto_pad with is_deconv: total = max(window - stride, 0), whatever the size.
        total = None if line.span is None else max(line.span - line.stride, 0)
        return scattered(call, line, self._pads(line, total))
