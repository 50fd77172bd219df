"""Panels: lines of points with groups as lanes, packed from any layout and stored in any."""

from dataclasses import dataclass, fields

from llvmlite import ir

from tconv.codegen.block import KernelShape
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
from tconv.codegen.rows import zero_fill
from tconv.codegen.squares import emit_turn_in, emit_turn_out
from tconv.codegen.stored import rounded, widened


@dataclass(frozen=True, slots=True)
class Packing:
    """The numbers that packing a line takes, in order."""

    before: ir.Value  # points of zeros
    count: ir.Value
    after: ir.Value  # points of zeros
    groups: ir.Value  # of the whole array
    first: ir.Value  # panel
    panels: ir.Value
    depth: ir.Value  # channels of a group
    width: ir.Value  # from a channel to the next, packed
    g_step: ir.Value
    c_step: ir.Value
    x_step: ir.Value

    def values(self) -> list[ir.Value]:
        """Return the last arguments of a call."""
        return [getattr(self, field.name) for field in fields(self)]


def emit_pack_groups(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``pack_groups(target, source, ...)`` with the numbers of :class:`Packing`.

    Writes one line, ``[point][channel][panel][lane]``: zeros, ``count`` points, zeros.
    """
    dtype = shape.dtype
    pointers = [FLOATS[dtype].as_pointer(), STORED[dtype].as_pointer()]
    turn = emit_turn_in(module, dtype, shape.lanes)
    made, b = function(module, f"pack_groups_{dtype}", [*pointers, *[I64] * 11])
    target, source, *numbers = made.args
    target.add_attribute("noalias")
    source.add_attribute("noalias")
    p = Packing(*numbers)
    one, lanes = number(1), number(shape.lanes)
    point = b.mul(p.depth, p.width)
    head, body = b.mul(p.before, point), b.mul(p.count, point)
    zero_fill(b, target, head, dtype)
    zero_fill(b, place(b, target, b.add(head, body)), b.mul(p.after, point), dtype)
    inner = place(b, target, head)
    with b.if_else(b.icmp_signed("==", p.g_step, one)) as (side_by_side, apart):
        with side_by_side, counted(b, p.count) as x, counted(b, p.depth) as c:
            read = place(b, source, b.add(b.mul(x.index, p.x_step), b.mul(c.index, p.c_step)))
            write = place(b, inner, b.mul(b.add(b.mul(x.index, p.depth), c.index), p.width))
            with counted(b, p.panels) as panel:
                group = first_group(b, shape, p.groups, b.add(p.first, panel.index))
                value = widened(b, read, group, dtype, shape.lanes)
                store(b, value, write, b.mul(panel.index, lanes))
        with apart, counted(b, p.panels) as panel:
            group = first_group(b, shape, p.groups, b.add(p.first, panel.index))
            read = place(b, source, b.mul(group, p.g_step))
            write = place(b, inner, b.mul(panel.index, lanes))
            with b.if_else(b.icmp_signed("==", p.x_step, one)) as (lines, others):
                with lines:
                    steps = [p.depth, p.width, p.c_step]
                    b.call(turn, [write, read, point, p.g_step, p.count, *steps])
                with others, b.if_else(b.icmp_signed("==", p.c_step, one)) as (matrix, scattered):
                    with matrix:
                        steps = [p.count, point, p.x_step]
                        b.call(turn, [write, read, p.width, p.g_step, p.depth, *steps])
                    with (
                        scattered,
                        counted(b, p.count) as x,
                        counted(b, p.depth) as c,
                        counted(b, lanes) as lane,
                    ):
                        channel = b.add(b.mul(x.index, p.x_step), b.mul(c.index, p.c_step))
                        where = b.add(channel, b.mul(lane.index, p.g_step))
                        value = widened(b, read, where, dtype)
                        k = b.mul(b.add(b.mul(x.index, p.depth), c.index), p.width)
                        store(b, value, write, b.add(k, lane.index))
    b.ret_void()
    return made


def emit_store_groups(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``store_groups(target, sums, count, columns, pitch, g_step, c_step, x_step)``.

    The sums are a line of one panel, ``[point][channel]`` a pitch apart.
    """
    dtype = shape.dtype
    pointers = [STORED[dtype].as_pointer(), FLOATS[dtype].as_pointer()]
    turn = emit_turn_out(module, dtype, shape.lanes)
    made, b = function(module, f"store_groups_{dtype}", [*pointers, *[I64] * 6])
    target, sums, count, columns, pitch, g_step, c_step, x_step = made.args
    target.add_attribute("noalias")
    sums.add_attribute("noalias")
    lanes, point = number(shape.lanes), b.mul(columns, pitch)
    one = number(1)
    with b.if_else(b.icmp_signed("==", x_step, one)) as (lines, others):
        with lines:
            b.call(turn, [target, sums, g_step, point, count, columns, c_step, pitch])
        with others, b.if_else(b.icmp_signed("==", c_step, one)) as (matrix, scattered):
            with matrix:
                b.call(turn, [target, sums, g_step, pitch, columns, count, x_step, point])
            with (
                scattered,
                counted(b, count) as x,
                counted(b, columns) as c,
                counted(b, lanes) as lane,
            ):
                k = b.mul(b.add(b.mul(x.index, columns), c.index), pitch)
                value = rounded(b, load(b, sums, b.add(k, lane.index)), dtype)
                channel = b.add(b.mul(x.index, x_step), b.mul(c.index, c_step))
                store(b, value, target, b.add(channel, b.mul(lane.index, g_step)))
    b.ret_void()
    return made


def first_group(b: ir.IRBuilder, shape: KernelShape, groups: ir.Value, panel: ir.Value) -> ir.Value:
    """Return the group in lane 0: the last panel ends with the last group."""
    lanes = number(shape.lanes)
    return smaller(b, b.mul(panel, lanes), b.sub(groups, lanes))
