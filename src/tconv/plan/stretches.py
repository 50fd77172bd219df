"""Stretches of the last axis: neighbouring points that meet the same taps, all phases together.

Written phase by phase, lines as long as memory is far away are fetched once for each phase;
written stretch by stretch, they are written from one end to the other.
"""

from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from tconv.plan.phases import AxisPhases

ROWS = 4  # neighbouring points that fast kernels sum together
PIECES = {1: (2, 3, 4, 5, 7), 2: (3, 4, 5)}
"""By the taps between two points: how many taps kernels take at once, some of them shared."""

MOST_APART = 3  # taps that kernels take at once where points share none
MOST_TAPS = 25  # of all rows, that kernels unroll
MOST_MEETINGS = 1 << 13  # of all stretches: more are not worth listing


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """A kernel: what is baked into it."""

    taps: int  # that it takes at once
    ratio: int  # how many of them lie between two points; 0 is any
    cut: bool  # whether rows may have several times as many
    spread: bool = False  # whether points that share taps lie apart, further than neighbours do

    def unrolls(self, lines: int) -> bool:
        """Tell whether there is a kernel that unrolls so many rows of taps.

        >>> Kind(3, 1, cut=False).unrolls(3), Kind(3, 1, cut=True).unrolls(3)
        (True, False)
        """
        return not self.cut and self.taps * lines <= MOST_TAPS


ANY = Kind(1, 0, cut=True)  # takes any points with any taps


@dataclass(frozen=True, slots=True, order=True)
class Meeting:
    """What the points of a stretch meet in one phase."""

    offset: int  # of the first tap that is met
    phase: int
    taps: int
    skipped: int  # taps before them


@dataclass(frozen=True, slots=True)
class Stretch:
    """Points from low to high, and what they meet by kernels of one kind after the other."""

    low: int
    high: int
    kinds: tuple[tuple[Kind, tuple[Meeting, ...]], ...]


def find_stretches(axis: AxisPhases) -> tuple[Stretch, ...]:
    """Return all stretches of an axis in order; none if they are too many.

    >>> from tconv.problem import Axis, Operand
    >>> from tconv.plan.phases import axis_phases
    >>> axis = axis_phases(Axis(16, 8, 4, stride=2, dilation=1, pad_begin=1), Operand.FINE)
    >>> [(stretch.low, stretch.high) for stretch in find_stretches(axis)]
    [(0, 1), (1, 8), (8, 9)]
    """
    step = axis.step_in
    borders = {border for both in axis.ranges for border in both}
    for offsets in axis.offsets:
        for offset in offsets:
            borders |= {-(offset // step), -((offset - axis.size_in) // step)}
    cuts = sorted(border for border in borders if axis.begin <= border <= axis.end)
    if len(cuts) * len(axis.ranges) > MOST_MEETINGS:
        return ()
    found = []
    for low, high in pairwise(cuts):
        met = [
            _meeting(axis, phase, low)
            for phase, (first, end) in enumerate(axis.ranges)
            if first <= low < end
        ]
        few = high - low < ROWS
        chosen = sorted((ANY if few else _kind_of(axis, m), m) for m in met)
        kinds = (
            (kind, tuple(m for _, m in some)) for kind, some in groupby(chosen, lambda c: c[0])
        )
        found.append(Stretch(low, high, tuple(kinds)))
    return tuple(found)


def _meeting(axis: AxisPhases, phase: int, point: int) -> Meeting:
    """Return which taps of a phase a point meets; offsets rise, so they are neighbours."""
    offsets, begin = axis.offsets[phase], axis.step_in * point
    skipped = bisect_left(offsets, -begin)
    behind = bisect_left(offsets, axis.size_in - begin)
    if behind <= skipped:
        return Meeting(0, phase, 0, 0)
    return Meeting(offsets[skipped], phase, behind - skipped, skipped)


def _kind_of(axis: AxisPhases, met: Meeting) -> Kind:
    """Return the kernel for a meeting: one that unrolls rows takes these for all of their taps."""
    kind = choose_kind(axis, met.taps)
    return kind if met.taps == len(axis.offsets[met.phase]) else replace(kind, cut=True)


def taps_apart(axis: AxisPhases) -> int:
    """Return how far apart neighbouring taps of any phase read; 0 where none has two."""
    return next((some[1] - some[0] for some in axis.offsets if len(some) > 1), 0)


def choose_kind(axis: AxisPhases, taps: int) -> Kind:
    """Return the kernel for so many taps of a phase: one that reads shared points once.

    >>> from tconv.problem import Axis, Operand
    >>> from tconv.plan.phases import axis_phases
    >>> depthwise = axis_phases(Axis(8, 4, 4, stride=2, dilation=1, pad_begin=1), Operand.FINE)
    >>> choose_kind(depthwise, taps=2)
    Kind(taps=2, ratio=1, cut=False, spread=False)
    """
    if taps < 2:
        return Kind(1, 0, cut=False) if taps else ANY
    step, apart = axis.step_in, taps_apart(axis)
    spread = apart > step and apart % step == 0
    ratio, rest = (1, 0) if spread else divmod(step, apart)
    pieces = [piece for piece in PIECES.get(ratio, ()) if rest == 0 and taps % piece == 0]
    if pieces:
        return Kind(max(pieces), ratio, cut=max(pieces) < taps, spread=spread)
    piece = max(size for size in range(1, MOST_APART + 1) if taps % size == 0)
    return Kind(piece, 0, cut=piece < taps)
