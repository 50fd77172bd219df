"""Runs of elements for spreads: filled, copied, mixed, and written past the caches."""

from llvmlite import ir

from tconv.codegen.block import KernelShape
from tconv.codegen.build import (
    I1,
    I64,
    LINE,
    STORED,
    STORED_BYTES,
    counted,
    function,
    load,
    number,
    place,
    smaller,
    store,
    stream,
)
from tconv.codegen.plane_rows import interleaved
from tconv.codegen.stored import covered, if_enough
from tconv.plan.spread import NOWHERE


def emit_mix(module: ir.Module, shape: KernelShape, points: int) -> ir.Function:
    """Emit ``mix(target, line, reads, blank, cells)``: of so many points each.

    ``target[points * c + p] = line[reads[p] + c]``, or the blank where ``reads[p]`` says so.
    There are at least as many cells as lanes; the last vector may mix some of them again.
    """
    dtype, lanes = shape.dtype, shape.lanes
    pointer, vector = STORED[dtype].as_pointer(), ir.VectorType(STORED[dtype], lanes)
    made, b = function(
        module, f"mix_{dtype}_{points}", [pointer, pointer, I64.as_pointer(), pointer, I64]
    )
    target, line, reads, blank, cells = made.args
    for argument in made.args[:4]:
        argument.add_attribute("noalias")
    found = [load(b, reads, p) for p in range(points)]
    none = [b.icmp_signed("==", each, number(NOWHERE)) for each in found]
    starts = [
        b.select(no, blank, place(b, line, each)) for no, each in zip(none, found, strict=True)
    ]
    moves = [b.select(no, number(0), number(1)) for no in none]
    with covered(b, cells, lanes) as cell:
        places = [b.mul(move, cell) for move in moves]
        rows = [load(b, *each, vector) for each in zip(starts, places, strict=True)]
        for at, each in enumerate(interleaved(b, rows)):
            store(b, each, target, b.add(b.mul(cell, number(points)), number(at * lanes)))
    b.ret_void()
    return made


def emit_fill(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``fill(target, count, pattern, period, past)``.

    Fills elements with a pattern that repeats after whole vectors, past the caches if that is told.
    """
    dtype, lanes = shape.dtype, shape.lanes
    stored = STORED[dtype].as_pointer()
    vector = ir.VectorType(STORED[dtype], lanes)
    made, b = function(module, f"fill_blanks_{dtype}", [stored, I64, stored, I64, I1])
    target, count, pattern, period, past = made.args
    for argument in (target, pattern):
        argument.add_attribute("noalias")
    head = smaller(b, b.select(past, _to_line(b, target, dtype), number(0)), count)
    # A shorter pattern begins behind the head; there is enough of it.
    begin, into = place(b, pattern, head), place(b, target, head)
    left = b.sub(count, head)
    whole = b.sub(left, b.srem(left, period))
    end = b.add(whole, b.and_(b.sub(left, whole), number(-lanes)))
    for streams in (False, True):
        alike = b.icmp_signed("==", past, ir.Constant(I1, streams))
        put = stream if streams else store
        with b.if_then(alike):
            with counted(b, b.sdiv(whole, period)) as turn, counted(b, period, step=lanes) as k:
                to = b.add(b.mul(turn.index, period), k.index)
                put(b, load(b, begin, k.index, vector), into, to)
            with counted(b, end, first=whole, step=lanes) as k:
                put(b, load(b, begin, b.sub(k.index, whole), vector), into, k.index)
    with counted(b, head) as k:
        store(b, load(b, pattern, k.index), target, k.index)
    with counted(b, left, first=end) as k:
        store(b, load(b, begin, b.sub(k.index, whole)), into, k.index)
    b.ret_void()
    return made


def _to_line(b: ir.IRBuilder, pointer: ir.Value, dtype: str) -> ir.Value:
    """Return how many elements lie before the next cache line begins."""
    askew = b.and_(b.neg(b.ptrtoint(pointer, I64)), number(LINE - 1))
    return b.sdiv(askew, number(STORED_BYTES[dtype]))


def emit_copy(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``copy(target, source, count, length, read, write)``: so many runs of elements."""
    dtype, lanes = shape.dtype, shape.lanes
    element = STORED[dtype]
    pointer = element.as_pointer()
    made, b = function(module, f"copy_runs_{dtype}", [pointer, pointer, *[I64] * 4])
    target, source, count, length, read, write = made.args
    for argument in made.args[:2]:
        argument.add_attribute("noalias")

    def moved(x: ir.Value, at: ir.Value | int, kind: ir.Type) -> None:
        here, there = place(b, source, b.mul(x, read)), place(b, target, b.mul(x, write))
        store(b, load(b, here, at, kind), there, at)

    # A run shorter than a vector takes two shorter ones, which may have elements in common.
    sizes = [size for size in (1, 2, 4, 8, 16) if size < lanes]
    for size in sizes:
        kind = element if size == 1 else ir.VectorType(element, size)
        enough = b.icmp_signed("<", length, number(min(2 * size, lanes)))
        alike = b.and_(enough, b.icmp_signed(">=", length, number(size)))
        with b.if_then(alike):
            with counted(b, count) as x:
                moved(x.index, 0, kind)
                if size > 1:
                    moved(x.index, b.sub(length, number(size)), kind)
            b.ret_void()
    vector = ir.VectorType(element, lanes)
    with counted(b, count) as x, covered(b, if_enough(b, length, lanes), lanes) as k:
        moved(x.index, k, vector)
    b.ret_void()
    return made


def emit_flush(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``flush(target, work, lines, length, row, unit, x, c, apart)``.

    Lines of elements side by side go past the caches, all of them one run; or, ``apart``, with
    steps of their own: of lines, points and channels.
    """
    dtype, lanes = shape.dtype, shape.lanes
    pointer, vector = STORED[dtype].as_pointer(), ir.VectorType(STORED[dtype], lanes)
    kinds = [pointer, pointer, *[I64] * 6, I1]
    made, b = function(module, f"flush_{dtype}", kinds)
    target, work, lines, length, row_step, unit, x_step, c_step, apart = made.args
    for argument in made.args[:2]:
        argument.add_attribute("noalias")
    with b.if_then(apart):
        with (
            counted(b, lines) as line,
            counted(b, b.sdiv(length, unit)) as x,
            counted(b, unit) as c,
        ):
            read = b.add(b.mul(line.index, length), b.add(b.mul(x.index, unit), c.index))
            write = b.add(b.mul(line.index, row_step), b.mul(x.index, x_step))
            store(b, load(b, work, read), target, b.add(write, b.mul(c.index, c_step)))
        b.ret_void()
    count = b.mul(lines, length)
    head = smaller(b, _to_line(b, target, dtype), count)
    whole = b.add(head, b.and_(b.sub(count, head), number(-lanes)))
    for first, end in ((number(0), head), (whole, count)):
        with counted(b, end, first=first) as k:
            store(b, load(b, work, k.index), target, k.index)
    with counted(b, whole, first=head, step=lanes) as k:
        stream(b, load(b, work, k.index, vector), target, k.index)
    b.ret_void()
    return made
