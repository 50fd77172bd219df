"""Strips: depthwise layers whose lines lie side by side, in tiles of several lines."""

from dataclasses import dataclass, replace

from llvmlite import ir

from tconv.codegen.activation import activated
from tconv.codegen.block import Block, KernelShape, Record, emit_block
from tconv.codegen.block_lines import first_lines, from_start, stores
from tconv.codegen.build import (
    FLOATS,
    I1,
    I64,
    STORED,
    advancing,
    counted,
    function,
    larger,
    load,
    number,
    place,
    smaller,
)
from tconv.codegen.plane_rows import emit_store_phases, emit_store_planes
from tconv.codegen.points import Points, points_of, settle_phase
from tconv.codegen.stored import covered
from tconv.codegen.strip_region import Packers, clear_region, emit_packers, pack_strips_region
from tconv.codegen.strip_tile import RARE, TILES, emit_strip, most_cut
from tconv.plan.strips import ARRAYS, FIELDS, PACE, SIZES

Strips = dict[tuple[int, int], ir.Function]
"""By lines and vectors."""


@dataclass(frozen=True, slots=True)
class _Parts:
    strips: Strips
    direct: Strips  # those that write to the target, all phases side by side
    packers: Packers
    store: ir.Function
    store_phases: ir.Function


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a work item finds and puts things."""

    region: ir.Value
    sums: ir.Value
    target: ir.Value
    weights: ir.Value
    bias: ir.Value
    groups: ir.Value


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines of one phase, one below the other: how many, and where the first of them lies."""

    phase: ir.Value  # of the outer axes
    count: ir.Value
    read: ir.Value
    written: ir.Value
    step: ir.Value  # of the target, from line to line


@dataclass(frozen=True, slots=True)
class _Channel:
    """Where a written channel of those lines finds and puts things."""

    target: ir.Value
    data: ir.Value
    bias: ir.Value  # a number
    weights: ir.Value
    phase: ir.Value  # of all axes


