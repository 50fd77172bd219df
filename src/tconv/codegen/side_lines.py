"""Lines of both sides of a correlation, packed: every point where a table says.

A line has ``head`` points of zeros, ``body`` points that are read and ``tail`` points of zeros.
Point ``i`` is read at ``reads[i]`` and goes to ``places[i]``.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv.codegen.build import (
    FLOATS,
    I64,
    STORED,
    STORED_BYTES,
    counted,
    function,
    load,
    number,
    place,
    prefetch,
    prefetch_lines,
    store,
    zeros,
)
from tconv.codegen.rows import zero_fill
from tconv.codegen.squares import AHEAD as FURTHER
from tconv.codegen.squares import sizes, turned_in, turned_out
from tconv.codegen.stored import covered, if_enough, widen, widen_run, widened

Array = npt.NDArray[np.floating]
Table = npt.NDArray[np.int64]

AHEAD = 16  # points, until they come from memory


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
    """Emit ``pack(target, source, reads, places, head, body, tail, channels, pitch, x, c, ...)``.

    Points go side by side into planes ``pitch`` apart.  Two more arguments tell of points that
    are read one after another: how many residues there are, each going to a plane of its
    own, and how far apart those planes lie.  No residue at all tells that only the tables know;
    else nobody reads them.
    """
    b, arguments, made = _begin(module, f"pack_side_planes_{dtype}", dtype)
    target, source, _, _, head, body, tail, channels, pitch, x_step, c_step, width, *_ = arguments
    beside = arguments[-1]
    scalar = FLOATS[dtype]
    after = b.add(head, body)
    end = b.add(after, tail)
    among = b.icmp_signed(">", beside, number(1))
    with b.if_then(among):
        _pack_among(b, arguments, dtype, lanes)
        b.ret_void()
    with counted(b, channels) as c:
        plane = place(b, target, b.mul(c.index, pitch))
        for first, last in ((number(0), head), (after, end)):
            with counted(b, last, first=first) as point:
                _, where = _read_and_place(b, arguments, point.index)
                store(b, ir.Constant(scalar, 0.0), plane, where)
    side = b.and_(_is(b, width, 1), _is(b, x_step, 1))
    with b.if_then(b.icmp_signed(">", body, number(0))), b.if_else(side) as (copied, others):
        with copied, counted(b, channels) as c:
            plane = place(b, target, b.add(b.mul(c.index, pitch), head))
            line = b.add(b.mul(c.index, c_step), head)
            widen_run(b, plane, place(b, source, line), body, dtype, lanes)
        with others:
            first, last = _split_residues(b, arguments, dtype, lanes)
            _pack_points(b, arguments, dtype, ((head, first), (last, after)))
    b.ret_void()
    return made


def _pack_among(b: ir.IRBuilder, arguments: Sequence[ir.Value], dtype: str, lanes: int) -> None:
    """Pack points one after another, the channels of each side by side."""
    target, source, _, _, head, body, tail, *_, x_step, c_step, _, _, beside = arguments
    zero_fill(b, target, b.mul(head, beside), dtype)
    into = place(b, target, b.mul(head, beside))
    read = place(b, source, b.mul(head, x_step))
    count = b.mul(body, beside)
    whole = b.and_(_is(b, c_step, 1), b.icmp_signed("==", x_step, beside))
    with b.if_else(whole) as (copied, others):
        with copied:
            widen_run(b, into, read, count, dtype, lanes)
        with others, counted(b, body) as point, counted(b, beside) as c:
            line = place(b, read, b.mul(point.index, x_step))
            value = widened(b, line, b.mul(c.index, c_step), dtype)
            store(b, value, place(b, into, b.mul(point.index, beside)), c.index)
    zero_fill(b, place(b, into, count), b.mul(tail, beside), dtype)


def _split_residues(
    b: ir.IRBuilder, arguments: Sequence[ir.Value], dtype: str, lanes: int
) -> tuple[ir.Value, ir.Value]:
    """Pack vectors of points of one residue; return the first point packed and the one behind.

    What lies side by side in memory, residues or channels, are rows of squares.
    """
    target, source, _, _, head, body, _, channels, pitch, x_step, c_step, width, plane, _ = (
        arguments
    )
    known = b.icmp_signed(">", width, number(0))
    divisor = b.select(known, width, number(1))
    first = b.sdiv(b.sub(b.add(head, divisor), number(1)), divisor)
    count = b.sub(b.sdiv(b.add(head, body), divisor), first)
    enough = b.and_(known, b.icmp_signed(">=", count, number(lanes)))
    neighbours = _is(b, x_step, 1)
    enough = b.and_(enough, b.or_(neighbours, _is(b, c_step, 1)))
    with b.if_then(enough):
        into = place(b, target, first)
        origin = place(b, source, b.mul(b.mul(first, width), x_step))
        row_step = b.mul(width, x_step)
        # Rows of residues, for each channel; or rows of channels, for each residue.
        times, length = (
            b.select(neighbours, one, other)
            for one, other in ((channels, width), (width, channels))
        )
        steps = [
            b.select(neighbours, one, other) for one, other in ((pitch, plane), (c_step, x_step))
        ]
        apart = b.select(neighbours, plane, pitch)
        with counted(b, times, [into, origin]) as turn:
            to, read = turn.carried
            with covered(b, count, lanes) as q:
                begin = place(b, read, b.mul(q, row_step))
                rows = [place(b, begin, b.mul(number(i), row_step)) for i in range(lanes)]
                column = place(b, to, q)
                for size in sizes(lanes):
                    done = b.and_(length, number(0 if size == lanes else -2 * size))
                    whole = b.and_(length, number(-size))
                    with counted(b, whole, first=done, step=size) as j:
                        starts = [place(b, row, j.index) for row in rows]
                        for i, vector in enumerate(turned_in(b, starts, size)):
                            value = (
                                vector
                                if STORED[dtype] == FLOATS[dtype]
                                else widen(b, vector, dtype)
                            )
                            store(b, value, column, b.mul(b.add(j.index, number(i)), apart))
            turn.carried = [place(b, to, steps[0]), place(b, read, steps[1])]
    done = b.select(enough, count, number(0))
    begin = b.select(enough, b.mul(first, width), head)
    return begin, b.add(begin, b.mul(done, width))


def _pack_points(
    b: ir.IRBuilder,
    arguments: Sequence[ir.Value],
    dtype: str,
    pieces: Sequence[tuple[ir.Value, ir.Value]],
) -> None:
    """Pack single points of planes."""
    target, source, _, _, _, _, _, channels, pitch, x_step, c_step, *_ = arguments
    for first, last in pieces:
        with counted(b, last, first=first) as point:
            read, where = _read_and_place(b, arguments, point.index)
            read = b.mul(read, x_step)
            with counted(b, channels) as c:
                line = place(b, source, b.mul(c.index, c_step))
                value = widened(b, line, read, dtype)
                store(b, value, place(b, target, b.mul(c.index, pitch)), where)


def _read_and_place(
    b: ir.IRBuilder, arguments: Sequence[ir.Value], point: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return where a point of planes is read, and where it goes: computed, or by the tables."""
    reads, places, width, plane = arguments[2], arguments[3], *arguments[11:13]
    known = b.icmp_signed(">", width, number(0))
    divisor = b.select(known, width, number(1))
    index = b.select(known, number(0), point)
    quotient, residue = b.sdiv(point, divisor), b.srem(point, divisor)
    where = b.add(quotient, b.mul(residue, plane))
    read = b.select(known, point, load(b, reads, index))
    return read, b.select(known, where, load(b, places, index))


