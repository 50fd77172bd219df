"""The gradient of the weights of grouped layers: every lane of a vector is a group."""

from dataclasses import dataclass, replace

from llvmlite import ir

from tconv.codegen.block import (
    MOST_AXES,
    Block,
    KernelShape,
    Record,
    emit_block,
    emit_region_extents,
    emit_region_line,
)
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
    store,
)
from tconv.codegen.correlate_sums import emit_store_sums
from tconv.codegen.grouped_store import emit_add_parts, panel_size, store_panels
from tconv.codegen.meetings import Tables, fill_outer, fill_segments, same_taps, tap_step
from tconv.codegen.panels import Packing, emit_pack_groups, first_group
from tconv.codegen.rows import zero_fill
from tconv.codegen.tally import Tally, emit_tally
from tconv.plan.grouped_weights import ARRAYS, FIELDS
from tconv.plan.stretches import ROWS

MANY_PANELS = 4  # of a point: memory does not foresee lines so far apart


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two arrays, or what is packed of it."""

    begin: ir.Value  # where point 0 of all axes would lie
    steps: ir.Value  # of the outer axes
    x_step: ir.Value
    c_step: ir.Value


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a work item finds and puts things."""

    scratch: ir.Value
    sums: ir.Value
    tables: Tables
    first: ir.Value  # panel
    panels: ir.Value  # of this item
    panel_sums: ir.Value
    direct: ir.Value  # whether groups lie side by side in both arrays; a constant if it is known
    stored: ir.Type  # a pointer to elements of the arrays


