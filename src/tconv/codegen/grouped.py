"""Grouped layers: every lane of a vector is a group, so no vector is half empty."""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import (
    MOST_AXES,
    Block,
    KernelShape,
    Record,
    emit_block,
    emit_line_offset,
    emit_region_extents,
    emit_region_line,
)
from tconv.codegen.build import (
    FLOATS,
    I64,
    advancing,
    counted,
    function,
    larger,
    load,
    number,
    place,
    smaller,
)
from tconv.codegen.gather import settle_phase, target_line
from tconv.codegen.meetings import FAR, Tables, fill_outer, fill_segments, same_taps, tap_step
from tconv.codegen.panels import Packing, emit_pack_groups, emit_store_groups, first_group
from tconv.codegen.sweep import Sweep, emit_sweep
from tconv.plan.grouped import ARRAYS, FIELDS, ROWS


@dataclass(frozen=True, slots=True)
class _Parts:
    sweep: ir.Function
    pack: ir.Function
    store: ir.Function


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a work item finds and puts things."""

    region: ir.Value
    sums: ir.Value
    tables: Tables
    first: ir.Value  # panel
    panels: ir.Value  # of this item
    source: ir.Value
    target: ir.Value
    weights: ir.Value
    bias: ir.Value


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of one phase of the outer axes."""

    phase: ir.Value
    index: ir.Value
    target: ir.Value  # where it is stored


