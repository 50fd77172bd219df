"""Correlations: the gradient of the weights, a part of them for each work item.

A work item walks over its blocks of points (the batch is one more axis).  For each block it
packs what it needs of both sides, and adds every tap's product to sums that stay in scratch
until all blocks are done.  Where points are split into pieces, the sums of each are kept, and a
second step adds them in their order.  What a number means is said in
:mod:`tconv.plan.correlate`, which fills the record in.
"""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import Block, KernelShape, Record, emit_block
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
from tconv.codegen.rows import emit_store_row, zero_fill
from tconv.codegen.sides import emit_pack_panels, emit_pack_planes, pack_side
from tconv.codegen.tile import Tile, emit_correlate_tile
from tconv.plan.correlate import ARRAYS, FIELDS

Tiles = dict[tuple[int, int], ir.Function]  # by rows and vectors


@dataclass(frozen=True, slots=True)
class _Part:
    """What of the weights a work item computes; each is a first number and a count."""

    group: ir.Value
    taps: tuple[ir.Value, ir.Value]
    rows: tuple[ir.Value, ir.Value]
    panels: tuple[ir.Value, ir.Value]
    row_entry: ir.Value  # of the first row in the table of rows
    tile_rows: ir.Value  # rows of all tiles: of the panel, or one for each tap as well
    tiles: ir.Value
    shifts: ir.Value
    sums: ir.Value


