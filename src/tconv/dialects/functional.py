"""torch.nn.functional's spelling of the family, for arrays: no document but ours.

An argument is one number for all spatial axes, or one number for each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tconv.dialects.attributes import Parse, attribute, integer, integers, word
from tconv.dialects.call import Call, Given, Line, Shape, Size, Sized, shape_text
from tconv.dialects.operator import Operator
from tconv.dialects.padding import gathered, scattered, split
from tconv.dialects.shapes import check_request
from tconv.problem import Layout, Operand

Numbers = int | Sequence[int]

PADDING_WORDS = word(("valid", "same"))


def numbers(minimum: int) -> Parse:
    """Parse one number for all spatial axes, or a list with one for each."""
    one, many = integer(minimum), integers(minimum)

    def parse(title: str, name: str, value: object) -> object:
        listed = isinstance(value, list | tuple | range) or getattr(value, "ndim", 0) != 0
        return (many if listed else one)(title, name, value)

    return parse


def padding_or_word(title: str, name: str, value: object) -> object:
    """Parse a padding: numbers, or torch's words "valid" and "same"."""
    parse = PADDING_WORDS if isinstance(value, str) else numbers(0)
    return parse(title, name, value)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Function(Operator):
    """Arguments and rules that all six functions share."""

    dialect: ClassVar[str] = "tconv"
    name: ClassVar[str]
    document: ClassVar[str] = "tconv, NumPy functions"
    data_names: ClassVar[Mapping[Operand, str]]

    stride: Numbers = attribute(numbers(1), default=1)
    padding: Numbers | str = attribute(numbers(0), default=0)
    dilation: Numbers = attribute(numbers(1), default=1)
    groups: int = attribute(integer(1), default=1)
    layout: str = attribute(word(("NCX", "NXC")), default="NCX")

    @classmethod
    def title(cls) -> str:
        """Return how messages name the function."""
        return f"{cls.dialect} {cls.name}"

    def __repr__(self) -> str:
        """Print the function with the arguments that differ from their defaults."""
        return super().__repr__().replace(type(self).__name__, self.name, 1)

    def weights_layouts(self) -> tuple[Layout, ...]:
        return (Layout("gc f x"),)

    def data_layout(self, operand: Operand) -> Layout:
        channel = "gc" if operand is Operand.COARSE else "gf"
        return Layout(f"n {channel} x" if self.layout == "NCX" else f"n x {channel}")

    def _words(self, operand: Operand) -> Mapping[str, str]:
        names = {
            letter: "C_in" if said == "input" else "C_out"
            for letter, said in self.channel_words.items()
        }
        return {
            "n": "N",
            "x": "K" if operand is Operand.WEIGHTS else "X",
            "gc": names["c"],
            "gf": names["f"],
            "f": f"{names['f']}/groups",
        }

    def _groups(self, call: Call) -> Size:
        del call
        return self.groups

    def _lines(self, call: Call, request: Shape | None) -> tuple[Line, ...]:
        count = len(call.operands[Operand.WEIGHTS].spatial)
        stride, dilation = _each(self.stride, count), _each(self.dilation, count)
        padding = (0,) * count if isinstance(self.padding, str) else _each(self.padding, count)
        extra = _each(self.attributes().get("output_padding", 0), count)
        call.check_lengths(stride=stride, padding=padding, dilation=dilation, output_padding=extra)
        asked = self._asked(call, request) if self.third == "input_shape" and request else None
        return call.lines(
            strides=stride, dilations=dilation, pads=(padding, padding), extra=extra, asked=asked
        )

    def _asked(self, call: Call, request: Shape) -> Shape:
        """Return the spatial part of a stated input_shape, after checking the rest."""
        count = len(call.operands[Operand.WEIGHTS].spatial)
        data, weights = call.operands.values()
        if len(request) != count + 2:
            call.refuse(
                f"input_shape has {len(request)} sizes, but weight has {count} spatial axes.",
                rule=f"input_shape has {count + 2} sizes, in {self.layout} order",
                fix=f"pass {count + 2} sizes",
            )
        letter = "gc" if self.wanted is Operand.COARSE else "gf"
        whole = Given("input_shape", request, self.data_layout(self.wanted), {})
        one = weights.size("f")
        channels = weights.size("gc") if letter == "gc" else one and one * self.groups
        for word_, expected, what in (
            ("n", data.size("n"), "batch"),
            (letter, channels, "channels"),
        ):
            if None not in (whole.size(word_), expected) and whole.size(word_) != expected:
                call.refuse(
                    f"input_shape {shape_text(request)} says {whole.size(word_)} for the {what}, "
                    f"but {data.name} and {weights.name} give {expected}.",
                    rule=f"input_shape is the shape of the forward input, in {self.layout} order",
                    fix=f"write {expected} there",
                )
        return whole.spatial

    def _weights_shape(self, request: Shape | None) -> Shape:
        check_request(self.title(), "weight_shape", request or (), batched=False)
        return request or ()


