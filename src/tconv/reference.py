"""The definition, small enough to be believed; the judge of everything else.

Slow on purpose: one Python step for each meeting, all sums in float64.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
import numpy.typing as npt

from tconv.problem import Axis, Operand, Problem

Array = npt.NDArray[np.float64]
Point = tuple[int, ...]

# Spatial axes first, so that a point indexes a batch of matrices.
ORDERS = {Operand.COARSE: "xgnc", Operand.FINE: "xgnf", Operand.WEIGHTS: "xgcf"}


def meetings(axes: tuple[Axis, ...]) -> Iterator[tuple[Point, Point, Point]]:
    """Yield every ``(coarse, tap, fine)`` triple of points that meet."""
    for coarse in product(*(range(axis.coarse_size) for axis in axes)):
        for tap in product(*(range(axis.taps) for axis in axes)):
            fine = [axis.fine(c, t) for axis, c, t in zip(axes, coarse, tap, strict=True)]
            point = tuple(f for f in fine if f is not None)
            if len(point) == len(axes):
                yield coarse, tap, point


def answer(
    problem: Problem,
    first: npt.NDArray[np.generic],
    second: npt.NDArray[np.generic],
    bias: npt.NDArray[np.generic] | None = None,
) -> Array:
    """Return what the definition says, in float64, in the wanted operand's layout.

    ``first`` and ``second`` are the given operands in the order COARSE, FINE,
    WEIGHTS, each in its own layout.
    """
    result = np.zeros(problem.shape(problem.wanted))
    operands = dict(zip((*problem.given, problem.wanted), (first, second, result), strict=True))
    views = {}
    for operand, array in operands.items():
        shape, permutation = problem.path(operand, ORDERS[operand])
        views[operand] = array.astype(np.float64, copy=False).reshape(shape).transpose(permutation)
    coarse, fine, weights = (views[operand] for operand in Operand)
    with np.errstate(all="ignore"):  # infinities and NaN propagate without comment
        for c, t, f in meetings(problem.axes):
            if problem.wanted is Operand.COARSE:
                coarse[c] += fine[f] @ weights[t].swapaxes(-1, -2)
            elif problem.wanted is Operand.FINE:
                fine[f] += coarse[c] @ weights[t]
            else:
                weights[t] += coarse[c].swapaxes(-1, -2) @ fine[f]
        if bias is not None:
            wanted = views[problem.wanted]
            wanted += bias.astype(np.float64).reshape(problem.groups, 1, -1)
    return result if problem.activation is None else problem.activation(result)
