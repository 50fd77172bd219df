"""Axes as correlations see them: taps by the residue of the stride that they read."""

from dataclasses import dataclass

from tconv.plan.phases import len_of_phases
from tconv.problem import Axis


@dataclass(frozen=True, slots=True)
class AxisShifts:
    """One axis as a correlation sees it."""

    fine_size: int
    coarse_size: int
    stride: int
    low: int  # the fine point that the first tap of coarse point 0 reads
    residues: tuple[int, ...]
    shifts: tuple[tuple[int, int], ...]  # of each tap: which residue, and how much further
    span: int  # one more than the largest shift
    scale: int = 1  # packed points from one coarse point's to the next one's

    def extent(self, count: int) -> int:
        """Return how many packed points, of one residue, so many coarse points reach over."""
        return (count - 1) * self.scale + self.span


def axis_shifts(axis: Axis, *, all_residues: bool = False) -> AxisShifts:
    """Split the taps of one axis by residue; ``all_residues`` have a place, read or not.

    >>> axis = Axis(fine_size=8, coarse_size=4, taps=4, stride=2, dilation=1, pad_begin=1)
    >>> axis_shifts(axis).shifts
    ((0, 0), (1, 0), (0, 1), (1, 1))
    """
    stride = len_of_phases(axis)
    reads = [divmod(axis.dilation * tap, stride) for tap in range(axis.taps)]
    residues = tuple(sorted({residue for _, residue in reads}))
    if all_residues:
        residues = tuple(range(stride))
    index = {residue: place for place, residue in enumerate(residues)}
    shifts = tuple((index[residue], quotient) for quotient, residue in reads)
    span = 1 + max(quotient for quotient, _ in reads)
    return AxisShifts(
        axis.fine_size, axis.coarse_size, stride, -axis.pad_begin, residues, shifts, span
    )


def axis_line(axis: Axis) -> AxisShifts:
    """Return an axis whose fine points are packed as they lie, read or not.

    >>> axis = Axis(fine_size=8, coarse_size=4, taps=4, stride=2, dilation=1, pad_begin=1)
    >>> axis_line(axis).shifts, axis_line(axis).extent(4)
    (((0, 0), (0, 1), (0, 2), (0, 3)), 10)
    """
    stride = len_of_phases(axis)
    shifts = tuple((0, axis.dilation * tap) for tap in range(axis.taps))
    span = axis.dilation * (axis.taps - 1) + 1
    return AxisShifts(
        axis.fine_size, axis.coarse_size, stride, -axis.pad_begin, (0,), shifts, span, stride
    )
