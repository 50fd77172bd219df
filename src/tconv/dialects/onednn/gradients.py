"""The gradients of Convolution and ConvTranspose, by data and by weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tconv.dialects.attributes import attribute, choice, integers, sizes
from tconv.dialects.call import Call, Given, Line, Shape, Sized, shape_text
from tconv.dialects.onednn.rules import (
    CONVOLUTION,
    FILTER_FORMAT,
    TRANSPOSE,
    TRANSPOSE_PRINTED,
    OneDnnOperator,
    PaddedOperator,
)
from tconv.dialects.padding import gathered, leftover_total, same_total, split
from tconv.dialects.shapes import check_request
from tconv.errors import ProblemError
from tconv.problem import Operand, fine_points


@dataclass(frozen=True, kw_only=True, repr=False)
class _TransposeGradient(PaddedOperator):
    """Gradients of ConvTranspose: output_padding says what the forward operator added."""

    channel_words: ClassVar[Mapping[str, str]] = {"c": "input", "f": "output"}

    def _gathered(self, call: Call, line: Line) -> Sized:
        """Apply the forward convolution's rule to the points before output_padding."""
        bare = line.less_extra()
        if bare.fine is not None and bare.fine < 1:
            call.refuse(
                f"output_padding {line.extra} leaves nothing of the {line.fine} points of "
                f"{call.name(Operand.FINE)} on spatial axis {line.index + 1}.",
                rule="output_padding < the size of the ConvTranspose output",
                fix="pass the output_padding that the forward operator had",
            )
        sized = gathered(call, bare, self._pads(bare, same_total(bare)))
        if line.extra and None not in (sized.size, line.span):
            self._check_exact(call, line, sized)
        return sized

    def _check_exact(self, call: Call, line: Line, sized: Sized) -> None:
        """With output_padding stated, no further points may be left over."""
        pads = (sized.begin or 0) + (sized.end or 0)
        whole = fine_points(sized.size or 0, line.span or 0, line.stride, pads, line.extra)
        if whole != line.fine:
            call.refuse(
                f"with output_padding {line.extra}, spatial axis {line.index + 1} of "
                f"{call.name(Operand.FINE)} has size {whole} or {whole + line.stride}, "
                f"but it is {line.fine}.",
                rule="stride * (X - 1) + (K - 1) * dilation + 1 - pads_begin - pads_end"
                " + output_padding == Y",
                fix="pass the output_padding that the forward operator had",
            )


@dataclass(frozen=True, kw_only=True, repr=False)
class ConvTransposeBackwardData(_TransposeGradient):
    """ConvTransposeBackwardData (oneDNN Graph v3)."""

    document: ClassVar[str] = "oneDNN Graph ConvTransposeBackwardData"
    letters: ClassVar[tuple[Mapping[str, str], ...]] = (TRANSPOSE, TRANSPOSE_PRINTED)
    inputs: ClassVar[tuple[str, str]] = ("diff_dst", "weights")
    result: ClassVar[str] = "diff_src"
    given: ClassVar[tuple[Operand, Operand]] = (Operand.FINE, Operand.WEIGHTS)
    wanted: ClassVar[Operand] = Operand.COARSE

    weights_format: str = attribute(FILTER_FORMAT, default="XOI")

    def _sized(self, call: Call, line: Line) -> Sized:
        return self._gathered(call, line)


@dataclass(frozen=True, kw_only=True, repr=False)
class ConvTransposeBackpropData(_TransposeGradient):
    """ConvTransposeBackpropData-1 (oneDNN Graph preview): the same operator by its old name."""

    document: ClassVar[str] = "ConvTransposeBackpropData-1"
    letters: ClassVar[tuple[Mapping[str, str], ...]] = (TRANSPOSE,)
    inputs: ClassVar[tuple[str, str]] = ("output_delta", "filter")
    result: ClassVar[str] = "input_delta"
    given: ClassVar[tuple[Operand, Operand]] = (Operand.FINE, Operand.WEIGHTS)
    wanted: ClassVar[Operand] = Operand.COARSE

    filter_format: str = attribute(FILTER_FORMAT, default="XIO")

    def _sized(self, call: Call, line: Line) -> Sized:
        return self._gathered(call, line)


