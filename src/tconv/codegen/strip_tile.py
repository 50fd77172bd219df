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
    load,
    number,
    opaque,
    place,
    shuffle,
    splat,
    store,
)
from tconv.codegen.plane_rows import interleaved
from tconv.codegen.stored import covered, rounded
from tconv.plan.strips import SIZES

ALONE = (1, 1)
TILES: dict[int, tuple[tuple[int, int], ...]] = {
    1: ((8, 1), (4, 1), (1, 8), ALONE),
    2: ((4, 1), ALONE),
    3: ((2, 1), ALONE),
    4: ((2, 1), ALONE),
}
"""By phases that are stored side by side: lines and vectors of tiles.

Enough sums to hide how long one takes, not more than registers hold beside weights.
"""


def strip_meaning(
    start: float,
    data: npt.NDArray[np.floating],
    columns: Sequence[tuple[int, Sequence[float]]],
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

    Further ``out_line, length, missing``.

    ``out[l * out_line + x] = start + sum of weights[s, k] * data[segments[s] + (l + k) * in_line
    + x]`` for ``length`` points x of so many lines, at least those of a tile, over ``counts[i]``
    columns s of ``SIZES[i]`` taps k.  Of several ``phases``, each with columns of its own behind
    those of the one before, points lie side by side: ``x * phases + p``; so many are ``missing``
    at the end of a line.  One that ``rounds`` writes sums as arrays hold them.
    """
    lines, vectors = size
    scalar = FLOATS[shape.dtype]
    pointer, table = scalar.as_pointer(), I64.as_pointer()
    written = STORED[shape.dtype].as_pointer() if rounds else pointer
    name = f"strip_{shape.dtype}_{lines}x{vectors}x{phases}{'_rounds' if rounds else ''}"
    arguments = [written, scalar, pointer, pointer, table, table, *[I64] * 4]
    made, b = function(module, name, arguments)
    out, start, data, weights, segments, counts = made.args[:6]
    in_line, out_line, length, missing = made.args[6:]
    for argument in (out, data, weights, segments, counts):
        argument.add_attribute("noalias")
    begun = splat(b, start, shape.lanes)
    with covered(b, length, shape.lanes * vectors) as x:
        here, first, taken = place(b, data, x), number(0), weights
        sums: list[list[ir.Value]] = []
        for phase in range(phases):
            carried = [taken, *[begun] * (lines * vectors)]
            for kind, taps in enumerate(SIZES):
                last = b.add(first, load(b, counts, phase * len(SIZES) + kind))
                with counted(b, last, carried, first=first) as segment:
                    read = opaque(b, place(b, here, load(b, segments, segment.index)))
                    sizes = lines, vectors, taps
                    segment.carried = _multiply(b, shape, sizes, read, in_line, segment.carried)
                first, carried = last, segment.carried
            taken, *totals = carried
            sums.append(totals)
        ends = b.icmp_signed("==", b.add(x, number(shape.lanes * vectors)), length)
        cut = b.select(ends, missing, number(0))
        for line in range(lines):
            along = b.add(b.mul(number(line), out_line), b.mul(x, number(phases)))
            into = place(b, out, along)
            mixed = [
                total
                for v in range(vectors)
                for total in interleaved(b, [each[line * vectors + v] for each in sums])
            ]
            _store(b, shape, into, (phases, cut), mixed, rounds=rounds)
    b.ret_void()
    return made


def _store(  # noqa: PLR0913 - what goes where
    b: ir.IRBuilder,
    shape: KernelShape,
    into: ir.Value,
    numbers: tuple[int, ir.Value],
    vectors: Sequence[ir.Value],
    *,
    rounds: bool,
) -> None:
    """Store vectors that lie side by side, but not so many points at the end that are ``cut``."""
    phases, cut = numbers
    lanes = shape.lanes
    *others, last = vectors

    def write(value: ir.Value, begin: int) -> None:
        store(b, rounded(b, value, shape.dtype) if rounds else value, into, begin)

    for place_of, value in enumerate(others):
        write(value, place_of * lanes)
    end = len(others) * lanes
    if phases == 1:
        write(last, end)
        return
    for missing in range(phases):
        with b.if_then(b.icmp_signed("==", cut, number(missing)), likely=missing == 0):
            picks = range(lanes - missing, 2 * lanes - missing)
            write(shuffle(b, others[-1], last, picks) if missing else last, end - missing)


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
