"""Points of a block: which of them a phase has, what they read, and where they go."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import Block, Record
from tconv.codegen.block_lines import each_line, reads, stores
from tconv.codegen.build import counted, larger, load, number, smaller, store
from tconv.codegen.places import Place


@dataclass(frozen=True, slots=True)
class Points:
    """The points of a line that one phase of the last axis has."""

    phase: ir.Value
    low: ir.Value
    length: ir.Value


@dataclass(frozen=True, slots=True)
class Steps:
    """Elements, from a point to the next or to the first of a line: read, summed, stored."""

    read: ir.Value
    summed: ir.Value
    stored: ir.Value


def settle_phase(b: ir.IRBuilder, r: Record, block: Block, phase: ir.Value) -> ir.Value:
    """Note which points of the block a phase has; return how many lines of them."""
    with counted(b, r.outer, [phase, number(1)]) as axis:
        d = b.sub(b.sub(r.outer, number(1)), axis.index)
        rest, lines = axis.carried
        count = r.at("axis_phases", d)
        entry = b.add(b.mul(d, r.most_phases), b.srem(rest, count))
        low = larger(b, load(b, block.starts, d), r.at("phase_low", entry))
        high = smaller(b, load(b, block.stops, d), r.at("phase_high", entry))
        extent = larger(b, b.sub(high, low), number(0))
        store(b, low, block.lows, d)
        store(b, extent, block.extents, d)
        axis.carried = [b.sdiv(rest, count), b.mul(lines, extent)]
    return axis.carried[1]


def points_of(b: ir.IRBuilder, r: Record, block: Block, phase: ir.Value) -> Points:
    """Return which points of a block's lines a phase of the last axis has."""
    low = larger(b, block.start, r.at("last_low", phase))
    high = smaller(b, block.stop, r.at("last_high", phase))
    return Points(phase, low, larger(b, b.sub(high, low), number(0)))


def point_steps(b: ir.IRBuilder, r: Record, where: Place) -> Steps:
    """Return how far apart the points of a line lie."""
    return Steps(
        read=b.mul(r.step_in, where.data.point_step),
        summed=b.mul(r.step_out, r.sums_point),
        stored=b.mul(r.step_out, r.target_x),
    )


@contextmanager
def point_lines(  # noqa: PLR0913 - which lines of what
    b: ir.IRBuilder,
    r: Record,
    block: Block,
    where: Place,
    points: Points,
    phase_lines: tuple[ir.Value, ir.Value],
) -> Iterator[tuple[ir.Value, Steps]]:
    """Emit a loop over lines: which one, and where the first of these points of it lies."""
    phase, lines = phase_lines
    first = b.add(b.add(b.mul(points.low, r.step_out), r.shift_out), points.phase)
    begins = b.sub(points.low, block.start)
    moved = b.mul(begins, b.mul(r.step_in, where.data.point_step))
    before = b.add(points.phase, b.mul(begins, r.step_out))
    read = reads(b, r, block, where.data.line_steps)
    stored = stores(b, r, block, phase, b.mul(first, r.target_x))
    with each_line(b, r, block, lines, read, stored) as (line, places):
        yield (
            line,
            Steps(
                read=b.add(places[0], moved),
                summed=b.mul(b.add(b.mul(line, r.sums_pitch), before), r.sums_point),
                stored=places[1],
            ),
        )


def fill_tables(  # noqa: PLR0913 - which points of what
    b: ir.IRBuilder,
    r: Record,
    block: Block,
    where: Place,
    phase_lines: tuple[ir.Value, ir.Value],
    skipped: Callable[[ir.Value], ir.Value] | None = None,
) -> None:
    """Note for every point of every phase of the last axis what it reads and where it goes.

    Of a line of some length, so many points may be ``skipped``.
    """
    phase, lines = phase_lines
    steps = point_steps(b, r, where)
    further = steps.read, steps.summed, steps.stored
    tables = where.rows, where.places, where.targets
    with counted(b, r.phases) as x:
        points = points_of(b, r, block, x.index)
        begin = number(0) if skipped is None else skipped(points.length)
        length = b.sub(points.length, begin)
        count = b.mul(length, lines)
        store(b, count, where.counts, x.index)
        base = b.mul(x.index, r.points)
        some = b.icmp_signed(">", count, number(0))
        these = phase, b.select(some, lines, number(0))
        with point_lines(b, r, block, where, points, these) as (line, first):
            entry = b.add(base, b.mul(line, length))
            each = [
                b.add(value, b.mul(begin, step))
                for value, step in zip(
                    (first.read, first.summed, first.stored), further, strict=True
                )
            ]
            with counted(b, length, each) as point:
                index = b.add(entry, point.index)
                for table, value in zip(tables, point.carried, strict=True):
                    store(b, value, table, index)
                point.carried = [
                    b.add(value, step) for value, step in zip(point.carried, further, strict=True)
                ]
        with b.if_then(some), counted(b, r.spare) as more:
            repeat_last(b, where, b.add(base, count), more.index)


def repeat_last(b: ir.IRBuilder, where: Place, filled: ir.Value, more: ir.Value) -> None:
    """Let a row of the last tile past the last point do what that one does."""
    for table in (where.rows, where.places, where.targets):
        repeated = load(b, table, b.sub(filled, number(1)))
        store(b, repeated, table, b.add(filled, more))
