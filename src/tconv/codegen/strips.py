"""Strips: depthwise layers whose lines lie side by side, in tiles of several lines."""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.activation import activated
from tconv.codegen.block import Block, KernelShape, Record, emit_block
from tconv.codegen.block_lines import first_lines, from_start, stores
from tconv.codegen.build import (
    FLOATS,
    I64,
    STORED,
    advancing,
    counted,
    function,
    load,
    number,
    place,
    smaller,
)
from tconv.codegen.plane_rows import emit_store_phases, emit_store_planes
from tconv.codegen.points import Points, points_of, settle_phase
from tconv.codegen.stored import covered
from tconv.codegen.strip_region import Packers, clear_region, emit_packers, pack_strips_region
from tconv.codegen.strip_tile import TILES, emit_strip
from tconv.plan.strips import ARRAYS, FIELDS, SIZES


@dataclass(frozen=True, slots=True)
class _Parts:
    strips: dict[tuple[int, int], ir.Function]  # by lines and vectors
    direct: dict[tuple[int, int], ir.Function]  # those that write to the target
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


def emit_strips(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``strips(record, scratch, item)``, public.

    The shape's rows are one, and the phases of the last axis that are stored side by side.
    """
    pointer, stored = FLOATS[shape.dtype].as_pointer(), STORED[shape.dtype].as_pointer()
    strips = {size: emit_strip(module, shape, size) for size in TILES}
    direct = strips
    if stored != pointer and shape.rows[1] == 1:
        direct = {size: emit_strip(module, shape, size, rounds=True) for size in TILES}
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
            some = _Lines(outer.index, count, *places, step)
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
    along = b.mul(r.target_x, r.step_out)
    direct = b.and_(
        b.and_(b.icmp_signed("==", r.activate, number(0)), b.icmp_signed("==", along, number(1))),
        b.icmp_signed(">=", points.length, number(shape.lanes)),
    )
    up = b.and_(b.add(points.length, number(shape.lanes - 1)), number(-shape.lanes))
    both = b.add(b.mul(lines.phase, b.mul(r.phases, number(merged))), points.phase)
    left = r.pointer_to("zeros", where.bias.type)
    with counted(b, where.groups) as group, counted(b, r.columns) as column:
        channel = b.add(b.mul(group.index, r.columns), column.index)
        moved = b.add(b.mul(group.index, r.target_g), b.mul(column.index, r.target_c))
        target = place(b, where.target, b.add(start, moved))
        begin = b.add(read, b.mul(b.mul(group.index, r.depth), r.plane))
        bias = load(b, where.bias, channel)
        mine = place(b, where.weights, b.mul(channel, r.column_weights))

        def run(p: int, to: tuple[ir.Value, ir.Value, ir.Value, bool]) -> None:
            phase = b.add(both, number(p))
            out, step, length, final = to
            tables = [
                place(b, r.segments, r.at("segment_start", phase)),
                place(b, r.segment_counts, b.mul(phase, number(len(SIZES)))),
            ]
            weights = place(b, mine, r.at("phase_weights", phase))
            ends = [bias, place(b, where.region, begin), weights, *tables]
            strips = parts.direct if final else parts.strips
            _run_tiles(b, r, shape, strips, (out, ends, step, length, lines.count))

        def summed() -> None:
            for p in range(merged):
                sums = place(b, where.sums, b.mul(number(p), r.sums_apart))
                run(p, (sums, r.sums_pitch, up, False))
                activated(b, r, sums, left, (lines.count, points.length, r.sums_pitch))
            if merged > 1:
                whole = b.mul(points.length, number(merged))
                count = smaller(b, whole, b.sub(r.size_out, place_of))
                numbers = [lines.count, r.sums_pitch, r.sums_apart, count, lines.step, r.target_x]
                b.call(parts.store_phases, [target, where.sums, left, *numbers])
            else:
                numbers = [lines.count, r.sums_pitch, points.length, lines.step, along]
                b.call(parts.store, [target, where.sums, left, *numbers])

        if merged > 1:
            summed()
        else:
            with b.if_else(direct) as (at_once, later):
                with at_once:
                    run(0, (target, lines.step, points.length, True))
                with later:
                    summed()


def _run_tiles(
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    strips: dict[tuple[int, int], ir.Function],
    numbers: tuple[ir.Value, list[ir.Value], ir.Value, ir.Value, ir.Value],
) -> None:
    """Sum lines by tiles: of those that share taps, many at a time or few, or one by one."""
    out, (bias, data, *tables), step, length, lines = numbers
    in_line, out_line = b.mul(r.apart, r.line), b.mul(r.apart, step)
    long = b.icmp_signed(">=", length, number(8 * shape.lanes))
    with counted(b, smaller(b, r.apart, lines)) as turn:
        every = b.add(b.sub(lines, turn.index), b.sub(r.apart, number(1)))
        count = b.sdiv(every, r.apart)
        read = place(b, data, b.mul(turn.index, r.line))
        into = place(b, out, b.mul(turn.index, step))
        # Tiles of four lines load more for each multiplication.
        eights, fours = (
            b.mul(b.sdiv(b.add(count, number(some - 1)), number(some)), number(some * pace))
            for some, pace in ((8, 8), (4, 9))
        )
        many = b.and_(b.icmp_signed(">=", count, number(8)), b.icmp_signed("<=", eights, fours))
        few = b.and_(b.icmp_signed(">=", count, number(4)), b.not_(many))
        one = b.not_(b.or_(many, few))
        each = many, few, b.and_(one, long), b.and_(one, b.not_(long))
        for size, chosen in zip(TILES, each, strict=True):
            with b.if_then(chosen), covered(b, count, size[0]) as line:
                first = place(b, into, b.mul(line, out_line))
                ends = [first, bias, place(b, read, b.mul(line, in_line)), *tables]
                b.call(strips[size], [*ends, in_line, out_line, length])
