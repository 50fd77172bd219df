"""Lines of panels of weights, packed from wherever their columns lie."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import KernelShape
from tconv.codegen.build import (
    I64,
    STORED,
    STORED_BYTES,
    counted,
    load,
    number,
    place,
    prefetch,
    prefetch_lines,
    smaller,
    splat,
    store,
)
from tconv.codegen.squares import covered, sizes, turned_in
from tconv.codegen.stored import line_place, store_line

FEW_LINES = 2  # fewer are packed by code that panels without all columns need, too

EXPONENTS = {
    "float16": 0x7C00,
    "bfloat16": 0x7F80,
    "float32": 0x7F80_0000,
    "float64": 0x7FF0_0000_0000_0000,
}


@dataclass(frozen=True, slots=True)
class Lines:
    """Where lines of one panel come from and go to."""

    source: ir.Value
    offsets: ir.Value  # of each line in the source
    target: ir.Value
    places: ir.Value  # of each line in the target
    column_step: ir.Value
    ahead: ir.Value  # how much further the source is asked for, in time to be read
    filled: ir.Value  # columns that there are
    last: ir.Value  # where the last vector's begin, if there are all
    narrow: ir.Value  # whether a line is one vector
    pairs: bool  # whether tiles want the columns of two vectors in pairs

    def line(self, b: ir.IRBuilder, index: ir.Value) -> ir.Value:
        """Return where a line goes."""
        return place(b, self.target, load(b, self.places, index))


class Found:
    """Whether a weight that is not finite was seen: all bits of an exponent are set."""

    def __init__(self, b: ir.IRBuilder, shape: KernelShape) -> None:
        self.exponent = EXPONENTS[shape.dtype]
        self.bits = ir.IntType(self.exponent.bit_length() + 1)
        self.seen = {lanes: b.alloca(self._kind(lanes)) for lanes in (1, shape.lanes)}
        for lanes, where in self.seen.items():
            b.store(self._all(lanes, 0), where)

    def look(self, b: ir.IRBuilder, value: ir.Value) -> None:
        """Look at an element or a vector."""
        lanes = value.type.count if isinstance(value.type, ir.VectorType) else 1
        mask = self._all(lanes, self.exponent)
        exponent = b.and_(b.bitcast(value, self._kind(lanes)), mask)
        endless = b.sext(b.icmp_signed("==", exponent, mask), self._kind(lanes))
        b.store(b.or_(b.load(self.seen[lanes]), endless), self.seen[lanes])

    def raise_flag(self, b: ir.IRBuilder, flag: ir.Value) -> None:
        """Store one in the flag if there was any."""
        for lanes, where in self.seen.items():
            whole = ir.IntType(lanes * self.bits.width)
            seen = b.bitcast(b.load(where), whole)
            with b.if_then(b.icmp_signed("!=", seen, ir.Constant(whole, 0)), likely=False):
                store(b, number(1), flag)

    def _kind(self, lanes: int) -> ir.Type:
        return ir.VectorType(self.bits, lanes) if lanes > 1 else self.bits

    def _all(self, lanes: int, value: int) -> ir.Constant:
        return ir.Constant(self._kind(lanes), [value] * lanes if lanes > 1 else value)


def pack_lines(
    b: ir.IRBuilder,
    shape: KernelShape,
    lines: Lines,
    these: tuple[ir.Value, ir.Value],
    found: Found,
) -> None:
    """Pack so many lines, told whether they lie side by side in the source, in this order."""
    count, straight = these
    whole = b.icmp_signed("==", lines.filled, number(shape.columns))
    rows = b.and_(whole, b.icmp_signed("==", lines.column_step, number(1)))
    with b.if_else(rows) as (copied, others):
        with copied, counted(b, count) as line:
            read = place(b, lines.source, load(b, lines.offsets, line.index))
            later = place(b, read, lines.ahead)
            prefetch_lines(b, later, shape.columns, STORED_BYTES[shape.dtype])
            copy_line(b, shape, (read, lines.last), lines.line(b, line.index), (found, lines.pairs))
        with others, b.if_else(b.icmp_signed("!=", straight, number(0))) as (turned, scattered):
            with turned:
                _turn_lines(b, shape, lines, count, found)
            with scattered, counted(b, count) as line:
                _pick_line(b, shape, lines, line.index, found)


def column_place(
    b: ir.IRBuilder, shape: KernelShape, column: ir.Value, narrow: ir.Value
) -> ir.Value:
    """Return where in a line of its panel a column lies."""
    wide = line_place(b, column, shape.dtype, (shape.vectors, shape.lanes))
    return b.select(narrow, column, wide)


def copy_line(
    b: ir.IRBuilder,
    shape: KernelShape,
    source: tuple[ir.Value, ir.Value],
    line: ir.Value,
    how: tuple[Found, bool],
) -> None:
    """Copy a line of a full panel whose columns lie side by side; in pairs, or in order.

    From where it begins, and where the last vector does in it.
    """
    read, last = source
    found, pairs = how
    vector = ir.VectorType(STORED[shape.dtype], shape.lanes)
    values = [load(b, read, here, vector) for here in vector_columns(shape, last)]
    for value in values:
        found.look(b, value)
    store_line(b, values, line, pairs=pairs)


def vector_columns(shape: KernelShape, last: ir.Value) -> list[ir.Value]:
    """Return the first column of each vector of a full panel."""
    return [*(number(v * shape.lanes) for v in range(shape.vectors - 1)), last]


def _turn_lines(
    b: ir.IRBuilder, shape: KernelShape, lines: Lines, count: ir.Value, found: Found
) -> None:
    """Pack lines that lie side by side in the source, a square of them and of columns at once."""
    source = place(b, lines.source, load(b, lines.offsets))
    vectors = b.select(lines.narrow, number(1), number(shape.vectors))
    whole = b.icmp_signed("==", lines.filled, number(shape.columns))
    for size in sizes(shape.lanes):
        if size >= FEW_LINES:
            some = b.select(whole, count, number(0))
            with covered(b, some, size, shape.lanes) as first:
                _turn_square(b, shape, lines, place(b, source, first), (first, size), found)
    quick = b.and_(whole, b.icmp_signed(">=", count, number(FEW_LINES)))
    rest = b.select(quick, number(0), count)
    behind = b.select(lines.narrow, number(0), lines.last)  # that the last vector begins with
    for size in (shape.lanes, 1):  # few panels go here: other sizes would be more code than speed
        with covered(b, rest, size, shape.lanes, shape.lanes) as first:
            begin = place(b, source, first)
            if not lines.pairs:
                with _vectors(b, shape, vectors, behind) as (column, read):
                    values = _columns(b, shape, lines, begin, (read, size))
                    for j, value in enumerate(values):
                        found.look(b, value)
                        store(b, value, lines.line(b, b.add(first, number(j))), column)
                continue
            with b.if_else(lines.narrow) as (one, all_of_them):
                for used, panel in ((1, one), (shape.vectors, all_of_them)):
                    with panel:
                        columns = [
                            _columns(b, shape, lines, begin, (column, size))
                            for column in vector_columns(shape, behind)[-used:]
                        ]
                        for j, halves in enumerate(zip(*columns, strict=True)):
                            for value in halves:
                                found.look(b, value)
                            line = lines.line(b, b.add(first, number(j)))
                            store_line(b, halves, line, pairs=True)


def _turn_square(  # noqa: PLR0913 - what goes where
    b: ir.IRBuilder,
    shape: KernelShape,
    lines: Lines,
    begin: ir.Value,
    square: tuple[ir.Value, int],
    found: Found,
) -> None:
    """Pack so many lines from the first on, of a panel that has all its columns."""
    first, size = square

    def turned(column: ir.Value) -> list[ir.Value]:
        at = place(b, begin, b.mul(column, lines.column_step))
        starts = [
            place(b, at, b.mul(number(lane), lines.column_step)) for lane in range(shape.lanes)
        ]
        for start in starts:
            prefetch(b, place(b, start, lines.ahead))
        values = turned_in(b, starts, size)
        for value in values:
            found.look(b, value)
        return values

    # Vectors one by one are less code; but those that tiles want in pairs go together.
    if not lines.pairs:
        with _vectors(b, shape, number(shape.vectors), lines.last) as (column, read):
            for j, value in enumerate(turned(read)):
                store(b, value, lines.line(b, b.add(first, number(j))), column)
        return
    columns = [turned(column) for column in vector_columns(shape, lines.last)]
    for j, values in enumerate(zip(*columns, strict=True)):
        store_line(b, values, lines.line(b, b.add(first, number(j))), pairs=True)


@contextmanager
def _vectors(
    b: ir.IRBuilder, shape: KernelShape, count: ir.Value, last: ir.Value
) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Emit a loop over vectors of a line: where each goes, and where it is read from."""
    with counted(b, count) as v:
        column = b.mul(v.index, number(shape.lanes))
        ends = b.icmp_signed("==", v.index, number(shape.vectors - 1))
        yield column, b.select(ends, last, column)


