"""The algorithm for WEIGHTS: every tap's product over blocks of points.

On one axis the taps whose ``dilation * tap`` leaves the same rest (residue) when divided by
the stride read fine points of one residue only, each ``quotient`` points further.  Both sides
are packed so: the fine one by residues, so that what a tap reads for neighbouring coarse points
are neighbours, and a whole picture becomes one long run.

Side A is read one element at a time and side B by vectors of channels.  A is the coarse side
and a row is a channel; where the fine side has too few channels to fill vectors the sides
change places, and a row is a tap and a channel.  Of many small groups, an element of either
side is a vector of groups.
"""

import math
from dataclasses import dataclass, replace
from itertools import product

from tconv.plan.correlate_blocks import choose_block, choose_split
from tconv.plan.correlate_form import choose_form, form_times
from tconv.plan.gather import Scratch, make_record
from tconv.plan.machine import Machine
from tconv.plan.parts import PAGE, Parts, choose_parts
from tconv.plan.shifts import AxisShifts, axis_line, axis_shifts
from tconv.plan.sides import (
    FAR,
    all_shifts,
    coarse_side,
    fine_side,
    pitches_of,
    runs_on,
    tap_meets,
)
from tconv.plan.tiles import tile_rows
from tconv.problem import Operand, Problem, numpy_dtype

SIDE_SCALARS = (
    "g", "c", "x",  # element steps, by each call
    "size", "step", "low", "scale", "halo", "slack",  # the last axis
    "combinations", "width", "contiguous", "plane", "channels", "most",
)  # fmt: skip
SIDE_ARRAYS = (
    "source_steps",  # one for each outer axis, filled in by each call
    "sizes", "steps", "lows", "halos", "pitches",  # one for each outer axis
    "residues",  # one for each combination and outer axis
    "last_residues",  # of the last axis
)  # fmt: skip

SCALARS = (
    "side_a", "side_b", "target", "zeros", "flag", "common",  # addresses, filled in by each call
    *(f"a_{name}" for name in SIDE_SCALARS),
    *(f"b_{name}" for name in SIDE_SCALARS),
    "a_beside", "a_next",  # channels that lie side by side; elements from point to point
    "target_g", "target_row", "target_column", "target_x", "tap_run", "stream",  # by each call
    "outer",  # axes but the last; the batch is the first of them
    "split",  # outer axes whose lines are not one run
    "swapped", "groups", "taps", "rows", "columns", "panels", "wide_panels", "run_points",
    "pieces", "tap_chunks", "chunk_taps", "row_chunks", "chunk_rows",
    "panel_chunks", "chunk_panels",
    "block_tiles", "block_panels", "panel_sums", "sums", "sums_step",
    "shared", "shared_b", "pack_a", "pack_b", "pack_a_chunks", "pack_b_chunks",
    "plane", "block", "end", "blocks", "all_blocks",
    "scratch_b", "scratch_sums", "scratch_run", "scratch_a_table", "scratch_b_table",
    "scratch_reads", "scratch_places",
)  # fmt: skip
"""The numbers of a correlation's record, in order."""

ARRAYS = (
    *(f"a_{name}" for name in SIDE_ARRAYS),
    *(f"b_{name}" for name in SIDE_ARRAYS),
    "target_taps",  # one for each tap, filled in by each call
    "outer_block", "ends", "outer_blocks",  # one for each outer axis
    "row_offsets", "shifts",
    "meets_from", "meets_to",  # of each tap: planes, lines and points
)  # fmt: skip
"""The arrays of a correlation's record; a number tells where in the record each begins."""

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}

CLOSE = 32  # bytes from point to point of a line that tiles do not notice
OFTEN = 200  # products with an element that make up for packing it
MOST_APART = 128  # bytes from point to point of a line: each takes a place in the first cache
MOST_SPARE = 4  # neighbours that are packed for one that is read
STREAM = 8  # parts of the last cache that weights may take before they are written past it
PACK_CHANNELS = 48  # of a side that a work item packs for all others: whole tiles and panels


@dataclass(frozen=True, slots=True)
class Correlate:
    """All that a compiled correlation needs to know, but addresses."""

    lanes: int
    vectors: int
    swapped: bool
    groups: int  # that the lanes of a vector are; with one they are channels
    record: tuple[int, ...]
    taps: tuple[tuple[int, ...], ...]
    block: tuple[int, ...]
    packs: int  # work items that pack both sides for all others; 0 where each packs its own
    items: int
    stores: int  # work items of the last step, where pieces are added; 0 for none
    common: int  # elements that all workers see: both sides, or the sums of all pieces
    scratch: int
    streamed: bool  # whether weights are written past the caches where taps lie side by side