def emit_correlate(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``correlate(record, scratch, item)`` and ``add_pieces``, public."""
    pointer = FLOATS[shape.dtype].as_pointer()
    store_row = emit_store_row(module, shape.dtype, shape.lanes)
    _emit_add_pieces(module, shape, store_row)
    tiles = {
        (rows, vectors): emit_correlate_tile(module, Tile(rows, vectors, shape.lanes, shape.dtype))
        for rows in shape.rows
        for vectors in sorted({1, shape.vectors})
    }
    planes = emit_pack_planes(module, shape.dtype, shape.lanes)
    panels = emit_pack_panels(module, shape.dtype, shape.lanes, shape.columns)
    made, b = function(
        module, f"correlate_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    alone = b.icmp_signed("==", r.pieces, number(1))
    partials = place(b, r.pointer_to("partials", pointer), b.mul(item, r.sums))
    sums = b.select(alone, place(b, scratch, r.scratch_sums), partials)
    piece = b.srem(item, r.pieces)
    part = _find(b, r, shape, b.sdiv(item, r.pieces), sums)
    zero_fill(b, sums, r.sums, shape.dtype)
    first = b.mul(piece, r.piece_blocks)
    last = smaller(b, b.add(first, r.piece_blocks), r.all_blocks)
    side_b = place(b, scratch, r.scratch_b)
    # Vectors read channels that there are none for.
    zero_fill(b, side_b, b.mul(part.panels[1], r.b_plane), shape.dtype)
    swapped = b.icmp_signed("!=", r.swapped, number(0))
    with counted(b, last, first=first) as turn:
        block, _ = emit_block(b, r, turn.index, begins=False)
        row = b.select(swapped, number(0), part.rows[0])
        pack_side(b, r, ("a", shape.dtype), block, planes, (part.group, row), (scratch, 1))
        channel = b.mul(part.panels[0], number(shape.columns))
        pack_side(
            b, r, ("b", shape.dtype), block, panels, (part.group, channel), (side_b, shape.columns)
        )
        _multiply_block(b, r, shape, tiles, part, block, (scratch, side_b))
    with b.if_then(alone):
        _store_sums(b, r, store_row, shape, part)
        _tell_of_nan(b, r, shape, sums)
    b.ret_void()
    return made


def _emit_add_pieces(module: ir.Module, shape: KernelShape, store_row: ir.Function) -> None:
    """Emit ``add_pieces(record, scratch, item)``: the sums of all pieces, in their order."""
    pointer = FLOATS[shape.dtype].as_pointer()
    vector = ir.VectorType(FLOATS[shape.dtype], shape.lanes)
    made, b = function(
        module, f"add_pieces_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, _, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    first = b.mul(b.mul(item, r.pieces), r.sums)
    sums = place(b, r.pointer_to("partials", pointer), first)
    with counted(b, r.pieces, first=number(1)) as piece:
        more = place(b, sums, b.mul(piece.index, r.sums))
        with counted(b, r.sums, step=shape.lanes) as k:
            total = b.fadd(load(b, sums, k.index, vector), load(b, more, k.index, vector))
            store(b, total, sums, k.index)
    part = _find(b, r, shape, item, sums)
    _store_sums(b, r, store_row, shape, part)
    _tell_of_nan(b, r, shape, sums)
    b.ret_void()


def _find(b: ir.IRBuilder, r: Record, shape: KernelShape, index: ir.Value, sums: ir.Value) -> _Part:
    found = []
    for name, whole in (("panel", r.panels), ("row", r.rows), ("tap", r.taps)):
        chunks, size = getattr(r, f"{name}_chunks"), getattr(r, f"chunk_{name}s")
        first = b.mul(b.srem(index, chunks), size)
        found.append((first, smaller(b, b.sub(whole, first), size)))
        index = b.sdiv(index, chunks)
    panels, rows, taps = found
    swapped = b.icmp_signed("!=", r.swapped, number(0))
    tile_rows = b.select(swapped, b.mul(taps[1], r.rows), rows[1])
    height = shape.rows[0]
    return _Part(
        group=index,
        taps=taps,
        rows=rows,
        panels=panels,
        row_entry=b.select(swapped, b.mul(taps[0], r.rows), rows[0]),
        tile_rows=tile_rows,
        tiles=b.sdiv(b.add(tile_rows, number(height - 1)), number(height)),
        shifts=b.select(swapped, number(1), taps[1]),
        sums=sums,
    )


def _multiply_block(  # noqa: PLR0913 - which block of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    tiles: Tiles,
    part: _Part,
    block: Block,
    sides: tuple[ir.Value, ir.Value],
) -> None:
    """Add every tap's product of the block: short runs, so that a panel stays in the cache."""
    side_a, side_b = sides
    tables = [
        b.bitcast(place(b, side_a, getattr(r, f"scratch_{name}")), I64.as_pointer())
        for name in ("a_table", "b_table")
    ]
    segments, run = _fill_segments(b, r, block, tables, shape.columns)
    short = b.icmp_signed("<=", run, r.run_points)
    at_once = b.select(short, b.sdiv(r.run_points, run), number(1))
    runs = b.sdiv(b.add(run, b.sub(r.run_points, number(1))), r.run_points)
    length = b.sdiv(b.add(run, b.sub(runs, number(1))), runs)
    length = b.and_(b.add(length, number(3)), number(-4))
    turns = b.sdiv(b.add(segments, b.sub(at_once, number(1))), at_once)
    with counted(b, part.shifts) as shift, counted(b, turns) as turn, counted(b, runs) as piece:
        swapped = b.icmp_signed("!=", r.swapped, number(0))
        tap = b.select(swapped, number(0), b.add(part.taps[0], shift.index))
        begin = b.mul(piece.index, length)
        first = b.mul(turn.index, at_once)
        depth = smaller(b, b.sub(run, begin), length)
        with b.if_then(b.icmp_signed(">", depth, number(0)), likely=True):
            moved = b.mul(b.add(r.at("shifts", tap), begin), number(shape.columns))
            where = (
                place(b, side_a, begin),
                place(b, side_b, moved),
                [place(b, table, first) for table in tables],
                [smaller(b, b.sub(segments, first), at_once), depth, number(shape.columns)],
            )
            _multiply_run(b, r, shape, tiles, part, shift.index, where)


def _fill_segments(
    b: ir.IRBuilder, r: Record, block: Block, tables: list[ir.Value], columns: int
) -> tuple[ir.Value, ir.Value]:
    """Note where segments begin on both sides; return how many, and how long they are."""
    with counted(b, r.outer, [number(1), b.sub(block.stop, block.start)]) as axis:
        d = axis.index
        count, run = axis.carried
        size = b.sub(load(b, block.stops, d), load(b, block.starts, d))
        apart = b.icmp_signed("<", d, r.split)
        lines = b.mul(b.sub(size, number(1)), r.at("pitches", d))
        axis.carried = [
            b.select(apart, b.mul(count, size), count), b.select(apart, run, b.add(run, lines)),
        ]  # fmt: skip
    segments, run = axis.carried
    with counted(b, segments) as segment:
        with counted(b, r.split, [segment.index, number(0)]) as axis:
            d = b.sub(b.sub(r.split, number(1)), axis.index)
            rest, offset = axis.carried
            size = b.sub(load(b, block.stops, d), load(b, block.starts, d))
            here = b.mul(b.srem(rest, size), r.at("pitches", d))
            axis.carried = [b.sdiv(rest, size), b.add(offset, here)]
        offset = axis.carried[1]
        store(b, offset, tables[0], segment.index)
        store(b, b.mul(offset, number(columns)), tables[1], segment.index)
    return segments, run


def _multiply_run(  # noqa: PLR0913 - which run of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    tiles: Tiles,
    part: _Part,
    shift: ir.Value,
    where: tuple[ir.Value, ir.Value, list[ir.Value], list[ir.Value]],
) -> None:
    """Add one run's product to the sums of one shift."""
    side_a, side_b, tables, counts = where
    high, low = shape.rows
    with counted(b, part.panels[1]) as panel:
        number_of = b.add(part.panels[0], panel.index)
        wide = b.icmp_signed("<", number_of, r.wide_panels)
        other = place(b, side_b, b.mul(panel.index, r.b_plane))
        begin = b.mul(b.add(b.mul(shift, part.panels[1]), panel.index), part.tiles)
        panel_sums = place(b, part.sums, b.mul(begin, _tile_size(shape)))
        width = b.select(wide, number(shape.columns), number(shape.lanes))
        with counted(b, part.tiles) as tile:
            first = b.mul(tile.index, number(high))
            rows = place(b, r.row_offsets, b.add(part.row_entry, first))
            sums = place(b, panel_sums, b.mul(first, width))
            arguments = [sums, side_a, other, rows, *tables, *counts]
            few = b.icmp_signed("<=", b.sub(part.tile_rows, first), number(low))
            for vectors, here in ((shape.vectors, wide), (1, b.not_(wide))):
                with b.if_then(here), b.if_else(few) as (short, full):
                    with short:
                        b.call(tiles[low, vectors], arguments)
                    with full:
                        b.call(tiles[high, vectors], arguments)


def _tile_size(shape: KernelShape) -> ir.Value:
    return number(shape.rows[0] * shape.columns)


def _store_sums(
    b: ir.IRBuilder, r: Record, store_row: ir.Function, shape: KernelShape, part: _Part
) -> None:
    """Write the sums as weights, in whatever order those lie: taps are its points."""
    pointer = FLOATS[shape.dtype].as_pointer()
    offset = b.add(b.mul(part.group, r.target_g), b.mul(part.rows[0], r.target_row))
    target = place(b, r.pointer_to("target", STORED[shape.dtype].as_pointer()), offset)
    none = r.pointer_to("bias", pointer)
    swapped = b.icmp_signed("!=", r.swapped, number(0))
    tap_run = smaller(b, r.tap_run, part.taps[1])
    runs = b.sdiv(part.taps[1], tap_run)
    a_shift = b.mul(b.mul(part.panels[1], part.tiles), _tile_size(shape))
    with (
        counted(b, part.panels[1]) as panel,
        counted(b, part.rows[1]) as row,
        counted(b, runs) as run,
    ):
        number_of = b.add(part.panels[0], panel.index)
        wide = b.icmp_signed("<", number_of, r.wide_panels)
        width = b.select(wide, number(shape.columns), number(shape.lanes))
        tap = b.mul(run.index, tap_run)
        line = b.select(swapped, b.add(b.mul(tap, r.rows), row.index), row.index)
        begin = b.mul(b.mul(panel.index, part.tiles), _tile_size(shape))
        begin = b.add(begin, b.mul(line, width))
        begin = b.add(begin, b.select(swapped, number(0), b.mul(tap, a_shift)))
        channel = b.mul(number_of, number(shape.columns))
        moved = b.add(b.mul(row.index, r.target_row), b.mul(channel, r.target_column))
        write = b.add(r.at("target_taps", b.add(part.taps[0], tap)), moved)
        used = smaller(b, b.sub(r.columns, channel), number(shape.columns))
        pitch = b.select(swapped, b.mul(r.rows, width), a_shift)
        arguments = [place(b, target, write), place(b, part.sums, begin), none]
        steps = [r.target_x, r.target_column, pitch]
        b.call(store_row, [*arguments, tap_run, used, *steps])


def _tell_of_nan(b: ir.IRBuilder, r: Record, shape: KernelShape, sums: ir.Value) -> None:
    """Raise the flag if any sum is NaN or infinite.

    Zeros around the fine side times an infinity are NaN where the definition has nothing:
    then the answer is not trusted, and the caller computes it another way.
    """
    vector = ir.VectorType(FLOATS[shape.dtype], shape.lanes)
    with counted(b, r.sums, [zeros(vector)], step=shape.lanes) as k:
        nothing = b.fmul(load(b, sums, k.index, vector), zeros(vector))
        k.carried = [b.fadd(k.carried[0], nothing)]
    lanes = [b.extract_element(k.carried[0], ir.Constant(I32, i)) for i in range(shape.lanes)]
    lane = lanes[0]
    for other in lanes[1:]:
        lane = b.fadd(lane, other)
    with b.if_then(b.fcmp_unordered("uno", lane, lane), likely=False):
        store(b, number(1), r.pointer_to("flag", I64.as_pointer()))
