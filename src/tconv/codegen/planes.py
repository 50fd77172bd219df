"""Planes: gathers with few channels a group, vectors running along points."""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.activation import activated
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
    STORED,
    counted,
    fma,
    function,
    larger,
    load,
    number,
    place,
    smaller,
    splat,
    store,
    transpose,
    zeros,
)
from tconv.codegen.gather import settle_phase, target_line
from tconv.codegen.rows import pack_run, zero_fill
from tconv.codegen.stored import covered, if_enough, rounded, store_each, widen_each, widened
from tconv.plan.planes import ARRAYS, FIELDS


def vector_runs(rows: int) -> tuple[int, ...]:
    """Return how many vectors the tiles of so many rows hold, largest first, down to one.

    Eight sums at least hide the latency of an addition; twelve fit the registers.
    """
    return {1: (8, 4, 2, 1), 2: (6, 4, 2, 1), 3: (4, 2, 1)}.get(rows, (2, 1))


def emit_plane_tile(module: ir.Module, shape: KernelShape, rows: int, vectors: int) -> ir.Function:
    """Emit ``tile(sums, planes, weights, segments, count, depth, step, pitch)``.

    ``sums[r * pitch + v] = sum of weights[s, k, r] * planes[segments[s] + k * step + v]``
    """
    scalar = FLOATS[shape.dtype]
    vector = ir.VectorType(scalar, shape.lanes)
    pointer = scalar.as_pointer()
    made, b = function(
        module,
        f"plane_tile_{shape.dtype}_{rows}x{vectors}",
        [pointer, pointer, pointer, I64.as_pointer(), *[I64] * 4],
    )
    sums, planes, weights, segments, count, depth, step, pitch = made.args
    for argument in made.args[:4]:
        argument.add_attribute("noalias")
    with counted(b, count, [weights, *[zeros(vector)] * (rows * vectors)]) as segment:
        line = place(b, planes, load(b, segments, segment.index))
        with counted(b, depth, [line, *segment.carried]) as k:
            points, taken, *totals = k.carried
            values = [load(b, points, v * shape.lanes, vector) for v in range(vectors)]
            for r in range(rows):
                weight = splat(b, load(b, taken, r), shape.lanes)
                for v in range(vectors):
                    here = r * vectors + v
                    totals[here] = fma(b, weight, values[v], totals[here])
            k.carried = [place(b, points, step), place(b, taken, rows), *totals]
        segment.carried = k.carried[1:]
    for r in range(rows):
        target = place(b, sums, b.mul(number(r), pitch))
        for v in range(vectors):
            store(b, segment.carried[1 + r * vectors + v], target, v * shape.lanes)
    b.ret_void()
    return made


