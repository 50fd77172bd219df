"""The register tile of planes: vectors run along points."""

from collections.abc import Sequence

from llvmlite import ir

from tconv.codegen.block import KernelShape
from tconv.codegen.build import (
    FLOATS,
    I64,
    STORED,
    Turn,
    counted,
    fma,
    function,
    load,
    number,
    place,
    smaller,
    splat,
    store,
)
from tconv.codegen.stored import rounded

FULL = 12  # sums that any machine has registers for
HIDDEN = 8  # sums at least that hide the latency of an addition
MANY = 16  # sums that are time enough for what comes before the next ones
MOST_LINES = 8  # of a tile: each has an address of its own


def vector_runs(most: int) -> tuple[int, ...]:
    """Return how many vectors of a line tiles hold, the largest with so many first, down to one."""
    return tuple(vectors for vectors in (8, 6, 4, 3, 2, 1) if vectors <= most)


def lines_together(rows: int, vectors: int) -> int:
    """Return how many lines a tile takes: enough sums to hide the latency of an addition."""
    return min(MOST_LINES, -(-HIDDEN // (rows * vectors)))


def unroll(rows: int, vectors: int) -> int:
    """Return how many segments of a single channel, or channels of a segment, one turn takes.

    Two, unless the second one's operands would put sums on the stack.
    """
    return 1 if rows * vectors > MANY or (vectors == 1 and rows > HIDDEN) else 2


def emit_plane_tile(
    module: ir.Module, shape: KernelShape, size: tuple[int, int], *, rounds: bool = False
) -> ir.Function:
    """Emit ``tile(sums, start, planes, weights, segments, counts, origins, places, ...)``.

    Further ``run, step, pitch, apart, along, columns, panel_weights``.  A size is vectors of each
    line, and lines.  One that ``rounds`` writes sums as arrays hold them.

    The shape's rows are channels and merged phases.  For every line ``l``, phase ``p`` and
    channel ``f`` ``sums[out[l] + p * apart + f * pitch + v] = start[f] +
    sum of weights[s, k, p, f] * planes[origins[l] + segments[s] + k * step + v]``
    over the first ``counts[0]`` segments, which all phases read, and ``counts[1 + p]`` of the
    phase's own, whose weights are ``[s, k, f]``; ``out[l]`` is ``places[l]``, or ``l * along``
    unless that is zero.

    One panel of channels after the other, until there are ``columns``: what the first one reads
    is in the nearest cache for the others.  The last one ends with the last channel.
    """
    channels, phases = shape.rows
    vectors, lines = size
    scalar = FLOATS[shape.dtype]
    pointer, table = scalar.as_pointer(), I64.as_pointer()
    written = STORED[shape.dtype].as_pointer() if rounds else pointer
    name = f"{shape.dtype}_{channels}x{phases}x{vectors}x{lines}{'_rounds' if rounds else ''}"
    arguments = [written, *[pointer] * 3, *[table] * 4, *[I64] * 7]
    made, b = function(module, f"plane_tile_{name}", arguments)
    sums, start, planes, weights, segments, counts, origins, places = made.args[:8]
    run, step, pitch, apart, along, columns, panel_weights = made.args[8:]
    for argument in made.args[:6]:
        argument.add_attribute("noalias")
    begins = [place(b, planes, load(b, origins, line)) for line in range(lines)]
    behind = [b.sub(load(b, origins, line), load(b, origins)) for line in range(1, lines)]
    listed = b.icmp_signed("==", along, number(0))
    outs = [
        place(b, sums, b.select(listed, load(b, places, line), b.mul(number(line), along)))
        for line in range(lines)
    ]
    last = b.sub(columns, number(channels))
    with counted(b, columns, [weights], step=channels) as panel:
        here = panel.index if phases > 1 else smaller(b, panel.index, last)
        begun = [
            splat(b, load(b, start, b.add(here, number(f))), shape.lanes) for f in range(channels)
        ]
        carried = [panel.carried[0]]
        every = lines * vectors  # vectors of a row
        carried += (begun[f] for _ in range(phases) for f in range(channels) for _ in range(every))
        totals = _sum_segments(
            b, shape, vectors, carried, (begins, behind), (segments, counts), (run, step)
        )
        into = [place(b, out, b.mul(here, pitch)) for out in outs]
        _store(b, shape, into, (apart, pitch), totals, rounds=rounds)
        panel.carried = [place(b, panel.carried[0], panel_weights)]
    b.ret_void()
    return made


def _sum_segments(  # noqa: PLR0913 - what is summed
    b: ir.IRBuilder,
    shape: KernelShape,
    vectors: int,
    carried: list[ir.Value],
    lines: tuple[Sequence[ir.Value], Sequence[ir.Value]],
    tables: tuple[ir.Value, ir.Value],
    steps: tuple[ir.Value, ir.Value],
) -> list[ir.Value]:
    """Return a panel's sums over all segments: those of all phases, then of each.

    Carried are where its weights begin and what sums begin with; lines begin somewhere, all but
    the first so much behind it; the tables are segments and how many there are of each kind.
    """
    channels, phases = shape.rows
    begins, behind = lines
    segments, counts = tables
    run, step = steps
    single = b.icmp_signed("==", run, number(1))
    at_once = unroll(channels * phases, len(begins) * vectors)
    # Every phase together, then one after the other.
    kinds = [range(phases), *([p] for p in range(phases))][: phases + 1 if phases > 1 else 1]
    first: ir.Value = number(0)
    for kind, mine in enumerate(kinds):
        rows = [(p, f) for p in mine for f in range(channels)]
        last = b.add(first, load(b, counts, kind))
        whole = b.and_(b.sub(last, first), number(-at_once))
        whole = b.add(first, b.select(single, whole, number(0)))
        with counted(b, whole, carried, first=first, step=at_once) as turn:
            for step_ in range(at_once):
                where = load(b, segments, b.add(turn.index, number(step_)))
                points = [place(b, line, where) for line in begins]
                turn.carried = _multiply(b, shape, vectors, rows, points, turn.carried)
        with counted(b, last, turn.carried, first=whole) as segment:
            first_line = place(b, begins[0], load(b, segments, segment.index))

            def channels_of(turn: Turn, count: int, mine: Sequence[tuple[int, int]] = rows) -> None:
                for _ in range(count):
                    line, *others = turn.carried
                    points = [line, *(place(b, line, further) for further in behind)]
                    multiplied = _multiply(b, shape, vectors, mine, points, others)
                    turn.carried = [place(b, line, step), *multiplied]

            even = b.and_(run, number(-at_once))
            with counted(b, even, [first_line, *segment.carried], step=at_once) as some:
                channels_of(some, at_once)
            with counted(b, run, some.carried, first=even) as one:
                channels_of(one, 1)
            segment.carried = one.carried[1:]
        first, carried = last, segment.carried
    return carried[1:]


def _store(  # noqa: PLR0913 - what goes where
    b: ir.IRBuilder,
    shape: KernelShape,
    outs: Sequence[ir.Value],
    steps: tuple[ir.Value, ir.Value],
    sums: Sequence[ir.Value],
    *,
    rounds: bool,
) -> None:
    """Store sums of every phase, channel and line, at steps from phase and channel to the next."""
    channels, phases = shape.rows
    totals, vectors = iter(sums), len(sums) // (channels * phases * len(outs))
    for p in range(phases):
        for f in range(channels):
            row = b.add(b.mul(number(p), steps[0]), b.mul(number(f), steps[1]))
            for out in outs:
                target = place(b, out, row)
                for v in range(vectors):
                    total = next(totals)
                    total = rounded(b, total, shape.dtype) if rounds else total
                    store(b, total, target, v * shape.lanes)


def _multiply(  # noqa: PLR0913 - what is multiplied
    b: ir.IRBuilder,
    shape: KernelShape,
    vectors: int,
    rows: Sequence[tuple[int, int]],
    points: Sequence[ir.Value],
    carried: list[ir.Value],
) -> list[ir.Value]:
    """Add some vectors of points of each line, times one weight for each row: a phase, channel."""
    taken, *totals = carried
    kind = totals[0].type
    every = len(points) * vectors

    def weight(row: int) -> ir.Value:
        return splat(b, load(b, taken, row), shape.lanes)

    def value(v: int) -> ir.Value:
        return load(b, points[v // vectors], v % vectors * shape.lanes, kind)

    # What there is less of is read first, and kept: sums are in nearly all registers.
    few_rows = len(rows) < every
    kept = [*map(weight, range(len(rows)))] if few_rows else [*map(value, range(every))]
    for at in range(every if few_rows else len(rows)):
        other = value(at) if few_rows else weight(at)
        for i, each in enumerate(kept):
            (p, f), v = (rows[i], at) if few_rows else (rows[at], i)
            here = (p * shape.rows[0] + f) * every + v
            totals[here] = fma(b, each, other, totals[here])
    return [place(b, taken, len(rows)), *totals]
