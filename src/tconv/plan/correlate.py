"""The algorithm for WEIGHTS: every tap's product over blocks of points."""

import math
from dataclasses import dataclass
from itertools import product

from tconv.plan.gather import AxisPhases, Scratch, axis_phases, batch_phases, make_record, shrink
from tconv.plan.machine import Machine
from tconv.problem import Operand, Problem

SCALARS = (
    "source", "coarse", "target", "bias", "flag",  # addresses, filled in by each call
    "source_g", "source_c", "source_x", "coarse_g", "coarse_c", "coarse_x",  # by each call
    "target_g", "target_c", "target_f", "target_x", "tap_run",
    "outer",  # axes but the last; the batch is the first of them
    "chunks", "chunk_rows", "rows", "panels", "wide_panels", "depth", "taps", "region",
    "size_in", "step_in", "low_in", "span", "block", "end", "blocks", "all_blocks",
    "scratch_planes", "scratch_sums", "scratch_rows", "scratch_lines", "scratch_other",
)  # fmt: skip
"""The numbers of a correlation's record, in order."""

ARRAYS = (
    "source_steps", "coarse_steps",  # one for each outer axis, filled in by each call
    "target_taps",  # one for each tap, filled in by each call
    "sizes_in", "steps_in", "lows_in", "outer_block", "ends", "outer_blocks", "spans", "pitches",
    "tap_offsets",
)  # fmt: skip
"""The arrays of a correlation's record; a number tells where in the record each begins."""

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}

MOST_SUMS = 8 << 20  # bytes of sums of one work item


@dataclass(frozen=True, slots=True)
class Correlate:
    """All that a compiled correlation needs to know, but addresses."""

    lanes: int
    vectors: int
    record: tuple[int, ...]
    taps: tuple[tuple[int, ...], ...]
    block: tuple[int, ...]
    items: int
    scratch: int


def plan_correlate(problem: Problem, machine: Machine, rows: int) -> Correlate:
    """Lay out blocks, chunks of rows and tables for WEIGHTS; ``rows`` are those of a tile."""
    lanes, vectors = machine.lanes(problem.dtype), 2
    columns, item = lanes * vectors, machine.vector_bytes // lanes
    axes = [batch_phases(problem.batch)]
    axes += (axis_phases(axis, Operand.COARSE) for axis in problem.axes)
    depth, channels = problem.fine_channels, problem.coarse_channels
    panels = -(-depth // columns)
    narrow = 0 < depth % columns <= lanes
    taps = tuple(product(*(range(axis.taps) for axis in problem.axes)))
    chunk_rows = _chunk_rows(problem, rows, len(taps) * panels * columns * item)
    chunks = -(-channels // chunk_rows)
    block = _choose_block(axes, panels, columns * item, chunk_rows * item, machine)
    blocks = [-(-axis.size_out // size) for axis, size in zip(axes, block, strict=True)]
    extents = [
        axis.step_in * (size - 1) + axis.span for axis, size in zip(axes, block, strict=True)
    ]
    # The fine side lies panel by panel: channels far apart would meet in few cache sets.
    pitches = [columns * math.prod(extents[place + 1 :]) for place in range(len(axes))]
    region = columns * math.prod(extents)
    scratch = Scratch(item)
    scratch.take(panels * region)
    tiles = -(-chunk_rows // rows)
    *outer, last = axes
    lines = math.prod(block[:-1])
    numbers = {
        "outer": len(outer),
        "chunks": chunks,
        "chunk_rows": chunk_rows,
        "rows": channels,
        "panels": panels,
        "wide_panels": panels - narrow,
        "depth": depth,
        "taps": len(taps),
        "region": region,
        "size_in": last.size_in,
        "step_in": last.step_in,
        "low_in": last.low,
        "span": last.span,
        "block": block[-1],
        "end": last.size_out,
        "blocks": blocks[-1],
        "all_blocks": math.prod(blocks),
        "scratch_planes": scratch.take(chunk_rows * math.prod(block)),
        "scratch_sums": scratch.take(len(taps) * tiles * panels * rows * columns),
        "scratch_rows": scratch.take_table(tiles * rows),
        "scratch_lines": scratch.take_table(lines),
        "scratch_other": scratch.take_table(lines),
    }
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
        "pitches": pitches[:-1],
        "tap_offsets": [_offset(axes, pitches, tap) for tap in taps],
    }
    return Correlate(
        lanes=lanes,
        vectors=vectors,
        record=make_record(SCALARS, ARRAYS, numbers, arrays),
        taps=taps,
        block=tuple(block),
        items=problem.groups * chunks,
        scratch=scratch.size,
    )


def _offset(axes: list[AxisPhases], pitches: list[int], tap: tuple[int, ...]) -> int:
    """Return where in the packed region a tap's windows begin."""
    return sum(
        (axis.offsets[0][t] - axis.low) * pitch
        for axis, pitch, t in zip(axes, pitches, (0, *tap), strict=True)
    )


def _chunk_rows(problem: Problem, rows: int, row_bytes: int) -> int:
    """Return how many channels one work item takes: whole tiles, sums that fit.

    Four work items a group keep two workers busy to the end; each packs the fine side again,
    so a small problem is not split.
    """
    channels = problem.coarse_channels
    most = max(MOST_SUMS // row_bytes // rows * rows, rows)
    wanted = channels
    if problem.flops() > 4_000_000 and problem.groups < 4:
        wanted = -(-channels // 4)
    return min(-(-wanted // rows) * rows, most)


def _choose_block(
    axes: list[AxisPhases], panels: int, panel: int, coarse_point: int, machine: Machine
) -> list[int]:
    """Return how many points of each axis are packed at a time.

    Every tap reads one panel of its part of the fine region again and again (``panel`` bytes
    a point): that stays in half of the first cache, while the whole region may lie in the
    last one.  The planes of the coarse side (``coarse_point`` bytes a point) are read by all.
    """
    sizes = [axis.size_out for axis in axes]
    block = list(sizes)

    def too_large() -> bool:
        extents = [a.step_in * (b - 1) + a.span for a, b in zip(axes, block, strict=True)]
        points = math.prod(block)
        return (
            panel * points > machine.l1 // 2
            or coarse_point * points > machine.l2 // 3
            or panel * panels * math.prod(extents) > machine.l3 // 16
        )

    while max(block) > 1 and too_large():
        shrink(block, sizes, next(d for d, size in enumerate(block) if size > 1))
    return block
