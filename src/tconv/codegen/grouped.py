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
    store,
)
from tconv.codegen.gather import settle_phase, target_line
from tconv.codegen.rows import zero_fill
from tconv.codegen.squares import emit_turn_in, emit_turn_out
from tconv.codegen.sweep import Sweep, emit_sweep
from tconv.plan.grouped import ARRAYS, FIELDS, ROWS

FAR = 1 << 60  # no array has so many points


def emit_pack_groups(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``pack_groups(record, target, source, first, panels, before, count, after)``.

    Writes one line, ``[point][channel][panel][lane]``: zeros, ``count`` points, zeros.
    """
    pointer = FLOATS[shape.dtype].as_pointer()
    turn = emit_turn_in(module, shape.dtype, shape.lanes)
    made, b = function(
        module, f"pack_groups_{shape.dtype}", [I64.as_pointer(), pointer, pointer, *[I64] * 5]
    )
    record, target, source, first, panels, before, count, after = made.args
    for argument in made.args[:3]:
        argument.add_attribute("noalias")
    r = Record(b, record, FIELDS, ARRAYS)
    vector = ir.VectorType(FLOATS[shape.dtype], shape.lanes)
    width, depth = r.width, r.depth
    g_step, c_step, x_step = r.source_g, r.source_c, r.source_x
    point = b.mul(depth, width)
    head, body = b.mul(before, point), b.mul(count, point)
    zero_fill(b, target, head, shape.dtype)
    zero_fill(b, place(b, target, b.add(head, body)), b.mul(after, point), shape.dtype)
    inner = place(b, target, head)
    one, lanes = number(1), number(shape.lanes)
    origin, last = b.mul(first, lanes), b.sub(r.groups, lanes)
    with b.if_else(b.icmp_signed("==", g_step, one)) as (side_by_side, apart):
        with side_by_side, counted(b, count) as x, counted(b, depth) as c:
            read = place(b, source, b.add(b.mul(x.index, x_step), b.mul(c.index, c_step)))
            write = place(b, inner, b.mul(b.add(b.mul(x.index, depth), c.index), width))
            with counted(b, b.mul(panels, lanes), step=shape.lanes) as k:
                group = smaller(b, b.add(origin, k.index), last)
                store(b, load(b, read, group, vector), write, k.index)
        with apart, counted(b, panels) as panel:
            group = first_group(b, r, shape, b.add(first, panel.index))
            read = place(b, source, b.mul(group, g_step))
            write = place(b, inner, b.mul(panel.index, lanes))
            with b.if_else(b.icmp_signed("==", x_step, one)) as (lines, others):
                with lines, counted(b, depth) as c:
                    to = place(b, write, b.mul(c.index, width))
                    plane = place(b, read, b.mul(c.index, c_step))
                    b.call(turn, [to, point, plane, g_step, count])
                with others, counted(b, count) as x:
                    to = place(b, write, b.mul(x.index, point))
                    here = place(b, read, b.mul(x.index, x_step))
                    with b.if_else(b.icmp_signed("==", c_step, one)) as (matrix, scattered):
                        with matrix:
                            b.call(turn, [to, width, here, g_step, depth])
                        with scattered, counted(b, depth) as c, counted(b, lanes) as lane:
                            k = b.add(b.mul(c.index, width), lane.index)
                            moved = b.add(b.mul(c.index, c_step), b.mul(lane.index, g_step))
                            store(b, load(b, here, moved), to, k)
    b.ret_void()
    return made


def emit_store_groups(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``store_groups(record, target, sums, count)``, a line of one panel.

    The sums are ``[point][channel][panel][lane]``.
    """
    pointer = FLOATS[shape.dtype].as_pointer()
    turn = emit_turn_out(module, shape.dtype, shape.lanes)
    made, b = function(
        module, f"store_groups_{shape.dtype}", [I64.as_pointer(), pointer, pointer, I64]
    )
    record, target, sums, count = made.args
    for argument in made.args[:3]:
        argument.add_attribute("noalias")
    r = Record(b, record, FIELDS, ARRAYS)
    columns, g_step, c_step, x_step = r.columns, r.target_g, r.target_c, r.target_x
    lanes, pitch = number(shape.lanes), b.mul(r.stage, number(shape.lanes))
    point = b.mul(columns, pitch)
    one = number(1)
    with b.if_else(b.icmp_signed("==", x_step, one)) as (lines, others):
        with lines, counted(b, columns) as c:
            plane = place(b, target, b.mul(c.index, c_step))
            b.call(turn, [plane, g_step, place(b, sums, b.mul(c.index, pitch)), point, count])
        with others, counted(b, count) as x:
            to = place(b, target, b.mul(x.index, x_step))
            here = place(b, sums, b.mul(x.index, point))
            with b.if_else(b.icmp_signed("==", c_step, one)) as (matrix, scattered):
                with matrix:
                    b.call(turn, [to, g_step, here, pitch, columns])
                with scattered, counted(b, columns) as c, counted(b, lanes) as lane:
                    k = b.add(b.mul(c.index, pitch), lane.index)
                    moved = b.add(b.mul(c.index, c_step), b.mul(lane.index, g_step))
                    store(b, load(b, here, k), to, moved)
    b.ret_void()
    return made


def first_group(b: ir.IRBuilder, r: Record, shape: KernelShape, panel: ir.Value) -> ir.Value:
    """Return the group in lane 0: the last panel ends with the last group."""
    lanes = number(shape.lanes)
    return smaller(b, b.mul(panel, lanes), b.sub(r.groups, lanes))


@dataclass(frozen=True, slots=True)
class _Parts:
    sweep: ir.Function
    pack: ir.Function
    store: ir.Function


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a work item finds and puts things."""

    record: ir.Value
    region: ir.Value
    sums: ir.Value
    outer: ir.Value  # table: taps of the outer axes that a line meets
    table: ir.Value  # the same of all axes, for some points
    points: ir.Value  # by outer axis, what a line's points begin to read
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
        record=r.pointer,
        region=scratch,
        sums=place(b, scratch, r.scratch_sums),
        outer=outer,
        table=table,
        points=points,
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
        out, start = place(b, where.region, target), place(b, where.source, offset)
        b.call(pack, [where.record, out, start, where.first, where.panels, head, body, tail])


@dataclass(frozen=True, slots=True)
class _Phase:
    """One phase of the last axis: its points in the block, its kernel and its weights."""

    both: ir.Value  # its number among the phases of all axes
    low: ir.Value
    count: ir.Value
    kind: ir.Value
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
    taps = b.mul(r.at("outer_count", phase), b.mul(r.at("last_count", x), r.depth))
    return _Phase(
        both,
        low,
        larger(b, b.sub(high, low), number(0)),
        r.at("last_kind", x),
        place(b, where.weights, r.at("phase_weights", both)),
        b.mul(taps, number(shape.lanes)),
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
                bias=place(b, bias, b.mul(column.index, lanes)),
                table=place(b, r.table, r.at("phase_start", phase.both)),
                segments=r.at("phase_segments", phase.both),
                in_step=in_step,
                tap_step=_tap_step(b, r, x.index, packed),
                out_step=b.mul(r.step_out, point),
                bias_step=biases,
                weights_step=r.panel_weights,
                count=larger(b, phase.count, fewest),
                panels=panels,
            )
            with b.if_then(b.icmp_signed(">", phase.count, number(0)), likely=True):
                b.call(parts.sweep, [phase.kind, *sweep.values()])
        moved = b.mul(b.add(origin, begin), r.target_x)
        sums = place(b, where.sums, b.mul(begin, point))
        with counted(b, panels) as one:
            group = first_group(b, r, shape, b.add(b.add(where.first, panel.index), one.index))
            target = place(b, line.target, b.add(moved, b.mul(group, r.target_g)))
            mine = place(b, sums, b.mul(one.index, lanes))
            b.call(parts.store, [where.record, target, mine, length])
        panel.following = b.add(panel.index, r.stage)


def _tap_step(b: ir.IRBuilder, r: Record, x: ir.Value, point: ir.Value) -> ir.Value:
    """Return how far apart two taps of a phase read, where it has two."""
    offsets = place(b, r.last_offsets, r.at("last_start", x))
    several = b.icmp_signed(">", r.at("last_count", x), number(1))
    second = load(b, offsets, b.zext(several, I64))
    return b.mul(b.sub(second, load(b, offsets)), point)


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
    outer = _fill_outer(b, r, block, where, line)
    with counted(b, r.phases) as x:
        phase = _phase(b, r, shape, block, where, (line.phase, x.index))
        taps = r.at("last_count", x.index)
        offsets = place(b, r.last_offsets, r.at("last_start", x.index))
        high = b.add(phase.low, phase.count)
        with advancing(b, phase.low, high) as run:
            begin = b.mul(run.index, r.step_in)
            met, length = _same_taps(b, r, offsets, taps, begin)
            end = smaller(b, b.add(run.index, length), high)
            points = b.sub(end, run.index)
            enough = b.icmp_signed(">=", points, number(ROWS))
            fast = b.and_(b.icmp_signed("==", met, taps), enough)
            piece = b.select(fast, r.at("last_piece", x.index), number(1))
            kind = b.select(fast, phase.kind, number(0))
            segments = _fill_table(b, r, shape, where, offsets, (taps, outer, begin, piece))
            coordinate = b.add(b.add(b.mul(run.index, r.step_out), r.shift_out), x.index)
            out = place(b, line.target, b.mul(coordinate, r.target_x))
            tap_step = _tap_step(b, r, x.index, r.source_x)
            _run_points(b, r, shape, parts, where, phase,
                        (kind, out, segments, tap_step, points))  # fmt: skip
            run.following = end


def _fill_outer(b: ir.IRBuilder, r: Record, block: Block, where: _Place, line: _Line) -> ir.Value:
    """Note which taps of the outer axes meet a line of the source; return how many do."""
    with counted(b, r.outer, [line.index]) as axis:
        d = b.sub(b.sub(r.outer, number(1)), axis.index)
        (rest,) = axis.carried
        extent = load(b, block.extents, d)
        here = b.add(b.srem(rest, extent), load(b, block.lows, d))
        store(b, b.mul(here, r.at("steps_in", d)), where.points, d)
        axis.carried = [b.sdiv(rest, extent)]
    offsets = place(b, r.outer_offsets, r.at("outer_start", line.phase))
    with counted(b, r.at("outer_count", line.phase), [number(0), offsets]) as tap:
        found, mine = tap.carried
        with counted(b, r.outer, [number(0), number(1)]) as axis:
            read, valid = axis.carried
            coordinate = b.add(load(b, where.points, axis.index), load(b, mine, axis.index))
            inside = b.icmp_unsigned("<", coordinate, r.at("sizes_in", axis.index))
            axis.carried = [
                b.add(read, b.mul(coordinate, r.at("source_steps", axis.index))),
                b.and_(valid, b.zext(inside, I64)),
            ]
        read, valid = axis.carried
        entry = place(b, where.outer, b.mul(found, number(2)))
        store(b, read, entry)
        store(b, tap.index, entry, 1)
        tap.carried = [b.add(found, valid), place(b, mine, r.outer)]
    return tap.carried[0]


def _same_taps(
    b: ir.IRBuilder, r: Record, offsets: ir.Value, taps: ir.Value, begin: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return how many taps of the last axis a point meets, and how many points the same ones.

    The point begins to read at ``begin``.
    """
    with counted(b, taps, [number(0), number(FAR)]) as tap:
        met, until = tap.carried
        here = b.add(begin, load(b, offsets, tap.index))
        inside = b.icmp_unsigned("<", here, r.size_in)
        before = b.icmp_signed("<", here, number(0))
        ends = b.select(inside, b.sub(r.size_in, here), number(FAR))
        changes = b.select(before, b.neg(here), ends)
        tap.carried = [b.add(met, b.zext(inside, I64)), smaller(b, until, changes)]
    met, until = tap.carried
    up = b.sub(r.step_in, number(1))
    return met, b.sdiv(b.add(until, up), r.step_in)


def _fill_table(  # noqa: PLR0913 - which taps of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    where: _Place,
    offsets: ir.Value,
    numbers: tuple[ir.Value, ir.Value, ir.Value, ir.Value],
) -> ir.Value:
    """Note the segments of points that begin to read at ``begin``; return how many."""
    taps, outer, begin, piece = numbers
    with counted(b, outer, [number(0)]) as one:
        entry = place(b, where.outer, b.mul(one.index, number(2)))
        read, first = load(b, entry), b.mul(load(b, entry, 1), taps)
        with advancing(b, number(0), taps, one.carried) as tap:
            here = b.add(begin, load(b, offsets, tap.index))
            inside = b.icmp_unsigned("<", here, r.size_in)
            (found,) = tap.carried
            segment = place(b, where.table, b.mul(found, number(2)))
            store(b, b.add(read, b.mul(here, r.source_x)), segment)
            store(b, b.mul(b.add(first, tap.index), number(shape.lanes)), segment, 1)
            tap.carried = [b.add(found, b.zext(inside, I64))]
            tap.following = b.add(tap.index, piece)
        one.carried = tap.carried
    return one.carried[0]


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
    kind, out, segments, tap_step, points = numbers
    lanes = number(shape.lanes)
    biases = b.mul(r.columns, lanes)
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
            group = first_group(b, r, shape, b.add(where.first, panel))
            sweep = Sweep(
                out=place(b, written, group),
                data=place(b, where.source, group),
                weights=place(b, weights, b.mul(panel, r.panel_weights)),
                bias=place(b, bias, b.mul(panel, biases)),
                table=where.table,
                segments=segments,
                in_step=b.mul(r.step_in, r.source_x),
                tap_step=tap_step,
                out_step=b.mul(r.step_out, r.target_x),
                bias_step=biases,
                weights_step=r.panel_weights,
                count=points,
                panels=count,
            )
            with b.if_then(b.icmp_signed(">", count, number(0))):
                b.call(parts.sweep, [kind, *sweep.values()])
