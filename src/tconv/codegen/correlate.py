"""Correlations: the gradient of the weights, a part of them for each work item.

A work item walks over its blocks of points (the batch is one more axis).  For each block it
packs what it needs of both sides, and adds every tap's product to sums that stay in scratch
until all blocks are done.  Where points are split into pieces, the sums of each are kept, and a
second step adds them in their order.  What a number means is said in
:mod:`tconv.plan.correlate`, which fills the record in.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

from llvmlite import ir

from tconv.codegen.block import Block, KernelShape, Record, emit_block
from tconv.codegen.build import (
    FLOATS,
    I64,
    STORED,
    counted,
    function,
    load,
    number,
    place,
    smaller,
    store,
)
from tconv.codegen.correlate_segments import fill_segments, runs_of, what_meets
from tconv.codegen.correlate_sums import emit_store_sums, emit_stream_run
from tconv.codegen.side_lines import emit_pack_panels, emit_pack_planes
from tconv.codegen.sides import emit_pack_sides, is_swapped, pack_a, pack_b
from tconv.codegen.tile import Tile, emit_correlate_tile
from tconv.plan.correlate import ARRAYS, FIELDS


@dataclass(frozen=True, slots=True)
class Stores:
    """What writes sums as weights, and what copies such weights past the caches."""

    sums: ir.Function
    run: ir.Function


Tiles = dict[tuple[int, int, int], ir.Function]  # by rows, vectors and pitch


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


def emit_correlate(
    module: ir.Module, shape: KernelShape, *, swapped: bool | None = None
) -> ir.Function:
    """Emit ``correlate(record, scratch, item)``, ``pack_sides`` and ``add_pieces``, all public.

    With ``swapped`` they are for plans that change sides, or for those that do not: half of the
    tiles need not be compiled.
    """
    pointer = FLOATS[shape.dtype].as_pointer()
    store_sums = Stores(
        emit_store_sums(module, shape.dtype, shape.lanes), emit_stream_run(module, shape.dtype)
    )
    _emit_add_pieces(module, shape, store_sums)
    high = shape.rows[0]
    pitches = {True: (0,), False: (high,), None: (0, high)}[swapped]
    tiles: Tiles = {}
    for rows, vectors in product(shape.rows, sorted({1, shape.vectors})):
        kind = Tile(rows, vectors, shape.lanes, shape.dtype)
        emitted = {pitch: emit_correlate_tile(module, kind, pitch) for pitch in pitches}
        for pitch in (0, high):  # what no plan asks for may be anything
            tiles[rows, vectors, pitch] = emitted.get(pitch, emitted[pitches[0]])
    packers = {
        columns: emit_pack_panels(module, shape.dtype, shape.lanes, columns)
        for columns in {shape.columns, *(() if swapped else (high,))}
    }
    other = (
        packers[high] if swapped is False else emit_pack_planes(module, shape.dtype, shape.lanes)
    )
    packers = {high: other, **packers, 1: other}
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
    part = _find(b, r, shape, b.sdiv(item, r.pieces), sums)
    # Pieces with a block more come before those with one less: the last ones end together.
    first, last = (
        b.sdiv(b.add(b.mul(end, r.all_blocks), b.sub(r.pieces, number(1))), r.pieces)
        for end in (piece, b.add(piece, number(1)))
    )
    shared = b.icmp_signed("!=", r.shared, number(0))
    # Both sides of the part: in this worker's scratch, or packed before for all of them.
    group = place(b, common, b.mul(part.group, r.shared))
    tile = b.mul(b.sdiv(part.rows[0], number(shape.rows[0])), r.a_plane)
    tile = b.select(is_swapped(b, r), number(0), tile)
    panel = b.mul(part.panels[0], r.b_plane)
    side_a = b.select(shared, place(b, group, tile), scratch)
    side_b = b.select(
        shared,
        place(b, group, b.add(r.shared_b, panel)),
        place(b, scratch, r.scratch_b),
    )
    with counted(b, last, first=first) as turn:
        block, _ = emit_block(b, r, turn.index, begins=False)
        with b.if_then(b.not_(shared)):
            row = b.select(is_swapped(b, r), number(0), part.rows[0])
            pack_a(b, r, shape, packers, block, (part.group, row, r.a_most), (side_a, scratch))
            channel = b.mul(part.panels[0], number(shape.columns))
            pack_b(b, r, shape, packers, block, (part.group, channel, r.b_most), (side_b, scratch))
        begins = b.icmp_signed("==", turn.index, first)
        ends = b.icmp_signed("==", b.add(turn.index, number(1)), last)
        ends = b.and_(alone, ends)
        tables = [
            b.bitcast(place(b, scratch, getattr(r, f"scratch_{name}")), I64.as_pointer())
            for name in ("a_table", "b_table")
        ]
        _multiply_block(
            b,
            r,
            shape,
            tiles,
            part,
            block,
            (side_a, side_b, tables, scratch),
            (begins, ends, store_sums),
        )
    b.ret_void()
    return made


def _emit_add_pieces(module: ir.Module, shape: KernelShape, store_sums: Stores) -> None:
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
    part = _find(b, r, shape, item, sums)
    with _sum_blocks(b, r, shape, part) as here:
        _store_sums(b, r, store_sums, shape, part, here, scratch)
    b.ret_void()


def _find(b: ir.IRBuilder, r: Record, shape: KernelShape, index: ir.Value, sums: ir.Value) -> _Part:
    found = []
    for name, whole in (("panel", r.panels), ("row", r.rows), ("tap", r.taps)):
        chunks, size = getattr(r, f"{name}_chunks"), getattr(r, f"chunk_{name}s")
        first = b.mul(b.srem(index, chunks), size)
        found.append((first, smaller(b, b.sub(whole, first), size)))
        index = b.sdiv(index, chunks)
    panels, rows, taps = found
    swapped = is_swapped(b, r)
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


@dataclass(frozen=True, slots=True)
class _Here:
    """Some panels and tiles of rows of a part, and where their sums are kept."""

    panel: ir.Value
    panels: ir.Value
    first: ir.Value  # tile
    tiles: ir.Value
    sums: ir.Value
    shift_step: ir.Value  # from one shift's sums to the next


@dataclass(frozen=True, slots=True)
class _Panel:
    """One of these panels: its number among all, how wide its sums are, and where."""

    number: ir.Value
    wide: ir.Value
    width: ir.Value
    sums: ir.Value


@contextmanager
def _sum_blocks(b: ir.IRBuilder, r: Record, shape: KernelShape, part: _Part) -> Iterator[_Here]:
    """Emit a loop over as many panels and rows as have sums that stay in the cache.

    Several panels make longer runs of weights to write.
    """
    blocks = b.sdiv(b.add(part.tiles, b.sub(r.block_tiles, number(1))), r.block_tiles)
    turns = b.add(part.panels[1], b.sub(r.block_panels, number(1)))
    turns = b.sdiv(turns, r.block_panels)
    with counted(b, turns) as turn, counted(b, blocks) as rows:
        panel = b.mul(turn.index, r.block_panels)
        first = b.mul(rows.index, r.block_tiles)
        place_of = b.add(b.mul(turn.index, blocks), rows.index)
        yield _Here(
            panel=panel,
            panels=smaller(b, b.sub(part.panels[1], panel), r.block_panels),
            first=first,
            tiles=smaller(b, b.sub(part.tiles, first), r.block_tiles),
            sums=place(b, part.sums, b.mul(place_of, r.sums_step)),
            shift_step=b.mul(r.block_tiles, _tile_size(shape)),
        )


def _find_panel(  # noqa: PLR0913 - which panel of what
    b: ir.IRBuilder, r: Record, shape: KernelShape, part: _Part, here: _Here, index: ir.Value
) -> _Panel:
    panel = b.add(b.add(part.panels[0], here.panel), index)
    wide = b.icmp_signed("<", panel, r.wide_panels)
    return _Panel(
        number=panel,
        wide=wide,
        width=b.select(wide, number(shape.columns), number(shape.lanes)),
        sums=place(b, here.sums, b.mul(index, r.panel_sums)),
    )


def _multiply_block(  # noqa: PLR0913 - which block of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    tiles: Tiles,
    part: _Part,
    block: Block,
    sides: tuple[ir.Value, ir.Value, list[ir.Value], ir.Value],
    turn: tuple[ir.Value, ir.Value, Stores],
) -> None:
    """Add every tap's product of the block: short runs, so that a panel stays in the cache.

    ``turn`` tells whether this is the first block, and whether sums are stored after it, by what.
    """
    side_a, side_b, tables, scratch = sides
    begins, ends, store_sums = turn
    swapped = is_swapped(b, r)
    pitch = b.select(swapped, number(1), number(shape.rows[0]))
    segments = fill_segments(b, r, block, tables, (pitch, number(shape.columns)))
    with _sum_blocks(b, r, shape, part) as here:
        with counted(b, here.panels) as index, runs_of(b, r, segments) as run:
            panel = _find_panel(b, r, shape, part, here, index.index)
            along = b.mul(b.add(here.panel, index.index), r.b_plane)
            fresh = b.and_(begins, run.first)
            with counted(b, part.shifts) as shift:
                tap = b.select(swapped, number(0), b.add(part.taps[0], shift.index))
                met = what_meets(b, r, segments, run, tap)
                moved = b.mul(b.add(r.at("shifts", tap), met.point), number(shape.columns))
                where = (
                    place(b, side_a, b.mul(met.point, pitch)),
                    place(b, side_b, b.add(along, moved)),
                    [place(b, table, met.segment) for table in tables],
                    [met.planes, segments.lines, met.lines, met.points],
                )
                with b.if_then(b.or_(fresh, met.any), likely=True):
                    _multiply_run(
                        b, r, shape, tiles, part, (here, panel), (shift.index, fresh), where
                    )
        with b.if_then(ends):
            _store_sums(b, r, store_sums, shape, part, here, scratch)


def _multiply_run(  # noqa: PLR0913 - which run of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    tiles: Tiles,
    part: _Part,
    which: tuple[_Here, _Panel],
    shift: tuple[ir.Value, ir.Value],
    where: tuple[ir.Value, ir.Value, list[ir.Value], list[ir.Value]],
) -> None:
    """Add one run's product to the sums of one shift; the first run begins them."""
    here, panel = which
    index, fresh = shift
    side_a, side_b, tables, counts = where
    high, low = shape.rows
    nothing = r.pointer_to("zeros", side_a.type)
    shift_sums = place(b, panel.sums, b.mul(index, here.shift_step))
    swapped = is_swapped(b, r)
    first = b.mul(here.first, number(high))
    left = b.sub(part.tile_rows, first)
    # The last rows go into a smaller tile if they fit.
    full = smaller(b, b.sdiv(b.add(left, number(high - 1 - low)), number(high)), here.tiles)
    tile_sums = b.mul(number(high), panel.width)
    start_step = b.select(fresh, number(0), tile_sums)
    for height, begin, end in ((high, number(0), full), (low, full, here.tiles)):
        sums = place(b, shift_sums, b.mul(begin, tile_sums))
        start = b.select(fresh, nothing, sums)
        row = b.add(first, b.mul(begin, number(high)))
        rows = place(b, r.row_offsets, b.add(part.row_entry, row))
        steps = [b.sub(end, begin), tile_sums, start_step]
        arguments = [sums, start, side_a, side_b, rows, *tables, *counts, *steps]
        with b.if_else(panel.wide) as (wide, narrow):
            for case, vectors in ((wide, shape.vectors), (narrow, 1)):
                with case:
                    rows_apart, rows_beside = (tiles[height, vectors, pitch] for pitch in (0, high))
                    b.call(b.select(swapped, rows_apart, rows_beside), arguments)


