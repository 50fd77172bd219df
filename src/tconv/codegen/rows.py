"""Rows of points: packed into scratch, and stored from it, in either layout."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from llvmlite import ir

from tconv.codegen import squares
from tconv.codegen.build import (
    BYTES,
    FLOATS,
    I1,
    I32,
    I64,
    LINE,
    STORED,
    STORED_BYTES,
    counted,
    declared,
    function,
    larger,
    load,
    number,
    place,
    prefetch,
    shuffle,
    smaller,
    store,
    transpose,
)
from tconv.codegen.stored import (
    covered,
    if_enough,
    rounded,
    store_each,
    widen_each,
    widen_run,
    widened,
)

BYTE = ir.IntType(8).as_pointer()
COPIED = 4  # vectors at a time
LONG_LINE = 256  # points
SOON = 8  # points that are packed ahead of
LEAST = 4  # points of a line that are turned together
MANY_VECTORS = 6  # of a line for which one more does not matter
SUMMED = {"float32": "float32", "float64": "float64", "float16": "float32", "bfloat16": "float32"}


def emit_pack_row(module: ir.Module, dtype: str, lanes: int) -> ir.Function:
    """Emit ``pack_row(target, source, before, count, after, depth, pitch, x_step, c_step)``.

    Writes ``before`` points of zeros, ``count`` points of ``depth`` channels read with the
    given steps, then ``after`` points of zeros, channels side by side and points ``pitch``
    apart.
    """
    pointers = [FLOATS[dtype].as_pointer(), STORED[dtype].as_pointer()]
    made, b = function(module, f"pack_row_{dtype}", [*pointers, *[I64] * 7])
    target, source, before, count, after, depth, pitch, x_step, c_step = made.args
    target.add_attribute("noalias")
    source.add_attribute("noalias")
    begin = place(b, target, b.mul(before, pitch))
    end = place(b, begin, b.mul(count, pitch))
    tight = b.icmp_signed("==", depth, pitch)
    for first, points in ((target, before), (end, after)):
        with b.if_else(tight) as (whole, pointwise):
            with whole:
                zero_fill(b, first, b.mul(points, pitch), dtype)
            with pointwise, counted(b, points) as point:
                zero_fill(b, place(b, first, b.mul(point.index, pitch)), depth, dtype)
    # A single channel lies side by side with nothing: its points do.
    single = b.and_(b.icmp_signed("==", depth, number(1)), b.icmp_signed("==", x_step, number(1)))
    beside = b.or_(b.icmp_signed("==", c_step, number(1)), b.and_(single, tight))
    with b.if_else(beside) as (side_by_side, apart):
        with side_by_side:
            dense = b.and_(tight, b.icmp_signed("==", x_step, depth))
            with b.if_else(dense) as (whole, pointwise):
                with whole:
                    pack_run(b, begin, source, b.mul(count, depth), dtype, lanes)
                with pointwise:
                    sizes = count, depth, pitch
                    _pack_pieces(b, begin, source, sizes, x_step, (dtype, lanes))
        with apart:
            _pack_planes(b, begin, source, (count, depth, pitch), (x_step, c_step), (dtype, lanes))
    b.ret_void()
    return made


def _pack_pieces(  # noqa: PLR0913 - the emitted function's own arguments
    b: ir.IRBuilder,
    begin: ir.Value,
    source: ir.Value,
    sizes: tuple[ir.Value, ir.Value, ir.Value],
    x_step: ir.Value,
    kind: tuple[str, int],
) -> None:
    """Pack points of which only some channels are read, side by side."""
    count, depth, pitch = sizes
    dtype, lanes = kind
    # Whole vectors of fewer channels reach into the points behind, which are packed later; the
    # last few points are left: nothing behind them may be read, or written.
    conditions = (
        b.icmp_signed("<", depth, number(lanes)),
        b.icmp_signed("==", depth, pitch),
        b.icmp_signed(">=", x_step, depth),
    )
    some = larger(b, depth, number(1))
    behind = b.sdiv(number(lanes - 1), some)
    early = larger(b, b.sub(count, behind), number(0))
    early = b.select(reduce(b.and_, conditions), early, number(0))
    with counted(b, early) as point:
        read = widened(b, source, b.mul(point.index, x_step), dtype, lanes)
        store(b, read, begin, b.mul(point.index, pitch))
    # No machine foresees where the next long pieces lie.
    line = LINE // STORED_BYTES[dtype]
    asked = b.select(b.icmp_signed(">=", depth, number(2 * line)), depth, number(0))
    with counted(b, count, first=early) as point:
        row = place(b, begin, b.mul(point.index, pitch))
        read = place(b, source, b.mul(point.index, x_step))
        soon = place(b, read, b.mul(number(SOON), x_step))
        with counted(b, asked, step=line) as k:
            prefetch(b, place(b, soon, k.index))
        pack_run(b, row, read, depth, dtype, lanes)


def _pack_planes(  # noqa: PLR0913 - the emitted function's own arguments
    b: ir.IRBuilder,
    begin: ir.Value,
    source: ir.Value,
    sizes: tuple[ir.Value, ir.Value, ir.Value],
    steps: tuple[ir.Value, ir.Value],
    kind: tuple[str, int],
) -> None:
    """Transpose squares where points are neighbours in memory, single elements elsewhere."""
    count, depth, pitch = sizes
    x_step, c_step = steps
    dtype, lanes = kind
    points = _neighbours(b, x_step, count)
    square_x = if_enough(b, points, lanes)
    vectors_c = if_enough(b, depth, lanes)

    def turn(x: ir.Value, c: ir.Value) -> None:
        first = place(b, place(b, source, b.mul(c, c_step)), x)
        rows = [place(b, first, b.mul(number(i), c_step)) for i in range(lanes)]
        target = place(b, place(b, begin, b.mul(x, pitch)), c)
        for i, row in enumerate(_turned(b, rows, dtype, lanes)):
            store(b, row, target, b.mul(number(i), pitch))

    # All channels of some points before the next, whose lines are then written once; but long
    # lines are read one after the other, which machines foresee.
    with b.if_else(b.icmp_signed(">=", square_x, number(LONG_LINE))) as (long, short):
        with long, covered(b, vectors_c, lanes) as c, _whole_lines(b, source, square_x, kind) as x:
            turn(x, c)
        with short, covered(b, square_x, lanes) as x, covered(b, vectors_c, lanes) as c:
            turn(x, c)
    with covered(b, vectors_c, lanes) as c:
        planes = [place(b, source, b.mul(b.add(c, number(i)), c_step)) for i in range(lanes)]
        for size in _fewer(lanes):
            with squares.covered(b, points, size, lanes) as x:
                starts = [place(b, plane, x) for plane in planes]
                target = place(b, place(b, begin, b.mul(x, pitch)), c)
                for i, row in enumerate(squares.turned_in(b, starts, size, dtype)):
                    store(b, row, target, b.mul(number(i), pitch))
        with counted(b, count, first=if_enough(b, points, min(lanes, LEAST))) as point:
            read = b.mul(point.index, x_step)
            target = place(b, place(b, begin, b.mul(point.index, pitch)), c)
            widen_each(b, [place(b, plane, read) for plane in planes], target, dtype)
    turned = _pack_few(b, (begin, source), sizes, (x_step, c_step), kind)
    with counted(b, depth, first=vectors_c) as channel:
        plane = place(b, source, b.mul(channel.index, c_step))
        done: ir.Value = turned
        if STORED[dtype] != FLOATS[dtype]:  # converting eight takes no longer than one
            left = b.icmp_signed("==", turned, number(0))
            done, row = b.select(left, square_x, turned), place(b, begin, channel.index)
            with covered(b, b.select(left, square_x, number(0)), lanes) as x:
                places = [b.mul(b.add(x, number(i)), pitch) for i in range(lanes)]
                store_each(b, widened(b, plane, x, dtype, lanes), row, places)
        with counted(b, count, first=done) as point:
            value = widened(b, plane, b.mul(point.index, x_step), dtype)
            store(b, value, place(b, begin, b.mul(point.index, pitch)), channel.index)


def _pack_few(
    b: ir.IRBuilder,
    ends: tuple[ir.Value, ir.Value],
    sizes: tuple[ir.Value, ir.Value, ir.Value],
    steps: tuple[ir.Value, ir.Value],
    kind: tuple[str, int],
) -> ir.Value:
    """Turn squares of fewer channels than a vector has lanes; return how many points are done.

    Whole vectors reach into the points behind, which are packed later: nothing may lie between
    them, and the last few are left.
    """
    begin, source = ends
    count, depth, pitch = sizes
    x_step, c_step = steps
    dtype, lanes = kind
    conditions = (
        b.icmp_signed("==", x_step, number(1)),
        b.icmp_signed("==", depth, pitch),
        b.icmp_signed(">", depth, number(1)),
        b.icmp_signed("<", depth, number(lanes)),
    )
    some = larger(b, depth, number(1))
    reached = b.sdiv(b.add(some, number(lanes - 1)), some)
    whole = larger(b, b.sub(b.add(count, number(1)), reached), number(0))
    whole = b.select(reduce(b.and_, conditions), b.and_(whole, number(-lanes)), number(0))
    last = b.sub(depth, number(1))
    planes = [place(b, source, b.mul(smaller(b, number(i), last), c_step)) for i in range(lanes)]
    with counted(b, whole, step=lanes) as x:
        rows = [place(b, plane, x.index) for plane in planes]
        target = place(b, begin, b.mul(x.index, pitch))
        for i, row in enumerate(_turned(b, rows, dtype, lanes)):
            store(b, row, target, b.mul(number(i), pitch))
    return whole


def emit_store_row(module: ir.Module, dtype: str, lanes: int) -> ir.Function:
    """Emit ``store_row(target, sums, bias, count, used, x_step, c_step, pitch)``.

    Adds ``bias`` to ``count`` points of channels side by side in ``sums``, ``pitch`` apart, and
    writes the first ``used`` channels of each with the given steps.
    """
    scalar = FLOATS[dtype]
    pointer = scalar.as_pointer()
    pointers = [STORED[dtype].as_pointer(), pointer, pointer]
    made, b = function(module, f"store_row_{dtype}", [*pointers, *[I64] * 5])
    target, sums, bias, count, used, x_step, c_step, pitch = made.args
    for argument in made.args[:3]:
        argument.add_attribute("noalias")
    vector = ir.VectorType(scalar, lanes)
    vectors = if_enough(b, used, lanes)
    vectors_fit = b.icmp_signed("!=", vectors, number(0))
    with b.if_else(b.icmp_signed("==", c_step, number(1))) as (side_by_side, apart):
        with side_by_side:
            # Where nothing lies between points of few channels, whole vectors reach into the
            # points behind, which are stored later.
            tight = b.icmp_signed("==", x_step, b.select(vectors_fit, number(0), used))
            last = b.sub(b.mul(count, used), number(lanes))
            early = b.add(b.sdiv(last, larger(b, used, number(1))), number(1))
            early = b.select(b.icmp_signed("<", last, number(0)), number(0), early)
            early = b.select(tight, early, number(0))
            for first, end, whole in (
                (number(0), early, number(lanes)),
                (early, count, vectors),
            ):
                with counted(b, end, first=first) as point:
                    line = place(b, sums, b.mul(point.index, pitch))
                    out = place(b, target, b.mul(point.index, x_step))
                    with covered(b, whole, lanes) as c:
                        value = b.fadd(load(b, line, c, vector), load(b, bias, c, vector))
                        store(b, rounded(b, value, dtype), out, c)
                    if first is early:
                        with counted(b, used, first=vectors) as channel:
                            each = load(b, line, channel.index), load(b, bias, channel.index)
                            value = rounded(b, b.fadd(*each), dtype)
                            store(b, value, out, channel.index)
        with apart:
            _store_planes(b, made.args, dtype, lanes)
    b.ret_void()
    return made


def _store_planes(b: ir.IRBuilder, arguments: Sequence[ir.Value], dtype: str, lanes: int) -> None:
    """Transpose squares where points are neighbours in memory, single elements elsewhere."""
    target, sums, bias, count, used, x_step, c_step, pitch = arguments
    vector = ir.VectorType(sums.type.pointee, lanes)
    points = _neighbours(b, x_step, count)
    with counted(b, used, step=lanes) as c:
        added = load(b, bias, c.index, vector)
        plane = place(b, target, b.mul(c.index, c_step))
        rows_used = smaller(b, b.sub(used, c.index), number(lanes))
        planes = [place(b, plane, b.mul(number(i), c_step)) for i in range(lanes)]

        def square(x: ir.Value, size: int) -> list[ir.Value]:
            first = place(b, place(b, sums, c.index), b.mul(x, pitch))
            lines = [place(b, first, b.mul(number(i), pitch)) for i in range(size)]
            if size < lanes:
                vectors = [b.fadd(load(b, line, 0, vector), added) for line in lines]
                return squares.turned_out(b, vectors, dtype)
            turned = _turned(b, lines, SUMMED[dtype], lanes, place(b, bias, c.index))
            return [rounded(b, row, dtype) for row in turned]

        whole = b.icmp_signed("==", rows_used, number(lanes))
        with b.if_else(whole, likely=True) as (all_rows, some_rows):
            with all_rows:
                with _whole_lines(b, plane, if_enough(b, points, lanes), (dtype, lanes)) as x:
                    for row, out in zip(square(x, lanes), planes, strict=True):
                        store(b, row, out, x)
                for size in _fewer(lanes):
                    with squares.covered(b, points, size, lanes) as x:
                        for row, out in zip(square(x, size), planes, strict=True):
                            store(b, row, out, x)
            with some_rows:
                for size in (lanes, *_fewer(lanes)):
                    with squares.covered(b, points, size, lanes) as x:
                        for i, row in enumerate(square(x, size)):
                            with b.if_then(b.icmp_signed("<", number(i), rows_used)):
                                store(b, row, planes[i], x)
        with counted(b, count, first=if_enough(b, points, min(lanes, LEAST))) as point:
            line = place(b, sums, b.mul(point.index, pitch))
            kept = rounded(b, b.fadd(load(b, line, c.index, vector), added), dtype)
            out = place(b, plane, b.mul(point.index, x_step))
            for i in range(lanes):
                with b.if_then(b.icmp_signed("<", number(i), rows_used), likely=True):
                    value = b.extract_element(kept, ir.Constant(I32, i))
                    store(b, value, out, b.mul(number(i), c_step))


@contextmanager
def _whole_lines(
    b: ir.IRBuilder, line: ir.Value, count: ir.Value, kind: tuple[str, int]
) -> Iterator[ir.Value]:
    """Emit a loop over vectors that cover a line, as :func:`covered` does.

    Those of a long one begin, from the second on, where whole cache lines do: planes that lie some
    pages apart drive each other's halves of one out of the first cache.
    """
    dtype, lanes = kind
    element = b.sdiv(b.ptrtoint(line, I64), number(STORED_BYTES[dtype]))
    long = b.icmp_signed(">=", count, number(MANY_VECTORS * lanes))
    before = b.select(long, b.and_(element, number(lanes - 1)), number(0))
    with counted(b, count, first=b.neg(before), step=lanes) as k:
        yield larger(b, smaller(b, k.index, b.sub(count, number(lanes))), number(0))


def _neighbours(b: ir.IRBuilder, x_step: ir.Value, count: ir.Value) -> ir.Value:
    """Return how many points lie side by side: all of them, or none."""
    return b.select(b.icmp_signed("==", x_step, number(1)), count, number(0))


def _fewer(lanes: int) -> list[int]:
    """Return how many points smaller squares have, for lines that fill no vector.

    >>> _fewer(16), _fewer(8), _fewer(4)
    ([8, 4], [4], [])
    """
    return [size for size in squares.sizes(lanes // 2) if size >= LEAST]


def _turned(
    b: ir.IRBuilder,
    rows: Sequence[ir.Value],
    dtype: str,
    lanes: int,
    added: ir.Value | None = None,
) -> list[ir.Value]:
    """Load a square and turn it; to each of its rows what ``added`` points to is added.

    Halves of two rows are loaded into one vector, which spares the last round of shuffles.
    """
    half = lanes // 2
    turned: list[ir.Value] = []
    for first in (0, half):

        def joined(low: ir.Value, high: ir.Value, kind: str, begin: int = first) -> ir.Value:
            halves = [widened(b, side, begin, kind, half) for side in (low, high)]
            return shuffle(b, halves[0], halves[1], range(lanes))

        pairs = [joined(*pair, dtype) for pair in zip(rows[:half], rows[half:], strict=True)]
        if added is not None:
            more = joined(added, added, dtype)
            pairs = [b.fadd(pair, more) for pair in pairs]
        turned += transpose(b, pairs)
    return turned


def pack_run(  # noqa: PLR0913 - where from, where to, and by what
    b: ir.IRBuilder,
    target: ir.Value,
    source: ir.Value,
    count: ir.Value,
    dtype: str,
    lanes: int,
) -> None:
    """Pack elements that lie side by side, and will."""
    if STORED[dtype] != FLOATS[dtype]:
        widen_run(b, target, source, count, dtype, lanes)
        return
    # Four vectors a turn: one would be turned back into a call of memcpy, which copies such
    # lines with an instruction that is slow on some machines.
    vector = ir.VectorType(FLOATS[dtype], lanes)
    done = b.and_(count, number(-COPIED * lanes))
    with counted(b, done, step=COPIED * lanes) as k:
        here = [b.add(k.index, number(v * lanes)) for v in range(COPIED)]
        values = [load(b, source, each, vector) for each in here]
        for value, each in zip(values, here, strict=True):
            store(b, value, target, each)
    widen_run(b, place(b, target, done), place(b, source, done), b.sub(count, done), dtype, lanes)


def zero_fill(b: ir.IRBuilder, target: ir.Value, count: ir.Value, dtype: str) -> None:
    """Write zeros; nothing when there are none to write."""
    call = declared(b.module, "llvm.memset.p0i8.i64", ir.VoidType(), [BYTE, ir.IntType(8), I64, I1])
    size = b.mul(count, number(BYTES[dtype]))
    with b.if_then(b.icmp_signed(">", size, number(0))):
        zero = ir.Constant(ir.IntType(8), 0)
        b.call(call, [b.bitcast(target, BYTE), zero, size, ir.Constant(I1, 0)])
