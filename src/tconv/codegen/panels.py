"""Panels: lines of points with groups as lanes, packed from any layout and stored in any."""

from dataclasses import dataclass, fields

from llvmlite import ir

from tconv.codegen.block import KernelShape
from tconv.codegen.build import (
    FLOATS,
    I64,
    LINE,
    STORED,
    STORED_BYTES,
    counted,
    function,
    larger,
    load,
    number,
    place,
    prefetch,
    smaller,
    store,
)
from tconv.codegen.rows import zero_fill
from tconv.codegen.squares import emit_turn_in, emit_turn_out
from tconv.codegen.stored import rounded, widened

AHEAD = 8  # points: how long before they are packed they are asked for
AT_ONCE = 4  # points of one panel, or panels of one point, that are packed together


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
    rows = smaller(b, p.groups, lanes)
    point = b.mul(p.depth, p.width)
    head, body = b.mul(p.before, point), b.mul(p.count, point)
    zero_fill(b, target, head, dtype)
    zero_fill(b, place(b, target, b.add(head, body)), b.mul(p.after, point), dtype)
    inner = place(b, target, head)
    with b.if_else(b.icmp_signed("==", p.g_step, one)) as (side_by_side, apart):
        with side_by_side:
            _pack_beside(b, shape, p, (inner, source, rows))
        with apart, counted(b, p.panels) as panel:
            group = first_group(b, shape, p.groups, b.add(p.first, panel.index))
            read = place(b, source, b.mul(group, p.g_step))
            write = place(b, inner, b.mul(panel.index, lanes))
            with b.if_else(b.icmp_signed("==", p.x_step, one)) as (lines, others):
                with lines:
                    steps = [p.depth, p.width, p.c_step]
                    b.call(turn, [write, read, rows, point, p.g_step, p.count, *steps])
                with others, b.if_else(b.icmp_signed("==", p.c_step, one)) as (matrix, scattered):
                    with matrix:
                        steps = [p.count, point, p.x_step]
                        b.call(turn, [write, read, rows, p.width, p.g_step, p.depth, *steps])
                    with (
                        scattered,
                        counted(b, p.count) as x,
                        counted(b, p.depth) as c,
                        counted(b, rows) as lane,
                    ):
                        channel = b.add(b.mul(x.index, p.x_step), b.mul(c.index, p.c_step))
                        where = b.add(channel, b.mul(lane.index, p.g_step))
                        value = widened(b, read, where, dtype)
                        k = b.mul(b.add(b.mul(x.index, p.depth), c.index), p.width)
                        store(b, value, write, b.add(k, lane.index))
    b.ret_void()
    return made


