"""Points of a block, sorted by the taps that they meet: the tables that tiles read."""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import Block, Record
from tconv.codegen.block_lines import each_line, reads, stores
from tconv.codegen.build import advancing, counted, load, number, place, store
from tconv.codegen.missed import Missed, missed_places
from tconv.codegen.places import Place
from tconv.codegen.points import points_of, repeat_last


def fill_sorted(  # noqa: PLR0913 - the same for points that miss taps
    b: ir.IRBuilder,
    r: Record,
    functions: Missed,
    block: Block,
    where: Place,
    phase_lines: tuple[ir.Value, ir.Value],
) -> None:
    """Note what points read and where they go, sorted by the taps that they meet; note those."""
    phase, lines = phase_lines
    room, bits, _ = missed_places(b, r, where.scratch)
    with counted(b, r.phases) as x:
        points = points_of(b, r, block, x.index)
        low, length = points.low, points.length
        store(b, b.mul(length, lines), where.counts, x.index)
        line_of = _classes(b, r, room, lines, more=2)
        point_of = _classes(b, r, place(b, room, b.mul(lines, b.add(r.words, number(4)))), length)
        first = b.add(b.add(b.mul(low, r.step_out), r.shift_out), x.index)
        met = place(b, r.met, r.at("met_start", b.add(b.mul(phase, r.phases), x.index)))
        walks = (
            reads(b, r, block, where.data.line_steps),
            stores(b, r, block, phase, b.mul(first, r.target_x)),
        )
        with each_line(b, r, block, lines, *walks) as (index, places):
            for table, value in zip(line_of.more, places, strict=True):
                store(b, value, table, index)
        with counted(b, lines, [met]) as line:
            mine = line_of.bits_of(b, line.index)
            line.carried[0] = _note_line(b, r, functions, block, (mine, met, line.index))
        with counted(b, length) as point:
            mine = point_of.bits_of(b, point.index)
            here = b.mul(b.add(point.index, low), r.step_in)
            b.call(functions.note, [mine, line.carried[0], here, r.size_in, r.words])
        for these, count in ((line_of, lines), (point_of, length)):
            b.call(functions.sort, [these.order, these.ends, these.bits, count, r.words])
        numbers = x.index, b.sub(low, block.start), lines, length
        filled = _fill_classes(b, r, where, (line_of, point_of), bits, numbers)
        with b.if_then(b.icmp_signed(">", length, number(0))), counted(b, r.spare) as more:
            repeat_last(b, where, filled, more.index)
            with counted(b, r.words) as word:
                here = b.add(filled, b.mul(word.index, b.mul(r.points, r.phases)))
                repeated = load(b, bits, b.sub(here, number(1)))
                store(b, repeated, bits, b.add(here, more.index))


@dataclass(frozen=True, slots=True)
class _Classes:
    """Lines, or points of all lines, sorted by what they meet."""

    bits: ir.Value
    order: ir.Value
    ends: ir.Value
    more: list[ir.Value]  # other tables
    words: ir.Value

    def bits_of(self, b: ir.IRBuilder, index: ir.Value) -> ir.Value:
        """Return where the bits of one are."""
        return place(b, self.bits, b.mul(index, self.words))


def _classes(
    b: ir.IRBuilder, r: Record, room: ir.Value, count: ir.Value, more: int = 0
) -> _Classes:
    """Lay tables for so many out; all of them meet everything so far."""
    with counted(b, b.mul(count, r.words)) as word:
        store(b, number(-1), room, word.index)
    order = place(b, room, b.mul(count, r.words))
    tables = [order]
    for _ in range(more + 1):
        tables.append(place(b, tables[-1], count))
    return _Classes(room, tables[0], tables[1], tables[2:], r.words)


def _fill_classes(  # noqa: PLR0913 - which points of what
    b: ir.IRBuilder,
    r: Record,
    where: Place,
    classes: tuple[_Classes, _Classes],
    bits: ir.Value,
    numbers: tuple[ir.Value, ir.Value, ir.Value, ir.Value],
) -> ir.Value:
    """Note what points of sorted lines read, where they go and what they meet.

    The numbers are the phase of the last axis, where it begins in the block, lines, and points of
    each.  Returns where the entries end.
    """
    line_of, point_of = classes
    x, begin, lines, length = numbers
    step = b.mul(r.step_in, where.data.point_step)
    apart = b.mul(r.step_out, r.target_x)
    every = b.mul(r.points, r.phases)
    with advancing(b, number(0), lines, [b.mul(x, r.points)]) as far:
        far.following = load(b, line_of.ends, far.index)
        with advancing(b, number(0), length, far.carried) as near:
            near.following = load(b, point_of.ends, near.index)
            with counted(b, far.following, near.carried, first=far.index) as some:
                line = load(b, line_of.order, some.index)
                offset, target = (load(b, table, line) for table in line_of.more)
                outer_bits = line_of.bits_of(b, line)
                written = b.add(b.mul(line, r.sums_pitch), x)
                with counted(b, near.following, some.carried, first=near.index) as each:
                    (entry,) = each.carried
                    point = load(b, point_of.order, each.index)
                    here = b.add(point, begin)
                    position = b.add(written, b.mul(here, r.step_out))
                    store(b, b.add(offset, b.mul(here, step)), where.rows, entry)
                    store(b, b.mul(position, r.sums_point), where.places, entry)
                    store(b, b.add(target, b.mul(point, apart)), where.targets, entry)
                    inner_bits = point_of.bits_of(b, point)
                    with counted(b, r.words) as word:
                        known = load(b, outer_bits, word.index)
                        known = b.and_(known, load(b, inner_bits, word.index))
                        store(b, known, bits, b.add(entry, b.mul(word.index, every)))
                    each.carried = [b.add(entry, number(1))]
                some.carried = each.carried
            near.carried = some.carried
        far.carried = near.carried
    return far.carried[0]


def _note_line(
    b: ir.IRBuilder,
    r: Record,
    functions: Missed,
    block: Block,
    numbers: tuple[ir.Value, ir.Value, ir.Value],
) -> ir.Value:
    """Note which segments points of a line meet, as far as outer axes tell.

    The numbers are where, what taps of all axes read, and the line.  Returns where those of the
    last axis begin.
    """
    bits, met, line = numbers
    words = r.words
    with counted(b, r.outer, [met]) as axis:
        count = load(b, axis.carried[0], 0)
        # The first axis varies slowest.
        with counted(b, r.outer, [line], first=b.add(axis.index, number(1))) as inner:
            inner.carried[0] = b.sdiv(inner.carried[0], load(b, block.extents, inner.index))
        here = b.srem(inner.carried[0], load(b, block.extents, axis.index))
        point = b.add(here, load(b, block.lows, axis.index))
        coordinate = b.mul(point, r.at("steps_in", axis.index))
        size = r.at("sizes_in", axis.index)
        b.call(functions.note, [bits, axis.carried[0], coordinate, size, words])
        taps = b.mul(count, b.add(words, number(1)))
        axis.carried[0] = place(b, axis.carried[0], b.add(taps, number(1)))
    return axis.carried[0]
