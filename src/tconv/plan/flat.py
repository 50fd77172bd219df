"""Pictures whose points meet one by one are one long line.

A window of one tap that moves by single steps does not see where lines end.  Long lines are packed,
summed and stored by whole vectors; of a picture of 7 by 7 points none would be.
"""

import math
from dataclasses import dataclass, replace

from tconv.problem import Axis, Operand, Problem


@dataclass(frozen=True, slots=True)
class Flat:
    """A problem of one line, and the sizes of the picture that it was."""

    problem: Problem
    sizes: tuple[int, ...]

    @property
    def told(self) -> str:
        """What a plan says of it."""
        sizes = " x ".join(map(str, self.sizes))
        return f"{sizes} points as one line: each meets its own"

    def shape(self, operand: Operand) -> tuple[int, ...]:
        """Return the shape of an operand as one line; the weights have one tap."""
        return self.problem.shape(operand)

    def strides(self, operand: Operand, strides: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return those of an operand as one line; None if it does not lie so."""
        before = self.problem.layout(operand).words.index("x")
        behind = before + len(self.sizes)
        sizes = self.sizes if operand is not Operand.WEIGHTS else (1,) * len(self.sizes)
        # Of an axis with one point the stride tells nothing.
        taken = [
            (size, stride)
            for size, stride in zip(sizes, strides[before:behind], strict=True)
            if size > 1
        ]
        step, length = taken[-1][1] if taken else strides[behind - 1], 1
        for size, stride in reversed(taken):
            if stride != step * length:
                return None
            length *= size
        return (*strides[:before], step, *strides[behind:])


def flattened(problem: Problem) -> Flat | None:
    """Return the problem with one line instead of a picture, if each point meets its own.

    >>> axis = Axis(fine_size=7, coarse_size=7, taps=1, stride=1, dilation=1, pad_begin=0)
    >>> meets_its_own(axis)
    True
    """
    if len(problem.axes) < 2 or not all(map(meets_its_own, problem.axes)):
        return None
    # Where channels lie side by side, WEIGHTS pack every point by itself.
    layouts = problem.coarse_layout, problem.fine_layout
    lines = any(layout.words[-1] == "x" for layout in layouts)
    if problem.wanted is Operand.WEIGHTS and not lines:
        return None
    sizes = problem.spatial(Operand.COARSE)
    points = math.prod(sizes)
    line = Axis(points, points, taps=1, stride=1, dilation=1, pad_begin=0)
    return Flat(replace(problem, axes=(line,)), sizes)


def meets_its_own(axis: Axis) -> bool:
    """Tell whether every coarse point meets the fine point of its own number."""
    alike = axis.fine_size == axis.coarse_size > 0
    return alike and (axis.taps, axis.stride, axis.pad_begin) == (1, 1, 0)
