"""A record of planes, run as the kernel runs it and held against the relation.

One channel of one group is followed, point after point; that the others lie beside it is looked
at by their stretches.
"""

from itertools import product
from operator import add, mul

from tconv.plan import planes
from tconv.plan.check_record import (
    Block,
    DataRun,
    Reads,
    Region,
    all_blocks,
    apart,
    demand,
    inside,
    is_needed,
    needs_line,
    phase_lines,
    sum_terms,
    target_line,
)
from tconv.plan.planes import Planes
from tconv.problem import Problem


class PlanesRun(DataRun):
    """One chunk of groups, block after block, as compiled planes do it."""

    def __init__(self, problem: Problem, recipe: Planes) -> None:
        super().__init__(problem, recipe, (planes.SCALARS, planes.ARRAYS))
        self.recipe = recipe
        self.groups = 0

    def check(self) -> None:
        """Run every block, then look whether anything was left out."""
        r, recipe = self.r, self.recipe
        self.groups = max(self.check_sizes(recipe.items))
        starts = [min(panel * recipe.rows, r.columns - recipe.rows) for panel in range(r.panels)]
        every = {start + row for start in starts for row in range(recipe.rows)}
        demand(every == {*range(r.columns)}, "panels are not all written channels", starts)
        passes = r.passes, r.pass_columns
        ways = (1, r.columns), (r.panels, recipe.rows)
        demand(passes in ways, "passes are not for all panels or for one each", passes)
        demand(r.run in (1, r.depth), "a segment has other channels than there are", r.run)
        r.positive("row", "residue")
        r.room({"segments_in_place": len(r.arrays["segments"])})
        demand(r.in_place == 0, "only calls know whether blocks are read in place", r.in_place)
        missed = recipe.merged == 1 and 0 in r.arrays["segment_counts"]
        demand(r.blank_phases == missed, "points without taps are left out", r.blank_phases)
        demand(
            r.unpacked in {0, int(r.step_in == 1)}, "residues are read where they lie", r.unpacked
        )
        packed = len(recipe.taps) * r.depth * recipe.rows
        agreed = r.panel_weights == packed
        agreed = agreed and recipe.group_weights == r.group_weights == r.panels * packed
        demand(agreed, "weights are packed for another record", recipe.group_weights)
        reads = [self._reads(both) for both in range(r.outer_phases * r.phases)]
        for block in all_blocks(r, [*r.outer_of("begins"), r.begin]):
            region = self._pack(block)
            for phase in range(r.outer_phases):
                self._run_phase(block, region, phase, reads[phase * r.phases :])
        self.outputs.check()
        self.scratch.check()

    def _reads(self, both: int) -> list[Reads]:
        """Return all that an output reads, for each phase of the last axis that a tile merges."""
        r, recipe = self.r, self.recipe
        taps, merged, rows = recipe.taps, recipe.merged, recipe.rows
        kinds = 1 if merged == 1 else 1 + merged
        listed = r.depth // r.run  # entries of the segments for one tap
        start = r.at("segment_start", both)
        first, rest = divmod(r.at("phase_weights", both), r.depth * rows)
        demand(rest == 0, "weights of a phase begin inside a tap", both)
        counts = tuple(r.at("segment_counts", both * kinds + kind) for kind in range(kinds))
        agreed = tuple(count * listed for count in recipe.counts[both]) == counts
        demand(agreed, "weights are packed for other segments", counts)
        found: list[Reads] = [[] for _ in range(merged)]
        for kind, count in enumerate(counts):
            mine = range(merged) if kind == 0 else [kind - 1]
            for entry in range(start, start + count, listed):
                place = r.at("segments", entry)
                channels = [r.at("segments", entry + k) for k in range(listed)]
                due = [place + k * r.row for k in range(listed)]
                demand(channels == due, "channels of a tap lie elsewhere", channels)
                real = first >= 0 and first + len(mine) <= len(taps)
                demand(real, "a tile reads weights that were not packed", both)
                for place_in_tile, phase in enumerate(mine):
                    found[phase].append((taps[first + place_in_tile], place))
                first += len(mine)
            start += count
        return found

    def _pack(self, block: Block) -> Region:
        """Return what a block reads of its first channel, each residue of the step apart."""
        r = self.r
        steps, lows = r.outer_of("steps_in"), r.outer_of("lows_in")
        spans, pitches, sizes = (r.outer_of(name) for name in ("spans", "pitches", "sizes_in"))
        outer = zip(block.counts, steps, spans, strict=False)
        extents = [(count - 1) * step + span for count, step, span in outer]
        firsts = [a * step + low for a, step, low in zip(block.starts, steps, lows, strict=False)]
        first = block.starts[-1] * r.step_in + r.low_in
        demand(r.step_in * r.residue <= r.row, "residues overlap the next plane", r.row)
        region: Region = {}
        stretches = []
        for here in product(*map(range, extents)):
            if not needs_line(r, here):
                continue
            line = tuple(map(add, firsts, here))
            exists = inside(line, sizes)
            real = not exists or inside(line, self.source[:-1])
            demand(real, "packing reads outside the source", line)
            begin = sum(map(mul, here, pitches))
            stretches.append((begin, begin + self.groups * r.depth * r.row))
            for residue in range(r.step_in):
                if not is_needed(r.needed_last, residue):
                    continue
                origin, up = first + residue, r.step_in - 1
                before = min(max(up - origin, 0) // r.step_in, r.residue)
                until = min(max(r.size_in - origin + up, 0) // r.step_in, r.residue)
                for k in range(r.residue):
                    x = origin + k * r.step_in
                    read = exists and before <= k < until
                    real = not read or 0 <= x < self.source[-1]
                    demand(real, "packing reads outside the source", (*line, x))
                    region[begin + residue * r.residue + k] = (*line, x) if read else None
        demand(stretches, "a block reads nothing", extents)
        end = max(stop for _, stop in stretches)
        demand(apart(stretches, end), "packed lines overlap", pitches)
        self.scratch.touch("region", end)
        return region

    def _run_phase(
        self, block: Block, region: Region, phase: int, reads: list[list[Reads]]
    ) -> None:
        """Sum and store, for one phase of the outer axes, those of the last after each other."""
        r, lanes, merged = self.r, self.recipe.lanes, self.recipe.merged
        digits, lines, offsets = phase_lines(r, block, phase)
        demand(len(lines) <= r.lines, "a phase has more lines than there is room", r.lines)
        for table in ("lines", "targets"):
            self.scratch.touch_table(table, len(lines))
        read_planes, sum_planes = self.groups * r.depth, self.groups * r.columns * merged
        for x in range(r.phases):
            low = max(block.starts[-1], r.at("last_low", x))
            length = max(min(block.stops[-1], r.at("last_high", x)) - low, 0)
            padded = -(-length // lanes) * lanes
            demand(padded <= r.sums_pitch, "sums overlap the next line", (padded, r.sums_pitch))
            for number, (line, offset) in enumerate(zip(lines, offsets, strict=True)):
                origin = offset + low - block.starts[-1]
                sums = ((sum_planes - 1) * r.lines + number) * r.sums_pitch
                self.scratch.touch("sums", sums + padded if length else 0)
                target = target_line(r, line, digits)
                for p, mine in enumerate(reads[x]):
                    for _, place in mine if length else ():
                        # Vectors read past the last point, from whatever lies there.
                        end = origin + place + (read_planes - 1) * r.row + padded
                        self.scratch.touch("region", end)
                    for k in range(length):
                        here = (low + k) * r.step_out + r.shift_out + x + p
                        # Merged phases end where the line does.
                        if merged == 1 or here < r.size_out:
                            self.outputs.store((*target, here), sum_terms(region, origin + k, mine))
