"""Both sides of a correlation, packed line by line: every point where a table says.

A line has ``head`` points of zeros, ``body`` points that are read and ``tail`` points of zeros.
Point ``i`` is read at ``reads[i]`` and goes to ``places[i]``.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv.codegen.block import Block, Record
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
    transpose,
    zeros,
)
from tconv.codegen.stored import widen_run, widened

Array = npt.NDArray[np.floating]
Table = npt.NDArray[np.int64]


def pack_line_meaning(  # noqa: PLR0913 - the emitted functions' own arguments
    target: Array,
    source: Array,
    tables: tuple[Table, Table],
    counts: tuple[int, int, int],
    channels: tuple[int, int],
    steps: tuple[int, int],
    columns: int,
) -> None:
    """Compute in NumPy what packing computes: planes where ``columns`` is 1, else panels.

    ``channels`` are how many and how far apart their planes, or panels, lie.
    """
    (reads, places), (head, body, tail) = tables, counts
    for c in range(channels[0]):
        plane = target[c // columns * channels[1] + c % columns :]
        for i in range(head + body + tail):
            inside = head <= i < head + body
            value = source[reads[i] * steps[0] + c * steps[1]] if inside else 0
            plane[places[i] * columns] = value


def emit_pack_planes(module: ir.Module, dtype: str, lanes: int) -> ir.Function:
    """Emit ``pack(target, source, reads, places, head, body, tail, channels, pitch, x, c, side)``.

    Points go side by side into planes ``pitch`` apart.  ``side`` tells that reads and places
    both run on by one.
    """
    b, arguments, made = _begin(module, f"pack_side_planes_{dtype}", dtype)
    target, source, reads, places, head, body, tail, channels, pitch, x_step, c_step, side = (
        arguments
    )
    scalar = FLOATS[dtype]
    after = b.add(head, body)
    end = b.add(after, tail)
    with counted(b, channels) as c:
        plane = place(b, target, b.mul(c.index, pitch))
        for first, last in ((number(0), head), (after, end)):
            with counted(b, last, first=first) as point:
                store(b, ir.Constant(scalar, 0.0), plane, load(b, places, point.index))
    neighbours = b.and_(_is(b, side, 1), _is(b, x_step, 1))
    squares = b.and_(_is(b, side, 1), _is(b, c_step, 1))
    squares = b.and_(squares, b.icmp_signed(">", body, number(0)))
    begin = load(b, places, head)
    origin = load(b, reads, head)
    with b.if_else(neighbours) as (copied, others):
        with copied, counted(b, channels) as c:
            plane = place(b, target, b.add(b.mul(c.index, pitch), begin))
            line = place(b, source, b.add(b.mul(c.index, c_step), origin))
            widen_run(b, plane, line, body, dtype, lanes)
        with others:
            mask = b.select(squares, number(-lanes), number(0))
            whole_x, whole_c = b.and_(body, mask), b.and_(channels, mask)
            with counted(b, whole_x, step=lanes) as x:
                line = place(b, source, b.mul(b.add(origin, x.index), x_step))
                points = [place(b, line, b.mul(number(i), x_step)) for i in range(lanes)]
                column = place(b, target, b.add(begin, x.index))
                with counted(b, whole_c, step=lanes) as c:
                    rows = [widened(b, point, c.index, dtype, lanes) for point in points]
                    for i, row in enumerate(transpose(b, rows)):
                        plane = b.mul(b.add(c.index, number(i)), pitch)
                        store(b, row, column, plane)
            with counted(b, channels) as c:
                done = b.select(b.icmp_signed("<", c.index, whole_c), whole_x, number(0))
                plane = place(b, target, b.mul(c.index, pitch))
                line = place(b, source, b.mul(c.index, c_step))
                with counted(b, after, first=b.add(head, done)) as point:
                    value = widened(b, line, b.mul(load(b, reads, point.index), x_step), dtype)
                    store(b, value, plane, load(b, places, point.index))
    b.ret_void()
    return made


def emit_pack_panels(module: ir.Module, dtype: str, lanes: int, columns: int) -> ir.Function:
    """Emit ``pack`` with the same arguments: channels side by side, in panels ``pitch`` apart.

    ``side`` tells that reads run on by one.  Of the last panel's channels that there are none for,
    only points of zeros are written.
    """
    b, arguments, made = _begin(module, f"pack_side_panels_{dtype}", dtype)
    target, source, reads, places, head, body, tail, channels, pitch, x_step, c_step, _ = arguments
    vector = ir.VectorType(FLOATS[dtype], lanes)
    after = b.add(head, body)
    end = b.add(after, tail)
    for first, last in ((number(0), head), (after, end)):
        with counted(b, last, first=first) as i:
            point = place(b, target, b.mul(load(b, places, i.index), number(columns)))
            with counted(b, channels, step=columns) as c:
                panel = place(b, point, b.mul(b.sdiv(c.index, number(columns)), pitch))
                for v in range(0, columns, lanes):
                    store(b, zeros(vector), panel, v)
    with b.if_else(_is(b, c_step, 1)) as (side_by_side, apart):
        with side_by_side, counted(b, after, first=head) as i:
            point = place(b, target, b.mul(load(b, places, i.index), number(columns)))
            read = place(b, source, b.mul(load(b, reads, i.index), x_step))
            whole = b.sub(channels, b.srem(channels, number(columns)))
            with counted(b, whole, [point], step=columns) as c:
                line = place(b, read, c.index)
                for v in range(0, columns, lanes):
                    store(b, widened(b, line, v, dtype, lanes), c.carried[0], v)
                c.carried = [place(b, c.carried[0], pitch)]
            (panel,) = c.carried
            vectors = b.and_(channels, number(-lanes))
            with counted(b, vectors, first=whole, step=lanes) as c:
                store(b, widened(b, read, c.index, dtype, lanes), panel, b.sub(c.index, whole))
            with counted(b, channels, first=vectors) as c:
                store(b, widened(b, read, c.index, dtype), panel, b.sub(c.index, whole))
        with apart:
            _transpose_panels(b, arguments, dtype, lanes, columns)
    b.ret_void()
    return made


def _transpose_panels(
    b: ir.IRBuilder, arguments: Sequence[ir.Value], dtype: str, lanes: int, columns: int
) -> None:
    """Transpose squares where points are neighbours in memory, single elements elsewhere."""
    target, source, reads, places, head, body, _, channels, pitch, x_step, c_step, side = arguments
    after = b.add(head, body)
    squares = b.and_(_is(b, side, 1), _is(b, x_step, 1))
    squares = b.and_(squares, b.icmp_signed(">", body, number(0)))
    mask = b.select(squares, number(-lanes), number(0))
    whole_x, whole_c = b.and_(body, mask), b.and_(channels, mask)
    origin = load(b, reads, head)
    size = number(columns)

    def column(c: ir.Value) -> ir.Value:
        return place(b, target, b.add(b.mul(b.sdiv(c, size), pitch), b.srem(c, size)))

    with counted(b, whole_c, step=lanes) as c:
        line = place(b, source, b.add(b.mul(c.index, c_step), origin))
        planes = [place(b, line, b.mul(number(i), c_step)) for i in range(lanes)]
        into = column(c.index)
        with counted(b, whole_x, step=lanes) as x:
            rows = [widened(b, plane, x.index, dtype, lanes) for plane in planes]
            first = b.add(head, x.index)
            for i, row in enumerate(transpose(b, rows)):
                where = load(b, places, b.add(first, number(i)))
                store(b, row, into, b.mul(where, size))
    with counted(b, channels) as c:
        done = b.select(b.icmp_signed("<", c.index, whole_c), whole_x, number(0))
        into = column(c.index)
        line = place(b, source, b.mul(c.index, c_step))
        with counted(b, after, first=b.add(head, done)) as point:
            value = widened(b, line, b.mul(load(b, reads, point.index), x_step), dtype)
            store(b, value, into, b.mul(load(b, places, point.index), size))


def pack_side(  # noqa: PLR0913 - which side, where from, where to, and by what
    b: ir.IRBuilder,
    r: Record,
    kind: tuple[str, str],
    block: Block,
    pack: ir.Function,
    start: tuple[ir.Value, ir.Value],
    target: tuple[ir.Value, int],
) -> None:
    """Pack all that the block needs of a side, beginning with a group and a channel of it.

    ``target`` is where, and how many channels of a point lie side by side there.
    """
    side, dtype = kind

    def field(name: str) -> ir.Value:
        value: ir.Value = getattr(r, f"{side}_{name}")
        return value

    group, channel = start
    scratch, columns = target
    stored = STORED[dtype].as_pointer()
    offset = b.add(b.mul(group, field("g")), b.mul(channel, field("c")))
    source = place(b, r.pointer_to(f"side_{side}", stored), offset)
    channels = smaller(b, b.sub(field("channels"), channel), field("most"))
    with counted(b, r.outer, [field("combinations")]) as axis:
        d = axis.index
        count = b.sub(load(b, block.stops, d), load(b, block.starts, d))
        extent = b.add(count, r.at(f"{side}_halos", d))
        store(b, extent, block.extents, d)
        axis.carried = [b.mul(axis.carried[0], extent)]
    lines = axis.carried[0]
    first = b.add(b.mul(block.start, field("step")), field("low"))
    limit = smaller(b, field("size"), b.add(b.mul(block.stop, field("step")), field("slack")))
    points = b.add(b.sub(block.stop, block.start), field("halo"))
    points = b.mul(points, field("width"))
    head, body = _count_inside(b, field("reads"), points, (b.neg(first), b.sub(limit, first)))
    tail = b.sub(b.sub(points, head), body)
    with counted(b, lines) as line:
        into, read, valid = _find_line(b, r, side, block, line.index)
        read = b.select(valid, b.add(read, b.mul(first, field("x"))), number(0))
        arguments = [
            place(b, scratch, b.mul(into, number(columns))),
            place(b, source, read),
            *(field(name) for name in ("reads", "places")),
            b.select(valid, head, points),
            b.select(valid, body, number(0)),
            b.select(valid, tail, number(0)),
            channels,
            *(field(name) for name in ("plane", "x", "c", "contiguous")),
        ]
        b.call(pack, arguments)


def _count_inside(
    b: ir.IRBuilder, reads: ir.Value, points: ir.Value, limits: tuple[ir.Value, ir.Value]
) -> tuple[ir.Value, ir.Value]:
    """Return how many points lie before the picture, and how many in it."""
    low, high = limits
    with counted(b, points, [number(0), number(0)]) as i:
        before, inside = i.carried
        read = load(b, reads, i.index)
        early = b.icmp_signed("<", read, low)
        good = b.and_(b.not_(early), b.icmp_signed("<", read, high))
        i.carried = [b.add(before, b.zext(early, I64)), b.add(inside, b.zext(good, I64))]
    before, inside = i.carried
    return before, inside


def _find_line(
    b: ir.IRBuilder, r: Record, side: str, block: Block, index: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return where a line goes, in points, where it comes from, and whether it exists."""
    with counted(b, r.outer, [index, number(0), number(0), number(1)]) as axis:
        d = b.sub(b.sub(r.outer, number(1)), axis.index)
        rest, into, read, valid = axis.carried
        extent = load(b, block.extents, d)
        here = b.srem(rest, extent)
        axis.carried = [
            b.sdiv(rest, extent), b.add(into, b.mul(here, r.at("pitches", d))), read, valid,
        ]  # fmt: skip
    combination, into, *_ = axis.carried
    with counted(b, r.outer, [index, number(0), number(1)]) as axis:
        d = b.sub(b.sub(r.outer, number(1)), axis.index)
        rest, read, valid = axis.carried
        extent = load(b, block.extents, d)
        step = r.at(f"{side}_steps", d)
        point = b.add(load(b, block.starts, d), b.srem(rest, extent))
        residue = r.at(f"{side}_residues", b.add(b.mul(combination, r.outer), d))
        shifted = b.add(r.at(f"{side}_lows", d), residue)
        coordinate = b.add(b.mul(point, step), shifted)
        far = b.add(b.mul(load(b, block.stops, d), step), getattr(r, f"{side}_slack"))
        limit = smaller(b, r.at(f"{side}_sizes", d), far)
        good = b.and_(
            b.icmp_signed(">=", coordinate, number(0)), b.icmp_signed("<", coordinate, limit)
        )
        axis.carried = [
            b.sdiv(rest, extent),
            b.add(read, b.mul(coordinate, r.at(f"{side}_source_steps", d))),
            b.and_(valid, b.zext(good, I64)),
        ]
    _, read, valid = axis.carried
    width = getattr(r, f"{side}_width")
    into = b.add(into, b.mul(b.mul(combination, width), r.plane))
    return into, read, b.icmp_signed("!=", valid, number(0))


def _begin(
    module: ir.Module, name: str, dtype: str
) -> tuple[ir.IRBuilder, Sequence[ir.Value], ir.Function]:
    pointers = [FLOATS[dtype].as_pointer(), STORED[dtype].as_pointer()]
    made, b = function(module, name, [*pointers, *[I64.as_pointer()] * 2, *[I64] * 8])
    for argument in made.args[:4]:
        argument.add_attribute("noalias")
    return b, made.args, made


def _is(b: ir.IRBuilder, value: ir.Value, other: int) -> ir.Value:
    return b.icmp_signed("==", value, number(other))