@dataclass(frozen=True, kw_only=True, repr=False)
class _ConvolutionGradient(PaddedOperator):
    """The data gradient of Convolution, whose size the caller states."""

    letters: ClassVar[tuple[Mapping[str, str], ...]] = (CONVOLUTION,)
    channel_words: ClassVar[Mapping[str, str]] = {"c": "output", "f": "input"}
    given: ClassVar[tuple[Operand, Operand]] = (Operand.COARSE, Operand.WEIGHTS)
    wanted: ClassVar[Operand] = Operand.FINE

    reading: str | None = attribute(choice(None, "engine", "document"), default=None)

    @property
    def _reading(self) -> str | None:
        return self.reading

    def _asked(self, call: Call, request: Shape | None) -> Shape | None:
        """Return the spatial sizes asked for: "output_shape ... shape of the output tensor".

        "If specified, output_shape attribute will be ignored": the tensor wins.  The full
        rank is the engine's, the spatial part alone an older text's.
        """
        name = str(self.third)
        shape = request if request is not None else self.attributes()[name]
        data, weights = call.operands[Operand.COARSE], call.operands[Operand.WEIGHTS]
        if not shape:
            call.refuse(
                f"{name} is missing.",
                rule=f"{name} is given as the third input or as an attribute",
                fix=f"pass the shape of the result, as attribute {name}= or third argument",
            )
        check_request(self.title(), name, tuple(shape), batched=True)
        count = len(data.spatial)
        if len(shape) == count:
            check_request(self.title(), name, tuple(shape), batched=False)
            return tuple(shape)
        if len(shape) != count + 2:
            call.refuse(
                f"{name} has {len(shape)} values {shape_text(shape)}, but {data.name} has "
                f"{count} spatial axes.",
                rule=f"{name} has {count + 2} values, or {count} for the spatial axes alone",
                fix=f"pass {name} with {count + 2} or {count} values",
            )
        whole = Given(name, tuple(shape), self.data_layout(Operand.FINE), {})
        one = weights.size("f")
        expected = {"n": data.size("n"), "gf": None if one is None else one * self.groups}
        for letter, what in (("n", "batch"), ("gf", "channels")):
            if None not in (whole.size(letter), expected[letter]) and (
                whole.size(letter) != expected[letter]
            ):
                call.refuse(
                    f"{name} {shape_text(shape)} says {whole.size(letter)} for the {what}, but "
                    f"{data.name} and {weights.name} give {expected[letter]}.",
                    rule=f"{name} is the shape of the result in {self.data_format} order",
                    fix=f"write {expected[letter]} there, or pass the spatial sizes alone",
                )
        return whole.spatial

    def _sized(self, call: Call, line: Line) -> Sized:
        if self.auto_pad in ("same_upper", "same_lower"):
            return Sized(*self._pads(line, leftover_total(line)), line.asked)
        begin, end = self._pads(line, None)
        known = None not in (line.coarse, line.span, line.asked, begin, end)
        if known:
            self._check_asked(call, line, (begin or 0) + (end or 0))
        return Sized(begin, end, line.asked)

    def _check_asked(self, call: Call, line: Line, pads: int) -> None:
        """Apply the primitive's rule: floor((Y + pads - window) / stride) + 1 == X."""
        natural = fine_points(line.coarse or 0, line.span or 0, line.stride, pads)
        last = natural + line.stride - 1
        asked = line.asked or 0
        if not natural <= asked <= last and asked != natural + line.extra:
            call.refuse(
                f"{self.third} asks for {asked} on spatial axis {line.index + 1}, but "
                f"the pads leave {natural} to {last}.",
                rule="natural <= output_shape <= natural + stride - 1, natural = "
                "stride * (X - 1) + (K - 1) * dilation + 1 - pads_begin - pads_end",
                fix=f"ask for {max(natural, 1)} to {last}, or change pads_begin and pads_end"
                if last >= 1
                else "take something off pads_begin and pads_end",
            )

    def _printed(self, call: Call, line: Line) -> Sized:
        """Split as the printed formula does: "if auto_pads != SAME_UPPER: pads_begin = // 2"."""
        if self.auto_pad not in ("same_upper", "same_lower"):
            return self._sized(call, line)
        pads = split(leftover_total(line), odd_at_end=self.auto_pad != "same_upper")
        return Sized(*pads, line.asked)


@dataclass(frozen=True, kw_only=True, repr=False)
class ConvolutionBackpropData(_ConvolutionGradient):
    """ConvolutionBackpropData-1 (oneDNN Graph specification)."""

    document: ClassVar[str] = "ConvolutionBackpropData-1"
    inputs: ClassVar[tuple[str, str]] = ("data", "filter")
    third: ClassVar[str | None] = "output_shape"
    result: ClassVar[str] = "output"

    filter_format: str = attribute(FILTER_FORMAT, default="XIO")
    output_shape: Sequence[int] | None = attribute(sizes, default=None)


