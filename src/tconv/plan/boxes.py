"""Boxes of a block: points that read only inside the picture need not be packed.

What others read is packed with zeros around it.  They lie at the picture's borders, so a block of
many points is split in three along each axis: before, inside and behind.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from tconv.plan.phases import AxisPhases
from tconv.plan.tiles import whole_tiles

MOST_AXES = 3  # spatial ones: more make too many boxes
PACKED, FETCHED = 1.3, 0.45  # multiplied vectors in the time of an element that is packed, or not
BEGIN = 1200  # likewise, of a box and a phase that begin
CLEARLY = 0.96
Counts = Sequence[tuple[int, int]]  # of points, and how many boxes have so many

WHOLE = 1 << 40  # further than any point: an axis that is not split


def inside(axis: AxisPhases) -> tuple[int, int]:
    """Return the points of an axis that read nothing outside, from and to.

    >>> from tconv.plan.phases import axis_phases
    >>> from tconv.problem import Axis, Operand
    >>> inside(axis_phases(Axis(8, 8, 3, stride=1, dilation=1, pad_begin=1), Operand.COARSE))
    (1, 7)
    """
    low = -(axis.low // axis.step_in)
    high = (axis.size_in - axis.low - axis.span) // axis.step_in + 1
    return low, max(low, high)


def within(axis: AxisPhases) -> bool:
    """Tell whether no point of an axis reads outside."""
    low, high = inside(axis)
    return low <= axis.begin and high >= axis.end


def choose_boxes(
    axes: Sequence[AxisPhases], block: Sequence[int], sizes: tuple[int, float, int]
) -> int:
    """Return into how many boxes blocks are split where they can be read in place; 1 is whole.

    The sizes are the channels that are read, the vectors of those that are written, and the rows
    of a tile.  The first of all axes is the batch, which has no borders.
    """
    depth, vectors, rows = sizes
    images, *spatial = block
    if len(spatial) > MOST_AXES:
        return 1
    taps = math.prod(sum(map(len, axis.taps)) for axis in axes)
    phases = math.prod(len(axis.ranges) for axis in axes[:-1])
    cuts = [_cuts(axis, length) for axis, length in zip(axes[1:], spatial, strict=True)]
    points = math.prod(axis.end - axis.begin for axis in axes[1:])
    inner = [[(cut[1], times) for cut, times in axis if cut[1]] for axis in cuts]
    if 3 * math.prod(sum(map(math.prod, axis)) for axis in inner) < 2 * points:
        return 1  # most points lie at a border
    # A box that begins takes its time, and ends with a tile that is not full, as a rule.
    begin = BEGIN * phases / depth + _unfilled(rows) * taps * vectors

    def read(counts: Sequence[Counts]) -> int:
        return images * math.prod(map(_read, axes[1:], counts))

    def time(counts: Sequence[Counts], in_place: int) -> float:
        """Take boxes of so many points along each axis; so many points are read in place."""
        moved = PACKED * read(counts) - (PACKED - FETCHED) * in_place
        begun = math.prod(sum(times for _, times in axis) for axis in counts)
        return images * points * taps * vectors + moved + begin * begun

    whole = time([[(sum(cut), times) for cut, times in axis] for axis in cuts], 0)
    boxes = [[(n, times) for cut, times in axis for n in cut if n] for axis in cuts]
    return 3 ** len(spatial) if time(boxes, read(inner)) < CLEARLY * whole else 1


def _unfilled(rows: int) -> float:
    """Return how many rows of a last tile there are no points for, in the mean."""
    return sum(whole_tiles(count, rows) - count for count in range(rows)) / rows


def _read(axis: AxisPhases, counts: Counts) -> int:
    """Return how many points of an axis are read by boxes of so many each."""
    return sum(times * (axis.step_in * (count - 1) + axis.span) for count, times in counts)


def _cuts(axis: AxisPhases, length: int) -> list[tuple[tuple[int, int, int], int]]:
    """Return how many points of a block lie before, inside and behind, and of how many blocks.

    >>> from tconv.plan.phases import axis_phases
    >>> from tconv.problem import Axis, Operand
    >>> _cuts(axis_phases(Axis(100, 100, 3, 1, 1, 1), Operand.COARSE), 8)
    [((1, 7, 0), 1), ((0, 3, 1), 1), ((0, 8, 0), 11)]
    """
    low, high = inside(axis)
    count = -(-(axis.end - axis.begin) // length)

    def cut(block: int) -> tuple[int, int, int]:
        start = axis.begin + block * length
        stop = min(start + length, axis.end)
        first = min(max(low, start), stop)
        last = min(max(high, first), stop)
        return first - start, last - first, stop - last

    # Blocks without a border are like their neighbours without one.
    ends = {0, count - 1, *((place - axis.begin) // length for place in (low, high))}
    some = sorted(block for block in ends if 0 <= block < count)
    alike = [(cut(left + 1), right - left - 1) for left, right in pairwise(some)]
    return [(cut(block), 1) for block in some] + [each for each in alike if each[1]]