def emit_pack_panels(module: ir.Module, dtype: str, lanes: int, columns: int) -> ir.Function:
    """Emit ``pack`` with the same arguments: channels side by side, in panels ``pitch`` apart.

    Of the last panel's channels that there are none for, only points of zeros are written.
    """
    b, arguments, made = _begin(module, f"pack_side_panels_{dtype}_{columns}", dtype)
    target, source, reads, places, head, body, tail, channels, pitch, x_step, c_step, *_ = arguments
    after = b.add(head, body)
    end = b.add(after, tail)
    size = number(columns)
    whole = b.sub(channels, b.srem(channels, size))
    rest = b.sub(channels, whole)
    for first, last in ((number(0), head), (after, end)):
        with counted(b, last, first=first) as i:
            point = place(b, target, b.mul(load(b, places, i.index), size))
            with counted(b, channels, [point], step=columns) as c:
                for v, wide in _whole_pieces(columns, lanes):
                    store(b, zeros(ir.VectorType(FLOATS[dtype], wide)), c.carried[0], v)
                c.carried = [place(b, c.carried[0], pitch)]
    with b.if_else(_is(b, c_step, 1)) as (side_by_side, apart):
        with side_by_side, counted(b, after, first=head) as i:
            point = place(b, target, b.mul(load(b, places, i.index), size))
            read = place(b, source, b.mul(load(b, reads, i.index), x_step))
            with counted(b, whole, [point], step=columns) as c:
                line = place(b, read, c.index)
                later = place(b, line, b.mul(number(AHEAD), x_step))
                prefetch_lines(b, later, columns, STORED_BYTES[dtype])
                for v, wide in _whole_pieces(columns, lanes):
                    store(b, widened(b, line, v, dtype, wide), c.carried[0], v)
                c.carried = [place(b, c.carried[0], pitch)]
            (panel,) = c.carried
            line = place(b, read, whole)
            with b.if_then(b.icmp_signed(">", rest, number(0))):
                later = place(b, line, b.mul(number(AHEAD), x_step))
                prefetch_lines(b, later, columns, STORED_BYTES[dtype])
                for wide in sizes(lanes):
                    with _rest_pieces(b, rest, wide, lanes) as at:
                        store(b, widened(b, line, at, dtype, wide), panel, at)
        with apart:
            _transpose_panels(b, arguments, dtype, lanes, columns)
    b.ret_void()
    return made


