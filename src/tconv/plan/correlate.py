"""The algorithm for WEIGHTS: every tap's product over blocks of points.

On one axis the taps whose ``dilation * tap`` leaves the same rest (residue) when divided by
the stride read fine points of one residue only, each ``quotient`` points further.  Both sides
are packed so: the fine one by residues, so that what a tap reads for neighbouring coarse points
are neighbours, and a whole picture becomes one long run.

Side A is read one element at a time and side B by vectors of channels.  A is the coarse side
and a row is a channel; where the fine side has too few channels to fill vectors the sides
change places, and a row is a tap and a channel.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from tconv.plan.gather import Scratch, make_record, shrink
from tconv.plan.machine import Machine, padded
from tconv.plan.shifts import AxisShifts, axis_shifts
from tconv.problem import Problem

SIDE_SCALARS = (
    "g", "c", "x",  # element steps, by each call
    "size", "step", "low", "halo", "slack",  # the last axis
    "combinations", "width", "contiguous", "plane", "channels", "most",
)  # fmt: skip
SIDE_ARRAYS = (
    "source_steps",  # one for each outer axis, filled in by each call
    "sizes", "steps", "lows", "halos",  # one for each outer axis
    "residues",  # one for each combination and outer axis
    "reads", "places",  # one for each point of a line
)  # fmt: skip

SCALARS = (
    "side_a", "side_b", "target", "bias", "flag", "partials",  # addresses, filled in by each call
    *(f"a_{name}" for name in SIDE_SCALARS),
    *(f"b_{name}" for name in SIDE_SCALARS),
    "target_g", "target_row", "target_column", "target_x", "tap_run",  # by each call
    "outer",  # axes but the last; the batch is the first of them
    "split",  # outer axes whose lines are not one run
    "swapped", "taps", "rows", "columns", "panels", "wide_panels", "run_points",
    "pieces", "piece_blocks", "tap_chunks", "chunk_taps", "row_chunks", "chunk_rows",
    "panel_chunks", "chunk_panels", "sums",
    "plane", "block", "end", "blocks", "all_blocks",
    "scratch_b", "scratch_sums", "scratch_a_table", "scratch_b_table",
)  # fmt: skip
"""The numbers of a correlation's record, in order."""

ARRAYS = (
    *(f"a_{name}" for name in SIDE_ARRAYS),
    *(f"b_{name}" for name in SIDE_ARRAYS),
    "target_taps",  # one for each tap, filled in by each call
    "outer_block", "ends", "outer_blocks", "pitches",  # one for each outer axis
    "row_offsets", "shifts",
)  # fmt: skip
"""The arrays of a correlation's record; a number tells where in the record each begins."""

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}

MOST_SUMS = 2 << 20  # bytes of sums of one work item
MOST_PARTIALS = 8 << 20  # bytes of sums of all pieces
WORK_ITEMS = 8  # of a large problem: what keeps a few workers busy to the end
SMALL_WORK = 4_000_000  # flops that are not worth splitting
RUN_POINTS = 256  # about how many points a tile sums at once
SEGMENT = 2.5  # points that could be summed while a tile turns to the next segment
FAR = 1 << 40  # further than any array reaches


@dataclass(frozen=True, slots=True)
class Correlate:
    """All that a compiled correlation needs to know, but addresses."""

    lanes: int
    vectors: int
    swapped: bool
    record: tuple[int, ...]
    taps: tuple[tuple[int, ...], ...]
    block: tuple[int, ...]
    items: int
    stores: int  # work items of the second step, where pieces are added; 0 for none
    partials: int  # elements of all pieces' sums
    scratch: int


@dataclass(frozen=True, slots=True)
class _Parts:
    """Into how many parts each side of the work is split, and how much a part has."""

    pieces: int  # of all points
    chunk_taps: int
    chunk_rows: int
    chunk_panels: int


