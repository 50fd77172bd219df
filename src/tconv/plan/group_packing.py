"""Whether depthwise channels that lie side by side are packed before they are summed.

In place nothing is copied and taps outside the picture are left out.  But points may lie so far
apart that few of them stay in the first cache, which finds them by the last digits of their
addresses; and points at the ends of lines, which meet other taps than their neighbours, are
summed a few at a time.  Packed, points lie close together with zeros around the picture, so that
all of them are alike; sums are written where they belong.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from tconv.plan.boxes import inside
from tconv.plan.extent import multiplied
from tconv.plan.group_blocks import choose_block
from tconv.plan.machine import Machine
from tconv.plan.missed import met_share
from tconv.plan.phases import AxisPhases, batch_phases
from tconv.plan.stretches import ROWS, taps_apart
from tconv.problem import Problem, accumulator, numpy_dtype

STRAIGHT_POINT = 256  # bytes of one packed point: whole cache lines, as many as pay
LINE, SETS = 64, 64  # of the first cache: bytes of a line; lines a page, which sets tell apart

# Cycles of a vector, fitted to 782 timed layers.  In place:
IN_PLACE = 3.3  # of sums
MET = 0.73  # of a product
WIDENED = 0.2  # more, where elements are widened for each
CROWDED = 0.82  # times more, for each time that a tile's lines are twice as many as their sets take
EDGE = 1.4  # more, at the ends of lines
FAR = 4.0  # of data from memory
# Packed:
SUMMED = 2.2  # of sums
PRODUCT = 0.7  # of a product
STEPPED = 0.15  # more, where points share fewer taps
PACKED = 4.2  # of what is packed, zeros too
FAR_PACKED = 7.0  # more, from memory

CROWD = 4.4  # lines that a set takes before they push each other out
MOST_CROWDED = 3.0  # times twice as many
SURE = 1.12  # times as long in place, by estimate


def straight_lines(groups: int, lanes: int, last: AxisPhases, block: int) -> bool:
    """Tell whether sums of packed points can be written where they belong.

    Groups must fill whole vectors, and all lines, which have so many points of the last axis, be
    as long as a tile in every phase: fast kernels sum no fewer points.
    """
    starts = range(last.begin, last.end, block)
    others = {*starts[:2], *starts[-2:]}  # between them all are alike
    return groups % lanes == 0 and all(
        min(start + block, high) - max(start, low) >= ROWS
        for start in others
        for low, high in last.ranges
    )


def packed_first(problem: Problem, axes: Sequence[AxisPhases], machine: Machine) -> bool:
    """Tell whether packed points are summed sooner than points where they lie, by estimate.

    Of one image, so that none is summed otherwise among others.
    """
    lanes, spatial = machine.lanes(problem.dtype), axes[1:]
    vector = machine.vector_bytes
    panels = -(-problem.groups // lanes)
    chunks = -(-panels * vector // STRAIGHT_POINT)
    points = (-(-panels // chunks) * vector,) * 2
    block = choose_block([batch_phases(1), *spatial], points, vector, chunks, machine)[1:]
    last = spatial[-1]
    if not straight_lines(problem.groups, lanes, last, block[-1]):
        return False
    written = math.prod(axis.size_out for axis in spatial)
    every = multiplied(spatial)
    met = every * math.prod(map(met_share, spatial))
    low, high = inside(last)
    whole = max(0, min(high, last.end) - max(low, last.begin)) / max(1, last.end - last.begin)
    far = replace(problem, batch=1).bytes() > machine.l3 // 2
    sizes = [-(-(axis.end - axis.begin) // n) for axis, n in zip(spatial, block, strict=True)]
    extents = [a.step_in * (n - 1) + a.span for a, n in zip(spatial, block, strict=True)]
    packed = math.prod(sizes) * math.prod(extents)
    crowded = 1 + CROWDED * _crowd(problem, spatial)
    widened = WIDENED * (accumulator(problem.dtype) != numpy_dtype(problem.dtype))
    in_place = IN_PLACE * written + met * (MET * crowded + widened + EDGE * (1 - whole))
    in_place += FAR * far * math.prod(axis.size_in for axis in spatial)
    product = PRODUCT + STEPPED * (last.step_in > 1)
    both = SUMMED * written + product * every + (PACKED + FAR_PACKED * far) * packed
    return in_place > SURE * both


def _crowd(problem: Problem, spatial: Sequence[AxisPhases]) -> float:
    """Return how full the sets of the first cache are, as a power of two, at most a few.

    They take lines by their place in a page: of points whole pages apart, all lines of a tile
    belong to one set.
    """
    *outer, last = spatial
    apart, taps = taps_apart(last) or 1, max(map(len, last.taps))
    between = apart * (taps - 1)
    points = ROWS * apart if apart > last.step_in else (ROWS - 1) * last.step_in + 1
    rows = math.prod(max(map(len, axis.taps)) for axis in outer)
    pitch = problem.groups * numpy_dtype(problem.dtype).itemsize
    sets = SETS // max(1, math.gcd(pitch, SETS * LINE) // LINE)
    return min(MOST_CROWDED, max(0.0, math.log2(rows * (points + between) / (CROWD * sets))))