def plan_correlate(  # noqa: PLR0915 - every number of the record, once
    problem: Problem, machine: Machine
) -> Correlate:
    """Lay out blocks, work items and tables for WEIGHTS."""
    lanes, vectors = machine.lanes(problem.dtype), 2
    columns, item, height = lanes * vectors, machine.vector_bytes // lanes, tile_rows(machine)
    taps = tuple(product(*(range(axis.taps) for axis in problem.axes)))
    axes, fine_points, along = _read(problem, item)
    fine_planes = math.prod(len(axis.residues) for axis in axes)
    runs = runs_on(axes[-1]), along > 0
    form = choose_form(problem, fine_points, (lanes, height), runs)
    swapped, together = form.swapped, form.groups
    # Channels of side A that lie side by side.
    beside = 1 if swapped or together > 1 else height
    if swapped and along:
        beside, axes[-1] = along, axis_line(problem.axes[-1])
        fine_planes = math.prod(len(axis.residues) for axis in axes)
    groups = -(-problem.groups // together)
    panel = columns // together
    # What rows are made of, and what vectors run along.
    rows, wide = problem.coarse_channels, problem.fine_channels
    if swapped:
        rows, wide = wide, rows
    panels = -(-wide // panel)
    parts = choose_parts(
        problem,
        (0 if swapped else rows, panels, len(taps), fine_points),
        (height, panel, item),
        machine,
        together,
    )
    if swapped:
        parts = replace(parts, chunk_rows=rows)
    held = [parts.chunk_rows if not swapped else rows, parts.chunk_panels * panel]
    if swapped:
        held.reverse()
    coarse_channels, fine_channels = held
    coarse_point = item * together * coarse_channels
    fine_point = item * together * fine_channels * fine_planes
    block = [axis.coarse_size for axis in axes]
    if not parts.shared:
        sizes = coarse_point, fine_point
        block = choose_block(axes, sizes, parts.pieces, (machine.l2 // 2, machine.l3 // 16))
    blocks = [-(-axis.coarse_size // size) for axis, size in zip(axes, block, strict=True)]
    fine_pitches = pitches_of(axis.extent(size) for axis, size in zip(axes, block, strict=True))
    plane = fine_pitches[0] * block[0]
    met = math.prod(axis.meetings() / (axis.taps * axis.coarse_size) for axis in problem.axes)
    split = choose_split(axes, block, [*fine_pitches, 1], 1 if swapped else met)
    coarse = coarse_side(axes, split, block)
    fine = fine_side(axes, block, planes=swapped)
    a, b = (fine, coarse) if swapped else (coarse, fine)
    a_points, b_points = (
        side.arrays["pitches"][0] * block[0] * side.numbers["combinations"] * side.numbers["width"]
        for side in (a, b)
    )
    # Rows that lie a multiple of a page apart would meet in few cache sets.
    a_plane = -(-(a_points * beside * together + 1) // 32) * 32 + 16
    b_plane = (b_points + 1) * columns
    meets = [0] * 3 * len(taps), [FAR] * 3 * len(taps)
    if not swapped and split == len(axes) - 1:
        meets = tap_meets(problem.axes)
    shifts = all_shifts(axes, plane, [*fine_pitches, 1])
    row_offsets = _row_offsets(
        shifts if swapped else None, rows, (height, beside, a_plane, parts.chunk_rows)
    )
    tile = height * columns
    rows_an_item = parts.chunk_taps * rows if swapped else parts.chunk_rows
    tiles_an_item = -(-rows_an_item // height)
    run_points = max(1, machine.l1 // 2 // (columns * item))
    if together > 1:
        # All rows of a run stay in the cache while taps go by.
        row_points = parts.chunk_rows * together
        run_points = max(16, machine.l1 * 3 // 4 // ((row_points + columns) * item))
    block_tiles, block_panels, panel_sums = tiles_an_item, 1, tiles_an_item * tile
    if not swapped:
        block_tiles, block_panels = _sum_block(
            tiles_an_item, parts, (height, columns, item), run_points, machine
        )
        panel_sums = block_tiles * tile * parts.chunk_taps
    sums_step = block_panels * panel_sums
    pieces = min(parts.pieces, math.prod(blocks))
    kept = math.prod(blocks) > 1
    sums = sums_step
    if kept:
        sums *= -(-parts.chunk_panels // block_panels) * -(-tiles_an_item // block_tiles)
    chunks = {
        "tap_chunks": -(-len(taps) // parts.chunk_taps),
        "row_chunks": 1 if swapped else -(-rows // parts.chunk_rows),
        "panel_chunks": -(-panels // parts.chunk_panels),
    }
    stores = groups * math.prod(chunks.values())
    weights = problem.groups * problem.coarse_channels * problem.fine_channels * len(taps)
    whole = not swapped and together == 1 and chunks["tap_chunks"] == 1
    streamed = whole and weights * numpy_dtype(problem.dtype).itemsize > machine.l3 // STREAM
    scratch = Scratch(item)
    a_tiles = -(-(rows if swapped else parts.chunk_rows) // beside)
    scratch.take(0 if parts.shared else a_tiles * a_plane)
    segments = math.prod(block[:split])
    points = max(side.points for side in (a, b))
    numbers = {
        **{f"a_{name}": value for name, value in a.numbers.items()},
        **{f"b_{name}": value for name, value in b.numbers.items()},
        "a_plane": a_plane,
        "b_plane": b_plane,
        "a_channels": rows,
        "b_channels": wide,
        "a_beside": beside,
        "a_next": (axes[-1].scale if swapped else 1) * beside * together,
        "a_most": rows if swapped else parts.chunk_rows,
        "b_most": parts.chunk_panels * panel,
        "outer": len(axes) - 1,
        "split": split,
        "swapped": int(swapped),
        "groups": problem.groups,
        "taps": len(taps),
        "rows": rows,
        "columns": wide,
        "panels": panels,
        "wide_panels": panels - (0 < wide % panel <= panel // vectors),
        "run_points": run_points,
        "pieces": pieces,
        **chunks,
        "chunk_taps": parts.chunk_taps,
        "chunk_rows": parts.chunk_rows,
        "chunk_panels": parts.chunk_panels,
        "block_tiles": block_tiles,
        "block_panels": block_panels,
        "panel_sums": panel_sums,
        "sums": sums,
        "sums_step": sums_step if kept else 0,
        **_shared(parts, (rows, wide), (a_plane, b_plane), (beside, panel), together),
        "plane": plane,
        "block": block[-1],
        "end": axes[-1].coarse_size,
        "blocks": blocks[-1],
        "all_blocks": math.prod(blocks),
        "scratch_b": scratch.take(0 if parts.shared else parts.chunk_panels * b_plane),
        "scratch_sums": scratch.take(sums if pieces == 1 else 0),
        "scratch_run": scratch.take(streamed * block_panels * columns * parts.chunk_taps),
        "scratch_a_table": scratch.take_table(segments),
        "scratch_b_table": scratch.take_table(segments),
        "scratch_reads": scratch.take_table(points),
        "scratch_places": scratch.take_table(points),
    }
    arrays = {
        **{f"a_{name}": value for name, value in a.arrays.items()},
        **{f"b_{name}": value for name, value in b.arrays.items()},
        "target_taps": [0] * len(taps),
        "outer_block": block[:-1],
        "ends": [axis.coarse_size for axis in axes[:-1]],
        "outer_blocks": blocks[:-1],
        "row_offsets": row_offsets,
        "shifts": [0] if swapped else shifts,
        "meets_from": meets[0],
        "meets_to": meets[1],
    }
    packs = groups * (numbers["pack_a_chunks"] + numbers["pack_b_chunks"])
    return Correlate(
        lanes=lanes,
        vectors=vectors,
        swapped=swapped,
        groups=together,
        record=make_record(SCALARS, ARRAYS, numbers, arrays),
        taps=taps,
        block=tuple(block),
        packs=packs if parts.shared else 0,
        items=stores * pieces,
        stores=stores if pieces > 1 else 0,
        common=groups * numbers["shared"] + (stores * pieces * sums if pieces > 1 else 0),
        scratch=scratch.size,
        streamed=streamed,
    )


def estimate_correlate(problem: Problem, machine: Machine) -> float:
    """Return about how long a correlation takes, to compare machines by."""
    lanes = machine.lanes(problem.dtype)
    axes, points, along = _read(problem, machine.vector_bytes // lanes)
    runs = runs_on(axes[-1]), along > 0
    return min(form_times(problem, points, (lanes, tile_rows(machine)), runs).values())


def _read(problem: Problem, item: int) -> tuple[list[AxisShifts], int, int]:
    """Return the axes, the fine points that are packed, and the channels that lie along them."""
    batch = AxisShifts(problem.batch, problem.batch, 1, 0, (0,), ((0, 0),), 1)
    axes = [batch, *map(axis_shifts, problem.axes[:-1]), _last_axis(problem)]
    points = math.prod(len(axis.residues) * axis.extent(axis.coarse_size) for axis in axes)
    return axes, points, _channels_along(problem, axes[-1], points, item)


def _last_axis(problem: Problem) -> AxisShifts:
    """Return the axis whose points lie side by side, if any do.

    Vectors of neighbours are packed in less time than the few of them that any tap reads.
    """
    axis = problem.axes[-1]
    read = axis_shifts(axis)
    some = read.stride > len(read.residues) >= read.stride / MOST_SPARE
    if some and str(problem.layout(Operand.FINE)).endswith("x"):
        return axis_shifts(axis, all_residues=True)
    return read


def _channels_along(problem: Problem, last: AxisShifts, fine_points: int, item: int) -> int:
    """Return how many channels each point of a line has, packed as it lies; 0 where it is not.

    Rows of taps may be read from there if points lie close, and if most of them are read.  Others
    are packed by residue if there is enough to do with each.
    """
    among = str(problem.layout(Operand.FINE)).endswith("f")
    along = problem.fine_channels if among else 1
    dense = MOST_SPARE * len(last.residues) >= last.stride
    apart = last.stride * along * item
    points = problem.batch * math.prod(axis.coarse_size * axis.taps for axis in problem.axes)
    rare = problem.coarse_channels * points <= OFTEN * fine_points
    return along if dense and apart <= (MOST_APART if rare else CLOSE) else 0


def _sum_block(
    tiles: int, parts: Parts, tile: tuple[int, int, int], run_points: int, machine: Machine
) -> tuple[int, int]:
    """Return how many tiles of rows and panels are summed together: as many as stay in the cache.

    Panels whose weights fill a page are stored together.
    """
    height, columns, item = tile
    most = machine.l2 // 4 // (parts.chunk_taps * height * columns * item)
    page = PAGE // (parts.chunk_taps * columns * item)
    panels = min(max(page, 1), max(most, 1), parts.chunk_panels)
    most = min(most // panels, machine.l2 // 4 // (run_points * height * item))
    # Of about one size: a panel that is read for one tile only takes longer to come than to sum.
    blocks = -(-4 * tiles // (5 * max(most, 1)))
    return -(-tiles // blocks), panels


def _row_offsets(
    shifts: list[int] | None, rows: int, sizes: tuple[int, int, int, int]
) -> list[int]:
    """Return where in side A the rows of a work item begin: in planes by shifts, or in tiles."""
    height, beside, a_plane, chunk_rows = sizes
    if shifts is not None:
        here = [divmod(channel, beside) for channel in range(rows)]
        offsets = [s * beside + tile * a_plane + row for s in shifts for tile, row in here]
    else:
        here = [divmod(channel % chunk_rows, beside) for channel in range(rows)]
        offsets = [tile * a_plane + row for tile, row in here]
    return offsets + offsets[-1:] * height  # rows of a last tile that there are none for


def _shared(
    parts: Parts,
    channels: tuple[int, int],
    planes: tuple[int, int],
    widths: tuple[int, int],
    together: int,
) -> dict[str, int]:
    """Return how both sides are packed for all work items; zeros where each packs its own."""
    if not parts.shared:
        names = "shared", "shared_b", "pack_a", "pack_b", "pack_a_chunks", "pack_b_chunks"
        return dict.fromkeys(names, 0)
    sizes = [
        -(-count // width) * plane
        for count, width, plane in zip(channels, widths, planes, strict=True)
    ]
    many = [-(-PACK_CHANNELS // together // width) * width for width in widths]
    counts = [-(-count // most) for count, most in zip(channels, many, strict=True)]
    return {
        "shared": sum(sizes), "shared_b": sizes[0], "pack_a": many[0], "pack_b": many[1],
        "pack_a_chunks": counts[0], "pack_b_chunks": counts[1],
    }  # fmt: skip
