"""The algorithm for FINE and COARSE: phases of dense gathers over packed blocks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from operator import mul

from tconv.plan.boxes import WHOLE, inside
from tconv.plan.gather_blocks import goes_together, split_gather
from tconv.plan.machine import Machine
from tconv.plan.missed import kept_pitch, list_rooms, met_tables
from tconv.plan.phases import AxisPhases, all_phases, needed_residues
from tconv.plan.tiles import tile_rows
from tconv.problem import Operand, Problem

SCALARS = (
    "source", "target", "weights", "bias",  # addresses, filled in by each call
    "call",  # a number that no other call has, by each call
    "source_g", "source_c", "source_x",  # element steps, by each call
    "target_g", "target_c", "target_x",
    "outer",  # axes but the last; the batch is the first of them
    "groups", "groups_at_once",  # that a work item takes, one after the other
    "groups_in_turn",  # so many times as many follow each other before the next block does
    "chunks", "panels", "panels_a_chunk", "wide_panels",
    "phase_chunks", "phases_a_chunk",  # of the outer axes together
    "depth", "columns",  # channels of a group: read, written
    "size_in", "size_out", "step_in", "step_out", "low_in", "shift_out",  # the last axis
    "block", "begin", "end", "blocks", "phases", "span",
    "outer_phases", "group_weights", "points", "most_phases",
    "sums_pitch", "sums_point", "sums_panel",  # from line to line, point and panel
    "panels_at_once",  # whose sums are kept while parts of the depth go by
    "together",  # whether a tile goes on with the next panel before other points
    "stream",  # whether results leave the caches, where each call finds lines to be whole
    "large",  # whether they would, whatever lines are
    "in_place",  # whether points inside the picture are read where they lie, by each call
    "boxes",  # that a block is then split into
    "afar",  # whether the source is so large that strided blocks of it are touched first
    "inside_low", "inside_high",  # points of the last axis that read nothing outside: from, to
    "spare", "activate", "slope", "zeros",  # the last three by each runner
    "scratch_sums", "scratch_rows", "scratch_places", "scratch_targets", "scratch_counts",
    "scratch_tag",  # the call and block whose region is packed there
    "unpacked",  # whether even blocks at borders may be read in place
    "words",  # of bits, one for each segment that a point meets; 0: all segments are read
    "most_depth",  # elements of a segment
    "listed_pitch",  # from the list of a tile's segments to that of the next; 0: there is one
    "scratch_classes", "scratch_bits", "scratch_listed",  # to sort points by them
    "scratch_nothing",  # zeros, as many as that
    "dot_group",  # elements of a group's weights, if they are lines of the depth
)  # fmt: skip
"""The numbers of a gather's record, in order."""

ARRAYS = (
    "source_steps", "target_steps",  # one for each outer axis, filled in by each call
    # one for each outer axis
    "sizes_in", "steps_in", "steps_out", "lows_in", "shifts_out", "outer_block",
    "begins", "ends", "outer_blocks", "axis_phases", "spans", "pitches",
    "inside_lows", "inside_highs",
    "needed",  # bits, one for each residue of the step that taps read; all are set where all are
    # one for each outer axis and phase of it, and one for each phase of the last axis
    "phase_low", "phase_high", "last_low", "last_high",
    # one for each phase of all outer axes together
    "phase_weights", "panel_weights",
    # one for each phase of all axes together
    "rows_before", "segment_start", "segment_count", "segment_depth",
    "part_segments", "part_depth",  # how much of them is summed at a time
    "segments",
    "segments_in_place",  # the same in the source itself, filled in by each call
    "dot_weights",  # where those of a phase begin, as lines of the depth
    "met_start", "met",  # what taps read, and which segments are theirs
    "blank",  # zeros: a vector of them, or a table
)  # fmt: skip
"""The arrays of a gather's record; a number tells where in the record each begins."""

BOXES = frozenset(
    {"boxes", "afar", "inside_low", "inside_high", "inside_lows", "inside_highs", "needed"}
    | {"groups_at_once", "groups_in_turn", "phase_chunks", "phases_a_chunk"}
)
"""What tells how blocks and groups are split, and which lines are packed."""
MISSED = frozenset({
    "words", "unpacked", "most_depth", "listed_pitch", "met_start", "met",
    "scratch_classes", "scratch_bits", "scratch_listed", "scratch_nothing",
})  # fmt: skip
"""What tells which taps are left out."""
DOTS = frozenset({"dot_group", "dot_weights"})
"""What tells where weights lie that are lines of the depth."""
OWN = BOXES | MISSED | DOTS
"""What only gathers have."""

