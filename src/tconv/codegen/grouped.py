"""Grouped layers: every lane of a vector is a group, so no vector is half empty."""

from dataclasses import dataclass, fields

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
)
from tconv.codegen.gather import settle_phase, target_line
from tconv.codegen.rows import zero_fill
from tconv.codegen.squares import emit_turn_in, emit_turn_out
from tconv.plan.grouped import ARRAYS, FIELDS, MOST_TAPS, PAIR

STRETCH = int(__import__("os").environ.get("ST","32"))


@dataclass(frozen=True, slots=True)
class Sweep:
    """The arguments of a sweep over points, in order."""

    out: ir.Value
    data: ir.Value
    weights: ir.Value
    start: ir.Value  # what sums begin with
    offsets: ir.Value  # by tap, from a point's data
    in_step: ir.Value
    out_step: ir.Value
    start_step: ir.Value
    start_panel: ir.Value
    panel_weights: ir.Value
    count: ir.Value  # of points
    panels: ir.Value  # of the kernel's own width


def sweep_type(shape: KernelShape) -> list[ir.Type]:
    """Return the types of a sweep's arguments."""
    pointer = FLOATS[shape.dtype].as_pointer()
    return [*[pointer] * 4, I64.as_pointer(), *[I64] * 7]


def emit_taps(module: ir.Module, shape: KernelShape, taps: int, panels: int) -> ir.Function:
    """Emit a sweep for so many taps and so many panels at once.

    ``out[p, i * out_step] = start[p, i * start_step] + sum of weights[p, t] * data[p, offsets[t] +
    i * in_step]`` for every point i and panel p, where all are vectors.  Weights stay in
    registers while points go by.
    """
    vector = ir.VectorType(FLOATS[shape.dtype], shape.lanes)
    lanes = shape.lanes
    made, b = function(module, f"taps_{shape.dtype}_{taps}x{panels}", sweep_type(shape))
    s = Sweep(*made.args)
    places = [place(b, s.data, load(b, s.offsets, t)) for t in range(taps)]
    begin = [number(0), s.out, s.weights, s.start]
    with counted(b, s.panels, begin) as panel:
        first, out, weights, start = panel.carried
        kept = [
            [load(b, place(b, weights, b.mul(number(v), s.panel_weights)), t * lanes, vector)
             for t in range(taps)]
            for v in range(panels)
        ]  # fmt: skip
        with counted(b, s.count, [first, out, start]) as point:
            read, written, begun = point.carried
            for v in range(panels):
                total = load(b, begun, b.mul(number(v), s.start_panel), vector)
                for weight, origin in zip(kept[v], places, strict=True):
                    data = load(b, place(b, origin, read), v * lanes, vector)
                    total = fma(b, weight, data, total)
                store(b, total, written, v * lanes)
            point.carried = [
                b.add(read, s.in_step),
                place(b, written, s.out_step),
                place(b, begun, s.start_step),
            ]
        panel.carried = [
            b.add(first, number(panels * lanes)),
            place(b, out, panels * lanes),
            place(b, weights, b.mul(number(panels), s.panel_weights)),
            place(b, start, b.mul(number(panels), s.start_panel)),
        ]
    b.ret_void()
    return made


