"""Blocks of grouped layers: how many points of each axis one work item takes."""

import math
from collections.abc import Sequence

from tconv.plan.blocks import shrink
from tconv.plan.machine import Machine
from tconv.plan.phases import AxisPhases

FEW_ITEMS = 4  # below, a worker may be left without any
MANY_ITEMS = 16  # enough to keep workers busy to the end
LEAST_LINE = 16  # points in place: shorter lines are work of their own
MORE_AGAIN = 1.1  # times what is packed for shorter lines: then lines are not kept long
MUCH_AGAIN = 2  # times what is read: larger blocks are worth slower caches, the last one at most
LONG_LINES = 16  # a line is kept whole until it is so much longer than the block is high


def most_taps(axis: AxisPhases) -> int:
    """Return how many taps of one axis a point meets at most, and room for one where none does."""
    return max(1, *map(len, axis.taps))


def choose_lines(
    axes: list[AxisPhases], point: int, items: tuple[int, int], machine: Machine
) -> list[int]:
    """Return how many points of each axis one work item takes in place.

    Lines short enough that what a point reads of other lines stays in the second cache until
    the next line reads it again; then blocks both many enough for all workers and worth
    waking one.  The items are how many a block is, and how many the problem is worth at least.
    """
    chunks, least = items
    sizes = [axis.end - axis.begin for axis in axes]
    block = list(sizes)
    rows = math.prod(axis.span for axis in axes[:-1])
    last = axes[-1]

    def read_again() -> int:
        return point * rows * (last.step_in * (block[-1] - 1) + last.span)

    def too_large() -> bool:
        sides = (some * max(a.step_in, a.step_out) for a, some in zip(axes, block, strict=True))
        taken = point * math.prod(sides)
        items = chunks * math.prod(
            -(-size // some) for size, some in zip(sizes, block, strict=True)
        )
        return items < least or taken > machine.l2 // (1 if items >= MANY_ITEMS else 8)

    while block[-1] > LEAST_LINE and read_again() > machine.l2 // 3:
        shrink(block, sizes, len(block) - 1)
    while max(block) > 1 and too_large():
        shrink(block, sizes, next(d for d, size in enumerate(block) if size > 1))
    return block


def _packed_again(axes: list[AxisPhases], block: Sequence[int]) -> float:
    """Return how many points are packed for each point of a block."""
    extents = [a.step_in * (size - 1) + a.span for a, size in zip(axes, block, strict=True)]
    return math.prod(extents) / math.prod(block)


def _shrunk(block: Sequence[int], sizes: Sequence[int], place: int) -> list[int]:
    """Return a block that is shrunk on an axis."""
    some = list(block)
    if some[place] > 1:
        shrink(some, sizes, place)
    return some


def _grown(block: Sequence[int], sizes: Sequence[int], place: int) -> list[int]:
    """Return a block of which an axis has one less."""
    some, count = list(block), -(-sizes[place] // block[place])
    some[place] = -(-sizes[place] // (count - 1))
    return some


def choose_block(
    axes: list[AxisPhases], points: tuple[int, int], sums: int, chunks: int, machine: Machine
) -> list[int]:
    """Return how many points of each axis one work item takes: long lines, a third of L2.

    Less where there would be few work items.  So much is read; what is written stays in half
    of it, until all phases of the outer axes have written their parts of cache lines.  A line
    of sums of one panel stays in half of the first cache.
    """
    sizes = [axis.end - axis.begin for axis in axes]
    block = list(sizes)
    again_at_least = math.prod(axis.step_in for axis in axes)
    taps = math.prod(map(most_taps, axes))

    def too_large(block: Sequence[int]) -> bool:
        items = chunks * math.prod(-(-size // b) for size, b in zip(sizes, block, strict=True))
        again = _packed_again(axes, block)
        most, less = machine.l2 // 3, 16 / 3
        # Wide windows reach far beyond small blocks, which pack the same again and again.
        if again > MUCH_AGAIN * again_at_least:
            most, less = machine.l2 * 4 if 2 * again > taps else machine.l2 * 2 // 3, 4
        taken = points[0] * again * math.prod(block)
        return taken > (most if items >= FEW_ITEMS else most / less)

    def too_many() -> bool:
        written = (a.step_out * b for a, b in zip(axes, block, strict=True))
        return points[1] * math.prod(written) > machine.l2 // 2

    while block[-1] > 1 and sums * axes[-1].step_out * block[-1] > machine.l1 // 2:
        shrink(block, sizes, len(block) - 1)
    while max(block) > 1 and too_large(block):
        shrink(block, sizes, _most_to_spare(axes, sizes, block))
    for d in range(1, len(block) - 1):  # shorter lines may leave room for more of them
        while block[d] < sizes[d] and not too_large(higher := _grown(block, sizes, d)):
            block = higher
    while max(block[:-1]) > 1 and too_many():
        shrink(block, sizes, next(d for d, size in enumerate(block) if size > 1))
    return block


def _most_to_spare(axes: list[AxisPhases], sizes: Sequence[int], block: Sequence[int]) -> int:
    """Return the axis to shrink: the batch, then lines before they are cut.

    Lines are cut where they are very long, or where less is then packed again.
    """
    last = len(block) - 1
    outer = [d for d in range(1, last) if block[d] > 1]
    if block[0] > 1 or not outer:
        return 0 if block[0] > 1 else last
    place = max(outer, key=lambda d: block[d])
    shorter, lower = (_shrunk(block, sizes, d) for d in (last, place))
    better = _packed_again(axes, lower) > MORE_AGAIN * _packed_again(axes, shorter)
    cut = better or block[-1] > LONG_LINES * block[place]
    return last if block[-1] > 1 and cut else place
