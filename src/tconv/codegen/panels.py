"""Panels: lines of points with groups as lanes, packed from any layout and stored in any."""

from dataclasses import dataclass, fields

from llvmlite import ir

from tconv.codegen.block import KernelShape
from tconv.codegen.build import (
    FLOATS,
    I64,
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
    pointer = FLOATS[shape.dtype].as_pointer()
    turn = emit_turn_in(module, shape.dtype, shape.lanes)
    made, b = function(module, f"pack_groups_{shape.dtype}", [pointer, pointer, *[I64] * 11])
    target, source, *numbers = made.args
    target.add_attribute("noalias")
    source.add_attribute("noalias")
    p = Packing(*numbers)
    vector = ir.VectorType(FLOATS[shape.dtype], shape.lanes)
    one, lanes = number(1), number(shape.lanes)
    point = b.mul(p.depth, p.width)
    head, body = b.mul(p.before, point), b.mul(p.count, point)
    zero_fill(b, target, head, shape.dtype)
    zero_fill(b, place(b, target, b.add(head, body)), b.mul(p.after, point), shape.dtype)
    inner = place(b, target, head)
    with b.if_else(b.icmp_signed("==", p.g_step, one)) as (side_by_side, apart):
        with side_by_side, counted(b, p.count) as x, counted(b, p.depth) as c:
            read = place(b, source, b.add(b.mul(x.index, p.x_step), b.mul(c.index, p.c_step)))
            write = place(b, inner, b.mul(b.add(b.mul(x.index, p.depth), c.index), p.width))
            with counted(b, p.panels) as panel:
                group = first_group(b, shape, p.groups, b.add(p.first, panel.index))
                store(b, load(b, read, group, vector), write, b.mul(panel.index, lanes))
        with apart, counted(b, p.panels) as panel:
            group = first_group(b, shape, p.groups, b.add(p.first, panel.index))
            read = place(b, source, b.mul(group, p.g_step))
            write = place(b, inner, b.mul(panel.index, lanes))
            with b.if_else(b.icmp_signed("==", p.x_step, one)) as (lines, others):
                with lines, counted(b, p.depth) as c:
                    to = place(b, write, b.mul(c.index, p.width))
                    plane = place(b, read, b.mul(c.index, p.c_step))
                    b.call(turn, [to, point, plane, p.g_step, p.count])
                with others, counted(b, p.count) as x:
                    to = place(b, write, b.mul(x.index, point))
                    here = place(b, read, b.mul(x.index, p.x_step))
                    with b.if_else(b.icmp_signed("==", p.c_step, one)) as (matrix, scattered):
                        with matrix:
                            b.call(turn, [to, p.width, here, p.g_step, p.depth])
                        with scattered, counted(b, p.depth) as c, counted(b, lanes) as lane:
                            k = b.add(b.mul(c.index, p.width), lane.index)
                            moved = b.add(b.mul(c.index, p.c_step), b.mul(lane.index, p.g_step))
                            store(b, load(b, here, moved), to, k)
    b.ret_void()
    return made


def emit_store_groups(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``store_groups(target, sums, count, columns, pitch, g_step, c_step, x_step)``.

    The sums are a line of one panel, ``[point][channel]`` a pitch apart.
    """
    pointer = FLOATS[shape.dtype].as_pointer()
    turn = emit_turn_out(module, shape.dtype, shape.lanes)
    made, b = function(module, f"store_groups_{shape.dtype}", [pointer, pointer, *[I64] * 6])
    target, sums, count, columns, pitch, g_step, c_step, x_step = made.args
    target.add_attribute("noalias")
    sums.add_attribute("noalias")
    lanes, point = number(shape.lanes), b.mul(columns, pitch)
    one = number(1)
    with b.if_else(b.icmp_signed("==", x_step, one)) as (lines, others):
        with lines, counted(b, columns) as c:
            plane = place(b, target, b.mul(c.index, c_step))
            b.call(turn, [plane, g_step, place(b, sums, b.mul(c.index, pitch)), point, count])
        with others, counted(b, count) as x:
            to = place(b, target, b.mul(x.index, x_step))
            here = place(b, sums, b.mul(x.index, point))
            with b.if_else(b.icmp_signed("==", c_step, one)) as (matrix, scattered):
                with matrix:
                    b.call(turn, [to, g_step, here, pitch, columns])
                with scattered, counted(b, columns) as c, counted(b, lanes) as lane:
                    k = b.add(b.mul(c.index, pitch), lane.index)
                    moved = b.add(b.mul(c.index, c_step), b.mul(lane.index, g_step))
                    store(b, load(b, here, k), to, moved)
    b.ret_void()
    return made


def first_group(b: ir.IRBuilder, shape: KernelShape, groups: ir.Value, panel: ir.Value) -> ir.Value:
    """Return the group in lane 0: the last panel ends with the last group."""
    lanes = number(shape.lanes)
    return smaller(b, b.mul(panel, lanes), b.sub(groups, lanes))
