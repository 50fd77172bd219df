"""Run one matrix product a tap with NumPy, on any machine and without a compiler."""

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from tconv.plan import TapProducts, tap_products
from tconv.problem import Operand, Problem, Reach, accumulator

Array = npt.NDArray[Any]
Floats = npt.NDArray[Any]

# Canonical orders: a run of points times one channel axis is then one matrix.
ORDERS = {Operand.COARSE: "ngxc", Operand.FINE: "ngxf", Operand.WEIGHTS: "xgcf"}

Slices = tuple[slice, ...]


class TapRunner:
    """Any problem, by one matrix product a tap."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def pack(self, second: Array) -> Floats:
        """Return a private copy of the second given operand in canonical order."""
        return self._canonical(self.problem.given[1], second)

    def run(self, first: Array, second: Array, bias: Array | None, out: Array) -> None:
        """Compute into ``out``, which is touched last."""
        problem = self.problem
        wanted = problem.wanted
        if wanted is Operand.WEIGHTS:
            second = self.pack(second)
        shape, permutation = problem.path(wanted, ORDERS[wanted])
        canonical = tuple(shape[place] for place in permutation)
        left = self._canonical(problem.given[0], first)
        sums = run_taps(tap_products(problem), left, second, canonical)
        with np.errstate(all="ignore"):  # rounding to infinity is what the type says
            if bias is not None:
                channels = (problem.groups, *(1,) * len(problem.axes), -1)
                sums += bias.astype(sums.dtype).reshape(channels)
            if problem.activation is not None:
                sums = problem.activation(sums)
            np.copyto(out.reshape(shape).transpose(permutation), sums, casting="unsafe")

    def _canonical(self, operand: Operand, array: Array) -> Floats:
        shape, permutation = self.problem.path(operand, ORDERS[operand])
        view = array.reshape(shape).transpose(permutation)
        return np.array(view, dtype=accumulator(self.problem.dtype), order="C", copy=True)


def run_taps(tables: TapProducts, first: Floats, second: Floats, shape: tuple[int, ...]) -> Floats:
    """Return the wanted operand, of the given canonical shape, in the operands' type.

    ``first`` and ``second`` are the given operands (in the order COARSE, FINE, WEIGHTS) in
    canonical order.  Batch and group stay apart in every product, so that an image's bits
    do not depend on its neighbours in the batch.
    """
    result = np.zeros(shape, first.dtype)
    with np.errstate(all="ignore"):  # infinities and NaN propagate without comment
        for tap, coarse, fine in _met_taps(tables):
            if tables.wanted is Operand.COARSE:
                result[coarse] += _product(second[tap].swapaxes(-1, -2), first[fine])
            elif tables.wanted is Operand.FINE:
                result[fine] += _product(second[tap], first[coarse])
            else:
                left, right = _matrix(first[coarse]), _matrix(second[fine])
                result[tap] = (left.swapaxes(-1, -2) @ right).sum(axis=0)
    return result


def _met_taps(tables: TapProducts) -> Iterator[tuple[tuple[int, ...], Slices, Slices]]:
    """Yield every tap that meets any point, with the coarse and fine points it meets."""
    everything = (slice(None), slice(None))
    for tap in product(*(range(len(axis)) for axis in tables.reaches)):
        reaches = [axis[t] for axis, t in zip(tables.reaches, tap, strict=True)]
        if all(reach.count for reach in reaches):
            coarse = tuple(_run(reach.coarse_start, 1, reach) for reach in reaches)
            fine = tuple(
                _run(reach.fine_start, stride, reach)
                for stride, reach in zip(tables.strides, reaches, strict=True)
            )
            yield tap, everything + coarse, everything + fine


def _run(start: int, step: int, reach: Reach) -> slice:
    return slice(start, start + step * (reach.count - 1) + 1, step)


def _matrix(points: Floats) -> Floats:
    """Lay a block of points out as one row each."""
    batch, groups, *spatial, channels = points.shape
    return points.reshape(batch, groups, math.prod(spatial), channels)


def _product(weights: Floats, points: Floats) -> Floats:
    """Multiply every point's channels by one tap's weights."""
    rows: Floats = _matrix(points) @ weights
    return rows.reshape(*points.shape[:-1], weights.shape[-1])
