"""Gathers: blocks of points, every phase of them, panel by panel.

One work item packs the region that a block of points reads, then runs register tiles over
the block's points for each panel of channels, and stores the panel.  What a number means is
said in :mod:`tconv.plan.gather`, which fills the record in.
"""

from dataclasses import replace
from functools import partial, reduce

from llvmlite import ir

from tconv.codegen.activation import activated
from tconv.codegen.blank import emit_fill_lines, fill_lines, fill_points, is_blank
from tconv.codegen.block import (
    Block,
    KernelShape,
    Record,
    emit_block,
    emit_box,
    touch_region,
)
from tconv.codegen.block_lines import each_line, line_ends, stores
from tconv.codegen.build import (
    FLOATS,
    I1,
    I64,
    STORED,
    STORED_BYTES,
    advancing,
    counted,
    function,
    load,
    number,
    place,
    smaller,
)
from tconv.codegen.dots import emit_dots, run_dots
from tconv.codegen.parts import Kinds, Parts, emit_parts
from tconv.codegen.places import Place, find_place, of_group, read_in_place
from tconv.codegen.points import fill_tables, settle_phase
from tconv.codegen.ragged import find_ragged
from tconv.codegen.rows import zero_fill
from tconv.codegen.short_runs import Short, along_lines, emit_short, run_short, sum_short
from tconv.codegen.sorted_points import fill_sorted
from tconv.codegen.sums import emit_sums, find_data, sums_direct
from tconv.plan.gather import ARRAYS, FIELDS