def emit_grouped_weights(
    module: ir.Module, shape: KernelShape, *, widening: bool = False
) -> ir.Function:
    """Emit ``grouped_weights(record, scratch, item)`` and ``add_parts``, both public.

    Sums are ``[part][panel][coarse channel][fine channel][tap][lane]``; those of a single part
    are written as weights at once.  Elements that are summed as another type are packed, or
    widened where they lie: groups must lie side by side.
    """
    pointer = FLOATS[shape.dtype].as_pointer()
    stores = emit_store_sums(module, shape.dtype, shape.lanes)
    emit_add_parts(module, shape, stores)
    pack, tally = emit_pack_groups(module, shape), emit_tally(module, shape, stored=widening)
    made, b = function(
        module, f"grouped_weights_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    part = b.sdiv(item, r.chunks)
    where = _find(b, r, shape, scratch, (b.srem(item, r.chunks), part))
    if STORED[shape.dtype] != FLOATS[shape.dtype]:
        where = replace(where, direct=ir.Constant(I1, int(widening)))
    zero_fill(b, where.sums, b.mul(where.panels, where.panel_sums), shape.dtype)
    first = b.sdiv(b.mul(r.all_blocks, part), r.parts)
    last = b.sdiv(b.mul(r.all_blocks, b.add(part, number(1))), r.parts)
    with counted(b, last, first=first) as turn:
        block, _ = emit_block(b, r, turn.index, begins=False)
        with b.if_then(b.not_(where.direct)):
            _pack_fine(b, r, pack, block, where)
        lines = _note_extents(b, r, block)
        with b.if_then(b.not_(where.direct)):
            _pack_coarse(b, r, pack, block, where, lines)
        _run_lines(b, r, shape, tally, where, block, lines)
    with b.if_then(b.icmp_signed("==", r.parts, number(1))):
        store_panels(b, r, shape, stores, (where.first, where.panels, where.sums))
    b.ret_void()
    return made


def _run_lines(  # noqa: PLR0913 - which lines of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    tally: ir.Function,
    where: _Place,
    block: Block,
    lines: ir.Value,
) -> None:
    """Add the products of all lines of a block."""
    fine, coarse = _sides(b, r, block, where)
    with counted(b, lines) as line:
        numbers = line.index, r.outer_offsets, r.outer_count, fine.steps
        outer = fill_outer(b, r, block, where.tables, numbers)
        moved = _line_offset(b, r, block, line.index, coarse.steps)
        mine = place(b, coarse.begin, moved)
        _run_line(b, r, shape, tally, where, block, (fine, coarse, mine, outer))


def _find(
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    scratch: ir.Value,
    numbers: tuple[ir.Value, ir.Value],
) -> _Place:
    chunk, part = numbers
    pointer = FLOATS[shape.dtype].as_pointer()
    with b.goto_entry_block():
        points = b.alloca(I64, number(MOST_AXES))
    outer, table = (
        b.bitcast(place(b, scratch, where), I64.as_pointer())
        for where in (r.scratch_outer, r.scratch_table)
    )
    first = b.mul(chunk, r.panels_a_chunk)
    sums = panel_size(b, r, shape)
    begin = b.mul(b.add(b.mul(part, r.panels), first), sums)
    one = number(1)
    lie = [b.icmp_signed("==", step, one) for step in (r.source_g, r.coarse_g, r.depth, r.rows)]
    direct = b.icmp_signed(">=", r.groups, number(shape.lanes))
    for each in lie:
        direct = b.and_(direct, each)
    return _Place(
        scratch=scratch,
        sums=place(b, r.pointer_to("common", pointer), begin),
        tables=Tables(points, outer, table),
        first=first,
        panels=smaller(b, b.sub(r.panels, first), r.panels_a_chunk),
        panel_sums=sums,
        direct=direct,
        stored=STORED[shape.dtype].as_pointer(),
    )


def _note_extents(b: ir.IRBuilder, r: Record, block: Block) -> ir.Value:
    """Note the block's points on outer axes; return how many lines there are."""
    with counted(b, r.outer, [number(1)]) as axis:
        start = load(b, block.starts, axis.index)
        extent = b.sub(load(b, block.stops, axis.index), start)
        store(b, start, block.lows, axis.index)
        store(b, extent, block.extents, axis.index)
        axis.carried = [b.mul(axis.carried[0], extent)]
    return axis.carried[0]


def _packing(
    r: Record, where: _Place, name: str, numbers: tuple[ir.Value, ir.Value]
) -> list[ir.Value]:
    """Return the numbers that packing some points of a side takes."""
    count, channels = numbers
    packing = Packing(
        before=number(0),
        count=count,
        after=number(0),
        groups=r.groups,
        first=where.first,
        panels=where.panels,
        depth=channels,
        width=r.width,
        g_step=getattr(r, f"{name}_g"),
        c_step=getattr(r, f"{name}_c"),
        x_step=getattr(r, f"{name}_x"),
    )
    return packing.values()


def _pack_fine(b: ir.IRBuilder, r: Record, pack: ir.Function, block: Block, where: _Place) -> None:
    """Pack what exists of the region that the block meets."""
    lines = emit_region_extents(b, r, block)
    first = b.add(b.mul(block.start, r.step_in), r.low_in)
    points = b.sub(b.sub(block.stop, block.start), number(1))
    end = smaller(b, b.add(first, b.add(b.mul(points, r.step_in), r.span)), r.size_in)
    begin = larger(b, first, number(0))
    count = larger(b, b.sub(end, begin), number(0))
    source = r.pointer_to("source", where.stored)
    skipped = b.mul(b.sub(begin, first), b.mul(r.depth, r.width))
    with counted(b, lines) as line:
        target, read, valid = emit_region_line(b, r, block, line.index)
        with b.if_then(valid):
            offset = b.add(read, b.mul(begin, r.source_x))
            ends = [place(b, where.scratch, b.add(target, skipped)), place(b, source, offset)]
            b.call(pack, [*ends, *_packing(r, where, "source", (count, r.depth))])


def _pack_coarse(  # noqa: PLR0913 - where from, where to, and by what
    b: ir.IRBuilder,
    r: Record,
    pack: ir.Function,
    block: Block,
    where: _Place,
    lines: ir.Value,
) -> None:
    """Pack the coarse points of the block."""
    length = b.sub(block.stop, block.start)
    source = r.pointer_to("coarse", where.stored)
    target = place(b, where.scratch, r.scratch_coarse)
    with counted(b, lines) as line:
        packed = _line_offset(b, r, block, line.index, r.coarse_pitches)
        origin = _block_offset(b, r, block.starts, r.coarse_pitches)
        read = b.add(
            _line_offset(b, r, block, line.index, r.coarse_steps),
            b.mul(block.start, r.coarse_x),
        )
        ends = [place(b, target, b.sub(packed, origin)), place(b, source, read)]
        b.call(pack, [*ends, *_packing(r, where, "coarse", (length, r.rows))])


def _line_offset(
    b: ir.IRBuilder, r: Record, block: Block, line: ir.Value, steps: ir.Value
) -> ir.Value:
    """Return where a line of the block begins, by the steps of its outer axes."""
    with counted(b, r.outer, [line, number(0)]) as axis:
        d = b.sub(b.sub(r.outer, number(1)), axis.index)
        rest, offset = axis.carried
        extent = load(b, block.extents, d)
        point = b.add(b.srem(rest, extent), load(b, block.starts, d))
        axis.carried = [b.sdiv(rest, extent), b.add(offset, b.mul(point, load(b, steps, d)))]
    return axis.carried[1]


def _block_offset(b: ir.IRBuilder, r: Record, starts: ir.Value, steps: ir.Value) -> ir.Value:
    """Return how far a place on the outer axes is from their zero points."""
    with counted(b, r.outer, [number(0)]) as axis:
        moved = b.mul(load(b, starts, axis.index), load(b, steps, axis.index))
        axis.carried = [b.add(axis.carried[0], moved)]
    return axis.carried[0]


def _sides(b: ir.IRBuilder, r: Record, block: Block, where: _Place) -> tuple[_Side, _Side]:
    """Return the fine and the coarse side: the arrays, or what is packed of them."""
    with counted(b, r.outer, [number(0)]) as axis:
        d = axis.index
        begin = b.mul(load(b, block.starts, d), r.at("steps_in", d))
        origin = b.add(begin, r.at("lows_in", d))
        axis.carried = [b.add(axis.carried[0], b.mul(origin, r.at("pitches", d)))]
    point = b.mul(r.depth, r.width)
    first = b.add(b.mul(block.start, r.step_in), r.low_in)
    moved = b.neg(b.add(axis.carried[0], b.mul(first, point)))
    direct = where.direct
    fine = _Side(
        _either(b, direct, r.pointer_to("source", where.stored), place(b, where.scratch, moved)),
        _either(b, direct, r.source_steps, r.pitches),
        _either(b, direct, r.source_x, point),
        _either(b, direct, r.source_c, r.width),
    )
    point = b.mul(r.rows, r.width)
    origin = b.add(_block_offset(b, r, block.starts, r.coarse_pitches), b.mul(block.start, point))
    packed = place(b, where.scratch, b.sub(r.scratch_coarse, origin))
    coarse = _Side(
        _either(b, direct, r.pointer_to("coarse", where.stored), packed),
        _either(b, direct, r.coarse_steps, r.coarse_pitches),
        _either(b, direct, r.coarse_x, point),
        _either(b, direct, r.coarse_c, r.width),
    )
    return fine, coarse


def _either(b: ir.IRBuilder, direct: ir.Value, there: ir.Value, packed: ir.Value) -> ir.Value:
    """Return what holds for the arrays or for what is packed, which may be of another type."""
    if isinstance(direct, ir.Constant):
        return there if direct.constant else packed
    return b.select(direct, there, packed)


def _run_line(  # noqa: PLR0913 - which line of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    tally: ir.Function,
    where: _Place,
    block: Block,
    sides: tuple[_Side, _Side, ir.Value, ir.Value],
) -> None:
    """Add a line's products: neighbouring points that meet the same taps together."""
    fine, coarse, line, outer = sides
    taps, offsets = r.last_count, r.last_offsets
    with advancing(b, block.start, block.stop) as run:
        begin = b.mul(run.index, r.step_in)
        met, length = same_taps(b, r, offsets, taps, begin)
        points = smaller(b, length, b.sub(block.stop, run.index))
        enough = b.icmp_signed(">=", points, number(ROWS))
        kind = r.last_kind
        fast = b.and_(b.icmp_signed("!=", kind, number(0)), enough)
        fast = b.and_(fast, b.icmp_signed("==", met, taps))
        # What is left of whole rows is a run of its own.
        points = b.select(fast, b.and_(points, number(-ROWS)), points)
        piece = b.select(fast, r.last_piece, number(1))
        some = taps, outer, begin, piece, fine.x_step, shape.lanes
        segments = fill_segments(b, r, where.tables, offsets, some)
        mine = place(b, line, b.mul(run.index, coarse.x_step))
        numbers = b.select(fast, kind, number(0)), segments, points
        with b.if_then(b.icmp_signed(">", segments, number(0)), likely=True):
            _run_points(b, r, shape, tally, where, (fine, coarse, mine), numbers)
        run.following = b.add(run.index, points)


def _run_points(  # noqa: PLR0913 - which points of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    tally: ir.Function,
    where: _Place,
    sides: tuple[_Side, _Side, ir.Value],
    numbers: tuple[ir.Value, ir.Value, ir.Value],
) -> None:
    """Add the products of points that meet the same taps, for every panel and channel."""
    kind, segments, points = numbers
    fine, coarse, mine = sides
    lanes = number(shape.lanes)
    # In place, the last panel may begin among the groups of the one before.
    ends = b.icmp_signed("==", b.add(where.first, where.panels), r.panels)
    shifted = b.icmp_signed("!=", b.srem(r.groups, lanes), number(0))
    apart = b.zext(b.and_(b.and_(ends, shifted), where.direct), I64)
    whole = b.sub(where.panels, apart)
    many = b.icmp_signed(">=", where.panels, number(MANY_PANELS))
    asks = b.mul(b.zext(b.and_(many, where.direct), I64), r.far)
    with counted(b, r.rows) as c, counted(b, r.depth) as f:
        pair = b.add(b.mul(c.index, r.depth), f.index)
        sums = place(b, where.sums, b.mul(b.mul(pair, r.taps), lanes))
        for panel, count in ((number(0), whole), (whole, apart)):
            group = first_group(b, shape, r.groups, b.add(where.first, panel))
            lane = _either(b, where.direct, group, b.mul(panel, lanes))
            some = Tally(
                sums=place(b, sums, b.mul(panel, where.panel_sums)),
                coarse=place(b, mine, b.add(lane, b.mul(c.index, coarse.c_step))),
                fine=place(b, fine.begin, b.add(lane, b.mul(f.index, fine.c_step))),
                table=where.tables.segments,
                segments=segments,
                coarse_step=coarse.x_step,
                in_step=b.mul(r.step_in, fine.x_step),
                tap_step=tap_step(b, r.last_offsets, r.last_count, fine.x_step),
                sums_step=where.panel_sums,
                count=points,
                panels=count,
                asks=asks,
            )
            with b.if_then(b.icmp_signed(">", count, number(0))):
                b.call(tally, [kind, *some.values()])
