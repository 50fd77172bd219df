"""How Winograd's algorithm divides its work: blocks of patches, stages, chunks and parts.

A block whose transformed data stays in the second-level cache is one work item, from packing
to storing.  Where that would be too few patches to pay for reading all weights, or too few
blocks for all workers, there are two stages: some blocks are transformed into memory that
workers share, slab of channels by slab; then all of them are multiplied, some panels at a time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from tconv.plan.blocks import idle, shrink
from tconv.plan.machine import Machine
from tconv.plan.tiles import whole_tiles
from tconv.plan.winograd_axis import WinogradAxis

SOME_PATCHES, FEW_PATCHES, MOST_PATCHES = 18, 24, 192  # of a block
LEAST_PATCHES = 8  # of one that is a work item
WHOLE_ROWS = 3  # tiles of patches that are not parted: each part would read all weights
BEGIN = 3  # patches' time to begin a block
SHARED = 8 << 20  # bytes of transformed data at a time, at most
MANY_ITEMS = 16  # that keep workers busy to the end
SOME_ITEMS = 8
FEW_ITEMS = 4  # where more blocks would read all weights again
WORTH, WORTH_TWO = 2_000_000, 200_000  # multiplications of an item, at least; of only two of them
WORTH_READING = 1 << 20  # bytes of weights, likewise
REPEATED = 32  # multiplications of a chunk for each byte that is transformed again, at least
LONG_LINES = 16  # times longer than high a block becomes where points lie side by side
WORTH_STAGES = 10_000_000  # multiplications that pay for a second stage


@dataclass(frozen=True, slots=True)
class Volume:
    """What there is to divide: bytes and numbers of one group."""

    row: int  # bytes of a patch's transformed data, at one point
    points: int
    weights: int  # bytes
    panels: int
    tile: int  # rows of a register tile
    depth: int
    multiplications: int  # of a patch
    turned: bool = False  # whether points lie side by side where they are read, or written

    @property
    def patch(self) -> int:
        """Bytes of a patch's transformed data."""
        return self.row * self.points


@dataclass(frozen=True, slots=True)
class Division:
    """How the work is divided."""

    block: tuple[int, ...]  # points of each axis
    blocks: tuple[int, ...]
    patches: int  # of a block
    staged: bool
    boxes: int  # blocks of all groups
    round: int  # boxes that are transformed before they are multiplied
    chunks: int
    panels_a_chunk: int
    slice: int  # panels whose weights are there at a time


