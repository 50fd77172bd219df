"""ONNX Conv and ConvTranspose, opsets 1, 11 and 22.

Source: ONNX's operator pages; where ConvTranspose's page and the engines part,
ONNX Runtime decides (docs/dialects.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tconv.dialects.attributes import attribute, integer, integers, word
from tconv.dialects.call import Call, Given, Line, Shape, Size, Sized
from tconv.dialects.operator import Operator
from tconv.dialects.padding import gathered, leftover_total, same_total, scattered, split
from tconv.errors import ProblemError
from tconv.problem import DTYPES, Layout, Operand, fine_points

AUTO_PAD = word(
    ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"), {"none": "NOTSET", "explicit": "NOTSET"}
)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Operator(Operator):
    """Attributes and rules that both pages share."""

    dialect: ClassVar[str] = "onnx"
    inputs: ClassVar[tuple[str, str]] = ("X", "W")
    third: ClassVar[str | None] = "B"
    result: ClassVar[str] = "Y"

    auto_pad: str | None = attribute(AUTO_PAD, default="NOTSET")
    dilations: Sequence[int] | None = attribute(integers(1), default=None)
    group: int = attribute(integer(1), default=1)
    kernel_shape: Sequence[int] | None = attribute(integers(1), default=None)
    pads: Sequence[int] | None = attribute(integers(0), default=None)
    strides: Sequence[int] | None = attribute(integers(1), default=None)
    opset: int = attribute(integer(1), default=22)

    def __post_init__(self) -> None:
        """Check what one attribute demands of another."""
        super().__post_init__()
        if self.pads is not None and self.auto_pad != "NOTSET":
            raise ProblemError(
                self.title(),
                f"pads and auto_pad={self.auto_pad} are both given.",
                got={"pads": self.pads, "auto_pad": self.auto_pad},
                rule="pads cannot be used simultaneously with auto_pad"
                f"   ({self.document}, attribute pads)",
                fix="leave one of them out",
            )

    def dtypes(self) -> tuple[str, ...]:
        # bfloat16 joined T with version 22 of both operators.
        return tuple(name for name in DTYPES if name != "bfloat16" or self.opset >= 22)

    def weights_layouts(self) -> tuple[Layout, ...]:
        return (Layout("gc f x"),)

    def data_layout(self, operand: Operand) -> Layout:
        return Layout("n gc x" if operand is Operand.COARSE else "n gf x")

    def _words(self, operand: Operand) -> Mapping[str, str]:
        names = {
            letter: "C" if said == "input" else "M" for letter, said in self.channel_words.items()
        }
        return {
            "n": "N",
            "x": "K" if operand is Operand.WEIGHTS else "X",
            "gc": names["c"],
            "gf": names["f"],
            "f": f"{names['f']}/group",
        }

    def _groups(self, call: Call) -> Size:
        del call
        return self.group

    def _lines(self, call: Call, request: Shape | None) -> tuple[Line, ...]:
        del request  # the third input is the bias
        data, weights = call.operands.values()
        count = len(data.spatial)
        ones, zeros = (1,) * count, (0,) * count
        strides, dilations = self.strides or ones, self.dilations or ones
        pads = self.pads or zeros * 2
        extra = self.attributes().get("output_padding") or zeros
        asked: Shape | None = self.attributes().get("output_shape")
        call.check_lengths(
            strides=tuple(strides),
            dilations=tuple(dilations),
            output_padding=tuple(extra),
            output_shape=tuple(asked or zeros),
            kernel_shape=tuple(self.kernel_shape or ones),
        )
        if len(pads) != 2 * count:
            call.refuse(
                f"pads has {len(pads)} values, but X has {count} spatial axes.",
                rule="pads is [x1_begin, x2_begin, ..., x1_end, x2_end, ...]",
                fix=f"pass {2 * count} values for pads",
            )
        self._check_kernel_shape(call, weights)
        lines = call.lines(
            strides=strides,
            dilations=dilations,
            pads=(pads[:count], pads[count:]),
            extra=extra,
            asked=asked,
        )
        # "kernel_shape ... if not present, should be inferred from input W", and if present
        # it stands in for what is not known of W.
        said = self.kernel_shape or (None,) * count
        return tuple(
            line if line.taps is not None else replace(line, taps=said[line.index])
            for line in lines
        )

    def _check_kernel_shape(self, call: Call, weights: Given) -> None:
        for said, size in zip(self.kernel_shape or (), weights.spatial, strict=False):
            if size is not None and said != size:
                call.refuse(
                    f"kernel_shape {self.kernel_shape} is not the {weights.spatial} of W.",
                    rule="kernel_shape is the shape of the kernel in W",
                    fix="leave kernel_shape out; it is inferred from W",
                )


@dataclass(frozen=True, kw_only=True, repr=False)
class Conv(_Operator):
    """Conv (ONNX)."""

    document: ClassVar[str] = "ONNX Conv"
    channel_words: ClassVar[Mapping[str, str]] = {"c": "output", "f": "input"}
    given: ClassVar[tuple[Operand, Operand]] = (Operand.FINE, Operand.WEIGHTS)
    wanted: ClassVar[Operand] = Operand.COARSE

    def _sized(self, call: Call, line: Line) -> Sized:
        pads: tuple[Size, Size] = (line.begin, line.end)
        if self.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            # "In case of odd number add the extra padding at the end for SAME_UPPER".
            pads = split(same_total(line), odd_at_end=self.auto_pad == "SAME_UPPER")
        return gathered(call, line, pads)


@dataclass(frozen=True, kw_only=True, repr=False)
class ConvTranspose(_Operator):
    """ConvTranspose (ONNX)."""

    document: ClassVar[str] = "ONNX ConvTranspose"
    channel_words: ClassVar[Mapping[str, str]] = {"c": "input", "f": "output"}
    given: ClassVar[tuple[Operand, Operand]] = (Operand.COARSE, Operand.WEIGHTS)
    wanted: ClassVar[Operand] = Operand.FINE

    output_padding: Sequence[int] | None = attribute(integers(0), default=None)
    output_shape: Sequence[int] | None = attribute(integers(1), default=None)

    def _sized(self, call: Call, line: Line) -> Sized:
        if line.extra >= max(line.stride, line.dilation):
            call.refuse(
                f"output_padding is {line.extra} on spatial axis {line.index + 1}, but stride is "
                f"{line.stride} and dilation {line.dilation}.",
                rule="output_padding is less than the corresponding stride/dilation dimension",
                fix=f"pass an output_padding below {max(line.stride, line.dilation)}",
            )
        if line.stated:
            self._check_asked(call, line)
            # "If output_shape is specified pads values are ignored."
            return Sized(*self._split(leftover_total(line)), line.asked)
        if self.auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
            return scattered(call, line, (line.begin, line.end))
        # "output_shape[i] = input_shape[i] * strides[i]", the total never below 0.
        total: Size = None
        if line.coarse is not None and line.span is not None:
            whole = fine_points(line.coarse, line.span, line.stride, 0, line.extra)
            total = max(whole - line.coarse * line.stride, 0)
        return scattered(call, line, self._split(total))

    def _split(self, total: Size) -> tuple[Size, Size]:
        """Split the total padding; opset 1 printed the test the other way round."""
        upper = self.auto_pad == "SAME_UPPER"
        return split(total, odd_at_end=upper == (self.opset >= 11))

    def _check_asked(self, call: Call, line: Line) -> None:
        if line.coarse is None or line.span is None or line.asked is None:
            return
        largest = fine_points(line.coarse, line.span, line.stride, 0, line.extra) + line.stride - 1
        if line.asked > largest:
            call.refuse(
                f"output_shape asks for {line.asked} on spatial axis {line.index + 1}, but at "
                f"most {largest} can be reached.",
                rule="output_shape <= stride * (X - 1) + output_padding + (K - 1) * dilation + 1"
                " + stride - 1",
                fix=f"ask for at most {largest}",
            )
