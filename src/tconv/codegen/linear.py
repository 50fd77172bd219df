"""Linear maps along the axes of a small box of vectors, as additions and fused products."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv.codegen.build import fma
from tconv.plan.transforms import Matrix, Row

Box = dict[tuple[int, ...], ir.Value]


def map_axes_meaning(
    matrices: Sequence[Matrix], box: npt.NDArray[np.floating]
) -> npt.NDArray[np.floating]:
    """Compute in NumPy what the code from :func:`emit_map_axes` computes.

    The box has an axis for each matrix, and behind them the vectors.
    """
    for axis, matrix in enumerate(matrices):
        floats = np.array([[float(entry) for entry in row] for row in matrix], box.dtype)
        box = np.moveaxis(np.tensordot(floats, box, (1, axis)), 0, axis)
    return box


def emit_map_axes(
    b: ir.IRBuilder, matrices: Sequence[Matrix], box: Mapping[tuple[int, ...], ir.Value]
) -> Box:
    """Multiply a box of vectors by one matrix along each of its axes."""
    made = dict(box)
    sizes = [len(matrix[0]) for matrix in matrices]
    for axis, matrix in enumerate(matrices):
        ranges = [range(size) for size in sizes]
        ranges[axis] = range(1)
        before, made = made, {}
        for start in product(*ranges):
            head, tail = start[:axis], start[axis + 1 :]
            line = [before[(*head, place, *tail)] for place in range(sizes[axis])]
            for place, value in enumerate(_map_line(b, matrix, line)):
                made[(*head, place, *tail)] = value
        sizes[axis] = len(matrix)
    return made


def _map_line(b: ir.IRBuilder, matrix: Matrix, line: Sequence[ir.Value]) -> list[ir.Value]:
    """Multiply one line by a matrix; two rows that differ in signs share their sums."""
    made: dict[int, ir.Value] = {}
    for place, row in enumerate(matrix):
        if place in made:
            continue
        twin = _twin(matrix, place)
        if twin is None:
            made[place] = _combine(b, row, line)
            continue
        same = tuple(x if x == y else Fraction(0) for x, y in zip(row, matrix[twin], strict=True))
        opposite = tuple(x - y for x, y in zip(row, same, strict=True))
        left, right = _combine(b, same, line), _combine(b, opposite, line)
        made[place], made[twin] = b.fadd(left, right), b.fsub(left, right)
    return [made[place] for place in range(len(matrix))]


def _twin(matrix: Matrix, place: int) -> int | None:
    """Return a later row with the same numbers, some but not all of another sign."""
    row = matrix[place]
    if sum(x != 0 for x in row) < 2:
        return None
    for other in range(place + 1, len(matrix)):
        pairs = [(x, y) for x, y in zip(row, matrix[other], strict=True) if x or y]
        if all(abs(x) == abs(y) for x, y in pairs) and len({x == y for x, y in pairs}) == 2:
            return other
    return None


def _combine(b: ir.IRBuilder, row: Row, line: Sequence[ir.Value]) -> ir.Value:
    """Return the sum of a line's vectors, each times its number."""
    terms = [(factor, value) for factor, value in zip(row, line, strict=True) if factor]
    terms.sort(key=lambda term: term[0] != 1)  # a sum begins best with what is not multiplied
    (factor, total), *rest = terms
    if factor != 1:
        total = b.fmul(total, _constant(total.type, factor))
    for factor, value in rest:
        if factor == 1:
            total = b.fadd(total, value)
        elif factor == -1:
            total = b.fsub(total, value)
        else:
            total = fma(b, value, _constant(total.type, factor), total)
    return total


def _constant(kind: ir.VectorType, factor: Fraction) -> ir.Constant:
    return ir.Constant(kind, [float(factor)] * kind.count)
