"""Lines of a block's phase, one after the other: what they read, and where they are stored.

Where the outer axes of a line stand is found once for all lines of the last of them: the divisions
take longer than short lines do.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import Block, Record
from tconv.codegen.build import counted, larger, load, number, smaller


@dataclass(frozen=True, slots=True)
class Walk:
    """Places of lines: of the first one, and how much further the next of an outer axis is."""

    first: ir.Value
    step: Callable[[ir.Value], ir.Value]


def reads(b: ir.IRBuilder, r: Record, block: Block, pitches: ir.Value | None = None) -> Walk:
    """Return where in the packed region lines of the phase begin to read.

    ``pitches`` are from line to line by outer axis, if not the region's.
    """
    steps = r.pitches if pitches is None else pitches
    return from_start(b, r, block, lambda d: b.mul(r.at("steps_in", d), load(b, steps, d)))


def from_start(
    b: ir.IRBuilder, r: Record, block: Block, step: Callable[[ir.Value], ir.Value]
) -> Walk:
    """Return where lines of the phase lie, if the block's first point is the first of all."""
    with counted(b, r.outer, [number(0)]) as axis:
        d = axis.index
        begin = b.sub(load(b, block.lows, d), load(b, block.starts, d))
        axis.carried = [b.add(axis.carried[0], b.mul(begin, step(d)))]
    return Walk(axis.carried[0], step)


def stores(
    b: ir.IRBuilder, r: Record, block: Block, phase: ir.Value, start: ir.Value | None = None
) -> Walk:
    """Return where lines of the phase are stored, ``start`` further."""

    def step(d: ir.Value) -> ir.Value:
        return b.mul(r.at("steps_out", d), r.at("target_steps", d))

    with counted(b, r.outer, [phase, number(0) if start is None else start]) as axis:
        d = b.sub(b.sub(r.outer, number(1)), axis.index)
        phases, offset = axis.carried
        count = r.at("axis_phases", d)
        first = b.add(b.mul(load(b, block.lows, d), r.at("steps_out", d)), r.at("shifts_out", d))
        coordinate = b.add(first, b.srem(phases, count))
        offset = b.add(offset, b.mul(coordinate, r.at("target_steps", d)))
        axis.carried = [b.sdiv(phases, count), offset]
    return Walk(axis.carried[1], step)


def line_ends(b: ir.IRBuilder, r: Record, block: Block) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return which of the points of a line's sums is stored first, where, and how many."""
    origin = b.add(b.mul(block.start, r.step_out), r.shift_out)
    begin = larger(b, b.neg(origin), number(0))
    whole = b.mul(b.sub(block.stop, block.start), r.step_out)
    length = b.sub(smaller(b, whole, b.sub(r.size_out, origin)), begin)
    return begin, b.add(origin, begin), length


@contextmanager
def each_line(
    b: ir.IRBuilder,
    r: Record,
    block: Block,
    lines: ir.Value,
    *walks: Walk,
    merged: ir.Value | None = None,
) -> Iterator[tuple[ir.Value, list[ir.Value]]]:
    """Emit a loop over lines: which one, and its places.

    ``merged`` is 1, or all lines of the last outer axis if they are one.
    """
    above = b.sub(r.outer, number(1))
    at_once = number(1) if merged is None else merged
    further = [b.mul(walk.step(above), at_once) for walk in walks]
    with (
        first_lines(b, r, block, lines, *walks) as (begin, extent, places),
        counted(b, b.sdiv(extent, at_once), places) as near,
    ):
        yield b.add(begin, b.mul(near.index, at_once)), list(near.carried)
        near.carried = [b.add(*each) for each in zip(near.carried, further, strict=True)]


@contextmanager
def first_lines(
    b: ir.IRBuilder, r: Record, block: Block, lines: ir.Value, *walks: Walk
) -> Iterator[tuple[ir.Value, ir.Value, list[ir.Value]]]:
    """Emit a loop over the first lines of the last outer axis: which, how many, places."""
    above = b.sub(r.outer, number(1))
    extent = larger(b, load(b, block.extents, above), number(1))  # of no lines nothing is divided
    with counted(b, b.sdiv(lines, extent)) as far:
        with counted(b, above, [far.index, *(walk.first for walk in walks)]) as axis:
            d = b.sub(b.sub(above, number(1)), axis.index)
            rest, *places = axis.carried
            size = load(b, block.extents, d)
            here = b.srem(rest, size)
            moved = [b.mul(here, walk.step(d)) for walk in walks]
            places = [b.add(*each) for each in zip(places, moved, strict=True)]
            axis.carried = [b.sdiv(rest, size), *places]
        yield b.mul(far.index, extent), extent, axis.carried[1:]