def emit_strips(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``strips(record, scratch, item)``, public.

    The shape's rows are one, and the phases of the last axis that are stored side by side.
    """
    pointer, stored = FLOATS[shape.dtype].as_pointer(), STORED[shape.dtype].as_pointer()
    merged, rounds = shape.rows[1], stored != pointer
    often = TILES[1] if merged == 1 else RARE
    strips = {size: emit_strip(module, shape, size) for size in often}
    direct = strips
    if merged > 1 or rounds:
        direct = {
            size: emit_strip(module, shape, size, merged, rounds=rounds) for size in TILES[merged]
        }
    parts = _Parts(
        strips,
        direct,
        emit_packers(module, shape),
        emit_store_planes(module, shape),
        emit_store_phases(module, shape),
    )
    made, b = function(
        module, f"strips_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    block, _ = emit_block(b, r, b.sdiv(item, r.chunks), begins=True)
    begin = b.mul(b.srem(item, r.chunks), r.chunk)
    end = smaller(b, b.add(begin, r.chunk), r.groups)
    clear_region(b, r, shape.dtype, scratch)
    with advancing(b, begin, end) as some:
        groups = smaller(b, b.sub(end, some.index), r.at_once)
        _run_groups(b, r, shape, parts, block, (scratch, some.index, groups))
        some.following = b.add(some.index, groups)
    b.ret_void()
    return made


def _run_groups(  # noqa: PLR0913 - which groups of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    block: Block,
    which: tuple[ir.Value, ir.Value, ir.Value],
) -> None:
    """Pack what a block reads of some groups, then sum it: in scratch, from the first one on."""
    scratch, first, groups = which
    pointer, stored = FLOATS[shape.dtype].as_pointer(), STORED[shape.dtype].as_pointer()
    weights = b.mul(b.mul(first, r.columns), r.column_weights)
    where = _Place(
        region=scratch,
        sums=place(b, scratch, r.scratch_sums),
        target=place(b, r.pointer_to("target", stored), b.mul(first, r.target_g)),
        weights=place(b, r.pointer_to("weights", pointer), weights),
        bias=place(b, r.pointer_to("bias", pointer), b.mul(first, r.columns)),
        groups=groups,
    )
    source = place(b, r.pointer_to("source", stored), b.mul(first, r.source_g))
    pack_strips_region(b, r, parts.packers, block, (scratch, source, groups))
    with counted(b, r.outer_phases) as outer:
        lines = settle_phase(b, r, block, outer.index)
        read = from_start(b, r, block, lambda d: r.at("read_steps", d))
        written = stores(b, r, block, outer.index)
        step = written.step(b.sub(r.outer, number(1)))
        with first_lines(b, r, block, lines, read, written) as (_, count, places):
            some = _Lines(outer.index, count, places[0], places[1], step)
            with counted(b, r.phases) as x:
                points = points_of(b, r, block, x.index)
                with b.if_then(b.icmp_signed(">", points.length, number(0)), likely=True):
                    _run_lines(b, r, shape, parts, block, (where, some, points))


def _run_lines(  # noqa: PLR0913 - which lines of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    block: Block,
    which: tuple[_Place, _Lines, Points],
) -> None:
    """Sum and store lines of one phase of the last axis, or of all, for every channel."""
    where, lines, points = which
    merged = shape.rows[1]
    place_of = b.add(b.add(b.mul(points.low, r.step_out), r.shift_out), points.phase)
    start = b.add(lines.written, b.mul(place_of, r.target_x))
    read = b.add(lines.read, b.sub(points.low, block.start))
    # Not all phases of the last point may be there.
    places = b.mul(points.length, number(merged))
    if merged > 1:
        places = smaller(b, places, b.sub(r.size_out, place_of))
    # Points go straight to the target, if they fill vectors but for what tiles can leave out.
    beside = b.mul(r.target_x, r.step_out if merged == 1 else number(1))
    padded = b.mul(larger(b, points.length, number(shape.lanes)), number(merged))
    most = number(most_cut(shape.lanes, merged))
    direct = b.icmp_signed("==", r.activate, number(0))
    direct = b.and_(direct, b.icmp_signed("==", beside, number(1)))
    direct = b.and_(direct, b.icmp_signed("<=", b.sub(padded, places), most))
    both = b.add(b.mul(lines.phase, b.mul(r.phases, number(merged))), points.phase)
    with counted(b, where.groups) as group, counted(b, r.columns) as column:
        channel = b.add(b.mul(group.index, r.columns), column.index)
        moved = b.add(b.mul(group.index, r.target_g), b.mul(column.index, r.target_c))
        region = place(b, where.region, b.mul(b.mul(group.index, r.depth), r.plane))
        mine = _Channel(
            target=place(b, where.target, b.add(start, moved)),
            data=place(b, region, read),
            bias=load(b, where.bias, channel),
            weights=place(b, where.weights, b.mul(channel, r.column_weights)),
            phase=both,
        )
        with b.if_else(direct) as (at_once, later):
            with at_once:
                ends = lines.count, mine.target, lines.step, points.length, places
                _run_tiles(b, r, shape, parts.direct, mine, ends)
            with later:
                _run_later(b, r, shape, parts, which, mine, places)


def _run_later(  # noqa: PLR0913 - which lines of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    which: tuple[_Place, _Lines, Points],
    mine: _Channel,
    places: ir.Value,
) -> None:
    """Sum lines in scratch, finish them, and store so many places of each."""
    where, lines, points = which
    merged = shape.rows[1]
    zeros = r.pointer_to("zeros", where.bias.type)
    up = b.and_(b.add(points.length, number(shape.lanes - 1)), number(-shape.lanes))
    for p in range(merged):
        sums = place(b, where.sums, b.mul(number(p), r.sums_apart))
        one = replace(mine, phase=b.add(mine.phase, number(p)))
        ends = lines.count, sums, r.sums_pitch, up, up
        _run_tiles(b, r, shape, parts.strips, one, ends)
        activated(b, r, sums, zeros, (lines.count, points.length, r.sums_pitch))
    if merged > 1:
        numbers = [lines.count, r.sums_pitch, r.sums_apart, places, lines.step, r.target_x]
        b.call(parts.store_phases, [mine.target, where.sums, zeros, *numbers])
    else:
        along = b.mul(r.target_x, r.step_out)
        numbers = [lines.count, r.sums_pitch, places, lines.step, along]
        b.call(parts.store, [mine.target, where.sums, zeros, *numbers])


def _run_tiles(  # noqa: PLR0913 - which points of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    strips: Strips,
    mine: _Channel,
    numbers: tuple[ir.Value, ir.Value, ir.Value, ir.Value, ir.Value],
) -> None:
    """Sum lines by tiles: of those that share taps, many at a time or few, or one by one.

    The numbers are how many lines there are, where they go and how far apart, how many points
    and places they have.
    """
    lines, out, step, length, places = numbers
    in_line, out_line = b.mul(r.apart, r.line), b.mul(r.apart, step)
    tables = [
        place(b, mine.weights, r.at("phase_weights", mine.phase)),
        place(b, r.segments, r.at("segment_start", mine.phase)),
        place(b, r.segment_counts, b.mul(mine.phase, number(len(SIZES)))),
    ]
    with counted(b, smaller(b, r.apart, lines)) as turn:
        every = b.add(b.sub(lines, turn.index), b.sub(r.apart, number(1)))
        count = b.sdiv(every, r.apart)
        read = place(b, mine.data, b.mul(turn.index, r.line))
        into = place(b, out, b.mul(turn.index, step))
        left: ir.Value = ir.Constant(I1, 1)
        for size, strip in strips.items():
            chosen = b.and_(left, _fits(b, r, shape, size, strips, (count, length)))
            left = b.and_(left, b.not_(chosen))
            with b.if_then(chosen), covered(b, count, size[0]) as line:
                ends = place(b, into, b.mul(line, out_line)), place(b, read, b.mul(line, in_line))
                arguments = [ends[0], mine.bias, ends[1], *tables, in_line, out_line]
                b.call(strip, [*arguments, length, places])


def _fits(  # noqa: PLR0913 - which tiles, for what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    size: tuple[int, int],
    strips: Strips,
    points: tuple[ir.Value, ir.Value],
) -> ir.Value:
    """Tell whether tiles of a size can do so many lines of so many points, and should."""
    lines, vectors = size
    count, length = points
    fits = b.icmp_signed(">=", count, number(lines))
    wide = max(many for _, many in strips)
    long = b.icmp_signed(">=", length, number(wide * shape.lanes))
    if vectors > 1:
        return b.and_(fits, long)
    if lines > 1 and wide > 1:
        # Lines that share nothing are better summed one by one, where they are long.
        fits = b.and_(fits, b.or_(b.not_(long), b.icmp_signed("!=", r.shared, number(0))))
    if lines < max(PACE):
        return fits
    # Tiles of fewer lines load more for each multiplication, but may end sooner.
    many, few = (
        b.mul(b.sdiv(b.add(count, number(some - 1)), number(some)), number(some * pace))
        for some, pace in PACE.items()
    )
    return b.and_(fits, b.icmp_signed("<=", many, few))