def emit_pack_planes(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``pack_planes(target, source, channels, pitch, before, count, after, steps...)``.

    ``target[c * pitch + before + j] = source[c * c_step + j * x_step]``, zeros around.
    """
    dtype, lanes = shape.dtype, shape.lanes
    pointers = [FLOATS[dtype].as_pointer(), STORED[dtype].as_pointer()]
    made, b = function(module, f"pack_planes_{dtype}", [*pointers, *[I64] * 7])
    target, source, channels, pitch, before, count, after, c_step, x_step = made.args
    target.add_attribute("noalias")
    source.add_attribute("noalias")
    with counted(b, channels) as c:
        row = place(b, target, b.mul(c.index, pitch))
        zero_fill(b, row, before, dtype)
        zero_fill(b, place(b, row, b.add(before, count)), after, dtype)
    inner = place(b, target, before)
    with b.if_else(b.icmp_signed("==", x_step, number(1))) as (rows_lie, others):
        with rows_lie, counted(b, channels) as c:
            row = place(b, inner, b.mul(c.index, pitch))
            pack_run(b, row, place(b, source, b.mul(c.index, c_step)), count, dtype, lanes)
        with others:
            side_by_side = b.icmp_signed("==", c_step, number(1))
            square = b.and_(side_by_side, b.icmp_signed(">=", count, number(lanes)))
            square_c = b.select(square, if_enough(b, channels, lanes), number(0))
            with covered(b, square_c, lanes) as c, covered(b, count, lanes) as x:
                reads = [b.mul(b.add(x, number(i)), x_step) for i in range(lanes)]
                points = [widened(b, place(b, source, read), c, dtype, lanes) for read in reads]
                for i, row in enumerate(transpose(b, points)):
                    store(b, row, place(b, inner, b.mul(b.add(c, number(i)), pitch)), x)
            vectors = if_enough(b, count, lanes)
            with counted(b, channels, first=square_c) as channel:
                row = place(b, inner, b.mul(channel.index, pitch))
                plane = place(b, source, b.mul(channel.index, c_step))
                with covered(b, vectors, lanes) as x:
                    reads = [b.mul(b.add(x, number(i)), x_step) for i in range(lanes)]
                    places = [place(b, plane, read) for read in reads]
                    widen_each(b, places, place(b, row, x), dtype)
                with counted(b, count, first=vectors) as point:
                    value = widened(b, plane, b.mul(point.index, x_step), dtype)
                    store(b, value, row, point.index)
    b.ret_void()
    return made


def emit_store_planes(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``store_planes(target, sums, bias, channels, pitch, count, c_step, x_step)``.

    ``target[c * c_step + j * x_step] = sums[c * pitch + j] + bias[c]``
    """
    dtype, scalar = shape.dtype, FLOATS[shape.dtype]
    pointers = [STORED[dtype].as_pointer(), *[scalar.as_pointer()] * 2]
    made, b = function(module, f"store_planes_{dtype}", [*pointers, *[I64] * 5])
    target, sums, bias, channels, pitch, count, c_step, x_step = made.args
    for argument in made.args[:3]:
        argument.add_attribute("noalias")
    lanes = shape.lanes
    vector = ir.VectorType(scalar, lanes)
    lines = b.icmp_signed("==", x_step, number(1))
    side_by_side = b.and_(b.icmp_signed("==", c_step, number(1)), b.not_(lines))
    square = b.and_(side_by_side, b.icmp_signed(">=", count, number(lanes)))
    square_c = b.select(square, if_enough(b, channels, lanes), number(0))
    with covered(b, square_c, lanes) as c:
        added = load(b, bias, c, vector)
        with covered(b, count, lanes) as x:
            rows = [
                load(b, place(b, sums, b.mul(b.add(c, number(i)), pitch)), x, vector)
                for i in range(lanes)
            ]
            for i, point in enumerate(transpose(b, rows)):
                line = place(b, target, b.mul(b.add(x, number(i)), x_step))
                store(b, rounded(b, b.fadd(point, added), dtype), line, c)
    vectors = if_enough(b, count, lanes)
    with counted(b, channels, first=square_c) as channel:
        row = place(b, sums, b.mul(channel.index, pitch))
        plane = place(b, target, b.mul(channel.index, c_step))
        value = load(b, bias, channel.index)
        added = splat(b, value, lanes)
        with covered(b, vectors, lanes) as x:
            kept = rounded(b, b.fadd(load(b, row, x, vector), added), dtype)
            with b.if_else(lines) as (whole, apart):
                with whole:
                    store(b, kept, plane, x)
                with apart:
                    places = [b.mul(b.add(x, number(i)), x_step) for i in range(lanes)]
                    store_each(b, kept, plane, places)
        with counted(b, count, first=vectors) as single:
            total = rounded(b, b.fadd(load(b, row, single.index), value), dtype)
            store(b, total, plane, b.mul(single.index, x_step))
    b.ret_void()
    return made


@dataclass(frozen=True, slots=True)
class _Parts:
    tiles: list[ir.Function]
    pack: ir.Function
    store: ir.Function


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a work item finds and puts things."""

    scratch: ir.Value
    sums: ir.Value
    lines: ir.Value  # table: where a line's region begins
    first: ir.Value  # group
    groups: ir.Value  # of this item
    target: ir.Value
    weights: ir.Value
    bias: ir.Value


def emit_planes(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``planes(record, scratch, item)``, public; the first of the rows is the tile's."""
    pointer, stored = FLOATS[shape.dtype].as_pointer(), STORED[shape.dtype].as_pointer()
    rows = shape.rows[0]
    parts = _Parts(
        [emit_plane_tile(module, shape, rows, vectors) for vectors in vector_runs(rows)],
        emit_pack_planes(module, shape),
        emit_store_planes(module, shape),
    )
    made, b = function(
        module, f"planes_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    block, chunk = emit_block(b, r, item, begins=True)
    first = b.mul(chunk, r.chunk)
    read, written = b.mul(first, r.source_g), b.mul(first, r.target_g)
    where = _Place(
        scratch=scratch,
        sums=place(b, scratch, r.scratch_sums),
        lines=b.bitcast(place(b, scratch, r.scratch_lines), I64.as_pointer()),
        first=first,
        groups=smaller(b, b.sub(r.groups, first), r.chunk),
        target=place(b, r.pointer_to("target", stored), written),
        weights=place(b, r.pointer_to("weights", pointer), b.mul(first, r.group_weights)),
        bias=place(b, r.pointer_to("bias", pointer), b.mul(first, r.columns)),
    )
    _pack_region(b, r, parts.pack, block, where, place(b, r.pointer_to("source", stored), read))
    with counted(b, r.outer_phases) as phase:
        lines = settle_phase(b, r, block, phase.index)
        _fill_lines(b, r, block, where, lines)
        with counted(b, r.phases) as x:
            low = larger(b, block.start, r.at("last_low", x.index))
            high = smaller(b, block.stop, r.at("last_high", x.index))
            length = larger(b, b.sub(high, low), number(0))
            both = b.add(b.mul(phase.index, r.phases), x.index)
            begin = b.sub(low, block.start)
            _run_phase(b, r, shape, parts, where, (both, lines, begin, length))
            _store_phase(b, r, parts, block, where, (phase.index, x.index, lines, low, length))
    b.ret_void()
    return made


def _pack_region(  # noqa: PLR0913 - where from, where to, and by what
    b: ir.IRBuilder, r: Record, pack: ir.Function, block: Block, where: _Place, source: ir.Value
) -> None:
    """Pack all that the block reads, a plane each channel, each residue of the step apart."""
    lines = emit_region_extents(b, r, block)
    channels = b.mul(where.groups, r.depth)
    first = b.add(b.mul(block.start, r.step_in), r.low_in)
    with counted(b, lines) as line:
        target, read, valid = emit_region_line(b, r, block, line.index)
        with counted(b, r.step_in) as residue:
            origin = b.add(first, residue.index)
            # How many of origin, origin + step, ... come before 0, and how many before the end.
            up = b.sub(r.step_in, number(1))
            before = _clamp(b, r, b.sdiv(larger(b, b.sub(up, origin), number(0)), r.step_in))
            until = _clamp(b, r, b.sdiv(
                larger(b, b.add(b.sub(r.size_in, origin), up), number(0)), r.step_in))  # fmt: skip
            head = b.select(valid, before, r.residue)
            body = b.select(valid, larger(b, b.sub(until, before), number(0)), number(0))
            tail = b.sub(b.sub(r.residue, head), body)
            x = b.add(origin, b.mul(head, r.step_in))
            offset = b.select(valid, b.add(read, b.mul(x, r.source_x)), number(0))
            out = place(b, where.scratch, b.add(target, b.mul(residue.index, r.residue)))
            step = b.mul(r.source_x, r.step_in)
            b.call(
                pack,
                [out, place(b, source, offset), channels, r.row, head, body, tail, r.source_c,
                 step],
            )  # fmt: skip


def _clamp(b: ir.IRBuilder, r: Record, count: ir.Value) -> ir.Value:
    return smaller(b, count, r.residue)


def _fill_lines(b: ir.IRBuilder, r: Record, block: Block, where: _Place, lines: ir.Value) -> None:
    """Note for every line of the phase where its region begins."""
    with counted(b, lines) as line:
        store(b, emit_line_offset(b, r, block, line.index), where.lines, line.index)


def _run_phase(  # noqa: PLR0913 - which phase of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    where: _Place,
    numbers: tuple[ir.Value, ir.Value, ir.Value, ir.Value],
) -> None:
    """Sum one phase of the last axis: for every group, line by line."""
    both, lines, begin, length = numbers
    lanes = number(shape.lanes)
    vectors = b.sdiv(b.add(length, number(shape.lanes - 1)), lanes)
    pitch = b.mul(r.lines, r.sums_pitch)
    segments = place(b, r.segments, r.at("segment_start", both))
    count = r.at("segment_count", both)
    with counted(b, where.groups) as group, counted(b, lines) as line:
        behind = b.add(b.mul(group.index, r.group_weights), r.at("phase_weights", both))
        weights = place(b, where.weights, behind)
        plane = b.mul(b.mul(group.index, r.depth), r.row)
        origin = b.add(b.add(load(b, where.lines, line.index), plane), begin)
        channel = b.mul(b.mul(group.index, r.columns), pitch)
        row = b.add(channel, b.mul(line.index, r.sums_pitch))
        done: ir.Value = number(0)
        for tile, size in zip(parts.tiles, vector_runs(shape.rows[0]), strict=True):
            runs = b.sdiv(b.sub(vectors, done), number(size))
            with counted(b, runs) as run:
                here = b.mul(b.add(done, b.mul(run.index, number(size))), lanes)
                sums = place(b, where.sums, b.add(row, here))
                read = place(b, where.scratch, b.add(origin, here))
                b.call(tile, [sums, read, weights, segments, count, r.depth, r.row, pitch])
            done = b.add(done, b.mul(runs, number(size)))


def _store_phase(  # noqa: PLR0913 - which phase of what
    b: ir.IRBuilder,
    r: Record,
    parts: _Parts,
    block: Block,
    where: _Place,
    numbers: tuple[ir.Value, ir.Value, ir.Value, ir.Value, ir.Value],
) -> None:
    """Store one phase of the last axis, every line with all its channels."""
    phase, x, lines, low, length = numbers
    coordinate = b.add(b.add(b.mul(low, r.step_out), r.shift_out), x)
    start = b.mul(coordinate, r.target_x)
    channels = b.mul(where.groups, r.columns)
    pitch = b.mul(r.lines, r.sums_pitch)
    step = b.mul(r.target_x, r.step_out)
    with counted(b, lines) as line:
        offset = target_line(b, r, block, line.index, (phase, start))
        sums = place(b, where.sums, b.mul(line.index, r.sums_pitch))
        left = activated(b, r, sums, where.bias, (channels, length, pitch))
        arguments = [place(b, where.target, offset), sums, left]
        b.call(parts.store, [*arguments, channels, pitch, length, r.target_c, step])
