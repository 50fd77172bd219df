"""Correlations: the gradient of the weights, a part of them for each work item.

A work item walks over its blocks of points (the batch is one more axis).  For each block it
packs what it needs of both sides, and adds every tap's product to sums that stay in scratch
until all blocks are done.  Where points are split into pieces, the sums of each are kept, and a
second step adds them in their order.  What a number means is said in
:mod:`tconv.plan.correlate`, which fills the record in.
"""

from itertools import product

from llvmlite import ir

from tconv.codegen.block import Block, KernelShape, Record, emit_block
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
)
from tconv.codegen.correlate_ahead import Ahead, look_ahead, next_lines, no_stretches
from tconv.codegen.correlate_parts import Here, Panel, Part, find_panel, find_part, sum_blocks
from tconv.codegen.correlate_segments import fill_segments, runs_of, what_meets
from tconv.codegen.correlate_store import Stores, store_sums
from tconv.codegen.correlate_sums import emit_store_panels, emit_store_sums, emit_stream_run
from tconv.codegen.correlate_tile import emit_correlate_tile
from tconv.codegen.runs import split_rows
from tconv.codegen.side_groups import emit_pack_groups
from tconv.codegen.side_lines import emit_pack_panels, emit_pack_planes
from tconv.codegen.sides import (
    Packers,
    emit_pack_sides,
    height_of_a,
    is_swapped,
    pack_a,
    pack_b,
)
from tconv.codegen.tile import Tile
from tconv.plan.correlate import ARRAYS, FIELDS

Tiles = dict[tuple[int, int, int], ir.Function]  # by rows, vectors and pitch


