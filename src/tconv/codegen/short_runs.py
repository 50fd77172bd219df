"""Runs of gathers of few terms: over tables of points, or along lines that are long enough."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from llvmlite import ir

from tconv.codegen.block import Block, KernelShape, Record
from tconv.codegen.build import (
    FLOATS,
    I1,
    I64,
    STORED,
    counted,
    larger,
    load,
    number,
    place,
    smaller,
    store,
)
from tconv.codegen.correlate_sums import emit_stream_run
from tconv.codegen.places import Place
from tconv.codegen.points import Steps, point_lines, point_steps, points_of
from tconv.codegen.ragged import find_ragged
from tconv.codegen.runs import panel_kinds, rows_of
from tconv.codegen.short import emit_short_line, emit_short_tile
from tconv.codegen.tile import Tile
from tconv.plan.gather_blocks import MOST_STEPS

PART = 48  # points of a line, whole tiles of any kind, that all panels are summed for in turn
JOINED_ROWS = 4  # of a wide panel and a narrow one: twelve sums, and three vectors of weights
LONG = 24  # points of a line that pays for what begins with it


@dataclass(frozen=True, slots=True)
class Short:
    """Tiles of few terms, by vectors; one vector more than panels have are two panels."""

    tiles: dict[int, dict[int, ir.Function]]  # by points of tables, most first
    lines: dict[int, ir.Function]  # large, for lines of points
    past: dict[int, ir.Function]  # the same, to results that no cache should keep
    copy: ir.Function | None  # what is summed near to such results, where points are no whole lines


@dataclass(frozen=True, slots=True)
class _Run:
    """Panels of so many vectors: from which on, how many, and where they are summed to."""

    vectors: int
    panel: ir.Value
    count: ir.Value
    channel: ir.Value  # the first one of the first panel
    last: ir.Value  # where the last vector of a panel lies in it
    into: ir.Value
    stored: bool  # in the target, or in scratch as other sums
    past: ir.Value | None = None  # whether past all caches
    beyond: ir.Value | None = None  # the panel behind, if the last vector is of that one


def emit_short(module: ir.Module, shape: KernelShape, *, past: bool) -> Short:
    """Emit the tiles; some more for results that go past the caches."""

    def tile(rows: int, vectors: int) -> Tile:
        joined = vectors > shape.vectors
        return Tile(rows, vectors, shape.lanes, shape.dtype, joined=joined)

    kinds: dict[int, tuple[int, ...]] = {v: rows_of(shape, v) for v in panel_kinds(shape)}
    if 1 in kinds:
        kinds[shape.vectors + 1] = (JOINED_ROWS,)
    lines = {vectors: tile(rows[0], vectors) for vectors, rows in kinds.items()}
    plain = STORED[shape.dtype] == FLOATS[shape.dtype]
    return Short(
        {
            v: {some: emit_short_tile(module, tile(some, v)) for some in rows}
            for v, rows in kinds.items()
        },
        {v: emit_short_line(module, line) for v, line in lines.items()},
        {
            v: emit_short_line(module, replace(line, past=True))
            for v, line in lines.items()
            if past and plain
        },
        emit_stream_run(module, shape.dtype) if past and plain else None,
    )


def along_lines(b: ir.IRBuilder, r: Record, shape: KernelShape, length: ir.Value) -> ir.Value:
    """Return how many points of a line of some length are summed by tiles along it.

    The others are taken from tables, where tiles go on in the next line.
    """
    wide, narrow = (number(rows_of(shape, vectors)[0]) for vectors in (shape.vectors, 1))
    rows = b.select(_is(b, ">", r.wide_panels, 0), wide, narrow)
    whole = b.sub(length, b.srem(length, rows))
    return b.select(_is(b, ">=", length, LONG), whole, number(0))


def run_short(  # noqa: PLR0913 - which panels of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    short: Short,
    block: Block,
    where: Place,
    phase_lines: tuple[ir.Value, ir.Value],
    panels: tuple[ir.Value, ir.Value, ir.Value],
) -> tuple[ir.Value, ir.Value]:
    """Sum and store panels to the target if they go together; return the first not done, twice.

    The panels are from, to, and of how many groups.  Their channels must lie side by side in the
    target, and fill a vector.  Of several groups, which have one panel each, those that fill none
    are as many as a whole vector may write: what reaches into groups behind is written again by
    those.
    """
    first, last, groups = panels
    ragged, none = find_ragged(b, shape, r.columns), number(0)
    columns, lanes = number(shape.columns), number(shape.lanes)
    wide = larger(b, b.sub(smaller(b, ragged.panels, last), first), none)
    behind = b.and_(_is(b, ">", ragged.rest, 0), b.icmp_signed("<", ragged.panels, last))
    behind = b.and_(behind, ragged.fits)
    narrow, short_of = (
        b.zext(b.and_(behind, kind), I64) for kind in (ragged.narrow, b.not_(ragged.narrow))
    )
    done = b.add(b.add(first, wide), b.add(narrow, short_of))
    several = _is(b, ">", groups, 1)
    alike = _is(b, "<=", r.columns, shape.lanes)  # one vector of each
    reached = b.select(alike, b.sdiv(b.sub(lanes, number(1)), r.columns), none)
    whole = larger(b, b.sub(groups, reached), none)
    plain = b.and_(_is(b, "==", r.activate, 0), _is(b, "==", r.target_c, 1))
    together = b.and_(_is(b, "!=", r.together, 0), plain)
    with b.if_then(together):
        wide_count = b.select(several, b.select(alike, none, whole), wide)
        narrow_count = b.select(several, b.select(alike, whole, none), narrow)
        steps = [
            b.select(several, mine, other)
            for mine, other in (
                (r.group_weights, r.at("panel_weights", phase_lines[0])),
                (r.target_g, columns),
                (columns, columns),
                (r.source_g, none),
            )
        ]
        # Later groups may not begin with a cache line.
        past = b.and_(where.past, b.not_(several))

        def run(
            vectors: int, panel: ir.Value, count: ir.Value, last: ir.Value, channel: ir.Value
        ) -> _Run:
            into = place(b, where.target, channel)
            return _Run(vectors, panel, count, channel, last, into, stored=True, past=past)

        end = b.select(several, none, ragged.panels)
        second = b.select(several, ragged.last_of(b, none), b.sub(columns, lanes))
        # A narrow panel goes with the wide one before it.
        pair = b.and_(_is(b, ">", wide, 0), _is(b, "!=", narrow, 0))
        pair = b.zext(b.and_(pair, b.not_(several)), I64)
        before = b.sub(ragged.panels, number(1))
        third = b.sub(columns, ragged.moved)
        two = run(shape.vectors + 1, before, pair, third, b.mul(before, columns))
        runs = [
            run(shape.vectors, first, b.sub(wide_count, pair), second, b.mul(first, columns)),
            run(1, end, b.sub(narrow_count, pair), none, ragged.channel(b, end)),
            run(
                shape.vectors, ragged.panels, b.select(several, none, short_of), ragged.last,
                b.mul(ragged.panels, columns),
            ),
            replace(two, beyond=ragged.panels),
        ]  # fmt: skip
        large = _all_of_large(b, r, (first, done), b.or_(several, where.past))
        _run_panels(b, r, shape, short, block, where, phase_lines, (runs, steps, large))
    return (
        b.select(b.and_(together, several), whole, none),
        b.select(b.and_(together, b.not_(several)), done, first),
    )


def sum_short(  # noqa: PLR0913 - which panel of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    short: Short,
    block: Block,
    where: Place,
    phase_lines: tuple[ir.Value, ir.Value],
    panel: ir.Value,
) -> None:
    """Sum one panel to scratch: one that fills no vector, or has channels not side by side."""
    ragged = find_ragged(b, shape, r.columns)
    wide = b.zext(b.icmp_signed("<", panel, r.wide_panels), I64)
    counts = (shape.vectors, wide), (1, b.sub(number(1), wide))
    where_to = ragged.channel(b, panel), ragged.last_of(b, panel), where.sums
    runs = [_Run(vectors, panel, count, *where_to, stored=False) for vectors, count in counts]
    numbers = runs, [number(0)] * 4, ir.Constant(I1, 0)
    _run_panels(b, r, shape, short, block, where, phase_lines, numbers)


@dataclass(frozen=True, slots=True)
class _Phase:
    """What panels are summed by, for the points of a phase."""

    runs: Sequence[_Run]
    weights: Sequence[list[ir.Value]]  # of each run, and of the panel behind
    bias: Sequence[ir.Value]
    offsets: ir.Value  # of all that a point reads
    terms: ir.Value  # how many they are
    steps: Steps
    panel_steps: Sequence[ir.Value]
    soon: ir.Value  # how far behind points those lie that are asked for, or 0
    near: ir.Value  # whether parts of lines are summed near, and go past the caches from there


def _run_panels(  # noqa: PLR0913 - which panels of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    short: Short,
    block: Block,
    where: Place,
    phase_lines: tuple[ir.Value, ir.Value],
    numbers: tuple[Sequence[_Run], Sequence[ir.Value], ir.Value],
) -> None:
    """Run tiles for some panels, along lines and by tables.

    Steps from one panel to the next are of weights, target, bias, data.  Last we are told whether
    these are all channels of a large result.
    """
    phase, lines = phase_lines
    every, panel_steps, large = numbers
    runs = [run for run in every if run.vectors in short.tiles]
    with b.goto_entry_block():
        offsets = b.alloca(I64, number(MOST_STEPS))
    steps = point_steps(b, r, where)
    near = _sums_near(b, r, steps, large)
    with counted(b, r.phases) as x:
        both = b.add(b.mul(phase, r.phases), x.index)
        terms = _list_offsets(b, r, both, (where.data.segments, offsets))
        points = points_of(b, r, block, x.index)
        of_phase = _Phase(
            runs,
            [_weights_of(b, r, shape, where, (phase, both), run) for run in runs],
            [place(b, where.bias, run.channel) for run in runs],
            offsets, terms, steps, panel_steps, _asked(b, r, where, steps, terms), near,
        )  # fmt: skip
        along = along_lines(b, r, shape, points.length)
        these = phase, b.select(_is(b, ">", along, 0), lines, number(0))
        with point_lines(b, r, block, where, points, these) as (_, first):
            _run_line(b, r, short, where, of_phase, (first, along))
        entry, count = b.mul(x.index, r.points), load(b, where.counts, x.index)
        for run, (weights, *beyond), bias in zip(
            runs, of_phase.weights, of_phase.bias, strict=True
        ):
            places = where.targets if run.stored else where.places
            given = [run.into, bias, where.data.origin, weights]
            tables = place(b, places, entry), place(b, where.rows, entry)
            sizes = [offsets, terms, run.count, *panel_steps, run.last, *beyond]
            with b.if_then(_is(b, ">", run.count, 0)):
                _run_tiles(b, short.tiles[run.vectors], count, tables, (given, sizes))


def _run_line(  # noqa: PLR0913 - which points of what
    b: ir.IRBuilder,
    r: Record,
    short: Short,
    where: Place,
    phase: _Phase,
    points: tuple[Steps, ir.Value],
) -> None:
    """Run tiles along a line, for all panels of some points before other points."""
    first, along = points
    steps = phase.steps
    parts = larger(b, b.sdiv(along, number(PART)), number(1))
    with counted(b, parts) as part:
        begin = b.mul(part.index, number(PART))
        ends = b.icmp_signed("==", part.index, b.sub(parts, number(1)))
        some = b.select(ends, b.sub(along, begin), number(PART))
        origin = place(b, where.data.origin, b.add(first.read, b.mul(begin, steps.read)))
        soon = phase.soon  # once, by the first run
        for run, (weights, *beyond), bias in zip(
            phase.runs, phase.weights, phase.bias, strict=True
        ):
            to, apart = first.summed, steps.summed
            if run.stored:
                to, apart = first.stored, steps.stored
            target = place(b, run.into, b.add(to, b.mul(begin, apart)))
            if run.stored and short.copy is not None:
                target = b.select(phase.near, place(b, where.sums, run.channel), target)
            given = [target, bias, origin, weights, phase.offsets]
            sizes = [some, steps.read, apart, phase.terms, run.count, *phase.panel_steps, run.last]
            with b.if_then(_is(b, ">", run.count, 0)):
                line: ir.Value = short.lines[run.vectors]
                if short.past and run.past is not None:
                    line = b.select(run.past, short.past[run.vectors], line)
                b.call(line, [*given, *sizes, soon, *beyond])
            soon = number(0)
        if short.copy is not None and phase.runs[0].stored:
            target = place(b, where.target, b.add(first.stored, b.mul(begin, steps.stored)))
            with b.if_then(phase.near):
                b.call(short.copy, [target, where.sums, b.mul(some, r.columns)])


def _all_of_large(
    b: ir.IRBuilder, r: Record, panels: tuple[ir.Value, ir.Value], other: ir.Value
) -> ir.Value:
    """Tell whether panels are all that a large result has, and go no ``other`` way."""
    first, done = panels
    every = b.and_(_is(b, "==", first, 0), b.icmp_signed("==", done, r.panels))
    return b.and_(b.and_(every, b.not_(other)), _is(b, "!=", r.large, 0))


def _sums_near(b: ir.IRBuilder, r: Record, steps: Steps, large: ir.Value) -> ir.Value:
    """Tell whether parts of lines are summed in scratch, and copied past the caches from there.

    Where points lie side by side, but are no whole cache lines; there must be room for a part.
    """
    tight = b.icmp_signed("==", steps.stored, r.columns)
    room = b.icmp_signed(">=", r.sums_panel, b.mul(r.columns, number(2 * PART)))
    return b.and_(large, b.and_(tight, room))


def _asked(b: ir.IRBuilder, r: Record, where: Place, steps: Steps, terms: ir.Value) -> ir.Value:
    """Return how far ahead lines of points are asked for that come from memory; 0 if none are.

    They come in their order, but tiles read several at once, which no machine foresees.  Those of
    which most is skipped are left.
    """
    mostly = b.icmp_signed(">=", terms, b.sdiv(steps.read, number(2)))
    far = b.and_(b.and_(where.data.far, _is(b, "!=", r.large, 0)), mostly)
    return b.select(far, b.mul(steps.read, number(PART)), number(0))


def _weights_of(  # noqa: PLR0913 - which panels of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    where: Place,
    phases: tuple[ir.Value, ir.Value],
    run: _Run,
) -> list[ir.Value]:
    """Return the weights of a run's panels, and of the panel behind that goes with them.

    The phases are those of the outer axes, and of all.
    """
    phase, both = phases
    before, packed = r.at("rows_before", both), r.at("phase_weights", phase)
    panels = [(run.panel, min(run.vectors, shape.vectors))]
    if run.beyond is not None:
        panels.append((run.beyond, 1))
    found = []
    for panel, vectors in panels:
        skipped = b.mul(before, number(vectors * shape.lanes))
        mine = b.add(packed, b.mul(panel, r.at("panel_weights", phase)))
        found.append(place(b, where.weights, b.add(mine, skipped)))
    return found


def _is(b: ir.IRBuilder, relation: str, left: ir.Value, right: int) -> ir.Value:
    return b.icmp_signed(relation, left, number(right))


def _list_offsets(
    b: ir.IRBuilder, r: Record, both: ir.Value, lists: tuple[ir.Value, ir.Value]
) -> ir.Value:
    """Note where every element lies that a point of a phase reads; return how many there are."""
    segments, offsets = lists
    depth, start = r.at("segment_depth", both), r.at("segment_start", both)
    count = r.at("segment_count", both)
    with counted(b, count) as segment:
        begin = load(b, segments, b.add(start, segment.index))
        entry = b.mul(segment.index, depth)
        with counted(b, depth) as k:
            store(b, b.add(begin, k.index), offsets, b.add(entry, k.index))
    return b.mul(count, depth)


def _run_tiles(
    b: ir.IRBuilder,
    tiles: dict[int, ir.Function],
    points: ir.Value,
    tables: tuple[ir.Value, ir.Value],
    arguments: tuple[list[ir.Value], list[ir.Value]],
) -> None:
    """Run the large tile as often as it fits, then the one that what is left fits into."""
    large, small = max(tiles), min(tiles)
    rest = b.srem(points, number(large))
    whole = b.sub(points, rest)
    again = b.icmp_signed(">", rest, number(small))
    with counted(b, b.add(whole, b.select(again, number(large), number(0))), step=large) as turn:
        here = [place(b, table, turn.index) for table in tables]
        b.call(tiles[large], [*arguments[0], *here, *arguments[1]])
    fits = b.and_(_is(b, ">", rest, 0), b.icmp_signed("<=", rest, number(small)))
    with b.if_then(fits):
        here = [place(b, table, whole) for table in tables]
        b.call(tiles[small], [*arguments[0], *here, *arguments[1]])
