"""The algorithm for many small groups, FINE or COARSE: the lanes of a vector are groups.

A depthwise layer multiplies every channel by weights of its own, so neighbouring channels
fill a vector and no matrix is needed.  A panel is one vector of groups; the last panel ends
with the last group and may compute some groups of the one before again, to the same bits.

Where groups lie side by side in both arrays, kernels read and write them in place and leave
out what falls outside, unless packing them takes less time.  Otherwise the region that a block
reads is packed, zeros around it.
"""

import math
from dataclasses import dataclass
from itertools import product

from tconv.plan.blocks import first_items
from tconv.plan.gather import (
    Scratch,
    axis_numbers,
    make_record,
    outer_tables,
)
from tconv.plan.group_blocks import choose_block, choose_lines, most_taps
from tconv.plan.group_packing import STRAIGHT_POINT, packed_first, straight_lines
from tconv.plan.machine import Machine
from tconv.plan.phases import EVERY, AxisPhases, all_phases, needed_residues
from tconv.plan.stretches import (
    ANY,
    ROWS,
    Kind,
    Stretch,
    choose_kind,
    find_stretches,
    taps_apart,
)
from tconv.problem import Operand, Problem

SCALARS = (
    "source", "target", "weights", "bias",  # addresses, filled in by each call
    "source_g", "source_c", "source_x",  # element steps, by each call
    "target_g", "target_c", "target_x",
    "outer", "groups", "panels", "panels_a_chunk", "chunks", "depth", "columns",
    "size_in", "size_out", "step_in", "step_out", "low_in", "shift_out",  # the last axis
    "block", "begin", "end", "blocks", "phases", "span",
    "outer_phases", "panel_weights", "width", "stage", "together", "apart", "stretches",
    "far",  # whether arrays are too large for the last cache
    "stream",  # whether results are written past it, as far as each call's array allows it
    "straight",  # whether sums of packed points are written where they belong, likewise
    "most_phases", "scratch_sums", "scratch_outer",
    "activate", "slope", "zeros",  # an activation's address, parameter and bias, by the runner
)  # fmt: skip
"""The numbers of a record of grouped layers, in order."""

ARRAYS = (
    "source_steps", "target_steps",  # one for each outer axis, filled in by each call
    "sizes_in", "steps_in", "steps_out", "lows_in", "shifts_out", "outer_block",
    "begins", "ends", "outer_blocks", "axis_phases", "spans", "pitches",
    "phase_low", "phase_high", "last_low", "last_high",
    "phase_weights",  # one for each phase of all axes together
    # one for each phase of all outer axes together, and its taps' offsets on each axis
    "outer_start", "outer_count", "outer_offsets",
    "row_start", "table",  # two for each row of taps: where in the packed region, and its number
    "last_kind",  # one for each phase of the last axis: which kernel sums packed points
    # one for each stretch: its points, and which kernels sum them where they lie
    "stretch_low", "stretch_high", "stretch_start", "stretch_count",
    "kind", "kind_start", "kind_count",  # of kernels: which of the meetings they sum
    "packed_meetings", "meetings",  # what points meet: by phase of the last axis; by kernel
    "kernels",  # addresses, by kind and by rows of taps that are unrolled, filled in by each call
)  # fmt: skip
"""The arrays of a record of grouped layers; a number tells where each begins."""

MEETING = ("offset", "phase", "taps", "weights", "row_weights")
"""The numbers of a meeting: where it reads, and where the weights of its first tap lie."""

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}

FLOP = 3  # what one takes, in flops of a matrix product
MOST_POINT = 128  # bytes of one packed point: whole cache lines, but not many
FEW_PANELS = 8  # that a work item takes in place: whole cache lines
MOST_TOGETHER = 8192  # bytes that kernels write in turns
MOST_LINES = 5  # rows of taps that kernels unroll
STREAM = 2  # parts of the last cache; what passes through more is not kept for a reader

PAIRED = "bfloat16"
"""Read and written in place two panels at a time: even groups are one of them, odd ones the other.

Two bfloat16 side by side are the upper halves of two float32, so that neither widening nor
rounding them takes a shuffle.  Weights are packed both ways: one after the other panel, then in
pairs.
"""

Tap = tuple[int, ...]
Run = tuple[tuple[Tap, ...], ...]  # the taps of a phase: of the outer axes, of the last one


@dataclass(frozen=True, slots=True)
class Grouped:
    """All that a compiled grouped layer needs to know, but addresses."""

    lanes: int
    record: tuple[int, ...]
    kinds: tuple[Kind, ...]  # of kernels, in the order that the record numbers them
    windows: tuple[int, ...]  # how many rows of taps phases have, few of them
    runs: tuple[Run, ...]  # one for each phase, in the order that their weights are packed
    panels: int
    panel_weights: int  # elements of packed weights of one panel
    packs: bool  # though groups lie side by side
    block: tuple[int, ...]
    items: int
    scratch: int


