"""Winograd's algorithm over phases, for FINE and COARSE.

The points of a block are cut into patches, a few points on each axis.  What a patch reads is
transformed once, whatever phase it writes.  Then there is one matrix product for each point
of the transform: its rows are patches, its depth is the channels read times the phases read
(COARSE with a stride), and its columns are the channels written, phase by phase (FINE).
The products of a phase are transformed back, and stored as a gather stores its sums.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from tconv.plan.gather import (
    Scratch,
    axis_numbers,
    make_record,
    outer_tables,
)
from tconv.plan.machine import Machine
from tconv.plan.tiles import panel_vectors, tile_rows
from tconv.plan.transforms import Form, growth
from tconv.plan.winograd_axis import (
    PhaseWeights,
    cut_axes,
    parts_used,
    phase_weights,
)
from tconv.plan.winograd_blocks import Volume, choose_parts, choose_pass, choose_slab, divide
from tconv.problem import Operand, Problem

SCALARS = (
    # Addresses, filled in by each call; the last one is of transformed data, if that is shared.
    "source", "target", "weights", "bias", "flags", "shared",
    "stage", "first_box", "boxes",  # what to do with which boxes, likewise
    "source_g", "source_c", "source_x",  # element steps, by each call
    "target_g", "target_c", "target_x",
    "outer",  # axes but the last; the batch is the first of them
    "groups", "chunks", "panels", "panels_a_chunk", "panels_a_pass",
    "first_panel",  # whose weights come first: of some panels at a time, filled in likewise
    "depth", "columns",  # channels of a group: read, written
    "size_in", "size_out", "step_in", "step_out", "low_in", "shift_out",  # the last axis
    "block", "begin", "end", "blocks", "phases", "span",
    "outer_phases", "most_phases",
    "slab", "slabs",  # channels that are packed and transformed together
    "slot",  # elements of one box in shared memory
    "parts", "part_pitch",  # phases read, all axes together; elements of one in a patch's row
    "row_pitch", "point_pitch",  # elements of transformed data: of a patch, of a point
    "product_pitch", "panel_pitch",  # elements of products: of a point, of a panel
    "part_segments", "part_depth",  # that are multiplied at a time, for all patches
    "group_weights",
    "nowhere", "spare", "activate", "slope", "zeros",  # the last three by each runner
    "scratch_data", "scratch_products", "scratch_sums",
    "scratch_rows", "scratch_places", "scratch_reads", "scratch_writes", "scratch_images",
    "scratch_zeros",
    "scratch_points", "scratch_targets", "scratch_lists",  # of what is read or written in place
    "scratch_nothing", "scratch_nowhere",  # what there is of arrays outside of them
)  # fmt: skip
"""The numbers of a record, in order."""

ARRAYS = (
    "source_steps", "target_steps",  # one for each outer axis, filled in by each call
    # one for each outer axis
    "sizes_in", "steps_in", "steps_out", "lows_in", "shifts_out", "outer_block",
    "begins", "ends", "outer_blocks", "axis_phases", "spans", "pitches",
    # one for each outer axis and phase of it, and one for each phase of the last axis
    "phase_low", "phase_high", "last_low", "last_high",
    # one for each axis, the last one too: points of a patch and how far apart they lie; what a
    # point adds to a place in the region and among the sums
    "patch_points", "aparts", "read_steps", "write_steps",
    # one for each spatial axis: what a neighbour in a patch adds there
    "patch_reads", "patch_writes",
    "part_reads",  # where each phase read begins in the region
    "part_places",  # the same in points of the source: one for each phase read and axis
    # one for each phase of all axes together and point: which parts are multiplied, where the
    # weights of all panels begin, and which product comes next
    "segment_start", "segment_count", "matrix_start", "matrix_next",
    "segments",
)  # fmt: skip
"""The arrays of a record; a number tells where in the record each begins."""

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}

SPARE_ROWS = 8  # entries for the rows of a last tile that there are no points for
WHOLE, TRANSFORM, MULTIPLY = range(3)  # stages: all there is to do for a box, or a half of it
LISTS = 4  # of the places of a patch's spots: read, written, summed, and of one at a border
ZEROS = 64  # entries: a panel, and a table for the rows of a tile
SHORT_POINT = 128  # channels that are packed all together where they lie side by side
LINE = 16  # elements that keep rows, points and matrices out of each other's way in caches


@dataclass(frozen=True, slots=True)
class Winograd:
    """All that a compiled Winograd transform needs to know, but addresses."""

    lanes: int
    vectors: int
    forms: tuple[Form, ...]  # of the spatial axes
    alike: tuple[bool, ...]  # whether the phases of each have the same points
    record: tuple[int, ...]  # scalars, then where arrays begin, then the arrays
    phase_weights: tuple[tuple[PhaseWeights, ...], ...]  # by phase, then part
    group_weights: int  # elements of transformed weights of one group, of one slice
    panels: int
    slice: int  # panels whose weights are there at a time; all, unless calls transform them
    block: tuple[int, ...]
    items: int  # of all boxes, from their products to what is stored
    staged: bool  # whether boxes are transformed before that, round by round
    boxes: int
    round: int  # boxes
    chunks: int
    slabs: int
    scratch: int  # elements for one worker
    shared: int  # and for all together
    multiplications: int  # of all products

    @property
    def weights_order(self) -> tuple[int, ...]:
        """What in the record tells the order of transformed weights, beside the fields."""
        entries = sum(len(part.rows) for phase in self.phase_weights for part in phase[:1])
        numbers = (self.record[FIELDS[name]] for name in ("depth", "columns", "parts"))
        begins = (self.record[FIELDS[name]] for name in ("matrix_start", "segment_count"))
        return *numbers, *(n for begin in begins for n in self.record[begin : begin + entries])


def _turns(problem: Problem) -> bool:
    """Tell whether points are read, or written, side by side."""
    return any(end.axes.endswith("x") for end in (problem.coarse_layout, problem.fine_layout))


def plan_winograd(
    problem: Problem,
    machine: Machine,
    outputs: Sequence[int],
    alike: Sequence[bool] = (),
    *,
    most: int | None = None,
) -> Winograd:
    """Lay out blocks, patches, panels and tables for FINE or COARSE.

    ``outputs`` are the points of a patch on each spatial axis, ``alike`` tells whether the phases
    of an axis have the same points.  ``most`` are the bytes of transformed weights that there is
    room for; where they are more, they come in slices of so many panels.
    """
    lanes = machine.lanes(problem.dtype)
    axes = cut_axes(problem, outputs, alike)
    depth, wanted = problem.coarse_channels, problem.fine_channels
    source = problem.coarse_layout
    if problem.wanted is Operand.COARSE:
        depth, wanted, source = wanted, depth, problem.fine_layout
    vectors = panel_vectors(machine, problem.dtype, wanted)
    width, item = lanes * vectors, machine.vector_bytes // lanes
    splits = [axis.phases for axis in axes]
    points = math.prod(axis.form.points for axis in axes)
    parts = math.prod(len(axis.parts) for axis in axes)
    part_pitch = -(-depth // lanes) * lanes
    row_pitch = parts * part_pitch
    row_pitch += LINE * (row_pitch % (8 * LINE) == 0)
    panels = -(-wanted // width)
    phases = len(splits[-1].ranges)
    outer_phases = math.prod(len(split.ranges) for split in splits[:-1])
    weights = phase_weights(axes)
    used = parts_used(axes)
    panel = len(used.parts) * depth * width * item
    each = depth * wanted * len(used.parts)
    volume = Volume(
        row_pitch * item, points, panels * panel, panels, tile_rows(machine, vectors), depth, each,
        _turns(problem),
    )  # fmt: skip
    division = divide(axes, problem.groups, volume, machine, most)
    matrices, group_weights = _matrices(
        used.counts, (outer_phases, phases, points), division.slice * depth * width
    )
    block, blocks, patches = list(division.block), list(division.blocks), division.patches
    sizes = [-(-(axis.phases.end - axis.phases.begin) // axis.unit) for axis in axes]
    last = splits[-1]
    product_pitch = (patches + 1) * width + LINE
    a_pass = choose_pass(division, points, product_pitch * item, phases, machine)
    extents = [
        axis.phases.step_in * (size - 1) + axis.span for axis, size in zip(axes, block, strict=True)
    ]
    if source.axes.endswith("x"):
        room = machine.l2 // 5, 2 * lanes
    else:
        # Channels that lie side by side are copied faster the more of them are packed together,
        # whole points fastest of all, though a slab of them may leave the second cache: what is
        # fetched ahead of a line or two is not what is read next.
        room = machine.l2 // 2, part_pitch if part_pitch <= SHORT_POINT else SHORT_POINT // 2
    slab = choose_slab(division, math.prod(extents) * item, part_pitch, lanes, room)
    slabs = -(-depth // slab)
    point_pitch = patches * row_pitch + LINE
    slot = points * point_pitch
    part_segments, part_depth = choose_parts(depth, width * item, machine)
    pitches = [slab * math.prod(extents[place + 1 :]) for place in range(len(axes))]
    written = [
        size * s.step_out if s is last else size for s, size in zip(splits, block, strict=True)
    ]
    write_steps = [width * math.prod(written[place + 1 :]) for place in range(len(axes))]
    write_steps[-1] = width * last.step_out
    scratch = Scratch(item)
    region = scratch.take(slab * math.prod(extents))
    numbers = {
        **axis_numbers(splits, block, blocks),
        "end": last.begin + sizes[-1] * axes[-1].unit,
        "span": axes[-1].span,
        "groups": problem.groups,
        "stage": WHOLE,
        "boxes": division.boxes,
        "chunks": division.chunks,
        "panels": panels,
        "panels_a_chunk": division.panels_a_chunk,
        "panels_a_pass": a_pass,
        "depth": depth,
        "columns": wanted,
        "slab": slab,
        "slabs": slabs,
        "slot": slot,
        "parts": parts,
        "part_pitch": part_pitch,
        "row_pitch": row_pitch,
        "point_pitch": point_pitch,
        "product_pitch": product_pitch,
        "panel_pitch": points * product_pitch,
        "part_segments": part_segments,
        "part_depth": part_depth,
        "group_weights": group_weights,
        "nowhere": patches * width,
        "spare": SPARE_ROWS,
        "scratch_data": scratch.take(0 if division.staged else slot),
        "scratch_products": scratch.take(phases * a_pass * points * product_pitch),
        "scratch_sums": scratch.take(math.prod(written) * width),
        "scratch_rows": scratch.take_table(patches + SPARE_ROWS),
        "scratch_places": scratch.take_table(patches + SPARE_ROWS),
        "scratch_reads": scratch.take_table(patches),
        "scratch_writes": scratch.take_table(patches),
        "scratch_images": scratch.take_table(patches),
        "scratch_zeros": scratch.take_table(ZEROS),
        "scratch_points": scratch.take_table(patches * len(axes)),
        "scratch_targets": scratch.take_table(phases * patches),
        "scratch_lists": scratch.take_table(LISTS * points),
        "scratch_nothing": scratch.take(part_pitch),
        "scratch_nowhere": scratch.take(width),
    }
    assert region == 0  # noqa: S101 - kernels find the region where scratch begins
    read_steps = [axis.phases.step_in * pitch for axis, pitch in zip(axes, pitches, strict=True)]
    arrays = {
        **outer_tables(splits, block, blocks, pitches),
        "ends": [
            axis.phases.begin + size * axis.unit
            for axis, size in zip(axes[:-1], sizes, strict=False)
        ],
        "spans": [axis.span for axis in axes[:-1]],
        "patch_points": [axis.form.outputs for axis in axes],
        "aparts": [axis.apart for axis in axes],
        "read_steps": read_steps,
        "write_steps": write_steps,
        "patch_reads": [
            axis.apart * step for axis, step in zip(axes[1:], read_steps[1:], strict=True)
        ],
        "patch_writes": [
            axis.apart * step for axis, step in zip(axes[1:], write_steps[1:], strict=True)
        ],
        "part_reads": [
            sum(part * pitch for part, pitch in zip(combination, pitches, strict=True))
            for combination in product(*(axis.parts for axis in axes))
        ],
        "part_places": [
            part for parts in product(*(axis.parts for axis in axes)) for part in parts
        ],
        "segment_start": list(used.starts),
        "segment_count": list(used.counts),
        "segments": [part * part_pitch for part in used.parts],
        **matrices,
    }
    return Winograd(
        lanes=lanes,
        vectors=vectors,
        forms=tuple(axis.form for axis in axes[1:]),
        alike=tuple(alike),
        record=make_record(SCALARS, ARRAYS, numbers, arrays),
        phase_weights=weights,
        group_weights=group_weights,
        panels=panels,
        slice=division.slice,
        block=tuple(block),
        items=division.boxes * division.chunks,
        staged=division.staged,
        boxes=division.boxes,
        round=division.round,
        chunks=division.chunks,
        slabs=slabs,
        scratch=scratch.size,
        shared=division.round * slot if division.staged else 0,
        multiplications=problem.groups
        * each
        * math.prod(size * axis.apart for size, axis in zip(sizes, axes, strict=True)),
    )


def error_bounds(problem: Problem, recipe: Winograd) -> tuple[float, float]:
    """Return how far off a result can be, and the same for direct sums.

    Both are multiples of the largest datum times the sum of the absolute weights that a
    result meets: half a unit of float32 for each term of a sum, or step of a transform.
    """
    unit = 2.0**-24
    depth = problem.coarse_channels if problem.wanted is Operand.FINE else problem.fine_channels
    parts = len(recipe.phase_weights[0])
    taps = max(
        sum(tap is not None for part in phase for tap in part.taps)
        for phase in recipe.phase_weights
    )
    roundings = depth * parts + 1 + sum(2 * form.points for form in recipe.forms)
    return unit * roundings * math.prod(map(growth, recipe.forms)), unit * depth * taps


def _matrices(
    used: Sequence[int], counts: tuple[int, int, int], row: int
) -> tuple[dict[str, list[int]], int]:
    """Return where weights begin, in the order in which they are multiplied, and what is next.

    ``used`` are how many parts are multiplied, ``counts`` those of outer phases, phases of the
    last axis and points; all panels have ``row`` elements for each part.  Also returns how many
    elements all of them take.  Between them is a line: where channels are a power of two, the
    points of a transform would all be written to the same few places of a cache.
    """
    outer, phases, points = counts
    starts, following = [0] * len(used), [*range(len(used))]
    begin, before = 0, 0
    for first in range(0, outer * phases, phases):
        for point in range(points):
            for entry in range(first * points + point, (first + phases) * points, points):
                starts[entry] = begin
                if used[entry]:
                    begin += used[entry] * row + LINE
                    following[before], before = entry, entry
    return {"matrix_start": starts, "matrix_next": following}, begin
