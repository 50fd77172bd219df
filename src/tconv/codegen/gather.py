"""Gathers: blocks of points, every phase of them, panel by panel.

One work item packs the region that a block of points reads, then runs register tiles over
the block's points for each panel of channels, and stores the panel.  What a number means is
said in :mod:`tconv.plan.gather`, which fills the record in.
"""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.activation import activated
from tconv.codegen.block import (
    Block,
    KernelShape,
    Record,
    emit_block,
    emit_line_offset,
    emit_pack_region,
)
from tconv.codegen.build import (
    FLOATS,
    I1,
    I64,
    STORED,
    counted,
    function,
    larger,
    load,
    number,
    place,
    smaller,
    store,
)
from tconv.codegen.rows import emit_pack_row, emit_store_row
from tconv.codegen.short import Points, emit_short_tiles, run_short
from tconv.codegen.tile import Tile, emit_tile
from tconv.plan.gather import ARRAYS, FIELDS


@dataclass(frozen=True, slots=True)
class Parts:
    """The functions that a gather calls, by what they do."""

    tiles: dict[int, list[ir.Function]]  # by vectors
    pack_row: ir.Function
    store_row: ir.Function


@dataclass(frozen=True, slots=True)
class Place:
    """Where a work item finds and puts things."""

    scratch: ir.Value
    sums: ir.Value
    rows: ir.Value  # tables, by phase of the last axis: where a point's region begins,
    places: ir.Value  # where its sums go,
    targets: ir.Value  # where it is stored in the end,
    counts: ir.Value  # and how many points there are
    target: ir.Value
    weights: ir.Value
    bias: ir.Value


def emit_parts(module: ir.Module, shape: KernelShape) -> Parts:
    """Emit the functions that a gather calls."""
    return Parts(
        {
            vectors: [
                emit_tile(module, Tile(rows, vectors, shape.lanes, shape.dtype))
                for rows in shape.rows
            ]
            for vectors in sorted({1, shape.vectors})
        },
        emit_pack_row(module, shape.dtype, shape.lanes),
        emit_store_row(module, shape.dtype, shape.lanes),
    )


