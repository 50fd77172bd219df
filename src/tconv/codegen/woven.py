"""Sums of small groups whose channels lie side by side: a vector holds those of several groups.

Every lane sums the channels that its own group reads.  They are loaded with those of the vector's
other groups, and each channel of all groups is spread over the lanes that sum it.  Where a group
has as many channels as a vector has lanes, they are read one by one.
"""

from collections.abc import Sequence

from llvmlite import ir

from tconv.codegen.build import Turn, counted, fma, load, number, place, shuffle, splat


def multiply_woven(  # noqa: PLR0913 - what a segment reads
    b: ir.IRBuilder,
    woven: tuple[int, int],
    points: Sequence[ir.Value],
    carried: Sequence[ir.Value],
    panels: Sequence[int],
    channels: Sequence[ir.Value],
) -> list[ir.Value]:
    """Add one tap's products: of all channels that a group reads, for every point and vector.

    Carried are where weights of panels of so many vectors begin, and the sums, a point's vectors
    side by side; the channels are the first that each vector writes.
    """
    read, written = woven
    lines, totals = list(carried[: len(panels)]), list(carried[len(panels) :])
    lanes = totals[0].type.count
    places = [first_read(b, woven, channel) for channel in channels]
    if written == lanes:
        steps = next(steps for steps in (4, 2, 1) if read % steps == 0)
        with counted(b, number(read), [*lines, *totals], step=steps) as turn:
            for step in range(steps):
                turn.carried = _multiply_each(b, points, turn, panels, places, step)
        return list(turn.carried)
    groups = lanes // written
    part = ir.VectorType(totals[0].type.element, groups * read)
    weights = [
        load(b, line, (k * vectors + v) * lanes, totals[0].type)
        for k in range(read)
        for line, vectors in zip(lines, panels, strict=True)
        for v in range(vectors)
    ]
    picks = [[lane // written * read + k for lane in range(lanes)] for k in range(read)]
    # Nothing is shared between vectors: the weights of one need registers at a time.
    for v, where in enumerate(places):
        for r, point in enumerate(points):
            some, at = load(b, point, where, part), r * len(places) + v
            for k in range(read):
                row = shuffle(b, some, some, picks[k])
                totals[at] = fma(b, row, weights[k * len(places) + v], totals[at])
    following = (
        place(b, line, read * vectors * lanes) for line, vectors in zip(lines, panels, strict=True)
    )
    return [*following, *totals]


def first_read(b: ir.IRBuilder, woven: tuple[int, int], channel: ir.Value) -> ir.Value:
    """Return the first channel that the group of a written one reads."""
    read, written = woven
    return b.mul(b.udiv(channel, number(written)), number(read))


def _multiply_each(  # noqa: PLR0913 - what a step of the loop reads
    b: ir.IRBuilder,
    points: Sequence[ir.Value],
    turn: Turn,
    panels: Sequence[int],
    places: Sequence[ir.Value],
    step: int,
) -> list[ir.Value]:
    """Add the products of one channel that a group reads, so many behind the turn's."""
    lines, totals = turn.carried[: len(panels)], turn.carried[len(panels) :]
    lanes = totals[0].type.count
    weights = [
        load(b, line, v * lanes, totals[0].type)
        for line, vectors in zip(lines, panels, strict=True)
        for v in range(vectors)
    ]
    for r, point in enumerate(points):
        for v, where in enumerate(places):
            here = place(b, point, b.add(where, turn.index))
            row = splat(b, load(b, here, step), lanes)
            at = r * len(places) + v
            totals[at] = fma(b, row, weights[v], totals[at])
    following = (
        place(b, line, vectors * lanes) for line, vectors in zip(lines, panels, strict=True)
    )
    return [*following, *totals]
