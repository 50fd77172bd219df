"""Blocks of points: which they are, and the region that they read, packed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

from llvmlite import ir

from tconv.codegen.build import (
    I1,
    I64,
    LINE,
    counted,
    larger,
    load,
    number,
    place,
    smaller,
    store,
    touch,
)
from tconv.plan.phases import EVERY
from tconv.plan.stretches import Kind
from tconv.plan.transforms import Form

MOST_AXES = 64  # NumPy's own limit
FAR_CHANNELS = 16  # packed at a time where each lies in a page of its own


@dataclass(frozen=True, slots=True)
class KernelShape:
    """What is baked: the type, and the shape of the register tile."""

    dtype: str
    lanes: int
    vectors: int
    rows: tuple[int, ...]  # of the tiles, the largest first
    groups: int = 1  # that the lanes of a vector are; with one they are channels

    @property
    def columns(self) -> int:
        """Elements of a point of a wide panel."""
        return self.lanes * self.vectors

    @property
    def panel(self) -> int:
        """Channels of a wide panel."""
        return self.columns // self.groups


@dataclass(frozen=True, slots=True)
class TransformShape:
    """What is baked: the type, the register tile, and the forms of the spatial axes."""

    shape: KernelShape
    forms: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class SweepShape:
    """What is baked: the type, the taps of a row, and how many rows if they are unrolled."""

    shape: KernelShape
    kind: Kind
    lines: int  # 0 is any
    reads_stored: bool  # whether data is as arrays hold it, or as sums are kept
    writes_stored: bool  # and the result


class Record:
    """A plan's numbers, read by name."""

    def __init__(
        self, b: ir.IRBuilder, pointer: ir.Value, fields: Mapping[str, int], arrays: Sequence[str]
    ) -> None:
        self.b, self.pointer, self.fields, self.arrays = b, pointer, fields, arrays

    def __getattr__(self, name: str) -> ir.Value:
        """Emit the load of a number, or the address of an array."""
        value = self._read(self.pointer, self.fields[name])
        return place(self.b, self.pointer, value) if name in self.arrays else value

    def at(self, name: str, index: ir.Value) -> ir.Value:
        """Emit the load of one entry of an array."""
        return self._read(getattr(self, name), index)

    def _read(self, pointer: ir.Value, index: ir.Value | int) -> ir.Value:
        """Emit a load of what no kernel writes: it can be done before a loop."""
        loaded = self.b.load(place(self.b, pointer, index))
        loaded.set_metadata("invariant.load", self.b.module.add_metadata([]))
        return loaded

    def pointer_to(self, name: str, kind: ir.Type) -> ir.Value:
        """Emit an address that the record holds as a number."""
        return self.b.inttoptr(getattr(self, name), kind)


@dataclass(frozen=True, slots=True)
class Block:
    """The points of one block: tables by outer axis, numbers for the last one."""

    starts: ir.Value
    stops: ir.Value
    lows: ir.Value  # where a phase begins in the block
    extents: ir.Value  # how many a phase, or the packed region, has there
    start: ir.Value
    stop: ir.Value


def emit_block(
    b: ir.IRBuilder, r: Record, index: ir.Value, *, begins: bool
) -> tuple[Block, ir.Value]:
    """Find the block of a running number; also return what is left of the number.

    ``begins`` tells whether axes may begin at other points than 0.
    """
    with b.goto_entry_block():  # in a loop the stack would grow with every turn
        starts, stops, lows, extents = (b.alloca(I64, number(MOST_AXES)) for _ in range(4))
    start = b.mul(b.srem(index, r.blocks), r.block)
    start = b.add(start, r.begin) if begins else start
    stop = smaller(b, b.add(start, r.block), r.end)
    with counted(b, r.outer, [b.sdiv(index, r.blocks)]) as axis:
        d = b.sub(b.sub(r.outer, number(1)), axis.index)
        (rest,) = axis.carried
        blocks, size = r.at("outer_blocks", d), r.at("outer_block", d)
        first = b.mul(b.srem(rest, blocks), size)
        first = b.add(first, r.at("begins", d)) if begins else first
        store(b, first, starts, d)
        store(b, smaller(b, b.add(first, size), r.at("ends", d)), stops, d)
        axis.carried = [b.sdiv(rest, blocks)]
    return Block(starts, stops, lows, extents, start, stop), axis.carried[0]


