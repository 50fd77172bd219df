"""Attributes, words and layouts that all pages of oneDNN Graph share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tconv.dialects.attributes import attribute, integer, integers, word
from tconv.dialects.call import Call, Line, Shape, Size
from tconv.dialects.operator import Operator
from tconv.dialects.padding import split
from tconv.dialects.record import missing
from tconv.problem import Layout, Operand

# "none (not specified)" is spelled None, NONE, explicit and notset by one engine or another.
AUTO_PAD = word(
    ("none", "same_upper", "same_lower", "valid"), {"explicit": "none", "notset": "none"}
)
# Pages disagree on which two of these an operator takes; each means what its letters say.
FILTER_FORMAT = word(("XIO", "OIX", "XOI", "IOX"))

# In a Convolution, O is the grid of the windows; in a ConvTranspose, I is.  Groups block
# that axis of the filter, the other one counts channels of one group (shape inference:
# `diff_dst.C / groups == weights.O`; unit test weights OIX {192, 256, 3, 3}, groups 2).
CONVOLUTION = {"O": "gc", "I": "f", "X": "x"}
TRANSPOSE = {"I": "gc", "O": "f", "X": "x"}
# The v3 pages print (in_channels / groups, out_channels) for ConvTranspose instead.
TRANSPOSE_PRINTED = {"I": "c", "O": "gf", "X": "x"}


@dataclass(frozen=True, kw_only=True, repr=False)
class OneDnnOperator(Operator):
    """Attributes and rules that all eight pages share."""

    dialect: ClassVar[str] = "onednn"
    letters: ClassVar[tuple[Mapping[str, str], ...]]
    channel_words: ClassVar[Mapping[str, str]]

    strides: Sequence[int] = attribute(integers(1))  # "positive s64 values"
    dilations: Sequence[int] = attribute(integers(1))  # "positive s64 values"
    pads_begin: Sequence[int] | None = attribute(integers(0), default=None)
    pads_end: Sequence[int] | None = attribute(integers(0), default=None)
    auto_pad: str | None = attribute(AUTO_PAD, default="none")
    groups: int = attribute(integer(1), default=1)
    data_format: str = attribute(word(("NXC", "NCX")), default="NXC")

    def __post_init__(self) -> None:
        """Check what one attribute demands of another."""
        super().__post_init__()
        for name in ("strides", "dilations"):
            if getattr(self, name) is None:
                raise missing(self.title(), self.document, name, {})
        for name in ("pads_begin", "pads_end"):
            # "pads_begin and pads_end attributes are ignored when auto_pad is specified."
            if getattr(self, name) is None and self.auto_pad == "none":
                raise missing(self.title(), self.document, name, self.attributes())

    @property
    def _format(self) -> str:
        return str(self.attributes().get("weights_format") or self.attributes()["filter_format"])

    def weights_layouts(self) -> tuple[Layout, ...]:
        """Return how the filter may lie in memory, the engine's way first."""
        # The two shapes cannot collide with groups > 1, and are one and the same without.
        maps = self.letters if self.groups > 1 else self.letters[:1]
        return tuple(Layout(" ".join(map(letters.__getitem__, self._format))) for letters in maps)

    def data_layout(self, operand: Operand) -> Layout:
        """Return how a data operand lies in memory."""
        channel = "gc" if operand is Operand.COARSE else "gf"
        return Layout(f"n {channel} x" if self.data_format == "NCX" else f"n x {channel}")

    def _words(self, operand: Operand) -> Mapping[str, str]:
        spatial = "K" if operand is Operand.WEIGHTS else "X"
        names = {
            side: "IC" if said == "input" else "OC" for side, said in self.channel_words.items()
        }
        return {
            "n": "N",
            "x": spatial,
            "gc": names["c"],
            "gf": names["f"],
            "c": f"{names['c']}/groups",
            "f": f"{names['f']}/groups",
        }

    def _groups(self, call: Call) -> Size:
        del call
        return self.groups

    def _lines(self, call: Call, request: Shape | None) -> tuple[Line, ...]:
        data = next(iter(call.operands.values()))
        zeros = (0,) * len(data.spatial)
        # An empty list of pads stands for zeros (unit test test_op_schema_cpu.cpp:542).
        begin, end = self.pads_begin or zeros, self.pads_end or zeros
        if self.auto_pad != "none":
            begin = end = zeros  # "ignored when auto_pad is specified"
        extra = self.attributes().get("output_padding") or zeros
        call.check_lengths(
            strides=tuple(self.strides),
            pads_begin=tuple(begin),
            pads_end=tuple(end),
            dilations=tuple(self.dilations),
            output_padding=tuple(extra),
        )
        return call.lines(
            strides=self.strides,
            dilations=self.dilations,
            pads=(begin, end),
            extra=extra,
            asked=self._asked(call, request),
        )

    def _asked(self, call: Call, request: Shape | None) -> Shape | None:
        """Return the spatial sizes asked for, if the operator can be asked for any."""

    def _pads(self, line: Line, total: Size) -> tuple[Size, Size]:
        """Return the pads; SAME splits ``total``, "extra padding is added at the end"."""
        if self.auto_pad == "none":
            return line.begin, line.end
        if self.auto_pad == "valid":
            return 0, 0  # "do not use padding"
        return split(total, odd_at_end=self.auto_pad == "same_upper")


@dataclass(frozen=True, kw_only=True, repr=False)
class PaddedOperator(OneDnnOperator):
    """Adds output_padding: it "unlocks more elements in the output"."""

    output_padding: Sequence[int] | None = attribute(integers(0), default=None)
