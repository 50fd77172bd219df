"""Spreads: results of a smaller problem, among points that no window meets.

One work item computes a part of the smaller problem into scratch, by the kernel that does so, and
writes the chunks of the result that it spreads to, each from end to end: blanks first, then what
there is between them.  What a number means is said in :mod:`tconv.plan.spread`, which fills the
records in.
"""

from collections.abc import Iterator
from contextlib import contextmanager
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
    VOID,
    counted,
    function,
    larger,
    load,
    number,
    place,
    smaller,
    splat,
    store,
    touch,
    zeros,
)
from tconv.codegen.spread_runs import emit_copy, emit_fill, emit_flush, emit_mix
from tconv.codegen.stored import if_enough, rounded
from tconv.plan.spread import (
    APART,
    ARRAYS,
    FIELDS,
    HEAD_ARRAYS,
    HEAD_FIELDS,
    IN_PLACE,
    MIXED,
    MOST_PARTS,
    PAST,
)

BYTE = ir.IntType(8).as_pointer()


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
    """Emit ``spread(record, scratch, item)``, public: one part, computed and spread."""
    pointer, stored = FLOATS[shape.dtype].as_pointer(), STORED[shape.dtype].as_pointer()
    write = _emit_write(module, shape)
    made, b = function(
        module, f"spread_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, HEAD_FIELDS, HEAD_ARRAYS)
    part, image = b.srem(item, r.parts), b.sdiv(item, r.parts)
    variant = r.at("part_variant", part)
    source, target = (
        b.add(
            b.add(getattr(r, name), b.mul(image, getattr(r, f"{name}_image"))),
            r.at(f"part_{way}", part),
        )
        for name, way in (("source", "read"), ("target", "write"))
    )
    with counted(b, r.at("inner_bytes", variant), step=LINE) as byte:
        touch(b, place(b, b.inttoptr(source, BYTE), byte.index))
    compact = place(b, scratch, r.scratch_compact)
    # Several workers run the smaller problem's kernel at once: each has a record of its own.
    mine = b.bitcast(place(b, scratch, r.scratch_record), I64.as_pointer())
    theirs = place(b, r.records, r.at("inner_record", variant))
    with counted(b, r.at("inner_words", variant)) as word:
        store(b, load(b, theirs, word.index), mine, word.index)
    ends = [source, b.ptrtoint(compact, I64), r.weights, r.bias]
    for at, each in enumerate(ends):
        store(b, each, mine, at)
    with b.if_then(b.icmp_signed("!=", r.numbered, number(0))):
        store(b, b.add(b.mul(r.call, number(MOST_PARTS)), item), mine, len(ends))
    kind = ir.FunctionType(VOID, [I64.as_pointer(), pointer, I64]).as_pointer()
    kernel = b.inttoptr(r.at("inner_kernel", variant), kind)
    with counted(b, r.at("inner_items", variant)) as turn:
        b.call(kernel, [mine, scratch, turn.index])
    arrays = [b.inttoptr(target, stored), b.bitcast(compact, stored)]
    bias = b.inttoptr(b.add(r.bias, r.behind), pointer)
    own = place(b, scratch, r.scratch_spread)
    b.call(write, [place(b, r.records, r.at("variant_record", variant)), own, *arrays, bias])
    b.ret_void()
    return made


def _emit_write(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``write(record, scratch, target, compact, bias)``: spread one part."""
    pointer, stored = FLOATS[shape.dtype].as_pointer(), STORED[shape.dtype].as_pointer()
    parts = _Parts(
        emit_fill(module, shape),
        emit_copy(module, shape),
        emit_flush(module, shape),
        {points: emit_mix(module, shape, points) for points in MIXED},
    )
    kinds = [I64.as_pointer(), pointer, stored, stored, pointer]
    made, b = function(module, f"write_spread_{shape.dtype}", kinds)
    record, scratch, target, compact, bias = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    blank = _blanks(b, r, shape, (scratch, bias))
    pattern = b.bitcast(place(b, scratch, r.scratch_pattern), stored)
    beside = b.icmp_signed("==", r.planes, number(1))
    more = LINE // STORED_BYTES[shape.dtype]  # what is streamed may begin anywhere in a line
    with b.if_then(beside):
        _repeat(b, r, blank, (pattern, b.add(r.period, number(more))))
    stage = b.bitcast(place(b, scratch, r.scratch_stage), stored)
    with counted(b, r.chunks) as turn:
        chunk = _find_chunk(b, r, (target, compact), turn.index)
        first, last = chunk.points
        length = b.mul(b.sub(last, first), r.unit)
        lines = b.sub(chunk.rows[1], chunk.rows[0])
        with b.if_then(b.not_(beside)):
            same = splat(b, load(b, blank, chunk.channel), shape.lanes)
            with counted(b, b.add(r.period, number(more)), step=shape.lanes) as k:
                store(b, same, pattern, k.index)
        # What is streamed lies in scratch as it will in memory; blanks alone need not.
        past = b.and_(chunk.none, b.icmp_signed("==", r.way, number(PAST)))
        direct = b.or_(past, b.icmp_signed("==", r.way, number(IN_PLACE)))
        askew = b.and_(b.ptrtoint(chunk.target, I64), number(LINE - 1))
        askew = b.sdiv(askew, number(STORED_BYTES[shape.dtype]))
        work = b.select(direct, chunk.target, place(b, stage, askew))
        pitch = b.select(direct, r.target_row, length)
        whole = b.or_(past, b.icmp_signed("==", pitch, length))
        at_once = b.select(whole, b.mul(lines, length), length)
        turns = b.select(whole, number(1), lines)
        needed = b.or_(chunk.none, b.icmp_signed("!=", r.blanks, number(0)))
        with counted(b, b.select(needed, turns, number(0))) as line:
            to = place(b, work, b.mul(line.index, pitch))
            b.call(parts.fill, [to, at_once, pattern, r.period, past])
        with b.if_then(b.not_(chunk.none)):
            _copy_lines(b, r, shape, parts, chunk, (work, pitch, pattern))
        with b.if_then(b.not_(direct)):
            arguments = [chunk.target, work, lines, length, r.target_row]
            steps = [r.unit, r.target_x, r.target_c]
            b.call(parts.flush, [*arguments, *steps, b.icmp_signed("==", r.way, number(APART))])
    with b.if_then(b.icmp_signed("==", r.way, number(PAST))):
        b.fence("seq_cst")  # others may read results when this work item is done
    b.ret_void()
    return made


def _blanks(
    b: ir.IRBuilder, r: Record, shape: KernelShape, places: tuple[ir.Value, ir.Value]
) -> ir.Value:
    """Return what points have that no window meets, by channel, as arrays hold it."""
    scratch, bias = places
    stored = STORED[shape.dtype].as_pointer()
    sums = place(b, scratch, r.scratch_blank)
    vector = ir.VectorType(FLOATS[shape.dtype], shape.lanes)
    with counted(b, r.channels, step=shape.lanes) as c:
        store(b, zeros(vector), sums, c.index)
    left = activated(b, r, sums, bias, (number(1), r.channels, r.channels))
    # In place: an element that is stored is no longer than one that is summed.
    into = b.bitcast(sums, stored)
    with counted(b, r.channels) as c:
        total = b.fadd(load(b, sums, c.index), load(b, left, c.index))
        store(b, rounded(b, total, shape.dtype), into, c.index)
    return into


def _repeat(b: ir.IRBuilder, r: Record, blank: ir.Value, to: tuple[ir.Value, ir.Value]) -> None:
    """Repeat blanks of a point, for at least so many elements; whole points are written."""
    pattern, count = to
    points = b.sdiv(b.add(count, b.sub(r.unit, number(1))), r.unit)
    with counted(b, points) as x, counted(b, r.unit) as c:
        store(b, load(b, blank, c.index), pattern, b.add(b.mul(x.index, r.unit), c.index))


def _find_chunk(
    b: ir.IRBuilder, r: Record, arrays: tuple[ir.Value, ir.Value], index: ir.Value
) -> _Chunk:
    """Find a chunk by its number, in the order of memory."""
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
        target=place(b, arrays[0], target),
        compact=place(b, arrays[1], b.select(none, number(0), compact)),
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
    to: tuple[ir.Value, ir.Value, ir.Value],
) -> None:
    """Copy what windows meet of a chunk's lines: vectors of cells, and run by run.

    Which runs those are is the same for all lines.
    """
    work, pitch, pattern = to
    ends = [b.mul(end, r.unit) for end in chunk.points]
    out = place(b, work, b.neg(ends[0]))
    begin, done = _whole_cells(b, r, shape, ends)
    with b.if_then(b.icmp_signed(">", done, number(0))):
        into = place(b, out, b.add(b.mul(begin, r.step), r.base))
        for points, mix in parts.mix.items():
            with (
                b.if_then(b.icmp_signed("==", r.mixed, number(points))),
                _lines(b, r, chunk) as (there, row),
            ):
                line = place(b, chunk.compact, b.add(there, begin))
                b.call(mix, [place(b, into, b.mul(row, pitch)), line, r.cell_reads, pattern, done])
    with counted(b, r.entries) as entry:
        read, write, length = (
            r.at(f"entry_{name}", entry.index) for name in ("read", "write", "length")
        )
        for some, until in _runs_left(b, r, entry.index, ends, (begin, done)):
            with b.if_then(b.icmp_signed("<", some, until)), _lines(b, r, chunk) as (there, row):
                from_there = b.add(there, b.add(read, b.mul(some, r.cell)))
                target = b.add(b.mul(row, pitch), b.add(write, b.mul(some, r.step)))
                arrays = place(b, out, target), place(b, chunk.compact, from_there)
                b.call(parts.copy, [*arrays, b.sub(until, some), length, r.cell, r.step])


@contextmanager
def _lines(b: ir.IRBuilder, r: Record, chunk: _Chunk) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Emit a loop over a chunk's lines that windows meet: where one is read, and which it is."""
    above, below = chunk.rows
    table = r.at("tables", r.outer)
    with counted(b, below, first=above) as row:
        there = r.at("places", b.add(table, row.index))
        with b.if_then(b.icmp_signed(">=", there, number(0))):
            yield there, b.sub(row.index, above)


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


def _runs_left(
    b: ir.IRBuilder,
    r: Record,
    entry: ir.Value,
    ends: list[ir.Value],
    mixed: tuple[ir.Value, ir.Value],
) -> list[tuple[ir.Value, ir.Value]]:
    """Return which runs of an entry a chunk has, before and behind cells that are mixed."""
    begin, done = mixed
    write, count, cell = (r.at(f"entry_{name}", entry) for name in ("write", "count", "cell"))
    # Those that begin before a limit: no run lies on both sides of it.
    up = b.sub(r.step, number(1))
    low, high = (b.sdiv(larger(b, b.add(b.sub(end, write), up), number(0)), r.step) for end in ends)
    high = larger(b, smaller(b, high, count), low)

    def limited(which: ir.Value) -> ir.Value:
        return smaller(b, larger(b, b.sub(which, cell), low), high)

    return [(low, limited(begin)), (limited(b.add(begin, done)), high)]