def emit_box(b: ir.IRBuilder, r: Record, block: Block, index: ir.Value) -> tuple[Block, ir.Value]:
    """Return one of the boxes that a block is split into, and whether it has any points.

    By what they read, points of an axis are those before, inside and behind the picture.  A
    block that is packed as a whole is the first of its boxes.
    """
    with b.goto_entry_block():
        starts, stops = (b.alloca(I64, number(MOST_AXES)) for _ in range(2))
    apart = b.icmp_signed("!=", r.in_place, number(0))
    apart = b.and_(apart, b.icmp_signed(">", r.boxes, number(1)))

    def cut(
        digit: ir.Value, ends: tuple[ir.Value, ir.Value], inside: tuple[ir.Value, ir.Value]
    ) -> tuple[ir.Value, ir.Value]:
        start, stop = ends
        low = b.select(apart, smaller(b, larger(b, inside[0], start), stop), stop)
        high = smaller(b, larger(b, inside[1], low), stop)
        before, behind = (b.icmp_signed(sign, digit, number(1)) for sign in ("<", ">"))
        return (
            b.select(before, start, b.select(behind, high, low)),
            b.select(before, low, b.select(behind, stop, high)),
        )

    last = r.inside_low, r.inside_high
    start, stop = cut(b.srem(index, number(3)), (block.start, block.stop), last)
    some = b.zext(b.icmp_signed("<", start, stop), I64)
    with counted(b, r.outer, [b.sdiv(index, number(3)), some]) as axis:
        d = b.sub(b.sub(r.outer, number(1)), axis.index)
        rest, some = axis.carried
        ends = load(b, block.starts, d), load(b, block.stops, d)
        low, high = cut(
            b.srem(rest, number(3)), ends, (r.at("inside_lows", d), r.at("inside_highs", d))
        )
        store(b, low, starts, d)
        store(b, high, stops, d)
        some = b.and_(some, b.zext(b.icmp_signed("<", low, high), I64))
        axis.carried = [b.sdiv(rest, number(3)), some]
    box = Block(starts, stops, block.lows, block.extents, start, stop)
    return box, b.icmp_signed("!=", axis.carried[1], number(0))


def emit_pack_region(  # noqa: PLR0913 - where from, where to, and by what
    b: ir.IRBuilder,
    r: Record,
    pack_row: ir.Function,
    block: Block,
    scratch: ir.Value,
    source: ir.Value,
    widths: tuple[ir.Value, ir.Value] | None = None,
) -> None:
    """Pack all that the block reads: lines of points, channels side by side, zeros outside.

    ``widths`` are how many channels there are and how far apart points lie, if not
    the record's depth.  Where channels lie far apart, only a few of them are read at a time,
    line after line: each is in a page of its own.  Lines that no tap reads are left out.
    """
    channels, pitch = widths or (r.depth, r.depth)
    skips = "needed" in r.fields
    lines = emit_region_extents(b, r, block)
    first = b.add(b.mul(block.start, r.step_in), r.low_in)
    points = b.sub(b.sub(block.stop, block.start), number(1))
    length = b.add(b.mul(points, r.step_in), r.span)
    before = smaller(b, larger(b, b.neg(first), number(0)), length)
    left = b.sub(length, before)
    inside = larger(b, smaller(b, b.sub(b.sub(r.size_in, first), before), left), number(0))
    together = b.icmp_signed("==", r.source_c, number(1))
    at_once = b.select(together, channels, number(FAR_CHANNELS))
    turns = b.sdiv(b.add(channels, b.sub(at_once, number(1))), at_once)
    whole = b.icmp_signed("==", inside, length)
    if skips:
        above = r.at("needed", b.sub(r.outer, number(1)))
        whole = b.and_(whole, b.icmp_signed("==", above, number(EVERY)))
    merged = b.select(whole, _lines_that_follow(b, r, block, (length, pitch)), number(1))
    with (
        counted(b, turns) as turn,
        region_lines(b, r, block, lines, merged, skips=skips) as (target, read, valid, needed),
        b.if_then(needed, likely=True),
    ):
        channel = b.mul(turn.index, at_once)
        depth = smaller(b, b.sub(channels, channel), at_once)
        head = b.select(valid, before, b.mul(length, merged))
        body = b.select(valid, b.mul(inside, merged), number(0))
        tail = b.select(valid, b.sub(b.sub(length, head), inside), number(0))
        origin = b.add(read, b.mul(b.add(first, head), r.source_x))
        origin = b.add(origin, b.mul(channel, r.source_c))
        offset = b.select(valid, origin, number(0))
        arguments = [place(b, scratch, b.add(target, channel)), place(b, source, offset)]
        b.call(pack_row, [*arguments, head, body, tail, depth, pitch, r.source_x, r.source_c])


