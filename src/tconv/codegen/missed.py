"""Taps that points miss: bits of what each meets, points sorted by them, segments listed.

What the numbers mean is said in :mod:`tconv.plan.missed`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from llvmlite import ir

from tconv.codegen.block import Record
from tconv.codegen.build import (
    BYTES,
    FLOATS,
    I1,
    I32,
    I64,
    advancing,
    counted,
    declared,
    function,
    larger,
    load,
    number,
    place,
    smaller,
    splat,
    store,
)
from tconv.plan.missed import BITS, ENTRY, LISTED_ROWS

TABLE = I64.as_pointer()


@dataclass(frozen=True, slots=True)
class Missed:
    """The functions that find out what points miss."""

    note: ir.Function
    sort: ir.Function
    lists: dict[int, ir.Function]  # by rows of a tile


@dataclass(frozen=True, slots=True)
class Listing:
    """The segments that the rows of a tile meet."""

    functions: Missed
    listed: ir.Value
    bits: ir.Value  # of the points of a phase
    operands: list[ir.Value]  # data, zeros for what rows miss, and the segments
    numbers: list[ir.Value]  # of words, points, and of the part that is listed
    pitch: ir.Value  # from the list of one tile to that of the next
    known: ir.Value  # whether another panel has listed them

    def of_tile(
        self, b: ir.IRBuilder, turn: ir.Value, first: ir.Value, table: ir.Value, rows: int
    ) -> tuple[ir.Value, ir.Value]:
        """List the segments of a tile; return how many, and where they are."""
        listed = place(b, self.listed, b.mul(turn, self.pitch))
        with b.if_then(b.not_(self.known)):
            bits = place(b, self.bits, first)
            arguments = [listed, bits, table, *self.operands, *self.numbers]
            b.call(self.functions.lists[rows], arguments)
        return load(b, listed, 0), place(b, listed, 1)


def missed_places(
    b: ir.IRBuilder, r: Record, scratch: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return where scratch has room to sort points, for their bits, and for listed segments."""
    names = ("classes", "bits", "listed")
    places = (place(b, scratch, getattr(r, f"scratch_{name}")) for name in names)
    classes, bits, listed = (b.bitcast(each, TABLE) for each in places)
    return classes, bits, listed


def emit_missed(module: ir.Module, dtype: str, rows: Iterable[int]) -> Missed:
    """Emit the functions, for tiles of some rows."""
    lists = {each: emit_list(module, dtype, each) for each in sorted({*rows})}
    return Missed(emit_note(module), emit_sort(module), lists)


def emit_note(module: ir.Module) -> ir.Function:
    """Emit ``note(bits, taps, coordinate, size, words)``: keep the bits of taps that are met.

    Taps are a count, then of each its offset and its bits; without any, all bits are kept.
    """
    made, b = function(module, "note_met", [TABLE, TABLE, *[I64] * 3])
    bits, taps, coordinate, size, words = made.args
    count = load(b, taps, 0)
    entry = b.add(words, number(1))
    with b.if_then(b.icmp_signed(">", count, number(0))), counted(b, words) as word:
        with counted(b, count, [number(0)]) as tap:
            begin = place(b, taps, b.add(number(1), b.mul(tap.index, entry)))
            here = b.add(coordinate, load(b, begin, 0))
            met = b.icmp_unsigned("<", here, size)  # below 0 is large
            mine = load(b, begin, b.add(word.index, number(1)))
            tap.carried[0] = b.or_(tap.carried[0], b.select(met, mine, number(0)))
        store(b, b.and_(load(b, bits, word.index), tap.carried[0]), bits, word.index)
    b.ret_void()
    return made


def emit_sort(module: ir.Module) -> ir.Function:
    """Emit ``sort(order, ends, bits, count, words)``: numbers of equal bits side by side.

    ``ends`` tells of the first of them where they end.
    """
    made, b = function(module, "sort_met", [*[TABLE] * 3, I64, I64])
    order, ends, bits, count, words = made.args
    with counted(b, count) as each:
        store(b, each.index, order, each.index)

    def bits_of(entry: ir.Value) -> ir.Value:
        return place(b, bits, b.mul(load(b, order, entry), words))

    with advancing(b, number(0), count) as first:
        mine, behind = bits_of(first.index), b.add(first.index, number(1))
        with counted(b, count, [behind], first=behind) as other:
            theirs, end = bits_of(other.index), other.carried[0]
            with counted(b, words, [ir.Constant(I1, 1)]) as word:
                left, right = load(b, mine, word.index), load(b, theirs, word.index)
                word.carried[0] = b.and_(word.carried[0], b.icmp_signed("==", left, right))
            same = word.carried[0]
            with b.if_then(same):
                swapped = load(b, order, end), load(b, order, other.index)
                store(b, swapped[1], order, end)
                store(b, swapped[0], order, other.index)
            other.carried[0] = b.add(end, b.zext(same, I64))
        store(b, other.carried[0], ends, first.index)
        first.following = other.carried[0]
    b.ret_void()
    return made


