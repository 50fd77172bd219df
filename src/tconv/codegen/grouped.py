"""Grouped layers: every lane of a vector is a group, so no vector is half empty."""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import (
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
    counted,
    fma,
    function,
    larger,
    load,
    number,
    place,
    smaller,
    store,
    zeros,
)
from tconv.codegen.gather import settle_phase, target_line
from tconv.codegen.squares import covered, emit_turn_in, emit_turn_out, sizes
from tconv.plan.grouped import ARRAYS, FIELDS

ROWS = 8  # points of a tile: eight sums hide the latency of an addition


def emit_group_tile(module: ir.Module, shape: KernelShape, rows: int) -> ir.Function:
    """Emit ``tile(out, data, weights, bias, segments, count, depth, in_step, out_step)``.

    ``out[r * out_step] = bias + sum of weights[s, k] * data[segments[s] + k + r * in_step]``,
    where k counts vectors and all are vectors.
    """
    scalar = FLOATS[shape.dtype]
    vector = ir.VectorType(scalar, shape.lanes)
    pointer = scalar.as_pointer()
    made, b = function(
        module,
        f"group_tile_{shape.dtype}_{rows}",
        [*[pointer] * 4, I64.as_pointer(), *[I64] * 4],
    )
    out, data, weights, bias, segments, count, depth, in_step, out_step = made.args
    for argument in made.args[:5]:
        argument.add_attribute("noalias")
    steps = [b.mul(number(r), in_step) for r in range(rows)]
    with counted(b, count, [weights, *[zeros(vector)] * rows]) as segment:
        line = place(b, data, load(b, segments, segment.index))
        with counted(b, depth, [line, *segment.carried]) as k:
            points, taken, *totals = k.carried
            weight = load(b, taken, 0, vector)
            for r in range(rows):
                totals[r] = fma(b, weight, load(b, points, steps[r], vector), totals[r])
            k.carried = [place(b, points, shape.lanes), place(b, taken, shape.lanes), *totals]
        segment.carried = k.carried[1:]
    added = load(b, bias, 0, vector)
    for r in range(rows):
        store(b, b.fadd(segment.carried[1 + r], added), out, b.mul(number(r), out_step))
    b.ret_void()
    return made