def _lines_that_follow(
    b: ir.IRBuilder, r: Record, block: Block, sizes: tuple[ir.Value, ir.Value]
) -> ir.Value:
    """Return how many lines of a region are one long line, in the source and packed.

    Those of whole pictures, if all of them exist.  The sizes are a line's points, and how far
    apart they are packed.
    """
    length, pitch = sizes
    above = b.sub(r.outer, number(1))
    extent = load(b, block.extents, above)
    start = load(b, block.starts, above)
    first = b.add(b.mul(start, r.at("steps_in", above)), r.at("lows_in", above))
    conditions = (
        b.icmp_signed("==", r.at("source_steps", above), b.mul(length, r.source_x)),
        b.icmp_signed("==", r.at("pitches", above), b.mul(length, pitch)),
        b.icmp_signed(">=", first, number(0)),
        b.icmp_signed("<=", b.add(first, extent), r.at("sizes_in", above)),
    )
    return b.select(reduce(b.and_, conditions), extent, number(1))


def emit_region_extents(b: ir.IRBuilder, r: Record, block: Block) -> ir.Value:
    """Note how far the block's region reaches on outer axes; return how many lines it has."""
    with counted(b, r.outer, [number(1)]) as axis:
        d = axis.index
        count = b.sub(load(b, block.stops, d), load(b, block.starts, d))
        extent = b.add(b.mul(b.sub(count, number(1)), r.at("steps_in", d)), r.at("spans", d))
        store(b, extent, block.extents, d)
        axis.carried = [b.mul(axis.carried[0], extent)]
    return axis.carried[0]


@contextmanager
def region_lines(  # noqa: PLR0913 - which lines of what
    b: ir.IRBuilder,
    r: Record,
    block: Block,
    lines: ir.Value,
    merged: ir.Value | None = None,
    *,
    skips: bool = False,
) -> Iterator[tuple[ir.Value, ir.Value, ir.Value, ir.Value]]:
    """Emit a loop over a region's lines: where one goes, where it comes from, if it exists.

    Those of the last outer axis follow one another without divisions, which take longer than
    short lines; ``merged`` is 1, or all of them if they are one line.  Last comes whether any tap
    reads it, if that is to be told.
    """
    above = b.sub(r.outer, number(1))
    extent, start = load(b, block.extents, above), load(b, block.starts, above)
    first = b.add(b.mul(start, r.at("steps_in", above)), r.at("lows_in", above))
    at_once = number(1) if merged is None else merged
    turns = b.sdiv(extent, at_once)
    with counted(b, b.sdiv(lines, extent)) as far:
        target, read, valid = emit_region_line(b, r, block, far.index, above)
        wanted: ir.Value = ir.Constant(I1, 1)
        if skips:
            wanted = _needed_line(b, r, block, far.index, above)
        with counted(b, turns, [number(0)]) as near:
            here = b.mul(near.index, at_once)
            needed, (residue,) = wanted, near.carried
            if skips:
                needed = b.and_(wanted, bit_of(b, r.at("needed", above), residue))
                after = b.add(residue, number(1))
                ends = b.icmp_signed("==", after, r.at("steps_in", above))
                near.carried = [b.select(ends, number(0), after)]
            coordinate = b.add(first, here)
            exists = b.and_(
                b.icmp_signed(">=", coordinate, number(0)),
                b.icmp_signed("<", coordinate, r.at("sizes_in", above)),
            )
            yield (
                b.add(target, b.mul(here, r.at("pitches", above))),
                b.add(read, b.mul(coordinate, r.at("source_steps", above))),
                b.and_(valid, exists),
                needed,
            )


def bit_of(b: ir.IRBuilder, bits: ir.Value, place_of: ir.Value) -> ir.Value:
    """Tell whether a bit is set; where all are, of any number."""
    every = b.icmp_signed("==", bits, number(EVERY))
    one = b.and_(b.lshr(bits, b.and_(place_of, number(63))), number(1))
    return b.or_(every, b.icmp_signed("!=", one, number(0)))


