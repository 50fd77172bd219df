"""Blocks of points, and into how many work items they and the panels are split."""

import math
from collections.abc import Sequence
from itertools import product

from tconv.plan.machine import Machine
from tconv.plan.phases import AxisPhases
from tconv.problem import Operand, Problem, accumulator

FEW_POINTS = 192  # many tiles high
FIRST_ITEMS = 4  # a few workers, or two whose shares differ
FEW_ITEMS = 8  # leave some workers idle while others end theirs
ENOUGH_POINTS = 48  # to read every weight for
SOME_POINTS = 16  # likewise, where a worker would have nothing to do
PACKED = 128  # multiplications in the time of a point that is packed, of each channel, and some
WORTH, WORTH_LITTLE = 4_000_000, 250_000  # flops of a work item; of the first few of them
BYTE = 5  # flops that are done while one is read or written
WORTH_READING = 800_000  # bytes of weights, likewise
EVEN_ITEMS = 32  # that end together in any case
EVEN_PANELS = 2  # of a chunk, at least, that is there only for that
MOST_CHUNKS = 4  # of a block that are there only for that
CHUNK = 0.01  # of all the time that one more takes; with one less, workers may have nothing to do
LONG_LINES = 48, 12  # times longer than a block is high, about, for windows that overlap
MUCH_AGAIN = 3  # times that a point is read by blocks of long lines, at most; else by shorter ones
WHOLE_LINES = 512  # likewise, where that costs nothing
NEAR_WEIGHTS = 4  # parts of the second cache that weights may take to stay there
MOST_PADDED = 8  # parts of the last cache that a block with padding may take


