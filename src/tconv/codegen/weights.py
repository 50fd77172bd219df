"""Weights packed into panels, in the order that tiles read them."""

from llvmlite import ir

from tconv.codegen.build import FLOATS, I64, counted, load, number, place, store
from tconv.codegen.gather import KernelShape


def emit_pack_weights(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``pack_weights(target, source, taps, count, depth, used, depth_step, column_step,
    panel_step, first) -> finite``, public.

    For each panel of channels (a narrow one of one vector at the end), tap (by its source
    offset) and channel of the depth, write the panel's channels side by side, zeros past the
    last; begin ``first`` rows behind the panel's begin.  Tell whether all of them are finite.
    """
    dtype, columns, lanes = shape.dtype, shape.columns, shape.lanes
    scalar = FLOATS[dtype]
    pointer = scalar.as_pointer()
    kind = ir.FunctionType(I64, [pointer, pointer, I64.as_pointer(), *[I64] * 7])
    made = ir.Function(module, kind, f"pack_weights_{dtype}")
    b = ir.IRBuilder(made.append_basic_block("entry"))
    target, source, taps, count, depth, used, depth_step, column_step, panel_step, first = made.args
    target.add_attribute("noalias")
    source.add_attribute("noalias")
    panels = b.sdiv(b.add(used, number(columns - 1)), number(columns))
    zero = ir.Constant(scalar, 0.0)
    with counted(b, panels, [zero]) as panel:
        channel = b.mul(panel.index, number(columns))
        left = b.sub(used, channel)
        narrow = b.icmp_signed("<=", left, number(lanes))
        width = b.select(narrow, number(lanes), number(columns))
        filled = b.select(b.icmp_signed("<", left, width), left, width)
        out = place(b, target, b.add(b.mul(panel.index, panel_step), b.mul(first, width)))
        base = place(b, source, b.mul(channel, column_step))
        with counted(b, depth, panel.carried) as k:
            line = place(b, base, b.mul(k.index, depth_step))
            with counted(b, count, k.carried) as tap:
                read = place(b, line, load(b, taps, tap.index))
                row = place(b, out, b.mul(b.add(b.mul(tap.index, depth), k.index), width))
                with counted(b, filled, tap.carried) as column:
                    value = load(b, read, b.mul(column.index, column_step))
                    store(b, value, row, column.index)
                    # Zero times a finite number is zero, times any other NaN.
                    column.carried = [b.fadd(column.carried[0], b.fmul(value, zero))]
                tap.carried = column.carried
                with counted(b, width, first=filled) as column:
                    store(b, zero, row, column.index)
            k.carried = tap.carried
        panel.carried = k.carried
    finite = b.fcmp_ordered("ord", panel.carried[0], panel.carried[0])
    b.ret(b.zext(finite, I64))
    return made