def plan_grouped(problem: Problem, machine: Machine, *, packs: bool | None = None) -> Grouped:
    """Lay out blocks, panels of groups and tables for FINE or COARSE.

    ``packs`` tells whether groups that lie side by side are packed all the same; None: if that
    takes less time.
    """
    lanes = machine.lanes(problem.dtype)
    item = machine.vector_bytes // lanes
    vector = lanes * item
    axes = all_phases(problem)
    depth, wanted = problem.coarse_channels, problem.fine_channels
    if problem.wanted is Operand.COARSE:
        depth, wanted = wanted, depth
    panels = -(-problem.groups // lanes)
    beside = in_place(problem, lanes)
    packs = beside and (packed_first(problem, axes, machine) if packs is None else packs)
    direct = beside and not packs
    taps = math.prod(axis.taps for axis in problem.axes)
    far = problem.bytes() > machine.l3 // STREAM
    most = (STRAIGHT_POINT if packs else MOST_POINT) // (vector * max(depth, wanted))
    if direct:
        # Whole points where they come from memory, which is read best from one end to the other.
        most = max((machine.l2 // 4 if far else machine.l1 // 2) // (vector * taps), FEW_PANELS)
    chunks, a_chunk = _chunks(problem, panels, most)
    if direct:
        items = chunks, first_items(problem, FLOP)
        block = choose_lines(axes, a_chunk * vector, items, machine)
    else:
        points = a_chunk * depth * vector, a_chunk * wanted * vector
        block = choose_block(axes, points, wanted * vector, chunks, machine)
    blocks = [-(-(axis.end - axis.begin) // size) for axis, size in zip(axes, block, strict=True)]
    extents = [
        axis.step_in * (size - 1) + axis.span for axis, size in zip(axes, block, strict=True)
    ]
    width = spread(a_chunk * lanes, 64 // item)
    pitches = [depth * width * math.prod(extents[place + 1 :]) for place in range(len(axes))]
    last = axes[-1]
    stretches = () if packs else find_stretches(last)
    kinds = _all_kinds(last, stretches)
    arrays, runs = _phase_tables(axes, pitches, width, (depth, wanted, lanes))
    arrays |= _stretch_tables(last, stretches, kinds, lanes)
    line = last.step_out * (block[-1] + ROWS - 1) * wanted
    stage = min(a_chunk, max(1, machine.l1 // 2 // (line * vector)))
    scratch = Scratch(item)
    scratch.take(depth * width * (math.prod(extents) + (ROWS - 1) * last.step_in))
    rows = math.prod(map(most_taps, axes[:-1]))
    panel_weights = sum(len(run) * len(run[0]) for run in runs if run) * depth * wanted * lanes
    numbers = {
        "groups": problem.groups,
        "panels": panels,
        "panels_a_chunk": a_chunk,
        "chunks": chunks,
        "depth": depth,
        "columns": wanted,
        **axis_numbers(axes, block, blocks),
        "panel_weights": panel_weights,
        "width": width,
        "stage": stage,
        "together": _choose_together(last, a_chunk * vector),
        "apart": taps_apart(last),
        "stretches": len(stretches),
        # What no tap reads is not asked for.
        "far": int(far and all(needed_residues(axis) == EVERY for axis in axes)),
        "stream": int(far),
        "straight": int(packs and straight_lines(problem.groups, lanes, last, block[-1])),
        "scratch_sums": scratch.take(line * stage * lanes),
        "scratch_outer": scratch.take_table(2 * rows),
        "activate": 0,
        "slope": 0,
        "zeros": 0,
    }  # fmt: skip
    arrays |= outer_tables(axes, block, blocks, pitches)
    return Grouped(
        lanes=lanes,
        record=make_record(SCALARS, ARRAYS, numbers, arrays),
        kinds=kinds,
        windows=_windows(axes[:-1], depth),
        runs=tuple(runs),
        panels=panels,
        panel_weights=panel_weights,
        packs=packs,
        block=tuple(block),
        items=chunks * math.prod(blocks),
        scratch=scratch.size,
    )


def _chunks(problem: Problem, panels: int, most: int) -> tuple[int, int]:
    """Return how many chunks there are, and how many panels one has: alike, at most so many."""
    chunks = -(-panels // max(1, most))
    each = -(-panels // chunks)
    if problem.dtype == PAIRED and chunks > 1:
        each += each % 2
        chunks = -(-panels // each)
    return chunks, each


def _windows(outer: list[AxisPhases], depth: int) -> tuple[int, ...]:
    """Return how many rows of taps the phases of outer axes have, where kernels unroll them."""
    counts = {math.prod(some) for some in product(*({*map(len, axis.taps)} for axis in outer))}
    return tuple(sorted(depth * count for count in counts if 0 < depth * count <= MOST_LINES))


def spread(elements: int, line: int) -> int:
    """Return how far apart points lie: many cache lines should be an odd number of them.

    Or points far apart would all meet in few sets of the first cache.
    """
    lines = -(-elements // line)
    return (lines | 1) * line if lines >= 4 else elements


def _all_kinds(last: AxisPhases, stretches: tuple[Stretch, ...]) -> tuple[Kind, ...]:
    """Return the kernels that sum packed points and stretches; the first takes anything."""
    found = {choose_kind(last, len(offsets)) for offsets in last.offsets}
    found |= {kind for stretch in stretches for kind, _ in stretch.kinds}
    return (ANY, *sorted(found - {ANY}))


def _stretch_tables(
    last: AxisPhases, stretches: tuple[Stretch, ...], kinds: tuple[Kind, ...], lanes: int
) -> dict[str, list[int]]:
    """Return what points of the last axis meet: packed, by phase; and in place, by stretch."""
    names = ("stretch_low", "stretch_high", "stretch_start", "stretch_count")
    arrays: dict[str, list[int]] = {
        name: [] for name in (*names, "kind", "kind_start", "kind_count", "meetings")
    }
    arrays["last_kind"], arrays["packed_meetings"] = [], []
    arrays["kernels"] = [0] * (len(kinds) * (MOST_LINES + 1))
    rows = [len(offsets) * lanes for offsets in last.offsets]
    for phase, offsets in enumerate(last.offsets):
        arrays["last_kind"].append(kinds.index(choose_kind(last, len(offsets))))
        first = offsets[0] - last.low if offsets else 0
        arrays["packed_meetings"] += [first, phase, len(offsets), 0, rows[phase]]
    for stretch in stretches:
        numbers = stretch.low, stretch.high, len(arrays["kind"]), len(stretch.kinds)
        for name, value in zip(names, numbers, strict=True):
            arrays[name].append(value)
        for kind, meetings in stretch.kinds:
            arrays["kind"].append(kinds.index(kind))
            arrays["kind_start"].append(len(arrays["meetings"]))
            arrays["kind_count"].append(len(meetings))
            for m in meetings:
                skipped = m.skipped * lanes
                arrays["meetings"] += [m.offset, m.phase, m.taps, skipped, rows[m.phase]]
    return arrays


def _phase_tables(
    axes: list[AxisPhases], pitches: list[int], width: int, sizes: tuple[int, int, int]
) -> tuple[dict[str, list[int]], list[Run]]:
    """Return where each phase's taps read and where its weights lie."""
    *outer, last = axes
    depth, wanted, lanes = sizes
    arrays: dict[str, list[int]] = {name: [] for name in ARRAYS}
    runs: list[Run] = []
    packed = 0
    for phases in product(*(range(len(axis.ranges)) for axis in outer)):
        combinations = list(
            product(
                *(
                    zip(axis.taps[p], axis.offsets[p], strict=True)
                    for axis, p in zip(outer, phases, strict=True)
                )
            )
        )
        arrays["outer_start"].append(len(arrays["outer_offsets"]))
        arrays["outer_count"].append(len(combinations))
        arrays["row_start"].append(len(arrays["table"]))
        for number, combination in enumerate(combinations):
            arrays["outer_offsets"] += [offset for _, offset in combination]
            steps = zip(combination, outer, pitches, strict=False)
            begin = sum((offset - a.low) * pitch for (_, offset), a, pitch in steps)
            for c in range(depth):
                arrays["table"] += [begin + c * width, number * depth + c]
        for taps in last.taps:
            arrays["phase_weights"].append(packed)
            packed += len(combinations) * len(taps) * depth * wanted * lanes
            # Of the batch there is nothing to tell.
            runs.append(
                tuple(
                    tuple((*(t for t, _ in combination[1:]), tap) for tap in taps)
                    for combination in combinations
                    if taps
                )
            )
    return arrays, runs


def _choose_together(last: AxisPhases, point: int) -> int:
    """Return how many points one kernel sums in place before the next one is called.

    What all of them write stays in the first cache until the last of them is done.
    """
    return max(1, MOST_TOGETHER // (point * last.step_out) // ROWS) * ROWS


def in_place(problem: Problem, lanes: int) -> bool:
    """Tell whether groups lie side by side in arrays that are laid out as they should be.

    There must be enough to fill a vector.

    Kernels look at the steps of the very arrays; this only chooses blocks.
    """
    layouts = problem.coarse_layout, problem.fine_layout
    channels = problem.coarse_channels, problem.fine_channels
    enough = channels == (1, 1) and problem.groups >= lanes
    return enough and all("g" in layout.words[-1] for layout in layouts)