def choose_block(  # noqa: PLR0913 - bytes of each thing
    axes: list[AxisPhases],
    point: int,
    sums: int,
    machine: Machine,
    *,
    in_place: bool = False,
    weights: int | None = None,
) -> list[int]:
    """Return how many points of each axis one work item takes.

    What they read (``point`` bytes each) should stay in less than half of the second-level cache,
    and the ``sums`` bytes of one panel in a quarter of it.  But a block of few points reads every
    weight for next to nothing: then the last cache must do, unless ``weights``, bytes of them,
    are in the second one anyway, and what is parted shares nothing.  Of data that
    is read ``in_place`` only what the picture has counts, and nothing is packed again; but there
    must be room to pack it, padding too, for arrays that cannot be read so.
    """
    sizes = [axis.end - axis.begin for axis in axes]
    block = list(sizes)
    # A region that one point nearly fills would be packed again for each of them.
    least = min(4 * point * math.prod(axis.span for axis in axes), machine.l3 // 2)
    near = weights is not None and weights <= machine.l2 // NEAR_WEIGHTS
    shared = any(axis.span > axis.step_in for axis in axes)  # by points of several blocks

    def too_large() -> bool:
        points = math.prod(block)
        few = ENOUGH_POINTS if near and (block[0] > 1 or not shared) else FEW_POINTS
        read, kept = point * _read(axes, block), sums * axes[-1].step_out * points
        if in_place and read <= machine.l3 // MOST_PADDED:
            read = point * _read(axes, block, inside=True)
        most = machine.l2 * 9 // 20 if points > few else max(machine.l3 // 16, least)
        return read > most or kept > machine.l2 // 4

    # Neighbours of the last axis are neighbours in memory: long lines are read and stored
    # fastest, and where windows overlap, flat blocks read more around them.
    for lines in LONG_LINES:
        block[:], favour = sizes, _favour(axes, lines)
        while max(block) > 1 and too_large():
            shrink(block, sizes, _longest(block, favour))
        points = math.prod(some * axis.step_in for axis, some in zip(axes, block, strict=True))
        if _read(axes, block) <= MUCH_AGAIN * points:
            break
    return block


def spread(
    block: list[int], axes: list[AxisPhases], items: tuple[int, int], columns: int, least: int
) -> None:
    """Make more blocks where they are too few for several workers, and still large enough.

    To split the panels instead, every part of them would pack the block again.  The ``items``
    are how many a block is and how many there should be, ``least`` the points of a block that
    writes so many columns.
    """
    parts, few = items
    sizes, favour = [axis.end - axis.begin for axis in axes], _favour(axes, LONG_LINES[0])
    taps = math.prod(sum(map(len, axis.taps)) for axis in axes)

    def boxes() -> int:
        counts = (-(-size // some) for size, some in zip(sizes, block, strict=True))
        return parts * math.prod(counts)

    while boxes() < few and math.prod(block) >= 2 * least:
        place, before = _longest(block, favour), list(block)
        again = axes[place].span > axes[place].step_in * block[place] // 2
        shrink(block, sizes, place)
        # Half of what the blocks read, they would read twice: does it matter?
        if again and PACKED * _read(axes, block) > math.prod(block) * taps * columns:
            block[:] = before
            return


def divide(
    block: list[int],
    axes: list[AxisPhases],
    problem: Problem,
    columns: tuple[int, int, int],
    l3: int,
) -> tuple[list[int], int]:
    """Split a block further where that keeps workers busy.

    Return how many blocks each axis has, and into how many work items the panels of a block are
    split.  The columns are those of a group, and of a panel; then how many groups are work items
    of their own.
    """
    wanted, width, groups = columns
    panels, most = -(-wanted // width), worth(problem)
    sizes = [axis.end - axis.begin for axis in axes]

    def counted() -> tuple[list[int], int]:
        blocks = [-(-size // some) for size, some in zip(sizes, block, strict=True)]
        return blocks, groups * math.prod(blocks)

    spread(block, axes, (groups, min(FEW_ITEMS, most)), wanted, ENOUGH_POINTS)
    blocks, boxes = counted()
    chunks = choose_chunks(problem, boxes, panels)
    if boxes * chunks in {1, 3} and _weights(problem) < l3 // 2:  # of two workers one is idle
        spread(block, axes, (groups, min(2 * groups, most)), wanted, SOME_POINTS)
        blocks, boxes = counted()
        chunks = choose_chunks(problem, boxes, panels)
    if 1 < boxes * chunks < min(EVEN_ITEMS, most + 1):
        chunks = even_chunks(chunks, box_sizes(sizes, block, groups), panels)
    return blocks, chunks


def _read(axes: list[AxisPhases], block: Sequence[int], *, inside: bool = False) -> int:
    """Return how many points a block reads, zeros around the picture too, or those ``inside``."""
    extents = [a.step_in * (some - 1) + a.span for a, some in zip(axes, block, strict=True)]
    if inside:
        extents = [min(extent, a.size_in) for extent, a in zip(extents, axes, strict=True)]
    return math.prod(extents)


def shrink(block: list[int], sizes: Sequence[int], place: int) -> None:
    """Make one more block of an axis, or an eighth more of many, all about as long."""
    count = -(-sizes[place] // block[place])
    count += max(1, count // 8)
    block[place] = min(-(-sizes[place] // count), block[place] - 1)


def _favour(axes: list[AxisPhases], lines: int) -> int:
    """Return how many times longer than high a block may become: less where windows overlap."""
    overlap = max(-(-axis.span // axis.step_in) for axis in axes[:-1])
    return WHOLE_LINES if overlap == 1 else max(2, lines // overlap)


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


def phase_chunks(problem: Problem, axes: Sequence[AxisPhases], items: int) -> int:
    """Return into how many work items the phases of all axes but the last are split.

    They share data, but no weight: where blocks and panels are too few for several workers, that
    costs nothing but to pack a block once for each worker.
    """
    phases = math.prod(len(axis.ranges) for axis in axes[:-1])
    return max(1, min(phases, -(-FEW_ITEMS // items), worth(problem) // items))


def even_chunks(chunks: int, boxes: Sequence[int], panels: int) -> int:
    """Return so many chunks, or a few more or less if then workers end at about the same time.

    The boxes are how many points each has.  Every chunk more begins anew, but whoever has packed
    its block for another does not do so again.  Where items are few, four chunks of six panels
    are three of two: six of one are better, or two of three.

    >>> even_chunks(4, [49], 6), even_chunks(3, [49], 6), even_chunks(2, [49], 6)
    (6, 6, 2)
    """
    least, most = chunks, min(MOST_CHUNKS, panels // EVEN_PANELS)
    if chunks * len(boxes) < FEW_ITEMS:
        least, most = -(-chunks // 2), min(panels, 2 * chunks)
    choices = range(least, max(chunks, most) + 1)
    return min(choices, key=lambda count: idle(count, boxes, panels) + CHUNK * abs(count - chunks))


def idle(chunks: int, boxes: Sequence[int], panels: int) -> float:
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
    return max(problem.flops() // WORTH + _weights(problem) // WORTH_READING, first_items(problem))


def first_items(problem: Problem, flop: int = 1) -> int:
    """Return how many work items a small problem is worth, by what a flop takes.

    Of three, one of two workers would have two.
    """
    items = (flop * problem.flops() + BYTE * problem.bytes()) // WORTH_LITTLE
    return FIRST_ITEMS if items > 2 else items


def _weights(problem: Problem) -> int:
    """Return the bytes of all weights, as kernels read them."""
    return math.prod(problem.shape(Operand.WEIGHTS)) * accumulator(problem.dtype).itemsize
