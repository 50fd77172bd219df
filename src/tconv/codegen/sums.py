"""Sums of panels: register tiles over all points of a block, a part of the depth at a time."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from llvmlite import ir

from tconv.codegen.block import Block, KernelShape, Record, emit_origin, emit_pack_region
from tconv.codegen.build import (
    FLOATS,
    I1,
    I64,
    LINE,
    STORED,
    counted,
    larger,
    load,
    number,
    place,
    smaller,
    store,
)
from tconv.codegen.rows import emit_pack_row, emit_store_row
from tconv.codegen.tile import Tile, emit_tile

AHEAD = 128  # steps of the depth, until weights come from the last cache or from memory
NARROW_ROWS = 8  # of one vector: additions take four cycles, and two begin in each


@dataclass(frozen=True, slots=True)
class Parts:
    """The functions that a gather calls, by what they do."""

    tiles: dict[int, list[ir.Function]]  # by vectors
    far: list[ir.Function]  # the same for wide panels, where data is not in any cache
    past: tuple[list[ir.Function], ...]  # both again, for results that no cache should keep
    pack_row: ir.Function
    store_row: ir.Function


@dataclass(frozen=True, slots=True)
class Data:
    """What tiles read: a packed region, or the source itself."""

    origin: ir.Value
    line_steps: ir.Value  # from line to line, by outer axis
    point_step: ir.Value
    segments: ir.Value
    far: ir.Value  # whether it may be in no cache


@dataclass(frozen=True, slots=True)
class Place:
    """Where a work item finds and puts things."""

    data: Data
    sums: ir.Value
    rows: ir.Value  # tables, by phase of the last axis: where a point's region begins,
    places: ir.Value  # where its sums go,
    targets: ir.Value  # where it is stored in the end,
    counts: ir.Value  # and how many points there are
    target: ir.Value
    past: ir.Value  # whether sums go to the target past all caches
    weights: ir.Value
    bias: ir.Value


def emit_parts(module: ir.Module, shape: KernelShape, *, past: bool = False) -> Parts:
    """Emit the functions that a gather calls; those that write past the caches if wanted."""
    large, _ = shape.rows
    tiles = {
        vectors: [
            emit_tile(module, Tile(rows, vectors, shape.lanes, shape.dtype))
            for rows in rows_of(shape, vectors)
        ]
        for vectors in sorted({1, shape.vectors})
    }
    sizes, small = (large, shape.vectors, shape.lanes, shape.dtype), tiles[shape.vectors][1]
    streaming: tuple[list[ir.Function], ...] = ()
    if past and STORED[shape.dtype] == FLOATS[shape.dtype]:
        kinds = (Tile(*sizes, far=far, past=True) for far in (False, True))
        streaming = tuple([emit_tile(module, tile), small] for tile in kinds)
    return Parts(
        tiles,
        [emit_tile(module, Tile(*sizes, far=True)), small],
        streaming,
        emit_pack_row(module, shape.dtype, shape.lanes),
        emit_store_row(module, shape.dtype, shape.lanes),
    )


def rows_of(shape: KernelShape, vectors: int) -> tuple[int, int]:
    """Return how many rows the tiles of so many vectors have: of the large one and the small."""
    large, small = shape.rows
    return (large if vectors > 1 else max(large, NARROW_ROWS)), small


def read_in_place(b: ir.IRBuilder, r: Record, shape: KernelShape, block: Block) -> ir.Value:
    """Tell whether the source has all that a block reads as tiles read it."""
    if STORED[shape.dtype] != FLOATS[shape.dtype]:
        return ir.Constant(I1, 0)
    _, whole = emit_origin(b, r, block)
    return b.and_(whole, b.icmp_signed("!=", r.in_place, number(0)))


def find_data(  # noqa: PLR0913 - which block of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: Parts,
    block: Block,
    numbers: tuple[ir.Value, ir.Value, ir.Value],
) -> Data:
    """Return what the block reads: packed, unless the source has all of it as tiles read it.

    The numbers are the scratch, the group, and the block's own with the group in it.
    """
    scratch, group, index = numbers
    stored = STORED[shape.dtype].as_pointer()
    source = place(b, r.pointer_to("source", stored), b.mul(group, r.source_g))
    data = Data(scratch, r.pitches, r.depth, r.segments, ir.Constant(I1, 0))
    origin, whole = emit_origin(b, r, block)
    in_place = b.and_(whole, b.icmp_signed("!=", r.in_place, number(0)))
    # Work items that differ only in their panels follow one another: what this worker has packed
    # for the last of them need not be packed again.
    tag = b.bitcast(place(b, scratch, r.scratch_tag), I64.as_pointer())
    same = b.and_(
        b.icmp_signed("==", load(b, tag, 0), r.call), b.icmp_signed("==", load(b, tag, 1), index)
    )
    with b.if_then(b.not_(b.or_(in_place, same))):
        emit_pack_region(b, r, parts.pack_row, block, scratch, source)
        store(b, r.call, tag, 0)
        store(b, index, tag, 1)
    if STORED[shape.dtype] != FLOATS[shape.dtype]:
        return data
    return Data(
        origin=b.select(in_place, place(b, source, origin), data.origin),
        line_steps=b.select(in_place, r.source_steps, data.line_steps),
        point_step=b.select(in_place, r.source_x, data.point_step),
        segments=b.select(in_place, r.segments_in_place, data.segments),
        far=in_place,
    )


def find_place(  # noqa: PLR0913 - which item of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    scratch: ir.Value,
    group: ir.Value,
    data: Data,
) -> Place:
    """Return where a work item of a group finds and puts things."""
    pointer, stored = FLOATS[shape.dtype].as_pointer(), STORED[shape.dtype].as_pointer()
    rows, places, targets, counts = (
        b.bitcast(place(b, scratch, getattr(r, f"scratch_{name}")), I64.as_pointer())
        for name in ("rows", "places", "targets", "counts")
    )
    padded = b.mul(r.panels, number(shape.columns))
    target = place(b, r.pointer_to("target", stored), b.mul(group, r.target_g))
    askew = b.and_(b.ptrtoint(target, I64), number(LINE - 1))
    return Place(
        data=data,
        sums=place(b, scratch, r.scratch_sums),
        rows=rows,
        places=places,
        targets=targets,
        counts=counts,
        target=target,
        past=b.icmp_signed(">", r.stream, askew),  # 1 and 0
        weights=place(b, r.pointer_to("weights", stored), b.mul(group, r.group_weights)),
        bias=place(b, r.pointer_to("bias", pointer), b.mul(group, padded)),
    )


def of_group(
    b: ir.IRBuilder, r: Record, shape: KernelShape, where: Place, group: ir.Value
) -> Place:
    """Return where things of a later group are, by how many later; data is read in place."""
    padded = b.mul(r.panels, number(shape.columns))
    return replace(
        where,
        data=replace(where.data, origin=place(b, where.data.origin, b.mul(group, r.source_g))),
        target=place(b, where.target, b.mul(group, r.target_g)),
        weights=place(b, where.weights, b.mul(group, r.group_weights)),
        bias=place(b, where.bias, b.mul(group, padded)),
    )


def sums_direct(b: ir.IRBuilder, r: Record, shape: KernelShape, panel: ir.Value) -> ir.Value:
    """Tell whether sums may lie in the target: whole vectors of channels side by side."""
    if STORED[shape.dtype] != FLOATS[shape.dtype]:
        return ir.Constant(I1, 0)
    used = b.sub(r.columns, b.mul(panel, number(shape.columns)))
    full = b.or_(
        b.icmp_signed(">=", used, number(shape.columns)),
        b.icmp_signed("==", used, number(shape.lanes)),
    )
    plain = b.icmp_signed("==", r.activate, number(0))
    return b.and_(b.and_(full, plain), b.icmp_signed("==", r.target_c, number(1)))


def emit_sums(  # noqa: PLR0913 - which panels of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: Parts,
    where: Place,
    phase: ir.Value,
    panels: tuple[ir.Value, ir.Value, ir.Value],
    direct: Callable[[ir.Value], ir.Value] | None = None,
) -> None:
    """Sum some panels of channels for every phase of the last axis, a part of the depth at a time.

    A part of the data stays in the second cache while all panels go by it, and a part of a
    panel's weights in the first while all points go by that.  ``direct`` tells of a panel
    whether its sums lie in the target; the others' lie in scratch, the first panel's first.
    The panels are from, to, and the first that reads this data at all.
    """
    first_panel, last_panel, fresh = panels

    def width_of(panel: ir.Value) -> ir.Value:
        wide = b.icmp_signed("<", panel, r.wide_panels)
        return b.select(wide, number(shape.columns), number(shape.lanes))

    def weights_of(panel: ir.Value, rows: ir.Value) -> ir.Value:
        begin = b.add(r.at("phase_weights", phase), b.mul(panel, r.at("panel_weights", phase)))
        return place(b, where.weights, b.add(begin, b.mul(rows, width_of(panel))))

    with counted(b, r.phases) as x:
        both = b.add(b.mul(phase, r.phases), x.index)
        count, depth = r.at("segment_count", both), r.at("segment_depth", both)
        at_once, length = r.at("part_segments", both), r.at("part_depth", both)
        lengthy = b.add(depth, b.sub(length, number(1)))
        cuts = larger(b, b.sdiv(lengthy, length), number(1))
        turns = b.sdiv(b.add(count, b.sub(at_once, number(1))), at_once)
        turns = larger(b, turns, number(1))
        segments = place(b, where.data.segments, r.at("segment_start", both))
        entry = b.mul(x.index, r.points)
        points = load(b, where.counts, x.index)
        with (
            counted(b, turns) as turn,
            counted(b, cuts) as cut,
            counted(b, last_panel, first=first_panel) as panel,
        ):
            first = b.icmp_signed("==", b.or_(turn.index, cut.index), number(0))
            wide = b.icmp_signed("<", panel.index, r.wide_panels)
            width = width_of(panel.index)
            segment, inside = b.mul(turn.index, at_once), b.mul(cut.index, length)
            skipped = b.add(b.mul(segment, depth), inside)
            rows = b.add(r.at("rows_before", both), skipped)
            some = smaller(b, b.sub(count, segment), at_once)
            deep = smaller(b, b.sub(depth, inside), length)
            after = b.add(panel.index, number(1))
            goes_on = b.icmp_signed("<", after, last_panel)
            soon = weights_of(
                b.select(goes_on, after, first_panel),
                b.select(goes_on, rows, b.add(rows, b.mul(some, deep))),
            )
            channel = b.mul(panel.index, number(shape.columns))
            number_of = b.sub(panel.index, first_panel)
            sums, places = place(b, where.sums, b.mul(number_of, r.sums_panel)), where.places
            final: ir.Value = ir.Constant(I1, 0)
            if direct is not None and where.target.type == sums.type:
                final = direct(panel.index)
                sums = b.select(final, place(b, where.target, channel), sums)
                places = b.select(final, where.targets, places)
            places = place(b, places, entry)
            # Of a depth that is cut, every line is read for long: there is time to fetch it.
            whole = b.icmp_signed("==", b.mul(turns, cuts), number(1))
            run = _Run(
                sums=sums,
                start=b.select(first, place(b, where.bias, channel), sums),
                data=place(b, where.data.origin, inside),
                weights=weights_of(panel.index, rows),
                soon=soon,
                width=width,
                places=places,
                start_places=b.select(first, r.blank, places),
                start_step=b.select(first, number(0), number(-1)),
                rows=place(b, where.rows, entry),
                segments=place(b, segments, segment),
                count=some,
                depth=deep,
                points=points,
            )
            far = b.and_(b.and_(where.data.far, whole), b.icmp_signed("==", panel.index, fresh))
            kept = parts.tiles[shape.vectors], parts.far
            with b.if_else(wide) as (full, narrow):
                with full:
                    past = b.and_(b.and_(where.past, whole), final) if parts.past else None
                    _run_wide(b, shape, (kept, parts.past), (far, past), run)
                with narrow:
                    _run_tiles(b, parts.tiles[1], shape, 1, run)


def _run_wide(
    b: ir.IRBuilder,
    shape: KernelShape,
    tiles: tuple[tuple[list[ir.Function], ...], tuple[list[ir.Function], ...]],
    kinds: tuple[ir.Value, ir.Value | None],
    run: "_Run",
) -> None:
    """Run tiles of a wide panel: for data that is far away or near, for sums that stay or not."""
    (near, far), past_tiles = tiles
    distant, past = kinds
    if past is not None:
        with b.if_else(past) as (leaves, stays):
            with leaves:
                _run_wide(b, shape, (past_tiles, ()), (distant, None), run)
            with stays:
                _run_wide(b, shape, ((near, far), ()), (distant, None), run)
        return
    with b.if_else(distant) as (apart, beside):
        with apart:
            _run_tiles(b, far, shape, shape.vectors, run)
        with beside:
            _run_tiles(b, near, shape, shape.vectors, run)


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
    width: ir.Value  # of the panel
    soon: ir.Value  # the weights that are read afterwards


def _run_tiles(
    b: ir.IRBuilder, tiles: list[ir.Function], shape: KernelShape, vectors: int, run: _Run
) -> None:
    """Run the large tile as often as it fits, then the one that what is left fits into.

    Additions take four cycles, so a tile of one row is no quicker than one of four.  Every tile
    asks for a share of the weights that are read next, which are far away where panels are large;
    a single one for its own, a little ahead.
    """
    large, small = map(number, rows_of(shape, vectors))
    whole = b.sdiv(run.points, large)
    rest = b.sub(run.points, b.mul(whole, large))
    whole = b.add(whole, b.zext(b.icmp_signed(">", rest, small), I64))
    done = b.mul(whole, large)
    calls = b.add(whole, b.zext(b.icmp_signed("<", done, run.points), I64))
    steps = b.mul(run.count, run.depth)
    share = b.sdiv(b.add(steps, b.sub(calls, number(1))), larger(b, calls, number(1)))
    single = b.icmp_signed("<=", calls, number(1))
    soon = b.select(single, place(b, run.weights, AHEAD * shape.columns), run.soon)

    def call(tile: ir.Function, turn: ir.Value) -> None:
        here = b.mul(turn, large)
        tables = [
            place(b, run.places, here),
            place(b, run.start_places, b.and_(here, run.start_step)),
            place(b, run.rows, here),
        ]
        sums = [run.sums, run.start, run.data, run.weights]
        ahead = place(b, soon, b.mul(turn, b.mul(share, run.width)))
        b.call(tile, [*sums, *tables, run.segments, run.count, run.depth, ahead, share])

    with counted(b, whole) as turn:
        call(tiles[0], turn.index)
    with b.if_then(b.icmp_signed("<", done, run.points)):
        call(tiles[1], whole)
