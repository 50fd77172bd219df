"""Axes split by the stride: what a gather reads and writes along each.

On one axis a point ``q`` of a phase writes ``step_out * q + shift_out + phase`` and reads
``step_in * q + offset`` for each tap of the phase.  For COARSE there is one phase, the
points are the coarse ones and step_in is the stride.  For FINE the fine points with one
value of ``(point + pad_begin) % stride`` are a phase, and step_out is the stride.
"""

from dataclasses import dataclass, field
from functools import lru_cache

from tconv.problem import Axis, Operand, Problem, window

EVERY, MOST_BITS = -1, 62  # residues of a step

Lists = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class AxisPhases:
    """One axis as a gather sees it."""

    size_in: int
    size_out: int
    step_in: int
    step_out: int
    shift_out: int
    ranges: tuple[tuple[int, int], ...]  # points of each phase: from, to
    taps: tuple[tuple[int, ...], ...]  # of each phase, by rising offset
    offsets: tuple[tuple[int, ...], ...]  # what each of those taps adds to the place read

    # Found once: tables ask for them once a tap.
    low: int = field(init=False)  # the smallest offset of any tap
    span: int = field(init=False)  # how many neighbours one point reads among
    begin: int = field(init=False)  # the first point of any phase
    end: int = field(init=False)  # the point behind the last of any phase

    def __post_init__(self) -> None:
        """Find the limits of taps and points."""
        offsets = [offset for phase in self.offsets for offset in phase] or [0]
        limits = {
            "low": min(offsets),
            "span": max(offsets) - min(offsets) + 1,
            "begin": min(low for low, _ in self.ranges),
            "end": max(high for _, high in self.ranges),
        }
        for name, value in limits.items():
            object.__setattr__(self, name, value)


@lru_cache(maxsize=16)  # estimates ask for a single image's again and again
def batch_phases(batch: int) -> AxisPhases:
    """Return the batch as one more axis: blocks of tiny images then hold several."""
    return AxisPhases(batch, batch, 1, 1, 0, ((0, batch),), ((0,),), ((0,),))


def all_phases(problem: Problem) -> list[AxisPhases]:
    """Return the batch and all spatial axes as gathers see them."""
    axes = (axis_phases(axis, problem.wanted) for axis in problem.axes)
    return [batch_phases(problem.batch), *axes]


def even_phases(problem: Problem) -> list[AxisPhases]:
    """Return the batch and all spatial axes with phases that begin where the result begins.

    All of them have the same points, but a last one: where the last point's are not all there.
    """
    axes = (aligned(axis_phases(axis, problem.wanted)) for axis in problem.axes)
    return [batch_phases(problem.batch), *axes]


def len_of_phases(axis: Axis) -> int:
    """Return into how many phases a scatter along this axis splits.

    A single coarse point is multiplied by no stride that matters: taken as long as the
    window, every tap is a phase of its own and no zeros are multiplied.
    """
    return axis.stride if axis.coarse_size > 1 else window(axis.taps, axis.dilation)


@lru_cache(maxsize=256)  # asked for by every algorithm that is weighed
def axis_phases(axis: Axis, wanted: Operand) -> AxisPhases:
    """Split one axis into phases.

    >>> axis = Axis(fine_size=8, coarse_size=4, taps=4, stride=2, dilation=1, pad_begin=1)
    >>> split = axis_phases(axis, Operand.FINE)
    >>> split.taps, split.offsets
    (((2, 0), (3, 1)), ((-1, 0), (-1, 0)))
    """
    stride = len_of_phases(axis)
    if wanted is not Operand.FINE:
        # Of weights, those that meet nothing are wanted too.
        taps = tuple(meeting_taps(axis) if wanted is Operand.COARSE else range(axis.taps))
        offsets = tuple(axis.dilation * tap - axis.pad_begin for tap in taps)
        return AxisPhases(
            axis.fine_size, axis.coarse_size, stride, 1, 0,
            ((0, axis.coarse_size),), (taps,), (offsets,),
        )  # fmt: skip
    taps_of, offsets_of = _phase_taps(meeting_taps(axis), axis.dilation, stride)
    ranges = []
    for phase in range(stride):
        low = -((phase - axis.pad_begin) // stride)
        high = (axis.fine_size - 1 + axis.pad_begin - phase) // stride + 1
        ranges.append((low, max(low, high)))
    return AxisPhases(
        axis.coarse_size, axis.fine_size, 1, stride, -axis.pad_begin,
        tuple(ranges), taps_of, offsets_of,
    )  # fmt: skip


@lru_cache(maxsize=256)  # windows are met again in other sizes
def _phase_taps(taps: range, dilation: int, stride: int) -> tuple[Lists, Lists]:
    """Return the taps of each phase of a scatter, and what they add to the place read."""
    taps_of: list[list[int]] = [[] for _ in range(stride)]
    for tap in reversed(taps):  # falling taps are rising offsets
        taps_of[dilation * tap % stride].append(tap)
    offsets_of = (
        tuple((phase - dilation * tap) // stride for tap in mine)
        for phase, mine in enumerate(taps_of)
    )
    return tuple(map(tuple, taps_of)), tuple(offsets_of)


def meeting_taps(axis: Axis) -> range:
    """Return the taps between the first and the last that meet anything; one if none does.

    >>> meeting_taps(Axis(fine_size=5, coarse_size=3, taps=100, stride=1, dilation=1, pad_begin=9))
    range(7, 14)
    """
    first = -((axis.stride * (axis.coarse_size - 1) - axis.pad_begin) // axis.dilation)
    last = (axis.fine_size - 1 + axis.pad_begin) // axis.dilation
    return range(max(first, 0), min(last + 1, axis.taps)) or range(1)


@lru_cache(maxsize=256)
def aligned(split: AxisPhases) -> AxisPhases:
    """Return the same axis with its phases counted from the first point written.

    They then have the same points, as long as the picture is, but not always the same taps.

    >>> axis = Axis(fine_size=8, coarse_size=4, taps=4, stride=2, dilation=1, pad_begin=1)
    >>> split = axis_phases(axis, Operand.FINE)
    >>> split.ranges, aligned(split).ranges
    (((1, 5), (0, 4)), ((0, 4), (0, 4)))
    >>> aligned(split).taps, aligned(split).offsets
    (((3, 1), (2, 0)), ((-1, 0), (0, 1)))
    """
    found = {}
    for phase, (low, high) in enumerate(split.ranges):
        carry, place = divmod(phase + split.shift_out, split.step_out)
        offsets = tuple(offset - carry for offset in split.offsets[phase])
        found[place] = (low + carry, high + carry), split.taps[phase], offsets
    ranges, taps, offsets_of = zip(*(found[place] for place in sorted(found)), strict=True)
    sizes = split.size_in, split.size_out, split.step_in, split.step_out
    return AxisPhases(*sizes, 0, ranges, taps, offsets_of)


def needed_residues(axis: AxisPhases) -> int:
    """Return which lines of an axis taps read, as bits of their residues of its step.

    >>> from tconv.problem import Axis, Operand
    >>> [bin(needed_residues(axis_phases(Axis(20, 4, 2, 5, dilation, 0), Operand.COARSE)))
    ...  for dilation in (1, 3)]
    ['0b11', '0b1001']
    """
    found = {(offset - axis.low) % axis.step_in for some in axis.offsets for offset in some}
    if len(found) == axis.step_in or axis.step_in > MOST_BITS:
        return EVERY
    return sum(1 << residue for residue in found)
