"""Which taps meet which points, found while kernels run: nothing outside is multiplied."""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import Block, Record
from tconv.codegen.build import I64, advancing, counted, load, number, place, smaller, store

FAR = 1 << 60  # no array has so many points


@dataclass(frozen=True, slots=True)
class Tables:
    """Where meetings are noted, two numbers each: where data begins, and which tap it is."""

    points: ir.Value  # by outer axis: where the points of a line begin to read
    outer: ir.Value  # by tap of the outer axes that meets the line
    segments: ir.Value  # by segment of all axes: the tap as an element of the weights


def fill_outer(
    b: ir.IRBuilder,
    r: Record,
    block: Block,
    tables: Tables,
    numbers: tuple[ir.Value, ir.Value, ir.Value, ir.Value],
) -> ir.Value:
    """Note which taps of the outer axes a line of the block meets; return how many.

    The numbers are the line's, the offsets of taps by axis, their count, and the element
    steps of the axes.
    """
    line, offsets, count, steps = numbers
    with counted(b, r.outer, [line]) as axis:
        d = b.sub(b.sub(r.outer, number(1)), axis.index)
        (rest,) = axis.carried
        extent = load(b, block.extents, d)
        here = b.add(b.srem(rest, extent), load(b, block.lows, d))
        store(b, b.mul(here, r.at("steps_in", d)), tables.points, d)
        axis.carried = [b.sdiv(rest, extent)]
    with counted(b, count, [number(0), offsets]) as tap:
        found, mine = tap.carried
        with counted(b, r.outer, [number(0), number(1)]) as axis:
            read, valid = axis.carried
            coordinate = b.add(load(b, tables.points, axis.index), load(b, mine, axis.index))
            inside = b.icmp_unsigned("<", coordinate, r.at("sizes_in", axis.index))
            axis.carried = [
                b.add(read, b.mul(coordinate, load(b, steps, axis.index))),
                b.and_(valid, b.zext(inside, I64)),
            ]
        read, valid = axis.carried
        entry = place(b, tables.outer, b.mul(found, number(2)))
        store(b, read, entry)
        store(b, tap.index, entry, 1)
        tap.carried = [b.add(found, valid), place(b, mine, r.outer)]
    return tap.carried[0]


def like_lines(
    b: ir.IRBuilder,
    r: Record,
    block: Block,
    tables: Tables,
    numbers: tuple[ir.Value, ir.Value, ir.Value],
) -> ir.Value:
    """Return how many lines of the block, from this one on, meet the same taps one below the other.

    The numbers are the line's, the offsets of taps by axis, and their count; where the line's
    points begin to read was noted.
    """
    line, offsets, count = numbers
    above = b.sub(r.outer, number(1))
    extent = load(b, block.extents, above)
    left = b.sub(extent, b.srem(line, extent))
    begin, size = load(b, tables.points, above), r.at("sizes_in", above)
    with counted(b, count, [number(FAR), place(b, offsets, above)]) as tap:
        until, mine = tap.carried
        here = b.add(begin, load(b, mine))
        tap.carried = [smaller(b, until, _until_changes(b, here, size)), place(b, mine, r.outer)]
    step = r.at("steps_in", above)
    alike = b.sdiv(b.add(tap.carried[0], b.sub(step, number(1))), step)
    return smaller(b, alike, left)


def _until_changes(b: ir.IRBuilder, here: ir.Value, size: ir.Value) -> ir.Value:
    """Return how far a place that is read may move until it is inside, or no more."""
    inside = b.icmp_unsigned("<", here, size)
    before = b.icmp_signed("<", here, number(0))
    return b.select(before, b.neg(here), b.select(inside, b.sub(size, here), number(FAR)))


def same_taps(
    b: ir.IRBuilder, r: Record, offsets: ir.Value, taps: ir.Value, begin: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return how many taps of the last axis a point meets, and how many points the same ones.

    The point begins to read at ``begin``.
    """
    with counted(b, taps, [number(0), number(FAR)]) as tap:
        met, until = tap.carried
        here = b.add(begin, load(b, offsets, tap.index))
        inside = b.icmp_unsigned("<", here, r.size_in)
        changes = _until_changes(b, here, r.size_in)
        tap.carried = [b.add(met, b.zext(inside, I64)), smaller(b, until, changes)]
    met, until = tap.carried
    up = b.sub(r.step_in, number(1))
    return met, b.sdiv(b.add(until, up), r.step_in)


def fill_segments(
    b: ir.IRBuilder,
    r: Record,
    tables: Tables,
    offsets: ir.Value,
    numbers: tuple[ir.Value, ir.Value, ir.Value, ir.Value, ir.Value, int],
) -> ir.Value:
    """Note the segments of points that begin to read at ``begin``; return how many.

    The numbers are the taps of the last axis, how many of the outer axes were noted, where
    points begin to read, the taps of a segment, the element step and the lanes.
    """
    taps, outer, begin, piece, x_step, lanes = numbers
    with counted(b, outer, [number(0)]) as one:
        entry = place(b, tables.outer, b.mul(one.index, number(2)))
        read, first = load(b, entry), b.mul(load(b, entry, 1), taps)
        with advancing(b, number(0), taps, one.carried) as tap:
            here = b.add(begin, load(b, offsets, tap.index))
            inside = b.icmp_unsigned("<", here, r.size_in)
            (found,) = tap.carried
            segment = place(b, tables.segments, b.mul(found, number(2)))
            store(b, b.add(read, b.mul(here, x_step)), segment)
            store(b, b.mul(b.add(first, tap.index), number(lanes)), segment, 1)
            tap.carried = [b.add(found, b.zext(inside, I64))]
            tap.following = b.add(tap.index, piece)
        one.carried = tap.carried
    return one.carried[0]


def tap_step(b: ir.IRBuilder, offsets: ir.Value, taps: ir.Value, point: ir.Value) -> ir.Value:
    """Return how far apart two taps of the last axis read, where there are two."""
    several = b.icmp_signed(">", taps, number(1))
    second = load(b, offsets, b.zext(several, I64))
    return b.mul(b.sub(second, load(b, offsets)), point)
