"""A smaller problem whose results are FINE's, each point of it at one of the fine ones.

Where windows do not overlap, FINE is one product: every tap of every written channel is a channel
of a point that is read.  Where they do, but are dilated by a divisor of the stride, FINE is a
denser problem without it.  All other points are blank, the bias alone; of a stride that is longer
than the window, most are.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from tconv.plan.flat import meets_its_own
from tconv.plan.thin import thin_axis
from tconv.problem import Axis, Operand, Problem, numpy_dtype, window

MOST_TAPS = 1 << 10  # of an axis that are channels
LAYOUTS = "n gf x", "n x gf"  # of results whose lines follow one another


@dataclass(frozen=True, slots=True)
class SpreadAxis:
    """An axis of the smaller problem, and where its points go.

    Cell ``c`` and tap ``t`` go to ``step * c + offsets[t]``, if that is on the axis.  In the
    smaller result they are ``cell_points * c + t - first``; of taps that are channels, point ``c``.
    """

    axis: Axis
    size: int
    cells: int
    step: int
    offsets: tuple[int, ...]
    first: int = 0

    def range_of(self, tap: int) -> range:
        """Return the cells of which a tap is on the axis."""
        offset = self.offsets[tap]
        low = max(0, -(offset // self.step))
        high = min(self.cells, (self.size - 1 - offset) // self.step + 1)
        return range(low, max(low, high))


@dataclass(frozen=True, slots=True)
class Smaller:
    """A problem that spreads to another, and where its results go."""

    problem: Problem
    axes: tuple[SpreadAxis, ...]
    taps: tuple[int, ...]  # that are channels, of each axis; none where weights are the same

    @property
    def blanks(self) -> bool:
        """Whether there are points that nothing meets."""
        return any(
            sum(len(axis.range_of(tap)) for tap in range(len(axis.offsets))) < axis.size
            for axis in self.axes
        )


@lru_cache(maxsize=64)
def smaller_problem(problem: Problem) -> Smaller | None:
    """Return the problem that spreads to this one, if there is one.

    >>> axis = Axis(fine_size=17, coarse_size=4, taps=2, stride=5, dilation=1, pad_begin=0)
    >>> product_axis(axis)
    SpreadAxis(axis=Axis(fine_size=4, coarse_size=4, taps=1, stride=1, dilation=1, pad_begin=0), \
size=17, cells=4, step=5, offsets=(0, 1), first=0)
    """
    if problem.wanted is not Operand.FINE or all(map(meets_its_own, problem.axes)):
        return None
    if str(problem.fine_layout) not in LAYOUTS:
        return None
    found = smaller_of(problem, products=_one_product(problem))
    return None if found.problem.axes == problem.axes else found


def _one_product(problem: Problem) -> bool:
    """Tell whether taps are channels: taps of several groups do not follow one another."""
    apart = all(product_axis(axis) is not None for axis in problem.axes)
    return apart and (problem.groups == 1 or all(axis.taps == 1 for axis in problem.axes))


def smaller_of(problem: Problem, *, products: bool) -> Smaller:
    """Return what spreads to a problem: a product, or a denser one, which may be the same."""
    found = [product_axis(axis) if products else denser_axis(axis) for axis in problem.axes]
    axes = tuple(axis for axis in found if axis is not None)
    smaller = replace(problem, axes=tuple(each.axis for each in axes))
    if not products:
        return Smaller(smaller, axes, ())
    taps = tuple(axis.taps for axis in problem.axes)
    channels = math.prod(taps) * problem.fine_channels
    return Smaller(replace(smaller, fine_channels=channels), axes, taps)


def product_axis(axis: Axis) -> SpreadAxis | None:
    """Return an axis whose taps are channels; None where windows overlap."""
    stride = axis.stride
    if axis.coarse_size == 1:
        stride = window(axis.taps, axis.dilation)
    if axis.taps > min(stride, MOST_TAPS):
        return None
    offsets = tuple(axis.dilation * tap - axis.pad_begin for tap in range(axis.taps))
    if len({offset % stride for offset in offsets}) < axis.taps:
        return None
    points = axis.coarse_size
    line = Axis(points, points, taps=1, stride=1, dilation=1, pad_begin=0)
    return SpreadAxis(line, axis.fine_size, points, stride, offsets)


def denser_axis(axis: Axis) -> SpreadAxis:
    """Return an axis of those fine points alone that are met, with the same taps."""
    thin, start, every = thin_axis(axis)
    taps, stride, dilation = thin.taps, thin.stride, thin.dilation
    size, cells = axis.fine_size, thin.coarse_size
    alike = SpreadAxis(thin, size, thin.fine_size, every, (start,))
    if cells == 1 or taps >= stride or window(taps, dilation) > stride:
        return alike
    first, end = (_points_before(thin, thin.pad_begin + limit) for limit in (0, thin.fine_size))
    if first == end:
        return alike
    dense = Axis(end - first, cells, taps, taps, 1, first)
    offsets = tuple(start + every * (dilation * tap - thin.pad_begin) for tap in range(taps))
    return SpreadAxis(dense, size, cells, every * stride, offsets, first)


def _points_before(axis: Axis, limit: int) -> int:
    """Return how many meetings of coarse points and taps come before a point of the padding."""
    cell, rest = divmod(limit, axis.stride)
    inside = min(axis.taps, -(-rest // axis.dilation))
    return min(axis.taps * cell + inside, axis.taps * axis.coarse_size)


def bytes_of(problem: Problem) -> int:
    """Return the bytes of the result of an image."""
    points = math.prod(axis.fine_size for axis in problem.axes)
    channels = problem.groups * problem.fine_channels
    return points * channels * numpy_dtype(problem.dtype).itemsize
