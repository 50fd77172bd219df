"""Lines of both sides of a correlation, packed so that the lanes of a vector are groups.

They are as :mod:`tconv.codegen.side_lines` has them, but every element is a vector.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv.codegen.build import (
    FLOATS,
    I32,
    I64,
    STORED,
    counted,
    function,
    load,
    number,
    place,
    prefetch,
    smaller,
    store,
    zeros,
)
from tconv.codegen.side_lines import AHEAD
from tconv.codegen.squares import covered, sizes, turned_in
from tconv.codegen.stored import widened

Array = npt.NDArray[Any]
Table = npt.NDArray[np.int64]


def pack_groups_meaning(  # noqa: PLR0913 - the emitted functions' own arguments
    target: Array,
    source: Array,
    tables: tuple[Table, Table],
    counts: tuple[int, int, int],
    channels: tuple[int, int],
    steps: tuple[int, int],
    columns: int,
    groups: tuple[int, int, int],
) -> None:
    """Compute in NumPy what packing computes, ``columns`` channels side by side.

    ``channels`` are how many and how far apart their planes, or panels, lie; ``groups`` how many
    a vector has, how far apart they lie, and which is the last that exists.
    """
    (reads, places), (head, body, tail) = tables, counts
    lanes, g_step, last = groups
    lane_steps = np.minimum(np.arange(lanes), last) * g_step
    for c in range(channels[0]):
        begin = c // columns * channels[1] + c % columns * lanes
        for i in range(head + body + tail):
            here = begin + places[i] * columns * lanes
            inside = head <= i < head + body
            read = reads[i] * steps[0] + c * steps[1]
            target[here : here + lanes] = source[read + lane_steps] if inside else 0


def emit_pack_groups(module: ir.Module, dtype: str, lanes: int, columns: int) -> ir.Function:
    """Emit ``pack`` with the arguments of its namesakes, and two more.

    They are how far apart groups lie, and how many there are behind the first; lanes that there
    are no groups for repeat the last.
    """
    pointers = [FLOATS[dtype].as_pointer(), STORED[dtype].as_pointer()]
    kinds = [*pointers, *[I64.as_pointer()] * 2, *[I64] * 11]
    made, b = function(module, f"pack_side_groups_{dtype}_{columns}", kinds)
    for argument in made.args[:4]:
        argument.add_attribute("noalias")
    head, body, tail, channels, _, x_step, c_step, width = made.args[4:12]
    p = _Pack(b, dtype, lanes, columns, made.args)
    after = b.add(head, body)
    for first, end in ((number(0), head), (after, b.add(after, tail))):
        with counted(b, end, first=first) as i, counted(b, channels) as c:
            nothing = zeros(ir.VectorType(FLOATS[dtype], lanes))
            store(b, nothing, p.of_point(p.begin_of(c.index), i.index))
    neighbours = b.icmp_signed("==", x_step, number(1))
    runs_on = b.and_(neighbours, b.icmp_signed(">", width, number(0)))
    some = b.icmp_signed(">", body, number(0))
    with b.if_then(some), b.if_else(b.icmp_signed("==", c_step, number(1))) as (beside, others):
        with beside:
            p.channels()
        with others, b.if_else(runs_on) as (points_beside, apart):
            with points_beside:
                p.points()
            with apart:
                p.elements()
    b.ret_void()
    return made


class _Pack:
    """What lies side by side is read by vectors: channels of a point, or points of a channel."""

    def __init__(
        self, b: ir.IRBuilder, dtype: str, lanes: int, columns: int, arguments: Sequence[ir.Value]
    ) -> None:
        self.b, self.dtype, self.lanes, self.columns = b, dtype, lanes, columns
        self.target, self.source, self.reads, self.places, self.head, body = arguments[:6]
        self.many, self.pitch, self.x_step, self.c_step = arguments[7:11]
        self.body, self.after = body, b.add(self.head, body)
        g_step, last = arguments[13:]
        self.steps = [b.mul(smaller(b, number(lane), last), g_step) for lane in range(lanes)]

    def begin_of(self, channel: ir.Value) -> ir.Value:
        """Return where the points of a channel go."""
        b, columns = self.b, number(self.columns)
        panel, inside = b.udiv(channel, columns), b.urem(channel, columns)
        begin = b.add(b.mul(panel, self.pitch), b.mul(inside, number(self.lanes)))
        return place(b, self.target, begin)

    def of_point(self, begin: ir.Value, point: ir.Value) -> ir.Value:
        """Return where a point goes of what begins there."""
        size = number(self.columns * self.lanes)
        return place(self.b, begin, self.b.mul(load(self.b, self.places, point), size))

    def starts(self, origin: ir.Value) -> list[ir.Value]:
        """Return where every group's elements begin."""
        return [place(self.b, origin, step) for step in self.steps]

    def channels(self) -> None:
        """Pack point after point, vectors of channels."""
        b = self.b
        with counted(b, self.after, first=self.head) as i:
            origin = place(b, self.source, b.mul(load(b, self.reads, i.index), self.x_step))
            for piece in sizes(self.lanes):
                with covered(b, self.many, piece, self.lanes) as c:
                    starts = self.starts(place(b, origin, c))
                    for start in starts[::2]:  # small groups: two of them are a line at most
                        prefetch(b, place(b, start, b.mul(number(AHEAD), self.x_step)))
                    # From channel to channel it is one step and then another, or the reverse.
                    first = self.of_point(self.begin_of(c), i.index)
                    odd = b.icmp_signed("!=", b.urem(c, number(self.columns)), number(0))
                    lanes = number(self.lanes)
                    step = b.select(odd, b.sub(self.pitch, lanes), lanes)
                    for j, value in enumerate(turned_in(b, starts, piece, self.dtype)):
                        panel = place(b, first, b.mul(number(j // self.columns), self.pitch))
                        store(b, value, place(b, panel, b.mul(number(j % self.columns), step)))

    def points(self) -> None:
        """Pack channel after channel, vectors of points."""
        b = self.b
        with counted(b, self.many) as c:
            line = b.add(b.mul(c.index, self.c_step), load(b, self.reads, self.head))
            origin, begin = place(b, self.source, line), self.begin_of(c.index)
            for piece in sizes(self.lanes):
                with covered(b, self.body, piece, self.lanes) as x:
                    starts = self.starts(place(b, origin, x))
                    for start in starts:
                        prefetch(b, place(b, start, self.c_step))
                    for j, value in enumerate(turned_in(b, starts, piece, self.dtype)):
                        point = b.add(b.add(self.head, x), number(j))
                        store(b, value, self.of_point(begin, point))

    def elements(self) -> None:
        """Pack one element after another."""
        b, dtype = self.b, self.dtype
        with counted(b, self.after, first=self.head) as i, counted(b, self.many) as c:
            read = b.mul(load(b, self.reads, i.index), self.x_step)
            origin = place(b, self.source, b.add(read, b.mul(c.index, self.c_step)))
            value: ir.Value = zeros(ir.VectorType(FLOATS[dtype], self.lanes))
            for lane, start in enumerate(self.starts(origin)):
                element = widened(b, start, 0, dtype)
                value = b.insert_element(value, element, ir.Constant(I32, lane))
            store(b, value, self.of_point(self.begin_of(c.index), i.index))