def emit_grouped(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``grouped(record, scratch, item)``, public."""
    pointer = FLOATS[shape.dtype].as_pointer()
    parts = _Parts(
        emit_sweep(module, shape), emit_pack_groups(module, shape), emit_store_groups(module, shape)
    )
    made, b = function(
        module, f"grouped_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    chunk, rest = b.srem(item, r.chunks), b.sdiv(item, r.chunks)
    block, _ = emit_block(b, r, rest, begins=True)
    where = _find(b, r, shape, scratch, chunk)
    lie = [b.icmp_signed("==", step, number(1)) for step in (r.source_g, r.target_g, r.depth)]
    direct = b.and_(lie[0], b.and_(lie[1], lie[2]))
    with b.if_then(b.not_(direct)):
        _pack_region(b, r, parts.pack, block, where)
    with counted(b, r.outer_phases) as phase:
        lines = settle_phase(b, r, block, phase.index)
        with counted(b, lines) as index:
            written = target_line(b, r, block, index.index, (phase.index, number(0)))
            line = _Line(phase.index, index.index, place(b, where.target, written))
            with b.if_else(direct) as (in_place, packed):
                with in_place:
                    _run_direct(b, r, shape, parts, block, where, line)
                with packed:
                    _run_staged(b, r, shape, parts, block, where, line)
    b.ret_void()
    return made


def _find(
    b: ir.IRBuilder, r: Record, shape: KernelShape, scratch: ir.Value, chunk: ir.Value
) -> _Place:
    pointer = FLOATS[shape.dtype].as_pointer()
    first = b.mul(chunk, r.panels_a_chunk)
    with b.goto_entry_block():
        points = b.alloca(I64, number(MOST_AXES))
    outer, table = (
        b.bitcast(place(b, scratch, where), I64.as_pointer())
        for where in (r.scratch_outer, r.scratch_table)
    )
    biases = b.mul(r.columns, number(shape.lanes))
    return _Place(
        region=scratch,
        sums=place(b, scratch, r.scratch_sums),
        tables=Tables(points, outer, table),
        first=first,
        panels=smaller(b, b.sub(r.panels, first), r.panels_a_chunk),
        source=r.pointer_to("source", pointer),
        target=r.pointer_to("target", pointer),
        weights=place(b, r.pointer_to("weights", pointer), b.mul(first, r.panel_weights)),
        bias=place(b, r.pointer_to("bias", pointer), b.mul(first, biases)),
    )


def _pack_region(
    b: ir.IRBuilder, r: Record, pack: ir.Function, block: Block, where: _Place
) -> None:
    """Pack all that the block reads, panel by panel, zeros outside of the source."""
    lines = emit_region_extents(b, r, block)
    first = b.add(b.mul(block.start, r.step_in), r.low_in)
    points = b.sub(b.sub(block.stop, block.start), number(1))
    length = b.add(b.mul(points, r.step_in), r.span)
    before = smaller(b, larger(b, b.neg(first), number(0)), length)
    left = b.sub(length, before)
    inside = larger(b, smaller(b, b.sub(b.sub(r.size_in, first), before), left), number(0))
    with counted(b, lines) as line:
        target, read, valid = emit_region_line(b, r, block, line.index)
        head = b.select(valid, before, length)
        body = b.select(valid, inside, number(0))
        tail = b.sub(b.sub(length, head), body)
        origin = b.add(read, b.mul(b.add(first, head), r.source_x))
        offset = b.select(valid, origin, number(0))
        packing = Packing(
            before=head,
            count=body,
            after=tail,
            groups=r.groups,
            first=where.first,
            panels=where.panels,
            depth=r.depth,
            width=r.width,
            g_step=r.source_g,
            c_step=r.source_c,
            x_step=r.source_x,
        )
        ends = [place(b, where.region, target), place(b, where.source, offset)]
        b.call(pack, [*ends, *packing.values()])


@dataclass(frozen=True, slots=True)
class _Phase:
    """One phase of the last axis: its points in the block, its kernel and its weights."""

    both: ir.Value  # its number among the phases of all axes
    low: ir.Value
    count: ir.Value
    kind: ir.Value
    taps: ir.Value  # of the last axis
    offsets: ir.Value
    weights: ir.Value
    column_weights: ir.Value  # elements from one written channel to the next


def _phase(  # noqa: PLR0913 - which phase of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    block: Block,
    where: _Place,
    numbers: tuple[ir.Value, ir.Value],
) -> _Phase:
    phase, x = numbers
    low = larger(b, block.start, r.at("last_low", x))
    high = smaller(b, block.stop, r.at("last_high", x))
    both = b.add(b.mul(phase, r.phases), x)
    taps = r.at("last_count", x)
    weights = b.mul(b.mul(r.at("outer_count", phase), taps), r.depth)
    return _Phase(
        both,
        low,
        larger(b, b.sub(high, low), number(0)),
        r.at("last_kind", x),
        taps,
        place(b, r.last_offsets, r.at("last_start", x)),
        place(b, where.weights, r.at("phase_weights", both)),
        b.mul(weights, number(shape.lanes)),
    )


def _run_staged(  # noqa: PLR0913 - which line of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    block: Block,
    where: _Place,
    line: _Line,
) -> None:
    """Sum a line of some panels in scratch, all phases side by side, then store it."""
    lanes = number(shape.lanes)
    pitch = b.mul(r.stage, lanes)
    point, packed = b.mul(r.columns, pitch), b.mul(r.depth, r.width)
    biases = b.mul(r.columns, lanes)
    begin_data = place(b, where.region, emit_line_offset(b, r, block, line.index))
    origin = b.add(b.mul(block.start, r.step_out), r.shift_out)
    begin = larger(b, b.neg(origin), number(0))
    whole = b.mul(b.sub(block.stop, block.start), r.step_out)
    length = b.sub(smaller(b, whole, b.sub(r.size_out, origin)), begin)
    with advancing(b, number(0), where.panels) as panel:
        moved = b.mul(panel.index, r.panel_weights)
        bias = place(b, where.bias, b.mul(panel.index, biases))
        panels = smaller(b, b.sub(where.panels, panel.index), r.stage)
        with counted(b, r.phases) as x, counted(b, r.columns) as column:
            phase = _phase(b, r, shape, block, where, (line.phase, x.index))
            low = b.sub(phase.low, block.start)
            in_step = b.mul(r.step_in, packed)
            read = b.add(b.mul(low, in_step), b.mul(panel.index, lanes))
            put = b.mul(b.add(b.mul(low, r.step_out), x.index), point)
            taken = b.add(moved, b.mul(column.index, phase.column_weights))
            # Fast kernels sum some points more than there may be; these are never stored.
            fewest = b.select(b.icmp_signed("==", phase.kind, number(0)), number(0), number(ROWS))
            sweep = Sweep(
                out=place(b, where.sums, b.add(put, b.mul(column.index, pitch))),
                data=place(b, begin_data, read),
                weights=place(b, phase.weights, taken),
                start=place(b, bias, b.mul(column.index, lanes)),
                table=place(b, r.table, r.at("phase_start", phase.both)),
                segments=r.at("phase_segments", phase.both),
                in_step=in_step,
                tap_step=tap_step(b, phase.offsets, phase.taps, packed),
                out_step=b.mul(r.step_out, point),
                start_step=number(0),
                start_panel=biases,
                weights_step=r.panel_weights,
                ahead=number(0),
                ahead_step=number(0),
                count=larger(b, phase.count, fewest),
                panels=panels,
            )
            with b.if_then(b.icmp_signed(">", phase.count, number(0)), likely=True):
                b.call(parts.sweep, [phase.kind, *sweep.values()])
        moved = b.mul(b.add(origin, begin), r.target_x)
        sums = place(b, where.sums, b.mul(begin, point))
        with counted(b, panels) as one:
            group = first_group(
                b, shape, r.groups, b.add(b.add(where.first, panel.index), one.index)
            )
            target = place(b, line.target, b.add(moved, b.mul(group, r.target_g)))
            mine = place(b, sums, b.mul(one.index, lanes))
            steps = [r.target_g, r.target_c, r.target_x]
            b.call(parts.store, [target, mine, length, r.columns, pitch, *steps])
        panel.following = b.add(panel.index, r.stage)


def _run_direct(  # noqa: PLR0913 - which line of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    block: Block,
    where: _Place,
    line: _Line,
) -> None:
    """Sum a line from the source to the target, where groups lie side by side in both.

    Neighbouring points that meet the same taps are summed together; a tap that falls outside
    of the source is left out.
    """
    offsets = place(b, r.outer_offsets, r.at("outer_start", line.phase))
    numbers = line.index, offsets, r.at("outer_count", line.phase), r.source_steps
    outer = fill_outer(b, r, block, where.tables, numbers)
    with counted(b, r.phases) as x:
        phase = _phase(b, r, shape, block, where, (line.phase, x.index))
        high = b.add(phase.low, phase.count)
        with advancing(b, phase.low, high) as run:
            run.following = _run_same(
                b, r, shape, parts, where, (line, phase, x.index), (run.index, high, outer)
            )


def _run_same(  # noqa: PLR0913 - which points of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    where: _Place,
    which: tuple[_Line, _Phase, ir.Value],
    numbers: tuple[ir.Value, ir.Value, ir.Value],
) -> ir.Value:
    """Sum the next points that meet the same taps; return the point behind them."""
    line, phase, x = which
    point, high, outer = numbers
    begin = b.mul(point, r.step_in)
    met, length = same_taps(b, r, phase.offsets, phase.taps, begin)
    points = smaller(b, length, b.sub(high, point))
    enough = b.icmp_signed(">=", points, number(ROWS))
    fast = b.and_(b.icmp_signed("==", met, phase.taps), enough)
    piece = b.select(fast, r.at("last_piece", x), number(1))
    # In several turns no tile may lie over another: what is left is a run of its own.
    several = b.icmp_signed(">", b.mul(outer, phase.taps), b.mul(r.segments_a_turn, piece))
    apart = b.and_(fast, several)
    points = b.select(apart, b.and_(points, number(-ROWS)), points)
    a_turn = b.select(fast, r.segments_a_turn, number(FAR))
    kind = b.select(fast, phase.kind, number(0))
    some = phase.taps, outer, begin, piece, r.source_x, shape.lanes
    segments = fill_segments(b, r, where.tables, phase.offsets, some)
    coordinate = b.add(b.add(b.mul(point, r.step_out), r.shift_out), x)
    out = place(b, line.target, b.mul(coordinate, r.target_x))
    _run_points(b, r, shape, parts, where, phase, (kind, out, segments, points, a_turn))
    return b.add(point, points)


def _run_points(  # noqa: PLR0913 - which points of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    where: _Place,
    phase: _Phase,
    numbers: tuple[ir.Value, ir.Value, ir.Value, ir.Value, ir.Value],
) -> None:
    """Sum points that meet the same taps, for every panel."""
    kind, out, segments, points, a_turn = numbers
    lanes = number(shape.lanes)
    biases = b.mul(r.columns, lanes)
    # What the next line reads behind this one's last segment; where more is written than read
    # asking for it costs more than it saves.
    above = b.sub(r.outer, number(1))
    row = r.at("source_steps", above)
    last = b.mul(larger(b, b.sub(segments, number(1)), number(0)), number(2))
    ahead = b.add(load(b, where.tables.segments, last), b.mul(r.at("steps_in", above), row))
    ahead = b.select(b.icmp_signed("==", r.step_out, number(1)), ahead, number(0))
    # The last panel may begin among the groups of the one before.
    ends = b.icmp_signed("==", b.add(where.first, where.panels), r.panels)
    shifted = b.icmp_signed("!=", b.srem(r.groups, lanes), number(0))
    apart = b.zext(b.and_(ends, shifted), I64)
    whole = b.sub(where.panels, apart)
    with counted(b, r.columns) as column:
        written = place(b, out, b.mul(column.index, r.target_c))
        weights = place(b, phase.weights, b.mul(column.index, phase.column_weights))
        bias = place(b, where.bias, b.mul(column.index, lanes))
        for panel, count in ((number(0), whole), (whole, apart)):
            group = first_group(b, shape, r.groups, b.add(where.first, panel))
            target = place(b, written, group)
            out_step = b.mul(r.step_out, r.target_x)
            # All that the segments of a turn read stays in the first cache.
            turns = b.select(
                b.icmp_signed(">", count, number(0)), larger(b, segments, number(1)), number(0)
            )
            with advancing(b, number(0), turns) as turn:
                first = b.icmp_signed("==", turn.index, number(0))
                begun = place(b, bias, b.mul(panel, biases))
                sweep = Sweep(
                    out=target,
                    data=place(b, where.source, group),
                    weights=place(b, weights, b.mul(panel, r.panel_weights)),
                    start=b.select(first, begun, target),
                    table=place(b, where.tables.segments, b.mul(turn.index, number(2))),
                    segments=smaller(b, b.sub(segments, turn.index), a_turn),
                    in_step=b.mul(r.step_in, r.source_x),
                    tap_step=tap_step(b, phase.offsets, phase.taps, r.source_x),
                    out_step=out_step,
                    start_step=b.select(first, number(0), out_step),
                    start_panel=b.select(first, biases, lanes),
                    weights_step=r.panel_weights,
                    ahead=ahead,
                    ahead_step=row,
                    count=points,
                    panels=count,
                )
                b.call(parts.sweep, [kind, *sweep.values()])
                turn.following = b.add(turn.index, a_turn)
