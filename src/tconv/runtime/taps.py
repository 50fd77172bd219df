"""Run one matrix product a tap with NumPy, on any machine and without a compiler."""

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
import numpy.typing as npt

from tconv.plan import TapProducts
from tconv.problem import Operand, Reach

Array = npt.NDArray[np.generic]
Floats = npt.NDArray[np.floating]

# Canonical orders: a run of points times one channel axis is then one matrix.
ORDERS = {Operand.COARSE: "ngxc", Operand.FINE: "ngxf", Operand.WEIGHTS: "xgcf"}

Slices = tuple[slice, ...]


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
