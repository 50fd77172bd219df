"""Lines of planes: packed into scratch, and stored from it, in either layout."""

from collections.abc import Sequence

from llvmlite import ir

from tconv.codegen.block import KernelShape
from tconv.codegen.build import (
    FLOATS,
    I64,
    STORED,
    counted,
    function,
    larger,
    load,
    number,
    place,
    shuffle,
    smaller,
    splat,
    store,
    transpose,
)
from tconv.codegen.rows import pack_run, zero_fill
from tconv.codegen.stored import covered, if_enough, rounded, store_each, widen_each, widened

SHORT = 4  # vectors of a line that are copied without a loop
SHORT_LANES = 4  # of vectors for lines that fill no whole one


def emit_pack_planes(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``pack_planes(target, source, channels, pitch, before, count, after, steps...)``.

    ``target[c * pitch + before + j] = source[c * c_step + j * x_step]``, zeros around.
    """
    dtype, lanes = shape.dtype, shape.lanes
    pointers = [FLOATS[dtype].as_pointer(), STORED[dtype].as_pointer()]
    made, b = function(module, f"pack_planes_{dtype}", [*pointers, *[I64] * 7])
    target, source, channels, pitch, before, count, after, c_step, x_step = made.args
    target.add_attribute("noalias")
    source.add_attribute("noalias")
    some = b.icmp_signed(">", b.add(before, after), number(0))
    with b.if_then(some), counted(b, channels) as c:
        row = place(b, target, b.mul(c.index, pitch))
        zero_fill(b, row, before, dtype)
        zero_fill(b, place(b, row, b.add(before, count)), after, dtype)
    inner = place(b, target, before)
    with b.if_else(b.icmp_signed("==", x_step, number(1))) as (rows_lie, others):
        with rows_lie:
            _pack_lines(b, inner, source, (channels, count), (pitch, c_step), (dtype, lanes))
        with others:
            side_by_side = b.icmp_signed("==", c_step, number(1))
            square = b.and_(side_by_side, b.icmp_signed(">=", count, number(lanes)))
            square_c = b.select(square, if_enough(b, channels, lanes), number(0))
            with covered(b, square_c, lanes) as c, covered(b, count, lanes) as x:
                reads = [b.mul(b.add(x, number(i)), x_step) for i in range(lanes)]
                points = [widened(b, place(b, source, read), c, dtype, lanes) for read in reads]
                for i, row in enumerate(transpose(b, points)):
                    store(b, row, place(b, inner, b.mul(b.add(c, number(i)), pitch)), x)
            vectors = if_enough(b, count, lanes)
            with counted(b, channels, first=square_c) as channel:
                row = place(b, inner, b.mul(channel.index, pitch))
                plane = place(b, source, b.mul(channel.index, c_step))
                with b.if_else(b.icmp_signed("==", x_step, number(2))) as (second, far):
                    with second, covered(b, vectors, lanes) as x:
                        read = place(b, plane, b.mul(x, number(2)))
                        # No further than the last element: another array may end there.
                        low, high = (widened(b, read, i, dtype, lanes) for i in (0, lanes - 1))
                        picks = [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)]
                        store(b, shuffle(b, low, high, picks), row, x)
                    with far, covered(b, vectors, lanes) as x:
                        reads = [b.mul(b.add(x, number(i)), x_step) for i in range(lanes)]
                        places = [place(b, plane, read) for read in reads]
                        widen_each(b, places, place(b, row, x), dtype)
                with counted(b, count, first=vectors) as point:
                    value = widened(b, plane, b.mul(point.index, x_step), dtype)
                    store(b, value, row, point.index)
    b.ret_void()
    return made


def _pack_lines(  # noqa: PLR0913 - where from, where to, and by what
    b: ir.IRBuilder,
    target: ir.Value,
    source: ir.Value,
    sizes: tuple[ir.Value, ir.Value],
    steps: tuple[ir.Value, ir.Value],
    kind: tuple[str, int],
) -> None:
    """Pack lines of points that are neighbours, one of each channel.

    Small pictures have many lines of few vectors: a loop over those takes longer than they do.
    """
    channels, count = sizes
    dtype, lanes = kind
    last = b.sub(count, number(lanes))
    few = b.icmp_signed("<=", count, number(SHORT * lanes))
    few = b.and_(few, b.icmp_signed(">=", last, number(0)))
    begins = [smaller(b, number(v * lanes), last) for v in range(SHORT)]
    with b.if_else(few) as (short, any_length):
        for path, copies in ((short, True), (any_length, False)):
            with path, counted(b, channels) as c:
                row, line = (
                    place(b, each, b.mul(c.index, step))
                    for each, step in zip((target, source), steps, strict=True)
                )
                if copies:
                    values = [widened(b, line, begin, dtype, lanes) for begin in begins]
                    for value, begin in zip(values, begins, strict=True):
                        store(b, value, row, begin)
                else:
                    pack_run(b, row, line, count, dtype, lanes)


def emit_store_planes(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``store_planes(target, sums, bias, channels, pitch, count, c_step, x_step)``.

    ``target[c * c_step + j * x_step] = sums[c * pitch + j] + bias[c]``
    """
    dtype, scalar = shape.dtype, FLOATS[shape.dtype]
    pointers = [STORED[dtype].as_pointer(), *[scalar.as_pointer()] * 2]
    made, b = function(module, f"store_planes_{dtype}", [*pointers, *[I64] * 5])
    target, sums, bias, channels, pitch, count, c_step, x_step = made.args
    for argument in made.args[:3]:
        argument.add_attribute("noalias")
    lanes = shape.lanes
    vector = ir.VectorType(scalar, lanes)
    lines = b.icmp_signed("==", x_step, number(1))
    side_by_side = b.and_(b.icmp_signed("==", c_step, number(1)), b.not_(lines))
    square = b.and_(side_by_side, b.icmp_signed(">=", count, number(lanes)))
    square_c = b.select(square, if_enough(b, channels, lanes), number(0))
    with covered(b, square_c, lanes) as c:
        added = load(b, bias, c, vector)
        with covered(b, count, lanes) as x:
            rows = [
                load(b, place(b, sums, b.mul(b.add(c, number(i)), pitch)), x, vector)
                for i in range(lanes)
            ]
            for i, point in enumerate(transpose(b, rows)):
                line = place(b, target, b.mul(b.add(x, number(i)), x_step))
                store(b, rounded(b, b.fadd(point, added), dtype), line, c)
    vectors = if_enough(b, count, lanes)
    with counted(b, channels, first=square_c) as channel:
        row = place(b, sums, b.mul(channel.index, pitch))
        plane = place(b, target, b.mul(channel.index, c_step))
        value = load(b, bias, channel.index)
        added = splat(b, value, lanes)
        with covered(b, vectors, lanes) as x:
            kept = rounded(b, b.fadd(load(b, row, x, vector), added), dtype)
            with b.if_else(lines) as (whole, apart):
                with whole:
                    store(b, kept, plane, x)
                with apart:
                    places = [b.mul(b.add(x, number(i)), x_step) for i in range(lanes)]
                    store_each(b, kept, plane, places)
        # Lines that fill no whole vector may fill a shorter one.
        few = b.and_(lines, b.icmp_signed("<", count, number(lanes)))
        halves = b.select(few, if_enough(b, count, SHORT_LANES), number(0))
        with covered(b, halves, SHORT_LANES) as x:
            some = load(b, row, x, ir.VectorType(scalar, SHORT_LANES))
            kept = rounded(b, b.fadd(some, splat(b, value, SHORT_LANES)), dtype)
            store(b, kept, plane, x)
        with counted(b, count, first=larger(b, vectors, halves)) as single:
            total = rounded(b, b.fadd(load(b, row, single.index), value), dtype)
            store(b, total, plane, b.mul(single.index, x_step))
    b.ret_void()
    return made


def emit_store_phases(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``store(target, sums, bias, groups, pitch, apart, count, c_step, x_step)``.

    ``target[c * c_step + (j * phases + p) * x_step] = sums[p * apart + c * pitch + j] + bias[c]``
    for ``groups`` times as many channels as a tile has, and ``count`` places of the line.
    """
    dtype, lanes = shape.dtype, shape.lanes
    channels, phases = shape.rows
    pointers = [STORED[dtype].as_pointer(), *[FLOATS[dtype].as_pointer()] * 2]
    made, b = function(module, f"store_phases_{dtype}", [*pointers, *[I64] * 6])
    target, sums, bias, groups, pitch, apart, count, c_step, x_step = made.args
    for argument in made.args[:3]:
        argument.add_attribute("noalias")
    vector = ir.VectorType(FLOATS[dtype], lanes)
    whole = b.sdiv(count, number(phases))

    lanewise = if_enough(b, whole, lanes)

    def run(first: ir.Value, rows: Sequence[tuple[ir.Value, ir.Value]]) -> None:
        """Store rows, each a channel and its sums, element by element beside each other."""
        out = place(b, target, b.mul(first, c_step))
        added = [splat(b, load(b, bias, c), lanes) for c, _ in rows]
        with covered(b, lanewise, lanes) as x:
            values = [
                b.fadd(load(b, line, x, vector), extra)
                for (_, line), extra in zip(rows, added, strict=True)
            ]
            for i, mixed in enumerate(interleaved(b, values)):
                begin = b.add(b.mul(x, number(len(rows))), number(i * lanes))
                store(b, rounded(b, mixed, dtype), out, begin)

    def row(p: int, c: ir.Value) -> tuple[ir.Value, ir.Value]:
        return c, place(b, sums, b.add(b.mul(number(p), apart), b.mul(c, pitch)))

    every = b.mul(groups, number(channels))
    in_lines = b.icmp_signed("==", x_step, number(1))
    # Of a single group, and of nothing else, channels lie side by side with phases.
    beside = b.and_(b.icmp_signed("==", c_step, number(1)), b.icmp_signed("==", x_step, every))
    alone = b.and_(b.icmp_signed("==", groups, number(1)), b.not_(in_lines))
    tight = b.and_(beside, alone)
    with b.if_then(tight):
        run(number(0), [row(p, number(f)) for p in range(phases) for f in range(channels)])
    with b.if_then(in_lines), counted(b, every) as c:
        run(c.index, [row(p, c.index) for p in range(phases)])
    done = b.select(b.or_(tight, in_lines), lanewise, number(0))
    left = b.sub(lanewise, done)
    step = b.mul(x_step, number(phases))
    with counted(b, every) as c:
        out, value = place(b, target, b.mul(c.index, c_step)), load(b, bias, c.index)
        added = splat(b, value, lanes)
        for p in range(phases):
            _, line = row(p, c.index)
            into = place(b, out, b.mul(number(p), x_step))
            with covered(b, left, lanes) as x:
                kept = rounded(b, b.fadd(load(b, line, x, vector), added), dtype)
                places = [b.mul(b.add(x, number(i)), step) for i in range(lanes)]
                store_each(b, kept, into, places)
            mine = b.sdiv(b.add(count, number(phases - 1 - p)), number(phases))
            with counted(b, mine, first=b.add(done, left)) as j:
                total = rounded(b, b.fadd(load(b, line, j.index), value), dtype)
                store(b, total, into, b.mul(j.index, step))
    b.ret_void()
    return made


def interleaved(b: ir.IRBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """Return the first lanes of all rows, then the second ones and so on, as so many vectors."""
    count, lanes = len(rows), rows[0].type.count
    if count == 1:
        return list(rows)
    if count % 2 == 0:
        halves = zip(interleaved(b, rows[::2]), interleaved(b, rows[1::2]), strict=True)
        return [
            shuffle(
                b,
                even,
                odd,
                [i + side * lanes for i in range(at, at + lanes // 2) for side in (0, 1)],
            )
            for even, odd in halves
            for at in (0, lanes // 2)
        ]
    mixed = []
    for begin in range(0, count * lanes, lanes):
        kept = rows[0]
        for row in range(1, count):
            # Lanes of earlier rows are where they belong once the second one has come.
            picks = []
            for lane in range(lanes):
                of, at = (begin + lane) % count, (begin + lane) // count
                picks.append(lanes + at if of == row else at if row == 1 and of == 0 else lane)
            if row == 1 or any(pick >= lanes for pick in picks):
                kept = shuffle(b, kept, rows[row], picks)
        mixed.append(kept)
    return mixed
