"""Correlations: the gradient of the weights, one chunk of their rows for each work item.

A work item walks over all blocks of points (the batch is one more axis).  For each block it
packs the region of the fine side that its windows cover, and its own channels of the coarse
side, and adds every tap's product to sums that stay in scratch until all blocks are done.
"""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import Block, KernelShape, Record, emit_block, emit_pack_region
from tconv.codegen.build import (
    FLOATS,
    I32,
    I64,
    STORED,
    counted,
    function,
    load,
    number,
    place,
    smaller,
    store,
    zeros,
)
from tconv.codegen.rows import emit_pack_row, emit_store_row, zero_fill
from tconv.codegen.tile import Tile, emit_correlate_tile
from tconv.plan.correlate import ARRAYS, FIELDS


@dataclass(frozen=True, slots=True)
class _Chunk:
    """The rows of one work item, and where it keeps what it makes of them."""

    group: ir.Value
    first: ir.Value
    rows: ir.Value
    tiles: ir.Value
    tap_size: ir.Value  # elements of one tap's sums
    sums: ir.Value
    planes: ir.Value
    row_table: ir.Value
    lines_table: ir.Value
    other_table: ir.Value


def emit_correlate(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``correlate(record, scratch, item)``, public."""
    pointer = FLOATS[shape.dtype].as_pointer()
    tiles = {
        vectors: emit_correlate_tile(module, Tile(shape.rows[0], vectors, shape.lanes, shape.dtype))
        for vectors in sorted({1, shape.vectors})
    }
    pack_row = emit_pack_row(module, shape.dtype, shape.lanes)
    store_row = emit_store_row(module, shape.dtype, shape.lanes)
    made, b = function(
        module, f"correlate_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    chunk = _find(b, r, shape, scratch, item)
    zero_fill(b, chunk.sums, b.mul(chunk.tap_size, r.taps), shape.dtype)
    stored = STORED[shape.dtype].as_pointer()
    fine = place(b, r.pointer_to("source", stored), b.mul(chunk.group, r.source_g))
    offset = b.add(b.mul(chunk.group, r.coarse_g), b.mul(chunk.first, r.coarse_c))
    coarse = place(b, r.pointer_to("coarse", stored), offset)
    with counted(b, r.all_blocks) as turn:
        block, _ = emit_block(b, r, turn.index, begins=False)
        with counted(b, r.panels) as panel:
            channel = b.mul(panel.index, number(shape.columns))
            width = smaller(b, b.sub(r.depth, channel), number(shape.columns))
            region = place(b, scratch, b.mul(panel.index, r.region))
            source = place(b, fine, b.mul(channel, r.source_c))
            widths = (width, number(shape.columns))
            emit_pack_region(b, r, pack_row, block, region, source, widths)
        lines = _pack_planes(b, r, pack_row, block, chunk, coarse)
        length = b.sub(block.stop, block.start)
        with counted(b, b.mul(chunk.tiles, number(shape.rows[0]))) as row:
            # Rows past the last one repeat it; their sums are never stored.
            used = smaller(b, row.index, b.sub(chunk.rows, number(1)))
            store(b, b.mul(used, length), chunk.row_table, row.index)
        with counted(b, r.taps) as tap:
            _emit_tap(b, r, shape, tiles, chunk, (scratch, tap.index, lines, length))
    _store_sums(b, r, store_row, shape, chunk)
    _tell_of_nan(b, r, shape, chunk)
    b.ret_void()
    return made


def _find(
    b: ir.IRBuilder, r: Record, shape: KernelShape, scratch: ir.Value, item: ir.Value
) -> _Chunk:
    first = b.mul(b.srem(item, r.chunks), r.chunk_rows)
    rows = smaller(b, b.sub(r.rows, first), r.chunk_rows)
    tiles = b.sdiv(b.add(rows, number(shape.rows[0] - 1)), number(shape.rows[0]))
    tables = [
        b.bitcast(place(b, scratch, getattr(r, f"scratch_{name}")), I64.as_pointer())
        for name in ("rows", "lines", "other")
    ]
    return _Chunk(
        b.sdiv(item, r.chunks),
        first,
        rows,
        tiles,
        b.mul(b.mul(tiles, r.panels), _tile_size(shape)),
        place(b, scratch, r.scratch_sums),
        place(b, scratch, r.scratch_planes),
        *tables,
    )


def _tile_size(shape: KernelShape) -> ir.Value:
    return number(shape.rows[0] * shape.columns)


def _pack_planes(  # noqa: PLR0913 - where from, where to, and by what
    b: ir.IRBuilder,
    r: Record,
    pack_row: ir.Function,
    block: Block,
    chunk: _Chunk,
    coarse: ir.Value,
) -> ir.Value:
    """Pack this item's channels of the block, points side by side; return how many lines."""
    with counted(b, r.outer, [number(1)]) as axis:
        d = axis.index
        extent = b.sub(load(b, block.stops, d), load(b, block.starts, d))
        axis.carried = [b.mul(axis.carried[0], extent)]
    lines = axis.carried[0]
    length = b.sub(block.stop, block.start)
    with counted(b, lines) as line:
        with counted(b, r.outer, [line.index, number(0), number(0)]) as axis:
            d = b.sub(b.sub(r.outer, number(1)), axis.index)
            rest, read, offset = axis.carried
            start = load(b, block.starts, d)
            extent = b.sub(load(b, block.stops, d), start)
            here = b.srem(rest, extent)
            step = b.mul(r.at("steps_in", d), r.at("pitches", d))
            axis.carried = [
                b.sdiv(rest, extent),
                b.add(read, b.mul(b.add(start, here), r.at("coarse_steps", d))),
                b.add(offset, b.mul(here, step)),
            ]
        _, read, offset = axis.carried
        begin = b.mul(line.index, b.mul(chunk.rows, length))
        store(b, begin, chunk.lines_table, line.index)
        store(b, offset, chunk.other_table, line.index)
        source = place(b, coarse, b.add(read, b.mul(block.start, r.coarse_x)))
        none = number(0)
        # Points and channels change places: what lies side by side are points here.
        counts = [none, chunk.rows, none, length, length]
        b.call(pack_row, [place(b, chunk.planes, begin), source, *counts, r.coarse_c, r.coarse_x])
    return lines


def _emit_tap(  # noqa: PLR0913 - which tap of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    tiles: dict[int, ir.Function],
    chunk: _Chunk,
    numbers: tuple[ir.Value, ir.Value, ir.Value, ir.Value],
) -> None:
    """Add one tap's product of the block, for all rows and columns of the chunk."""
    region, tap, lines, length = numbers
    shifted = place(b, region, r.at("tap_offsets", tap))
    sums = place(b, chunk.sums, b.mul(tap, chunk.tap_size))
    step = b.mul(r.step_in, number(shape.columns))
    with counted(b, r.panels) as panel:
        wide = b.icmp_signed("<", panel.index, r.wide_panels)
        other = place(b, shifted, b.mul(panel.index, r.region))
        with counted(b, chunk.tiles) as tile:
            here = b.add(b.mul(tile.index, r.panels), panel.index)
            rows = place(b, chunk.row_table, b.mul(tile.index, number(shape.rows[0])))
            target = place(b, sums, b.mul(here, _tile_size(shape)))
            tables = [rows, chunk.lines_table, chunk.other_table]
            arguments = [target, chunk.planes, other, *tables, lines, length, step]
            with b.if_else(wide) as (full, narrow):
                with full:
                    b.call(tiles[shape.vectors], arguments)
                with narrow:
                    b.call(tiles[1], arguments)


def _store_sums(
    b: ir.IRBuilder, r: Record, store_row: ir.Function, shape: KernelShape, chunk: _Chunk
) -> None:
    """Write the sums as weights, in whatever order those lie: taps are its points."""
    pointer = FLOATS[shape.dtype].as_pointer()
    tile_rows = number(shape.rows[0])
    offset = b.add(b.mul(chunk.group, r.target_g), b.mul(chunk.first, r.target_c))
    target = place(b, r.pointer_to("target", STORED[shape.dtype].as_pointer()), offset)
    none = r.pointer_to("bias", pointer)
    runs = b.sdiv(r.taps, r.tap_run)
    with counted(b, runs) as run, counted(b, chunk.rows) as row, counted(b, r.panels) as panel:
        tile = b.add(b.mul(b.sdiv(row.index, tile_rows), r.panels), panel.index)
        wide = b.icmp_signed("<", panel.index, r.wide_panels)
        width = b.select(wide, number(shape.columns), number(shape.lanes))
        inside = b.mul(b.srem(row.index, tile_rows), width)
        tap = b.mul(run.index, r.tap_run)
        begin = b.add(b.mul(tap, chunk.tap_size), b.mul(tile, _tile_size(shape)))
        channel = b.mul(panel.index, number(shape.columns))
        moved = b.add(b.mul(row.index, r.target_c), b.mul(channel, r.target_f))
        write = b.add(r.at("target_taps", tap), moved)
        used = smaller(b, b.sub(r.depth, channel), number(shape.columns))
        arguments = [place(b, target, write), place(b, chunk.sums, b.add(begin, inside)), none]
        steps = [r.target_x, r.target_f, chunk.tap_size]
        b.call(store_row, [*arguments, r.tap_run, used, *steps])


def _tell_of_nan(b: ir.IRBuilder, r: Record, shape: KernelShape, chunk: _Chunk) -> None:
    """Raise the flag if any sum is NaN or infinite.

    Zeros around the fine side times an infinity are NaN where the definition has nothing:
    then the answer is not trusted, and the caller computes it another way.
    """
    vector = ir.VectorType(FLOATS[shape.dtype], shape.lanes)
    total = b.mul(chunk.tap_size, r.taps)
    with counted(b, total, [zeros(vector)], step=shape.lanes) as k:
        nothing = b.fmul(load(b, chunk.sums, k.index, vector), zeros(vector))
        k.carried = [b.fadd(k.carried[0], nothing)]
    lanes = [b.extract_element(k.carried[0], ir.Constant(I32, i)) for i in range(shape.lanes)]
    lane = lanes[0]
    for other in lanes[1:]:
        lane = b.fadd(lane, other)
    with b.if_then(b.fcmp_unordered("uno", lane, lane), likely=False):
        store(b, number(1), r.pointer_to("flag", I64.as_pointer()))
