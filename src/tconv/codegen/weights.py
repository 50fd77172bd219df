"""Weights packed into panels, in the order that tiles read them."""

from llvmlite import ir

from tconv.codegen.block import KernelShape, Record
from tconv.codegen.build import (
    FLOATS,
    I64,
    STORED,
    counted,
    function,
    load,
    number,
    place,
    smaller,
    store,
)
from tconv.codegen.stored import widened
from tconv.plan.weights import ARRAYS, FIELDS


def emit_pack_weights(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``pack_weights(record, scratch, item)``, public.

    An item is one panel of one run of one group: for each tap (by its source offset) and
    channel of the depth, the panel's channels side by side, zeros past the last.  A panel of
    at most one vector's channels is narrow.  The flag is raised if any weight is not finite.
    """
    scalar = FLOATS[shape.dtype]
    pointer = scalar.as_pointer()
    made, b = function(
        module, f"pack_weights_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    r = Record(b, made.args[0], FIELDS, ARRAYS)
    panel, rest = b.srem(made.args[2], r.panels), b.sdiv(made.args[2], r.panels)
    run, group = b.srem(rest, r.runs), b.sdiv(rest, r.runs)
    channel = b.mul(panel, number(shape.columns))
    left = b.sub(r.columns, channel)
    narrow = b.icmp_signed("<=", left, number(shape.lanes))
    width = b.select(narrow, number(shape.lanes), number(shape.columns))
    filled = smaller(b, left, width)
    behind = b.add(b.mul(panel, r.at("panel_steps", run)), b.mul(r.at("first_rows", run), width))
    begin = b.add(b.mul(group, r.group_weights), b.add(r.at("starts", run), behind))
    target = place(b, r.pointer_to("target", pointer), begin)
    origin = b.add(b.mul(group, r.group_step), b.mul(channel, r.column_step))
    stored = STORED[shape.dtype].as_pointer()
    source = place(b, r.pointer_to("source", stored), origin)
    taps = place(b, r.tap_offsets, r.at("tap_starts", run))
    zero = ir.Constant(scalar, 0.0)
    with counted(b, r.depth, [zero]) as k:
        line = place(b, source, b.mul(k.index, r.depth_step))
        with counted(b, r.at("tap_counts", run), k.carried) as tap:
            read = place(b, line, load(b, taps, tap.index))
            row = place(b, target, b.mul(b.add(b.mul(tap.index, r.depth), k.index), width))
            with counted(b, filled, tap.carried) as column:
                value = widened(b, read, b.mul(column.index, r.column_step), shape.dtype)
                store(b, value, row, column.index)
                # Zero times a finite number is zero, times any other NaN.
                column.carried = [b.fadd(column.carried[0], b.fmul(value, zero))]
            tap.carried = column.carried
            with counted(b, width, first=filled) as column:
                store(b, zero, row, column.index)
        k.carried = tap.carried
    total = k.carried[0]
    with b.if_then(b.fcmp_unordered("uno", total, total), likely=False):
        store(b, number(1), r.pointer_to("flag", I64.as_pointer()))
    b.ret_void()
    return made