def plan_correlate(problem: Problem, machine: Machine, tile_rows: int) -> Correlate:
    """Lay out blocks, work items and tables for WEIGHTS."""
    lanes, vectors = machine.lanes(problem.dtype), 2
    columns, item = lanes * vectors, machine.vector_bytes // lanes
    batch = AxisShifts(problem.batch, problem.batch, 1, 0, (0,), ((0, 0),), 1)
    axes = [batch, *map(axis_shifts, problem.axes)]
    taps = tuple(product(*(range(axis.taps) for axis in problem.axes)))
    swapped = _swaps(problem, len(taps), lanes, tile_rows)
    # What rows are made of, and what vectors run along.
    rows, wide = problem.coarse_channels, problem.fine_channels
    if swapped:
        rows, wide = wide, rows
    panels = -(-wide // columns)
    parts = _choose_parts(
        problem, (0 if swapped else rows, panels, len(taps)), (tile_rows, columns, item), machine
    )
    if swapped:
        parts = replace(parts, chunk_rows=rows)
    fine_planes = math.prod(len(axis.residues) for axis in axes)
    held = [parts.chunk_rows if not swapped else rows, parts.chunk_panels * columns]
    if swapped:
        held.reverse()
    coarse_channels, fine_channels = held
    bytes_a_point = item * max(coarse_channels, fine_channels * fine_planes)
    block = _choose_block(axes, bytes_a_point, parts.pieces, machine)
    blocks = [-(-axis.coarse_size // size) for axis, size in zip(axes, block, strict=True)]
    extents = [size + axis.span - 1 for axis, size in zip(axes, block, strict=True)]
    pitches = [math.prod(extents[place + 1 :]) for place in range(len(axes))]
    plane = math.prod(extents)
    split = _choose_split(axes, block, pitches)
    piece_blocks = -(-math.prod(blocks) // parts.pieces)
    coarse = _coarse_side(axes, split, block[-1])
    fine = _fine_side(axes, plane, block[-1])
    a, b = (fine, coarse) if swapped else (coarse, fine)
    # Planes are copied whole only where what is read side by side is packed so.
    a.numbers["contiguous"] &= a.numbers["step"] == 1
    a_planes, b_planes = (fine_planes, 1) if swapped else (1, fine_planes)
    # Rows that lie a multiple of a page apart would meet in few cache sets.
    a_plane = -(-(a_planes * plane + 1) // 32) * 32 + 16
    b_plane = (b_planes * plane + 1) * columns
    shifts = [_shift(axes, plane, pitches, (0, *tap)) for tap in taps]
    row_offsets = (
        [shift + channel * a_plane for shift in shifts for channel in range(rows)]
        if swapped
        else [channel % parts.chunk_rows * a_plane for channel in range(rows)]
    )
    row_offsets += row_offsets[-1:] * tile_rows  # rows of a last tile that there are none for
    tile = tile_rows * columns
    rows_an_item = parts.chunk_taps * rows if swapped else parts.chunk_rows
    sums = -(-rows_an_item // tile_rows) * parts.chunk_panels * tile
    sums *= 1 if swapped else parts.chunk_taps
    chunks = {
        "tap_chunks": -(-len(taps) // parts.chunk_taps),
        "row_chunks": 1 if swapped else -(-rows // parts.chunk_rows),
        "panel_chunks": -(-panels // parts.chunk_panels),
    }
    pieces = -(-math.prod(blocks) // piece_blocks)
    stores = problem.groups * math.prod(chunks.values())
    scratch = Scratch(item)
    scratch.take((rows if swapped else parts.chunk_rows) * a_plane)
    segments = math.prod(block[:split])
    numbers = {
        **{f"a_{name}": value for name, value in a.numbers.items()},
        **{f"b_{name}": value for name, value in b.numbers.items()},
        "a_plane": a_plane,
        "b_plane": b_plane,
        "a_channels": rows,
        "b_channels": wide,
        "a_most": rows if swapped else parts.chunk_rows,
        "b_most": parts.chunk_panels * columns,
        "outer": len(axes) - 1,
        "split": split,
        "swapped": int(swapped),
        "taps": len(taps),
        "rows": rows,
        "columns": wide,
        "panels": panels,
        "wide_panels": panels - (0 < wide % columns <= lanes),
        "run_points": max(1, machine.l1 // 2 // (columns * item)),
        "pieces": pieces,
        "piece_blocks": piece_blocks,
        **chunks,
        "chunk_taps": parts.chunk_taps,
        "chunk_rows": parts.chunk_rows,
        "chunk_panels": parts.chunk_panels,
        "sums": sums,
        "plane": plane,
        "block": block[-1],
        "end": axes[-1].coarse_size,
        "blocks": blocks[-1],
        "all_blocks": math.prod(blocks),
        "scratch_b": scratch.take(parts.chunk_panels * b_plane),
        "scratch_sums": scratch.take(sums if pieces == 1 else 0),
        "scratch_a_table": scratch.take_table(segments),
        "scratch_b_table": scratch.take_table(segments),
    }
    arrays = {
        **{f"a_{name}": value for name, value in a.arrays.items()},
        **{f"b_{name}": value for name, value in b.arrays.items()},
        "target_taps": [0] * len(taps),
        "outer_block": block[:-1],
        "ends": [axis.coarse_size for axis in axes[:-1]],
        "outer_blocks": blocks[:-1],
        "pitches": pitches[:-1],
        "row_offsets": row_offsets,
        "shifts": [0] if swapped else shifts,
    }
    return Correlate(
        lanes=lanes,
        vectors=vectors,
        swapped=swapped,
        record=make_record(SCALARS, ARRAYS, numbers, arrays),
        taps=taps,
        block=tuple(block),
        items=stores * pieces,
        stores=stores if pieces > 1 else 0,
        partials=stores * pieces * sums if pieces > 1 else 0,
        scratch=scratch.size,
    )


def _swaps(problem: Problem, taps: int, lanes: int, tile_rows: int) -> bool:
    """Tell whether rows of taps and fine channels leave clearly less of the tiles empty."""

    def tiles(rows: int) -> int:
        return -(-rows // tile_rows) * tile_rows

    coarse, fine = problem.coarse_channels, problem.fine_channels
    return (
        padded(coarse, lanes) * tiles(taps * fine)
        < 0.9 * padded(fine, lanes) * tiles(coarse) * taps
    )


def _choose_parts(
    problem: Problem, sizes: tuple[int, int, int], tile: tuple[int, int, int], machine: Machine
) -> _Parts:
    """Return how the work is split: what costs least to pack, to keep and to add up.

    Splitting rows packs side B again for each chunk of them, splitting panels side A;
    splitting points packs nothing twice, but leaves a set of sums for each piece.  Sums are
    read and written once for every run of points, at little cost while they stay in the cache.
    ``sizes`` are rows (0 if they are taps and channels), panels and taps, ``tile`` the rows of a
    tile, the channels of a panel and the bytes of an element.
    """
    rows, panels, taps = sizes
    tile_rows, columns, item = tile
    points = problem.batch * math.prod(axis.coarse_size for axis in problem.axes)
    fine_points = problem.batch * math.prod(axis.fine_size for axis in problem.axes)
    a, b = problem.coarse_channels * points, problem.fine_channels * fine_points
    tap_rows = 0
    if not rows:
        # Single elements are packed, each where its residue goes.
        a, b, tap_rows = 4 * b, a, problem.fine_channels
    wanted = min(WORK_ITEMS, max(1, problem.flops() // SMALL_WORK))
    last = problem.axes[-1].taps
    row_tiles = -(-rows // tile_rows)
    runs = -(-points // RUN_POINTS)

    def tried() -> Iterator[tuple[float, int, _Parts]]:
        for chunk_tiles, chunk_panels in product(_parts_of(row_tiles), _parts_of(panels)):
            row_chunks = -(-row_tiles // chunk_tiles) if rows else 1
            panel_chunks = -(-panels // chunk_panels)
            rows_a_tap = tap_rows or chunk_tiles * tile_rows
            a_tap = rows_a_tap * chunk_panels * columns * item
            chunk_taps = min(max(MOST_SUMS // a_tap // last * last, last), taps)
            tap_chunks = -(-taps // chunk_taps)
            kept = a_tap * chunk_taps
            sums = problem.groups * row_chunks * panel_chunks * taps * a_tap // item
            packed = tap_chunks * (a * panel_chunks + b * row_chunks)
            split = problem.groups * row_chunks * panel_chunks * tap_chunks
            moved = sums * runs * (0.2 if kept < machine.l2 // 2 else 0.6)
            for pieces in (1, 2, 4, 8):
                if pieces > 1 and (pieces * sums * item > MOST_PARTIALS or runs < pieces):
                    continue
                parts = _Parts(pieces, chunk_taps, chunk_tiles * tile_rows, chunk_panels)
                added = pieces * sums if pieces > 1 else 0
                yield packed + moved + added, split * pieces, parts

    choices = [*tried()]
    enough = min(wanted, max(items for _, items, _ in choices))
    return min((c for c in choices if c[1] >= enough), key=lambda choice: choice[:2])[2]


def _parts_of(count: int) -> list[int]:
    """Return sizes that split a count into 1, 2, 3, 4, 6, 8, ... parts of about one size."""
    return sorted({-(-count // parts) for parts in (1, 2, 3, 4, 6, 8, 12, 16, 24) if count}) or [1]


def _choose_block(axes: list[AxisShifts], point: int, pieces: int, machine: Machine) -> list[int]:
    """Return how many points of each axis are packed at a time.

    Tiles read short runs of them, which fit the first caches; all of it may lie in the last,
    so that lines are seldom packed twice for two blocks that both read them.
    """
    sizes = [axis.coarse_size for axis in axes]
    block = list(sizes)

    def too_large() -> bool:
        extents = (size + axis.span - 1 for axis, size in zip(axes, block, strict=True))
        blocks = math.prod(-(-size // part) for size, part in zip(sizes, block, strict=True))
        return point * math.prod(extents) > machine.l3 // 16 or blocks < pieces

    while max(block) > 1 and too_large():
        shrink(block, sizes, next(d for d, size in enumerate(block) if size > 1))
    return block


def _choose_split(axes: list[AxisShifts], block: list[int], pitches: list[int]) -> int:
    """Return how many outer axes stay apart; the lines of the others become one run.

    A run goes over the points between lines too, where the coarse side is zero.
    """

    def cost(split: int) -> float:
        run = 1 + sum((block[d] - 1) * pitches[d] for d in range(split, len(axes)))
        return math.prod(block[:split]) * (run + SEGMENT)

    return min(range(len(axes)), key=cost)


@dataclass(frozen=True, slots=True)
class _Side:
    """How one side is packed."""

    numbers: dict[str, int]
    arrays: dict[str, list[int]]


def _coarse_side(axes: list[AxisShifts], split: int, block: int) -> _Side:
    """Return the block's points, with zeros between lines that are one run."""
    *outer, last = axes
    halos = [0 if d < split else axis.span - 1 for d, axis in enumerate(axes)]
    halos[-1] = 0 if split == len(outer) else last.span - 1
    points = [*range(block + halos[-1])]
    return _Side(
        {
            "size": last.coarse_size, "step": 1, "low": 0, "halo": halos[-1], "slack": 0,
            "combinations": 1, "width": 1, "contiguous": 1,
        },
        {
            "source_steps": [0] * len(outer),
            "sizes": [axis.coarse_size for axis in outer],
            "steps": [1] * len(outer),
            "lows": [0] * len(outer),
            "halos": halos[:-1],
            "residues": [0] * len(outer),
            "reads": points,
            "places": points,
        },
    )  # fmt: skip


def _fine_side(axes: list[AxisShifts], plane: int, block: int) -> _Side:
    """Return all that the block's windows cover, residue by residue."""
    *outer, last = axes
    combinations = [*product(*(axis.residues for axis in outer))]
    reach = block + last.span - 1
    width = len(last.residues)
    pairs = [(q, place) for q in range(reach) for place in range(width)]
    return _Side(
        {
            "size": last.fine_size, "step": last.stride, "low": last.low,
            "halo": last.span - 1, "slack": FAR, "combinations": len(combinations),
            "width": width, "contiguous": int(width == last.stride),
        },
        {
            "source_steps": [0] * len(outer),
            "sizes": [axis.fine_size for axis in outer],
            "steps": [axis.stride for axis in outer],
            "lows": [axis.low for axis in outer],
            "halos": [axis.span - 1 for axis in outer],
            "residues": [residue for combination in combinations for residue in combination],
            "reads": [q * last.stride + last.residues[place] for q, place in pairs],
            "places": [place * plane + q for q, place in pairs],
        },
    )  # fmt: skip


def _shift(axes: list[AxisShifts], plane: int, pitches: list[int], tap: tuple[int, ...]) -> int:
    """Return where in the packed fine side a tap's windows begin, in points."""
    combination, offset = 0, 0
    for axis, pitch, t in zip(axes, pitches, tap, strict=True):
        residue, quotient = axis.shifts[t]
        combination = combination * len(axis.residues) + residue
        offset += quotient * pitch
    return combination * plane + offset
