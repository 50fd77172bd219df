"""Weights packed into panels, in the order that tiles read them."""

from llvmlite import ir

from tconv.codegen.block import KernelShape, Record
from tconv.codegen.build import (
    I1,
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
from tconv.codegen.stored import line_place
from tconv.plan.weights import ARRAYS, CELL_ARRAYS, CELL_FIELDS, FIELDS, NOWHERE

EXPONENTS = {
    "float16": 0x7C00,
    "bfloat16": 0x7F80,
    "float32": 0x7F80_0000,
    "float64": 0x7FF0_0000_0000_0000,
}


def emit_pack_weights(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``pack_weights(record, scratch, item)``, public.

    An item is one panel of one run of one group: for each tap (by its source offset) and
    channel of the depth, the panel's channels side by side, zeros past the last.  A panel of
    at most one vector's channels is narrow.  The flag is raised if any weight is not finite.
    """
    kind = STORED[shape.dtype]
    pointer = kind.as_pointer()
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
    source = place(b, r.pointer_to("source", pointer), origin)
    taps = place(b, r.tap_offsets, r.at("tap_starts", run))
    zero = ir.Constant(kind, 0)
    with counted(b, r.depth, [ir.Constant(I1, 0)]) as k:
        line = place(b, source, b.mul(k.index, r.depth_step))
        with counted(b, r.at("tap_counts", run), k.carried) as tap:
            read = place(b, line, load(b, taps, tap.index))
            row = place(b, target, b.mul(b.add(b.mul(tap.index, r.depth), k.index), width))
            with counted(b, filled, tap.carried) as column:
                value = load(b, read, b.mul(column.index, r.column_step))
                store(b, value, row, _place(b, shape, column.index, narrow))
                column.carried = [b.or_(column.carried[0], _endless(b, value, shape.dtype))]
            tap.carried = column.carried
            with counted(b, width, first=filled) as column:
                store(b, zero, row, _place(b, shape, column.index, narrow))
        k.carried = tap.carried
    with b.if_then(k.carried[0], likely=False):
        store(b, number(1), r.pointer_to("flag", I64.as_pointer()))
    b.ret_void()
    return made


def emit_pack_cells(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``pack_cells(record, scratch, item)``, public.

    An item is one panel for one neighbour of one group: for each channel of the depth the
    panel's columns side by side, each from where the table says.
    """
    kind = STORED[shape.dtype]
    pointer = kind.as_pointer()
    made, b = function(
        module, f"pack_cells_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    r = Record(b, made.args[0], CELL_FIELDS, CELL_ARRAYS)
    panel, rest = b.srem(made.args[2], r.panels), b.sdiv(made.args[2], r.panels)
    neighbour, group = b.srem(rest, r.neighbours), b.sdiv(rest, r.neighbours)
    wide = b.icmp_signed("<", panel, r.wide_panels)
    width = b.select(wide, number(shape.columns), number(shape.lanes))
    rows = b.mul(r.neighbours, r.depth)
    behind = b.add(
        b.mul(b.mul(panel, rows), number(shape.columns)),
        b.mul(b.mul(neighbour, r.depth), width),
    )
    begin = b.add(b.mul(group, r.group_weights), behind)
    target = place(b, r.pointer_to("target", pointer), begin)
    source = place(b, r.pointer_to("source", pointer), b.mul(group, r.group_step))
    columns = b.mul(b.add(b.mul(neighbour, r.panels), panel), number(shape.columns))
    offsets = place(b, r.offsets, columns)
    with counted(b, width, [ir.Constant(I1, 0)]) as column:
        offset = load(b, offsets, column.index)
        here = _place(b, shape, column.index, b.not_(wide))
        there = b.icmp_signed("!=", offset, number(NOWHERE))
        line = place(b, source, b.select(there, offset, number(0)))
        with counted(b, r.depth, column.carried) as k:
            read = load(b, line, b.mul(k.index, r.depth_step))
            value = b.select(there, read, ir.Constant(kind, 0))
            store(b, value, target, b.add(b.mul(k.index, width), here))
            k.carried = [b.or_(k.carried[0], _endless(b, value, shape.dtype))]
        column.carried = k.carried
    with b.if_then(column.carried[0], likely=False):
        store(b, number(1), r.pointer_to("flag", I64.as_pointer()))
    b.ret_void()
    return made


def _place(b: ir.IRBuilder, shape: KernelShape, column: ir.Value, narrow: ir.Value) -> ir.Value:
    """Return where in a line of its panel a column lies."""
    wide = line_place(b, column, shape.dtype, (shape.vectors, shape.lanes))
    return b.select(narrow, column, wide)


def _endless(b: ir.IRBuilder, value: ir.Value, dtype: str) -> ir.Value:
    """Tell whether a stored element is an infinity or NaN: all bits of its exponent are set."""
    bits = b.bitcast(value, ir.IntType(EXPONENTS[dtype].bit_length() + 1))
    mask = ir.Constant(bits.type, EXPONENTS[dtype])
    return b.icmp_signed("==", b.and_(bits, mask), mask)