def _needed_line(
    b: ir.IRBuilder, r: Record, block: Block, index: ir.Value, axes: ir.Value
) -> ir.Value:
    """Tell whether taps read a line of the region, by the first ``axes`` of it."""
    with counted(b, axes, [index, number(1)]) as axis:
        d = b.sub(b.sub(axes, number(1)), axis.index)
        rest, needed = axis.carried
        extent = load(b, block.extents, d)
        residue = b.srem(b.srem(rest, extent), r.at("steps_in", d))
        found = b.zext(bit_of(b, r.at("needed", d), residue), I64)
        axis.carried = [b.sdiv(rest, extent), b.and_(needed, found)]
    return b.icmp_signed("!=", axis.carried[1], number(0))


def emit_region_line(
    b: ir.IRBuilder, r: Record, block: Block, index: ir.Value, axes: ir.Value | None = None
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return where a line of the region goes, where it comes from, and whether it exists.

    Of the first ``axes``, if not of all outer ones.
    """
    count = r.outer if axes is None else axes
    with counted(b, count, [index, number(0), number(0), number(1)]) as axis:
        d = b.sub(b.sub(count, number(1)), axis.index)
        rest, target, read, valid = axis.carried
        extent = load(b, block.extents, d)
        here = b.srem(rest, extent)
        origin = b.add(b.mul(load(b, block.starts, d), r.at("steps_in", d)), r.at("lows_in", d))
        coordinate = b.add(origin, here)
        good = b.and_(
            b.icmp_signed(">=", coordinate, number(0)),
            b.icmp_signed("<", coordinate, r.at("sizes_in", d)),
        )
        axis.carried = [
            b.sdiv(rest, extent),
            b.add(target, b.mul(here, r.at("pitches", d))),
            b.add(read, b.mul(coordinate, r.at("source_steps", d))),
            b.and_(valid, b.zext(good, I64)),
        ]
    _, target, read, valid = axis.carried
    return target, read, b.icmp_signed("!=", valid, number(0))


def emit_origin(b: ir.IRBuilder, r: Record, block: Block) -> tuple[ir.Value, ir.Value]:
    """Return where the source has the first point of the block's region, and if it has all."""

    def lies_inside(first: ir.Value, count: ir.Value, numbers: tuple[ir.Value, ...]) -> ir.Value:
        step, span, size = numbers
        end = b.add(first, b.add(b.mul(b.sub(count, number(1)), step), span))
        return b.and_(b.icmp_signed(">=", first, number(0)), b.icmp_signed("<=", end, size))

    first = b.add(b.mul(block.start, r.step_in), r.low_in)
    inside = lies_inside(first, b.sub(block.stop, block.start), (r.step_in, r.span, r.size_in))
    with counted(b, r.outer, [b.mul(first, r.source_x), b.zext(inside, I64)]) as axis:
        d = axis.index
        offset, all_inside = axis.carried
        step = r.at("steps_in", d)
        start = load(b, block.starts, d)
        first = b.add(b.mul(start, step), r.at("lows_in", d))
        numbers = (step, r.at("spans", d), r.at("sizes_in", d))
        inside = lies_inside(first, b.sub(load(b, block.stops, d), start), numbers)
        axis.carried = [
            b.add(offset, b.mul(first, r.at("source_steps", d))),
            b.and_(all_inside, b.zext(inside, I64)),
        ]
    return axis.carried[0], b.icmp_signed("!=", axis.carried[1], number(0))


def touch_region(b: ir.IRBuilder, r: Record, block: Block, source: ir.Value, item: int) -> None:
    """Read words of all lines of points that a block reads in place, a cache line apart.

    Points and groups read them in turns, which no machine foresees; in order it does.
    """
    lines = emit_region_extents(b, r, block)
    first = b.mul(b.add(b.mul(block.start, r.step_in), r.low_in), r.source_x)
    points = b.sub(b.sub(block.stop, block.start), number(1))
    behind = b.sub(b.add(b.mul(points, r.step_in), r.span), number(1))
    channels = b.add(b.mul(b.sub(r.groups, number(1)), r.source_g), r.depth)
    length = b.add(b.mul(behind, r.source_x), channels)
    with region_lines(b, r, block, lines, skips=True) as (_, read, _, needed), b.if_then(needed):
        begin = place(b, source, b.add(read, first))
        with counted(b, length, step=LINE // item) as k:
            touch(b, place(b, begin, k.index))
