"""A gather's record, run as the kernel runs it and held against the relation."""

import math
from collections.abc import Iterator
from itertools import pairwise, product

import numpy as np

from tconv.plan import gather
from tconv.plan.check_missed import check_lists, met_reads
from tconv.plan.check_record import (
    Block,
    Outputs,
    Point,
    Reads,
    Record,
    Region,
    Scratch,
    Terms,
    all_blocks,
    apart,
    demand,
    pack_region,
    phase_lines,
    sum_terms,
    target_line,
)
from tconv.plan.gather import Gather
from tconv.plan.gather_blocks import MOST_STEPS
from tconv.problem import Operand, Problem

Panels = list[tuple[int, dict[int, Point]]]  # width, and where the weights of each tap begin
Row = tuple[int, int, Point]  # what a point reads, where its sum lies, its line and coordinate


class GatherRun:
    """One group, block after block, as a compiled gather does it; a point's image comes first."""

    def __init__(self, problem: Problem, recipe: Gather) -> None:
        self.problem, self.recipe = problem, recipe
        self.r = Record(recipe.record, gather.SCALARS, gather.ARRAYS)
        self.scratch = Scratch(self.r, recipe.scratch, problem.dtype)
        self.columns = recipe.lanes * recipe.vectors
        source = Operand.COARSE if problem.wanted is Operand.FINE else Operand.FINE
        self.source: Point = problem.batch, *problem.spatial(source)
        self.target: Point = problem.batch, *problem.spatial(problem.wanted)

    def check(self, tile_rows: int) -> None:
        """Run every block, then look whether anything was left out."""
        r, problem = self.r, self.problem
        demand(r.spare >= tile_rows - 1, "a last tile reads past its table", r.spare)
        blank = r.arrays["blank"]
        enough = max(tile_rows, -(-self.columns * self.scratch.item // 8))
        demand(len(blank) >= enough and not any(blank), "sums do not begin with zeros", blank)
        r.positive("panels_at_once", "step_out")
        counts = zip(r.arrays["segment_count"], r.arrays["segment_depth"], strict=True)
        listed = not r.together or max(map(math.prod, counts)) <= MOST_STEPS
        demand(
            r.together in (0, 1) and listed,
            "a point reads more elements than a tile can list",
            r.together,
        )
        for way in (r.stream, r.large):
            demand(way in {0, 1}, "results are written in another way than there is", way)
        demand(r.in_place == 0, "only calls know whether blocks are read in place", r.in_place)
        channels = problem.coarse_channels, problem.fine_channels
        sizes = channels if problem.wanted is Operand.FINE else channels[::-1]
        found = (r.outer, r.groups, r.depth, r.columns)
        due = (len(problem.axes), problem.groups, *sizes)
        demand(found == due, "sizes are not the problem's", found)
        check_lists(r, self.scratch, tile_rows)
        r.room(dict.fromkeys(("source_steps", "target_steps"), r.outer))
        r.room({"segments_in_place": len(r.arrays["segments"])})
        r.positive("groups_at_once", "groups_in_turn")
        turns = -(-r.groups // r.groups_at_once)
        demand(turns % r.groups_in_turn == 0, "groups are left out", r.groups_in_turn)
        r.positive("phase_chunks", "phases_a_chunk")
        chunks = [c * r.phases_a_chunk for c in range(r.phase_chunks)]
        taken = [p for c in chunks for p in range(c, min(c + r.phases_a_chunk, r.outer_phases))]
        demand(taken == [*range(r.outer_phases)], "work items do not take every phase once", taken)
        items = turns * r.chunks * r.phase_chunks * r.blocks * math.prod(r.outer_of("outer_blocks"))
        demand(self.recipe.items == items, "work items are not all blocks", self.recipe.items)
        panels = self._panels()
        reads = [self._reads(panels, both) for both in range(r.outer_phases * r.phases)]
        blocks = [*all_blocks(r, [*r.outer_of("begins"), r.begin])]
        self._run_blocks(blocks, reads)
        check_inside(r)
        self._check_lines()
        if r.boxes > 1:
            self._run_blocks([box for block in blocks for box in boxes_of(r, block)], reads)
        self.scratch.check()

    def _check_lines(self) -> None:
        """Look whether weights that are lines of the depth have room: whole vectors of each."""
        r, lanes = self.r, self.recipe.lanes
        begin = 0
        for both in range(r.outer_phases * r.phases):
            found = r.at("dot_weights", both)
            demand(found == begin, "lines of weights overlap, or have gaps", found)
            vectors = -(-r.at("segment_depth", both) // lanes)
            begin += r.at("segment_count", both) * vectors * lanes * r.columns
        demand(r.dot_group == begin, "lines of weights are packed for another record", r.dot_group)

    def _run_blocks(self, blocks: list[Block], reads: list[Reads]) -> None:
        """Run all blocks; every output must be written."""
        r, problem = self.r, self.problem
        # Tiles write whole panels of channels that lie side by side, and sums of others.
        self.direct, self.stored = (
            Outputs(self.target, problem.axes, problem.wanted) for _ in range(2)
        )
        for block in blocks:
            region, end = pack_region(r, block, self.source, r.depth)
            self.scratch.touch("region", end)
            for phase in range(r.outer_phases):
                self._run_phase(block, region, phase, reads[phase * r.phases :])
        for outputs in (self.direct, self.stored):
            outputs.check()

    def _panels(self) -> Panels:
        """Return how weights are packed."""
        r, recipe = self.r, self.recipe
        size, needed = r.panels_a_chunk, [*range(-(-r.columns // self.columns))]
        ends = [min((c + 1) * size, r.panels) for c in range(r.chunks)]
        if 0 < r.wide_panels < r.panels:  # the narrow panel goes with the last wide one
            ends = [r.panels if end >= r.wide_panels else end for end in ends]
        chunks = [range(c * size, end) for c, end in enumerate(ends)]
        taken = [panel for chunk in chunks for panel in chunk]
        demand(taken == needed, "work items do not take every panel once", taken)
        agreed = (recipe.panels, recipe.group_weights) == (r.panels, r.group_weights)
        demand(agreed, "weights are packed for another record", recipe.group_weights)
        panels, stretches = [], []
        for panel in taken:
            narrow = r.columns - panel * self.columns <= recipe.lanes
            demand(narrow == (panel >= r.wide_panels), "a panel is read wider than packed", panel)
            width = recipe.lanes if narrow else self.columns
            packed = {}
            for run in recipe.runs:
                begin = run.start + panel * run.panel_step + run.first_row * width
                for tap in run.taps:
                    packed[begin] = tap
                    stretches.append((begin, begin + recipe.summed * width))
                    begin += recipe.summed * width
            panels.append((width, packed))
        demand(apart(stretches, r.group_weights), "packed weights overlap", r.group_weights)
        return panels

    def _reads(self, panels: Panels, both: int) -> Reads:
        """Return all that an output of a phase reads."""
        r = self.r
        depth, phase = r.at("segment_depth", both), both // r.phases
        summed = self.recipe.summed
        demand(depth % summed == 0, "a segment ends inside a point", depth)
        check_parts(r, both)
        places = [
            r.at("segments", r.at("segment_start", both) + s) + start
            for s in range(r.at("segment_count", both))
            for start in range(0, depth, summed)
        ]
        taps: list[Point] = []
        for panel, (width, packed) in enumerate(panels):
            begin = r.at("phase_weights", phase) + panel * r.at("panel_weights", phase)
            begin += r.at("rows_before", both) * width
            lines = [begin + k * summed * width for k in range(len(places))]
            read = [packed[line] for line in lines if line in packed]
            demand(len(read) == len(lines), "a tile reads weights that were not packed", both)
            demand(panel == 0 or read == taps, "panels disagree about their taps", both)
            taps = read
        return list(zip(taps, places, strict=True))

    def _run_phase(self, block: Block, region: Region, phase: int, reads: list[Reads]) -> None:
        """Fill tables, run tiles and store, for one phase of the outer axes."""
        r = self.r
        digits, lines, offsets = phase_lines(r, block, phase)
        if not lines:
            return
        targets = [target_line(r, line, digits) for line in lines]
        sums: dict[int, Terms] = {}
        tables = point_tables(r, self.scratch, block, offsets)
        for last, (table, terms) in enumerate(zip(tables, reads, strict=False)):
            for row, place, (number, x) in table:
                point = *lines[number], (x - r.shift_out - last) // r.step_out
                met = met_reads(r, phase * r.phases + last, point, terms, (region, row))
                demand(place >= 0, "a sum lies before all others", place)
                demand(place not in sums, "two outputs are summed in one place", place)
                sums[place] = sum_terms(region, row, met)
                end = place + self.columns
                demand(end <= r.sums_panel, "a sum lies among those of the next panel", place)
                more = 0 < r.wide_panels < r.panels  # a narrow panel goes with the last wide one
                self.scratch.touch("sums", (r.panels_at_once - 1 + more) * r.sums_panel + end)
                self.direct.store((*targets[number], x), sums[place])
        self._store(block, targets, sums)

    def _store(self, block: Block, targets: list[Point], sums: dict[int, Terms]) -> None:
        """Write lines out, all phases of the last axis side by side."""
        r = self.r
        origin = block.starts[-1] * r.step_out + r.shift_out
        begin = max(-origin, 0)
        length = min(block.counts[-1] * r.step_out, r.size_out - origin) - begin
        for number, target in enumerate(targets):
            for x in range(begin, begin + length):
                point = (*target, origin + x)
                place = (number * r.sums_pitch + x) * self.columns
                demand(place in sums, "an output is stored that was not summed", point)
                self.stored.store(point, sums[place])


def check_inside(r: Record) -> None:
    """Look whether exactly those points count as inside that read nothing outside the picture."""
    demand(r.boxes in {1, 3**r.outer}, "blocks are split in other boxes than there are", r.boxes)
    first = r.at("inside_lows", 0), r.at("inside_highs", 0)
    demand(min(first) >= r.at("ends", 0), "the batch is split", first)
    numbers = [
        (r.at("steps_in", d), r.at("lows_in", d), r.at("spans", d), r.at("sizes_in", d),
         r.at("inside_lows", d), r.at("inside_highs", d), r.at("begins", d), r.at("ends", d))
        for d in range(1, r.outer)
    ]  # fmt: skip
    last = r.step_in, r.low_in, r.span, r.size_in, r.inside_low, r.inside_high, r.begin, r.end
    for step, low, span, size, begin, end, start, stop in (*numbers, last):
        points = {q for q in range(start, stop) if 0 <= step * q + low <= size - span}
        demand(points == {*range(start, stop)} & {*range(begin, end)}, "points that are read in "
               "place reach outside, or others would not", (begin, end))  # fmt: skip


def boxes_of(r: Record, block: Block) -> Iterator[Block]:
    """Yield the boxes that a block is split into where it is read in place."""
    lows = [*r.outer_of("inside_lows"), r.inside_low]
    highs = [*r.outer_of("inside_highs"), r.inside_high]
    cuts = []
    for start, stop, low, high in zip(block.starts, block.stops, lows, highs, strict=True):
        first = min(max(low, start), stop)
        second = min(max(high, first), stop)
        cuts.append([ends for ends in pairwise((start, first, second, stop)) if ends[0] < ends[1]])
    for box in product(*cuts):
        starts, stops = zip(*box, strict=True)
        yield Block(list(starts), list(stops))


def check_parts(r: Record, both: int) -> None:
    """Look whether parts of the depth are all of it, and meet the weights of the whole."""
    count, depth = r.at("segment_count", both), r.at("segment_depth", both)
    at_once, length = r.at("part_segments", both), r.at("part_depth", both)
    sizes = count + 1, depth, at_once, length
    demand(min(sizes) > 0, "a part of the depth is empty", sizes)
    read = np.zeros((count, depth), np.int64)
    for turn, cut in product(range(-(-count // at_once)), range(-(-depth // length))):
        segment, start = turn * at_once, cut * length
        here = read[segment : segment + at_once, start : start + length]
        here += 1
        # Weights are read without a gap: segments side by side are whole ones.
        whole = len(here) == 1 or here.shape[1] == depth
        demand(whole, "a part meets weights of another", (both, at_once, length))
    demand((read == 1).all(), "parts do not take all of the depth once", (at_once, length))


def point_tables(r: Record, scratch: Scratch, block: Block, offsets: list[int]) -> list[list[Row]]:
    """Return the entries of all tables, by phase of the last axis and point of it."""
    start, stop = block.starts[-1], block.stops[-1]
    used: set[int] = set()
    phases = []
    for x in range(r.phases):
        low, high = max(start, r.at("last_low", x)), min(stop, r.at("last_high", x))
        entries: list[Row] = []
        for number, offset in enumerate(offsets):
            for here in range(low - start, high - start):
                place = number * r.sums_pitch + x + here * r.step_out
                written = (start + here) * r.step_out + r.shift_out + x
                read = offset + here * r.step_in * r.depth
                entries.append((read, place * r.sums_point, (number, written)))
        phases.append(entries)
        # The rows of a last tile past the last point do what that one does.
        filled = {*range(x * r.points, x * r.points + len(entries) + r.spare * (high > low))}
        demand(not filled & used, "two phases share an entry of the tables", x)
        demand(min(filled, default=0) >= 0, "entries lie before their table", x)
        used |= filled
    for part in ("rows", "places", "targets"):
        scratch.touch_table(part, max(used, default=-1) + 1)
    scratch.touch_table("counts", r.phases)
    scratch.touch_table("tag", 2)
    return phases
