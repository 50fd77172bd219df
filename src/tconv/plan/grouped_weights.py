"""The algorithm for WEIGHTS of many small groups: the lanes of a vector are groups.

Every work item takes one part of the points and some panels, and adds up sums of its own;
the parts, which depend on the problem alone, are added in order when all are done.
"""

import math
from dataclasses import dataclass
from itertools import product

from tconv.plan.blocks import shrink
from tconv.plan.gather import Scratch, make_record
from tconv.plan.grouped import FEW_PANELS, Tap, in_place, spread
from tconv.plan.machine import Machine
from tconv.plan.phases import AxisPhases, axis_phases, batch_phases
from tconv.plan.stretches import taps_apart
from tconv.problem import Problem

SCALARS = (
    "source", "coarse", "target", "flag", "common",  # addresses, filled in by each call
    "source_g", "source_c", "source_x", "coarse_g", "coarse_c", "coarse_x",  # by each call
    "target_g", "target_row", "target_column", "target_x", "tap_run",  # by each call
    "outer", "groups", "panels", "panels_a_chunk", "chunks", "parts", "depth", "rows", "taps",
    "size_in", "step_in", "low_in", "span", "block", "end", "blocks", "all_blocks",
    "width", "outer_count", "last_kind", "last_piece", "last_count",
    "far",  # whether arrays are too large to be in the last cache
    "scratch_coarse", "scratch_outer", "scratch_table",
)  # fmt: skip
"""The numbers of a record, in order."""

ARRAYS = (
    "source_steps", "coarse_steps",  # one for each outer axis, filled in by each call
    "target_taps",  # one for each tap, filled in by each call
    "sizes_in", "steps_in", "lows_in", "outer_block", "ends", "outer_blocks", "spans",
    "pitches", "coarse_pitches",
    "outer_offsets",  # by tap of the outer axes, one for each axis
    "last_offsets",  # by tap of the last axis
)  # fmt: skip
"""The arrays of a record; a number tells where each begins."""

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}

KINDS = ((1, 0), (2, 1), (3, 1), (4, 1), (5, 1), (7, 1), (3, 2), (4, 2), (5, 2))
"""Taps of a segment, and how many of them lie between two points; the first takes any."""

MOST_POINT = 128  # bytes of one packed point: whole cache lines, but not many
MANY_ITEMS = 16  # enough to keep workers busy to the end
KEPT = 4  # parts of the last cache: a smaller array may still be in one of them
SMALL_ITEM = 500_000  # flops that are worth sums of their own, of lanes without a group too


@dataclass(frozen=True, slots=True)
class GroupedWeights:
    """All that the compiled weights of grouped layers need to know, but addresses."""

    lanes: int
    record: tuple[int, ...]
    taps: tuple[Tap, ...]
    panels: int
    parts: int
    block: tuple[int, ...]
    items: int
    stores: int  # work items of the last step, where parts are added; 0 for none
    common: int  # elements that all workers see: the sums of all parts
    scratch: int