@dataclass(frozen=True, kw_only=True, repr=False)
class _Conv(_Function):
    """conv and its gradients: one window for each output point."""

    channel_words: ClassVar[Mapping[str, str]] = {"c": "output", "f": "input"}

    padding: Numbers | str = attribute(padding_or_word, default=0)

    def _gathered(self, call: Call, line: Line) -> Sized:
        pads: tuple[Size, Size] = (line.begin, line.end)
        if self.padding == "same":
            if line.stride != 1:
                call.refuse(
                    f"padding='same' with a stride of {line.stride}.",
                    rule="padding='same' needs stride 1, as in torch",
                    fix="pass the padding as numbers",
                )
            pads = split(None if line.span is None else line.span - 1, odd_at_end=True)
        return gathered(call, line, pads)

    def _check_grad_output(self, call: Call, line: Line, sized: Sized) -> None:
        if None not in (sized.size, line.coarse) and sized.size != line.coarse:
            call.refuse(
                f"grad_output has size {line.coarse} on spatial axis {line.index + 1}, but conv "
                f"gives {sized.size} there.",
                rule="grad_output has the shape of conv's result",
                fix=f"pass grad_output with size {sized.size} there, or conv's own arguments",
                show=line.show((sized.begin, sized.end)),
            )


class Conv(_Conv):
    """conv(input, weight, bias)."""

    name: ClassVar[str] = "conv"
    inputs: ClassVar[tuple[str, str]] = ("input", "weight")
    third: ClassVar[str | None] = "bias"
    result: ClassVar[str] = "output"
    given: ClassVar[tuple[Operand, Operand]] = (Operand.FINE, Operand.WEIGHTS)
    wanted: ClassVar[Operand] = Operand.COARSE

    def _sized(self, call: Call, line: Line) -> Sized:
        return self._gathered(call, line)


class ConvGradInput(_Conv):
    """conv_grad_input(input_shape, weight, grad_output)."""

    name: ClassVar[str] = "conv_grad_input"
    inputs: ClassVar[tuple[str, str]] = ("grad_output", "weight")
    third: ClassVar[str | None] = "input_shape"
    result: ClassVar[str] = "grad_input"
    given: ClassVar[tuple[Operand, Operand]] = (Operand.COARSE, Operand.WEIGHTS)
    wanted: ClassVar[Operand] = Operand.FINE

    def _sized(self, call: Call, line: Line) -> Sized:
        whole = replace(line, fine=line.asked)
        sized = self._gathered(call, whole)
        self._check_grad_output(call, whole, sized)
        return Sized(sized.begin, sized.end, line.asked)


class ConvGradWeight(_Conv):
    """conv_grad_weight(input, weight_shape, grad_output)."""

    name: ClassVar[str] = "conv_grad_weight"
    inputs: ClassVar[tuple[str, str]] = ("input", "grad_output")
    third: ClassVar[str | None] = "weight_shape"
    result: ClassVar[str] = "grad_weight"
    given: ClassVar[tuple[Operand, Operand]] = (Operand.FINE, Operand.COARSE)
    wanted: ClassVar[Operand] = Operand.WEIGHTS

    def _sized(self, call: Call, line: Line) -> Sized:
        sized = self._gathered(call, line)
        self._check_grad_output(call, line, sized)
        return sized