def emit_gather(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``gather(record, scratch, item)``, public."""
    pointer = FLOATS[shape.dtype].as_pointer()
    parts = emit_parts(module, shape)
    short = emit_short_tiles(module, shape)
    made, b = function(
        module, f"gather_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    chunk, rest = b.srem(item, r.chunks), b.sdiv(item, r.chunks)
    block, group = emit_block(b, r, rest, begins=True)
    stored = STORED[shape.dtype].as_pointer()
    source = place(b, r.pointer_to("source", stored), b.mul(group, r.source_g))
    emit_pack_region(b, r, parts.pack_row, block, scratch, source)
    where = find_place(b, r, shape, scratch, group)
    first = b.mul(chunk, r.panels_a_chunk)
    last = smaller(b, b.add(first, r.panels_a_chunk), r.panels)
    with counted(b, r.outer_phases) as phase:
        lines = settle_phase(b, r, block, phase.index)
        with b.if_then(b.icmp_signed(">", lines, number(0)), likely=True):
            fill_tables(b, r, block, where, (phase.index, lines))
            points = Points(where.scratch, where.rows, where.targets, where.counts,
                            where.target, where.weights, where.bias)  # fmt: skip
            done = run_short(b, r, shape, short, points, phase.index, (first, last))
            with counted(b, last, first=done) as panel:
                direct = _stores_direct(b, r, shape, panel.index)
                emit_panel(b, r, shape, parts, where, phase.index, (panel.index, direct))
                with b.if_then(b.not_(direct)):
                    _store_panel(b, r, parts.store_row, block, where, lines,
                                 (phase.index, panel.index, shape.columns))  # fmt: skip
    b.ret_void()
    return made


def find_place(
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    scratch: ir.Value,
    group: ir.Value,
) -> Place:
    """Return where a work item of a group finds and puts things."""
    pointer, stored = FLOATS[shape.dtype].as_pointer(), STORED[shape.dtype].as_pointer()
    rows, places, targets, counts = (
        b.bitcast(place(b, scratch, getattr(r, f"scratch_{name}")), I64.as_pointer())
        for name in ("rows", "places", "targets", "counts")
    )
    padded = b.mul(r.panels, number(shape.columns))
    return Place(
        scratch=scratch,
        sums=place(b, scratch, r.scratch_sums),
        rows=rows,
        places=places,
        targets=targets,
        counts=counts,
        target=place(b, r.pointer_to("target", stored), b.mul(group, r.target_g)),
        weights=place(b, r.pointer_to("weights", stored), b.mul(group, r.group_weights)),
        bias=place(b, r.pointer_to("bias", pointer), b.mul(group, padded)),
    )


def settle_phase(b: ir.IRBuilder, r: Record, block: Block, phase: ir.Value) -> ir.Value:
    """Note which points of the block a phase has; return how many lines of them."""
    with counted(b, r.outer, [phase, number(1)]) as axis:
        d = b.sub(b.sub(r.outer, number(1)), axis.index)
        rest, lines = axis.carried
        count = r.at("axis_phases", d)
        entry = b.add(b.mul(d, r.most_phases), b.srem(rest, count))
        low = larger(b, load(b, block.starts, d), r.at("phase_low", entry))
        high = smaller(b, load(b, block.stops, d), r.at("phase_high", entry))
        extent = larger(b, b.sub(high, low), number(0))
        store(b, low, block.lows, d)
        store(b, extent, block.extents, d)
        axis.carried = [b.sdiv(rest, count), b.mul(lines, extent)]
    return axis.carried[1]


def fill_tables(
    b: ir.IRBuilder,
    r: Record,
    block: Block,
    where: Place,
    phase_lines: tuple[ir.Value, ir.Value],
) -> None:
    """Note for every point of every phase of the last axis what it reads and where it goes."""
    phase, lines = phase_lines
    step, apart = b.mul(r.step_in, r.depth), b.mul(r.step_out, r.target_x)
    with counted(b, r.phases) as x:
        low = larger(b, block.start, r.at("last_low", x.index))
        high = smaller(b, block.stop, r.at("last_high", x.index))
        length = larger(b, b.sub(high, low), number(0))
        store(b, b.mul(length, lines), where.counts, x.index)
        base = b.mul(x.index, r.points)
        first = b.add(b.add(b.mul(low, r.step_out), r.shift_out), x.index)
        with counted(b, lines) as line:
            offset = emit_line_offset(b, r, block, line.index)
            entry = b.add(base, b.mul(line.index, length))
            written = b.add(b.mul(line.index, r.sums_pitch), x.index)
            target = target_line(b, r, block, line.index, (phase, b.mul(first, r.target_x)))
            with counted(b, length) as point:
                here = b.add(point.index, b.sub(low, block.start))
                index = b.add(entry, point.index)
                row = b.add(offset, b.mul(here, step))
                position = b.add(written, b.mul(here, r.step_out))
                store(b, row, where.rows, index)
                store(b, b.mul(position, r.sums_point), where.places, index)
                store(b, b.add(target, b.mul(point.index, apart)), where.targets, index)
        # The last tile's rows past the last point do what that one does.
        filled = b.add(base, b.mul(length, lines))
        with b.if_then(b.icmp_signed(">", length, number(0))), counted(b, r.spare) as more:
            for table in (where.rows, where.places, where.targets):
                repeated = load(b, table, b.sub(filled, number(1)))
                store(b, repeated, table, b.add(filled, more.index))


def _stores_direct(b: ir.IRBuilder, r: Record, shape: KernelShape, panel: ir.Value) -> ir.Value:
    """Tell whether tiles may write to the target: whole vectors of channels side by side."""
    if STORED[shape.dtype] != FLOATS[shape.dtype]:
        return ir.Constant(I1, 0)
    used = b.sub(r.columns, b.mul(panel, number(shape.columns)))
    full = b.or_(
        b.icmp_signed(">=", used, number(shape.columns)),
        b.icmp_signed("==", used, number(shape.lanes)),
    )
    plain = b.icmp_signed("==", r.activate, number(0))
    return b.and_(b.and_(full, plain), b.icmp_signed("==", r.target_c, number(1)))


def emit_panel(  # noqa: PLR0913 - which panel of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: Parts,
    where: Place,
    phase: ir.Value,
    choices: tuple[ir.Value, ir.Value],
) -> None:
    """Sum one panel of channels for every phase of the last axis, a part of the depth at a time.

    A part of the panel's weights stays in the first cache while all points go by it.
    ``choices`` are which panel, and whether tiles write to the target.
    """
    panel, direct = choices
    wide = b.icmp_signed("<", panel, r.wide_panels)
    width = b.select(wide, number(shape.columns), number(shape.lanes))
    begin = b.add(r.at("phase_weights", phase), b.mul(panel, r.at("panel_weights", phase)))
    weights = place(b, where.weights, begin)
    channel = b.mul(panel, number(shape.columns))
    sums = place(b, where.sums, b.mul(panel, r.sums_panel))
    with counted(b, r.phases) as x:
        both = b.add(b.mul(phase, r.phases), x.index)
        count, depth = r.at("segment_count", both), r.at("segment_depth", both)
        at_once, length = r.at("part_segments", both), r.at("part_depth", both)
        lengthy = b.add(depth, b.sub(length, number(1)))
        cuts = larger(b, b.sdiv(lengthy, length), number(1))
        turns = b.sdiv(b.add(count, b.sub(at_once, number(1))), at_once)
        turns = larger(b, turns, number(1))
        panel_weights = place(b, weights, b.mul(r.at("rows_before", both), width))
        segments = place(b, r.segments, r.at("segment_start", both))
        entry = b.mul(x.index, r.points)
        zero = r.blank
        bias = place(b, where.bias, channel)
        target = sums
        if where.target.type == where.sums.type:
            target = place(b, where.target, channel)
        with counted(b, turns) as turn, counted(b, cuts) as cut:
            begun = b.or_(turn.index, cut.index)
            first = b.icmp_signed("==", begun, number(0))
            ends = b.and_(
                b.icmp_signed("==", b.add(turn.index, number(1)), turns),
                b.icmp_signed("==", b.add(cut.index, number(1)), cuts),
            )
            final = b.and_(ends, direct)
            segment, inside = b.mul(turn.index, at_once), b.mul(cut.index, length)
            skipped = b.mul(b.add(b.mul(segment, depth), inside), width)
            run = _Run(
                sums=b.select(final, target, sums),
                start=b.select(first, bias, sums),
                data=place(b, where.scratch, inside),
                weights=place(b, panel_weights, skipped),
                places=place(b, b.select(final, where.targets, where.places), entry),
                start_places=b.select(first, zero, place(b, where.places, entry)),
                start_step=b.select(first, number(0), number(-1)),
                rows=place(b, where.rows, entry),
                segments=place(b, segments, segment),
                count=smaller(b, b.sub(count, segment), at_once),
                depth=smaller(b, b.sub(depth, inside), length),
                points=load(b, where.counts, x.index),
            )
            with b.if_else(wide) as (full, narrow):
                with full:
                    _run_tiles(b, parts.tiles[shape.vectors], shape.rows, run)
                with narrow:
                    _run_tiles(b, parts.tiles[1], shape.rows, run)


@dataclass(frozen=True, slots=True)
class _Run:
    """What tiles take, for all points of a phase."""

    sums: ir.Value
    start: ir.Value
    data: ir.Value
    weights: ir.Value
    places: ir.Value
    start_places: ir.Value
    start_step: ir.Value  # a mask: whether the table of starts goes on with the points
    rows: ir.Value
    segments: ir.Value
    count: ir.Value
    depth: ir.Value
    points: ir.Value


def _run_tiles(
    b: ir.IRBuilder, tiles: list[ir.Function], sizes: tuple[int, ...], run: _Run
) -> None:
    """Run the large tile as often as it fits, then the one that what is left fits into.

    Additions take four cycles, so a tile of one row is no quicker than one of four.
    """
    large, small = (number(size) for size in sizes)
    whole = b.sdiv(run.points, large)
    rest = b.sub(run.points, b.mul(whole, large))
    whole = b.add(whole, b.zext(b.icmp_signed(">", rest, small), I64))

    def call(tile: ir.Function, here: ir.Value) -> None:
        tables = [
            place(b, run.places, here),
            place(b, run.start_places, b.and_(here, run.start_step)),
            place(b, run.rows, here),
        ]
        sums = [run.sums, run.start, run.data, run.weights]
        b.call(tile, [*sums, *tables, run.segments, run.count, run.depth])

    with counted(b, whole) as turn:
        call(tiles[0], b.mul(turn.index, large))
    done = b.mul(whole, large)
    with b.if_then(b.icmp_signed("<", done, run.points)):
        call(tiles[1], done)


def _store_panel(  # noqa: PLR0913 - which panel of what
    b: ir.IRBuilder,
    r: Record,
    store_row: ir.Function,
    block: Block,
    where: Place,
    lines: ir.Value,
    numbers: tuple[ir.Value, ir.Value, int],
) -> None:
    """Store the panel's lines, all phases of the last axis side by side."""
    phase, panel, columns = numbers
    channel = b.mul(panel, number(columns))
    used = smaller(b, b.sub(r.columns, channel), number(columns))
    # Sums begin with the bias, in whatever layout they end.
    added = b.bitcast(r.blank, where.bias.type)
    origin = b.add(b.mul(block.start, r.step_out), r.shift_out)
    begin = larger(b, b.neg(origin), number(0))
    whole = b.mul(b.sub(block.stop, block.start), r.step_out)
    length = b.sub(smaller(b, whole, b.sub(r.size_out, origin)), begin)
    start = b.add(b.mul(b.add(origin, begin), r.target_x), b.mul(channel, r.target_c))
    with counted(b, lines) as line:
        offset = target_line(b, r, block, line.index, (phase, start))
        read = b.mul(b.add(b.mul(line.index, r.sums_pitch), begin), number(columns))
        sums = place(b, where.sums, read)
        left = activated(b, r, sums, added, (length, used, number(columns)))
        steps = [r.target_x, r.target_c, number(columns)]
        b.call(store_row, [place(b, where.target, offset), sums, left, length, used, *steps])


def target_line(
    b: ir.IRBuilder,
    r: Record,
    block: Block,
    line: ir.Value,
    numbers: tuple[ir.Value, ir.Value],
) -> ir.Value:
    """Return where a line of a phase is stored; ``numbers`` are the phase and an offset."""
    phase, start = numbers
    with counted(b, r.outer, [line, phase, start]) as axis:
        d = b.sub(b.sub(r.outer, number(1)), axis.index)
        rest, phases, offset = axis.carried
        extent, count = load(b, block.extents, d), r.at("axis_phases", d)
        point = b.add(b.srem(rest, extent), load(b, block.lows, d))
        first = b.add(b.mul(point, r.at("steps_out", d)), r.at("shifts_out", d))
        coordinate = b.add(first, b.srem(phases, count))
        axis.carried = [
            b.sdiv(rest, extent),
            b.sdiv(phases, count),
            b.add(offset, b.mul(coordinate, r.at("target_steps", d))),
        ]
    return axis.carried[2]
