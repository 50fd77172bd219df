"""Sums of a correlation, written as weights."""

from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv.codegen.build import (
    FLOATS,
    I32,
    I64,
    LINE,
    STORED,
    STORED_BYTES,
    counted,
    fma,
    function,
    load,
    number,
    place,
    smaller,
    store,
    stream,
    zeros,
)
from tconv.codegen.squares import sizes, turned_out
from tconv.codegen.stored import rounded

Array = npt.NDArray[Any]

DOUBTS = 2  # that are kept apart: adding takes longer than what is done between


def store_sums_meaning(  # noqa: PLR0913 - the emitted function's own arguments
    target: Array, sums: Array, count: int, used: int, x_step: int, c_step: int, pitch: int
) -> None:
    """Compute in NumPy what the code from :func:`emit_store_sums` computes, but the flag."""
    for tap, channel in np.ndindex(count, used):
        target[tap * x_step + channel * c_step] = sums[tap * pitch + channel]


def emit_store_sums(module: ir.Module, dtype: str, lanes: int) -> ir.Function:
    """Emit ``store_sums(target, sums, flag, count, used, x_step, c_step, pitch)``.

    Writes the first ``used`` channels of ``count`` taps, whose sums lie ``pitch`` apart, with
    the given steps.  Raises the flag if any of them is NaN or infinite: zeros around
    the fine side times an infinity are NaN where the definition has nothing.  Then the answer is
    not trusted, and the caller computes it another way.
    """
    scalar = FLOATS[dtype]
    pointers = [STORED[dtype].as_pointer(), scalar.as_pointer(), I64.as_pointer()]
    made, b = function(module, f"store_sums_{dtype}", [*pointers, *[I64] * 5])
    target, sums, flag, count, used, x_step, c_step, pitch = made.args
    for argument in made.args[:3]:
        argument.add_attribute("noalias")
    vector = ir.VectorType(scalar, lanes)
    whole = b.and_(used, number(-lanes))

    def read(tap: ir.Value, c: ir.Value, doubts: list[ir.Value]) -> ir.Value:
        """Return a vector as it is stored; what had least to do with doubts takes them."""
        value = load(b, place(b, sums, b.mul(tap, pitch)), c, vector)
        doubts.append(fma(b, value, zeros(vector), doubts.pop(0)))
        return rounded(b, value, dtype)

    beside = b.icmp_signed("==", c_step, number(1))
    neighbours = b.icmp_signed("==", x_step, number(1))
    with counted(b, whole, [zeros(vector)] * DOUBTS, step=lanes) as c:
        plane = place(b, target, b.mul(c.index, c_step))
        doubts = c.carried
        # Squares of taps and channels where taps lie side by side.
        squares = b.select(b.and_(neighbours, b.not_(beside)), count, number(0))
        for size in sizes(lanes)[:-1]:
            done = b.and_(squares, number(0 if size == lanes else -2 * size))
            with counted(b, b.and_(squares, number(-size)), doubts, first=done, step=size) as x:
                rows = [read(b.add(x.index, number(i)), c.index, x.carried) for i in range(size)]
                for i, row in enumerate(turned_out(b, rows)):
                    store(b, row, place(b, plane, b.mul(number(i), c_step)), x.index)
            doubts = x.carried
        with counted(b, count, doubts, first=b.and_(squares, number(-2))) as x:
            value = read(x.index, c.index, x.carried)
            out = place(b, plane, b.mul(x.index, x_step))
            with b.if_else(beside) as (together, apart):
                with together:
                    store(b, value, out)
                with apart:
                    for i in range(lanes):
                        element = b.extract_element(value, ir.Constant(I32, i))
                        store(b, element, out, b.mul(number(i), c_step))
        c.carried = x.carried
    doubt = _sum(b, reduce(b.fadd, c.carried))
    with counted(b, used, [doubt], first=whole) as c:
        plane = place(b, target, b.mul(c.index, c_step))
        with counted(b, count, c.carried) as x:
            value = load(b, place(b, sums, b.mul(x.index, pitch)), c.index)
            store(b, rounded(b, value, dtype), plane, b.mul(x.index, x_step))
            nothing = b.fmul(value, ir.Constant(scalar, 0.0))
            x.carried = [b.fadd(x.carried[0], nothing)]
        c.carried = x.carried
    _raise(b, flag, c.carried[0])
    b.ret_void()
    return made


def emit_store_panels(module: ir.Module, dtype: str, lanes: int, columns: int) -> ir.Function:
    """Emit ``store_panels(target, sums, flag, panels, pitch)``: one row, side by side.

    Panels are full, and their sums lie ``pitch`` apart.  The flag is as above.
    """
    vector = ir.VectorType(FLOATS[dtype], lanes)
    pointers = [STORED[dtype].as_pointer(), FLOATS[dtype].as_pointer(), I64.as_pointer()]
    made, b = function(module, f"store_panels_{dtype}", [*pointers, I64, I64])
    target, sums, flag, panels, pitch = made.args
    for argument in made.args[:3]:
        argument.add_attribute("noalias")
    begins = range(0, columns, lanes)
    with counted(b, panels, [target, sums, *[zeros(vector) for _ in begins]]) as panel:
        into, read, *doubts = panel.carried
        values = [load(b, read, begin, vector) for begin in begins]
        for begin, value in zip(begins, values, strict=True):
            store(b, rounded(b, value, dtype), into, begin)
        doubts = [
            fma(b, value, zeros(vector), doubt) for value, doubt in zip(values, doubts, strict=True)
        ]
        panel.carried = [place(b, into, columns), place(b, read, pitch), *doubts]
    _raise(b, flag, _sum(b, reduce(b.fadd, panel.carried[2:])))
    b.ret_void()
    return made


def _raise(b: ir.IRBuilder, flag: ir.Value, doubt: ir.Value) -> None:
    """Raise the flag if a doubt is NaN: zero times what was NaN or infinite."""
    with b.if_then(b.fcmp_unordered("uno", doubt, doubt), likely=False):
        store(b, number(1), flag)


def emit_stream_run(module: ir.Module, dtype: str) -> ir.Function:
    """Emit ``stream_run(target, source, count)``: copy elements past the caches.

    Only whole lines go that way: memory would have to be asked for what is left of others.
    """
    kind = STORED[dtype]
    pointer = kind.as_pointer()
    made, b = function(module, f"stream_run_{dtype}", [pointer, pointer, I64])
    target, source, count = made.args
    for argument in made.args[:2]:
        argument.add_attribute("noalias")
    item = STORED_BYTES[dtype]
    line = LINE // item
    address = b.ptrtoint(target, I64)
    before = b.sdiv(b.and_(b.neg(address), number(LINE - 1)), number(item))
    before = smaller(b, before, count)
    whole = b.add(before, b.and_(b.sub(count, before), number(-line)))
    vector = ir.VectorType(kind, LINE // 2 // item)
    with counted(b, whole, first=before, step=line) as at:
        for half in (0, line // 2):
            where = b.add(at.index, number(half))
            stream(b, load(b, source, where, vector), target, where)
    for first, last in ((number(0), before), (whole, count)):
        with counted(b, last, first=first) as at:
            store(b, load(b, source, at.index), target, at.index)
    b.ret_void()
    return made


def _sum(b: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    """Return the sum of all lanes."""
    lanes = [b.extract_element(vector, ir.Constant(I32, i)) for i in range(vector.type.count)]
    total = lanes[0]
    for lane in lanes[1:]:
        total = b.fadd(total, lane)
    return total