@dataclass(frozen=True, kw_only=True, repr=False)
class _ConvTranspose(_Function):
    """conv_transpose and its gradients: one window for each input point."""

    channel_words: ClassVar[Mapping[str, str]] = {"c": "input", "f": "output"}

    output_padding: Numbers = attribute(numbers(0), default=0)

    def _scattered(self, call: Call, line: Line) -> Sized:
        if line.extra >= max(line.stride, line.dilation):
            call.refuse(
                f"output_padding is {line.extra} on spatial axis {line.index + 1}, but stride is "
                f"{line.stride} and dilation {line.dilation}.",
                rule="output_padding is smaller than stride or dilation, as in torch",
                fix=f"pass an output_padding below {max(line.stride, line.dilation)}",
            )
        return scattered(call, line, (line.begin, line.end))

    def _check_grad_output(self, call: Call, line: Line, sized: Sized) -> None:
        if None not in (sized.size, line.fine) and sized.size != line.fine:
            call.refuse(
                f"grad_output has size {line.fine} on spatial axis {line.index + 1}, but "
                f"conv_transpose gives {sized.size} there.",
                rule="grad_output has the shape of conv_transpose's result",
                fix="pass conv_transpose's own arguments, output_padding too",
                show=line.show((sized.begin, sized.end)),
            )


class ConvTranspose(_ConvTranspose):
    """conv_transpose(input, weight, bias)."""

    name: ClassVar[str] = "conv_transpose"
    inputs: ClassVar[tuple[str, str]] = ("input", "weight")
    third: ClassVar[str | None] = "bias"
    result: ClassVar[str] = "output"
    given: ClassVar[tuple[Operand, Operand]] = (Operand.COARSE, Operand.WEIGHTS)
    wanted: ClassVar[Operand] = Operand.FINE

    def _sized(self, call: Call, line: Line) -> Sized:
        return self._scattered(call, line)


class ConvTransposeGradInput(_ConvTranspose):
    """conv_transpose_grad_input(input_shape, weight, grad_output)."""

    name: ClassVar[str] = "conv_transpose_grad_input"
    inputs: ClassVar[tuple[str, str]] = ("grad_output", "weight")
    third: ClassVar[str | None] = "input_shape"
    result: ClassVar[str] = "grad_input"
    given: ClassVar[tuple[Operand, Operand]] = (Operand.FINE, Operand.WEIGHTS)
    wanted: ClassVar[Operand] = Operand.COARSE

    def _sized(self, call: Call, line: Line) -> Sized:
        whole = replace(line, coarse=line.asked)
        sized = self._scattered(call, whole)
        self._check_grad_output(call, whole, sized)
        return Sized(sized.begin, sized.end, line.asked)


class ConvTransposeGradWeight(_ConvTranspose):
    """conv_transpose_grad_weight(input, weight_shape, grad_output)."""

    name: ClassVar[str] = "conv_transpose_grad_weight"
    inputs: ClassVar[tuple[str, str]] = ("input", "grad_output")
    third: ClassVar[str | None] = "weight_shape"
    result: ClassVar[str] = "grad_weight"
    given: ClassVar[tuple[Operand, Operand]] = (Operand.COARSE, Operand.FINE)
    wanted: ClassVar[Operand] = Operand.WEIGHTS

    def _sized(self, call: Call, line: Line) -> Sized:
        sized = self._scattered(call, line)
        self._check_grad_output(call, line, sized)
        return sized


def _each(value: object, count: int) -> tuple[int, ...]:
    """Return one number for each of ``count`` axes."""
    return (value,) * count if isinstance(value, int) else tuple(value)  # type: ignore[arg-type]
