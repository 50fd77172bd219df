"""How much of an image blocks and phases take: what estimates of every algorithm count."""

import math
from collections.abc import Callable, Sequence

from tconv.plan.phases import EVERY, AxisPhases, needed_residues
from tconv.problem import Problem, accumulator, numpy_dtype


def multiplied(axes: Sequence[AxisPhases]) -> int:
    """Return how many taps are multiplied for all points of an image, zeros too."""
    return over_phases(axes, lambda taps, points: taps * points)


def channels_last(problem: Problem) -> bool:
    """Tell whether channels lie side by side in what is written."""
    return not str(problem.layout(problem.wanted)).endswith("x")


def widened(problem: Problem) -> bool:
    """Tell whether elements are not summed in the type that they have."""
    return accumulator(problem.dtype) != numpy_dtype(problem.dtype)


def over_phases(axes: Sequence[AxisPhases], of: Callable[[int, int], int]) -> int:
    """Return the sum over all phases of something that taps and points of each axis multiply to."""
    return math.prod(
        sum(
            of(len(taps), high - low)
            for (low, high), taps in zip(axis.ranges, axis.taps, strict=True)
            if high > low
        )
        for axis in axes
    )


def blocks_of(axes: Sequence[AxisPhases], block: Sequence[int]) -> int:
    """Return into how many blocks an image is split."""
    return math.prod(
        -(-(axis.end - axis.begin) // size) for axis, size in zip(axes, block[1:], strict=True)
    )


def packed_points(axes: Sequence[AxisPhases], block: Sequence[int], *, last: bool = False) -> float:
    """Return how many points all blocks of an image pack, those twice that two of them read.

    Lines that no tap reads are left out, and points of the ``last`` of these axes if they are too.
    """
    points = math.prod(
        -(-(axis.end - axis.begin) // size) * (axis.step_in * (size - 1) + axis.span)
        for axis, size in zip(axes, block[1:], strict=True)
    )
    return points * math.prod(map(needed_share, axes if last else axes[:-1]))


def needed_share(axis: AxisPhases) -> float:
    """Return which part of an axis taps read, by residues of its step."""
    bits = needed_residues(axis)
    return 1 if bits == EVERY else bits.bit_count() / axis.step_in
