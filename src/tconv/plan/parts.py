"""Into which parts the work of a correlation is split, and what that costs."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from tconv.plan.machine import Machine
from tconv.problem import Problem

MOST_SUMS = 2 << 20  # bytes of sums of one work item
MOST_PARTIALS = 8 << 20  # bytes of sums of all pieces
MOST_SHARED = 16 << 20  # bytes of both sides packed for all work items
MANY_SHARED = 6 << 20  # bytes of them that take longer to come back than those of a work item
WORK_ITEMS = 8  # of a large problem: what keeps a few workers busy to the end
MANY_ITEMS = 64  # that cost nothing: their sides are packed before
PAGE = 4096  # bytes: what is stored side by side should fill it
STORED = 16  # flops in the time of one weight that is stored
PACKED = 16  # flops in the time of one element that is packed
SMALL_WORK = 2_500_000  # flops that are not worth splitting


@dataclass(frozen=True, slots=True)
class Parts:
    """Into how many parts each side of the work is split, and how much a part has."""

    pieces: int  # of all points
    chunk_taps: int
    chunk_rows: int
    chunk_panels: int
    shared: bool = False  # both sides are packed once, before all work items


def choose_parts(
    problem: Problem,
    sizes: tuple[int, int, int, int],
    tile: tuple[int, int, int],
    machine: Machine,
    together: int = 1,
) -> Parts:
    """Return how the work is split: what costs least to pack, to keep and to add up.

    Splitting rows packs side B again for each chunk of them, splitting panels side A;
    splitting points packs nothing twice, but leaves a set of sums for each piece.  Both sides may
    be packed once, before all else, if they are small.
    ``sizes`` are rows (0 if they are taps and channels), panels, taps and points of the packed
    fine side, ``tile`` the rows of a tile, the channels of a panel and the bytes of an element;
    ``together`` is how many groups are one, whose elements are vectors.
    """
    rows, panels, taps, fine_points = sizes
    tile_rows, columns, item = tile
    item *= together
    groups = -(-problem.groups // together)
    points = problem.batch * math.prod(axis.coarse_size for axis in problem.axes)
    a, b = problem.coarse_channels * points, problem.fine_channels * fine_points
    tap_rows = 0
    if not rows:
        a, b, tap_rows = b, a, problem.fine_channels
    work = problem.flops() + PACKED * groups * together * (a + b)
    wanted = min(WORK_ITEMS, max(1, work // SMALL_WORK))
    last = problem.axes[-1].taps
    row_tiles = -(-rows // tile_rows)

    def tried() -> Iterator[tuple[float, int, Parts]]:
        for chunk_tiles, chunk_panels in product(_parts_of(row_tiles), _parts_of(panels)):
            row_chunks = -(-row_tiles // chunk_tiles) if rows else 1
            panel_chunks = -(-panels // chunk_panels)
            rows_a_tap = tap_rows or chunk_tiles * tile_rows
            a_tap = rows_a_tap * chunk_panels * columns * item
            chunk_taps = min(max(MOST_SUMS // a_tap // last * last, last), taps)
            tap_chunks = -(-taps // chunk_taps)
            sums = groups * row_chunks * panel_chunks * taps * a_tap // item
            packed = groups * tap_chunks * (a * panel_chunks + b * row_chunks)
            split = groups * row_chunks * panel_chunks * tap_chunks
            blocks = max(a // row_chunks, b // panel_chunks) * item // (machine.l3 // 16)
            for pieces in (1, 2, 4, 8):
                if pieces > 1 and (pieces * sums * item > MOST_PARTIALS or points < pieces * 64):
                    continue
                parts = Parts(pieces, chunk_taps, chunk_tiles * tile_rows, chunk_panels)
                added = pieces * sums if pieces > 1 else 0
                yield packed + added + blocks * sums // 2, split * pieces, parts

    choices = [*tried()]
    enough = min(wanted, max(items for _, items, _ in choices))
    cost, _, best = min((c for c in choices if c[1] >= enough), key=lambda choice: choice[:2])
    held = groups * (a + b)
    if held * item > MOST_SHARED or (2 if held * item > MANY_SHARED else 1.25) * held > cost:
        return best
    # Nothing is packed twice, and all sums that a work item keeps stay in the cache.
    row = max(tap_rows, 1 if not rows else tile_rows) * columns * item
    chunk_taps = min(max(machine.l2 // 4 // row // last * last, last), taps)
    weights = problem.groups * problem.coarse_channels * problem.fine_channels * taps
    work = problem.flops() + STORED * weights
    many = -(-min(MANY_ITEMS, max(1, work // SMALL_WORK)) // groups)
    many = -(-many // -(-taps // chunk_taps))
    chunk_panels = -(-panels // min(panels, many))
    if rows:
        page = PAGE // (chunk_taps * columns * item)
        chunk_panels = max(chunk_panels, min(page, panels * row_tiles // many, panels))
    row_parts = min(row_tiles or 1, -(-many // -(-panels // chunk_panels)))
    chunk_tiles = -(-row_tiles // row_parts) if rows else 1
    return Parts(1, chunk_taps, chunk_tiles * tile_rows, chunk_panels, shared=True)


def _parts_of(count: int) -> list[int]:
    """Return sizes that split a count into 1, 2, 3, 4, 6, 8, ... parts of about one size."""
    return sorted({-(-count // parts) for parts in (1, 2, 3, 4, 6, 8, 12, 16, 24) if count}) or [1]
