"""Cells: gathers whose columns are phases and channels, stored phase by phase."""

from dataclasses import replace

from llvmlite import ir

from tconv.codegen.activation import activated
from tconv.codegen.block import Block, KernelShape, Record, emit_block
from tconv.codegen.build import (
    FLOATS,
    I64,
    STORED,
    counted,
    function,
    larger,
    load,
    number,
    place,
    smaller,
    store,
)
from tconv.codegen.parts import Kinds, emit_parts
from tconv.codegen.places import Place, find_place
from tconv.codegen.points import fill_tables, settle_phase
from tconv.codegen.ragged import find_ragged
from tconv.codegen.stored import covered, if_enough, rounded
from tconv.codegen.sums import emit_sums, find_data
from tconv.plan.cells import ARRAYS, FIELDS


def emit_cells(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``cells(record, scratch, item)``, public."""
    pointer = FLOATS[shape.dtype].as_pointer()
    parts = emit_parts(module, shape, Kinds(past=False, rounds=False))
    copy_line = emit_copy_line(module, shape.dtype, shape.lanes)
    made, b = function(
        module, f"cells_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    chunk, rest = b.srem(item, r.chunks), b.sdiv(item, r.chunks)
    block, group = emit_block(b, r, rest, begins=True)
    data = find_data(b, r, shape, parts, block, (scratch, group, rest))
    where = find_place(b, r, shape, scratch, group, data)
    first = b.mul(chunk, r.panels_a_chunk)
    last = smaller(b, b.add(first, r.panels_a_chunk), r.panels)
    lines = settle_phase(b, r, block, number(0))
    fill_tables(b, r, block, where, (number(0), lines))
    mine = replace(where, sums=place(b, where.sums, b.mul(first, r.sums_panel)))
    full = find_ragged(b, shape, b.mul(r.panels, number(shape.columns)))
    emit_sums(b, r, shape, parts, mine, number(0), (first, last, first), full)
    columns = b.mul(first, number(shape.columns)), b.mul(last, number(shape.columns))
    # The bias is in the sums already.
    width = b.sub(columns[1], columns[0])
    sizes = b.mul(lines, r.sums_pitch), width, r.sums_point
    activated(b, r, place(b, where.sums, columns[0]), r.pointer_to("zeros", pointer), sizes)
    _store_cells(b, r, copy_line, block, where, lines, columns)
    b.ret_void()
    return made


def _store_cells(  # noqa: PLR0913 - which cells of what
    b: ir.IRBuilder,
    r: Record,
    copy_line: ir.Function,
    block: Block,
    where: Place,
    lines: ir.Value,
    columns: tuple[ir.Value, ir.Value],
) -> None:
    """Store the columns of one work item: lines of one phase of the outer axes each."""
    count = b.sub(block.stop, block.start)
    origin = b.sub(b.mul(block.start, r.cell), r.pad)
    with counted(b, r.stores) as run, counted(b, lines) as line:
        begin = r.at("store_columns", run.index)
        low = larger(b, b.sub(columns[0], begin), number(0))
        high = smaller(b, b.sub(columns[1], begin), r.store_length)
        channel = b.mul(r.at("store_channels", run.index), r.target_c)
        with counted(b, r.outer, [line.index, channel, number(1)]) as axis:
            d = b.sub(b.sub(r.outer, number(1)), axis.index)
            rest, offset, valid = axis.carried
            extent = load(b, block.extents, d)
            point = b.add(b.srem(rest, extent), load(b, block.lows, d))
            phase = r.at("store_phases", b.add(b.mul(run.index, r.outer), d))
            here = b.add(b.mul(point, r.at("cells", d)), b.sub(phase, r.at("pads", d)))
            good = b.and_(
                b.icmp_signed(">=", here, number(0)),
                b.icmp_signed("<", here, r.at("sizes_out", d)),
            )
            axis.carried = [
                b.sdiv(rest, extent),
                b.add(offset, b.mul(here, r.at("target_steps", d))),
                b.and_(valid, b.zext(good, I64)),
            ]
        _, offset, valid = axis.carried
        some = b.and_(b.icmp_signed("!=", valid, number(0)), b.icmp_signed("<", low, high))
        with b.if_then(some):
            read = b.add(b.mul(b.mul(line.index, r.sums_pitch), r.sums_point), begin)
            arguments = [
                place(b, where.target, offset), place(b, where.sums, read), count, origin,
                low, high, r.size_out, r.cell, r.unit, r.sums_point, r.target_x, r.target_c,
            ]  # fmt: skip
            b.call(copy_line, arguments)


def emit_copy_line(module: ir.Module, dtype: str, lanes: int) -> ir.Function:
    """Emit ``copy(target, sums, count, origin, low, high, size, cell, unit, pitch, x, c)``.

    Point ``p`` is the place ``origin + p * cell`` of a line of ``size`` places.  Column ``i`` of
    it, from ``low`` to ``high``, goes ``i // unit`` places and ``i % unit`` channels further, and
    nowhere if that is outside the line.
    """
    pointers = [STORED[dtype].as_pointer(), FLOATS[dtype].as_pointer()]
    made, b = function(module, f"copy_line_{dtype}", [*pointers, *[I64] * 10])
    target, sums, count, origin, low, high, size, cell, unit, pitch, x_step, c_step = made.args
    target.add_attribute("noalias")
    sums.add_attribute("noalias")
    # Where columns lie one step apart, whatever the unit is.
    single = b.icmp_signed("==", unit, number(1))
    step = b.select(single, x_step, c_step)
    even = b.or_(single, b.icmp_signed("==", x_step, b.mul(unit, c_step)))
    tight = b.and_(even, b.icmp_signed("==", step, number(1)))
    length = b.sub(high, low)
    # The points that lie in the line with all of their cell.
    last = b.sub(size, cell)
    begin = b.sdiv(b.add(larger(b, b.neg(origin), number(0)), b.sub(cell, number(1))), cell)
    end = b.sdiv(b.add(larger(b, b.sub(last, origin), b.neg(cell)), cell), cell)
    # Short runs, one after the other in memory: a whole vector each, and what it writes too
    # much the next ones write again; the last few are left to the loop below.
    vector = ir.VectorType(FLOATS[dtype], lanes)
    alone = b.and_(
        b.icmp_signed("==", low, number(0)), b.icmp_signed("==", high, b.mul(cell, unit))
    )
    short = b.and_(b.and_(tight, alone), b.icmp_signed("<", length, number(lanes)))
    first = smaller(b, begin, count)
    spilt = b.sdiv(number(lanes), larger(b, length, number(1)))
    stop = b.sub(smaller(b, end, count), b.add(spilt, number(1)))
    stop = b.select(short, larger(b, stop, first), first)
    with counted(b, stop, first=first) as p:
        read = place(b, sums, b.mul(p.index, pitch))
        x = b.add(origin, b.mul(p.index, cell))
        value = rounded(b, load(b, read, 0, vector), dtype)
        store(b, value, target, b.mul(x, x_step))
    with counted(b, count) as p:
        done = b.and_(b.icmp_signed(">=", p.index, first), b.icmp_signed("<", p.index, stop))
        with b.if_then(b.not_(done)):
            x = b.add(origin, b.mul(p.index, cell))
            from_, to = (
                larger(b, low, b.mul(b.neg(x), unit)),
                smaller(b, high, b.mul(b.sub(size, x), unit)),
            )
            read = place(b, sums, b.mul(p.index, pitch))
            write = place(b, target, b.mul(x, x_step))
            left = larger(b, b.sub(to, from_), number(0))
            vectors = b.select(tight, if_enough(b, left, lanes), number(0))
            with covered(b, vectors, lanes) as k:
                value = load(b, read, b.add(from_, k), vector)
                store(b, rounded(b, value, dtype), write, b.add(from_, k))
            with counted(b, to, first=b.add(from_, vectors)) as i:
                value = rounded(b, load(b, read, i.index), dtype)
                apart = b.add(
                    b.mul(b.sdiv(i.index, unit), x_step), b.mul(b.srem(i.index, unit), c_step)
                )
                store(b, value, write, b.select(even, b.mul(i.index, step), apart))
    b.ret_void()
    return made