def emit_sweep(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``sweep(...)``: a tile's arguments and then how many points, any number of them."""
    tiles = [emit_group_tile(module, shape, rows) for rows in sizes(ROWS)]
    pointer = FLOATS[shape.dtype].as_pointer()
    made, b = function(
        module,
        f"group_sweep_{shape.dtype}",
        [*[pointer] * 4, I64.as_pointer(), *[I64] * 5],
    )
    out, data, weights, bias, segments, count, depth, in_step, out_step, points = made.args
    for tile, rows in zip(tiles, sizes(ROWS), strict=True):
        with covered(b, points, rows, ROWS) as first:
            here = [place(b, out, b.mul(first, out_step)), place(b, data, b.mul(first, in_step))]
            b.call(tile, [*here, weights, bias, segments, count, depth, in_step, out_step])
    b.ret_void()
    return made


def emit_pack_groups(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``pack_groups(record, target, source, first, panels, before, count, after)``.

    Writes one line of every panel, ``[point][channel][lane]``: zeros, ``count`` points, zeros.
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
    region, depth = r.region, r.depth
    g_step, c_step, x_step = r.source_g, r.source_c, r.source_x
    point = b.mul(depth, number(shape.lanes))
    head, body = b.mul(before, point), b.mul(count, point)
    end = b.add(b.add(head, body), b.mul(after, point))
    with counted(b, panels) as panel:
        line = place(b, target, b.mul(panel.index, region))
        with counted(b, head, step=shape.lanes) as k:
            store(b, zeros(vector), line, k.index)
        with counted(b, end, first=b.add(head, body), step=shape.lanes) as k:
            store(b, zeros(vector), line, k.index)
    inner = place(b, target, head)
    one = number(1)
    with b.if_else(b.icmp_signed("==", g_step, one)) as (side_by_side, apart):
        with side_by_side, counted(b, count) as x, counted(b, depth) as c:
            read = place(b, source, b.add(b.mul(x.index, x_step), b.mul(c.index, c_step)))
            offset = b.mul(b.add(b.mul(x.index, depth), c.index), number(shape.lanes))
            write = place(b, inner, offset)
            with counted(b, panels) as panel:
                group = first_group(b, r, shape, b.add(first, panel.index))
                store(b, load(b, read, group, vector), write, b.mul(panel.index, region))
        with apart, counted(b, panels) as panel:
            group = first_group(b, r, shape, b.add(first, panel.index))
            read = place(b, source, b.mul(group, g_step))
            write = place(b, inner, b.mul(panel.index, region))
            with b.if_else(b.icmp_signed("==", x_step, one)) as (lines, others):
                with lines, counted(b, depth) as c:
                    to = place(b, write, b.mul(c.index, number(shape.lanes)))
                    plane = place(b, read, b.mul(c.index, c_step))
                    b.call(turn, [to, point, plane, g_step, count])
                with others, counted(b, count) as x:
                    to = place(b, write, b.mul(x.index, point))
                    here = place(b, read, b.mul(x.index, x_step))
                    with b.if_else(b.icmp_signed("==", c_step, one)) as (matrix, scattered):
                        with matrix:
                            b.call(turn, [to, number(shape.lanes), here, g_step, depth])
                        with (
                            scattered,
                            counted(b, depth) as c,
                            counted(b, number(shape.lanes)) as lane,
                        ):
                            k = b.add(b.mul(c.index, number(shape.lanes)), lane.index)
                            moved = b.add(b.mul(c.index, c_step), b.mul(lane.index, g_step))
                            store(b, load(b, here, moved), to, k)
    b.ret_void()
    return made


def emit_store_groups(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``store_groups(record, target, sums, count)``: a line ``[point][channel][lane]``."""
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
    lanes = number(shape.lanes)
    point = b.mul(columns, lanes)
    one = number(1)
    with b.if_else(b.icmp_signed("==", x_step, one)) as (lines, others):
        with lines, counted(b, columns) as c:
            plane = place(b, target, b.mul(c.index, c_step))
            b.call(turn, [plane, g_step, place(b, sums, b.mul(c.index, lanes)), point, count])
        with others, counted(b, count) as x:
            to = place(b, target, b.mul(x.index, x_step))
            here = place(b, sums, b.mul(x.index, point))
            with b.if_else(b.icmp_signed("==", c_step, one)) as (matrix, scattered):
                with matrix:
                    b.call(turn, [to, g_step, here, lanes, columns])
                with scattered, counted(b, columns) as c, counted(b, lanes) as lane:
                    k = b.add(b.mul(c.index, lanes), lane.index)
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
    store: ir.Function


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a work item finds and puts things."""

    record: ir.Value
    region: ir.Value
    sums: ir.Value
    first: ir.Value  # panel
    panels: ir.Value  # of this item
    target: ir.Value
    weights: ir.Value
    bias: ir.Value


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of one phase of the outer axes."""

    phase: ir.Value
    data: ir.Value  # where its region begins
    target: ir.Value  # where it is stored


def emit_grouped(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``grouped(record, scratch, item)``, public."""
    pointer = FLOATS[shape.dtype].as_pointer()
    parts = _Parts(emit_sweep(module, shape), emit_store_groups(module, shape))
    pack = emit_pack_groups(module, shape)
    made, b = function(
        module, f"grouped_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    chunk, rest = b.srem(item, r.chunks), b.sdiv(item, r.chunks)
    block, _ = emit_block(b, r, rest, begins=True)
    first = b.mul(chunk, r.panels_a_chunk)
    where = _Place(
        record=record,
        region=scratch,
        sums=place(b, scratch, r.scratch_sums),
        first=first,
        panels=smaller(b, b.sub(r.panels, first), r.panels_a_chunk),
        target=r.pointer_to("target", pointer),
        weights=place(b, r.pointer_to("weights", pointer), b.mul(first, r.panel_weights)),
        bias=place(
            b,
            r.pointer_to("bias", pointer),
            b.mul(first, b.mul(r.columns, number(shape.lanes))),
        ),
    )
    _pack_region(b, r, pack, block, where, r.pointer_to("source", pointer))
    direct = b.icmp_signed("==", r.target_g, number(1))
    with counted(b, r.outer_phases) as phase:
        lines = settle_phase(b, r, block, phase.index)
        with counted(b, lines) as index:
            offset = emit_line_offset(b, r, block, index.index)
            written = target_line(b, r, block, index.index, (phase.index, number(0)))
            line = _Line(phase.index, place(b, scratch, offset), place(b, where.target, written))
            with b.if_else(direct) as (at_once, staged):
                with at_once:
                    _run_direct(b, r, shape, parts, block, where, line)
                with staged:
                    _run_staged(b, r, shape, parts, block, where, line)
    b.ret_void()
    return made


def _pack_region(  # noqa: PLR0913 - where from, where to, and by what
    b: ir.IRBuilder, r: Record, pack: ir.Function, block: Block, where: _Place, source: ir.Value
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
        out, start = place(b, where.region, target), place(b, source, offset)
        b.call(pack, [where.record, out, start, where.first, where.panels, head, body, tail])


@dataclass(frozen=True, slots=True)
class _Phase:
    """One phase of the last axis: its points, and what a sweep reads for them."""

    low: ir.Value
    count: ir.Value
    weights: ir.Value
    column_weights: ir.Value  # elements from one written channel to the next
    arguments: list[ir.Value]  # segments, count, depth


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
    segments = place(b, r.segments, r.at("segment_start", both))
    count, depth = r.at("segment_count", both), b.mul(r.at("segment_depth", both), r.depth)
    return _Phase(
        low,
        larger(b, b.sub(high, low), number(0)),
        place(b, where.weights, r.at("phase_weights", both)),
        b.mul(b.mul(count, depth), number(shape.lanes)),
        [segments, count, depth],
    )


def _run_direct(  # noqa: PLR0913 - which line of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    block: Block,
    where: _Place,
    line: _Line,
) -> None:
    """Sum a line and store it at once, a tile of points with all groups after the other.

    Groups lie side by side in the target, so that whole points are written.
    """
    lanes = number(shape.lanes)
    in_step = b.mul(b.mul(r.step_in, r.depth), lanes)
    out_step = b.mul(r.step_out, r.target_x)
    longest = b.sub(block.stop, block.start)
    with (
        counted(b, longest, step=ROWS) as tile,
        counted(b, r.phases) as x,
        counted(b, r.columns) as column,
    ):
        phase = _phase(b, r, shape, block, where, (line.phase, x.index))
        points = smaller(b, phase.count, number(ROWS))
        begin = smaller(b, tile.index, b.sub(phase.count, points))
        points = b.select(b.icmp_signed("<", tile.index, phase.count), points, number(0))
        low = b.add(phase.low, begin)
        data = place(b, line.data, b.mul(b.sub(low, block.start), in_step))
        coordinate = b.add(b.add(b.mul(low, r.step_out), r.shift_out), x.index)
        offset = b.add(b.mul(coordinate, r.target_x), b.mul(column.index, r.target_c))
        out = place(b, line.target, offset)
        weights = place(b, phase.weights, b.mul(column.index, phase.column_weights))
        bias = place(b, where.bias, b.mul(column.index, lanes))
        bias_step = b.mul(r.columns, lanes)
        with counted(b, where.panels, [data, weights, bias]) as panel:
            group = first_group(b, r, shape, b.add(where.first, panel.index))
            read, taken, added = panel.carried
            b.call(
                parts.sweep,
                [place(b, out, group), read, taken, added, *phase.arguments, in_step, out_step,
                 points],
            )  # fmt: skip
            panel.carried = [
                place(b, read, r.region),
                place(b, taken, r.panel_weights),
                place(b, added, bias_step),
            ]


def _run_staged(  # noqa: PLR0913 - which line of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    block: Block,
    where: _Place,
    line: _Line,
) -> None:
    """Sum a line of every panel in scratch, all phases side by side, then store it."""
    lanes = number(shape.lanes)
    point = b.mul(r.columns, lanes)
    in_step = b.mul(b.mul(r.step_in, r.depth), lanes)
    out_step = b.mul(r.step_out, point)
    origin = b.add(b.mul(block.start, r.step_out), r.shift_out)
    begin = larger(b, b.neg(origin), number(0))
    whole = b.mul(b.sub(block.stop, block.start), r.step_out)
    length = b.sub(smaller(b, whole, b.sub(r.size_out, origin)), begin)
    with counted(b, where.panels) as panel:
        data = place(b, line.data, b.mul(panel.index, r.region))
        moved = b.mul(panel.index, r.panel_weights)
        bias = place(b, where.bias, b.mul(panel.index, point))
        with counted(b, r.phases) as x:
            phase = _phase(b, r, shape, block, where, (line.phase, x.index))
            low = b.sub(phase.low, block.start)
            read = place(b, data, b.mul(low, in_step))
            out = place(b, where.sums, b.mul(b.add(b.mul(low, r.step_out), x.index), point))
            with counted(b, r.columns) as column:
                channel = b.mul(column.index, lanes)
                taken = b.add(moved, b.mul(column.index, phase.column_weights))
                b.call(
                    parts.sweep,
                    [place(b, out, channel), read, place(b, phase.weights, taken),
                     place(b, bias, channel), *phase.arguments, in_step, out_step, phase.count],
                )  # fmt: skip
        group = first_group(b, r, shape, b.add(where.first, panel.index))
        x = b.mul(b.add(origin, begin), r.target_x)
        target = place(b, line.target, b.add(x, b.mul(group, r.target_g)))
        sums = place(b, where.sums, b.mul(begin, point))
        b.call(parts.store, [where.record, target, sums, length])
