"""One call in the caller's own words: its operands, and how to refuse it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, NoReturn

from tconv.dialects.attributes import LARGEST
from tconv.errors import ProblemError
from tconv.problem import Layout, Operand, window

Size = int | None
"""A size, or None while it is not known."""

Shape = tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """An operand as the caller passed it."""

    name: str
    shape: Shape
    layout: Layout
    words: Mapping[str, str]  # layout word -> the document's word for that axis

    @property
    def spatial(self) -> Shape:
        """The sizes of the spatial axes."""
        start = self.layout.words.index("x")
        stop = len(self.shape) - (len(self.layout.words) - 1 - start)
        return self.shape[start:stop]

    def size(self, word: str) -> Size:
        """Return the size of the axis that a layout word names."""
        place = self.layout.words.index(word)
        after_spatial = place > self.layout.words.index("x")
        return self.shape[place - len(self.layout.words) if after_spatial else place]

    def axes_text(self) -> str:
        """Return what each axis is, in the document's words."""
        axes: list[str] = []
        for word in self.layout.words:
            name = self.words[word]
            axes += [f"{name}{i + 1}" for i in range(len(self.spatial))] if word == "x" else [name]
        return " ".join(axes)


@dataclass(frozen=True, slots=True)
class Line:
    """One spatial axis as its document sees it, before the pads are settled."""

    index: int
    coarse: Size
    fine: Size
    taps: Size
    stride: int
    dilation: int
    begin: int
    end: int
    extra: int
    stated: bool = False  # was an output_shape given at all?
    asked: Size = None  # its entry for this axis

    @property
    def span(self) -> Size:
        """How many points the window covers, holes included."""
        return None if self.taps is None else window(self.taps, self.dilation)

    def show(self, pads: tuple[Size, Size]) -> dict[str, object]:
        """Return the numbers of the axis for a message."""
        numbers = f"window {self.taps}, stride {self.stride}, dilation {self.dilation}"
        extra = f", output_padding {self.extra}" if self.extra else ""
        return {f"axis {self.index + 1}": f"{numbers}, pads {pads[0]} and {pads[1]}{extra}"}

    def less_extra(self) -> "Line":
        """Return the axis without the points that output_padding added."""
        return replace(self, fine=None if self.fine is None else self.fine - self.extra, extra=0)


class Sized(NamedTuple):
    """What a document answers for one axis: the pads really used and the wanted size."""

    begin: Size
    end: Size
    size: Size


@dataclass(frozen=True, slots=True)
class Call:
    """A call being checked: who is asked, and with what."""

    title: str
    document: str
    operands: Mapping[Operand, Given]
    notes: Mapping[str, object]  # attributes worth showing in a message

    def refuse(
        self,
        wrong: str,
        *,
        rule: str,
        fix: str,
        where: str = "",
        show: Mapping[str, object] | None = None,
    ) -> NoReturn:
        """Raise the error for a broken rule, shapes and their axes in columns."""
        operands = self.operands.values()
        width = max(len(shape_text(given.shape)) for given in operands)
        got = {
            given.name: f"{shape_text(given.shape):<{width}}   {given.axes_text()}"
            for given in operands
        }
        source = f"{self.document}, {where}" if where else self.document
        raise ProblemError(
            self.title,
            wrong,
            got={**got, **self.notes, **(show or {})},
            rule=f"{rule}   ({source})",
            fix=fix,
        )

    def check_spatial_ranks(self) -> None:
        """Refuse operands without spatial axes, or with different numbers of them."""
        operands = list(self.operands.values())
        counts = [len(each.shape) - len(each.layout.words) + 1 for each in operands]
        first = operands[0]
        for each, count in zip(operands, counts, strict=True):
            needed = each.layout.rank(1 if count < 1 else counts[0])
            if count < 1:
                wrong = f"{each.name} has {len(each.shape)} axes, but at least {needed} are needed."
                rule = f"{each.name} has rank {needed} or greater"
            elif count != counts[0]:
                wrong = f"{each.name} has {count} spatial axes, but {first.name} has {counts[0]}."
                rule = f"{first.name} and {each.name} have the same number of spatial axes"
            else:
                continue
            raise ProblemError(
                self.title,
                wrong,
                got={o.name: shape_text(o.shape) for o in operands} | dict(self.notes),
                rule=f"{rule}   ({self.document})",
                fix=f"pass {each.name} with rank {needed}",
            )

    def check_lengths(self, **lists: Shape) -> None:
        """Refuse an attribute that has not one entry for each spatial axis."""
        data = next(iter(self.operands.values()))
        for name, values in lists.items():
            if len(values) != len(data.spatial):
                self.refuse(
                    f"{name} has {len(values)} values {shape_text(values)}, "
                    f"but {data.name} has {len(data.spatial)} spatial axes.",
                    rule=f"{name} has one value for each spatial axis and no other",
                    fix=f"pass {len(data.spatial)} values for {name}",
                )

    def lines(
        self,
        *,
        strides: Sequence[int],
        dilations: Sequence[int],
        pads: tuple[Sequence[int], Sequence[int]],
        extra: Sequence[int],
        asked: Shape | None = None,
    ) -> tuple[Line, ...]:
        """Return the spatial axes, each with its sizes and attributes."""
        spatial = {operand: given.spatial for operand, given in self.operands.items()}
        taps = spatial[Operand.WEIGHTS]
        unknown: Shape = (None,) * len(taps)
        coarse = spatial.get(Operand.COARSE, unknown)
        fine = spatial.get(Operand.FINE, unknown)
        return tuple(
            Line(
                index=i,
                coarse=coarse[i],
                fine=fine[i],
                taps=taps[i],
                stride=strides[i],
                dilation=dilations[i],
                begin=pads[0][i],
                end=pads[1][i],
                extra=extra[i],
                stated=asked is not None,
                asked=None if asked is None else asked[i],
            )
            for i in range(len(taps))
        )

    def name(self, operand: Operand) -> str:
        """Return the caller's word for an operand."""
        given = self.operands.get(operand)
        if given is not None:
            return given.name
        return next((name for name in self.notes if name.endswith("_shape")), "the result")

    def check_fits(self, what: str, number: Size) -> None:
        """Refuse a number that 64 bits cannot hold."""
        if number is not None and number > LARGEST:
            self.refuse(
                f"{what} would be {number}, which overflows 64 bits.",
                rule=f"{what} <= 2**63 - 1",
                fix="pass smaller sizes, strides or dilations",
            )


def shape_text(shape: Iterable[Size]) -> str:
    """Print a shape as Python does, with ? for what is not known.

    >>> shape_text((1, None))
    '(1, ?)'
    """
    sizes = ["?" if size is None else str(size) for size in shape]
    if len(sizes) > 20:  # a message is read by people
        sizes = [*sizes[:8], "...", *sizes[-2:]]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
