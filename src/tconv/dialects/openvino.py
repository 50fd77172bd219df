"""OpenVINO's four operators of the family, version opset1.

Source: the page GroupConvolutionBackpropData-1 and its siblings; where the page contradicts
OpenVINO's shape inference, docs/dialects.md says which wins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tconv.dialects.attributes import attribute, choice, integers, word
from tconv.dialects.call import Call, Line, Shape, Size, Sized, shape_text
from tconv.dialects.openvino_xml import layer_text
from tconv.dialects.operator import Operator, ShapeLike
from tconv.dialects.padding import gathered, leftover_total, same_total, scattered, split
from tconv.dialects.record import missing
from tconv.dialects.shapes import check_request
from tconv.problem import Layout, Operand

# The engine's enumeration: NOTSET is EXPLICIT, AUTO is SAME_UPPER, in any case.
AUTO_PAD = word(
    ("explicit", "same_upper", "same_lower", "valid"),
    {"notset": "explicit", "none": "explicit", "auto": "same_upper"},
)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Operator(Operator):
    """Attributes and rules that all four pages share."""

    dialect: ClassVar[str] = "openvino"
    inputs: ClassVar[tuple[str, str]] = ("data", "filter")
    result: ClassVar[str] = "output"
    any_number: ClassVar[bool] = True
    grouped: ClassVar[bool]

    strides: Sequence[int] = attribute(integers(1))  # "positive integers"
    pads_begin: Sequence[int] | None = attribute(integers(0), default=None)
    pads_end: Sequence[int] | None = attribute(integers(0), default=None)
    dilations: Sequence[int] = attribute(integers(1))  # "positive integers"
    auto_pad: str | None = attribute(AUTO_PAD, default="explicit")

    def __post_init__(self) -> None:
        """Check what one attribute demands of another."""
        super().__post_init__()
        for name in ("strides", "dilations"):
            if getattr(self, name) is None:
                raise missing(self.title(), self.document, name, {})
        for name in ("pads_begin", "pads_end"):
            # "the attribute is ignored when auto_pad attribute is specified."
            if getattr(self, name) is None and self.auto_pad == "explicit":
                raise missing(self.title(), self.document, name, self.attributes())

    def to_xml(
        self,
        data: ShapeLike,
        filter: ShapeLike,  # noqa: A002 - the page's word
        output_shape: ShapeLike | None = None,
    ) -> str:
        """Return the operator as a ``<layer>`` element with the ports of these shapes."""
        resolved = self.resolve(data, filter, output_shape)
        attributes = {
            name: value
            for name, value in self.attributes().items()
            if value is not None and name != "reading"
        }
        ports: list[Shape] = [tuple(data), tuple(filter)]
        if output_shape is not None:
            ports.append((len(output_shape),))
        return layer_text(type(self).__name__, attributes, ports, resolved.shape)

    def weights_layouts(self) -> tuple[Layout, ...]:
        return (Layout("g c f x" if self.grouped else "gc f x"),)

    def data_layout(self, operand: Operand) -> Layout:
        return Layout("n gc x" if operand is Operand.COARSE else "n gf x")

    def _words(self, operand: Operand) -> Mapping[str, str]:
        names = {
            letter: "CIN" if said == "input" else "COUT"
            for letter, said in self.channel_words.items()
        }
        blocked = "G*" if self.grouped else ""
        return {
            "n": "N",
            "g": "G",
            "x": "K" if operand is Operand.WEIGHTS else "X",
            "gc": blocked + names["c"],
            "gf": blocked + names["f"],
            **names,
        }

    def _groups(self, call: Call) -> Size:
        if not self.grouped:
            return 1
        data, weights = call.operands.values()
        groups = weights.size("g")
        if groups is not None:
            return groups
        # Not known yet, but the data's channels over those of one group tell it.
        letter = "c" if self.wanted is Operand.FINE else "f"
        total, one = data.size(f"g{letter}"), weights.size(letter)
        if total is None or one is None:
            return None
        if total % one:
            call.refuse(
                f"{data.name} has {total} channels, not a multiple of the {one} that "
                f"{weights.name} takes in a group.",
                rule=f"{data.name}.shape[1] is a multiple of the channels of one group",
                fix=f"pass {data.name} with a multiple of {one} channels",
            )
        return total // one

    def _check_ranks(self, call: Call) -> None:
        data = next(iter(call.operands.values()))
        if len(data.shape) > 5:
            call.refuse(
                f"{data.name} has {len(data.shape)} axes, but 3, 4 or 5 are expected.",
                rule=f"{data.name} is a 3D, 4D or 5D tensor",
                fix="use the NumPy functions conv and conv_transpose, which take any rank",
            )

    def _lines(self, call: Call, request: Shape | None) -> tuple[Line, ...]:
        data = next(iter(call.operands.values()))
        count = len(data.spatial)
        # The engine fills in empty lists: strides and dilations with 1, pads with 0.
        strides, dilations = self.strides or (1,) * count, self.dilations or (1,) * count
        zeros = (0,) * count
        begin, end = self.pads_begin or zeros, self.pads_end or zeros
        if self.auto_pad != "explicit":
            begin = end = zeros  # "ignored when auto_pad is specified"
        extra = self.attributes().get("output_padding") or zeros
        call.check_lengths(
            strides=tuple(strides),
            pads_begin=tuple(begin),
            pads_end=tuple(end),
            dilations=tuple(dilations),
            output_padding=tuple(extra),
        )
        if request is not None:
            check_request(self.title(), "output_shape", request, batched=False)
        if request is not None and len(request) != count:
            call.refuse(
                f"output_shape has {len(request)} values {shape_text(request)}, but data has "
                f"{count} spatial axes.",
                rule="output_shape specifies only spatial dimensions",
                fix=f"pass {count} values; no batch, no channels",
            )
        return call.lines(
            strides=strides, dilations=dilations, pads=(begin, end), extra=extra, asked=request
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class _Forward(_Operator):
    """Convolution and GroupConvolution."""

    given: ClassVar[tuple[Operand, Operand]] = (Operand.FINE, Operand.WEIGHTS)
    wanted: ClassVar[Operand] = Operand.COARSE
    channel_words: ClassVar[Mapping[str, str]] = {"c": "output", "f": "input"}

    def _sized(self, call: Call, line: Line) -> Sized:
        pads: tuple[Size, Size] = (line.begin, line.end)  # zeros when auto_pad is valid
        if self.auto_pad in ("same_upper", "same_lower"):
            # "In case of odd padding value an extra padding is added at the end
            # (at the beginning)": so forwards, and the other way round backwards.
            pads = split(same_total(line), odd_at_end=self.auto_pad == "same_upper")
        return gathered(call, line, pads)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Backward(_Operator):
    """ConvolutionBackpropData and GroupConvolutionBackpropData."""

    third: ClassVar[str | None] = "output_shape"
    given: ClassVar[tuple[Operand, Operand]] = (Operand.COARSE, Operand.WEIGHTS)
    wanted: ClassVar[Operand] = Operand.FINE
    channel_words: ClassVar[Mapping[str, str]] = {"c": "input", "f": "output"}

    # "non-negative integer values", "all zeros"; the engine sets no upper limit.
    output_padding: Sequence[int] | None = attribute(integers(0), default=None)
    reading: str | None = attribute(choice(None, "engine", "document"), default=None)

    @property
    def _reading(self) -> str | None:
        return self.reading

    def _sized(self, call: Call, line: Line) -> Sized:
        if not line.stated:
            # Without output_shape, same_* sets the pads to 0: it is not "same" here.
            return scattered(call, line, (line.begin, line.end))
        if self.auto_pad in ("same_upper", "same_lower"):
            return self._printed(call, line)
        # The engine keeps explicit pads: output_shape crops or extends at the end.
        return Sized(line.begin, line.end, line.asked)

    def _printed(self, call: Call, line: Line) -> Sized:
        """Follow "If output_shape is specified, pads_begin and pads_end are ignored"."""
        if not line.stated:
            return self._sized(call, line)
        # The formula splits at the beginning "if auto_pads != SAME_UPPER".
        pads = split(leftover_total(line), odd_at_end=self.auto_pad != "same_upper")
        return Sized(*pads, line.asked)


class GroupConvolutionBackpropData(_Backward):
    """GroupConvolutionBackpropData-1 (OpenVINO)."""

    document: ClassVar[str] = "GroupConvolutionBackpropData-1"
    grouped: ClassVar[bool] = True

    def _check_ranks(self, call: Call) -> None:
        """Accept any rank: "input tensor of rank 3 or greater", though the engine stops at 5."""


class ConvolutionBackpropData(_Backward):
    """ConvolutionBackpropData-1 (OpenVINO)."""

    document: ClassVar[str] = "ConvolutionBackpropData-1"
    grouped: ClassVar[bool] = False


class Convolution(_Forward):
    """Convolution-1 (OpenVINO)."""

    document: ClassVar[str] = "Convolution-1"
    grouped: ClassVar[bool] = False


class GroupConvolution(_Forward):
    """GroupConvolution-1 (OpenVINO)."""

    document: ClassVar[str] = "GroupConvolution-1"
    grouped: ClassVar[bool] = True
