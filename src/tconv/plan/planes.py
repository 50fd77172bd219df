"""The algorithm for few channels a group: vectors run along points instead of channels.

The region that a block reads is packed as planes, one for each channel of several groups,
so depthwise layers, colour heads, masks and audio fill whole vectors.
"""

import math
from dataclasses import dataclass
from itertools import product

from tconv.plan.gather import (
    FEW_POINTS,
    Scratch,
    axis_numbers,
    make_record,
    outer_tables,
    shrink,
)
from tconv.plan.machine import Machine
from tconv.plan.phases import AxisPhases, all_phases
from tconv.problem import Operand, Problem

SCALARS = (
    "source", "target", "weights", "bias",  # addresses, filled in by each call
    "source_g", "source_c", "source_x",  # element steps, by each call
    "target_g", "target_c", "target_x",
    "outer", "groups", "chunk", "chunks", "depth", "columns",
    "size_in", "size_out", "step_in", "step_out", "low_in", "shift_out",  # the last axis
    "block", "begin", "end", "blocks", "phases", "span", "residue", "row",
    "outer_phases", "group_weights", "lines", "sums_pitch", "most_phases",
    "scratch_sums", "scratch_lines", "activate", "slope", "zeros",  # the last three by each runner
)  # fmt: skip
"""The numbers of a record of planes, in order."""

ARRAYS = (
    "source_steps", "target_steps",  # one for each outer axis, filled in by each call
    "sizes_in", "steps_in", "steps_out", "lows_in", "shifts_out", "outer_block",
    "begins", "ends", "outer_blocks", "axis_phases", "spans", "pitches",
    "phase_low", "phase_high", "last_low", "last_high",
    # one for each phase of all axes together
    "phase_weights", "segment_start", "segment_count",
    "segments",
)  # fmt: skip
"""The arrays of a record of planes; a number tells where in the record each begins."""

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}

LONG_LINES = 16  # a line is kept whole until it is so much longer than the block is high
MOST_RESIDUES = 4096  # of the last axis' stride: each is packed for itself
MOST_COLUMNS = 4  # written channels of a group: one row of a register tile each


@dataclass(frozen=True, slots=True)
class Planes:
    """All that compiled planes need to know, but addresses."""

    lanes: int
    rows: int
    record: tuple[int, ...]
    taps: tuple[tuple[int, ...], ...]  # in the order that weights are packed
    group_weights: int
    block: tuple[int, ...]
    items: int
    scratch: int


def plan_planes(problem: Problem, machine: Machine) -> Planes:
    """Lay out blocks, chunks of groups and tables for FINE or COARSE."""
    lanes = machine.lanes(problem.dtype)
    item = machine.vector_bytes // lanes
    axes = all_phases(problem)
    depth, wanted = problem.coarse_channels, problem.fine_channels
    if problem.wanted is Operand.COARSE:
        depth, wanted = wanted, depth
    # Whole vectors of channels on both sides: fewer are packed and stored one by one.
    chunk = min(problem.groups, -(-2 * lanes // min(depth, wanted)))
    block = _choose_block(axes, chunk * depth * item, chunk * wanted * item, machine)
    blocks = [-(-(axis.end - axis.begin) // size) for axis, size in zip(axes, block, strict=True)]
    extents = [
        axis.step_in * (size - 1) + axis.span for axis, size in zip(axes, block, strict=True)
    ]
    last = axes[-1]
    residue = -(-extents[-1] // last.step_in)
    row = residue * last.step_in
    line = chunk * depth * row
    pitches = [line * math.prod(extents[place + 1 : -1]) for place in range(len(axes) - 1)]
    arrays, taps, group_weights = _phase_tables(axes, pitches, residue, depth * wanted)
    lines = math.prod(block[:-1])
    sums_pitch = -(-block[-1] // lanes) * lanes
    scratch = Scratch(item)
    scratch.take(line * math.prod(extents[:-1]) + 8 * lanes)
    chunks = -(-problem.groups // chunk)
    numbers = {
        "groups": problem.groups,
        "chunk": chunk,
        "chunks": chunks,
        "depth": depth,
        "columns": wanted,
        **axis_numbers(axes, block, blocks),
        "residue": residue,
        "row": row,
        "group_weights": group_weights,
        "lines": lines,
        "sums_pitch": sums_pitch,
        "scratch_sums": scratch.take(chunk * wanted * lines * sums_pitch + 8 * lanes),
        "scratch_lines": scratch.take_table(lines),
    }
    arrays |= outer_tables(axes, block, blocks, [*pitches, 0])
    return Planes(
        lanes=lanes,
        rows=wanted,
        record=make_record(SCALARS, ARRAYS, numbers, arrays),
        taps=tuple(taps),
        group_weights=group_weights,
        block=tuple(block),
        items=chunks * math.prod(blocks),
        scratch=scratch.size,
    )


def _phase_tables(
    axes: list[AxisPhases], pitches: list[int], residue: int, matrix: int
) -> tuple[dict[str, list[int]], list[tuple[int, ...]], int]:
    """Return where each phase's taps read and where its weights lie."""
    *outer, last = axes
    arrays: dict[str, list[int]] = {name: [] for name in ARRAYS}
    taps: list[tuple[int, ...]] = []
    for phase in product(*(range(len(axis.ranges)) for axis in outer)):
        met = [
            list(zip(axis.taps[p], axis.offsets[p], strict=True))
            for axis, p in zip(outer, phase, strict=True)
        ]
        for x in range(len(last.ranges)):
            arrays["phase_weights"].append(len(taps) * matrix)
            arrays["segment_start"].append(len(arrays["segments"]))
            for combination in product(*met):
                base = sum(
                    (offset - axis.low) * pitch
                    for (_, offset), axis, pitch in zip(combination, outer, pitches, strict=True)
                )
                for tap, offset in zip(last.taps[x], last.offsets[x], strict=True):
                    quotient, rest = divmod(offset - last.low, last.step_in)
                    arrays["segments"].append(base + rest * residue + quotient)
                    taps.append((*(t for t, _ in combination[1:]), tap))
            arrays["segment_count"].append(len(arrays["segments"]) - arrays["segment_start"][-1])
    return arrays, taps, len(taps) * matrix


def _choose_block(axes: list[AxisPhases], point: int, sums: int, machine: Machine) -> list[int]:
    """Return how many points of each axis one work item takes: long lines, a third of L2."""
    sizes = [axis.end - axis.begin for axis in axes]
    block = list(sizes)

    # A region that one point nearly fills would be packed again for each of them.
    least = min(4 * point * math.prod(axis.span for axis in axes), machine.l3 // 2)

    def too_large() -> bool:
        extents = [a.step_in * (b - 1) + a.span for a, b in zip(axes, block, strict=True)]
        points = math.prod(block)
        most = machine.l2 // 3 if points > FEW_POINTS else max(machine.l2 // 3, least)
        return point * math.prod(extents) + sums * points > most

    while max(block) > 1 and too_large():
        outer = [d for d in range(1, len(block) - 1) if block[d] > 1]
        place = 0 if block[0] > 1 else len(block) - 1
        if block[0] == 1 and outer:
            longest = max(outer, key=lambda d: block[d])
            place = len(block) - 1 if block[-1] > LONG_LINES * block[longest] else longest
        shrink(block, sizes, place)
    return block
