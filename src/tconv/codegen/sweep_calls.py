"""What sweeps call: small functions whose code inside of a tile would cost registers."""

from llvmlite import ir

from tconv.codegen.block import KernelShape
from tconv.codegen.build import (
    FLOATS,
    I64,
    STORED,
    VOID,
    counted,
    function,
    load,
    number,
    place,
    prefetch,
    store,
)
from tconv.codegen.stored import rounded


def emit_finish(module: ir.Module, shape: KernelShape, *, stored: bool) -> ir.Function:
    """Emit ``finish(out, sums, rows, panels, last, out_step, activate, slope, zeros)``.

    Applies the activation, if there is one, to the sums of a tile and stores them.  Inside of
    a tile the call would cost registers where there is none.
    """
    pointer = FLOATS[shape.dtype].as_pointer()
    moved = STORED[shape.dtype].as_pointer() if stored else pointer
    made, b = function(module, f"finish_{shape.dtype}", [moved, pointer, *[I64] * 6, pointer])
    made.attributes.add("noinline")
    out, sums, rows, panels, final, out_step, activate, slope, zeros = made.args
    lanes, vector = number(shape.lanes), ir.VectorType(FLOATS[shape.dtype], shape.lanes)
    action = ir.FunctionType(VOID, [pointer, pointer, *[I64] * 4]).as_pointer()
    sizes_of = [b.mul(rows, panels), lanes, lanes]
    with b.if_then(b.icmp_signed("!=", activate, number(0))):
        b.call(b.inttoptr(activate, action), [sums, zeros, *sizes_of, slope])
    with counted(b, panels) as panel, counted(b, rows) as row:
        k = b.add(b.mul(panel.index, rows), row.index)
        total = load(b, sums, b.mul(k, lanes), vector)
        value = rounded(b, total, shape.dtype) if stored else total
        last = b.icmp_signed("==", b.add(panel.index, number(1)), panels)
        begin = b.select(last, final, b.mul(panel.index, lanes))
        where = b.add(b.mul(row.index, out_step), begin)
        store(b, value, out, where)
    b.ret_void()
    return made


def emit_ask(module: ir.Module, pointer: ir.Type) -> ir.Function:
    """Emit ``ask(soon, rows, step, lines, line)``: for so many cache lines of rows, backwards."""
    made, b = function(module, "ask", [pointer, *[I64] * 4])
    soon, rows, step, lines, line = made.args
    with counted(b, rows, [soon]) as row:
        (here,) = row.carried
        row.carried = [place(b, here, b.neg(step))]
        with counted(b, lines) as j:
            prefetch(b, place(b, here, b.mul(j.index, line)), near=2)
    b.ret_void()
    return made
