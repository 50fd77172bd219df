"""Grouped layers: every lane of a vector is a group, so no vector is half empty."""

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
from tconv.codegen.block_lines import each_line, line_ends, reads, stores
from tconv.codegen.build import (
    FLOATS,
    I64,
    STORED,
    advancing,
    counted,
    function,
    larger,
    number,
    place,
    smaller,
)
from tconv.codegen.grouped_direct import Line, Place, run_direct
from tconv.codegen.meetings import Tables
from tconv.codegen.panels import Packing, emit_pack_groups, emit_store_groups, first_group
from tconv.codegen.points import settle_phase
from tconv.codegen.sweep import sweep_arguments
from tconv.codegen.sweep_record import SWEEP_NUMBERS, Sweep, find_sweep, whole_lines
from tconv.plan.grouped import ARRAYS, FIELDS, MEETING, PAIRED
from tconv.plan.stretches import ROWS


@dataclass(frozen=True, slots=True)
class _Parts:
    pack: ir.Function
    store: ir.Function


def emit_grouped(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``grouped(record, scratch, item)``, public."""
    pointer = FLOATS[shape.dtype].as_pointer()
    parts = _Parts(emit_pack_groups(module, shape), emit_store_groups(module, shape))
    made, b = function(
        module, f"grouped_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    chunk, rest = b.srem(item, r.chunks), b.sdiv(item, r.chunks)
    block, _ = emit_block(b, r, rest, begins=True)
    direct = b.icmp_signed(">", r.stretches, number(0))
    direct = b.and_(direct, b.icmp_signed(">=", r.groups, number(shape.lanes)))
    for step in (r.source_g, r.target_g, r.depth):
        direct = b.and_(direct, b.icmp_signed("==", step, number(1)))
    where = _find(b, r, shape, scratch, (chunk, direct))
    with b.if_then(b.not_(direct)):
        _pack_region(b, r, shape, parts.pack, block, where)
    with counted(b, r.outer_phases) as phase:
        lines = settle_phase(b, r, block, phase.index)
        walks = reads(b, r, block), stores(b, r, block, phase.index)
        b.store(number(0), where.done)
        with each_line(b, r, block, lines, *walks) as (index, (read, written)):
            line = Line(phase.index, index, read, place(b, where.target, written))
            with b.if_else(direct) as (in_place, packed):
                with in_place:
                    run_direct(b, r, shape, block, (where, line))
                with packed:
                    _run_packed(b, r, shape, parts, block, where, line)
    with b.if_then(b.icmp_signed("!=", r.stream, number(0))):
        b.fence("seq_cst")  # others may read results when this work item is done
    b.ret_void()
    return made


def _find(
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    scratch: ir.Value,
    which: tuple[ir.Value, ir.Value],
) -> Place:
    """Return where a work item finds things: by its chunk, and whether it works in place."""
    chunk, direct = which
    pointer = FLOATS[shape.dtype].as_pointer()
    first = b.mul(chunk, r.panels_a_chunk)
    taken = first
    if shape.dtype == PAIRED:
        taken = b.add(first, b.select(direct, r.panels, number(0)))
    with b.goto_entry_block():
        points = b.alloca(I64, number(MOST_AXES))
        common, column = (b.alloca(I64, number(SWEEP_NUMBERS)) for _ in range(2))
        done = b.alloca(I64)
    stored = STORED[shape.dtype].as_pointer()
    outer = b.bitcast(place(b, scratch, r.scratch_outer), I64.as_pointer())
    biases = b.mul(r.columns, number(shape.lanes))
    return Place(
        region=scratch,
        sums=place(b, scratch, r.scratch_sums),
        tables=Tables(points, outer, outer),
        common=common,
        column=column,
        done=done,
        first=first,
        panels=smaller(b, b.sub(r.panels, first), r.panels_a_chunk),
        source=r.pointer_to("source", stored),
        target=r.pointer_to("target", stored),
        weights=place(b, r.pointer_to("weights", pointer), b.mul(taken, r.panel_weights)),
        bias=place(b, r.pointer_to("bias", pointer), b.mul(taken, biases)),
    )


def _pack_region(  # noqa: PLR0913 - where from, where to, and by what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    pack: ir.Function,
    block: Block,
    where: Place,
) -> None:
    """Pack all that the block reads, zeros outside of the source.

    Where groups lie further apart than a line is long, panel after panel: lines of few groups
    are then read one after the other, which machines foresee.
    """
    lines = emit_region_extents(b, r, block)
    first = b.add(b.mul(block.start, r.step_in), r.low_in)
    points = b.sub(b.sub(block.stop, block.start), number(1))
    length = b.add(b.mul(points, r.step_in), r.span)
    before = smaller(b, larger(b, b.neg(first), number(0)), length)
    left = b.sub(length, before)
    inside = larger(b, smaller(b, b.sub(b.sub(r.size_in, first), before), left), number(0))
    together = b.icmp_signed("<=", r.source_g, b.mul(r.size_in, r.source_x))
    panels = b.select(together, where.panels, number(1))
    with (
        counted(b, b.select(together, number(1), where.panels)) as turn,
        counted(b, lines) as line,
    ):
        target, read, valid = emit_region_line(b, r, block, line.index)
        head = b.select(valid, before, length)
        body = b.select(valid, inside, number(0))
        tail = b.sub(b.sub(length, head), body)
        origin = b.add(read, b.mul(b.add(first, head), r.source_x))
        offset = b.select(valid, origin, number(0))
        # The first turn fills in the zeros of all panels.
        begins = b.icmp_signed("==", turn.index, number(0))
        done = b.mul(b.select(begins, number(0), head), b.mul(r.depth, r.width))
        target = b.add(b.add(target, done), b.mul(turn.index, number(shape.lanes)))
        packing = Packing(
            before=b.select(begins, head, number(0)),
            count=body,
            after=b.select(begins, tail, number(0)),
            groups=r.groups,
            first=b.add(where.first, turn.index),
            panels=panels,
            depth=r.depth,
            width=r.width,
            g_step=r.source_g,
            c_step=r.source_c,
            x_step=r.source_x,
        )
        ends = [place(b, where.region, target), place(b, where.source, offset)]
        b.call(pack, [*ends, *packing.values()])


@dataclass(frozen=True, slots=True)
class _Packed:
    """A packed line: its data, where it is written, and what its sums have in common."""

    data: ir.Value
    line: Line
    begin: ir.Value  # of all places of the block, the first that is written
    first_place: ir.Value  # in the target
    length: ir.Value
    rows: ir.Value  # of taps
    unrolled: ir.Value  # as many, where kernels unroll them
    common: Sweep  # as if it were written straight to the target


def _run_packed(  # noqa: PLR0913 - which line of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    block: Block,
    where: Place,
    line: Line,
) -> None:
    """Sum a packed line: straight to the result where it can be written there."""
    lanes = number(shape.lanes)
    packed = b.mul(r.depth, r.width)
    begin, first_place, length = line_ends(b, r, block)
    rows = b.mul(r.at("outer_count", line.phase), r.depth)
    common = Sweep(
        weights=where.weights,
        shifts=place(b, r.phase_weights, b.mul(line.phase, r.phases)),
        start=where.bias,
        table=place(b, r.table, r.at("row_start", line.phase)),
        rows=rows,
        in_x=packed,
        out_x=r.target_x,
        in_step=b.mul(r.step_in, packed),
        out_step=b.mul(r.step_out, r.target_x),
        tap_step=b.mul(r.apart, packed),
        apart=b.sdiv(r.apart, r.step_in),
        start_step=b.mul(r.columns, lanes),
        weights_step=r.panel_weights,
        rows_before=number(0),
        back=number(0),
        ahead=number(0),
        ahead_step=number(0),
        ahead_rows=number(0),
        ahead_points=number(0),
        ahead_panel=number(0),
        stream=number(0),
        out_ahead=number(0),
        panels=where.panels,
        activate=r.activate,
        slope=r.slope,
        zeros=r.pointer_to("zeros", where.bias.type),
    )
    found = _Packed(
        data=place(b, where.region, line.packed),
        line=line,
        begin=begin,
        first_place=first_place,
        length=length,
        rows=rows,
        unrolled=whole_lines(b, rows, rows),
        common=common,
    )
    straight = b.icmp_signed("!=", r.straight, number(0))
    with b.if_else(straight) as (straightly, staged):
        with straightly:
            common.keep(b, where.common)
            origin = b.add(b.mul(block.start, r.step_out), r.shift_out)
            moved = b.mul(origin, r.target_x)
            out = place(b, line.target, b.add(moved, b.mul(where.first, lanes)))
            _sum_phases(b, r, shape, block, (where, found, common), (found.data, out))
        with staged:
            _run_staged(b, r, shape, parts, block, where, found)


def _run_staged(  # noqa: PLR0913 - which line of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    block: Block,
    where: Place,
    packed: _Packed,
) -> None:
    """Sum a line of some panels in scratch, all phases side by side, then store it."""
    lanes, line = number(shape.lanes), packed.line
    pitch = b.mul(r.stage, lanes)
    point = b.mul(r.columns, pitch)
    common = replace(packed.common, out_x=point, out_step=b.mul(r.step_out, point))
    with advancing(b, number(0), where.panels) as panel:
        panels = smaller(b, b.sub(where.panels, panel.index), r.stage)
        weights = place(b, where.weights, b.mul(panel.index, r.panel_weights))
        bias = place(b, where.bias, b.mul(panel.index, common.start_step))
        data = place(b, packed.data, b.mul(panel.index, lanes))
        with counted(b, r.columns) as column:
            replace(
                common,
                weights=weights,
                start=place(b, bias, b.mul(column.index, lanes)),
                rows_before=b.mul(column.index, packed.rows),
                panels=panels,
            ).keep(b, where.common)
            out = place(b, where.sums, b.mul(column.index, pitch))
            _sum_phases(b, r, shape, block, (where, packed, common), (data, out))
        moved = b.mul(packed.first_place, r.target_x)
        sums = place(b, where.sums, b.mul(packed.begin, point))
        with counted(b, panels) as one:
            group = first_group(
                b, shape, r.groups, b.add(b.add(where.first, panel.index), one.index)
            )
            target = place(b, line.target, b.add(moved, b.mul(group, r.target_g)))
            mine = place(b, sums, b.mul(one.index, lanes))
            steps = [r.target_g, r.target_c, r.target_x]
            b.call(parts.store, [target, mine, r.groups, packed.length, r.columns, pitch, *steps])
        panel.following = b.add(panel.index, r.stage)


def _sum_phases(  # noqa: PLR0913 - which line of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    block: Block,
    which: tuple[Place, _Packed, Sweep],
    ends: tuple[ir.Value, ir.Value],
) -> None:
    """Sum a packed line in all phases of the last axis."""
    where, packed, common = which
    data, out = ends
    sums = FLOATS[shape.dtype].as_pointer()
    arguments = sweep_arguments(shape, reads_stored=False, writes_stored=out.type != sums)
    with counted(b, r.phases) as x:
        lowest = larger(b, block.start, r.at("last_low", x.index))
        highest = smaller(b, block.stop, r.at("last_high", x.index))
        low, count = b.sub(lowest, block.start), b.sub(highest, lowest)
        kind = r.at("last_kind", x.index)
        # Fast kernels sum some points more than there may be; these are never stored.  Lines that
        # are written straight have enough of them.
        fewest = b.select(b.icmp_signed("==", kind, number(0)), number(0), number(ROWS))
        points = [
            place(b, data, b.mul(low, common.in_step)),
            place(b, out, b.mul(low, common.out_step)),
        ]
        meeting = place(b, r.packed_meetings, b.mul(x.index, number(len(MEETING))))
        numbers = [where.common, meeting, number(1), *points, larger(b, count, fewest)]
        with b.if_then(b.icmp_signed(">", count, number(0)), likely=True):
            b.call(find_sweep(b, r, kind, packed.unrolled, arguments), numbers)