def emit_gather(module: ir.Module, shape: KernelShape, kinds: Kinds = Kinds()) -> ir.Function:  # noqa: B008 - frozen
    """Emit ``gather(record, scratch, item)``, public, with some kinds of tiles."""
    pointer = FLOATS[shape.dtype].as_pointer()
    parts = emit_parts(module, shape, kinds)
    short = emit_short(module, shape, past=kinds.past) if kinds.few else None
    dots = emit_dots(module, shape, kinds.dots) if kinds.dots else None
    fill = None if dots else emit_fill_lines(module, shape)
    made, b = function(
        module, f"gather_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    phases, rest = _some_phases(b, r, item)
    chunk, rest = b.srem(rest, r.chunks), b.sdiv(rest, r.chunks)
    mine, rest = b.srem(rest, r.groups_in_turn), b.sdiv(rest, r.groups_in_turn)
    whole, later = emit_block(b, r, rest, begins=True)
    first = b.mul(chunk, r.panels_a_chunk)
    last = smaller(b, b.add(first, r.panels_a_chunk), r.panels)
    if kinds.joined:  # the panel behind all wide ones goes with the last of them
        last = b.select(b.icmp_signed(">=", last, r.wide_panels), r.panels, last)
    if kinds.missed:
        zero_fill(b, place(b, scratch, r.scratch_nothing), r.most_depth, shape.dtype)
    boxes = b.select(b.icmp_signed("!=", r.in_place, number(0)), r.boxes, number(1))
    woven = kinds.woven is not None
    group = b.mul(b.add(b.mul(later, r.groups_in_turn), mine), r.groups_at_once)
    groups = smaller(b, b.add(group, r.groups_at_once), r.groups)
    with counted(b, boxes) as turn:
        box, some = emit_box(b, r, whole, turn.index)
        with b.if_then(some, likely=True):
            # Groups of one panel that lie side by side, and are not packed, take turns at a tile.
            fused = read_in_place(b, r, shape, box) if short is not None else ir.Constant(I1, 0)
            fused = b.and_(fused, b.icmp_signed("==", r.panels, number(1)))
            count = b.sub(groups, group)
            together = b.select(fused, count, number(1))
            every = b.and_(fused, b.icmp_signed("==", together, r.groups))
            # Woven panels take turns at the channels of all groups.
            _touch_first(b, r, shape, box, read_in_place(b, r, shape, box) if woven else every)
            with counted(b, b.select(fused, number(1), count)) as one:
                mine = b.add(group, one.index)
                data_number = b.add(b.mul(rest, r.groups), mine)
                data_number = b.add(b.mul(data_number, boxes), turn.index)
                data = find_data(b, r, shape, parts, box, (scratch, mine, data_number))
                where = find_place(b, r, shape, scratch, mine, data)
                if dots is None:
                    these = phases, first, last, together
                    _run_box(b, r, shape, (parts, short, fill), box, where, these)
                else:
                    weights = place(b, r.pointer_to("weights", pointer), b.mul(mine, r.dot_group))
                    where = replace(where, weights=weights)
                    _run_dots(b, r, shape, (dots, parts.store_row), box, (where, phases))
    with b.if_then(b.icmp_signed("!=", r.large, number(0))):
        b.fence("seq_cst")  # others may read results when this work item is done
    b.ret_void()
    return made


def _touch_first(
    b: ir.IRBuilder, r: Record, shape: KernelShape, box: Block, in_turns: ir.Value
) -> None:
    """Touch what a box reads in order, if it is read in turns and comes from afar."""
    with b.if_then(b.and_(in_turns, b.icmp_signed("!=", r.afar, number(0)))):
        source = r.pointer_to("source", STORED[shape.dtype].as_pointer())
        touch_region(b, r, box, source, STORED_BYTES[shape.dtype])


def _some_phases(
    b: ir.IRBuilder, r: Record, item: ir.Value
) -> tuple[tuple[ir.Value, ir.Value], ir.Value]:
    """Return which phases a work item takes, from and to, and which it is among others."""
    begin = b.mul(b.srem(item, r.phase_chunks), r.phases_a_chunk)
    end = smaller(b, b.add(begin, r.phases_a_chunk), r.outer_phases)
    return (begin, end), b.sdiv(item, r.phase_chunks)


def _run_dots(  # noqa: PLR0913 - which box of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    functions: tuple[dict[bool, ir.Function], ir.Function],
    block: Block,
    these: tuple[Place, tuple[ir.Value, ir.Value]],
) -> None:
    """Sum and store some phases of a block's points, of weights that are lines of the depth."""
    dots, store_row = functions
    where, (begin, end) = these
    with counted(b, end, first=begin) as phase:
        lines = settle_phase(b, r, block, phase.index)
        final = run_dots(b, r, dots, block, where, (phase.index, lines))
        with b.if_then(b.not_(final)):
            numbers = phase.index, number(0), number(0), shape.columns
            _store_panel(b, r, store_row, block, where, lines, numbers)


def _run_box(  # noqa: PLR0913 - which panels of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    functions: tuple[Parts, Short | None, ir.Function | None],
    block: Block,
    where: Place,
    these: tuple[tuple[ir.Value, ir.Value], ir.Value, ir.Value, ir.Value],
) -> None:
    """Sum and store some panels of some phases of a block's points, and of so many groups."""
    parts, short, fill = functions
    (begin, end), first, last, groups = these
    ragged = find_ragged(b, shape, r.columns)
    with counted(b, end, first=begin) as phase:
        lines = settle_phase(b, r, block, phase.index)
        reached = lines
        if fill is not None:
            blank = is_blank(b, r, phase.index)
            reached = b.select(blank, number(0), lines)
            with b.if_then(blank), counted(b, groups) as one:
                mine = of_group(b, r, shape, where, one.index)
                fill_lines(b, r, shape, fill, block, mine, (phase.index, lines, first, last))
        with b.if_then(b.icmp_signed(">", reached, number(0)), likely=True):
            both, whole = (phase.index, lines), STORED[shape.dtype] == FLOATS[shape.dtype]
            if parts.missed is not None:
                fill_sorted(b, r, parts.missed, block, where, both)
            else:
                skipped = None if short is None else partial(along_lines, b, r, shape)
                fill_tables(b, r, block, where, both, skipped)
            done = first
            if short is not None:
                panels = first, last, groups
                stored, done = run_short(b, r, shape, short, block, where, both, panels)
            if short is not None and whole:
                with counted(b, groups, first=stored) as one:
                    mine = of_group(b, r, shape, where, one.index)
                    with counted(b, last, first=done) as panel:
                        sum_short(b, r, shape, short, block, mine, both, panel.index)
                        begun = ragged.moved_of(b, panel.index)
                        numbers = phase.index, panel.index, begun, shape.columns
                        _store_panel(b, r, parts.store_row, block, mine, lines, numbers)
                return
            if short is not None:
                with b.if_then(b.icmp_signed("<", done, last)):
                    fill_tables(b, r, block, where, both)
            if fill is not None:
                fill_points(b, r, shape, fill, where, phase.index, (done, last))
            direct = partial(sums_direct, b, r, shape, parts, phase.index)
            with advancing(b, done, last) as group:
                group.following = smaller(b, b.add(group.index, r.panels_at_once), last)
                if parts.joined:
                    behind = b.icmp_signed("==", group.following, r.wide_panels)
                    group.following = b.select(behind, last, group.following)
                some = group.index, group.following
                emit_sums(b, r, shape, parts, where, phase.index, (*some, first), ragged, direct)
                with counted(b, some[1], first=some[0]) as panel:
                    sums = b.mul(b.sub(panel.index, some[0]), r.sums_panel)
                    sums = b.add(sums, ragged.moved_of(b, panel.index))
                    with b.if_then(b.not_(direct(panel.index))):
                        _store_panel(b, r, parts.store_row, block, where, lines,
                                     (phase.index, panel.index, sums, shape.columns))  # fmt: skip


def _store_panel(  # noqa: PLR0913 - which panel of what
    b: ir.IRBuilder,
    r: Record,
    store_row: ir.Function,
    block: Block,
    where: Place,
    lines: ir.Value,
    numbers: tuple[ir.Value, ir.Value, ir.Value, int],
) -> None:
    """Store the panel's lines, all phases of the last axis side by side."""
    phase, panel, begun, columns = numbers
    channel = b.mul(panel, number(columns))
    used = smaller(b, b.sub(r.columns, channel), number(columns))
    # Sums begin with the bias, in whatever layout they end.
    added = b.bitcast(r.blank, where.bias.type)
    begin, point, length = line_ends(b, r, block)
    start = b.add(b.mul(point, r.target_x), b.mul(channel, r.target_c))
    merged = _lines_that_follow(b, r, block, length)
    count = b.mul(length, merged)
    written = stores(b, r, block, phase, start)
    with each_line(b, r, block, lines, written, merged=merged) as (line, (offset,)):
        read = b.mul(b.add(b.mul(line, r.sums_pitch), begin), number(columns))
        sums = place(b, where.sums, b.add(begun, read))
        left = activated(b, r, sums, added, (count, used, number(columns)))
        steps = [r.target_x, r.target_c, number(columns)]
        b.call(store_row, [place(b, where.target, offset), sums, left, count, used, *steps])


def _lines_that_follow(b: ir.IRBuilder, r: Record, block: Block, length: ir.Value) -> ir.Value:
    """Return how many lines of a block are one long line, in sums and target: of whole pictures.

    Short lines are stored point by point, which takes longer than to sum them.
    """
    above = b.sub(r.outer, number(1))
    conditions = (
        b.icmp_signed("==", r.at("steps_out", above), number(1)),
        b.icmp_signed("==", r.at("target_steps", above), b.mul(length, r.target_x)),
        b.icmp_signed("==", r.sums_pitch, length),
    )
    return b.select(reduce(b.and_, conditions), load(b, block.extents, above), number(1))
