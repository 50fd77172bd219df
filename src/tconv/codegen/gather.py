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
from tconv.codegen.tile import Tile, emit_tile
from tconv.plan.gather import ARRAYS, FIELDS


@dataclass(frozen=True, slots=True)
class _Parts:
    """The functions that a gather calls, by what they do."""

    tiles: dict[int, list[ir.Function]]  # by vectors
    pack_row: ir.Function
    store_row: ir.Function


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a work item finds and puts things."""

    scratch: ir.Value
    sums: ir.Value
    rows: ir.Value  # tables, by phase of the last axis: where a point's region begins,
    places: ir.Value  # where its sums go,
    counts: ir.Value  # and how many points there are
    target: ir.Value
    weights: ir.Value
    bias: ir.Value


def emit_gather(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``gather(record, scratch, item)``, public."""
    pointer = FLOATS[shape.dtype].as_pointer()
    parts = _Parts(
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
    where = _find(b, r, shape, scratch, group)
    first = b.mul(chunk, r.panels_a_chunk)
    last = smaller(b, b.add(first, r.panels_a_chunk), r.panels)
    with counted(b, r.outer_phases) as phase:
        lines = settle_phase(b, r, block, phase.index)
        with b.if_then(b.icmp_signed(">", lines, number(0)), likely=True):
            _fill_tables(b, r, block, where, lines, shape.columns)
            with counted(b, last, first=first) as panel:
                _emit_panel(b, r, shape, parts, where, phase.index, panel.index)
                _store_panel(b, r, parts.store_row, block, where, lines,
                             (phase.index, panel.index, shape.columns))  # fmt: skip
    b.ret_void()
    return made


def _find(
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    scratch: ir.Value,
    group: ir.Value,
) -> _Place:
    pointer, stored = FLOATS[shape.dtype].as_pointer(), STORED[shape.dtype].as_pointer()
    rows, places, counts = (
        b.bitcast(place(b, scratch, getattr(r, f"scratch_{name}")), I64.as_pointer())
        for name in ("rows", "places", "counts")
    )
    padded = b.mul(r.panels, number(shape.columns))
    return _Place(
        scratch=scratch,
        sums=place(b, scratch, r.scratch_sums),
        rows=rows,
        places=places,
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


def _fill_tables(  # noqa: PLR0913 - the block, the tables and their sizes
    b: ir.IRBuilder, r: Record, block: Block, where: _Place, lines: ir.Value, columns: int
) -> None:
    """Note for every point of every phase of the last axis what it reads and where it sums."""
    with counted(b, r.phases) as x:
        low = larger(b, block.start, r.at("last_low", x.index))
        high = smaller(b, block.stop, r.at("last_high", x.index))
        length = larger(b, b.sub(high, low), number(0))
        store(b, b.mul(length, lines), where.counts, x.index)
        base = b.mul(x.index, r.points)
        with counted(b, lines) as line:
            offset = emit_line_offset(b, r, block, line.index)
            entry = b.add(base, b.mul(line.index, length))
            written = b.add(b.mul(line.index, r.sums_pitch), x.index)
            with counted(b, length) as point:
                here = b.add(point.index, b.sub(low, block.start))
                index = b.add(entry, point.index)
                row = b.add(offset, b.mul(here, b.mul(r.step_in, r.depth)))
                position = b.add(written, b.mul(here, r.step_out))
                store(b, row, where.rows, index)
                store(b, b.mul(position, number(columns)), where.places, index)
        # The last tile's rows past the last point read the first one, and sum to nowhere.
        filled = b.add(base, b.mul(length, lines))
        with counted(b, r.spare) as more:
            index = b.add(filled, more.index)
            store(b, number(0), where.rows, index)
            store(b, r.nowhere, where.places, index)


def _emit_panel(  # noqa: PLR0913 - which panel of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    where: _Place,
    phase: ir.Value,
    panel: ir.Value,
) -> None:
    """Sum one panel of channels for every phase of the last axis."""
    wide = b.icmp_signed("<", panel, r.wide_panels)
    width = b.select(wide, number(shape.columns), number(shape.lanes))
    begin = b.add(r.at("phase_weights", phase), b.mul(panel, r.at("panel_weights", phase)))
    weights = place(b, where.weights, begin)
    with counted(b, r.phases) as x:
        both = b.add(b.mul(phase, r.phases), x.index)
        entry = b.mul(x.index, r.points)
        arguments = [
            where.sums,
            where.scratch,
            place(b, weights, b.mul(r.at("rows_before", both), width)),
            place(b, where.places, entry),
            place(b, where.rows, entry),
            place(b, r.segments, r.at("segment_start", both)),
            r.at("segment_count", both),
            r.at("segment_depth", both),
        ]
        count = load(b, where.counts, x.index)
        with b.if_else(wide) as (full, narrow):
            with full:
                _run_tiles(b, parts.tiles[shape.vectors], shape.rows, count, arguments)
            with narrow:
                _run_tiles(b, parts.tiles[1], shape.rows, count, arguments)


def _run_tiles(
    b: ir.IRBuilder,
    tiles: list[ir.Function],
    sizes: tuple[int, ...],
    count: ir.Value,
    arguments: list[ir.Value],
) -> None:
    """Run the large tile as often as it fits, then the one that what is left fits into.

    Additions take four cycles, so a tile of one row is no quicker than one of four.
    """
    sums, data, weights, places, rows, *segments = arguments
    large, small = (number(size) for size in sizes)
    whole = b.sdiv(count, large)
    rest = b.sub(count, b.mul(whole, large))
    whole = b.add(whole, b.zext(b.icmp_signed(">", rest, small), I64))
    with counted(b, whole) as run:
        here = b.mul(run.index, large)
        tables = [place(b, places, here), place(b, rows, here)]
        b.call(tiles[0], [sums, data, weights, *tables, *segments])
    done = b.mul(whole, large)
    with b.if_then(b.icmp_signed("<", done, count)):
        tables = [place(b, places, done), place(b, rows, done)]
        b.call(tiles[1], [sums, data, weights, *tables, *segments])


def _store_panel(  # noqa: PLR0913 - which panel of what
    b: ir.IRBuilder,
    r: Record,
    store_row: ir.Function,
    block: Block,
    where: _Place,
    lines: ir.Value,
    numbers: tuple[ir.Value, ir.Value, int],
) -> None:
    """Store the panel's lines, all phases of the last axis side by side."""
    phase, panel, columns = numbers
    channel = b.mul(panel, number(columns))
    used = smaller(b, b.sub(r.columns, channel), number(columns))
    added = place(b, where.bias, channel)
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
