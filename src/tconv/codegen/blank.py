"""Points that no tap reaches: where windows are shorter than strides, or dilated by them.

Such results are the bias alone.  Written from one end to the other they take no longer than memory
does; tiles would write a little of every point and come back to it for each panel.
"""

from llvmlite import ir

from tconv.codegen.block import Block, KernelShape, Record
from tconv.codegen.block_lines import each_line, line_ends, stores
from tconv.codegen.build import (
    FLOATS,
    I1,
    I64,
    STORED,
    counted,
    function,
    larger,
    load,
    number,
    place,
    smaller,
    splat,
    store,
    stream,
)
from tconv.codegen.places import Place
from tconv.codegen.stored import covered, if_enough


def emit_fill_lines(module: ir.Module, shape: KernelShape) -> ir.Function | None:
    """Emit ``fill(target, bias, places, lines, count, used, x_step, c_step, past)``.

    ``target[places[line] + x * x_step + c * c_step] = bias[c]`` for so many lines, points and
    channels, past the caches if that is told: then channels lie side by side, in whole vectors.
    There is none for results of 16 bits.
    """
    dtype, lanes = shape.dtype, shape.lanes
    if STORED[dtype] != FLOATS[dtype]:
        return None
    pointer, vector = FLOATS[dtype].as_pointer(), ir.VectorType(FLOATS[dtype], lanes)
    kinds = [pointer, pointer, I64.as_pointer(), *[I64] * 5, I1]
    made, b = function(module, f"fill_lines_{dtype}", kinds)
    target, bias, places, lines, count, used, x_step, c_step, past = made.args
    for argument in made.args[:3]:
        argument.add_attribute("noalias")
    with b.if_then(past):
        with counted(b, lines) as line:
            begin = place(b, target, load(b, places, line.index))
            with counted(b, count) as x, counted(b, used, step=lanes) as c:
                out = place(b, begin, b.mul(x.index, x_step))
                stream(b, load(b, bias, c.index, vector), out, c.index)
        b.ret_void()
    pattern = b.alloca(vector, number(lanes))
    few = b.select(b.icmp_signed("<", used, number(lanes)), used, number(0))
    with counted(b, number(lanes)) as x, counted(b, few) as c:
        element = b.add(b.mul(x.index, used), c.index)
        store(b, load(b, bias, c.index), b.bitcast(pattern, pointer), element)
    with b.if_else(b.icmp_signed("==", c_step, number(1))) as (side_by_side, apart):
        with side_by_side, counted(b, lines) as line:
            begin = place(b, target, load(b, places, line.index))
            done = _fill_few(b, begin, pattern, (count, used, x_step))
            vectors = if_enough(b, used, lanes)
            with counted(b, count, first=done) as x:
                out = place(b, begin, b.mul(x.index, x_step))
                with covered(b, vectors, lanes) as c:
                    store(b, load(b, bias, c, vector), out, c)
                with counted(b, used, first=vectors) as c:
                    store(b, load(b, bias, c.index), out, c.index)
        with apart, counted(b, used) as c:
            plane, value = place(b, target, b.mul(c.index, c_step)), load(b, bias, c.index)
            neighbours = b.icmp_signed("==", x_step, number(1))
            vectors = b.select(neighbours, if_enough(b, count, lanes), number(0))
            with counted(b, lines) as line:
                out = place(b, plane, load(b, places, line.index))
                with covered(b, vectors, lanes) as x:
                    store(b, splat(b, value, lanes), out, x)
                with counted(b, count, first=vectors) as x:
                    store(b, value, out, b.mul(x.index, x_step))
    b.ret_void()
    return made


def _fill_few(
    b: ir.IRBuilder,
    begin: ir.Value,
    pattern: ir.Value,
    sizes: tuple[ir.Value, ir.Value, ir.Value],
) -> ir.Value:
    """Fill points of fewer channels than lanes, if nothing lies between them; return how many.

    The pattern is so many of them, as many vectors as a point has channels.
    """
    count, used, x_step = sizes
    lanes = pattern.type.pointee.count
    tight = b.icmp_signed("==", x_step, used)
    tight = b.and_(tight, b.icmp_signed("<", used, number(lanes)))
    whole = b.select(tight, b.and_(count, number(-lanes)), number(0))
    with counted(b, whole, step=lanes) as x, counted(b, used) as v:
        out = b.add(b.mul(x.index, used), b.mul(v.index, number(lanes)))
        store(b, b.load(place(b, pattern, v.index)), begin, out)
    return whole


