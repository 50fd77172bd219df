"""The right answer for layers of any size, and how far from it a result may be.

One matrix product for each tap, in float64: independent of every kernel that is measured.
"""

import math
from itertools import product

import numpy as np
import numpy.typing as npt

from tconv.problem import Operand, Problem

Array = npt.NDArray[np.generic]
Floats = npt.NDArray[np.float64]

# Groups first, then points by channels: the points that one tap meets are one matrix a group.
ORDERS = {Operand.COARSE: "gnxc", Operand.FINE: "gnxf", Operand.WEIGHTS: "gxcf"}

# Largest difference, as a share of the root mean square of the right answer.  Sums of thousands
# of products in any order, and fast algorithms with their own roundings, stay below it.  One
# missing product of n is about 1 / sqrt(n): noticed in float32 and float64 in every layer of the
# suite, in the short types, which engines round on the way, only while n is small.
TOLERANCE = {"float32": 2e-4, "float64": 1e-11, "float16": 2e-2, "bfloat16": 1e-1}


def right_answer(problem: Problem, first: Array, second: Array) -> Floats:
    """Return the wanted operand in its layout from the given ones (COARSE, FINE, WEIGHTS order)."""
    result = np.zeros(problem.shape(problem.wanted))
    views = {problem.wanted: _view(problem, problem.wanted, result)}
    for operand, array in zip(problem.given, (first, second), strict=True):
        views[operand] = np.ascontiguousarray(_view(problem, operand, array.astype(np.float64)))
    coarse, fine, weights = (views[operand] for operand in Operand)
    for tap in product(*(range(axis.taps) for axis in problem.axes)):
        c, f = _points(problem, tap)
        t: tuple[slice | int, ...] = (slice(None), *tap)
        if problem.wanted is Operand.COARSE:
            rows: Floats = _rows(fine[f]) @ weights[t].swapaxes(-1, -2)
            coarse[c] += rows.reshape(coarse[c].shape)
        elif problem.wanted is Operand.FINE:
            rows = _rows(coarse[c]) @ weights[t]
            fine[f] += rows.reshape(fine[f].shape)
        else:
            weights[t] = _rows(coarse[c]).swapaxes(-1, -2) @ _rows(fine[f])
    return result


def error_of(result: Array, right: Floats) -> float:
    """Return the largest difference as a share of the right answer's root mean square.

    >>> error_of(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    1.0
    >>> error_of(np.array([1.0]), np.array([1.0, 1.0]))
    inf
    """
    if result.shape != right.shape:
        return math.inf
    scale = float(np.sqrt(np.mean(np.square(right)))) or 1.0
    largest = float(np.max(np.abs(result.astype(np.float64) - right), initial=0.0)) / scale
    return math.inf if math.isnan(largest) else largest


def _view(problem: Problem, operand: Operand, array: Floats) -> Floats:
    """View an operand in the judge's order."""
    shape, permutation = problem.path(operand, ORDERS[operand])
    return array.reshape(shape).transpose(permutation)


def _points(problem: Problem, tap: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return the coarse and the fine points that one tap meets, groups and batch in front."""
    coarse, fine = [slice(None)] * 2, [slice(None)] * 2
    for axis, t in zip(problem.axes, tap, strict=True):
        reach = axis.reach(t)
        coarse.append(slice(reach.coarse_start, reach.coarse_start + reach.count))
        end = reach.fine_start + axis.stride * reach.count
        fine.append(slice(reach.fine_start, end, axis.stride))
    return tuple(coarse), tuple(fine)


def _rows(points: Floats) -> Floats:
    """Lay the points of each group out as one row each."""
    return points.reshape(points.shape[0], math.prod(points.shape[1:-1]), points.shape[-1])