@dataclass(frozen=True, kw_only=True, repr=False)
class ConvolutionBackwardData(_ConvolutionGradient):
    """ConvolutionBackwardData (oneDNN Graph v3): the same operator by its new name."""

    document: ClassVar[str] = "oneDNN Graph ConvolutionBackwardData"
    inputs: ClassVar[tuple[str, str]] = ("diff_dst", "weights")
    third: ClassVar[str | None] = "dst_shape"
    result: ClassVar[str] = "diff_src"

    weights_format: str = attribute(FILTER_FORMAT, default="XIO")
    dst_shape: Sequence[int] | None = attribute(sizes, default=None)


@dataclass(frozen=True, kw_only=True, repr=False)
class _WeightsGradient(OneDnnOperator):
    """Gradients with respect to the filter, whose shape the caller states."""

    third: ClassVar[str | None] = "weights_shape"
    result: ClassVar[str] = "diff_weights"
    wanted: ClassVar[Operand] = Operand.WEIGHTS

    weights_shape: Sequence[int] | None = attribute(integers(1), default=None)

    def _weights_shape(self, request: Shape | None) -> Shape:
        shape = request if request is not None else self.weights_shape
        if not shape:
            raise ProblemError(
                self.title(),
                "weights_shape is missing.",
                got={},
                rule=f"weights_shape is given as the third input or as an attribute"
                f"   ({self.document})",
                fix="pass the shape of the weights, as attribute weights_shape= or third argument",
            )
        check_request(self.title(), "weights_shape", tuple(shape), batched=False)
        return tuple(shape)

    def _check_count(self, call: Call, line: Line, sized: Sized) -> Sized:
        """Refuse operands that no forward operator with these weights could have had."""
        if None not in (sized.size, line.coarse) and sized.size != line.coarse:
            coarse, fine = call.name(Operand.COARSE), call.name(Operand.FINE)
            call.refuse(
                f"spatial axis {line.index + 1} of {coarse} has size {line.coarse}, but "
                f"{fine} and weights_shape give {sized.size}.",
                rule="X == (Y + pads_begin + pads_end - (K - 1) * dilation - 1) // stride + 1",
                fix=f"pass {coarse} with size {sized.size} there, or the pads it was made with",
            )
        return sized


@dataclass(frozen=True, kw_only=True, repr=False)
class ConvolutionBackwardWeights(_WeightsGradient):
    """ConvolutionBackwardWeights (oneDNN Graph)."""

    document: ClassVar[str] = "oneDNN Graph ConvolutionBackwardWeights"
    letters: ClassVar[tuple[Mapping[str, str], ...]] = (CONVOLUTION,)
    channel_words: ClassVar[Mapping[str, str]] = {"c": "output", "f": "input"}
    inputs: ClassVar[tuple[str, str]] = ("src", "diff_dst")
    given: ClassVar[tuple[Operand, Operand]] = (Operand.FINE, Operand.COARSE)

    weights_format: str = attribute(FILTER_FORMAT, default="XIO")

    def _sized(self, call: Call, line: Line) -> Sized:
        sized = gathered(call, line, self._pads(line, same_total(line)))
        return self._check_count(call, line, sized)


@dataclass(frozen=True, kw_only=True, repr=False)
class ConvTransposeBackwardWeights(_WeightsGradient, _TransposeGradient):
    """ConvTransposeBackwardWeights (oneDNN Graph).

    SAME pads follow the larger picture, diff_dst, as the documents' forward rule
    does; the engine's backend takes src instead, which is a bug.
    """

    document: ClassVar[str] = "oneDNN Graph ConvTransposeBackwardWeights"
    letters: ClassVar[tuple[Mapping[str, str], ...]] = (TRANSPOSE, TRANSPOSE_PRINTED)
    inputs: ClassVar[tuple[str, str]] = ("src", "diff_dst")
    given: ClassVar[tuple[Operand, Operand]] = (Operand.COARSE, Operand.FINE)

    weights_format: str = attribute(FILTER_FORMAT, default="XOI")

    def _sized(self, call: Call, line: Line) -> Sized:
        return self._check_count(call, line, self._gathered(call, line))