def is_blank(b: ir.IRBuilder, r: Record, phase: ir.Value) -> ir.Value:
    """Tell whether an outer phase has no weights at all, and nothing changes the bias."""
    none = b.icmp_signed("==", r.at("panel_weights", phase), number(0))
    return b.and_(none, b.icmp_signed("==", r.activate, number(0)))


def fill_lines(  # noqa: PLR0913 - which panels of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    fill: ir.Function,
    block: Block,
    where: Place,
    numbers: tuple[ir.Value, ir.Value, ir.Value, ir.Value],
) -> None:
    """Fill the lines of a phase that no tap reaches, all phases of the last axis together."""
    phase, lines, first, last = numbers
    channel = b.mul(first, number(shape.columns))
    used = b.sub(smaller(b, r.columns, b.mul(last, number(shape.columns))), channel)
    _, begin, length = line_ends(b, r, block)
    start = b.add(b.mul(begin, r.target_x), b.mul(channel, r.target_c))
    with each_line(b, r, block, lines, stores(b, r, block, phase, start)) as (line, (offset,)):
        store(b, offset, where.targets, line)
    beside = b.icmp_signed("==", r.target_c, number(1))
    whole = b.icmp_signed("==", b.srem(used, number(shape.lanes)), number(0))
    past = b.and_(where.past, b.and_(beside, whole))
    sizes = [lines, length, used, r.target_x, r.target_c, past]
    b.call(fill, [where.target, place(b, where.bias, channel), where.targets, *sizes])


def fill_points(  # noqa: PLR0913 - which panels of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    fill: ir.Function,
    where: Place,
    phase: ir.Value,
    panels: tuple[ir.Value, ir.Value],
) -> None:
    """Fill the points of phases of the last axis that no tap reaches.

    Those of whole vectors of channels, which tiles would write to the target themselves.
    """
    first, last = panels
    channel = b.mul(first, number(shape.columns))
    used = larger(b, b.sub(_whole(b, r, shape, last), channel), number(0))
    plain = b.and_(
        b.icmp_signed("==", r.activate, number(0)), b.icmp_signed("==", r.target_c, number(1))
    )
    target, bias = (place(b, array, channel) for array in (where.target, where.bias))
    with b.if_then(b.and_(plain, b.icmp_signed(">", used, number(0)))), counted(b, r.phases) as x:
        both = b.add(b.mul(phase, r.phases), x.index)
        none = b.icmp_signed("==", r.at("segment_count", both), number(0))
        points = load(b, where.counts, x.index)
        places = place(b, where.targets, b.mul(x.index, r.points))
        numbers = [points, number(1), used, number(0), number(1), where.past]
        with b.if_then(none):
            b.call(fill, [target, bias, places, *numbers])


def fill_whole_lines(  # noqa: PLR0913 - which lines of what
    b: ir.IRBuilder,
    r: Record,
    fill: ir.Function,
    block: Block,
    ends: tuple[ir.Value, ir.Value, ir.Value],
    sizes: tuple[ir.Value, ir.Value],
) -> None:
    """Fill lines of a block from end to end: to the target, with the bias, at places of lines.

    The sizes are how many lines, and how many channels.
    """
    target, bias, places = ends
    lines, used = sizes
    _, begin, length = line_ends(b, r, block)
    first = place(b, target, b.mul(begin, r.target_x))
    steps = [r.target_x, r.target_c, ir.Constant(I1, 0)]
    b.call(fill, [first, bias, places, lines, length, used, *steps])


def _whole(b: ir.IRBuilder, r: Record, shape: KernelShape, last: ir.Value) -> ir.Value:
    """Return how many channels panels before the last have, if they fill a vector."""
    fits = b.icmp_signed(">=", r.columns, number(shape.lanes))
    return smaller(b, b.select(fits, r.columns, number(0)), b.mul(last, number(shape.columns)))
