"""A record of strips, run as the kernel runs it and held against the relation.

One channel of one group is followed, point after point; that the others lie beside it is looked
at by their stretches, and that they meet the same by their columns of taps.
"""

from itertools import product
from operator import add, mul

from tconv.plan import strips
from tconv.plan.check_record import (
    Block,
    DataRun,
    Reads,
    Region,
    all_blocks,
    demand,
    inside,
    phase_lines,
    sum_terms,
    target_line,
)
from tconv.plan.strips import MOST_LINES, SIZES, Strips
from tconv.problem import Problem


class StripsRun(DataRun):
    """One chunk of groups, block after block, as compiled strips do it."""

    def __init__(self, problem: Problem, recipe: Strips) -> None:
        super().__init__(problem, recipe, (strips.SCALARS, strips.ARRAYS))
        self.recipe = recipe

    def check(self) -> None:
        """Run every block, then look whether anything was left out."""
        r, recipe = self.r, self.recipe
        self.check_sizes(recipe.items)
        r.positive("at_once", "line", "apart")
        merged = recipe.merged in {1, r.step_out} and r.phases * recipe.merged == r.step_out
        demand(merged, "phases are stored as others", (recipe.merged, r.phases))
        packed = len(recipe.taps)
        demand(r.column_weights == packed, "weights are packed for another record", packed)
        reads = [self._reads(both) for both in range(r.outer_phases * r.step_out)]
        shares = any(r.at("segment_counts", i) for i in self._several())
        demand(r.shared == shares, "lines share other taps than the record says", r.shared)
        for block in all_blocks(r, [*r.outer_of("begins"), r.begin]):
            region = self._pack(block)
            for phase in range(r.outer_phases):
                self._run_phase(block, region, phase, reads[phase * r.step_out :])
        self.outputs.check()
        self.scratch.check()

    def _several(self) -> list[int]:
        """Return which counts are of columns of several taps."""
        count = len(self.r.arrays["segment_counts"])
        return [i for i in range(count) if SIZES[i % len(SIZES)] > 1]

    def _reads(self, both: int) -> Reads:
        """Return all that an output reads of a channel, the same of every one."""
        r, taps = self.r, self.recipe.taps
        place, weight = r.at("segment_start", both), r.at("phase_weights", both)
        found: list[Reads] = [[] for _ in range(r.depth)]
        for kind, size in enumerate(SIZES):
            for _ in range(r.at("segment_counts", both * len(SIZES) + kind)):
                begin = r.at("segments", place)
                real = 0 <= weight <= weight + size <= len(taps)
                demand(real, "a tile reads weights that were not packed", both)
                for k in range(size):
                    channel, *tap = taps[weight + k]
                    where = begin + k * r.apart * r.line - channel * r.plane
                    found[channel].append((tuple(tap), where))
                place, weight = place + 1, weight + size
        alike = all(each == found[0] for each in found)
        demand(alike, "channels of a group meet other taps", both)
        # Phases that are stored together are summed one behind the other.
        if both % self.recipe.merged < self.recipe.merged - 1:
            behind = r.at("segment_start", both + 1), r.at("phase_weights", both + 1)
            demand(behind == (place, weight), "phases do not follow one another", both)
        return found[0]

    def _pack(self, block: Block) -> Region:
        """Return what a block reads of its first channel, each residue of both steps apart."""
        r = self.r
        steps = [*r.outer_of("steps_in"), r.step_in]
        spans = [*r.outer_of("spans"), r.span]
        lows = [*r.outer_of("lows_in"), r.low_in]
        limits = [*r.outer_of("sizes_in"), r.size_in]
        sizes = zip(block.counts, steps, spans, strict=True)
        extents = [(count - 1) * step + span for count, step, span in sizes]
        firsts = [a * step + low for a, step, low in zip(block.starts, steps, lows, strict=True)]
        region: Region = dict.fromkeys(range(r.plane))
        packed = set[int]()
        for here in product(*map(range, extents)):
            *far, row, column = here
            point = tuple(map(add, firsts, here))
            if not inside(point, limits) or row % steps[-2] >= spans[-2]:
                continue
            demand(inside(point, self.source), "packing reads outside the source", point)
            where = sum(map(mul, far, r.outer_of("pitches")))
            where += row % steps[-2] * r.line_residue + row // steps[-2] * r.line
            where += column % r.step_in * r.column_residue + column // r.step_in
            demand(where in region, "packing leaves the region", point)
            demand(where not in packed, "two points are packed in one place", point)
            packed.add(where)
            region[where] = point
        self.scratch.touch("region", r.at_once * r.depth * r.plane)
        return region

    def _run_phase(self, block: Block, region: Region, phase: int, reads: list[Reads]) -> None:
        """Sum and store, for one phase of the outer axes, those of the last after each other."""
        r, lanes, merged = self.r, self.recipe.lanes, self.recipe.merged
        digits, lines, _ = phase_lines(r, block, phase)
        steps, rows = r.outer_of("read_steps"), block.counts[-2]
        demand(rows <= MOST_LINES, "a block has more lines than there are zeros for", rows)
        for x in range(r.phases):
            low = max(block.starts[-1], r.at("last_low", x))
            length = max(min(block.stops[-1], r.at("last_high", x)) - low, 0)
            if length == 0:
                continue
            padded = -(-length // lanes) * lanes
            demand(padded <= r.sums_pitch, "sums overlap the next line", (padded, r.sums_pitch))
            demand(rows * r.sums_pitch <= r.sums_apart, "sums overlap the next phase", rows)
            self.scratch.touch("sums", (merged - 1) * r.sums_apart + rows * r.sums_pitch)
            for line in lines:
                moved = zip(line, block.starts, steps, strict=False)
                origin = sum((p - first) * step for p, first, step in moved)
                origin += low - block.starts[-1]
                target = target_line(r, line, digits)
                for p in range(merged):
                    mine = reads[x + p]
                    for _, place in mine:
                        # Vectors read past the last point, from whatever lies there.
                        end = (r.at_once * r.depth - 1) * r.plane + origin + place + padded
                        self.scratch.touch("region", end)
                    for k in range(length):
                        here = (low + k) * r.step_out + r.shift_out + x + p
                        if merged == 1 or here < r.size_out:
                            self.outputs.store((*target, here), sum_terms(region, origin + k, mine))
