"""Which points a correlation's tiles run over: segments of a block, and what a tap meets of them.

A segment is a line, or several that became one run.  Where lines stay apart, those of one image
after another are neighbours in the tables: so all lines that a tap meets are, too, plane by plane.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import Block, Record
from tconv.codegen.build import counted, larger, load, number, smaller, store

LIMITS = 3  # of each tap: planes, lines and points


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of a block: planes of lines, and where the block begins on those axes."""

    planes: ir.Value
    lines: ir.Value  # of a plane, in all images
    images: ir.Value
    run: ir.Value  # points of a segment
    starts: tuple[ir.Value, ir.Value, ir.Value]  # of planes, lines and points


@dataclass(frozen=True, slots=True)
class Run:
    """What is summed at a time: few enough points that a panel of them stays in the cache."""

    first: ir.Value  # whether this is the first of all
    planes: tuple[ir.Value, ir.Value]  # from, to
    lines: tuple[ir.Value, ir.Value]
    points: tuple[ir.Value, ir.Value]


@dataclass(frozen=True, slots=True)
class Met:
    """What a tap meets of a run."""

    segment: ir.Value  # the first
    point: ir.Value  # the first, of each segment
    planes: ir.Value
    lines: ir.Value
    points: ir.Value
    any: ir.Value


def fill_segments(
    b: ir.IRBuilder,
    r: Record,
    block: Block,
    tables: list[ir.Value],
    widths: tuple[ir.Value, ir.Value],
) -> Segments:
    """Note where segments begin on both sides."""

    def count_of(d: ir.Value) -> ir.Value:
        return b.sub(load(b, block.stops, d), load(b, block.starts, d))

    with counted(b, r.outer, [number(1), b.sub(block.stop, block.start)]) as axis:
        d = axis.index
        count, run = axis.carried
        size = count_of(d)
        apart = b.icmp_signed("<", d, r.split)
        more = b.mul(b.sub(size, number(1)), r.at("b_pitches", d))
        axis.carried = [
            b.select(apart, b.mul(count, size), count), b.select(apart, run, b.add(run, more)),
        ]  # fmt: skip
    count, run = axis.carried
    with counted(b, count) as segment:
        with counted(b, r.split, [segment.index, number(0), number(0)]) as axis:
            # Images, then the last axis, and so on.
            is_batch = b.icmp_signed("==", axis.index, number(0))
            d = b.select(is_batch, number(0), b.sub(r.split, axis.index))
            rest, *offsets = axis.carried
            size = count_of(d)
            here = b.srem(rest, size)
            axis.carried = [
                b.sdiv(rest, size),
                *(
                    b.add(offset, b.mul(here, r.at(f"{side}_pitches", d)))
                    for side, offset in zip("ab", offsets, strict=True)
                ),
            ]
        for table, offset, width in zip(tables, axis.carried[1:], widths, strict=True):
            store(b, b.mul(offset, width), table, segment.index)
    line_axis, plane_axis = (larger(b, b.sub(r.split, number(back)), number(0)) for back in (1, 2))
    alone = b.icmp_signed("<", r.split, number(1))
    images = b.select(alone, number(1), count_of(number(0)))
    alone = b.icmp_signed("<", r.split, number(2))
    lines = b.mul(images, b.select(alone, number(1), count_of(line_axis)))
    return Segments(
        planes=b.sdiv(count, lines),
        lines=lines,
        images=images,
        run=run,
        starts=(load(b, block.starts, plane_axis), load(b, block.starts, line_axis), block.start),
    )


@contextmanager
def runs_of(b: ir.IRBuilder, r: Record, segments: Segments) -> Iterator[Run]:
    """Emit a loop over runs: whole planes, or some lines of one, or a part of one line."""
    run, most = segments.run, r.run_points
    plane = b.mul(segments.lines, run)
    planes = larger(b, b.sdiv(most, plane), number(1))
    lines = smaller(b, larger(b, b.sdiv(most, run), number(1)), segments.lines)
    parts = b.sdiv(b.add(run, b.sub(most, number(1))), most)
    length = b.sdiv(b.add(run, b.sub(parts, number(1))), parts)
    length = b.and_(b.add(length, number(3)), number(-4))
    sizes = (planes, segments.planes), (lines, segments.lines), (length, run)
    turns = [b.sdiv(b.add(whole, b.sub(size, number(1))), size) for size, whole in sizes]
    with counted(b, turns[0]) as p, counted(b, turns[1]) as line, counted(b, turns[2]) as x:
        here = []
        for turn, (size, whole) in zip((p, line, x), sizes, strict=True):
            first = b.mul(turn.index, size)
            here.append((first, smaller(b, b.add(first, size), whole)))
        index = b.add(b.add(p.index, line.index), x.index)
        yield Run(b.icmp_signed("==", index, number(0)), *here)


def what_meets(b: ir.IRBuilder, r: Record, segments: Segments, run: Run, tap: ir.Value) -> Met:
    """Return what of a run a tap meets, instead of zeros around the fine side."""
    entry = b.mul(tap, number(LIMITS))
    units = number(1), segments.images, number(1)
    firsts, counts = [], []
    for k, limits in enumerate((run.planes, run.lines, run.points)):
        ends = [
            b.mul(b.sub(r.at(name, b.add(entry, number(k))), segments.starts[k]), units[k])
            for name in ("meets_from", "meets_to")
        ]
        first = larger(b, limits[0], ends[0])
        firsts.append(first)
        counts.append(larger(b, b.sub(smaller(b, limits[1], ends[1]), first), number(0)))
    # One that is empty leaves nothing: no plane at all.
    found = b.mul(b.mul(counts[0], counts[1]), counts[2])
    some = b.icmp_signed(">", found, number(0))
    segment = b.add(b.mul(firsts[0], segments.lines), firsts[1])
    return Met(
        segment=b.select(some, segment, number(0)),
        point=b.select(some, firsts[2], number(0)),
        planes=b.select(some, counts[0], number(0)),
        lines=counts[1],
        points=counts[2],
        any=some,
    )