def _whole_pieces(columns: int, lanes: int) -> list[tuple[int, int]]:
    """Return where in a panel vectors begin, and how wide they are.

    >>> _whole_pieces(16, 8), _whole_pieces(6, 8)
    ([(0, 8), (8, 8)], [(0, 4), (4, 2)])
    """
    pieces, begin = [], 0
    while begin < columns:
        wide = next(size for size in sizes(lanes) if size <= columns - begin)
        pieces.append((begin, wide))
        begin += wide
    return pieces


@contextmanager
def _rest_pieces(b: ir.IRBuilder, rest: ir.Value, size: int, most: int) -> Iterator[ir.Value]:
    """Emit a loop over the pieces of one size that a last panel has; larger ones come before."""
    done = b.and_(rest, number(0 if size == most else -2 * size))
    with counted(b, b.and_(rest, number(-size)), first=done, step=size) as piece:
        yield piece.index


def _transpose_panels(
    b: ir.IRBuilder, arguments: Sequence[ir.Value], dtype: str, lanes: int, columns: int
) -> None:
    """Transpose squares where points are neighbours in memory, single elements elsewhere."""
    target, source, reads, places, head, body, _, channels, pitch, x_step, c_step, width, *_ = (
        arguments
    )
    after = b.add(head, body)
    squares = b.and_(b.icmp_signed(">", width, number(0)), _is(b, x_step, 1))
    whole_x = b.select(squares, if_enough(b, body, lanes), number(0))
    # Lines that are shorter than a vector are covered by halves of one.
    short = b.and_(squares, b.icmp_signed("<", body, number(lanes)))
    short_x = b.select(short, if_enough(b, body, lanes // 2), number(0))
    size = number(columns)
    rest = b.srem(channels, size)
    whole = b.sub(channels, rest)

    def square(
        ends: tuple[ir.Value, ir.Value], x: ir.Value, v: ir.Value | int, wide: int, points: int
    ) -> None:
        panel, channel = ends
        first = b.add(channel, number(v) if isinstance(v, int) else v)
        line = place(b, source, b.add(b.mul(first, c_step), b.add(load(b, reads, head), x)))
        starts = [place(b, line, b.mul(number(i), c_step)) for i in range(wide)]
        if points == lanes:
            for start in starts:
                prefetch(b, place(b, start, FURTHER // STORED_BYTES[dtype]))
        if wide > points:
            turned = turned_in(b, starts, points, dtype)
        else:
            turned = turned_out(b, [widened(b, start, 0, dtype, points) for start in starts])
        for i, part in enumerate(turned):
            where = load(b, places, b.add(b.add(head, x), number(i)))
            store(b, part, place(b, panel, b.mul(where, size)), v)

    for points, count in ((lanes, whole_x), (lanes // 2, short_x)):
        with counted(b, whole, [target], step=columns) as c:
            with covered(b, count, points) as x:
                for v, wide in _whole_pieces(columns, lanes):
                    square((c.carried[0], c.index), x, v, wide, points)
            c.carried = [place(b, c.carried[0], pitch)]
        (panel,) = c.carried
        with b.if_then(b.icmp_signed(">", rest, number(0))), covered(b, count, points) as x:
            for wide in sizes(lanes):
                with _rest_pieces(b, rest, wide, lanes) as at:
                    square((panel, whole), x, at, wide, points)
    whole_x = b.add(whole_x, short_x)
    with b.if_then(b.icmp_signed("<", whole_x, body)), counted(b, channels) as c:
        inside = b.srem(c.index, size)
        into = place(b, target, b.add(b.mul(b.sdiv(c.index, size), pitch), inside))
        line = place(b, source, b.mul(c.index, c_step))
        with counted(b, after, first=b.add(head, whole_x)) as point:
            value = widened(b, line, b.mul(load(b, reads, point.index), x_step), dtype)
            store(b, value, into, b.mul(load(b, places, point.index), size))


def _begin(
    module: ir.Module, name: str, dtype: str
) -> tuple[ir.IRBuilder, Sequence[ir.Value], ir.Function]:
    pointers = [FLOATS[dtype].as_pointer(), STORED[dtype].as_pointer()]
    made, b = function(module, name, [*pointers, *[I64.as_pointer()] * 2, *[I64] * 10])
    for argument in made.args[:4]:
        argument.add_attribute("noalias")
    return b, made.args, made


def _is(b: ir.IRBuilder, value: ir.Value, other: int) -> ir.Value:
    return b.icmp_signed("==", value, number(other))
