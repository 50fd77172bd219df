"""The algorithm for many small groups, FINE or COARSE: the lanes of a vector are groups.

A depthwise layer multiplies every channel by weights of its own, so neighbouring channels
fill a vector and no matrix is needed.  A panel is one vector of groups; the last panel ends
with the last group and may compute some groups of the one before again, to the same bits.
"""

import math
from dataclasses import dataclass
from itertools import product

from tconv.plan.gather import (
    AxisPhases,
    Scratch,
    all_phases,
    axis_numbers,
    make_record,
    outer_tables,
    shrink,
)
from tconv.plan.machine import Machine
from tconv.problem import Operand, Problem

SCALARS = (
    "source", "target", "weights", "bias",  # addresses, filled in by each call
    "source_g", "source_c", "source_x",  # element steps, by each call
    "target_g", "target_c", "target_x",
    "outer", "groups", "panels", "panels_a_chunk", "chunks", "depth", "columns",
    "size_in", "size_out", "step_in", "step_out", "low_in", "shift_out",  # the last axis
    "block", "begin", "end", "blocks", "phases", "span",
    "outer_phases", "panel_weights", "width", "most_phases",
    "scratch_sums",
)  # fmt: skip
"""The numbers of a record of grouped layers, in order."""

ARRAYS = (
    "source_steps", "target_steps",  # one for each outer axis, filled in by each call
    "sizes_in", "steps_in", "steps_out", "lows_in", "shifts_out", "outer_block",
    "begins", "ends", "outer_blocks", "axis_phases", "spans", "pitches",
    "phase_low", "phase_high", "last_low", "last_high",
    # one for each phase of all axes together
    "phase_weights", "phase_start", "phase_taps", "phase_size",
    "offsets",  # where each vector is that a weight multiplies, from a point's own
)  # fmt: skip
"""The arrays of a record of grouped layers; a number tells where each begins."""

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}

PAIR = 2  # panels that are summed together
MOST_TAPS = 6  # whose weights for two panels, two sums and an operand fit sixteen registers
MOST_POINT = 1024  # bytes of one point that a work item takes: several cache lines
LONG_LINES = 16  # a line is kept whole until it is so much longer than the block is high

Tap = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Grouped:
    """All that a compiled grouped layer needs to know, but addresses."""

    lanes: int
    record: tuple[int, ...]
    runs: tuple[tuple[Tap, ...], ...]  # the taps of each phase, as their weights are packed
    panels: int
    block: tuple[int, ...]
    items: int
    scratch: int


def plan_grouped(problem: Problem, machine: Machine) -> Grouped:
    """Lay out blocks, panels of groups and tables for FINE or COARSE."""
    lanes = machine.lanes(problem.dtype)
    item = machine.vector_bytes // lanes
    axes = all_phases(problem)
    depth, wanted = problem.coarse_channels, problem.fine_channels
    if problem.wanted is Operand.COARSE:
        depth, wanted = wanted, depth
    panels = -(-problem.groups // lanes)
    chunks = -(-panels // max(1, MOST_POINT // (lanes * item * max(depth, wanted))))
    a_chunk = -(-panels // chunks)
    chunks = -(-panels // a_chunk)
    vector = lanes * item
    block = _choose_block(axes, a_chunk * depth * vector, wanted * vector, machine)
    blocks = [-(-(axis.end - axis.begin) // size) for axis, size in zip(axes, block, strict=True)]
    extents = [
        axis.step_in * (size - 1) + axis.span for axis, size in zip(axes, block, strict=True)
    ]
    width = _spread(a_chunk * lanes, 64 // item)
    pitches = [depth * width * math.prod(extents[place + 1 :]) for place in range(len(axes))]
    arrays, runs = _phase_tables(axes, pitches, width, (depth, wanted, lanes))
    last = axes[-1]
    scratch = Scratch(item)
    scratch.take(depth * width * math.prod(extents))
    numbers = {
        "groups": problem.groups,
        "panels": panels,
        "panels_a_chunk": a_chunk,
        "chunks": chunks,
        "depth": depth,
        "columns": wanted,
        **axis_numbers(axes, block, blocks),
        "panel_weights": sum(map(len, runs)) * depth * wanted * lanes,
        "width": width,
        "scratch_sums": scratch.take(last.step_out * block[-1] * wanted * PAIR * lanes),
    }
    arrays |= outer_tables(axes, block, blocks, pitches)
    return Grouped(
        lanes=lanes,
        record=make_record(SCALARS, ARRAYS, numbers, arrays),
        runs=tuple(runs),
        panels=panels,
        block=tuple(block),
        items=chunks * math.prod(blocks),
        scratch=scratch.size,
    )


def _spread(elements: int, line: int) -> int:
    """Return how far apart points lie: many cache lines should be an odd number of them.

    Or points far apart would all meet in few sets of the first cache.
    """
    lines = -(-elements // line)
    return (lines | 1) * line if lines >= 4 else elements


def _at_once(taps: int) -> int:
    """Return how many taps are summed at once, so that all turns take about as many."""
    turns = max(1, -(-taps // MOST_TAPS))
    return -(-taps // turns)


def _phase_tables(
    axes: list[AxisPhases], pitches: list[int], width: int, sizes: tuple[int, int, int]
) -> tuple[dict[str, list[int]], list[tuple[Tap, ...]]]:
    """Return where each phase's taps read and where its weights lie."""
    *outer, last = axes
    depth, wanted, lanes = sizes
    arrays: dict[str, list[int]] = {name: [] for name in ARRAYS}
    runs: list[tuple[Tap, ...]] = []
    packed = 0
    for phase in product(*(range(len(axis.ranges)) for axis in outer)):
        met = [
            list(zip(axis.taps[p], axis.offsets[p], strict=True))
            for axis, p in zip(outer, phase, strict=True)
        ]
        for x in range(len(last.ranges)):
            arrays["phase_weights"].append(packed)
            arrays["phase_start"].append(len(arrays["offsets"]))
            taps: list[Tap] = []
            for combination in product(*met):
                base = sum(
                    (offset - axis.low) * pitch
                    for (_, offset), axis, pitch in zip(combination, outer, pitches, strict=False)
                )
                for tap, offset in zip(last.taps[x], last.offsets[x], strict=True):
                    begin = base + (offset - last.low) * depth * width
                    arrays["offsets"] += [begin + c * width for c in range(depth)]
                    taps.append((*(t for t, _ in combination[1:]), tap))
            arrays["phase_taps"].append(len(taps) * depth)
            arrays["phase_size"].append(_at_once(len(taps) * depth))
            runs.append(tuple(taps))
            packed += len(taps) * depth * lanes * wanted
    return arrays, runs


def _choose_block(axes: list[AxisPhases], point: int, sums: int, machine: Machine) -> list[int]:
    """Return how many points of each axis one work item takes: long lines, a third of L2."""
    sizes = [axis.end - axis.begin for axis in axes]
    block = list(sizes)

    def too_large() -> bool:
        extents = [a.step_in * (b - 1) + a.span for a, b in zip(axes, block, strict=True)]
        line = sums * axes[-1].step_out * block[-1]
        return point * math.prod(extents) > machine.l2 // 3 or line > machine.l1 // 2

    while max(block) > 1 and too_large():
        outer = [d for d in range(1, len(block) - 1) if block[d] > 1]
        place = 0 if block[0] > 1 else len(block) - 1
        if block[0] == 1 and outer:
            place = max(outer, key=lambda d: block[d])
            if block[-1] > LONG_LINES * block[place]:
                place = len(block) - 1
        shrink(block, sizes, place)
    return block
