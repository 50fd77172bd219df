"""Boxes of a block: points that read only inside the picture need not be packed.

What others read is packed with zeros around it.  They lie at the picture's borders, so a block of
many points is split in three along each axis: before, inside and behind.
"""

import math
from collections.abc import Sequence
from itertools import product

from tconv.plan.phases import AxisPhases
from tconv.plan.tiles import whole_tiles

MOST_AXES = 3  # spatial ones: more make too many boxes
PACKED, FETCHED = 1.3, 0.45  # multiplied vectors in the time of an element that is packed, or not
BEGIN = 1200  # likewise, of a box and a phase that begin
CLEARLY = 0.96
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
    """Return into how many boxes a block is split where it can be read in place; 1 is whole.

    The sizes are the channels that are read, the vectors of those that are written, and the rows
    of a tile.  The first of all axes is the batch, which has no borders.
    """
    depth, vectors, rows = sizes
    images, *spatial = block
    if len(spatial) > MOST_AXES:
        return 1
    taps = math.prod(sum(map(len, axis.taps)) for axis in axes)
    phases = math.prod(len(axis.ranges) for axis in axes[:-1])

    def read(counts: Sequence[int]) -> int:
        extents = (a.step_in * (n - 1) + a.span for a, n in zip(axes[1:], counts, strict=True))
        return images * math.prod(extents)

    def time(counts: Sequence[int], *, packed: bool) -> float:
        multiplied = whole_tiles(images * math.prod(counts), rows) * taps * vectors
        moved = read(counts) * (PACKED if packed else FETCHED)
        return multiplied + moved + BEGIN * phases / depth

    whole = time(spatial, packed=True)
    if (PACKED - FETCHED) * read(spatial) < (1 - CLEARLY) * whole:
        return 1  # however little is packed
    cuts = [_cut(axis, length) for axis, length in zip(axes[1:], spatial, strict=True)]
    if 3 * math.prod(cut[1] for cut in cuts) < 2 * math.prod(spatial):
        return 1  # most points lie at a border
    boxes = [box for box in product(*map(enumerate, cuts)) if all(count for _, count in box)]
    split = sum(
        time([count for _, count in box], packed=any(place != 1 for place, _ in box))
        for box in boxes
    )
    return 3 ** len(spatial) if len(boxes) > 1 and split < CLEARLY * whole else 1


def _cut(axis: AxisPhases, length: int) -> tuple[int, int, int]:
    """Return how many points of the first block lie before, inside and behind."""
    start, stop = axis.begin, min(axis.begin + length, axis.end)
    low, high = inside(axis)
    low = min(max(low, start), stop)
    high = min(max(high, low), stop)
    return low - start, high - low, stop - high
