"""The algorithm for few written channels: products first, added up where they overlap.

Every tap and written channel is a row, every point read a column of one dense matrix product over
the channels read, so register tiles are full however few channels are written, however small the
picture is and whatever the stride and the dilation are.  Rows are then added where the relation
says, line by line.  Products of some images at a time are kept, for all workers together.

With a stride, COARSE reads points with one residue of it for each tap: taps of one residue are
multiplied by those points alone, as if they were a picture of their own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from tconv.plan.gather import Scratch, make_record
from tconv.plan.gather_blocks import beside
from tconv.plan.machine import Machine
from tconv.plan.phases import AxisPhases, even_phases
from tconv.plan.tiles import tile_rows
from tconv.problem import Operand, Problem

SCALARS = (
    "source", "target", "weights", "bias",  # addresses, filled in by each call
    "products",  # address of what all workers share, by each call
    "stage", "first", "images",  # by each round of a call: which images it takes
    "source_g", "source_c", "source_x",  # element steps, by each call
    "target_g", "target_c", "target_x",
    "run", "run_step", "run_axes",  # points that lie evenly apart, axes of such runs, by each call
    "afar",  # whether runs are touched in order before they are packed; each call finds them dense
    "ahead",  # whether points of the next work item are asked for while these are multiplied
    "outer",  # axes but the last; the batch is the first of them
    "groups", "depth", "columns",  # channels of a group: read, written
    "points", "rows", "pitch",  # of an image; taps and channels; from row to row of products
    "panels", "chunks",  # vectors of points of a work item, and how many share the rows
    "lines", "blocks", "block",  # written lines of an image, in blocks of points of a phase
    "folds",  # blocks of a work item
    "size_in", "size_out", "phases", "sums_pitch",  # the last axis
    "scratch_bases", "scratch_more", "scratch_sums", "scratch_order",
    "activate", "slope", "zeros",  # by each runner
)  # fmt: skip
"""The numbers of a record, in order."""

ARRAYS = (
    "source_steps", "target_steps",  # one for each outer axis, filled in by each call
    "run_sizes", "run_steps",  # one for each axis, filled in by each call
    "chunk_start", "chunk_rows",  # of the rows below that a work item takes
    "chunk_residues", "chunk_limits",  # and by axis: which points it reads, and how many
    "row_reads", "row_places",  # by row: where its weights begin, and its products
    # one for each outer axis
    "sizes_in", "sizes_out", "axis_phases", "axis_points", "axis_tables",
    "last_table",
    # one for each phase of each axis: which taps it has,
    "tap_start", "tap_count",
    # and by those: the rows of products before theirs, in elements, and how much further they read
    "tap_rows", "tap_offsets",
    "blank",  # zeros: vectors of them, or a table
)  # fmt: skip
"""The arrays of a record; a number tells where in the record each begins."""

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}

MIXED = (2, 3, 4, 6)  # phases whose points are mixed by whole vectors, not one by one

MULTIPLY, FOLD = range(2)  # stages of a round
ZEROS = 32  # entries: two vectors, and a table for the rows of a tile
SPARE_ROWS = 8  # entries for the rows of a last tile that there are no rows for
SLACK = 64  # elements around products that vectors at a border may read
MOST_PRODUCTS = 30 << 20  # bytes of those of one image: scratch may take 32 MB
ROUND = 2 << 20  # bytes of a round of several images
MOST_PANELS = 4  # of a work item
FAR_PANELS = 16  # likewise, where channels lie apart and come from afar: longer runs of points
ITEMS = 16  # of a stage, about
AFAR = 16  # data larger than such a part of the last cache is read from there, or further
MOST_SUMS = 4096  # elements of the block that is folded at a time


@dataclass(frozen=True, slots=True)
class Overlap:
    """All that compiled products and folds need to know, but addresses."""

    lanes: int
    vectors: int
    record: tuple[int, ...]
    taps: tuple[tuple[int, int], ...]  # of each axis: from, to
    strides: tuple[int, ...]  # of the batch and each axis: how far apart points of a residue lie
    round: int  # images
    multiplies: tuple[int, int, int]  # groups and chunks, points of an image and of a work item
    folds: tuple[int, int, int]  # groups, blocks of an image and of a work item
    shared: int  # elements for all workers together
    scratch: int  # and for one of them
    items: int  # of the first round, both stages


def products_of(problem: Problem) -> int:
    """Return how many products an image has: every point read, tap and written channel."""
    return (
        _points(problem)
        * math.prod(len(range(*_taps(axis))) for axis in even_phases(problem)[1:])
        * (problem.groups * channels_of(problem)[1])
    )


def plan_overlap(problem: Problem, machine: Machine) -> Overlap:
    """Lay out rows, rounds and tables for FINE or COARSE."""
    lanes, vectors = machine.lanes(problem.dtype), 2
    width, item = lanes * vectors, machine.vector_bytes // lanes
    axes = even_phases(problem)
    *outer, last = axes
    depth, wanted = channels_of(problem)
    taps = [_taps(axis) for axis in axes]
    counts = [stop - first for first, stop in taps]
    rows = wanted * math.prod(counts)
    points = _points(problem)
    images = max(1, min(problem.batch, ROUND // (item * rows * points * problem.groups)))
    pitch = -(-images * points // width) * width
    pitch += width * (pitch % (8 * width) == 0)
    panels = -(-images * points // width)
    large = tile_rows(machine)
    tiles = -(-rows // large)
    source = problem.groups * depth * item * math.prod(axis.size_in for axis in axes)
    afar = source > machine.l3 // AFAR
    most = FAR_PANELS if afar and not beside(problem) else MOST_PANELS
    at_once = max(1, min(most, machine.l2 // 2 // (depth * width * item)))
    at_once = max(1, min(at_once, problem.groups * panels // ITEMS))
    chunks = min(tiles, max(1, ITEMS // 4 // (problem.groups * -(-panels // at_once))))
    chunk = -(-tiles // chunks) * large
    chunk_tables = _chunk_tables(axes, taps, (chunk, wanted), (depth, pitch))
    chunks = len(chunk_tables["chunk_start"])
    lines = math.prod(axis.size_out for axis in outer[1:])
    phases = last.step_out
    longest = -(-last.size_out // phases)
    block = max(1, min(MOST_SUMS // (wanted * phases * lanes), -(-longest // lanes))) * lanes
    blocks = -(-longest // block)
    folds = max(1, images * lines * blocks * problem.groups // (2 * ITEMS))
    tables = _tap_tables(axes, taps, counts, wanted, pitch)
    lists = math.prod(max(map(len, axis.taps)) for axis in outer[1:])
    scratch = Scratch(item)
    scratch.take(at_once * depth * width)
    numbers = {
        "afar": int(afar),
        "ahead": int(afar),
        "outer": len(outer),
        "groups": problem.groups,
        "depth": depth,
        "columns": wanted,
        "points": points,
        "rows": rows,
        "pitch": pitch,
        "panels": at_once,
        "chunks": chunks,
        "lines": lines,
        "blocks": blocks,
        "block": block,
        "folds": folds,
        "size_in": _extent(last),
        "size_out": last.size_out,
        "phases": phases,
        "sums_pitch": block,
        "scratch_bases": scratch.take_table(lists),
        "scratch_more": scratch.take_table(lists),
        "scratch_sums": scratch.take(wanted * phases * block),
        "scratch_order": scratch.take_table(wanted * phases * block),
    }
    arrays = {
        "source_steps": [0] * len(outer),
        "target_steps": [0] * len(outer),
        "run_sizes": [1] * len(axes),
        "run_steps": [0] * len(axes),
        **chunk_tables,
        "sizes_in": [_extent(axis) for axis in outer],
        "sizes_out": [axis.size_out for axis in outer],
        "axis_phases": [axis.step_out for axis in outer],
        "axis_points": [math.prod(map(_extent, axes[place + 1 :])) for place in range(len(outer))],
        **tables,
        "blank": [0] * ZEROS,
    }
    groups = problem.groups
    multiplies = groups * chunks, points, at_once * width
    folded = groups, lines * blocks, folds
    return Overlap(
        lanes=lanes,
        vectors=vectors,
        record=make_record(SCALARS, ARRAYS, numbers, arrays),
        taps=tuple(taps[1:]),
        strides=tuple(axis.step_in for axis in axes),
        round=images,
        multiplies=multiplies,
        folds=folded,
        shared=groups * rows * pitch + 2 * SLACK,
        scratch=scratch.size,
        items=sum(_items(multiplies, folded, images)),
    )


def stage_items(recipe: Overlap, images: int) -> tuple[int, int]:
    """Return the work items of both stages of a round of so many images."""
    return _items(recipe.multiplies, recipe.folds, images)


def _items(
    multiplies: tuple[int, int, int], folded: tuple[int, int, int], images: int
) -> tuple[int, int]:
    parts, points, at_once = multiplies
    groups, blocks, folds = folded
    return parts * -(-images * points // at_once), groups * -(-images * blocks // folds)


def channels_of(problem: Problem) -> tuple[int, int]:
    """Return the channels of a group: read, written."""
    both = problem.coarse_channels, problem.fine_channels
    return both if problem.wanted is Operand.FINE else both[::-1]


def _points(problem: Problem) -> int:
    """Return how many points of an image are read, of one residue of the strides."""
    return math.prod(map(_extent, even_phases(problem)[1:]))


def _extent(axis: AxisPhases) -> int:
    """Return how many points of an axis have the first residue of its stride: the most."""
    return -(-axis.size_in // axis.step_in)


def _taps(axis: AxisPhases) -> tuple[int, int]:
    """Return the first tap of an axis, and the one behind the last."""
    every = [tap for phase in axis.taps for tap in phase]
    return min(every), max(every) + 1


def _chunk_tables(
    axes: Sequence[AxisPhases],
    taps: Sequence[tuple[int, int]],
    sizes: tuple[int, int],
    steps: tuple[int, int],
) -> dict[str, list[int]]:
    """Return the rows of each chunk, which have one residue of the strides, and its points.

    ``sizes`` are the rows of a chunk at most, and the channels of a tap; ``steps`` are from row
    to row of the weights and of the products.
    """
    most, wanted = sizes
    residues = []
    for axis, (first, stop) in zip(axes, taps, strict=True):
        met = dict(
            pair
            for mine, further in zip(axis.taps, axis.offsets, strict=True)
            for pair in zip(mine, further, strict=True)
        )
        # Of a FINE axis taps may meet nothing in between: their products are not added.
        residues.append([met.get(tap, 0) % axis.step_in for tap in range(first, stop)])
    classes: dict[tuple[int, ...], list[int]] = {}
    for tap, residue in enumerate(product(*residues)):
        rows = classes.setdefault(residue, [])
        rows += range(tap * wanted, (tap + 1) * wanted)
    tables: dict[str, list[int]] = {
        name: [] for name in ("chunk_start", "chunk_rows", "chunk_residues", "chunk_limits", "rows")
    }
    for residue, rows in classes.items():
        for begin in range(0, len(rows), most):
            some = rows[begin : begin + most]
            tables["chunk_start"].append(len(tables["rows"]))
            tables["chunk_rows"].append(len(some))
            tables["rows"] += (*some, *some[-1:] * SPARE_ROWS)
            tables["chunk_residues"] += residue
            tables["chunk_limits"] += (
                len(range(first, axis.size_in, axis.step_in))
                for first, axis in zip(residue, axes, strict=True)
            )
    listed = tables.pop("rows")
    read, written = steps
    tables["row_reads"] = [row * read for row in listed]
    tables["row_places"] = [row * written for row in listed]
    return tables


def _tap_tables(
    axes: Sequence[AxisPhases],
    taps: Sequence[tuple[int, int]],
    counts: Sequence[int],
    wanted: int,
    pitch: int,
) -> dict[str, list[int]]:
    """Return which taps each phase of each axis has, and where those find their products."""
    starts, sizes, rows, offsets, tables = list[int](), list[int](), list[int](), list[int](), []
    for place, axis in enumerate(axes):
        below = wanted * math.prod(counts[place + 1 :]) * pitch
        tables.append(len(starts))
        for mine, further in zip(axis.taps, axis.offsets, strict=True):
            starts.append(len(rows))
            sizes.append(len(mine))
            rows += [(tap - taps[place][0]) * below for tap in mine]
            offsets += [offset // axis.step_in for offset in further]
    return {
        "axis_tables": tables[:-1],
        "last_table": tables[-1:],
        "tap_start": starts,
        "tap_count": sizes,
        "tap_rows": rows,
        "tap_offsets": offsets,
    }