STREAM = 2  # a problem larger than the last cache's half leaves nothing there
ZEROS = 64  # entries: as long as the longest panel, and as a tile has rows
SPARE_ROWS = 8  # entries for the rows of a last tile that there are no points for

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}


@dataclass(frozen=True, slots=True)
class WeightRun:
    """Taps packed one after the other: for one phase, in every panel."""

    start: int  # element of the first panel
    panel_step: int  # elements from one panel to the next
    first_row: int  # rows of other phases before it in the panel
    taps: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Gather:
    """All that a compiled gather needs to know, but addresses."""

    lanes: int
    vectors: int
    summed: int  # channels that a written one sums of each tap
    record: tuple[int, ...]  # scalars, then where arrays begin, then the arrays
    runs: tuple[WeightRun, ...]
    group_weights: int  # elements of packed weights of one group
    panels: int
    block: tuple[int, ...]
    items: int
    scratch: int  # elements for one worker


def plan_gather(
    problem: Problem, machine: Machine, *, lines: bool = False, summed: int | None = None
) -> Gather:
    """Lay out blocks, phases, panels and tables for FINE or COARSE.

    Where weights are ``lines`` of the depth, nothing is left out and no panel is cut.  ``summed``
    are the channels that a written one sums of each tap, if not all.
    """
    lanes = machine.lanes(problem.dtype)
    axes = all_phases(problem)
    depth, wanted = problem.coarse_channels, problem.fine_channels
    if problem.wanted is Operand.COARSE:
        depth, wanted = wanted, depth
    item = machine.vector_bytes // lanes
    split = split_gather(problem, axes, machine, whole=lines, summed=summed)
    columns = lanes * split.vectors
    panels, wide, joined = split.panels, split.wide, split.joined
    block, blocks, chunks = split.block, split.blocks, split.chunks
    a_chunk = -(-(panels - joined) // chunks)
    chunks = -(-(panels - joined) // a_chunk)
    outer_phases = math.prod(len(axis.ranges) for axis in axes[:-1])
    phases_a_chunk = -(-outer_phases // split.phase_chunks)
    phase_chunks = -(-outer_phases // phases_a_chunk)
    extents = [
        axis.step_in * (size - 1) + axis.span for axis, size in zip(axes, block, strict=True)
    ]
    pitches = [depth * math.prod(extents[place + 1 :]) for place in range(len(axes))]
    sizes = depth, summed or depth, columns, panels
    arrays, runs, group_weights = _phase_tables(axes, pitches, sizes, apart=split.apart)
    counts = arrays["segment_count"]
    bits, words = met_tables(axes, split.chosen, counts)
    last, points = axes[-1], math.prod(block) + SPARE_ROWS
    sums_pitch = last.step_out * block[-1]
    sums_panel = math.prod(block[:-1]) * sums_pitch * columns
    arrays |= part_tables(arrays, (math.prod(block), columns * item), machine)
    steps = max(map(mul, counts, arrays["segment_depth"]))
    runs_of = steps, max(arrays["segment_depth"]), depth
    steps_together = not words and goes_together(runs_of, panels * columns * item, machine)
    steps_together = steps_together and summed is None
    panels_at_once = (
        min(a_chunk, max(1, machine.l2 // 2 // (sums_panel * item))) if _cut(arrays) else 1
    )
    scratch = Scratch(item)
    region = scratch.take(depth * math.prod(extents))
    numbers = {
        "groups": problem.groups,
        "groups_at_once": split.at_once,
        "groups_in_turn": split.in_turn,
        "chunks": chunks,
        "panels": panels,
        "panels_a_chunk": a_chunk,
        "wide_panels": wide,
        "phase_chunks": phase_chunks,
        "phases_a_chunk": phases_a_chunk,
        "depth": depth,
        "columns": wanted,
        **axis_numbers(axes, block, blocks),
        "group_weights": group_weights,
        "points": points,
        "sums_pitch": sums_pitch,
        "sums_point": columns,
        "sums_panel": sums_panel,
        "panels_at_once": panels_at_once,
        "together": int(steps_together),
        "stream": int(problem.bytes() > machine.l3 // STREAM),
        "large": int(problem.bytes() > machine.l3 // STREAM),
        "boxes": split.boxes,
        "afar": int(split.afar),
        "inside_low": inside(last)[0],
        "inside_high": inside(last)[1],
        "spare": SPARE_ROWS,
        "scratch_sums": scratch.take((panels_at_once + joined) * sums_panel),
        "scratch_rows": scratch.take_table(points * len(last.ranges)),
        "scratch_places": scratch.take_table(points * len(last.ranges)),
        "scratch_targets": scratch.take_table(points * len(last.ranges)),
        "scratch_counts": scratch.take_table(len(last.ranges)),
        "scratch_tag": scratch.take_table(2),
    }
    if words:
        most = max(map(min, counts, arrays["part_segments"]))
        pitch = kept_pitch(most, panels, math.prod(block), machine)
        rooms = list_rooms(block, (points * len(last.ranges), words), (most, pitch))
        numbers |= {f"scratch_{name}": scratch.take_table(size) for name, size in rooms.items()}
        numbers |= {"words": words, "listed_pitch": pitch, "unpacked": int(split.unpacked)}
        numbers["most_depth"] = depth * max(map(len, last.taps))  # of neighbours that all are met
        numbers["scratch_nothing"] = scratch.take(numbers["most_depth"])
    assert region == 0  # noqa: S101 - kernels find the region where scratch begins
    arrays |= bits | outer_tables(axes, block, blocks, pitches)
    borders = [(WHOLE, WHOLE), *map(inside, axes[1:-1])]  # the batch has none
    arrays["inside_lows"], arrays["inside_highs"] = map(list, zip(*borders, strict=True))
    arrays["segments_in_place"] = [0] * len(arrays["segments"])
    arrays["dot_weights"], numbers["dot_group"] = _line_tables(arrays, lanes * wanted, lanes)
    return Gather(
        lanes=lanes,
        vectors=split.vectors,
        summed=summed or depth,
        record=make_record(SCALARS, ARRAYS, numbers, arrays),
        runs=tuple(runs),
        group_weights=group_weights,
        panels=panels,
        block=tuple(block),
        items=-(-problem.groups // split.at_once) * math.prod(blocks) * chunks * phase_chunks,
        scratch=scratch.size,
    )


def _line_tables(arrays: Mapping[str, list[int]], line: int, lanes: int) -> tuple[list[int], int]:
    """Return where weights of each phase begin as lines of the depth, and how many there are.

    Every segment has whole vectors of them, for all written channels a line.
    """
    counts = zip(arrays["segment_count"], arrays["segment_depth"], strict=True)
    sizes = [count * -(-depth // lanes) * line for count, depth in counts]
    return [0, *accumulate(sizes[:-1])], sum(sizes)


def make_record(
    scalars: Sequence[str],
    names: Sequence[str],
    numbers: Mapping[str, int],
    arrays: Mapping[str, list[int]],
) -> tuple[int, ...]:
    """Lay numbers and arrays out as kernels read them."""
    head = [numbers.get(name, 0) for name in scalars]
    tail: list[int] = []
    begin = len(scalars) + len(names)
    for name in names:
        head.append(begin + len(tail))
        tail += arrays[name]
    return (*head, *tail)


class Scratch:
    """Counts elements of scratch, each part on a cache line of its own."""

    def __init__(self, item: int) -> None:
        self.item, self.size = item, 0

    def take(self, elements: int) -> int:
        """Set elements aside; return where they begin."""
        start = self.size
        line = 64 // self.item
        self.size += -(-elements // line) * line
        return start

    def take_table(self, entries: int) -> int:
        """Set 64-bit entries aside; return where they begin, in elements."""
        return self.take(entries * 8 // self.item)


def _phase_tables(
    axes: list[AxisPhases], pitches: list[int], sizes: tuple[int, int, int, int], *, apart: bool
) -> tuple[dict[str, list[int]], list[WeightRun], int]:
    """Return the segments that each phase reads, and where its weights lie.

    The sizes are channels read, those summed of each tap, columns of a panel, and panels; taps
    that may be left out are segments of their own, ``apart``.
    """
    depth, summed, columns, panels = sizes
    *outer, last = axes
    arrays: dict[str, list[int]] = {name: [] for name in ARRAYS}
    runs: list[WeightRun] = []
    start = 0
    # By outer axis and phase: what each tap adds to where it reads.
    moves = [
        [[(offset - axis.low) * pitch for offset in offsets] for offsets in axis.offsets]
        for axis, pitch in zip(outer, pitches, strict=False)
    ]
    for phase in product(*(range(len(axis.ranges)) for axis in outer)):
        rows = 0
        met = [*map(sum, product(*(of[p] for of, p in zip(moves, phase, strict=True))))]
        # The batch has no taps.
        outer_taps = [a.taps[p] for a, p in zip(outer[1:], phase[1:], strict=True)]
        panel = len(met) * sum(map(len, last.taps)) * summed * columns
        for x in range(len(last.ranges)):
            offsets = last.offsets[x]
            # Taps whose points are neighbours read one long run of channels.
            merged = not apart and len(offsets) > 0 and offsets[-1] - offsets[0] == len(offsets) - 1
            begins = offsets[:1] if merged else offsets
            arrays["rows_before"].append(rows)
            arrays["segment_start"].append(len(arrays["segments"]))
            along = [(offset - last.low) * depth for offset in begins]
            arrays["segments"] += [base + further for base in met for further in along]
            taps = tuple(product(*outer_taps, last.taps[x]))
            arrays["segment_count"].append(len(arrays["segments"]) - arrays["segment_start"][-1])
            arrays["segment_depth"].append(summed * (len(offsets) if merged else 1))
            if taps:
                runs.append(WeightRun(start, panel, rows, taps))
            rows += len(taps) * summed
        arrays["phase_weights"].append(start)
        arrays["panel_weights"].append(panel)
        start += panel * panels
    return arrays, runs, start


def part_tables(
    arrays: Mapping[str, list[int]], sizes: tuple[int, int], machine: Machine
) -> dict[str, list[int]]:
    """Return how many segments, and how much of one, is summed at a time.

    The sizes are a block's points, and the bytes of a panel for each element of the depth.  A
    panel that stays in the second cache beside the data is read for every tile; of a larger one
    so much that it flows from there in time.  One that is read for a single tile just flows.
    """
    points, row = sizes
    most = max(1, 2 * machine.l1 // row)
    segments, depths = [], []
    for count, depth in zip(arrays["segment_count"], arrays["segment_depth"], strict=True):
        at_once, length = count, depth
        if count * depth * row > machine.l2 // 5 and points > tile_rows(machine):
            at_once, cuts = max(1, most // depth), -(-depth // most)
            length = -(-depth // (4 * cuts)) * 4
        segments.append(max(1, at_once))
        depths.append(max(1, length))
    return {"part_segments": segments, "part_depth": depths, "blank": [0] * ZEROS}


def _cut(arrays: Mapping[str, list[int]]) -> bool:
    """Tell whether any phase is summed in several parts."""
    names = ("segment_count", "segment_depth", "part_segments", "part_depth")
    phases = zip(*(arrays[name] for name in names), strict=True)
    return any(count > at_once or depth > length for count, depth, at_once, length in phases)


def axis_numbers(axes: list[AxisPhases], block: list[int], blocks: list[int]) -> dict[str, int]:
    """Return the numbers of the last axis, and what is counted over all of them."""
    *outer, last = axes
    return {
        "outer": len(outer),
        "size_in": last.size_in,
        "size_out": last.size_out,
        "step_in": last.step_in,
        "step_out": last.step_out,
        "low_in": last.low,
        "shift_out": last.shift_out,
        "block": block[-1],
        "begin": last.begin,
        "end": last.end,
        "blocks": blocks[-1],
        "phases": len(last.ranges),
        "span": last.span,
        "outer_phases": math.prod(len(axis.ranges) for axis in outer),
        "most_phases": max(len(axis.ranges) for axis in axes),
    }


def outer_tables(
    axes: list[AxisPhases], block: list[int], blocks: list[int], pitches: list[int]
) -> dict[str, list[int]]:
    """Return the arrays with one number for each outer axis, and those for its phases."""
    *outer, last = axes
    most = max(len(axis.ranges) for axis in axes)
    padded = [list(axis.ranges) + [(0, 0)] * (most - len(axis.ranges)) for axis in outer]
    return {
        "source_steps": [0] * len(outer),
        "target_steps": [0] * len(outer),
        "sizes_in": [axis.size_in for axis in outer],
        "steps_in": [axis.step_in for axis in outer],
        "steps_out": [axis.step_out for axis in outer],
        "lows_in": [axis.low for axis in outer],
        "shifts_out": [axis.shift_out for axis in outer],
        "outer_block": block[:-1],
        "begins": [axis.begin for axis in outer],
        "ends": [axis.end for axis in outer],
        "outer_blocks": blocks[:-1],
        "axis_phases": [len(axis.ranges) for axis in outer],
        "spans": [axis.span for axis in outer],
        "needed": [needed_residues(axis) for axis in outer],
        "pitches": pitches[:-1],
        "phase_low": [low for ranges in padded for low, _ in ranges],
        "phase_high": [high for ranges in padded for _, high in ranges],
        "last_low": [low for low, _ in last.ranges],
        "last_high": [high for _, high in last.ranges],
    }