def _columns(
    b: ir.IRBuilder,
    shape: KernelShape,
    lines: Lines,
    begin: ir.Value,
    square: tuple[ir.Value, int],
) -> list[ir.Value]:
    """Return vectors of columns from the first on for so many lines, zeros past the last one."""
    first, size = square
    # Columns that are not there repeat the last one, which can be read.
    final = b.sub(lines.filled, number(1))
    starts = [
        place(
            b,
            begin,
            b.mul(smaller(b, b.add(first, number(lane)), final), lines.column_step),
        )
        for lane in range(shape.lanes)
    ]
    kind = ir.VectorType(I64, shape.lanes)
    lanes = ir.Constant(kind, list(range(shape.lanes)))
    there = b.icmp_signed("<", lanes, splat(b, b.sub(lines.filled, first), shape.lanes))
    values = turned_in(b, starts, size)
    zero = ir.Constant(values[0].type, [0] * shape.lanes)
    return [b.select(there, value, zero) for value in values]


def _pick_line(
    b: ir.IRBuilder, shape: KernelShape, lines: Lines, index: ir.Value, found: Found
) -> None:
    """Pack one line element by element."""
    read = place(b, lines.source, load(b, lines.offsets, index))
    line = lines.line(b, index)
    # The last vector's columns may be some of those before them again.
    before = number((shape.vectors - 1) * shape.lanes)
    back = b.select(lines.narrow, number(0), b.sub(before, lines.last))
    with counted(b, lines.filled) as column:
        again = b.icmp_signed(">=", column.index, before)
        here = b.sub(column.index, b.select(again, back, number(0)))
        value = load(b, read, b.mul(here, lines.column_step))
        store(b, value, line, _place(b, shape, lines, column.index))
        found.look(b, value)
    width = b.select(lines.narrow, number(shape.lanes), number(shape.columns))
    with counted(b, width, first=lines.filled) as column:
        zero = ir.Constant(STORED[shape.dtype], 0)
        store(b, zero, line, _place(b, shape, lines, column.index))


def _place(b: ir.IRBuilder, shape: KernelShape, lines: Lines, column: ir.Value) -> ir.Value:
    return column_place(b, shape, column, lines.narrow) if lines.pairs else column
