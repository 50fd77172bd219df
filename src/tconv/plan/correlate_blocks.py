"""Blocks of points that a correlation packs at a time, and the runs that their lines become."""

import math

from tconv.plan.blocks import shrink
from tconv.plan.shifts import AxisShifts

SEGMENT = 0.8  # points that could be summed while a tile turns to the next segment
AGAIN = 1.15  # times more is packed, for blocks that read the same, than if there were one


def choose_block(
    axes: list[AxisShifts], points: tuple[int, int], pieces: int, most: tuple[int, int]
) -> list[int]:
    """Return how many points of each axis are packed at a time.

    Tiles read short runs of them, which fit the first cache.  All of it should fit the second,
    beside what the next block reads; the last must do where small blocks would pack much again.
    ``points`` are the bytes of a point of either side, ``most`` those of a side, near and far.
    """
    sizes = [axis.coarse_size for axis in axes]
    block = list(sizes)

    def read() -> int:
        return math.prod(axis.extent(size) for axis, size in zip(axes, block, strict=True))

    least = AGAIN * read() / math.prod(sizes)

    def too_large() -> bool:
        blocks = math.prod(-(-size // part) for size, part in zip(sizes, block, strict=True))
        held, fine = math.prod(block), read()
        limit = most[fine > least * held]
        return max(points[0] * held, points[1] * fine) > limit or blocks < pieces

    while max(block) > 1 and too_large():
        shrink(block, sizes, next(d for d, size in enumerate(block) if size > 1))
    return block


def choose_split(axes: list[AxisShifts], block: list[int], pitches: list[int], met: float) -> int:
    """Return how many outer axes stay apart; the lines of the others become one run.

    A run goes over the points between lines too, where the coarse side is zero.  Of lines that
    all stay apart only those points are taken that a tap meets.  Lines as they lie are no run.
    """

    def cost(split: int) -> float:
        run = 1 + sum((block[d] - 1) * pitches[d] for d in range(split, len(axes)))
        share = met if split == len(axes) - 1 else 1
        return math.prod(block[:split]) * (run * share + SEGMENT)

    return min(range(len(axes)) if axes[-1].scale == 1 else [len(axes) - 1], key=cost)
