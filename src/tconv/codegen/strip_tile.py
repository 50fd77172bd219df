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
    splat,
    store,
)
from tconv.codegen.stored import covered, rounded
from tconv.plan.strips import SIZES

TILES = ((8, 1), (4, 1), (1, 8), (1, 1))
"""Lines and vectors of the tiles: enough sums to hide how long one takes, and one alone."""


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
    module: ir.Module, shape: KernelShape, size: tuple[int, int], *, rounds: bool = False
) -> ir.Function:
    """Emit ``strip(out, start, data, weights, segments, counts, in_line, out_line, length)``.

    ``out[l * out_line + x] = start + sum of weights[s, k] * data[segments[s] + (l + k) * in_line
    + x]`` for ``length`` points x of so many lines, at least those of a tile, over ``counts[i]``
    columns s of ``SIZES[i]`` taps k.  One that ``rounds`` writes sums as arrays hold them.
    """
    lines, vectors = size
    scalar = FLOATS[shape.dtype]
    pointer, table = scalar.as_pointer(), I64.as_pointer()
    written = STORED[shape.dtype].as_pointer() if rounds else pointer
    name = f"strip_{shape.dtype}_{lines}x{vectors}{'_rounds' if rounds else ''}"
    arguments = [written, scalar, pointer, pointer, table, table, *[I64] * 3]
    made, b = function(module, name, arguments)
    out, start, data, weights, segments, counts, in_line, out_line, length = made.args
    for argument in (out, data, weights, segments, counts):
        argument.add_attribute("noalias")
    begun = splat(b, start, shape.lanes)
    with covered(b, length, shape.lanes * vectors) as x:
        carried = [weights, *[begun] * (lines * vectors)]
        here, first = place(b, data, x), number(0)
        for kind, taps in enumerate(SIZES):
            last = b.add(first, load(b, counts, kind))
            with counted(b, last, carried, first=first) as segment:
                read = opaque(b, place(b, here, load(b, segments, segment.index)))
                ends = read, in_line
                segment.carried = _multiply(b, shape, (lines, vectors, taps), ends, segment.carried)
            first, carried = last, segment.carried
        for line in range(lines):
            into = place(b, out, b.add(b.mul(number(line), out_line), x))
            for v in range(vectors):
                total = carried[1 + line * vectors + v]
                total = rounded(b, total, shape.dtype) if rounds else total
                store(b, total, into, v * shape.lanes)
    b.ret_void()
    return made


def _multiply(
    b: ir.IRBuilder,
    shape: KernelShape,
    sizes: tuple[int, int, int],
    ends: tuple[ir.Value, ir.Value],
    carried: Sequence[ir.Value],
) -> list[ir.Value]:
    """Add one column of taps: every vector that is read serves all lines that meet it."""
    lines, vectors, taps = sizes
    read, in_line = ends
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