def emit_correlate(
    module: ir.Module, shape: KernelShape, *, swapped: bool | None = None
) -> ir.Function:
    """Emit ``correlate(record, scratch, item)``, ``pack_sides`` and ``add_pieces``, all public.

    With ``swapped`` they are for plans that change sides, or for those that do not: half of the
    tiles need not be compiled.
    """
    pointer = FLOATS[shape.dtype].as_pointer()
    stores = Stores(
        emit_store_sums(module, shape.dtype, shape.lanes),
        emit_store_panels(module, shape.dtype, shape.lanes, shape.columns),
        emit_stream_run(module, shape.dtype),
    )
    _emit_add_pieces(module, shape, stores)
    high = shape.rows[0]
    tiles: Tiles = {}
    for rows, vectors in product(shape.rows, sorted({1, shape.vectors})):
        kind = Tile(rows, vectors, shape.lanes, shape.dtype, across=shape.groups > 1)
        # Rows lie side by side in large tiles, if sides do not change places.  Small ones may
        # begin anywhere, as any two of them may take what is left.
        pitches = {True: (0,), False: (high,), None: (0, high)}[swapped]
        if shape.groups > 1 or rows != high:
            pitches = (0,)
        emitted = {pitch: emit_correlate_tile(module, kind, pitch) for pitch in pitches}
        for pitch in (0, high):  # what no plan asks for may be anything
            tiles[rows, vectors, pitch] = emitted.get(pitch, emitted[pitches[0]])
    packers = _emit_packers(module, shape, swapped=swapped)
    emit_pack_sides(module, shape, packers)
    made, b = function(
        module, f"correlate_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    alone = _is(b, r.pieces, 1)
    common = r.pointer_to("common", pointer)
    sums = b.select(alone, place(b, scratch, r.scratch_sums), place(b, common, b.mul(item, r.sums)))
    piece = b.srem(item, r.pieces)
    part = find_part(b, r, shape, b.sdiv(item, r.pieces), sums)
    # Pieces with a block more come before those with one less: the last ones end together.
    first, last = (
        b.sdiv(b.add(b.mul(end, r.all_blocks), b.sub(r.pieces, number(1))), r.pieces)
        for end in (piece, b.add(piece, number(1)))
    )
    shared = b.icmp_signed("!=", r.shared, number(0))
    # Both sides of the part: in this worker's scratch, or packed before for all of them.
    group = place(b, common, b.mul(part.group, r.shared))
    tile = b.mul(b.sdiv(part.rows[0], height_of_a(b, r, shape)), r.a_plane)
    tile = b.select(is_swapped(b, r), number(0), tile)
    panel = b.mul(part.panels[0], r.b_plane)
    side_a = b.select(shared, place(b, group, tile), scratch)
    side_b = b.select(
        shared,
        place(b, group, b.add(r.shared_b, panel)),
        place(b, scratch, r.scratch_b),
    )
    ahead = no_stretches(b)
    with counted(b, last, first=first) as turn:
        block, _ = emit_block(b, r, turn.index, begins=False)
        with b.if_then(b.not_(shared)):
            row = b.select(is_swapped(b, r), number(0), part.rows[0])
            pack_a(b, r, shape, packers, block, (part.group, row, r.a_most), (side_a, scratch))
            channel = b.mul(part.panels[0], number(shape.panel))
            pack_b(b, r, shape, packers, block, (part.group, channel, r.b_most), (side_b, scratch))
        begins = b.icmp_signed("==", turn.index, first)
        ends = b.icmp_signed("==", b.add(turn.index, number(1)), last)
        ends = b.and_(alone, ends)
        tables = [
            b.bitcast(place(b, scratch, getattr(r, f"scratch_{name}")), I64.as_pointer())
            for name in ("a_table", "b_table")
        ]
        following = b.add(turn.index, number(1))
        exists = b.icmp_signed("<", following, r.all_blocks)
        soon, _ = emit_block(b, r, following, begins=False)
        look_ahead(b, r, shape, part, soon, ahead, exists)
        _multiply_block(
            b,
            r,
            shape,
            tiles,
            part,
            block,
            (side_a, side_b, tables, scratch),
            (begins, ends, stores, ahead),
        )
    b.ret_void()
    return made


def _emit_packers(module: ir.Module, shape: KernelShape, *, swapped: bool | None) -> Packers:
    """Emit what packs both sides."""
    dtype, lanes, high = shape.dtype, shape.lanes, shape.rows[0]
    if shape.groups > 1:
        widths = lanes, shape.columns
        return {width: emit_pack_groups(module, dtype, lanes, width // lanes) for width in widths}
    packers = {
        columns: emit_pack_panels(module, dtype, lanes, columns)
        for columns in {shape.columns, *(() if swapped else (high,))}
    }
    other = packers[high] if swapped is False else emit_pack_planes(module, dtype, lanes)
    return {high: other, **packers, 1: other}


def _emit_add_pieces(module: ir.Module, shape: KernelShape, stores: Stores) -> None:
    """Emit ``add_pieces(record, scratch, item)``: the sums of all pieces, in their order."""
    pointer = FLOATS[shape.dtype].as_pointer()
    vector = ir.VectorType(FLOATS[shape.dtype], shape.lanes)
    made, b = function(
        module, f"add_pieces_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    first = b.mul(b.mul(item, r.pieces), r.sums)
    sums = place(b, r.pointer_to("common", pointer), first)
    with counted(b, r.sums, step=shape.lanes) as k:
        with counted(b, r.pieces, [load(b, sums, k.index, vector)], first=number(1)) as piece:
            more = place(b, sums, b.mul(piece.index, r.sums))
            piece.carried = [b.fadd(piece.carried[0], load(b, more, k.index, vector))]
        store(b, piece.carried[0], sums, k.index)
    part = find_part(b, r, shape, item, sums)
    with sum_blocks(b, r, shape, part) as here:
        store_sums(b, r, stores, shape, part, here, scratch)
    b.ret_void()


def _multiply_block(  # noqa: PLR0913 - which block of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    tiles: Tiles,
    part: Part,
    block: Block,
    sides: tuple[ir.Value, ir.Value, list[ir.Value], ir.Value],
    turn: tuple[ir.Value, ir.Value, Stores, Ahead],
) -> None:
    """Add every tap's product of the block: short runs, so that a panel stays in the cache.

    ``turn`` tells whether this is the first block, and whether sums are stored after it, by what.
    """
    side_a, side_b, tables, scratch = sides
    begins, ends, stores, ahead = turn
    swapped = is_swapped(b, r)
    pitch = b.mul(height_of_a(b, r, shape), number(shape.groups))
    segments = fill_segments(b, r, block, tables, (pitch, number(shape.columns)))
    with sum_blocks(b, r, shape, part) as here:
        with counted(b, here.panels) as index, runs_of(b, r, segments) as run:
            panel = find_panel(b, r, shape, part, here, index.index)
            along = b.mul(b.add(here.panel, index.index), r.b_plane)
            fresh = b.and_(begins, run.first)
            with counted(b, part.shifts) as shift:
                tap = b.select(swapped, number(0), b.add(part.taps[0], shift.index))
                met = what_meets(b, r, segments, run, tap)
                moved = b.mul(b.add(r.at("shifts", tap), met.point), number(shape.columns))
                where = (
                    place(b, side_a, b.mul(met.point, r.a_next)),
                    place(b, side_b, b.add(along, moved)),
                    [place(b, table, met.segment) for table in tables],
                    [met.planes, segments.lines, met.lines, met.points],
                )
                with b.if_then(b.or_(fresh, met.any), likely=True):
                    _multiply_run(
                        b, r, shape, tiles, part, (here, panel), (shift.index, fresh, ahead), where
                    )
        with b.if_then(ends):
            store_sums(b, r, stores, shape, part, here, scratch)


def _multiply_run(  # noqa: PLR0913 - which run of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    tiles: Tiles,
    part: Part,
    which: tuple[Here, Panel],
    shift: tuple[ir.Value, ir.Value, Ahead],
    where: tuple[ir.Value, ir.Value, list[ir.Value], list[ir.Value]],
) -> None:
    """Add one run's product to the sums of one shift; the first run begins them."""
    here, panel = which
    index, fresh, ahead = shift
    side_a, side_b, tables, counts = where
    high, low = shape.rows
    nothing = r.pointer_to("zeros", side_a.type)
    shift_sums = place(b, panel.sums, b.mul(index, here.shift_step))
    swapped = is_swapped(b, r)
    first = b.mul(here.first, number(high))
    left = b.sub(part.tile_rows, first)
    full, rest = split_rows(b, smaller(b, left, b.mul(here.tiles, number(high))), shape.rows)
    done = b.mul(full, number(high))
    lines = next_lines(b, ahead, (counts, full))
    for height, begin, count in ((high, number(0), full), (low, done, rest)):
        sums = place(b, shift_sums, b.mul(begin, panel.width))
        tile_sums = b.mul(number(height), panel.width)
        start = b.select(fresh, nothing, sums)
        start_step = b.select(fresh, number(0), tile_sums)
        rows = place(b, r.row_offsets, b.add(part.row_entry, b.add(first, begin)))
        soon = lines if height == high else (lines[0], number(0))
        steps = [count, tile_sums, start_step, r.a_next, *soon]
        arguments = [sums, start, side_a, side_b, rows, *tables, *counts, *steps]
        with b.if_else(panel.wide) as (wide, narrow):
            for case, vectors in ((wide, shape.vectors), (narrow, 1)):
                with case:
                    apart, beside = (tiles[height, vectors, pitch] for pitch in (0, high))
                    b.call(b.select(swapped, apart, beside), arguments)


def _is(b: ir.IRBuilder, value: ir.Value, other: int) -> ir.Value:
    return b.icmp_signed("==", value, number(other))