def emit_list(module: ir.Module, dtype: str, rows: int) -> ir.Function:
    """Emit ``list(listed, bits, table, data, zeros, segments, words, points, first, some, ...)``.

    Notes how many runs of ``some`` segments any row meets, then of each what a tile needs.  The
    last numbers are the depth of a segment, how much of it is read, how many zeros there are, and
    whether those are what rows read that do not meet it: packed data has zeros of its own.  Bits
    lie word by word, ``points`` apart.  Segments that follow one another for all rows are one run,
    not longer than the zeros.
    """
    pointer = FLOATS[dtype].as_pointer()
    kinds = [*[TABLE] * 3, pointer, pointer, TABLE, *[I64] * 8]
    made, b = function(module, f"list_met_{dtype}_{rows}", kinds)
    listed, bits, table, data, zeros, segments, words, points = made.args[:8]
    first, some, depth, read, most, apart = made.args[8:]
    first_one = declared(module, "llvm.cttz.i64", I64, [I64, I1])
    ones = declared(module, "llvm.ctpop.i64", I64, [I64])
    vector, flags = ir.VectorType(I64, LISTED_ROWS), ir.IntType(LISTED_ROWS)
    mine = ir.Constant(vector, [-int(row < rows) for row in range(LISTED_ROWS)])
    others = ir.Constant(flags, (1 << LISTED_ROWS) - (1 << rows))
    item = number(BYTES[dtype])
    at = b.mul(load(b, table, 0, vector), splat(b, item, LISTED_ROWS))
    at = b.add(at, splat(b, b.ptrtoint(data, I64), LISTED_ROWS))
    nowhere = splat(b, b.ptrtoint(zeros, I64), LISTED_ROWS)
    length = b.mul(read, item)
    packed = splat(b, b.icmp_signed("==", apart, number(0)), LISTED_ROWS)

    # How many runs there are; of the last one where rows and weights go on, and how long it is.
    start = [number(0), nowhere, number(-1), number(0)]
    with counted(b, words, start) as word:
        row_bits = b.and_(load(b, bits, b.mul(word.index, points), vector), mine)
        each = [b.extract_element(row_bits, ir.Constant(I32, row)) for row in range(rows)]
        base = b.mul(word.index, number(BITS))
        begin = b.sub(first, base)
        part = b.and_(_below(b, b.add(begin, some)), b.not_(_below(b, begin)))
        met = b.and_(reduce(b.or_, each), part)
        with counted(b, b.call(ones, [met]), [*word.carried, met]) as bit:
            count, following, expected, longest, left = bit.carried
            here = b.call(first_one, [left, ir.Constant(I1, 1)])
            segment, shifted = b.add(here, base), b.lshr(row_bits, splat(b, here, LISTED_ROWS))
            meets = b.or_(b.trunc(shifted, ir.VectorType(I1, LISTED_ROWS)), packed)
            offset = b.mul(load(b, segments, segment), item)
            here = b.select(meets, b.add(at, splat(b, offset, LISTED_ROWS)), nowhere)
            side_by_side = b.or_(b.bitcast(b.icmp_signed("==", here, following), flags), others)
            longer = b.add(longest, read)
            conditions = (
                b.icmp_signed("==", side_by_side, ir.Constant(flags, -1)),
                b.icmp_signed("==", segment, expected),
                b.icmp_signed("<=", longer, most),
            )
            goes_on = reduce(b.and_, conditions)
            longest = b.select(goes_on, longer, read)
            entry = place(b, listed, b.add(number(1 - ENTRY), b.mul(count, number(ENTRY))))
            with b.if_else(goes_on) as (same, other):
                with same:
                    store(b, longer, entry, LISTED_ROWS + 1)
                with other:
                    store(b, here, entry, ENTRY)
                    store(b, b.mul(segment, depth), entry, ENTRY + LISTED_ROWS)
                    store(b, read, entry, ENTRY + LISTED_ROWS + 1)
            step = b.select(meets, splat(b, length, LISTED_ROWS), ir.Constant(vector, [0] * 8))
            bit.carried = [
                b.add(count, b.zext(b.not_(goes_on), I64)),
                b.add(here, step),
                b.add(segment, number(1)),
                longest,
                b.and_(left, b.sub(left, number(1))),
            ]
        word.carried = bit.carried[:-1]
    store(b, word.carried[0], listed, 0)
    b.ret_void()
    return made


def _below(b: ir.IRBuilder, end: ir.Value) -> ir.Value:
    """Return a word whose bits below an end are set, wherever that is."""
    clipped = smaller(b, larger(b, end, number(0)), number(BITS))
    whole = b.icmp_signed("==", clipped, number(BITS))
    shifted = b.shl(number(1), b.select(whole, number(0), clipped))
    return b.select(whole, number(-1), b.sub(shifted, number(1)))
