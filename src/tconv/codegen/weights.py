"""Weights packed into panels, in the order that tiles read them."""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import KernelShape, Record
from tconv.codegen.build import (
    I1,
    I64,
    STORED,
    counted,
    function,
    load,
    number,
    place,
    smaller,
    splat,
    store,
)
from tconv.codegen.squares import covered, sizes, turned_in
from tconv.codegen.stored import line_of, line_place
from tconv.plan.weights import ARRAYS, CELL_ARRAYS, CELL_FIELDS, FIELDS, NOWHERE

EXPONENTS = {
    "float16": 0x7C00,
    "bfloat16": 0x7F80,
    "float32": 0x7F80_0000,
    "float64": 0x7FF0_0000_0000_0000,
}


def emit_pack_weights(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``pack_weights(record, scratch, item)``, public.

    An item is a block of the depth of one panel of one group: for each tap and channel of the
    depth a line, the panel's channels side by side, zeros past the last.  A panel of at most
    one vector's channels is narrow.  The flag is raised if any weight is not finite.
    """
    pointer = STORED[shape.dtype].as_pointer()
    made, b = function(
        module, f"pack_weights_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    r = Record(b, made.args[0], FIELDS, ARRAYS)
    block, rest = b.srem(made.args[2], r.blocks), b.sdiv(made.args[2], r.blocks)
    panel, group = b.srem(rest, r.panels), b.sdiv(rest, r.panels)
    channel = b.mul(panel, number(shape.columns))
    left = b.sub(r.columns, channel)
    narrow = b.icmp_signed("<=", left, number(shape.lanes))
    width = b.select(narrow, number(shape.lanes), number(shape.columns))
    origin = b.add(b.mul(group, r.group_step), b.mul(channel, r.column_step))
    source = place(b, r.pointer_to("source", pointer), origin)
    target = place(b, r.pointer_to("target", pointer), b.mul(group, r.group_weights))
    first = b.mul(block, r.block)
    last = smaller(b, r.depth, b.add(first, r.block))
    units = b.sdiv(b.add(b.sub(last, first), b.sub(r.unit, number(1))), r.unit)
    found = _Found(b, shape)
    with counted(b, units) as turn:
        k = b.add(first, b.mul(turn.index, r.unit))
        count = b.mul(smaller(b, r.unit, b.sub(last, k)), r.entries)
        with counted(b, r.sets) as each:
            begin = b.mul(each.index, b.mul(r.unit, r.entries))
            lines = _Lines(
                source=place(b, source, b.mul(k, r.depth_step)),
                offsets=place(b, r.offsets, begin),
                target=place(b, target, b.mul(k, width)),
                places=place(b, b.select(narrow, r.narrow, r.wide), begin),
                steps=place(b, r.panel_steps, begin),
                panel=panel,
                column_step=r.column_step,
                filled=smaller(b, left, width),
                narrow=narrow,
            )
            whole = b.icmp_signed(">=", left, number(shape.columns))
            rows = b.and_(whole, b.icmp_signed("==", r.column_step, number(1)))
            straight = b.icmp_signed("!=", r.straight, number(0))
            with b.if_else(rows) as (copied, others):
                with copied, counted(b, count) as line:
                    _copy_line(b, shape, lines, line.index, found)
                with others, b.if_else(straight) as (turned, scattered):
                    with turned:
                        _turn_lines(b, shape, lines, count, found)
                    with scattered, counted(b, count) as line:
                        _pick_line(b, shape, lines, line.index, found)
    found.raise_flag(b, r.pointer_to("flag", I64.as_pointer()))
    b.ret_void()
    return made


@dataclass(frozen=True, slots=True)
class _Lines:
    """Where lines of one panel come from and go to."""

    source: ir.Value
    offsets: ir.Value  # of each line in the source
    target: ir.Value
    places: ir.Value  # of each line in the target, and how much further each panel lies
    steps: ir.Value
    panel: ir.Value
    column_step: ir.Value
    filled: ir.Value  # columns that there are
    narrow: ir.Value  # whether a line is one vector

    def line(self, b: ir.IRBuilder, index: ir.Value) -> ir.Value:
        """Return where a line goes."""
        further = b.mul(self.panel, load(b, self.steps, index))
        return place(b, self.target, b.add(load(b, self.places, index), further))


class _Found:
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


def _copy_line(
    b: ir.IRBuilder, shape: KernelShape, lines: _Lines, index: ir.Value, found: _Found
) -> None:
    """Copy a line of a full panel whose columns lie side by side."""
    vector = ir.VectorType(STORED[shape.dtype], shape.lanes)
    begin = load(b, lines.offsets, index)
    values = [
        load(b, lines.source, b.add(begin, number(v * shape.lanes)), vector)
        for v in range(shape.vectors)
    ]
    for value in values:
        found.look(b, value)
    store(b, line_of(b, values, shape.dtype), lines.line(b, index))


def _turn_lines(
    b: ir.IRBuilder, shape: KernelShape, lines: _Lines, count: ir.Value, found: _Found
) -> None:
    """Pack lines that lie side by side in the source, a square of them and of columns at once."""
    source = place(b, lines.source, load(b, lines.offsets))
    with b.if_else(lines.narrow) as (one, all_of_them):
        for vectors, panel in ((1, one), (shape.vectors, all_of_them)):
            with panel:
                for size in sizes(shape.lanes):
                    with covered(b, count, size, shape.lanes) as first:
                        begin = place(b, source, first)
                        columns = [
                            _columns(b, shape, lines, begin, v * shape.lanes, size)
                            for v in range(vectors)
                        ]
                        for j, values in enumerate(zip(*columns, strict=True)):
                            for value in values:
                                found.look(b, value)
                            line = line_of(b, values, shape.dtype)
                            store(b, line, lines.line(b, b.add(first, number(j))))


def _columns(  # noqa: PLR0913 - from where to where
    b: ir.IRBuilder,
    shape: KernelShape,
    lines: _Lines,
    begin: ir.Value,
    first: int,
    size: int,
) -> list[ir.Value]:
    """Return vectors of some columns for so many lines, zeros past the last column."""
    # Columns that are not there repeat the last one, which can be read.
    final = b.sub(lines.filled, number(1))
    starts = [
        place(b, begin, b.mul(smaller(b, number(first + lane), final), lines.column_step))
        for lane in range(shape.lanes)
    ]
    kind = ir.VectorType(I64, shape.lanes)
    lanes = ir.Constant(kind, [first + lane for lane in range(shape.lanes)])
    there = b.icmp_signed("<", lanes, splat(b, lines.filled, shape.lanes))
    values = turned_in(b, starts, size)
    zero = ir.Constant(values[0].type, [0] * shape.lanes)
    return [b.select(there, value, zero) for value in values]


def _pick_line(
    b: ir.IRBuilder, shape: KernelShape, lines: _Lines, index: ir.Value, found: _Found
) -> None:
    """Pack one line element by element."""
    read = place(b, lines.source, load(b, lines.offsets, index))
    line = lines.line(b, index)
    with counted(b, lines.filled) as column:
        value = load(b, read, b.mul(column.index, lines.column_step))
        store(b, value, line, _place(b, shape, column.index, lines.narrow))
        found.look(b, value)
    width = b.select(lines.narrow, number(shape.lanes), number(shape.columns))
    with counted(b, width, first=lines.filled) as column:
        zero = ir.Constant(STORED[shape.dtype], 0)
        store(b, zero, line, _place(b, shape, column.index, lines.narrow))


def emit_pack_cells(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``pack_cells(record, scratch, item)``, public.

    An item is one panel for one neighbour of one group: for each channel of the depth the
    panel's columns side by side, each from where the table says.
    """
    kind = STORED[shape.dtype]
    pointer = kind.as_pointer()
    made, b = function(
        module, f"pack_cells_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    r = Record(b, made.args[0], CELL_FIELDS, CELL_ARRAYS)
    panel, rest = b.srem(made.args[2], r.panels), b.sdiv(made.args[2], r.panels)
    neighbour, group = b.srem(rest, r.neighbours), b.sdiv(rest, r.neighbours)
    wide = b.icmp_signed("<", panel, r.wide_panels)
    width = b.select(wide, number(shape.columns), number(shape.lanes))
    rows = b.mul(r.neighbours, r.depth)
    behind = b.add(
        b.mul(b.mul(panel, rows), number(shape.columns)),
        b.mul(b.mul(neighbour, r.depth), width),
    )
    begin = b.add(b.mul(group, r.group_weights), behind)
    target = place(b, r.pointer_to("target", pointer), begin)
    source = place(b, r.pointer_to("source", pointer), b.mul(group, r.group_step))
    columns = b.mul(b.add(b.mul(neighbour, r.panels), panel), number(shape.columns))
    offsets = place(b, r.offsets, columns)
    with counted(b, width, [ir.Constant(I1, 0)]) as column:
        offset = load(b, offsets, column.index)
        here = _place(b, shape, column.index, b.not_(wide))
        there = b.icmp_signed("!=", offset, number(NOWHERE))
        line = place(b, source, b.select(there, offset, number(0)))
        with counted(b, r.depth, column.carried) as k:
            read = load(b, line, b.mul(k.index, r.depth_step))
            value = b.select(there, read, ir.Constant(kind, 0))
            store(b, value, target, b.add(b.mul(k.index, width), here))
            k.carried = [b.or_(k.carried[0], _endless(b, value, shape.dtype))]
        column.carried = k.carried
    with b.if_then(column.carried[0], likely=False):
        store(b, number(1), r.pointer_to("flag", I64.as_pointer()))
    b.ret_void()
    return made


def _place(b: ir.IRBuilder, shape: KernelShape, column: ir.Value, narrow: ir.Value) -> ir.Value:
    """Return where in a line of its panel a column lies."""
    wide = line_place(b, column, shape.dtype, (shape.vectors, shape.lanes))
    return b.select(narrow, column, wide)


def _endless(b: ir.IRBuilder, value: ir.Value, dtype: str) -> ir.Value:
    """Tell whether a stored element is an infinity or NaN: all bits of its exponent are set."""
    bits = b.bitcast(value, ir.IntType(EXPONENTS[dtype].bit_length() + 1))
    mask = ir.Constant(bits.type, EXPONENTS[dtype])
    return b.icmp_signed("==", b.and_(bits, mask), mask)
