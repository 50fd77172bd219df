"""Folds: products added up where they overlap, and stored line by line."""

from collections.abc import Sequence

from llvmlite import ir

from tconv.codegen.activation import activated
from tconv.codegen.block import KernelShape, Record
from tconv.codegen.build import (
    FLOATS,
    I32,
    I64,
    STORED,
    Turn,
    counted,
    function,
    load,
    number,
    place,
    smaller,
    splat,
    store,
    zeros,
)
from tconv.codegen.plane_rows import interleaved
from tconv.codegen.stored import covered, if_enough, rounded, store_each
from tconv.plan.overlap import ARRAYS, FIELDS, MIXED

MOST_VECTORS = 4  # of points that are added up together: an addition takes some cycles


def emit_fold(module: ir.Module, shape: KernelShape, kinds: list[ir.Type]) -> ir.Function:
    """Emit ``fold(record, scratch, item)``: some blocks of lines, all channels of a group."""
    adds = {vectors: _emit_add(module, shape, vectors) for vectors in range(1, MOST_VECTORS + 1)}
    copy = _emit_copy(module, shape)
    pointer, stored = FLOATS[shape.dtype].as_pointer(), STORED[shape.dtype].as_pointer()
    table = I64.as_pointer()
    made, b = function(module, f"fold_{shape.dtype}", kinds)
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    group, some = b.srem(item, r.groups), b.sdiv(item, r.groups)
    bases, more, order = (
        b.bitcast(place(b, scratch, getattr(r, f"scratch_{name}")), table)
        for name in ("bases", "more", "order")
    )
    sums = place(b, scratch, r.scratch_sums)
    products = place(b, r.pointer_to("products", pointer), b.mul(group, b.mul(r.rows, r.pitch)))
    bias = place(b, r.pointer_to("bias", pointer), b.mul(group, r.columns))
    target = place(b, r.pointer_to("target", stored), b.mul(group, r.target_g))
    target = place(b, target, b.mul(r.first, r.at("target_steps", number(0))))
    # Channels that lie side by side, and nothing between them, are one run.
    unit = b.select(
        b.and_(
            b.icmp_signed("==", r.target_c, number(1)), b.icmp_signed("==", r.target_x, r.columns)
        ),
        r.columns,
        number(1),
    )
    apart = b.mul(r.phases, r.sums_pitch)
    _fill_order(b, r, order, unit, apart)
    begin = b.mul(some, r.folds)
    every = b.mul(r.images, b.mul(r.lines, r.blocks))
    end = smaller(b, b.add(begin, r.folds), every)
    with counted(b, end, first=begin) as turn:
        line, block = b.sdiv(turn.index, r.blocks), b.srem(turn.index, r.blocks)
        count, lists, offset = _find_bases(b, r, line, (bases, more))
        low = b.mul(block, r.block)
        _add_vectors(b, shape, adds, [record, sums, products, lists, count, bias, low],
                     _longest(b, r, low))  # fmt: skip
        blank = r.pointer_to("zeros", pointer)
        activated(b, r, sums, blank, (r.columns, apart, apart))
        x = b.mul(low, r.phases)
        length = smaller(b, b.sub(r.size_out, x), b.mul(r.block, r.phases))
        written = place(b, target, b.add(offset, b.mul(x, r.target_x)))
        single = b.icmp_signed("==", unit, number(1))
        with counted(b, b.select(single, r.columns, number(1))) as run:
            arguments = [
                place(b, written, b.mul(run.index, r.target_c)),
                place(b, sums, b.mul(run.index, apart)), order, b.mul(length, unit),
                b.select(single, r.target_x, number(1)), b.mul(unit, r.phases),
            ]  # fmt: skip
            b.call(copy, arguments)
    b.ret_void()
    return made


def _longest(b: ir.IRBuilder, r: Record, low: ir.Value) -> ir.Value:
    """Return how many points of a phase the block has, at most."""
    longest = b.sdiv(b.add(r.size_out, b.sub(r.phases, number(1))), r.phases)
    return smaller(b, b.sub(longest, low), r.block)


def _fill_order(
    b: ir.IRBuilder, r: Record, order: ir.Value, unit: ir.Value, apart: ir.Value
) -> None:
    """Note where in the sums each element of a stored run lies."""
    with counted(b, r.block) as q, counted(b, r.phases) as x, counted(b, unit) as f:
        point = b.add(b.mul(q.index, r.phases), x.index)
        where = b.add(b.add(b.mul(x.index, r.sums_pitch), q.index), b.mul(f.index, apart))
        store(b, where, order, b.add(b.mul(point, unit), f.index))


