"""Fine points that no window reads are left out before anything is planned.

Where stride and dilation have a common divisor, windows meet one of so many fine points and skip
the others: a 1x1 window of stride 2 one of two, and so does any window of stride 2 and dilation 2.
COARSE then is a smaller problem with an ordinary window, and its fine array is a view.
"""

import math
from dataclasses import dataclass, replace

from tconv.problem import Axis, Operand, Problem


@dataclass(frozen=True, slots=True)
class Thin:
    """A problem without the fine points that nothing meets, and which are left of each axis."""

    problem: Problem
    starts: tuple[int, ...]
    steps: tuple[int, ...]

    def strides(self, strides: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        """Return the strides of the view, and how far from the array it begins."""
        before = self.problem.fine_layout.words.index("x")
        found, begin = list(strides), 0
        for place, (start, step) in enumerate(zip(self.starts, self.steps, strict=True), before):
            begin += start * strides[place]
            found[place] *= step
        return tuple(found), begin

    @property
    def view(self) -> tuple[slice, ...]:
        """What is taken of the fine array."""
        before = self.problem.fine_layout.words.index("x")
        taken = zip(self.starts, self.steps, strict=True)
        return (slice(None),) * before + tuple(slice(start, None, step) for start, step in taken)


def thinned(problem: Problem) -> Thin | None:
    """Return the problem without fine points that nothing meets, if there are such on any axis.

    FINE writes them all, and WEIGHTS packs no others in any case.

    >>> axis = Axis(fine_size=9, coarse_size=5, taps=1, stride=2, dilation=1, pad_begin=0)
    >>> thin_axis(axis)
    (Axis(fine_size=5, coarse_size=5, taps=1, stride=1, dilation=1, pad_begin=0), 0, 2)
    """
    if problem.wanted is not Operand.COARSE:
        return None
    axes, starts, steps = zip(*map(thin_axis, problem.axes), strict=True)
    if max(steps) == 1:
        return None
    return Thin(replace(problem, axes=axes), starts, steps)


def thin_axis(axis: Axis) -> tuple[Axis, int, int]:
    """Return an axis of the fine points that are met, the first of them and the step."""
    # A single tap has no neighbour, a single point neither.
    step = math.gcd(
        axis.stride if axis.coarse_size > 1 else 0, axis.dilation if axis.taps > 1 else 0
    )
    start = -axis.pad_begin % step if step else 0
    if step < 2 or start >= axis.fine_size:
        return axis, 0, 1
    return (
        Axis(
            fine_size=-(-(axis.fine_size - start) // step),
            coarse_size=axis.coarse_size,
            taps=axis.taps,
            stride=max(1, axis.stride // step),
            dilation=max(1, axis.dilation // step),
            pad_begin=(axis.pad_begin + start) // step,
        ),
        start,
        step,
    )
