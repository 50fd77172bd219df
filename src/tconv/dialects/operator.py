"""What the operators of every document have in common: shapes in, sizes and pads out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from tconv.dialects.ambiguity import warn_ambiguous
from tconv.dialects.attributes import shown
from tconv.dialects.call import Call, Given, Line, Shape, Size, Sized, shape_text
from tconv.dialects.channels import Channels, settle_channels
from tconv.dialects.record import Record
from tconv.dialects.shapes import parse_dtype, parse_request, parse_shape
from tconv.errors import InternalError, ProblemError
from tconv.problem import DTYPES, Axis, Layout, Operand, Problem, numpy_dtype

ShapeLike = Sequence[int | None] | np.ndarray[Any, np.dtype[np.integer[Any]]]

BIAS = ("bias", "B")
"""Third inputs that hold values, not sizes."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a document says of one call."""

    shape: Shape
    pads: tuple[Shape, Shape]
    other_pads: tuple[Shape, Shape] | None  # by the printed formula, when it disagrees
    problem: Problem | None  # None while a size is not known


@dataclass(frozen=True, kw_only=True, repr=False)
class Operator(Record):
    """An operator of a document; the second half of its methods is the document's part."""

    inputs: ClassVar[tuple[str, str]]
    third: ClassVar[str | None] = None  # the optional third input
    result: ClassVar[str]
    given: ClassVar[tuple[Operand, Operand]]
    wanted: ClassVar[Operand]
    channel_words: ClassVar[Mapping[str, str]]  # "c" and "f" in the document's words
    any_number: ClassVar[bool] = False  # does the document allow every numeric type?

    def infer_shape(
        self, first: ShapeLike, second: ShapeLike, third: ShapeLike | None = None
    ) -> tuple[int | None, ...]:
        """Return the shape of the result for the shapes of the inputs, without computing.

        A size may be None while it is not known; what depends on it is None in the
        answer.  The third input is given by its values (output_shape, weights_shape)
        or, for a bias, by its shape.
        """
        return self.resolve(first, second, third).shape

    def resolve_pads(
        self, first: ShapeLike, second: ShapeLike, third: ShapeLike | None = None
    ) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
        """Return ``(pads_begin, pads_end)`` as really used for the shapes of the inputs."""
        resolved = self.resolve(first, second, third)
        self.warn_if_ambiguous(resolved)
        return resolved.pads

    def warn_if_ambiguous(self, resolved: Resolved) -> None:
        """Warn when no reading was chosen and the readings differ for this call."""
        if resolved.other_pads is not None:
            warn_ambiguous(self.title(), self.document, resolved.pads, resolved.other_pads)

    def problem(
        self,
        first: ShapeLike,
        second: ShapeLike,
        third: ShapeLike | None = None,
        *,
        dtype: object = DTYPES[0],
    ) -> Problem:
        """Return the canonical question that a call with these shapes asks."""
        problem = self.resolve(first, second, third, dtype=dtype).problem
        if problem is None:
            raise self.unknown_sizes(first, second)
        return problem

    def parse_dtype(self, value: object) -> str:
        """Return the name of an element type, or refuse it."""
        allowed, any_number = self.dtypes(), self.any_number
        return parse_dtype(self.title(), self.document, value, allowed, any_number=any_number)

    def unknown_sizes(self, first: ShapeLike, second: ShapeLike) -> ProblemError:
        """Return the error for a size that must be known by now."""
        return ProblemError(
            self.title(),
            "a size is not known.",
            got={
                name: shape_text(tuple(shape))
                for name, shape in zip(self.inputs, (first, second), strict=True)
            },
            rule="only infer_shape and resolve_pads take sizes that are not known",
            fix="pass whole numbers for every size",
        )

    def resolve(
        self,
        first: ShapeLike,
        second: ShapeLike,
        third: ShapeLike | None = None,
        *,
        dtype: object = DTYPES[0],
    ) -> Resolved:
        """Return everything that the document says of a call with these shapes."""
        title = self.title()
        shapes = [
            parse_shape(title, name, shape, batched=operand is not Operand.WEIGHTS)
            for name, shape, operand in zip(self.inputs, (first, second), self.given, strict=True)
        ]
        request = None
        if third is not None:
            if self.third is None:
                raise ProblemError(
                    title,
                    "it takes two inputs, but a third was given.",
                    got={"third": shown(third)},
                    rule=f"the inputs are {' and '.join(self.inputs)}   ({self.document})",
                    fix="leave the third input out",
                )
            request = parse_request(title, self.third, third, scalar=self.third in BIAS)
        name = self.parse_dtype(dtype)
        return _resolve_cached(self, shapes[0], shapes[1], request, name)

    # -- the document's part -----------------------------------------------------------

    def weights_layouts(self) -> tuple[Layout, ...]:
        """Return how the filter may lie in memory, the engine's way first."""
        raise NotImplementedError

    def data_layout(self, operand: Operand) -> Layout:
        """Return how a data operand lies in memory."""
        raise NotImplementedError

    def _words(self, operand: Operand) -> Mapping[str, str]:
        """Return the document's word for each axis of an operand."""
        raise NotImplementedError

    def _groups(self, call: Call) -> Size:
        """Return the number of groups."""
        raise NotImplementedError

    def _lines(self, call: Call, request: Shape | None) -> tuple[Line, ...]:
        """Return the spatial axes with the attributes that belong to each."""
        raise NotImplementedError

    def _sized(self, call: Call, line: Line) -> Sized:
        """Return the pads used and the wanted size of one axis; refuse what is wrong."""
        raise NotImplementedError

    def _printed(self, call: Call, line: Line) -> Sized:
        """Return the same by the document's printed formula, where the engine differs."""
        return self._sized(call, line)

    def _weights_shape(self, request: Shape | None) -> Shape:
        """Return the filter's shape for an operator whose result is the filter."""
        raise NotImplementedError

    def _check_ranks(self, call: Call) -> None:
        """Refuse ranks that the document leaves undefined."""

    def dtypes(self) -> tuple[str, ...]:
        """Return the element types that the document defines, and float64."""
        return DTYPES

    @property
    def _reading(self) -> str | None:
        return "engine"

    # -- the common part ---------------------------------------------------------------

    def _resolve(self, first: Shape, second: Shape, request: Shape | None, dtype: str) -> Resolved:
        calls = self._calls(first, second, request)
        results = [self._resolve_call(call, request, dtype) for call in calls]
        if len(results) == 1:
            return results[0]
        # A size that is not known leaves two layouts possible: answer what both say.
        shape = _agreed([each.shape for each in results])
        begin, end = (_agreed([each.pads[side] for each in results]) for side in (0, 1))
        return Resolved(shape, (begin, end), None, None)

    def _resolve_call(self, call: Call, request: Shape | None, dtype: str) -> Resolved:
        channels = self._channels(call)
        self._check_bias(call, request, channels)
        lines = self._lines(call, request)
        for line in lines:
            call.check_fits(f"the window on spatial axis {line.index + 1}", line.span)
        sized = [self._sized(call, line) for line in lines]
        other = None
        if self._reading != "engine":
            printed = [self._printed(call, line) for line in lines]
            if self._reading == "document":
                sized = printed
            elif _pads(printed) != _pads(sized):
                other = _pads(printed)
        shape = self._result_shape(call, channels, tuple(each.size for each in sized), dtype)
        problem = None
        given = (call.operands[operand].shape for operand in self.given)
        if None not in (*shape, *channels) and not any(None in each for each in given):
            axes = [self._axis(line, each) for line, each in zip(lines, sized, strict=True)]
            problem = Problem(
                wanted=self.wanted,
                batch=_certain(channels.batch),
                groups=_certain(channels.groups),
                coarse_channels=_certain(channels.coarse),
                fine_channels=_certain(channels.fine),
                axes=tuple(axes),
                dtype=dtype,
                coarse_layout=self.data_layout(Operand.COARSE),
                fine_layout=self.data_layout(Operand.FINE),
                weights_layout=call.operands[Operand.WEIGHTS].layout,
                bias=self.third in BIAS and request is not None,
            )
        return Resolved(shape, _pads(sized), other, problem)

    def _calls(self, first: Shape, second: Shape, request: Shape | None) -> list[Call]:
        """Put the operands in the caller's words, the filter in each layout that fits."""
        shapes = dict(zip(self.given, (first, second), strict=True))
        names = dict(zip(self.given, self.inputs, strict=True))
        notes = {
            name: value
            for name, value in self.attributes().items()
            if name in ("groups", "group") and value != 1
        }
        if self.wanted is Operand.WEIGHTS:
            shapes[Operand.WEIGHTS] = self._weights_shape(request)
            names[Operand.WEIGHTS] = self.third or self.result
        elif request is not None:
            notes[str(self.third)] = shape_text(request)
        calls = []
        for layout in self.weights_layouts():
            operands = {
                operand: Given(
                    names[operand],
                    shape,
                    layout if operand is Operand.WEIGHTS else self.data_layout(operand),
                    self._words(operand),
                )
                for operand, shape in shapes.items()
            }
            calls.append(Call(self.title(), self.document, operands, notes))
        calls[0].check_spatial_ranks()
        self._check_ranks(calls[0])
        return [call for call in calls if self._agrees(call, request)] or calls[:1]

    def _agrees(self, call: Call, request: Shape | None) -> bool:
        try:
            self._check_bias(call, request, self._channels(call))
        except ProblemError:
            return False
        return True

    def _channels(self, call: Call) -> Channels:
        return settle_channels(call, self._groups(call), self.channel_words)

    def _check_bias(self, call: Call, bias: Shape | None, channels: Channels) -> None:
        if self.third not in BIAS or bias is None:
            return
        one = channels.coarse if self.wanted is Operand.COARSE else channels.fine
        known = None not in (one, channels.groups)
        total = _certain(one) * _certain(channels.groups) if known else None
        if len(bias) != 1 or (None not in (bias[0], total) and bias[0] != total):
            needed = "one axis" if total is None else f"shape ({total},)"
            call.refuse(
                f"{self.third} has shape {shape_text(bias)}, but {needed} is needed.",
                rule=f"{self.third} has one value for each output channel",
                fix=f"pass {self.third} with {needed}",
            )

    def _result_shape(self, call: Call, channels: Channels, spatial: Shape, dtype: str) -> Shape:
        """Put the result's sizes in memory order; refuse what 64 bits cannot count."""
        if self.wanted is Operand.WEIGHTS:
            weights = call.operands[Operand.WEIGHTS].shape
            _check_bytes(call, weights, dtype)
            return weights
        sizes: dict[str, Size] = {
            "n": channels.batch,
            "g": channels.groups,
            "c": channels.coarse,
            "f": channels.fine,
        }
        shape: list[Size] = []
        for word in self.data_layout(self.wanted).words:
            if word == "x":
                shape += spatial
            else:
                parts = [sizes[letter] for letter in word]
                shape.append(None if None in parts else math.prod(map(_certain, parts)))
        for size in shape:
            call.check_fits("a size of the result", size)
        _check_bytes(call, shape, dtype)
        return tuple(shape)

    def _axis(self, line: Line, sized: Sized) -> Axis:
        coarse, fine = line.coarse, line.fine
        return Axis(
            fine_size=_certain(sized.size if self.wanted is Operand.FINE else fine),
            coarse_size=_certain(sized.size if self.wanted is Operand.COARSE else coarse),
            taps=_certain(line.taps),
            stride=line.stride,
            dilation=line.dilation,
            pad_begin=_certain(sized.begin),
        )


@lru_cache(maxsize=4096)
def _resolve_cached(
    op: Operator, first: Shape, second: Shape, request: Shape | None, dtype: str
) -> Resolved:
    return op._resolve(first, second, request, dtype)  # noqa: SLF001 - the method's cached twin


def _pads(sized: Sequence[Sized]) -> tuple[Shape, Shape]:
    return tuple(each.begin for each in sized), tuple(each.end for each in sized)


def _check_bytes(call: Call, shape: Sequence[Size], dtype: str) -> None:
    count = math.prod(size for size in shape if size is not None)
    call.check_fits("the number of bytes of the result", count * numpy_dtype(dtype).itemsize)


def _agreed(shapes: Sequence[Shape]) -> Shape:
    """Return the sizes that all shapes share, None where they part."""
    return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True))


def _certain(size: Size) -> int:
    """Narrow a size that the caller has checked to be known."""
    if size is None:
        raise InternalError(
            "tconv",
            "a size that must be known is not.",
            got={},
            rule="sizes are settled first",
            fix="please report this call",
        )
    return size