def _pack_beside(
    b: ir.IRBuilder,
    shape: KernelShape,
    p: Packing,
    ends: tuple[ir.Value, ir.Value, ir.Value],
) -> None:
    """Pack points whose groups lie side by side, so many of the first panel's."""
    inner, source, rows = ends
    dtype, lanes = shape.dtype, number(shape.lanes)
    whole = _whole_vectors(b, shape, rows, p.count, p.x_step)
    alone = b.icmp_signed("==", b.mul(p.panels, p.depth), number(1))
    done = b.select(alone, b.and_(whole, number(-AT_ONCE)), number(0))
    group = first_group(b, shape, p.groups, p.first)
    with counted(b, done, step=AT_ONCE) as x:
        for point_of in range(AT_ONCE):
            index = b.add(x.index, number(point_of))
            value = widened(b, source, b.add(b.mul(index, p.x_step), group), dtype, shape.lanes)
            store(b, value, inner, b.mul(index, p.width))
    # All but the last panel of all lie one behind the other.
    left = larger(b, b.sub(b.sdiv(p.groups, lanes), p.first), number(0))
    beside = b.and_(smaller(b, left, p.panels), number(-AT_ONCE))
    with counted(b, p.count, first=done) as x, counted(b, p.depth) as c:
        read = place(b, source, b.add(b.mul(x.index, p.x_step), b.mul(c.index, p.c_step)))
        write = place(b, inner, b.mul(b.add(b.mul(x.index, p.depth), c.index), p.width))
        with b.if_else(b.icmp_signed("<", x.index, whole), likely=True) as (most, last):
            with most:
                begin = place(b, read, b.mul(p.first, lanes))
                with counted(b, beside, step=AT_ONCE) as panel:
                    here = b.mul(panel.index, lanes)
                    soon = place(b, begin, b.add(here, b.mul(p.x_step, number(AHEAD))))
                    item = STORED_BYTES[dtype]
                    for element in range(0, AT_ONCE * shape.lanes, LINE // item):
                        prefetch(b, place(b, soon, element))
                    some = [b.add(here, number(k * shape.lanes)) for k in range(AT_ONCE)]
                    values = [widened(b, begin, k, dtype, shape.lanes) for k in some]
                    for k, value in zip(some, values, strict=True):
                        store(b, value, write, k)
                with counted(b, p.panels, first=beside) as panel:
                    group = first_group(b, shape, p.groups, b.add(p.first, panel.index))
                    value = widened(b, read, group, dtype, shape.lanes)
                    store(b, value, write, b.mul(panel.index, lanes))
            with last, counted(b, rows) as lane:
                store(b, widened(b, read, lane.index, dtype), write, lane.index)


def emit_store_groups(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``store_groups(target, sums, groups, count, columns, pitch, g_step, c_step, x_step)``.

    The sums are a line of one panel, ``[point][channel]`` a pitch apart.
    """
    dtype = shape.dtype
    pointers = [STORED[dtype].as_pointer(), FLOATS[dtype].as_pointer()]
    turn = emit_turn_out(module, dtype, shape.lanes)
    made, b = function(module, f"store_groups_{dtype}", [*pointers, *[I64] * 7])
    target, sums, groups, count, columns, pitch, g_step, c_step, x_step = made.args
    target.add_attribute("noalias")
    sums.add_attribute("noalias")
    lanes, point = number(shape.lanes), b.mul(columns, pitch)
    one, rows = number(1), smaller(b, groups, lanes)
    # Few groups of a point are written with what follows it, which is written after it.
    dense = b.and_(b.icmp_signed("==", x_step, rows), b.icmp_signed("==", columns, one))
    vectors = b.or_(dense, b.icmp_signed("==", rows, lanes))
    vectors = b.and_(vectors, b.icmp_signed("==", g_step, one))
    kind = ir.VectorType(FLOATS[dtype], shape.lanes)
    with b.if_then(vectors):
        whole = _whole_vectors(b, shape, rows, count, x_step)
        with counted(b, count) as x, counted(b, columns) as c:
            mine = place(b, sums, b.mul(b.add(b.mul(x.index, columns), c.index), pitch))
            to = place(b, target, b.add(b.mul(x.index, x_step), b.mul(c.index, c_step)))
            with b.if_else(b.icmp_signed("<", x.index, whole), likely=True) as (most, last):
                with most:
                    store(b, rounded(b, load(b, mine, 0, kind), dtype), to)
                with last, counted(b, rows) as lane:
                    store(b, rounded(b, load(b, mine, lane.index), dtype), to, lane.index)
        b.ret_void()
    with b.if_else(b.icmp_signed("==", x_step, one)) as (lines, others):
        with lines:
            b.call(turn, [target, sums, rows, g_step, point, count, columns, c_step, pitch])
        with others, b.if_else(b.icmp_signed("==", c_step, one)) as (matrix, scattered):
            with matrix:
                b.call(turn, [target, sums, rows, g_step, pitch, columns, count, x_step, point])
            with (
                scattered,
                counted(b, count) as x,
                counted(b, columns) as c,
                counted(b, rows) as lane,
            ):
                k = b.mul(b.add(b.mul(x.index, columns), c.index), pitch)
                value = rounded(b, load(b, sums, b.add(k, lane.index)), dtype)
                channel = b.add(b.mul(x.index, x_step), b.mul(c.index, c_step))
                store(b, value, target, b.add(channel, b.mul(lane.index, g_step)))
    b.ret_void()
    return made


def first_group(b: ir.IRBuilder, shape: KernelShape, groups: ir.Value, panel: ir.Value) -> ir.Value:
    """Return the group in lane 0: the last panel ends with the last group, if there are enough."""
    lanes = number(shape.lanes)
    latest = larger(b, b.sub(groups, lanes), number(0))
    return smaller(b, b.mul(panel, lanes), latest)


def _whole_vectors(
    b: ir.IRBuilder, shape: KernelShape, rows: ir.Value, count: ir.Value, x_step: ir.Value
) -> ir.Value:
    """Return of how many points whole vectors lie before the end of a line.

    Fewer groups than lanes are moved together with what lies behind them.
    """
    lanes = number(shape.lanes)
    step = larger(b, x_step, number(1))
    left = b.sub(b.add(b.mul(b.sub(count, number(1)), step), rows), lanes)
    found = b.add(b.sdiv(left, step), number(1))
    none = b.or_(b.icmp_signed("<", left, number(0)), b.icmp_signed("<", x_step, number(1)))
    return b.select(b.icmp_signed("==", rows, lanes), count, b.select(none, number(0), found))
