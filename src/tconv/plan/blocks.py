"""Blocks of points, and into how many work items they and the panels are split."""

import math
from collections.abc import Sequence
from itertools import product

from tconv.plan.machine import Machine
from tconv.plan.phases import AxisPhases
from tconv.problem import Operand, Problem, accumulator

FEW_POINTS = 192  # many tiles high
FEW_ITEMS = 8  # leave some workers idle while others end theirs
ENOUGH_POINTS = 48  # to read every weight for
EVEN_ITEMS = 32  # that end together in any case
EVEN_PANELS = 8  # of a chunk, at least, that is there only for that
LONG_LINES = 24  # times longer than a block is high, about, for windows that overlap
WHOLE_LINES = 512  # likewise, where that costs nothing


def choose_block(axes: list[AxisPhases], point: int, sums: int, machine: Machine) -> list[int]:
    """Return how many points of each axis one work item takes.

    What they read (``point`` bytes each) should stay in less than half of the second-level cache,
    and the ``sums`` bytes of one panel in a quarter of it.  But a block of few points reads every
    weight for next to nothing: then the last cache must do.
    """
    sizes = [axis.end - axis.begin for axis in axes]
    block = list(sizes)
    # A region that one point nearly fills would be packed again for each of them.
    least = min(4 * point * math.prod(axis.span for axis in axes), machine.l3 // 2)

    def too_large() -> bool:
        extents = [a.step_in * (b - 1) + a.span for a, b in zip(axes, block, strict=True)]
        points = math.prod(block)
        read, kept = point * math.prod(extents), sums * axes[-1].step_out * points
        most = machine.l2 * 9 // 20 if points > FEW_POINTS else max(machine.l3 // 16, least)
        return read > most or kept > machine.l2 // 4

    # Neighbours of the last axis are neighbours in memory: long lines are read and stored
    # fastest, and where windows overlap, flat blocks read more around them.
    favour = _favour(axes)
    while max(block) > 1 and too_large():
        shrink(block, sizes, _longest(block, favour))
    return block


def spread(block: list[int], axes: list[AxisPhases], problem: Problem) -> None:
    """Make more blocks where they are too few for several workers, and still large enough.

    To split the panels instead, every part of them would pack the block again.
    """
    sizes = [axis.end - axis.begin for axis in axes]

    def boxes() -> int:
        counts = (-(-size // some) for size, some in zip(sizes, block, strict=True))
        return problem.groups * math.prod(counts)

    few, favour = min(FEW_ITEMS, worth(problem)), _favour(axes)
    while boxes() < few and math.prod(block) >= 2 * ENOUGH_POINTS:
        place = _longest(block, favour)
        if axes[place].span > axes[place].step_in * block[place] // 2:
            return  # half of what the blocks read, they would read twice
        shrink(block, sizes, place)


def shrink(block: list[int], sizes: Sequence[int], place: int) -> None:
    """Make one more block of an axis, or an eighth more of many, all about as long."""
    count = -(-sizes[place] // block[place])
    count += max(1, count // 8)
    block[place] = min(-(-sizes[place] // count), block[place] - 1)


def _favour(axes: list[AxisPhases]) -> int:
    """Return how many times longer than high a block may become: less where windows overlap."""
    overlap = max(-(-axis.span // axis.step_in) for axis in axes[:-1])
    return WHOLE_LINES if overlap == 1 else max(2, LONG_LINES // (2 * overlap))


def _longest(block: list[int], favour: int) -> int:
    """Return the axis to shrink: the batch, whose images share nothing, before any other.

    Then what is longest, but the last axis only when it is longer by a factor.
    """
    if block[0] > 1:
        return 0
    last = len(block) - 1
    inner = (d for d in range(1, len(block)) if block[d] > 1)
    return max(inner, key=lambda d: (block[d] * (1 if d == last else favour), -d))


def choose_chunks(problem: Problem, boxes: int, panels: int) -> int:
    """Return into how many work items the panels of one block are split.

    Few blocks leave workers idle, and few of an odd number one of two; but every chunk packs the
    block again, and a work item should be worth some ten microseconds, of multiplying or of
    reading weights.  A single block is packed once by every worker, however many chunks it has.
    """
    chunks, most = 1, worth(problem)
    few = FEW_ITEMS if boxes > 1 else EVEN_ITEMS
    while chunks < panels and most > boxes * chunks:
        items = boxes * chunks
        if items >= few and (items % 2 == 0 or items >= 2 * few):
            break
        chunks += 1
    return chunks


def even_chunks(chunks: int, boxes: Sequence[int], panels: int) -> int:
    """Return so many chunks, or a few more if then workers end at about the same time.

    The boxes are how many points each has.  Every chunk more packs a block again, about as long
    as one of its panels takes.
    """
    most = min(EVEN_ITEMS // len(boxes), panels // EVEN_PANELS)
    choices = range(chunks, max(chunks, most) + 1)
    return min(choices, key=lambda count: _idle(count, boxes, panels) + (count - chunks) / panels)


def _idle(chunks: int, boxes: Sequence[int], panels: int) -> float:
    """Return which part of their time two workers, or four, wait for the last one."""
    size = -(-panels // chunks)
    parts = [min(size, panels - first) for first in range(0, panels, size)]
    idle = 0.0
    for workers, share in ((2, 0.75), (4, 0.25)):
        ends = [0] * workers
        for box in boxes:
            for part in parts:  # who is done first takes the next
                ends[ends.index(min(ends))] += box * part
        idle += share * (1 - sum(ends) / (workers * max(ends)))
    return idle


def box_sizes(sizes: Sequence[int], block: Sequence[int], groups: int) -> list[int]:
    """Return how many points every block has, in the order of work items."""
    parts = (
        [min(length, size - first) for first in range(0, size, length)]
        for size, length in zip(sizes, block, strict=True)
    )
    return [math.prod(box) for box in product(*parts)] * groups


def worth(problem: Problem) -> int:
    """Return how many work items a problem is worth, by multiplications and by weights read."""
    weights = math.prod(problem.shape(Operand.WEIGHTS)) * accumulator(problem.dtype).itemsize
    return problem.flops() // 4_000_000 + weights // 800_000
