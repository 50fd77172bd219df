"""A still picture of a call: both grids, the window, padding and phases."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from tconv.errors import UnsupportedError
from tconv.explain.drawing import Box, Drawing, Mark, Stroke, Words, fitted
from tconv.explain.explanation import Explanation
from tconv.explain.palette import PALETTE, ink_on, phase_colour
from tconv.problem import Axis, Operand, window

MOST = 40  # points of an axis that are worth drawing
SIDE, GAP, MARGIN = 30, 3, 16
LIGHT: Mapping[str, str] = PALETTE["light"]
Point = tuple[int, ...]


def draw_still(told: Explanation) -> Drawing:
    """Return the picture of a call with 1 or 2 spatial axes, one point of its result chosen."""
    axes = told.problem.axes
    widest = max(max(axis.fine_size, axis.coarse_size, axis.taps) for axis in axes)
    if len(axes) > 2 or widest > MOST:
        raise UnsupportedError(
            told.op.title(),
            f"{len(axes)} spatial axes of up to {widest} points make no picture.",
            got={},
            rule=f"a picture has 1 or 2 spatial axes of at most {MOST} points",
            fix="pass smaller sizes; the pattern is the same",
        )
    chosen = tuple((size - 1) // 2 for size in told.problem.spatial(told.op.wanted))
    met = _met(told, chosen)
    marks: list[Mark] = [Words(MARGIN, 22, _headline(told), LIGHT["ink"], bold=True)]
    marks += _line(told, chosen, met) if len(axes) == 1 else _plane(told, chosen, met)
    bottom = max(mark.y + mark.height for mark in marks if isinstance(mark, Box))
    notes = [_terms(told, chosen), *_sizes(told)]
    for number, note in enumerate(notes):
        marks.append(Words(MARGIN, bottom + 24 + 19 * number, note, LIGHT["ink"]))
    marks += _legend(told, bottom + 24 + 19 * len(notes))
    return fitted(marks, LIGHT["paper"], f"{_headline(told)}. {_terms(told, chosen)}")


def _headline(told: Explanation) -> str:
    op, problem = told.op, told.problem
    given = ", ".join(f"{told.names[o]} {'x'.join(map(str, problem.spatial(o)))}" for o in op.given)
    result = "x".join(map(str, problem.spatial(op.wanted)))
    return f"{op.title()}: {given} gives {op.result} {result}"


def _sizes(told: Explanation) -> Iterator[str]:
    for number, lines in enumerate(told.lines):
        last = lines[-1]
        name = f"axis {number + 1}: " if len(told.lines) > 1 else ""
        begin, end = (side[number] for side in told.pads)
        sum_ = f"{last.letter} = {last.expression} = {last.filled} = {last.value}"
        text = sum_ if last.letter in "XY" else f"Y = {told.problem.axes[number].fine_size}"
        yield f"{name}{text};  pads {begin} and {end}"


def _met(told: Explanation, chosen: Point) -> dict[Operand, set[Point]]:
    """Return every point that meets the chosen one, of each operand."""
    met: dict[Operand, set[Point]] = {operand: set() for operand in Operand}
    for coarse, tap, fine in _meetings(told, chosen):
        met[Operand.COARSE].add(coarse)
        met[Operand.WEIGHTS].add(tap)
        met[Operand.FINE].add(fine)
    return met


def _meetings(told: Explanation, chosen: Point) -> Iterator[tuple[Point, Point, Point]]:
    axes, wanted = told.problem.axes, told.op.wanted
    place = {Operand.COARSE: 0, Operand.WEIGHTS: 1, Operand.FINE: 2}[wanted]
    along = [
        [triple for triple in _triples(axis) if triple[place] == chosen[number]]
        for number, axis in enumerate(axes)
    ]
    for triples in product(*along):
        coarse, tap, fine = zip(*triples, strict=True)
        yield coarse, tap, fine


def _triples(axis: Axis) -> Iterator[tuple[int, int, int]]:
    for c, t in product(range(axis.coarse_size), range(axis.taps)):
        f = axis.fine(c, t)
        if f is not None:
            yield c, t, f


def _terms(told: Explanation, chosen: Point) -> str:
    wanted, names = told.op.wanted, told.names
    terms = []
    for coarse, tap, fine in _meetings(told, chosen):
        points = {Operand.COARSE: coarse, Operand.WEIGHTS: tap, Operand.FINE: fine}
        given = [operand for operand in told.op.given if operand is not wanted]
        terms.append(" * ".join(f"{names[o]}{list(points[o])}" for o in given))
    shown = " + ".join(terms[:4]) + (f" + {len(terms) - 4} more" if len(terms) > 4 else "")
    return f"{names[wanted]}{list(chosen)} = {shown or '0'}"


def _phase(axes: Sequence[Axis], point: Point) -> int:
    number = 0
    for axis, place in zip(axes, point, strict=True):
        number = number * axis.stride + (place + axis.pad_begin) % axis.stride
    return number


def _cell(  # noqa: PLR0913 - the parts of a cell
    x: float, y: float, text: str, fill: str, *, chosen: bool = False, met: bool = False,
    extra: bool = False,
) -> list[Mark]:  # fmt: skip
    side = SIDE - GAP
    edge, thick, dash = (LIGHT["line"], 1.0, 0)
    if extra:
        edge, thick, dash = LIGHT["ink"], 1.5, 3
    if met:
        edge, thick, dash = LIGHT["ink"], 2.5, 0
    if chosen:
        edge, thick, dash = LIGHT["accent"], 4.0, 0
    ink = ink_on(fill)
    return [
        Box(x, y, side, side, fill, edge, thick, dash),
        *([Words(x + side / 2, y + side / 2, text, ink, "middle")] if text else []),
    ]


def _padding(x: float, y: float) -> Mark:
    return Box(x, y, SIDE - GAP, SIDE - GAP, LIGHT["pad"], LIGHT["quiet"], 1, 3)


def _extra(told: Explanation, point: Point) -> bool:
    if told.op.wanted is not Operand.FINE:
        return False
    return any(
        letters["op"] > 0 and place >= axis.fine_size - letters["op"]
        for letters, place, axis in zip(told.letters, point, told.problem.axes, strict=True)
    )


def _bounds(axis: Axis) -> tuple[int, int]:
    """Return the first place of the larger grid with its padding, and the place behind the last."""
    last = axis.stride * (axis.coarse_size - 1) + window(axis.taps, axis.dilation) - axis.pad_begin
    return min(0, -axis.pad_begin), max(axis.fine_size, last)


def _line(told: Explanation, chosen: Point, met: Mapping[Operand, set[Point]]) -> list[Mark]:
    axis, wanted, names = told.problem.axes[0], told.op.wanted, told.names
    low, high = _bounds(axis)
    span = window(axis.taps, axis.dilation)
    top, drop = 66, max(84, min(130, 24 * axis.taps))
    below, half = top + SIDE + drop, (SIDE - GAP) / 2

    def at(place: float) -> float:
        return MARGIN + (place - low) * SIDE

    def centre(coarse: int) -> float:
        return at(axis.stride * coarse - axis.pad_begin + (span - 1) / 2) + half

    marks: list[Mark] = [Words(MARGIN, top - 16, names[Operand.FINE], LIGHT["quiet"])]
    lines = []
    for c, t, f in _triples(axis):
        place = {Operand.COARSE: c, Operand.WEIGHTS: t, Operand.FINE: f}[wanted]
        on = place == chosen[0]
        colour, thick = (LIGHT["ink"], 2.4) if on else (LIGHT["line"], 1.0)
        lines.append(
            (on, Stroke((centre(c), below), (at(f) + half, top + SIDE - GAP), colour, thick))
        )
    marks += [stroke for on, stroke in sorted(lines, key=lambda each: each[0])]
    for place in range(low, high):
        if not 0 <= place < axis.fine_size:
            marks.append(_padding(at(place), top))
            continue
        marks += _cell(
            at(place), top, str(place), phase_colour(_phase([axis], (place,))),
            chosen=wanted is Operand.FINE and (place,) == chosen,
            met=wanted is not Operand.FINE and (place,) in met[Operand.FINE],
            extra=_extra(told, (place,)),
        )  # fmt: skip
    for c in range(axis.coarse_size):
        marks += _cell(
            centre(c) - half, below, str(c), LIGHT["paper"],
            chosen=wanted is Operand.COARSE and (c,) == chosen,
            met=wanted is not Operand.COARSE and (c,) in met[Operand.COARSE],
        )  # fmt: skip
    marks.append(Words(MARGIN, below + SIDE + 10, names[Operand.COARSE], LIGHT["quiet"]))
    taps = below + SIDE + 28
    for t in range(axis.taps):
        marks += _cell(
            MARGIN + t * SIDE, taps, str(t), phase_colour(axis.dilation * t % axis.stride),
            chosen=wanted is Operand.WEIGHTS and (t,) == chosen,
            met=wanted is not Operand.WEIGHTS and (t,) in met[Operand.WEIGHTS],
        )  # fmt: skip
    note = f"taps of {names[Operand.WEIGHTS]}"
    marks.append(Words(MARGIN + axis.taps * SIDE + 8, taps + half, note, LIGHT["quiet"]))
    return marks


def _plane(told: Explanation, chosen: Point, met: Mapping[Operand, set[Point]]) -> list[Mark]:
    axes, wanted, names = told.problem.axes, told.op.wanted, told.names
    (top_low, top_high), (left_low, left_high) = (_bounds(axis) for axis in axes)
    marks: list[Mark] = []

    def grid(operand: Operand, at: tuple[float, float], low: Point, high: Point) -> None:
        x, y = at
        title = f"{'taps of ' if operand is Operand.WEIGHTS else ''}{names[operand]}"
        marks.append(Words(x, y - 14, title, LIGHT["quiet"]))
        for point in product(range(low[0], high[0]), range(low[1], high[1])):
            place = x + (point[1] - low[1]) * SIDE, y + (point[0] - low[0]) * SIDE
            sizes = told.problem.spatial(operand)
            if not all(0 <= p < size for p, size in zip(point, sizes, strict=True)):
                marks.append(_padding(*place))
                continue
            number = None
            if operand is Operand.FINE:
                number = _phase(axes, point)
            elif operand is Operand.WEIGHTS:
                row, column = (a.dilation * p % a.stride for a, p in zip(axes, point, strict=True))
                number = row * axes[1].stride + column
            fill = LIGHT["paper"] if number is None else phase_colour(number)
            marks.extend(
                _cell(
                    *place, "" if number is None else str(number), fill,
                    chosen=operand is wanted and point == chosen,
                    met=operand is not wanted and point in met[operand],
                    extra=operand is Operand.FINE and _extra(told, point),
                )
            )  # fmt: skip

    low, high = (top_low, left_low), (top_high, left_high)
    grid(Operand.FINE, (MARGIN, 66), low, high)
    beside = MARGIN + (left_high - left_low) * SIDE + 28
    coarse = told.problem.spatial(Operand.COARSE)
    grid(Operand.COARSE, (beside, 66), (0, 0), coarse)
    taps = told.problem.spatial(Operand.WEIGHTS)
    grid(Operand.WEIGHTS, (beside, 66 + coarse[0] * SIDE + 38), (0, 0), taps)
    return marks


def _legend(told: Explanation, y: float) -> list[Mark]:
    strides = [axis.stride for axis in told.problem.axes]
    marks: list[Mark] = []
    x: float = MARGIN
    count = strides[0] * (strides[1] if len(strides) > 1 else 1)
    for number in range(min(count, 9)):
        colour = phase_colour(number)
        own = str(number) if len(strides) == 1 else f"{number // strides[1]},{number % strides[1]}"
        marks.append(Box(x, y - 8, 16, 16, colour))
        marks.append(Words(x + 8, y, str(number), ink_on(colour), "middle"))
        marks.append(Words(x + 22, y, f"phase {own}", LIGHT["quiet"]))
        x += 104
    marks.append(Box(x, y - 8, 16, 16, LIGHT["pad"], LIGHT["quiet"], 1, 3))
    marks.append(Words(x + 22, y, "padding", LIGHT["quiet"]))
    if any(letters["op"] for letters in told.letters) and told.op.wanted is Operand.FINE:
        marks.append(Box(x + 104, y - 8, 16, 16, LIGHT["paper"], LIGHT["ink"], 1.5, 3))
        marks.append(Words(x + 126, y, "output_padding", LIGHT["quiet"]))
    return marks
