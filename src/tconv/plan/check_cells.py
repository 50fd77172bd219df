"""A record of cells, run as the kernel runs it and held against the relation.

One group is followed: every column of a cell has a phase and a channel, and what its taps meet
must be what the relation says of the point where the column is stored.
"""

import math
from itertools import product

from tconv.plan import cells
from tconv.plan.cells import Cells
from tconv.plan.check_gather import check_parts, point_tables
from tconv.plan.check_record import (
    Block,
    Outputs,
    Point,
    Record,
    Region,
    Scratch,
    Terms,
    all_blocks,
    apart,
    demand,
    inside,
    pack_region,
    phase_lines,
    sum_terms,
)
from tconv.problem import Operand, Problem


class CellsRun:
    """One group, block after block, as compiled cells do it."""

    def __init__(self, problem: Problem, recipe: Cells) -> None:
        self.problem, self.recipe = problem, recipe
        self.r = Record(recipe.record, cells.SCALARS, cells.ARRAYS)
        self.scratch = Scratch(self.r, recipe.scratch, problem.dtype)
        self.width = recipe.lanes * recipe.vectors
        self.source: Point = problem.batch, *problem.spatial(Operand.COARSE)
        target = problem.batch, *problem.spatial(Operand.FINE)
        self.outputs = [
            Outputs(target, problem.axes, Operand.FINE) for _ in range(problem.fine_channels)
        ]

    def check(self, tile_rows: int) -> None:
        """Run every block, then look whether anything was left out."""
        r, problem = self.r, self.problem
        demand(problem.wanted is Operand.FINE, "cells compute FINE only", problem.wanted)
        demand(r.spare >= tile_rows - 1, "a last tile reads past its table", r.spare)
        blank = r.arrays["blank"]
        enough = max(tile_rows, -(-self.width * self.scratch.item // 8))
        demand(len(blank) >= enough and not any(blank), "sums do not begin with zeros", blank)
        found = (r.outer, r.groups, r.depth, r.phases, r.outer_phases)
        due = (len(problem.axes), problem.groups, problem.coarse_channels, 1, 1)
        demand(found == due, "sizes are not the problem's", found)
        r.positive("cell", "unit", "store_length", "stores", "most_phases")
        r.room(dict.fromkeys(("source_steps", "target_steps"), r.outer))
        r.room({"segments_in_place": len(r.arrays["segments"])})
        unused = r.panels_at_once, r.in_place, r.together, r.stream, r.large
        demand(not any(unused), "calls know what is in place, and all panels are summed", unused)
        items = r.groups * r.chunks * r.blocks * math.prod(r.outer_of("outer_blocks"))
        demand(self.recipe.items == items, "work items are not all blocks", self.recipe.items)
        owners = self._owners()
        chunks = self._chunks()
        self._check_weights()
        places = self._places()
        for block in all_blocks(r, [*r.outer_of("begins"), r.begin]):
            region, end = pack_region(r, block, self.source, r.depth)
            self.scratch.touch("region", end)
            _, lines, offsets = phase_lines(r, block, 0)
            sums = self._sums(block, offsets, region, places)
            for chunk in chunks:
                self._store(block, lines, sums, owners, chunk)
        for outputs in self.outputs:
            outputs.check()
        self.scratch.check()

    def _owners(self) -> dict[int, tuple[int, int]]:
        """Return the phase and channel of every column."""
        columns = self.recipe.columns
        pairs = [
            (column, (phase, channel))
            for phase, mine in enumerate(columns)
            for channel, column in enumerate(mine)
        ]
        owners = dict(pairs)
        whole = sorted(owners) == [*range(self.r.columns)] and len(pairs) == len(owners)
        demand(whole, "columns are not one for each phase and channel", self.r.columns)
        demand(len(self.recipe.taps) == len(columns), "phases have no taps", len(columns))
        return owners

    def _chunks(self) -> list[tuple[int, int]]:
        """Return the columns of each work item of a block; together they are all panels."""
        r, size = self.r, self.r.panels_a_chunk
        needed = [*range(-(-r.columns // self.width))]
        chunks = [range(c * size, min((c + 1) * size, r.panels)) for c in range(r.chunks)]
        taken = [panel for chunk in chunks for panel in chunk]
        demand(taken == needed, "work items do not take every panel once", taken)
        for panel in taken:
            narrow = r.columns - panel * self.width <= self.recipe.lanes
            demand(narrow == (panel >= r.wide_panels), "a panel is read wider than packed", panel)
        return [(chunk.start * self.width, chunk.stop * self.width) for chunk in chunks]

    def _check_weights(self) -> None:
        """Look whether tiles read the panels as they are packed: neighbour after neighbour."""
        r, recipe = self.r, self.recipe
        panel = recipe.neighbours * r.depth * self.width
        agreed = (recipe.panels, recipe.group_weights) == (r.panels, r.group_weights)
        demand(agreed, "weights are packed for another record", recipe.group_weights)
        demand(r.group_weights >= r.panels * panel, "packed weights overlap", r.group_weights)
        found = (r.at("phase_weights", 0), r.at("panel_weights", 0), r.at("rows_before", 0))
        demand(found == (0, panel, 0), "a tile reads weights that were not packed", found)
        counts = {len(taps) for taps in recipe.taps}
        demand(counts == {recipe.neighbours}, "a phase has other neighbours", counts)

    def _places(self) -> list[int]:
        """Return what each neighbour adds to the place that a cell reads."""
        r = self.r
        depth = r.at("segment_depth", 0)
        demand(depth % r.depth == 0, "a segment ends inside a point", depth)
        check_parts(r, 0)
        places = [
            r.at("segments", r.at("segment_start", 0) + s) + start
            for s in range(r.at("segment_count", 0))
            for start in range(0, depth, r.depth)
        ]
        found = len(places)
        demand(found == self.recipe.neighbours, "tiles read other neighbours than packed", found)
        return places

    def _sums(
        self, block: Block, offsets: list[int], region: Region, places: list[int]
    ) -> dict[int, list[Terms]]:
        """Return where the sums of a cell lie, and what they are made of, by phase."""
        r = self.r
        demand(r.sums_panel == self.width, "panels do not lie side by side", r.sums_panel)
        sums: dict[int, list[Terms]] = {}
        made: dict[int, list[Terms]] = {}
        (table,) = point_tables(r, self.scratch, block, offsets)
        for row, place, _ in table:
            demand(place not in sums, "two cells are summed in one place", place)
            if row not in made:
                made[row] = [
                    sum_terms(region, row, [(t, p) for t, p in zip(taps, places, strict=True) if t])
                    for taps in self.recipe.taps
                ]
            sums[place] = made[row]
        stretches = [(place, place + r.panels * self.width) for place in sums]
        end = max((stop for _, stop in stretches), default=0)
        demand(apart(stretches, end), "sums of two cells overlap", r.sums_point)
        # Short runs of columns are read as whole vectors.
        self.scratch.touch("sums", end + self.recipe.lanes)
        return sums

    def _store(
        self,
        block: Block,
        lines: list[Point],
        sums: dict[int, list[Terms]],
        owners: dict[int, tuple[int, int]],
        chunk: tuple[int, int],
    ) -> None:
        """Write the columns of one work item out, run after run."""
        r = self.r
        sizes, steps, pads = (r.outer_of(name) for name in ("sizes_out", "cells", "pads"))
        origin = block.starts[-1] * r.cell - r.pad
        for run, (number, line) in product(range(r.stores), enumerate(lines)):
            begin = r.at("store_columns", run)
            low, high = max(chunk[0] - begin, 0), min(chunk[1] - begin, r.store_length)
            phases = [r.at("store_phases", run * r.outer + d) for d in range(r.outer)]
            here = zip(line, steps, phases, pads, strict=True)
            outer = tuple(point * step + phase - pad for point, step, phase, pad in here)
            if not inside(outer, sizes):
                continue
            for p, i in product(range(block.counts[-1]), range(low, high)):
                x = origin + p * r.cell + i // r.unit
                if not 0 <= x < r.size_out:
                    continue
                place = (number * r.sums_pitch + p) * r.sums_point
                demand(place in sums, "a cell is stored that was not summed", (*outer, x))
                demand(begin + i in owners, "a column is stored that there is not", begin + i)
                phase, owner = owners[begin + i]
                channel = r.at("store_channels", run) + i % r.unit
                demand(channel == owner, "a column is stored as another channel", begin + i)
                self.outputs[channel].store((*outer, x), sums[place][phase])
