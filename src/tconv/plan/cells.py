"""The algorithm for FINE with few channels: every phase of the stride is a column.

A *cell* are the fine points that share a point ``q`` of the gather: one for each combination of
phases.  All of them read the same neighbours, so one product gives a whole cell: its columns are
phases times channels, which fill vectors where channels alone would not.  It is for windows that
have a tap for every phase and neighbour: zeros in place of others would spread infinities.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import cast

from tconv.plan import gather
from tconv.plan.blocks import choose_block, divide
from tconv.plan.gather import (
    SPARE_ROWS,
    Scratch,
    axis_numbers,
    make_record,
    outer_tables,
    part_tables,
)
from tconv.plan.machine import Machine
from tconv.plan.phases import AxisPhases, Lists, axis_phases, batch_phases, len_of_phases
from tconv.problem import Operand, Problem

SCALARS = (
    *(name for name in gather.SCALARS if name not in gather.OWN),
    "stores",  # runs of columns that are stored side by side
    "cell", "unit", "store_length", "pad",  # of the last axis; a unit is one phase of a run
)  # fmt: skip
"""The numbers of a record of cells, in order."""

ARRAYS = (
    *(name for name in gather.ARRAYS if name not in gather.OWN),
    "store_columns", "store_channels",  # one for each run of columns
    "store_phases",  # one for each run and outer axis
    "cells", "pads", "sizes_out",  # one for each outer axis
)  # fmt: skip
"""The arrays of a record of cells; a number tells where in the record each begins."""

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}

MOST_COLUMNS = 1 << 12  # of one cell


@dataclass(frozen=True, slots=True)
class Cells:
    """All that compiled cells need to know, but addresses."""

    lanes: int
    vectors: int
    record: tuple[int, ...]
    taps: tuple[tuple[tuple[int, ...], ...], ...]  # by phase and neighbour; empty for none
    columns: tuple[tuple[int, ...], ...]  # by phase and channel: which column
    neighbours: int
    panels: int
    group_weights: int
    block: tuple[int, ...]
    items: int
    scratch: int  # elements for one worker


def cell_columns(problem: Problem) -> int:
    """Return how many columns one cell has."""
    return problem.fine_channels * math.prod(map(len_of_phases, problem.axes))


def neighbours_of(problem: Problem) -> int:
    """Return how many neighbours a cell reads."""
    return math.prod(
        len({offset for phase in axis_phases(axis, Operand.FINE).offsets for offset in phase})
        for axis in problem.axes
    )


def plan_cells(problem: Problem, machine: Machine) -> Cells:
    """Lay out blocks, cells, panels and tables for FINE."""
    lanes, vectors = machine.lanes(problem.dtype), 2
    width, item = lanes * vectors, machine.vector_bytes // lanes
    split = [batch_phases(problem.batch)]
    split += (axis_phases(axis, Operand.FINE) for axis in problem.axes)
    axes = [_joined(axis) for axis in split]
    depth, channels = problem.coarse_channels, problem.fine_channels
    strides = [axis.step_out for axis in split]
    wanted = channels * math.prod(strides)
    panels = -(-wanted // width)
    block = choose_block(axes, depth * item, panels * width * item, machine)
    blocks, chunks = divide(block, axes, problem, (wanted, width, problem.groups), machine.l3)
    boxes = problem.groups * math.prod(blocks)
    a_chunk = -(-panels // chunks)
    chunks = -(-panels // a_chunk)
    extents = [size - 1 + axis.span for axis, size in zip(axes, block, strict=True)]
    pitches = [depth * math.prod(extents[place + 1 :]) for place in range(len(axes))]
    points = math.prod(block)
    neighbours = math.prod(len(axis.offsets[0]) for axis in axes)
    row = panels * width
    scratch = Scratch(item)
    scratch.take(depth * math.prod(extents))
    group_weights = panels * neighbours * depth * width
    # Channels that lie side by side are stored with all phases of the last axis in one run.
    together = problem.fine_layout.axes.endswith("f")
    unit = channels if together else 1
    stores = [
        (phase, channel)
        for phase in product(*map(range, strides[:-1]))
        for channel in range(1 if together else channels)
    ]
    length = strides[-1] * unit
    numbers = {
        "groups": problem.groups,
        "chunks": chunks,
        "panels": panels,
        "panels_a_chunk": a_chunk,
        "wide_panels": panels - (0 < wanted % width <= lanes),
        "depth": depth,
        "columns": wanted,
        **axis_numbers(axes, block, blocks),
        "group_weights": group_weights,
        "points": points + SPARE_ROWS,
        "sums_pitch": block[-1],
        "sums_point": row,
        "sums_panel": width,
        "spare": SPARE_ROWS,
        "stores": len(stores),
        "cell": strides[-1],
        "unit": unit,
        "store_length": length,
        "pad": -split[-1].shift_out,
        "scratch_sums": scratch.take(points * row + lanes),
        "scratch_rows": scratch.take_table(points + SPARE_ROWS),
        "scratch_places": scratch.take_table(points + SPARE_ROWS),
        "scratch_targets": scratch.take_table(points + SPARE_ROWS),
        "scratch_counts": scratch.take_table(1),
        "scratch_tag": scratch.take_table(2),
    }
    numbers["size_out"] = problem.axes[-1].fine_size
    segments, segment_depth = _segments(axes, pitches, depth)
    arrays: dict[str, list[int]] = {
        **outer_tables(axes, block, blocks, pitches),
        "phase_weights": [0],
        "panel_weights": [neighbours * depth * width],
        "rows_before": [0],
        "segment_start": [0],
        "segment_count": [len(segments)],
        "segment_depth": [segment_depth],
        "segments": segments,
        "segments_in_place": [0] * len(segments),
        "store_columns": [place * length for place in range(len(stores))],
        "store_channels": [channel for _, channel in stores],
        "store_phases": [digit for phase, _ in stores for digit in phase],
        "cells": strides[:-1],
        "pads": [-axis.shift_out for axis in split[:-1]],
        "sizes_out": [axis.size_out for axis in split[:-1]],
    }
    arrays |= part_tables(arrays, (points, width * item), machine)
    taps, columns = _columns(split, axes, channels, together=together)
    return Cells(
        lanes=lanes,
        vectors=vectors,
        record=make_record(SCALARS, ARRAYS, numbers, arrays),
        taps=taps,
        columns=columns,
        neighbours=neighbours,
        panels=panels,
        group_weights=group_weights,
        block=tuple(block),
        items=boxes * chunks,
        scratch=scratch.size,
    )


def _joined(axis: AxisPhases) -> AxisPhases:
    """Return an axis whose points are cells: all that any phase reads."""
    offsets = tuple(sorted({offset for phase in axis.offsets for offset in phase}))
    ranges = ((axis.begin, axis.end),)
    return AxisPhases(axis.size_in, 0, 1, 1, 0, ranges, (offsets,), (offsets,))


def _segments(axes: list[AxisPhases], pitches: list[int], depth: int) -> tuple[list[int], int]:
    """Return where the runs of channels begin that a cell reads, and how long they are."""
    *outer, last = axes
    offsets = last.offsets[0]
    merged = len(offsets) > 0 and offsets[-1] - offsets[0] == len(offsets) - 1
    begins = offsets[:1] if merged else offsets
    found = []
    for combination in product(*(axis.offsets[0] for axis in outer)):
        base = sum(
            (offset - axis.low) * pitch
            for offset, axis, pitch in zip(combination, outer, pitches, strict=False)
        )
        found += [base + (offset - last.low) * depth for offset in begins]
    return found, depth * (len(offsets) if merged else 1)


def _columns(
    split: list[AxisPhases], joined: list[AxisPhases], channels: int, *, together: bool
) -> tuple[tuple[tuple[tuple[int, ...], ...], ...], tuple[tuple[int, ...], ...]]:
    """Return for each phase the tap that meets each neighbour, and the columns of its channels."""
    taps = _met_taps(
        tuple((axis.offsets, axis.taps) for axis in split),
        tuple(axis.offsets[0] for axis in joined),
    )
    columns, cell = [], split[-1].step_out
    for place in range(len(taps)):
        outer, x = divmod(place, cell)
        if together:
            columns.append(tuple(range(place * channels, (place + 1) * channels)))
        else:
            first = outer * channels * cell + x
            columns.append(tuple(range(first, first + channels * cell, cell)))
    return taps, tuple(columns)


@lru_cache(maxsize=64)  # windows are met again in other sizes
def _met_taps(
    axes: tuple[tuple[Lists, Lists], ...], neighbours: Lists
) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Return for each phase the tap that meets each neighbour, by offsets and taps of the axes."""
    met = []  # by axis, phase and neighbour on that axis
    for phases, reads in zip(axes, neighbours, strict=True):
        found = [dict(zip(*p, strict=True)) for p in zip(*phases, strict=True)]
        met.append([tuple(map(phase.get, reads)) for phase in found])
    return tuple(
        tuple(
            () if None in tap else cast("tuple[int, ...]", tap[1:])  # the batch has no taps
            for tap in product(*phase)
        )
        for phase in product(*met)
    )
