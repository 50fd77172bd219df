"""Correlations: the gradient of the weights, one chunk of their rows for each work item.

A work item walks over all blocks of points (the batch is one more axis).  For each block it
packs the region of the fine side that its windows cover, and its own channels of the coarse
side, and adds every tap's product to sums that stay in scratch until all blocks are done.
"""

from llvmlite import ir

from tconv.codegen.build import (
    FLOATS,
    I64,
    counted,
    function,
    load,
    number,
    place,
    smaller,
    store,
    zeros,
)
from tconv.codegen.gather import MOST_AXES, KernelShape, Record, pack_region
from tconv.codegen.rows import emit_pack_row, emit_store_row, zero_fill
from tconv.codegen.tile import Tile, emit_correlate_tile
from tconv.plan.correlate import ARRAYS, FIELDS


def emit_correlate(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``correlate(record, scratch, item)``, public."""
    scalar = FLOATS[shape.dtype]
    pointer = scalar.as_pointer()
    rows = shape.rows[0]
    tiles = {
        vectors: emit_correlate_tile(module, Tile(rows, vectors, shape.lanes, shape.dtype))
        for vectors in sorted({1, shape.vectors})
    }
    pack_row = emit_pack_row(module, shape.dtype, shape.lanes)
    store_row = emit_store_row(module, shape.dtype, shape.lanes)
    made, b = function(
        module, f"correlate_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    starts, stops, extents = (b.alloca(I64, MOST_AXES) for _ in range(3))
    group, chunk = b.sdiv(item, r.chunks), b.srem(item, r.chunks)
    first = b.mul(chunk, r.chunk_rows)
    mine = smaller(b, b.sub(r.rows, first), r.chunk_rows)
    count_tiles = b.sdiv(b.add(mine, number(rows - 1)), number(rows))
    panels = r.panels
    tile_size = number(rows * shape.columns)
    tap_size = b.mul(b.mul(count_tiles, panels), tile_size)
    sums = place(b, scratch, r.scratch_sums)
    planes = place(b, scratch, r.scratch_planes)
    tables = I64.as_pointer()
    row_table, lines_table, other_table = (
        b.bitcast(place(b, scratch, getattr(r, name)), tables)
        for name in ("scratch_rows", "scratch_lines", "scratch_other")
    )
    zero_fill(b, sums, b.mul(tap_size, r.taps), shape.dtype)
    fine = place(b, b.inttoptr(r.source, pointer), b.mul(group, r.source_g))
    coarse = place(
        b,
        b.inttoptr(r.coarse, pointer),
        b.add(b.mul(group, r.coarse_g), b.mul(first, r.coarse_c)),
    )

    with counted(b, r.all_blocks) as block:
        start_x = b.mul(b.srem(block.index, r.blocks), r.block)
        stop_x = smaller(b, b.add(start_x, r.block), r.end)
        with counted(b, r.outer, [b.sdiv(block.index, r.blocks), number(1)]) as axis:
            d = b.sub(b.sub(r.outer, number(1)), axis.index)
            rest, lines = axis.carried
            blocks, size = r.at("outer_blocks", d), r.at("outer_block", d)
            start = b.mul(b.srem(rest, blocks), size)
            stop = smaller(b, b.add(start, size), r.at("ends", d))
            store(b, start, starts, d)
            store(b, stop, stops, d)
            axis.carried = [b.sdiv(rest, blocks), b.mul(lines, b.sub(stop, start))]
        lines = axis.carried[1]
        length = b.sub(stop_x, start_x)
        pack_region(b, r, pack_row, scratch, fine, (starts, stops, extents), (start_x, stop_x))
        _pack_planes(
            b,
            r,
            pack_row,
            planes,
            coarse,
            (starts, stops),
            (start_x, length),
            lines,
            (lines_table, other_table),
            mine,
        )
        with counted(b, b.mul(count_tiles, number(rows))) as row:
            # Rows past the last one repeat it; their sums are never stored.
            used = smaller(b, row.index, b.sub(mine, number(1)))
            store(b, b.mul(used, length), row_table, row.index)
        with counted(b, r.taps) as tap:
            shifted = place(b, scratch, r.at("tap_offsets", tap.index))
            tap_sums = place(b, sums, b.mul(tap.index, tap_size))
            with counted(b, panels) as panel:
                wide = b.icmp_signed("<", panel.index, r.wide_panels)
                other = place(b, shifted, b.mul(panel.index, number(shape.columns)))
                with counted(b, count_tiles) as tile:
                    here = b.add(b.mul(tile.index, panels), panel.index)
                    arguments = [
                        place(b, tap_sums, b.mul(here, tile_size)),
                        planes,
                        other,
                        place(b, row_table, b.mul(tile.index, number(rows))),
                        lines_table,
                        other_table,
                        lines,
                        length,
                        b.mul(r.step_in, r.depth),
                    ]
                    with b.if_else(wide) as (full, narrow):
                        with full:
                            b.call(tiles[shape.vectors], arguments)
                        with narrow:
                            b.call(tiles[1], arguments)
    _store_sums(
        b, r, store_row, (sums, pointer), (group, first, mine), (tap_size, tile_size), shape, rows
    )
    b.ret_void()
    return made


def _pack_planes(b, r, pack_row, planes, coarse, axes, last, lines, tables, mine):
    """Pack this item's channels of the block, a plane each, and note where lines begin."""
    starts, stops = axes
    start_x, length = last
    lines_table, other_table = tables
    with counted(b, lines) as line:
        with counted(b, r.outer, [line.index, number(0), number(0)]) as axis:
            d = b.sub(b.sub(r.outer, number(1)), axis.index)
            rest, read, offset = axis.carried
            start = load(b, starts, d)
            extent = b.sub(load(b, stops, d), start)
            here = b.srem(rest, extent)
            step = b.mul(r.at("steps_in", d), r.at("pitches", d))
            axis.carried = [
                b.sdiv(rest, extent),
                b.add(read, b.mul(b.add(start, here), r.at("coarse_steps", d))),
                b.add(offset, b.mul(here, step)),
            ]
        _, read, offset = axis.carried
        begin = b.mul(line.index, b.mul(mine, length))
        store(b, begin, lines_table, line.index)
        store(b, offset, other_table, line.index)
        source = place(b, coarse, b.add(read, b.mul(start_x, r.coarse_x)))
        nothing = number(0)
        b.call(
            pack_row,
            [
                place(b, planes, begin),
                source,
                nothing,
                mine,
                nothing,
                length,
                r.coarse_c,
                r.coarse_x,
            ],
        )


def _store_sums(b, r, store_row, bases, rows, sizes, shape, tile_rows):
    """Write the sums as weights, in whatever order those lie, and tell of any NaN."""
    sums, pointer = bases
    group, first, mine = rows
    tap_size, tile_size = sizes
    vector = ir.VectorType(FLOATS[shape.dtype], shape.lanes)
    target = place(
        b,
        b.inttoptr(r.target, pointer),
        b.add(b.mul(group, r.target_g), b.mul(first, r.target_c)),
    )
    none = b.inttoptr(r.bias, pointer)
    runs = b.sdiv(r.taps, r.tap_run)
    with counted(b, runs) as run, counted(b, mine) as row, counted(b, r.panels) as panel:
        tile = b.add(b.mul(b.sdiv(row.index, number(tile_rows)), r.panels), panel.index)
        wide = b.icmp_signed("<", panel.index, r.wide_panels)
        width = b.select(wide, number(shape.columns), number(shape.lanes))
        inside = b.mul(b.srem(row.index, number(tile_rows)), width)
        tap = b.mul(run.index, r.tap_run)
        read = b.add(b.mul(tap, tap_size), b.add(b.mul(tile, tile_size), inside))
        channel = b.mul(panel.index, number(shape.columns))
        write = b.add(
            r.at("target_taps", tap),
            b.add(b.mul(row.index, r.target_c), b.mul(channel, r.target_f)),
        )
        used = smaller(b, b.sub(r.depth, channel), number(shape.columns))
        b.call(
            store_row,
            [
                place(b, target, write),
                place(b, sums, read),
                none,
                r.tap_run,
                used,
                r.target_x,
                r.target_f,
                tap_size,
            ],
        )
    # Zeros around the fine side times an infinity would be NaN where the definition has
    # nothing: then the answer is not trusted, and the caller computes it another way.
    total = b.mul(tap_size, r.taps)
    with counted(b, total, [zeros(vector)], step=shape.lanes) as k:
        value = load(b, sums, k.index, vector)
        k.carried = [b.fadd(k.carried[0], b.fmul(value, zeros(vector)))]
    lane = b.extract_element(k.carried[0], ir.Constant(ir.IntType(32), 0))
    for i in range(1, shape.lanes):
        lane = b.fadd(lane, b.extract_element(k.carried[0], ir.Constant(ir.IntType(32), i)))
    bad = b.fcmp_unordered("uno", lane, lane)
    with b.if_then(bad, likely=False):
        store(b, number(1), b.inttoptr(r.flag, I64.as_pointer()), 0)