def _tile_size(shape: KernelShape) -> ir.Value:
    return number(shape.rows[0] * shape.columns)


def _store_sums(  # noqa: PLR0913 - which sums of what
    b: ir.IRBuilder,
    r: Record,
    store_sums: Stores,
    shape: KernelShape,
    part: _Part,
    here: _Here,
    scratch: ir.Value,
) -> None:
    """Write the sums as weights, in whatever order those lie: taps are its points."""
    stored = STORED[shape.dtype].as_pointer()
    offset = b.add(b.mul(part.group, r.target_g), b.mul(part.rows[0], r.target_row))
    target = place(b, r.pointer_to("target", stored), offset)
    flag = r.pointer_to("flag", I64.as_pointer())
    swapped = is_swapped(b, r)
    streams = b.icmp_signed("!=", r.stream, number(0))
    line = b.bitcast(place(b, scratch, r.scratch_run), stored)
    tap_run = smaller(b, r.tap_run, part.taps[1])
    runs = b.sdiv(part.taps[1], tap_run)
    # Where rows are taps and channels, all of them are here.
    begin = b.select(swapped, number(0), b.mul(here.first, number(shape.rows[0])))
    most = b.select(swapped, part.rows[1], b.mul(here.tiles, number(shape.rows[0])))
    rows = smaller(b, b.sub(part.rows[1], begin), most)
    first = b.mul(b.add(part.panels[0], here.panel), number(shape.columns))
    with counted(b, rows) as row:
        moved = b.mul(b.add(begin, row.index), r.target_row)
        whole = place(b, target, b.add(moved, b.mul(first, r.target_column)))
        into = b.select(streams, line, whole)
        with counted(b, here.panels) as index, counted(b, runs) as run:
            panel = _find_panel(b, r, shape, part, here, index.index)
            channel = b.mul(panel.number, number(shape.columns))
            used = smaller(b, b.sub(r.columns, channel), number(shape.columns))
            pitch = b.select(swapped, b.mul(r.rows, panel.width), here.shift_step)
            tap = b.mul(run.index, tap_run)
            sums = place(b, panel.sums, b.add(b.mul(tap, pitch), b.mul(row.index, panel.width)))
            moved = b.mul(b.sub(channel, first), r.target_column)
            write = b.add(r.at("target_taps", b.add(part.taps[0], tap)), moved)
            arguments = [place(b, into, write), sums, flag, tap_run, used]
            b.call(store_sums.sums, [*arguments, r.target_x, r.target_column, pitch])
        with b.if_then(streams):
            channels = b.mul(here.panels, number(shape.columns))
            channels = smaller(b, b.sub(r.columns, first), channels)
            b.call(store_sums.run, [whole, line, b.mul(channels, r.target_column)])
    with b.if_then(streams):
        b.fence("seq_cst")  # other threads may read them when this work item is done


def _is(b: ir.IRBuilder, value: ir.Value, other: int) -> ir.Value:
    return b.icmp_signed("==", value, number(other))
