"""The canonical question: every operator of every document becomes one of these."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tconv.errors import InternalError
from tconv.problem.activation import Activation
from tconv.problem.axis import Axis
from tconv.problem.dtypes import DTYPES, numpy_dtype
from tconv.problem.layout import Layout


class Operand(Enum):
    """One of the three arrays that the relation ties together."""

    COARSE = "coarse"
    FINE = "fine"
    WEIGHTS = "weights"

    def __repr__(self) -> str:
        """Print as it is written in code."""
        return f"Operand.{self.name}"


@dataclass(frozen=True, slots=True)
class Problem:
    """Which array is wanted, given the other two, in which sizes and layouts.

    >>> axis = Axis(fine_size=8, coarse_size=4, taps=4, stride=2, dilation=1, pad_begin=1)
    >>> problem = Problem(Operand.FINE, batch=1, groups=1, coarse_channels=16, fine_channels=8,
    ...                   axes=(axis, axis), dtype="float32", coarse_layout=Layout("n gc x"),
    ...                   fine_layout=Layout("n gf x"), weights_layout=Layout("gc f x"))
    >>> problem.shape(Operand.FINE)
    (1, 8, 8, 8)
    >>> print(problem)
    FINE (1, 8, 8, 8) from COARSE (1, 16, 4, 4) and WEIGHTS (16, 8, 4, 4)   float32
    """

    wanted: Operand
    batch: int
    groups: int
    coarse_channels: int  # of one group
    fine_channels: int  # of one group
    axes: tuple[Axis, ...]
    dtype: str
    coarse_layout: Layout
    fine_layout: Layout
    weights_layout: Layout
    bias: bool = False
    activation: Activation | None = None

    def __post_init__(self) -> None:
        """Catch a dialect that lets impossible numbers through."""
        numbers = [self.groups, self.coarse_channels, self.fine_channels]
        for axis in self.axes:
            numbers += [axis.fine_size, axis.coarse_size, axis.taps, axis.stride, axis.dilation]
        if min(numbers) < 1 or self.batch < 0 or not self.axes or self.dtype not in DTYPES:
            raise InternalError(
                "tconv",
                "a problem was built from impossible numbers.",
                got={"problem": repr(self)},
                rule="every size is at least 1, the batch at least 0",
                fix="please report this call",
            )

    @property
    def sizes(self) -> Mapping[str, int]:
        """The size of each layout letter but ``x``."""
        return {
            "n": self.batch,
            "g": self.groups,
            "c": self.coarse_channels,
            "f": self.fine_channels,
        }

    def layout(self, operand: Operand) -> Layout:
        """Return how an operand lies in memory."""
        if operand is Operand.COARSE:
            return self.coarse_layout
        return self.fine_layout if operand is Operand.FINE else self.weights_layout

    def spatial(self, operand: Operand) -> tuple[int, ...]:
        """Return the spatial sizes of an operand."""
        if operand is Operand.COARSE:
            return tuple(axis.coarse_size for axis in self.axes)
        if operand is Operand.FINE:
            return tuple(axis.fine_size for axis in self.axes)
        return tuple(axis.taps for axis in self.axes)

    def image_axis(self, operand: Operand) -> int:
        """Return which axis of an operand counts images."""
        words = self.layout(operand).words
        before = words[: words.index("n")]
        return sum(len(self.axes) if word == "x" else 1 for word in before)

    def shape(self, operand: Operand) -> tuple[int, ...]:
        """Return the shape of an operand in memory."""
        return self.layout(operand).shape(self.sizes, self.spatial(operand))

    def path(self, operand: Operand, order: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return ``(shape, permutation)`` from an operand's memory to ``order``."""
        return self.layout(operand).path(order, self.sizes, self.spatial(operand))

    @property
    def given(self) -> tuple[Operand, Operand]:
        """The two operands that are not wanted."""
        first, second = (operand for operand in Operand if operand is not self.wanted)
        return first, second

    def flops(self) -> int:
        """Return the multiplications and additions that the definition needs."""
        channels = self.groups * self.coarse_channels * self.fine_channels
        return 2 * self.batch * channels * math.prod(axis.meetings() for axis in self.axes)

    def bytes(self) -> int:
        """Return the size of all three arrays together."""
        item = numpy_dtype(self.dtype).itemsize
        return item * sum(math.prod(self.shape(operand)) for operand in Operand)

    def __str__(self) -> str:
        """Print the question in one line."""
        first, second = self.given
        return (
            f"{self.wanted.name} {self.shape(self.wanted)} from {first.name} {self.shape(first)}"
            f" and {second.name} {self.shape(second)}   {self.dtype}"
        )