def plan_grouped_weights(problem: Problem, machine: Machine) -> GroupedWeights:
    """Lay out blocks, parts and panels of groups for WEIGHTS."""
    lanes = machine.lanes(problem.dtype)
    item = machine.vector_bytes // lanes
    vector = lanes * item
    axes = [batch_phases(problem.batch)]
    axes += (axis_phases(axis, problem.wanted) for axis in problem.axes)
    *outer, last = axes
    depth, rows = problem.fine_channels, problem.coarse_channels
    taps = tuple(product(*(range(axis.taps) for axis in problem.axes)))
    panels = -(-problem.groups // lanes)
    direct = in_place(problem, lanes)
    a_chunk = MOST_POINT // (vector * max(depth, rows))
    if direct:
        a_chunk = max(machine.l1 // 2 // (vector * len(taps)), FEW_PANELS)
    chunks = -(-panels // max(1, a_chunk))
    a_chunk = -(-panels // chunks)
    block = _choose_block(axes, (a_chunk * depth * vector, a_chunk * rows * vector), machine)
    blocks = [-(-axis.size_out // size) for axis, size in zip(axes, block, strict=True)]
    all_blocks = math.prod(blocks)
    done = problem.flops() // problem.groups * panels * lanes
    parts = choose_parts(done, chunks, all_blocks)
    extents = [
        axis.step_in * (size - 1) + axis.span for axis, size in zip(axes, block, strict=True)
    ]
    width = spread(a_chunk * lanes, 64 // item)
    kind = _choose_kind(last)
    combinations = list(product(*(axis.offsets[0] for axis in outer)))
    scratch = Scratch(item)
    scratch.take(depth * width * math.prod(extents))
    numbers = {
        "outer": len(outer),
        "groups": problem.groups,
        "panels": panels,
        "panels_a_chunk": a_chunk,
        "chunks": chunks,
        "parts": parts,
        "depth": depth,
        "rows": rows,
        "taps": len(taps),
        "size_in": last.size_in,
        "step_in": last.step_in,
        "low_in": last.low,
        "span": last.span,
        "block": block[-1],
        "end": last.size_out,
        "blocks": blocks[-1],
        "all_blocks": all_blocks,
        "width": width,
        "outer_count": len(combinations),
        "last_kind": kind,
        "last_piece": KINDS[kind][0],
        "last_count": len(last.offsets[0]),
        "far": int(problem.bytes() > machine.l3 // KEPT),
        "scratch_coarse": scratch.take(rows * width * math.prod(block)),
        "scratch_outer": scratch.take_table(2 * len(combinations)),
        "scratch_table": scratch.take_table(2 * len(taps)),
    }
    places = range(len(outer))
    arrays = {
        "source_steps": [0] * len(outer),
        "coarse_steps": [0] * len(outer),
        "target_taps": [0] * len(taps),
        "sizes_in": [axis.size_in for axis in outer],
        "steps_in": [axis.step_in for axis in outer],
        "lows_in": [axis.low for axis in outer],
        "outer_block": block[:-1],
        "ends": [axis.size_out for axis in outer],
        "outer_blocks": blocks[:-1],
        "spans": [axis.span for axis in outer],
        "pitches": [depth * width * math.prod(extents[d + 1 :]) for d in places],
        "coarse_pitches": [rows * width * math.prod(block[d + 1 :]) for d in places],
        "outer_offsets": [offset for combination in combinations for offset in combination],
        "last_offsets": list(last.offsets[0]),
    }
    return GroupedWeights(
        lanes=lanes,
        record=make_record(SCALARS, ARRAYS, numbers, arrays),
        taps=taps,
        panels=panels,
        parts=parts,
        block=tuple(block),
        items=chunks * parts,
        stores=panels if parts > 1 else 0,
        common=parts * panels * depth * rows * len(taps) * lanes,
        scratch=scratch.size,
    )


def _choose_kind(axis: AxisPhases) -> int:
    """Return the kernel for the taps of the last axis: one that reads shared points once."""
    taps, apart = len(axis.offsets[0]), taps_apart(axis)
    found = [
        kind
        for kind, (piece, ratio) in enumerate(KINDS)
        if ratio and apart and axis.step_in == ratio * apart and taps % piece == 0
    ]
    return max(found, key=lambda kind: KINDS[kind][0], default=0)


def choose_parts(done: int, chunks: int, blocks: int) -> int:
    """Return into how many parts the points are split: whatever the number of threads."""
    worth = max(1, done // SMALL_ITEM)
    return max(1, min(blocks, -(-MANY_ITEMS // chunks), worth))


def _choose_block(axes: list[AxisPhases], points: tuple[int, int], machine: Machine) -> list[int]:
    """Return how many points of each axis are taken at a time: long lines, a third of L2."""
    sizes = [axis.size_out for axis in axes]
    block = list(sizes)
    fine, coarse = points

    def too_large() -> bool:
        extents = [a.step_in * (b - 1) + a.span for a, b in zip(axes, block, strict=True)]
        return fine * math.prod(extents) + coarse * math.prod(block) > machine.l2 // 3

    while max(block) > 1 and too_large():
        shrink(block, sizes, next(d for d, size in enumerate(block) if size > 1))
    return block