def _find_bases(
    b: ir.IRBuilder, r: Record, line: ir.Value, tables: tuple[ir.Value, ir.Value]
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """List where products begin that meet a line, by the taps of the outer axes.

    Returns how many there are, which table has them, and where the line is written.
    """
    store(b, number(0), tables[0])
    begun = [line, number(1), tables[0], tables[1], number(0)]
    with counted(b, b.sub(r.outer, number(1)), begun) as axis:
        d = b.sub(b.sub(r.outer, number(1)), axis.index)
        left, count, found, other, offset = axis.carried
        size, phases = r.at("sizes_out", d), r.at("axis_phases", d)
        here = b.srem(left, size)
        point, phase = b.sdiv(here, phases), b.srem(here, phases)
        entry = b.add(r.at("axis_tables", d), phase)
        start = r.at("tap_start", entry)
        stop = b.add(start, r.at("tap_count", entry))
        with counted(b, stop, [number(0)], first=start) as tap:
            (filled,) = tap.carried
            read = b.add(point, r.at("tap_offsets", tap.index))
            inside = b.icmp_unsigned("<", read, r.at("sizes_in", d))
            base = b.add(b.mul(read, r.at("axis_points", d)), r.at("tap_rows", tap.index))
            with counted(b, b.select(inside, count, number(0))) as old:
                store(b, b.add(load(b, found, old.index), base), other, b.add(filled, old.index))
            tap.carried = [b.add(filled, b.select(inside, count, number(0)))]
        offset = b.add(offset, b.mul(here, r.at("target_steps", d)))
        axis.carried = [b.sdiv(left, size), tap.carried[0], other, found, offset]
    image, count, found, _, offset = axis.carried
    origin = b.mul(image, r.points)
    with counted(b, count) as each:
        store(b, b.add(load(b, found, each.index), origin), found, each.index)
    return count, found, b.add(offset, b.mul(image, r.at("target_steps", number(0))))


def _add_vectors(
    b: ir.IRBuilder,
    shape: KernelShape,
    adds: dict[int, ir.Function],
    arguments: Sequence[ir.Value],
    points: ir.Value,
) -> None:
    """Add up all vectors of a block, several at a time."""
    record, sums, *others, low = arguments
    needed = b.sdiv(b.add(points, number(shape.lanes - 1)), number(shape.lanes))
    with counted(b, needed, step=MOST_VECTORS) as turn:
        here = b.mul(turn.index, number(shape.lanes))
        left = b.sub(needed, turn.index)
        for vectors, add in adds.items():
            enough = b.icmp_signed("==" if vectors < MOST_VECTORS else ">=", left, number(vectors))
            with b.if_then(enough):
                b.call(add, [record, place(b, sums, here), *others, b.add(low, here)])


def _emit_add(module: ir.Module, shape: KernelShape, vectors: int) -> ir.Function:
    """Emit ``add(record, sums, products, bases, count, bias, low)``.

    For every channel ``f`` and phase, ``sums[v] = bias[f] + sum of
    products[bases[i] + tap_rows[t] + low + tap_offsets[t] + v]`` over the phase's taps and all
    bases, of points that are inside the line.
    """
    scalar, lanes = FLOATS[shape.dtype], shape.lanes
    pointer, table = scalar.as_pointer(), I64.as_pointer()
    vector = ir.VectorType(scalar, lanes)
    kinds = [table, pointer, pointer, table, I64, pointer, I64]
    made, b = function(module, f"add_{shape.dtype}_{vectors}", kinds)
    record, sums, products, bases, count, bias, low = made.args
    for argument in (*made.args[:4], bias):
        argument.add_attribute("noalias")
    r = Record(b, record, FIELDS, ARRAYS)
    columns, phases, size, pitch, apart = r.columns, r.phases, r.size_in, r.pitch, r.sums_pitch
    table_of, starts, counts = r.at("last_table", number(0)), r.tap_start, r.tap_count
    rows, offsets = r.tap_rows, r.tap_offsets
    limit = splat(b, b.trunc(size, I32), lanes)
    meets = b.icmp_signed(">", count, number(0))

    def added(
        tap: Turn, line: ir.Value, masks: Sequence[ir.Value]
    ) -> tuple[list[ir.Value], ir.Block]:
        """Add what all bases have of a tap, without what is masked out."""
        with counted(b, count, tap.carried) as base:
            here = place(b, line, load(b, bases, base.index))
            values = [load(b, here, v * lanes, vector) for v in range(vectors)]
            kept = [b.select(m, v, zeros(vector)) for m, v in zip(masks, values, strict=False)]
            base.carried = [*map(b.fadd, base.carried, kept or values)]
        return base.carried, b.block

    with counted(b, columns) as f, counted(b, phases) as x:
        entry = b.add(table_of, x.index)
        start = load(b, starts, entry)
        stop = b.add(start, b.select(meets, load(b, counts, entry), number(0)))
        mine = place(b, products, b.mul(f.index, pitch))
        with counted(b, stop, [zeros(vector)] * vectors, first=start) as tap:
            first = b.add(low, load(b, offsets, tap.index))
            line = place(b, mine, b.add(first, load(b, rows, tap.index)))
            least = b.icmp_signed(">=", first, number(0))
            most = b.icmp_signed("<=", b.add(first, number(vectors * lanes)), size)
            with b.if_else(b.and_(least, most)) as (inside, border):
                with inside:
                    plain, plainly = added(tap, line, ())
                with border:
                    at = splat(b, b.trunc(first, I32), lanes)
                    places = [b.add(at, _counting(v * lanes, lanes)) for v in range(vectors)]
                    masks = [b.icmp_unsigned("<", each, limit) for each in places]
                    masked, with_masks = added(tap, line, masks)
            for v in range(vectors):
                tap.carried[v] = b.phi(vector)
                tap.carried[v].add_incoming(plain[v], plainly)
                tap.carried[v].add_incoming(masked[v], with_masks)
        extra = splat(b, load(b, bias, f.index), lanes)
        into = place(b, sums, b.mul(b.add(b.mul(f.index, phases), x.index), apart))
        for v, total in enumerate(tap.carried):
            store(b, b.fadd(total, extra), into, v * lanes)
    b.ret_void()
    return made


def _counting(first: int, lanes: int) -> ir.Constant:
    return ir.Constant(ir.VectorType(I32, lanes), [*range(first, first + lanes)])


def _emit_copy(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``copy(target, sums, order, count, step, mixed)``.

    ``target[i * step] = sums[order[i]]``; ``mixed`` rows of sums take turns.
    """
    dtype, lanes, scalar = shape.dtype, shape.lanes, FLOATS[shape.dtype]
    vector = ir.VectorType(scalar, lanes)
    pointers = [STORED[dtype].as_pointer(), scalar.as_pointer(), I64.as_pointer()]
    made, b = function(module, f"copy_order_{dtype}", [*pointers, *[I64] * 3])
    target, sums, order, count, step, mixed = made.args
    for argument in made.args[:3]:
        argument.add_attribute("noalias")
    vectors = if_enough(b, count, lanes)
    beside = b.icmp_signed("==", step, number(1))
    begin: ir.Value = number(0)
    for rows in MIXED:
        alike = b.and_(beside, b.icmp_signed("==", mixed, number(rows)))
        whole = b.select(alike, b.sdiv(count, number(rows * lanes)), number(0))
        lines = [place(b, sums, load(b, order, i)) for i in range(rows)]
        with counted(b, whole) as turn:
            point = b.mul(turn.index, number(lanes))
            values = [load(b, line, point, vector) for line in lines]
            for i, each in enumerate(interleaved(b, values)):
                there = b.add(b.mul(point, number(rows)), number(i * lanes))
                store(b, rounded(b, each, dtype), target, there)
        begin = b.add(begin, b.mul(whole, number(rows * lanes)))
    plain = b.and_(beside, b.icmp_signed("==", mixed, number(1)))
    with b.if_else(plain) as (straight, crossed):
        with straight, covered(b, vectors, lanes) as here:
            store(b, rounded(b, load(b, sums, here, vector), dtype), target, here)
        with crossed, counted(b, vectors, first=begin, step=lanes) as turn:
            here = smaller(b, turn.index, b.sub(vectors, number(lanes)))
            found: ir.Value = ir.Constant(vector, ir.Undefined)
            for lane in range(lanes):
                value = load(b, sums, load(b, order, b.add(here, number(lane))))
                found = b.insert_element(found, value, ir.Constant(I32, lane))
            kept = rounded(b, found, dtype)
            with b.if_else(beside) as (together, apart):
                with together:
                    store(b, kept, target, here)
                with apart:
                    places = [b.mul(b.add(here, number(lane)), step) for lane in range(lanes)]
                    store_each(b, kept, target, places)
    with counted(b, count, first=vectors) as single:
        value = rounded(b, load(b, sums, load(b, order, single.index)), dtype)
        store(b, value, target, b.mul(single.index, step))
    b.ret_void()
    return made