def emit_sweep(module: ir.Module, shape: KernelShape, panels: int) -> ir.Function:
    """Emit a sweep for any number of taps; two more arguments tell it and how many at once."""
    kernels = [emit_taps(module, shape, taps, panels) for taps in range(MOST_TAPS + 1)]
    made, b = function(module, f"sweep_{shape.dtype}_{panels}", [*sweep_type(shape), I64, I64])
    *arguments, taps, at_once = made.args
    s = Sweep(*arguments)
    kinds = [s.weights, s.start, s.offsets, taps, s.start_step, s.start_panel]
    body, after = b.append_basic_block("body"), b.append_basic_block("after")
    before = b.block
    b.cbranch(b.icmp_signed(">", s.panels, number(0)), body, after)
    b.position_at_end(body)
    phis = [b.phi(value.type) for value in kinds]
    for phi, value in zip(phis, kinds, strict=True):
        phi.add_incoming(value, before)
    weights, start, offsets, left, start_step, start_panel = phis
    now = smaller(b, left, at_once)
    done = b.append_basic_block("done")
    switch = b.switch(now, done)
    for several, kernel in enumerate(kernels):
        case = b.append_basic_block(f"taps{several}")
        switch.add_case(number(several), case)
        b.position_at_end(case)
        b.call(
            kernel,
            [s.out, s.data, weights, start, offsets, s.in_step, s.out_step, start_step,
             start_panel, s.panel_weights, s.count, s.panels],
        )  # fmt: skip
        b.branch(done)
    b.position_at_end(done)
    later = [
        place(b, weights, b.mul(now, number(shape.lanes))), s.out, place(b, offsets, now),
        b.sub(left, now), s.out_step, number(shape.lanes),
    ]  # fmt: skip
    for phi, value in zip(phis, later, strict=True):
        phi.add_incoming(value, done)
    b.cbranch(b.icmp_signed(">", later[3], number(0)), body, after)
    b.position_at_end(after)
    b.ret_void()
    return made


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

    The sums are ``[point][channel][panel of two][lane]``.
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
    lanes, pitch = number(shape.lanes), number(PAIR * shape.lanes)
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
    pairs: ir.Function
    single: ir.Function
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
    parts = _Parts(
        emit_sweep(module, shape, PAIR),
        emit_sweep(module, shape, 1),
        emit_store_groups(module, shape),
    )
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
    offsets: ir.Value
    taps: list[ir.Value]  # how many, and how many at once


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
    offsets = place(b, r.offsets, r.at("phase_start", both))
    taps = r.at("phase_taps", both)
    return _Phase(
        low,
        larger(b, b.sub(high, low), number(0)),
        place(b, where.weights, r.at("phase_weights", both)),
        b.mul(taps, number(shape.lanes)),
        offsets,
        [taps, r.at("phase_size", both)],
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
    """Sum a line and store it at once, some points with all groups after the other.

    Groups lie side by side in the target, so that whole points are written.
    """
    lanes = number(shape.lanes)
    in_step = b.mul(b.mul(r.step_in, r.depth), r.width)
    out_step = b.mul(r.step_out, r.target_x)
    bias_step = b.mul(r.columns, lanes)
    longest = b.sub(block.stop, block.start)
    # The last panel may begin among the groups of the one before.
    ends = b.icmp_signed("==", b.add(where.first, where.panels), r.panels)
    shifted = b.icmp_signed("!=", b.srem(r.groups, lanes), number(0))
    apart = b.zext(b.and_(ends, shifted), I64)
    whole = b.sub(where.panels, apart)
    paired = b.sdiv(whole, number(PAIR))
    done = b.mul(paired, number(PAIR))
    with (
        counted(b, longest, step=STRETCH) as stretch,
        counted(b, r.phases) as x,
        counted(b, r.columns) as column,
    ):
        phase = _phase(b, r, shape, block, where, (line.phase, x.index))
        points = smaller(b, b.sub(phase.count, stretch.index), number(STRETCH))
        low = b.add(phase.low, stretch.index)
        data = place(b, line.data, b.mul(b.sub(low, block.start), in_step))
        coordinate = b.add(b.add(b.mul(low, r.step_out), r.shift_out), x.index)
        offset = b.add(b.mul(coordinate, r.target_x), b.mul(column.index, r.target_c))
        out = place(b, line.target, offset)
        weights = place(b, phase.weights, b.mul(column.index, phase.column_weights))
        bias = place(b, where.bias, b.mul(column.index, lanes))
        with b.if_then(b.icmp_signed(">", points, number(0)), likely=True):
            for kernel, panel, count in (
                (parts.pairs, number(0), paired),
                (parts.single, done, b.sub(whole, done)),
                (parts.single, whole, apart),
            ):
                group = first_group(b, r, shape, b.add(where.first, panel))
                sweep = Sweep(
                    out=place(b, out, group),
                    data=place(b, data, b.mul(panel, lanes)),
                    weights=place(b, weights, b.mul(panel, r.panel_weights)),
                    start=place(b, bias, b.mul(panel, bias_step)),
                    offsets=phase.offsets,
                    in_step=in_step,
                    out_step=out_step,
                    start_step=number(0),
                    start_panel=bias_step,
                    panel_weights=r.panel_weights,
                    count=points,
                    panels=count,
                )
                b.call(kernel, [*_values(sweep), *phase.taps])


def _values(sweep: Sweep) -> list[ir.Value]:
    return [getattr(sweep, field.name) for field in fields(sweep)]


def _run_staged(  # noqa: PLR0913 - which line of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    block: Block,
    where: _Place,
    line: _Line,
) -> None:
    """Sum a line of two panels in scratch, all phases side by side, then store it."""
    lanes = number(shape.lanes)
    point = b.mul(r.columns, number(PAIR * shape.lanes))
    in_step = b.mul(b.mul(r.step_in, r.depth), r.width)
    out_step = b.mul(r.step_out, point)
    bias_step = b.mul(r.columns, lanes)
    origin = b.add(b.mul(block.start, r.step_out), r.shift_out)
    begin = larger(b, b.neg(origin), number(0))
    whole = b.mul(b.sub(block.stop, block.start), r.step_out)
    length = b.sub(smaller(b, whole, b.sub(r.size_out, origin)), begin)
    with counted(b, where.panels, step=PAIR) as panel:
        data = place(b, line.data, b.mul(panel.index, lanes))
        moved = b.mul(panel.index, r.panel_weights)
        bias = place(b, where.bias, b.mul(panel.index, bias_step))
        both = smaller(b, b.sub(where.panels, panel.index), number(PAIR))
        pair = b.icmp_signed("==", both, number(PAIR))
        with counted(b, r.phases) as x:
            phase = _phase(b, r, shape, block, where, (line.phase, x.index))
            low = b.sub(phase.low, block.start)
            read = place(b, data, b.mul(low, in_step))
            out = place(b, where.sums, b.mul(b.add(b.mul(low, r.step_out), x.index), point))
            with counted(b, r.columns) as column:
                taken = b.add(moved, b.mul(column.index, phase.column_weights))
                sweep = Sweep(
                    out=place(b, out, b.mul(column.index, number(PAIR * shape.lanes))),
                    data=read,
                    weights=place(b, phase.weights, taken),
                    start=place(b, bias, b.mul(column.index, lanes)),
                    offsets=phase.offsets,
                    in_step=in_step,
                    out_step=out_step,
                    start_step=number(0),
                    start_panel=bias_step,
                    panel_weights=r.panel_weights,
                    count=phase.count,
                    panels=number(1),
                )
                with b.if_else(pair) as (two, one):
                    with two:
                        b.call(parts.pairs, [*_values(sweep), *phase.taps])
                    with one:
                        b.call(parts.single, [*_values(sweep), *phase.taps])
        x = b.mul(b.add(origin, begin), r.target_x)
        sums = place(b, where.sums, b.mul(begin, point))
        with counted(b, both) as half:
            number_of = b.add(b.add(where.first, panel.index), half.index)
            group = first_group(b, r, shape, number_of)
            target = place(b, line.target, b.add(x, b.mul(group, r.target_g)))
            mine = place(b, sums, b.mul(half.index, lanes))
            b.call(parts.store, [where.record, target, mine, length])