def most_patches(volume: Volume, machine: Machine, *, staged: bool) -> int:
    """Return how many patches a block has at most."""
    # Weights that few patches meet come too slowly from the last cache: then data does.
    if staged:
        few = max(FEW_PATCHES, min(2 * FEW_PATCHES, machine.l2 * 14 // 10 // volume.row))
        most = max(few, min(MOST_PATCHES, machine.l2 * 7 // 10 // volume.row))
        return max(1, min(most, shared_bytes(machine) // volume.patch))
    few = min(SOME_PATCHES, machine.l2 * 14 // 10 // volume.patch)
    return max(1, min(MOST_PATCHES, max(few, _near(volume, machine))))


def _near(volume: Volume, machine: Machine) -> int:
    """Return how many patches stay in the second-level cache."""
    return machine.l2 * 6 // 10 // volume.patch


def needs_stages(volume: Volume, machine: Machine, patches: int) -> bool:
    """Tell whether blocks that stay in cache are too small; there are so many patches.

    Weights that come from memory should meet many of them at a time, also when there are
    blocks for all workers.
    """
    if patches * volume.multiplications < WORTH_STAGES:
        return False
    most = max(1, min(MOST_PATCHES, _near(volume, machine)))
    if volume.weights > machine.l3 // 4:
        return min(most, patches // SOME_ITEMS) < 2 * FEW_PATCHES
    return most < min(LEAST_PATCHES, patches)


def divide(
    axes: Sequence[WinogradAxis],
    groups: int,
    volume: Volume,
    machine: Machine,
    most_weights: int | None = None,
) -> Division:
    """Divide patches into blocks and rounds, and panels into chunks and slices."""
    sizes = [-(-(axis.phases.end - axis.phases.begin) // axis.unit) for axis in axes]
    apart = math.prod(axis.apart for axis in axes)
    total = math.prod(sizes) * apart
    sliced = most_weights is not None and groups * volume.weights > most_weights
    staged = sliced or needs_stages(volume, machine, groups * total)
    most = most_patches(volume, machine, staged=staged)
    cuts = volume.panels
    if not staged:  # every chunk transforms the block again
        cuts = min(cuts, max(1, volume.multiplications // (REPEATED * volume.patch)))
    rows = volume.tile
    # Workers should neither wait nor run for next to nothing.
    worth = _worth(groups * total * volume.multiplications)
    least = -(-min(FEW_ITEMS if staged else SOME_ITEMS, worth) // (groups * cuts)) or 1
    most = min(most, max(WHOLE_ROWS * rows, -(-total // least)))
    favour = LONG_LINES if volume.turned else 1
    block = choose_block(sizes, apart, most, (rows, groups if cuts == 1 else MANY_ITEMS), favour)
    blocks = tuple(-(-size // each) for size, each in zip(sizes, block, strict=True))
    patches = math.prod(block) * apart
    boxes = groups * math.prod(blocks)
    together = boxes
    if staged:
        together = max(1, min(boxes, shared_bytes(machine) // (patches * volume.patch)))
        together = -(-boxes // -(-boxes // together))
    else:
        cuts = max(cuts, 4 // boxes)  # idle workers cost more than to transform again
    work = patches * volume.multiplications
    enough = max(work // WORTH, _worth(boxes * work) // boxes) + volume.weights // WORTH_READING
    wanted = -(-(MANY_ITEMS if staged else SOME_ITEMS) // together)
    a_chunk = -(-volume.panels // max(1, min(wanted, cuts, enough)))
    if not staged:
        a_chunk = _shared(volume.panels, a_chunk, boxes)
    a_slice = volume.panels
    if sliced and most_weights is not None:
        a_slice = _slice(volume.panels, most_weights * volume.panels // (groups * volume.weights))
        a_chunk = min(a_chunk, -(-a_slice // -(-SOME_ITEMS // together)))
        a_slice = a_slice // a_chunk * a_chunk
    return Division(
        block=tuple(size * axis.unit for size, axis in zip(block, axes, strict=True)),
        blocks=blocks,
        patches=patches,
        staged=staged,
        boxes=boxes,
        round=together,
        chunks=-(-volume.panels // a_chunk),
        panels_a_chunk=a_chunk,
        slice=a_slice,
    )


def _shared(panels: int, a_chunk: int, boxes: int) -> int:
    """Return how many panels a chunk has: more, if then two workers end sooner.

    >>> _shared(6, 2, 1), _shared(8, 2, 1), _shared(6, 2, 2), _shared(9, 2, 1)
    (3, 2, 3, 2)
    """
    chunks = -(-panels // a_chunk)
    if not 1 < chunks * boxes < SOME_ITEMS or chunks == 1:
        return a_chunk
    fewer = -(-panels // (chunks - 1))
    before, after = (idle(-(-panels // size), [1] * boxes, panels) for size in (a_chunk, fewer))
    return fewer if after < before else a_chunk


def _slice(panels: int, most: int) -> int:
    """Return how many panels are transformed at a time: alike, and an even number if any."""
    each = -(-panels // -(-panels // max(1, most)))
    return min(panels, each + each % 2)


def _worth(work: int) -> int:
    """Return how many work items so many multiplications are worth."""
    return max(work // WORTH, 2 if work >= WORTH_TWO else 1)


def choose_block(
    sizes: Sequence[int], apart: int, most: int, numbers: tuple[int, int], favour: int
) -> list[int]:
    """Return how many patches of each axis a block has, at most so many, or ``apart`` of each.

    Of the blocks that are not much smaller, those are best that fill tiles, and that two workers
    share alike.  The ``numbers`` are the rows of a tile, and how many work items a block is;
    it may become so many times longer than high as it is told to ``favour`` lines.
    """
    rows, items = numbers
    block, best, least = list(sizes), list(sizes), math.inf
    last = len(sizes) - 1

    def height(d: int) -> int:
        return (block[d] > 1) * block[d] * (1 if d == last else favour)

    while True:
        patches = math.prod(block) * apart
        if patches <= most or max(block) == 1:
            time = float(_rows(sizes, block, apart, rows))
            each = items * math.prod(map(_ceil, sizes, block))
            if each < SOME_ITEMS:
                time *= (each + each % 2) / each if each > 1 else 1
            if time < least:
                best, least = list(block), time
            if patches <= most // 2 or max(block) == 1:
                return best
        place = 0 if block[0] > 1 else max(range(last + 1), key=height)
        shrink(block, sizes, place)


def _ceil(size: int, each: int) -> int:
    return -(-size // each)


def _rows(sizes: Sequence[int], block: Sequence[int], apart: int, rows: int) -> int:
    """Return how many rows the tiles of all blocks have, and the time that blocks take to begin."""
    cuts = []
    for size, each in zip(sizes, block, strict=True):
        whole, rest = divmod(size, each)
        cuts.append([(whole, each)] + [(1, rest)] * (rest > 0))
    total = 0
    for choice in product(*cuts):
        times = math.prod(count for count, _ in choice)
        patches = math.prod(each for _, each in choice) * apart
        total += times * (whole_tiles(patches, rows) + BEGIN)
    return total


def choose_pass(
    division: Division, points: int, product: int, phases: int, machine: Machine
) -> int:
    """Return how many panels are multiplied before they are transformed back.

    Each has ``product`` bytes at every point, for every phase.  While panels go by, a point's data
    is read once; but what they leave behind should stay in a cache.
    """
    room = machine.l2 * (2 if division.staged else 1) // (2 if division.staged else 4)
    return max(1, min(division.panels_a_chunk, room // (phases * points * product)))


def choose_parts(depth: int, row: int, machine: Machine) -> tuple[int, int]:
    """Return how many segments, and how much of one, is multiplied at a time.

    What they take of a panel, ``row`` bytes for each element, flows from the second cache in
    time; less would begin and end tiles more often.
    """
    most = max(4, 2 * machine.l1 // row)
    cuts = max(1, -(-depth // most))
    return max(1, most // max(depth, 1)), -(-depth // (4 * cuts)) * 4


def choose_slab(
    division: Division, points: int, channels: int, lanes: int, room: tuple[int, int]
) -> int:
    """Return how many channels are packed together; a point has so many bytes of each.

    ``room`` are the bytes that they may take, and how many channels are packed together though
    they take more.  Where all workers transform a round's boxes, there are slabs for them: for
    two in any case, and shared evenly.
    """
    most, least = room
    slabs = -(-channels // max(least, most // points // lanes * lanes))
    if division.staged:
        wanted, needed = (-(-items // division.round) for items in (SOME_ITEMS, 2))
        slabs = max(slabs, min(wanted, channels // least), needed)
        slabs -= slabs > 1 and slabs * division.round % 2
    line = 2 * lanes
    return min(channels, -(-channels // (slabs * line)) * line)


def shared_bytes(machine: Machine) -> int:
    """Return how much transformed data is kept at a time."""
    return min(SHARED, machine.l3 * 3 // 8)
