"""What the next block of a correlation will read, asked for while this one is multiplied.

Packing would wait for memory, and multiplying needs none: together they take the longer of both.
"""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import Block, KernelShape, Record
from tconv.codegen.build import (
    I64,
    LINE,
    STORED,
    STORED_BYTES,
    counted,
    larger,
    load,
    number,
    smaller,
    store,
)
from tconv.codegen.correlate_parts import Part

MOST_SPARE = 2  # elements that are asked for, for one that will be read
POINTS = 4  # that a tile multiplies in a turn, which asks for one line


@dataclass(frozen=True, slots=True)
class Ahead:
    """Two stretches of memory, from and to each: what is left of the first, and the second."""

    ends: ir.Value


def no_stretches(b: ir.IRBuilder) -> Ahead:
    """Return room for two stretches."""
    with b.goto_entry_block():
        return Ahead(b.alloca(I64, number(4)))


def look_ahead(  # noqa: PLR0913 - which channels of which block
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    part: Part,
    block: Block,
    ahead: Ahead,
    exists: ir.Value,
) -> None:
    """Note where both sides of a block lie in memory, if it exists and lies close together."""
    swapped = b.icmp_signed("!=", r.swapped, number(0))
    row = b.select(swapped, number(0), part.rows[0])
    panel = b.mul(part.panels[0], number(shape.panel))
    a, other = (
        _stretch(b, r, shape, side, block, (part.group, channel))
        for side, channel in (("a", row), ("b", panel))
    )
    some = b.icmp_signed("<", *a)
    for k in (0, 1):
        first = b.select(some, a[k], other[k])
        store(b, b.select(exists, first, number(0)), ahead.ends, k)
        store(b, b.select(b.and_(exists, some), other[k], number(0)), ahead.ends, 2 + k)


def _stretch(  # noqa: PLR0913 - which channels of which block
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    side: str,
    block: Block,
    start: tuple[ir.Value, ir.Value],
) -> tuple[ir.Value, ir.Value]:
    """Return the addresses of a side's first element, and behind its last; equal for none."""

    def field(name: str) -> ir.Value:
        value: ir.Value = getattr(r, f"{side}_{name}")
        return value

    group, channel = start
    channels = smaller(b, b.sub(field("channels"), channel), field("most"))
    offset = b.mul(b.mul(group, number(shape.groups)), field("g"))
    offset = b.add(offset, b.mul(channel, field("c")))
    more = b.mul(b.sub(channels, number(1)), field("c"))

    def ends(
        at: tuple[ir.Value, ir.Value], step: ir.Value, low: ir.Value, size: ir.Value
    ) -> tuple[ir.Value, ir.Value]:
        first = larger(b, b.add(b.mul(at[0], step), low), number(0))
        last = smaller(b, b.add(b.mul(at[1], step), low), size)
        return first, larger(b, b.sub(last, number(1)), first)

    low, high = ends((block.start, block.stop), field("step"), field("low"), field("size"))
    wanted = b.mul(channels, b.add(b.sub(high, low), number(1)))
    begin = b.add(offset, b.mul(low, field("x")))
    end = b.add(b.add(offset, more), b.mul(high, field("x")))
    with counted(b, r.outer, [begin, end, wanted]) as axis:
        d = axis.index
        begin, end, wanted = axis.carried
        at = load(b, block.starts, d), load(b, block.stops, d)
        numbers = (r.at(f"{side}_{name}", d) for name in ("steps", "lows", "sizes"))
        low, high = ends(at, *numbers)
        step = r.at(f"{side}_source_steps", d)
        axis.carried = [
            b.add(begin, b.mul(low, step)),
            b.add(end, b.mul(high, step)),
            b.mul(wanted, b.add(b.sub(high, low), number(1))),
        ]
    begin, end, wanted = axis.carried
    length = b.add(b.sub(end, begin), number(1))
    close = b.icmp_signed("<=", length, b.mul(wanted, number(MOST_SPARE)))
    forward = b.icmp_signed(">", length, number(0))
    length = b.select(b.and_(close, forward), length, number(0))
    source = b.ptrtoint(r.pointer_to(f"side_{side}", STORED[shape.dtype].as_pointer()), I64)
    item = number(STORED_BYTES[shape.dtype])
    begin = b.add(source, b.mul(begin, item))
    return begin, b.add(begin, b.mul(length, item))


def next_lines(
    b: ir.IRBuilder, ahead: Ahead, work: tuple[list[ir.Value], ir.Value]
) -> tuple[ir.Value, ir.Value]:
    """Return from where some tiles may ask for lines, and the step to the next.

    ``work`` are what each takes, as tiles are told, and how many there are.
    """
    (planes, _, segments, each), tiles = work
    first, last = load(b, ahead.ends, 0), load(b, ahead.ends, 1)
    some = b.icmp_signed("<", first, last)
    with b.if_then(some):
        turns = b.mul(b.mul(planes, segments), b.mul(tiles, b.sdiv(each, number(POINTS))))
        _go_on(b, ahead, (first, last), turns)
    return b.inttoptr(first, ir.IntType(8).as_pointer()), b.select(some, number(LINE), number(0))


def _go_on(
    b: ir.IRBuilder, ahead: Ahead, stretch: tuple[ir.Value, ir.Value], turns: ir.Value
) -> None:
    """Note what is left of a stretch after so many turns, each for a line, or the other one."""
    first, last = stretch
    after = smaller(b, b.add(first, b.mul(turns, number(LINE))), last)
    done = b.icmp_signed(">=", after, last)
    store(b, b.select(done, load(b, ahead.ends, 2), after), ahead.ends, 0)
    store(b, b.select(done, load(b, ahead.ends, 3), last), ahead.ends, 1)
    with b.if_then(done):
        for k in (2, 3):
            store(b, number(0), ahead.ends, k)
