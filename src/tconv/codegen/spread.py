"""Spreads: results of a denser problem, among points that no window meets.

One work item writes some chunks of the result, each from end to end: blanks first, then what there
is between them.  What a number means is said in :mod:`tconv.plan.spread`, which fills the record
in.
"""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.activation import activated
from tconv.codegen.block import KernelShape, Record
from tconv.codegen.build import (
    FLOATS,
    I1,
    I64,
    LINE,
    STORED,
    STORED_BYTES,
    counted,
    function,
    larger,
    load,
    number,
    place,
    smaller,
    splat,
    store,
    stream,
    zeros,
)
from tconv.codegen.plane_rows import interleaved
from tconv.codegen.stored import covered, if_enough, rounded
from tconv.plan.spread import APART, ARRAYS, FIELDS, IN_PLACE, MIXED, NOWHERE, PAST


@dataclass(frozen=True, slots=True)
class _Parts:
    fill: ir.Function
    copy: ir.Function
    flush: ir.Function
    mix: dict[int, ir.Function]  # by how many points a cell has


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A part of the result, and what of the smaller one goes there."""

    target: ir.Value  # its first element
    compact: ir.Value  # of the smaller result's plane, the first one
    channel: ir.Value  # if channels lie apart
    none: ir.Value  # whether no window meets it
    rows: tuple[ir.Value, ir.Value]  # lines: from, to
    points: tuple[ir.Value, ir.Value]  # of each: from, to


def emit_spread(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``spread(record, scratch, item)``, public."""
    pointer, stored = FLOATS[shape.dtype].as_pointer(), STORED[shape.dtype].as_pointer()
    parts = _Parts(
        _emit_fill(module, shape),
        _emit_copy(module, shape),
        _emit_flush(module, shape),
        {points: _emit_mix(module, shape, points) for points in MIXED},
    )
    made, b = function(
        module, f"spread_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    blank = _blanks(b, r, shape, scratch)
    pattern = b.bitcast(place(b, scratch, r.scratch_pattern), stored)
    beside = b.icmp_signed("==", r.planes, number(1))
    _repeat(b, r, blank, (pattern, b.select(beside, r.period, number(0))))
    stage = b.bitcast(place(b, scratch, r.scratch_stage), stored)
    begin = b.mul(item, r.a_turn)
    with counted(b, smaller(b, b.add(begin, r.a_turn), r.units), first=begin) as turn:
        chunk = _find_chunk(b, r, shape, turn.index)
        first, last = chunk.points
        length = b.mul(b.sub(last, first), r.unit)
        lines = b.sub(chunk.rows[1], chunk.rows[0])
        direct = b.icmp_signed("==", r.way, number(IN_PLACE))
        # What is streamed lies in scratch as it will in memory.
        askew = b.and_(b.ptrtoint(chunk.target, I64), number(LINE - 1))
        askew = b.sdiv(askew, number(STORED_BYTES[shape.dtype]))
        work = b.select(direct, chunk.target, place(b, stage, askew))
        pitch = b.select(direct, r.target_row, length)
        whole = b.icmp_signed("==", pitch, length)
        at_once = b.select(whole, b.mul(lines, length), length)
        same = place(b, blank, b.select(beside, number(0), chunk.channel))
        turns = b.select(whole, number(1), lines)
        needed = b.or_(chunk.none, b.icmp_signed("!=", r.blanks, number(0)))
        with counted(b, b.select(needed, turns, number(0))) as line:
            to = place(b, work, b.mul(line.index, pitch))
            b.call(parts.fill, [to, at_once, pattern, same, r.period, beside])
        with b.if_then(b.not_(chunk.none)):
            _copy_lines(b, r, shape, parts, chunk, (work, pitch, pattern, same))
        with b.if_then(b.not_(direct)):
            arguments = [chunk.target, work, lines, length, r.target_row]
            steps = [r.unit, r.target_x, r.target_c]
            b.call(parts.flush, [*arguments, *steps, b.icmp_signed("==", r.way, number(APART))])
    with b.if_then(b.icmp_signed("==", r.way, number(PAST))):
        b.fence("seq_cst")  # others may read results when this work item is done
    b.ret_void()
    return made


def _blanks(b: ir.IRBuilder, r: Record, shape: KernelShape, scratch: ir.Value) -> ir.Value:
    """Return what points have that no window meets, by channel, as arrays hold it."""
    pointer, stored = FLOATS[shape.dtype].as_pointer(), STORED[shape.dtype].as_pointer()
    sums = place(b, scratch, r.scratch_blank)
    vector = ir.VectorType(FLOATS[shape.dtype], shape.lanes)
    with counted(b, r.channels, step=shape.lanes) as c:
        store(b, zeros(vector), sums, c.index)
    bias = r.pointer_to("bias", pointer)
    left = activated(b, r, sums, bias, (number(1), r.channels, r.channels))
    # In place: an element that is stored is no longer than one that is summed.
    into = b.bitcast(sums, stored)
    with counted(b, r.channels) as c:
        total = b.fadd(load(b, sums, c.index), load(b, left, c.index))
        store(b, rounded(b, total, shape.dtype), into, c.index)
    return into


def _repeat(b: ir.IRBuilder, r: Record, blank: ir.Value, to: tuple[ir.Value, ir.Value]) -> None:
    """Repeat blanks of a point, so many elements."""
    pattern, count = to
    with counted(b, b.sdiv(count, r.unit)) as x, counted(b, r.unit) as c:
        store(b, load(b, blank, c.index), pattern, b.add(b.mul(x.index, r.unit), c.index))


def _find_chunk(b: ir.IRBuilder, r: Record, shape: KernelShape, index: ir.Value) -> _Chunk:
    """Find a chunk by its number, in the order of memory."""
    stored = STORED[shape.dtype].as_pointer()
    x, rest = b.srem(index, r.x_chunks), b.sdiv(index, r.x_chunks)
    row, rest = b.srem(rest, r.row_chunks), b.sdiv(rest, r.row_chunks)
    limits = [b.sub(b.mul(each, r.x_chunk), r.shift) for each in (x, b.add(x, number(1)))]
    limits = [smaller(b, larger(b, each, number(0)), r.size) for each in limits]
    begins, ends = (
        b.icmp_signed("==", x, each) for each in (number(0), b.sub(r.x_chunks, number(1)))
    )
    first, last = b.select(begins, number(0), limits[0]), b.select(ends, r.size, limits[1])
    above = b.mul(row, r.row_chunk)
    target = b.add(b.mul(above, r.target_row), b.mul(first, r.target_x))
    with counted(b, r.outer, [rest, target, number(0), ir.Constant(I1, 0)]) as axis:
        d = b.sub(b.sub(r.outer, number(1)), axis.index)
        rest, target, compact, none = axis.carried
        here = b.srem(rest, r.at("sizes", d))
        from_there = r.at("places", b.add(r.at("tables", d), here))
        axis.carried = [
            b.sdiv(rest, r.at("sizes", d)),
            b.add(target, b.mul(here, r.at("target_steps", b.add(d, number(1))))),
            b.add(compact, from_there),
            b.or_(none, b.icmp_signed("<", from_there, number(0))),
        ]
    rest, target, compact, none = axis.carried
    channel, image = b.srem(rest, r.planes), b.sdiv(rest, r.planes)
    target = b.add(target, b.mul(channel, r.target_c))
    target = b.add(target, b.mul(image, r.at("target_steps", number(0))))
    compact = b.add(compact, b.mul(channel, r.compact_channel))
    compact = b.add(compact, b.mul(image, r.compact_image))
    return _Chunk(
        target=place(b, r.pointer_to("target", stored), target),
        compact=place(b, r.pointer_to("compact", stored), b.select(none, number(0), compact)),
        channel=channel,
        none=none,
        rows=(above, smaller(b, b.add(above, r.row_chunk), r.rows)),
        points=(first, last),
    )


def _copy_lines(  # noqa: PLR0913 - which lines of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    chunk: _Chunk,
    to: tuple[ir.Value, ir.Value, ir.Value, ir.Value],
) -> None:
    """Copy what windows meet of a chunk's lines: vectors of cells, and run by run."""
    work, pitch, pattern, same = to
    above, below = chunk.rows
    table = r.at("tables", r.outer)
    ends = [b.mul(end, r.unit) for end in chunk.points]
    begin, done = _whole_cells(b, r, shape, ends)
    some = b.icmp_signed(">", done, number(0))
    with b.if_then(some):
        store(b, splat(b, load(b, same), shape.lanes), pattern)
    with counted(b, below, first=above) as row:
        there = r.at("places", b.add(table, row.index))
        with b.if_then(b.icmp_signed(">=", there, number(0))):
            line = place(b, chunk.compact, there)
            out = place(b, work, b.mul(b.sub(row.index, above), pitch))
            out = place(b, out, b.neg(ends[0]))
            for points, mix in parts.mix.items():
                alike = b.icmp_signed("==", r.mixed, number(points))
                with b.if_then(b.and_(alike, some)):
                    into = place(b, out, b.add(b.mul(begin, r.step), r.base))
                    b.call(mix, [into, place(b, line, begin), r.cell_reads, pattern, done])
            with counted(b, r.entries) as entry:
                _copy_entry(b, r, parts.copy, (out, line), entry.index, (ends, begin, done))


def _whole_cells(
    b: ir.IRBuilder, r: Record, shape: KernelShape, ends: list[ir.Value]
) -> tuple[ir.Value, ir.Value]:
    """Return which cells of a chunk are mixed: the first, and how many; none if they are few."""
    up = b.sub(r.step, number(1))
    first, last = (b.sub(end, r.base) for end in ends)
    # Of what lies before the first cell there is none.
    begin = b.sdiv(larger(b, b.add(first, up), number(0)), r.step)
    begin = larger(b, begin, r.mixed_low)
    end = smaller(b, b.sdiv(larger(b, last, number(0)), r.step), r.mixed_high)
    return begin, if_enough(b, b.sub(end, begin), shape.lanes)


def _copy_entry(  # noqa: PLR0913 - which runs of what
    b: ir.IRBuilder,
    r: Record,
    copy: ir.Function,
    arrays: tuple[ir.Value, ir.Value],
    entry: ir.Value,
    limits: tuple[list[ir.Value], ir.Value, ir.Value],
) -> None:
    """Copy the runs of an entry that a chunk has, but those of cells that are done."""
    (out, line), (ends, begin, done) = arrays, limits
    names = "read", "write", "count", "length", "cell"
    read, write, count, length, cell = (r.at(f"entry_{name}", entry) for name in names)
    # Those that begin before a limit: no run lies on both sides of it.
    up = b.sub(r.step, number(1))
    low, high = (b.sdiv(larger(b, b.add(b.sub(end, write), up), number(0)), r.step) for end in ends)
    high = larger(b, smaller(b, high, count), low)

    def limited(which: ir.Value) -> ir.Value:
        return smaller(b, larger(b, b.sub(which, cell), low), high)

    before, behind = limited(begin), limited(b.add(begin, done))
    for some, until in ((low, before), (behind, high)):
        source = place(b, line, b.add(read, b.mul(some, r.cell)))
        target = place(b, out, b.add(write, b.mul(some, r.step)))
        with b.if_then(b.icmp_signed("<", some, until)):
            b.call(copy, [target, source, b.sub(until, some), length, r.cell, r.step])


def _emit_mix(module: ir.Module, shape: KernelShape, points: int) -> ir.Function:
    """Emit ``mix(target, line, reads, blank, cells)``: of so many points each.

    ``target[points * c + p] = line[reads[p] + c]``, or the blank where ``reads[p]`` says so.
    There are at least as many cells as lanes; the last vector may mix some of them again.
    """
    dtype, lanes = shape.dtype, shape.lanes
    pointer, vector = STORED[dtype].as_pointer(), ir.VectorType(STORED[dtype], lanes)
    made, b = function(
        module, f"mix_{dtype}_{points}", [pointer, pointer, I64.as_pointer(), pointer, I64]
    )
    target, line, reads, blank, cells = made.args
    for argument in made.args[:4]:
        argument.add_attribute("noalias")
    found = [load(b, reads, p) for p in range(points)]
    none = [b.icmp_signed("==", each, number(NOWHERE)) for each in found]
    starts = [
        b.select(no, blank, place(b, line, each)) for no, each in zip(none, found, strict=True)
    ]
    moves = [b.select(no, number(0), number(1)) for no in none]
    with covered(b, cells, lanes) as cell:
        places = [b.mul(move, cell) for move in moves]
        rows = [load(b, *each, vector) for each in zip(starts, places, strict=True)]
        for at, each in enumerate(interleaved(b, rows)):
            store(b, each, target, b.add(b.mul(cell, number(points)), number(at * lanes)))
    b.ret_void()
    return made


def _emit_fill(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``fill(target, count, pattern, value, period, repeats)``.

    Fills elements with a pattern that ``repeats`` after whole vectors, or else with a value.
    """
    dtype, lanes = shape.dtype, shape.lanes
    stored = STORED[dtype].as_pointer()
    vector = ir.VectorType(STORED[dtype], lanes)
    made, b = function(module, f"fill_blanks_{dtype}", [stored, I64, stored, stored, I64, I1])
    target, count, pattern, value, period, repeats = made.args
    for argument in (target, pattern, value):
        argument.add_attribute("noalias")
    with b.if_then(repeats):
        with counted(b, b.sdiv(count, period)) as turn, counted(b, period, step=lanes) as k:
            to = b.add(b.mul(turn.index, period), k.index)
            store(b, load(b, pattern, k.index, vector), target, to)
        done = b.sub(count, b.srem(count, period))
        whole = b.add(done, b.and_(b.sub(count, done), number(-lanes)))
        with counted(b, whole, first=done, step=lanes) as k:
            store(b, load(b, pattern, b.sub(k.index, done), vector), target, k.index)
        with counted(b, count, first=whole) as k:
            store(b, load(b, pattern, b.sub(k.index, done)), target, k.index)
        b.ret_void()
    same = load(b, value)
    vectors = if_enough(b, count, lanes)
    with covered(b, vectors, lanes) as k:
        store(b, splat(b, same, lanes), target, k)
    with counted(b, count, first=vectors) as k:
        store(b, same, target, k.index)
    b.ret_void()
    return made


def _emit_copy(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``copy(target, source, count, length, read, write)``: so many runs of elements."""
    dtype, lanes = shape.dtype, shape.lanes
    element = STORED[dtype]
    pointer = element.as_pointer()
    made, b = function(module, f"copy_runs_{dtype}", [pointer, pointer, *[I64] * 4])
    target, source, count, length, read, write = made.args
    for argument in made.args[:2]:
        argument.add_attribute("noalias")

    def moved(x: ir.Value, at: ir.Value | int, kind: ir.Type) -> None:
        here, there = place(b, source, b.mul(x, read)), place(b, target, b.mul(x, write))
        store(b, load(b, here, at, kind), there, at)

    # A run shorter than a vector takes two shorter ones, which may have elements in common.
    sizes = [size for size in (1, 2, 4, 8, 16) if size < lanes]
    for size in sizes:
        kind = element if size == 1 else ir.VectorType(element, size)
        enough = b.icmp_signed("<", length, number(min(2 * size, lanes)))
        alike = b.and_(enough, b.icmp_signed(">=", length, number(size)))
        with b.if_then(alike):
            with counted(b, count) as x:
                moved(x.index, 0, kind)
                if size > 1:
                    moved(x.index, b.sub(length, number(size)), kind)
            b.ret_void()
    vector = ir.VectorType(element, lanes)
    with counted(b, count) as x, covered(b, if_enough(b, length, lanes), lanes) as k:
        moved(x.index, k, vector)
    b.ret_void()
    return made


def _emit_flush(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``flush(target, work, lines, length, row, unit, x, c, apart)``.

    Lines of elements side by side go past the caches, all of them one run; or, ``apart``, with
    steps of their own: of lines, points and channels.
    """
    dtype, lanes = shape.dtype, shape.lanes
    pointer, vector = STORED[dtype].as_pointer(), ir.VectorType(STORED[dtype], lanes)
    kinds = [pointer, pointer, *[I64] * 6, I1]
    made, b = function(module, f"flush_{dtype}", kinds)
    target, work, lines, length, row_step, unit, x_step, c_step, apart = made.args
    for argument in made.args[:2]:
        argument.add_attribute("noalias")
    with b.if_then(apart):
        with (
            counted(b, lines) as line,
            counted(b, b.sdiv(length, unit)) as x,
            counted(b, unit) as c,
        ):
            read = b.add(b.mul(line.index, length), b.add(b.mul(x.index, unit), c.index))
            write = b.add(b.mul(line.index, row_step), b.mul(x.index, x_step))
            store(b, load(b, work, read), target, b.add(write, b.mul(c.index, c_step)))
        b.ret_void()
    count, item = b.mul(lines, length), STORED_BYTES[dtype]
    askew = b.and_(b.sub(number(0), b.ptrtoint(target, I64)), number(LINE - 1))
    head = smaller(b, b.sdiv(askew, number(item)), count)
    whole = b.add(head, b.and_(b.sub(count, head), number(-LINE // item)))
    for first, end in ((number(0), head), (whole, count)):
        with counted(b, end, first=first) as k:
            store(b, load(b, work, k.index), target, k.index)
    with counted(b, whole, first=head, step=lanes) as k:
        stream(b, load(b, work, k.index, vector), target, k.index)
    b.ret_void()
    return made
