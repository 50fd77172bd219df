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
from tconv.plan.group_blocks import choose_block
from tconv.plan.machine import Machine
from tconv.plan.missed import met_share
from tconv.plan.phases import AxisPhases, batch_phases
from tconv.plan.stretches import ROWS, taps_apart
from tconv.problem import Problem, accumulator, numpy_dtype

STRAIGHT_POINT = 256  # bytes of one packed point: whole cache lines, as many as pay
LINE, WAYS = 64, 8  # of the first cache: bytes, and lines that share the same digits

# Cycles of a vector, fitted to 782 timed layers.  In place: of one that is summed, of a product,
# more of it where elements are widened each time, where points push each other out of the cache,
# and at the ends of lines; and of one that comes from memory.  Packed: the first two, more of a
# product where points share fewer taps, and of one that is packed, from caches and from memory.
IN_PLACE, MET, WIDENED, CROWDED, EDGE, FAR = 3.3, 0.73, 0.2, 0.82, 1.4, 4.0
SUMMED, PRODUCT, STEPPED, PACKED, FAR_PACKED = 2.2, 0.7, 0.15, 4.2, 7.0
CROWD = 4.4  # lines of a tile with the same digits: more of them push each other out
MOST_CROWDED = 3.0  # times twice as many
SURE = 1.12  # times as long in place, by estimate


def straight_lines(groups: int, lanes: int, last: AxisPhases, block: int) -> bool:
    """Tell whether sums of packed points can be written where they belong.

    Groups must fill whole vectors, and all lines, which have so many points of the last axis, be
    as long as a tile in every phase: fast kernels sum no fewer points.
    """
    lines = ((start, start + block) for start in range(last.begin, last.end, block))
    return groups % lanes == 0 and all(
        min(end, high) - max(start, low) >= ROWS
        for start, end in lines
        for low, high in last.ranges
    )


def packed_first(problem: Problem, axes: Sequence[AxisPhases], machine: Machine) -> bool:
    """Tell whether packed points are summed sooner than points where they lie, by estimate.

    Of one image, so that none is summed otherwise among others.
    """
    lanes, spatial = machine.lanes(problem.dtype), axes[1:]
    vector = machine.vector_bytes
    panels = -(-problem.groups // lanes)
    point = min(panels, STRAIGHT_POINT // vector)
    chunks = -(-panels // point)
    points = point * vector, point * vector
    block = choose_block([batch_phases(1), *spatial], points, vector, chunks, machine)[1:]
    last = spatial[-1]
    if not straight_lines(problem.groups, lanes, last, block[-1]):
        return False
    written = math.prod(axis.size_out for axis in spatial)
    every = math.prod(map(_products, spatial))
    met = every * math.prod(map(met_share, spatial))
    low, high = inside(last)
    whole = max(0, min(high, last.end) - max(low, last.begin)) / max(1, last.end - last.begin)
    far = replace(problem, batch=1).bytes() > machine.l3 // 2
    sizes = [-(-(axis.end - axis.begin) // n) for axis, n in zip(spatial, block, strict=True)]
    extents = [a.step_in * (n - 1) + a.span for a, n in zip(spatial, block, strict=True)]
    packed = math.prod(sizes) * math.prod(extents)
    crowded = 1 + CROWDED * _crowd(problem, spatial, machine)
    widened = WIDENED * (accumulator(problem.dtype) != numpy_dtype(problem.dtype))
    in_place = IN_PLACE * written + met * (MET * crowded + widened + EDGE * (1 - whole))
    in_place += FAR * far * math.prod(axis.size_in for axis in spatial)
    product = PRODUCT + STEPPED * (last.step_in > 1)
    both = SUMMED * written + product * every + (PACKED + FAR_PACKED * far) * packed
    return in_place > SURE * both


def _products(axis: AxisPhases) -> int:
    """Return how many products all points of an axis have, those with zeros too."""
    ranges = zip(axis.ranges, axis.taps, strict=True)
    return sum(len(taps) * max(0, high - low) for (low, high), taps in ranges)


def _crowd(problem: Problem, spatial: Sequence[AxisPhases], machine: Machine) -> float:
    """Return how often twice as many lines as fit have the same digits, at most a few times."""
    *outer, last = spatial
    apart, taps = taps_apart(last) or 1, max(map(len, last.taps))
    between = apart * (taps - 1)
    points = ROWS * apart if apart > last.step_in else (ROWS - 1) * last.step_in + 1
    rows = math.prod(max(map(len, axis.taps)) for axis in outer)
    lines = problem.groups * numpy_dtype(problem.dtype).itemsize // LINE
    digits = machine.l1 // (WAYS * LINE)
    places = digits // math.gcd(lines, digits) if lines else digits
    crowd = rows * (points + between) / (CROWD * max(1, places))
    return min(MOST_CROWDED, max(0.0, math.log2(max(crowd, 1.0))))
