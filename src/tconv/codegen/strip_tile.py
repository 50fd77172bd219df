"""The register tile of strips: some lines of vectors, one below the other."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv.codegen.block import KernelShape
from tconv.codegen.build import (
    FLOATS,
    I64,
    STORED,
    counted,
    fma,
    function,
    larger,
    load,
    number,
    opaque,
    place,
    splat,
    store,
)
from tconv.codegen.plane_rows import interleaved
from tconv.codegen.stored import covered, rounded
from tconv.plan.strips import SIZES, most_at_once

ALONE = (1, 1)
TILES: dict[int, tuple[tuple[int, int], ...]] = {
    1: ((8, 1), (4, 1), (1, 8), ALONE),
    2: ((8, 1), (4, 1), (1, 4), ALONE),
    3: ((8, 1), (4, 1), (1, 4), ALONE),
    4: ((4, 1), (1, 4), ALONE),
    6: ((4, 1), ALONE),
    8: ((4, 1), ALONE),
}
"""By phases that are stored side by side: lines and vectors of tiles.

Enough sums of a phase to hide how long one takes.
"""
UNROLLED = 4  # phases; code for more would take long to compile
RARE = ((4, 1), ALONE)  # tiles for what is not stored at once, of several phases


def most_cut(lanes: int, phases: int) -> int:
    """Return how many elements at the end of its vectors a strip can leave out, at most."""
    return lanes if phases > 1 else lanes // 2


def strip_meaning(
    start: float,
    data: npt.NDArray[np.floating],
    columns: Sequence[tuple[int, npt.NDArray[np.floating]]],
    lines: int,
    in_line: int,
) -> npt.NDArray[np.floating]:
    """Compute in NumPy what a strip computes; a column is where it begins to read, and weights.

    ``out[l, x] = start + sum of weights[k] * data[begin + (l + k) * in_line + x]``
    """
    length = data.size - max(b + (lines + len(w) - 2) * in_line for b, w in columns)
    total = np.full((lines, length), start, data.dtype)
    for begin, weights in columns:
        for k, weight in enumerate(weights):
            for line in range(lines):
                first = begin + (line + k) * in_line
                total[line] += data.dtype.type(weight) * data[first : first + length]
    return total


def emit_strip(
    module: ir.Module,
    shape: KernelShape,
    size: tuple[int, int],
    phases: int = 1,
    *,
    rounds: bool = False,
) -> ir.Function:
    """Emit ``strip(out, start, data, weights, segments, counts, in_line, ...)``.

    Further ``out_line, length, places``.

    ``out[l * out_line + x] = start + sum of weights[s, k] * data[segments[s] + (l + k) * in_line
    + x]`` for ``length`` points x of so many lines, at least those of a tile, over ``counts[i]``
    columns s of ``SIZES[i]`` taps k, of as many as tiles of the shape's phases take.

    Of several ``phases``, each with columns of its own behind those of the one before, points lie
    side by side: ``x * phases + p``; a line has so many ``places`` of them, :func:`most_cut` less
    than whole vectors at least.  One that ``rounds`` writes sums as arrays hold them.
    """
    lines, vectors = size
    scalar = FLOATS[shape.dtype]
    pointer, table = scalar.as_pointer(), I64.as_pointer()
    written = STORED[shape.dtype] if rounds else scalar
    name = f"strip_{shape.dtype}_{lines}x{vectors}x{phases}{'_rounds' if rounds else ''}"
    arguments = [written.as_pointer(), scalar, pointer, pointer, table, table, *[I64] * 4]
    made, b = function(module, name, arguments)
    out, start, data, weights, segments, counts = made.args[:6]
    in_line, out_line, length, places = made.args[6:]
    for argument in (out, data, weights, segments, counts):
        argument.add_attribute("noalias")
    kept = opaque(b, b.alloca(scalar, number(phases * lines * vectors * shape.lanes)))
    last_two = b.alloca(written, number(2 * shape.lanes))
    begun = splat(b, start, shape.lanes)
    tile = number(shape.lanes * vectors)
    # Shorter lines are summed as one vector.
    padded = larger(b, length, tile)
    with covered(b, padded, shape.lanes * vectors) as x:
        tables = place(b, data, x), segments, in_line
        sums = _sum_phases(b, shape, (size, phases), (begun, counts, weights), tables, kept)
        ends = b.icmp_signed("==", b.add(x, tile), padded)
        cut = b.select(ends, b.sub(b.mul(padded, number(phases)), places), number(0))
        # What is written behind a line is written again as the next one, where that lies there
        # and is as short: it is no longer than the line.
        follow = b.icmp_signed("==", out_line, places)
        follow = b.and_(follow, b.icmp_signed("==", padded, tile))
        for line in range(lines):
            along = b.add(b.mul(number(line), out_line), b.mul(x, number(phases)))
            mixed = [
                rounded(b, total, shape.dtype) if rounds else total
                for v in range(vectors)
                for total in interleaved(b, [each[line * vectors + v] for each in sums])
            ]
            short = cut if line == lines - 1 else b.select(follow, number(0), cut)
            _store(b, place(b, out, along), last_two, mixed, short)
    b.ret_void()
    return made


def _sum_phases(  # noqa: PLR0913 - what is summed
    b: ir.IRBuilder,
    shape: KernelShape,
    baked: tuple[tuple[int, int], int],
    starts: tuple[ir.Value, ir.Value, ir.Value],
    tables: tuple[ir.Value, ir.Value, ir.Value],
    kept: ir.Value,
) -> list[list[ir.Value]]:
    """Return the sums of all phases; those of others wait in memory while one is summed.

    LLVM would rather hold some of them in registers, and move others in every turn of a loop.
    """
    size, phases = baked
    begun, counts, weights = starts
    pitch = size[0] * size[1] * shape.lanes

    def one(p: ir.Value, begins: tuple[ir.Value, ir.Value]) -> list[ir.Value]:
        mine = place(b, counts, b.mul(p, number(len(SIZES))))
        return _sum_phase(b, shape, size, (begun, mine), tables, begins)

    def keep(p: ir.Value, totals: Sequence[ir.Value]) -> None:
        into = place(b, kept, b.mul(p, number(pitch)))
        for k, total in enumerate(totals):
            store(b, total, into, k * shape.lanes)

    first: ir.Value = number(0)
    taken: ir.Value = weights
    totals: list[ir.Value] = []
    if phases > UNROLLED:
        with counted(b, number(phases), [first, taken]) as phase:
            first, taken, *found = one(phase.index, (phase.carried[0], phase.carried[1]))
            keep(phase.index, found)
            phase.carried = [first, taken]
    else:
        for p in range(phases):
            first, taken, *totals = one(number(p), (first, taken))
            if p < phases - 1:
                keep(number(p), totals)
    waiting = phases - bool(totals)
    places = [range(p * pitch, (p + 1) * pitch, shape.lanes) for p in range(waiting)]
    sums = [[load(b, kept, place_of, begun.type) for place_of in some] for some in places]
    return [*sums, totals] if totals else sums


def _sum_phase(  # noqa: PLR0913 - what is summed
    b: ir.IRBuilder,
    shape: KernelShape,
    size: tuple[int, int],
    starts: tuple[ir.Value, ir.Value],
    tables: tuple[ir.Value, ir.Value, ir.Value],
    begins: tuple[ir.Value, ir.Value],
) -> list[ir.Value]:
    """Return a phase's sums, behind the first segment and weight of the next phase.

    Starts are what sums begin with, and how many columns there are of each size; tables are the
    data, segments and the step from line to line; begins are this phase's first segment and weight.
    """
    begun, counts = starts
    data, segments, in_line = tables
    first, taken = begins
    carried = [taken, *[begun] * (size[0] * size[1])]
    for kind, taps in enumerate(SIZES):
        if taps > most_at_once(shape.rows[1]):
            continue
        last = b.add(first, load(b, counts, kind))
        with counted(b, last, carried, first=first) as segment:
            read = opaque(b, place(b, data, load(b, segments, segment.index)))
            segment.carried = _multiply(b, shape, (*size, taps), read, in_line, segment.carried)
        first, carried = last, segment.carried
    return [first, *carried]


def _store(
    b: ir.IRBuilder, into: ir.Value, room: ir.Value, vectors: Sequence[ir.Value], cut: ir.Value
) -> None:
    """Store vectors side by side, but so many elements at the end, as :func:`most_cut` says."""
    lanes = vectors[0].type.count
    *others, last = vectors
    for place_of, value in enumerate(others):
        store(b, value, into, place_of * lanes)
    end = number(len(others) * lanes)
    with b.if_else(b.icmp_signed(">", cut, number(0)), likely=False) as (some, none):
        with none:
            store(b, last, into, end)
        with some:
            for place_of, value in enumerate(vectors[-2:]):
                store(b, value, room, place_of * lanes)
            if others:
                shifted = load(b, room, b.sub(number(lanes), cut), last.type)
                store(b, shifted, into, b.sub(end, cut))
            else:
                half = ir.VectorType(last.type.element, lanes // 2)
                for begin in (number(0), b.sub(number(lanes // 2), cut)):
                    store(b, load(b, room, begin, half), into, begin)


def _multiply(  # noqa: PLR0913 - what is multiplied
    b: ir.IRBuilder,
    shape: KernelShape,
    sizes: tuple[int, int, int],
    read: ir.Value,
    in_line: ir.Value,
    carried: Sequence[ir.Value],
) -> list[ir.Value]:
    """Add one column of taps: every vector that is read serves all lines that meet it."""
    lines, vectors, taps = sizes
    taken, *totals = carried
    kind = totals[0].type
    kept = [splat(b, load(b, taken, k), shape.lanes) for k in range(taps)]
    for j in range(lines + taps - 1):
        for v in range(vectors):
            value = load(b, read, v * shape.lanes, kind)
            for k in range(max(0, j - lines + 1), min(taps, j + 1)):
                here = (j - k) * vectors + v
                totals[here] = fma(b, kept[k], value, totals[here])
        read = place(b, read, in_line)
    return [place(b, taken, taps), *totals]
