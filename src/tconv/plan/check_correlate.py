"""A correlation's record, run as the kernel runs it and held against the relation.

Work items, rows and panels are one thing, points the other, and both are looked at apart: the
items must take every sum once, each from the right rows and channels, and every pair of shifts
that any of them reads with must meet, over all blocks, every coarse point once.  Those that
meet nothing may be left out.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from tconv.plan import correlate
from tconv.plan.check_correlate_points import CorrelatePoints, Shift
from tconv.plan.check_record import Record, Scratch, Table, demand
from tconv.plan.correlate import Correlate
from tconv.problem import Problem


@dataclass(frozen=True, slots=True)
class _Part:
    """What of the weights a work item computes."""

    group: int
    taps: range
    rows: range
    panels: range


class CorrelateRun:
    """All work items, block after block, as a compiled correlation does them."""

    def __init__(self, problem: Problem, recipe: Correlate, tile_rows: int) -> None:
        self.problem, self.recipe, self.height = problem, recipe, tile_rows
        self.columns = recipe.lanes * recipe.vectors
        self.r = Record(recipe.record, correlate.SCALARS, correlate.ARRAYS)
        self.scratch = Scratch(self.r, recipe.scratch, problem.dtype)
        self.swapped = self.r.swapped != 0
        self.panel = self.columns // recipe.groups  # channels of one
        # Channels of side A that lie side by side.
        self.a_rows = self.r.a_beside
        self.groups = -(-problem.groups // recipe.groups)  # or vectors of them
        self.taps = [*product(*(range(axis.taps) for axis in problem.axes))]

    def check(self) -> None:
        """Run every item and every block, then look whether anything was left out."""
        self._check_sizes()
        self._check_shared()
        shifts: set[Shift] = set()
        shapes: set[tuple[int, int, tuple[int, ...]]] = set()
        for part in self._parts():
            self._check_channels(part)
            shifts |= self._shifts(part)
            widths = tuple(self._width(panel) for panel in part.panels)
            if (shape := (len(part.taps), len(part.rows), widths)) not in shapes:
                shapes.add(shape)
                self._check_sums(part, widths)
        self._check_pieces()
        widths = self.a_rows * self.recipe.groups, self.columns
        CorrelatePoints(self.problem, self.r, self.scratch, widths).check(shifts)
        self.scratch.check()

    def _check_sizes(self) -> None:
        """Refuse a record of another problem, or one that divides by zero."""
        r, problem, recipe = self.r, self.problem, self.recipe
        stored = recipe.taps == tuple(self.taps) and r.taps == len(self.taps)
        demand(stored, "taps are not all stored once", r.taps)
        demand(recipe.swapped == self.swapped, "sides change places by halves", r.swapped)
        channels = problem.coarse_channels, problem.fine_channels
        rows, columns = channels[::-1] if self.swapped else channels
        demand(not self.swapped or recipe.groups == 1, "taps are rows of vectors", recipe.groups)
        found = (r.outer, r.groups, r.rows, r.columns, r.a_channels, r.b_channels)
        due = (len(problem.axes), problem.groups, rows, columns, rows, columns)
        demand(found == due, "sizes are not the problem's", found)
        r.positive("pieces", "run_points", "sums", "a_plane", "b_plane")
        r.positive("block_tiles", "block_panels", "a_width", "b_width", "a_scale", "a_beside")
        r.positive(*(f"{name}_chunks" for name in ("tap", "row", "panel")))
        r.positive(*(f"chunk_{name}" for name in ("taps", "rows", "panels")))
        steps = dict.fromkeys(("a_source_steps", "b_source_steps"), r.outer)
        r.room({**steps, "target_taps": len(self.taps)})
        demand(r.sums % recipe.lanes == 0, "sums end inside a vector", r.sums)
        beside = 1 if self.swapped or recipe.groups > 1 else self.height
        among = self.swapped and r.a_beside == rows
        demand(among or r.a_beside == beside, "channels lie side by side in part", r.a_beside)
        apart = r.a_scale * r.a_beside * recipe.groups
        alike = r.a_next == apart and r.b_scale == 1
        demand(alike, "points do not lie as far apart as tiles read them", r.a_next)
        left = r.columns - (r.panels - 1) * self.panel
        demand(0 < left <= self.panel, "panels do not take every channel once", r.panels)

    def _check_shared(self) -> None:
        """Look whether what is packed for all work items is whole, and has room."""
        r, recipe = self.r, self.recipe
        packs = 0
        if r.shared != 0:
            demand((r.all_blocks, r.pieces) == (1, 1), "sides are shared by blocks", r.all_blocks)
            ends = []
            for side, width in (("a", self.a_rows), ("b", self.panel)):
                channels, most, chunks, plane = (
                    r.scalars[name.format(side)]
                    for name in ("{}_channels", "pack_{}", "pack_{}_chunks", "{}_plane")
                )
                whole = most > 0 and most % width == 0 and chunks == -(-channels // most)
                demand(whole, "channels are not all packed once", (side, most, chunks))
                packs += chunks
                ends.append(-(-channels // width) * plane)
            fits = ends[0] <= r.shared_b and r.shared_b + ends[1] <= r.shared
            demand(fits, "shared sides overlap, or leave their place", (ends, r.shared))
        due = self.groups * packs
        demand(recipe.packs == due, "sides are not all packed once", recipe.packs)

    def _width(self, panel: int) -> int:
        """Return how many elements the sums of a panel have, used or not."""
        return self.columns if panel < self.r.wide_panels else self.recipe.lanes

    def _find(self, index: int) -> _Part:
        """Return what a work item computes, as kernels find it."""
        r, found = self.r, []
        for name, whole in (("panel", r.panels), ("row", r.rows), ("tap", r.taps)):
            index, digit = divmod(index, r.scalars[f"{name}_chunks"])
            first = digit * r.scalars[f"chunk_{name}s"]
            stop = min(first + r.scalars[f"chunk_{name}s"], whole)
            demand(first < stop, f"a work item has no {name}", (first, whole))
            found.append(range(first, stop))
        panels, rows, taps = found
        demand(index < self.groups, "a work item has no group", index)
        return _Part(index, taps, rows, panels)

    def _parts(self) -> list[_Part]:
        """Return the different parts of groups; together they must take every sum once."""
        r, recipe, groups = self.r, self.recipe, self.groups
        stores, rest = divmod(recipe.items, r.pieces)
        demand(rest == 0, "the work items of a piece are missing", recipe.items)
        due = 0 if r.pieces == 1 else stores
        demand(recipe.stores == due, "pieces are not all added and stored once", recipe.stores)
        taken = np.zeros((groups, r.taps, r.rows, r.panels), np.int64)
        parts = [self._find(item // r.pieces) for item in range(0, recipe.items, r.pieces)]
        for part in parts:
            taps, rows, panels = (
                slice(chunk.start, chunk.stop) for chunk in (part.taps, part.rows, part.panels)
            )
            taken[part.group, taps, rows, panels] += 1
        demand((taken == 1).all(), "work items do not take every sum once", recipe.items)
        return [*{replace(part, group=0) for part in parts}]

    def _check_channels(self, part: _Part) -> None:
        """Pack the channels that a part's rows and panels have, and no others."""
        r = self.r
        first = part.panels.start * self.panel
        packed = min(r.b_channels - first, r.b_most)
        due = min(r.columns - first, len(part.panels) * self.panel)
        demand(packed == due, "panels have other channels than are packed", (packed, due))
        for panel in part.panels:
            used = min(r.columns - panel * self.panel, self.panel)
            wide = self._width(panel) // self.recipe.groups
            demand(used <= wide, "a panel is stored wider than summed", panel)
        if r.shared == 0:
            self.scratch.touch("region", -(-self._packed_rows(part) // self.a_rows) * r.a_plane)
            self.scratch.touch("b", len(part.panels) * r.b_plane)
        else:
            whole = part.rows.start % self.a_rows == 0
            demand(whole, "rows begin inside a tile", part)
        if r.pieces == 1:
            self.scratch.touch("sums", r.sums)
        if self.recipe.streamed:  # weights of a row, as they are written
            demand(self.recipe.groups == 1, "weights of a row are not a run", self.recipe.groups)
            demand(len(part.taps) == r.taps, "a run of weights has other taps between", part)
            self.scratch.touch("run", r.block_panels * self.columns * r.taps)

    def _packed_rows(self, part: _Part) -> int:
        """Return how many channels of side A are packed."""
        return min(self.r.a_channels - (0 if self.swapped else part.rows.start), self.r.a_most)

    def _tile_rows(self, part: _Part) -> tuple[int, int]:
        """Return how many rows a panel sums, and how many tiles they are."""
        rows = len(part.taps) * self.r.rows if self.swapped else len(part.rows)
        return rows, -(-rows // self.height)

    def _shifts(self, part: _Part) -> set[Shift]:
        """Look whether rows are the right channels; return all shifts that they are read with.

        The small tile has fewer rows; what the large one would read counts.
        """
        r = self.r
        rows, tiles = self._tile_rows(part)
        first = part.taps.start * r.rows if self.swapped else part.rows.start
        offsets = r.part("row_offsets", first, tiles * self.height)
        planes, shifts = np.divmod(offsets, r.a_plane)
        channels = planes * self.a_rows
        if self.recipe.groups > 1:
            demand((shifts == 0).all(), "a row begins inside a plane", part)
        elif self.swapped:  # channels of a point lie side by side, or in planes
            channels, shifts = channels + shifts % self.a_rows, shifts // self.a_rows
        else:  # a tile begins where its first row does, the others beside it
            channels, shifts = channels + shifts, np.zeros_like(shifts)
        packed = ((channels >= 0) & (channels < self._packed_rows(part))).all()
        demand(packed, "a row is a channel that was not packed", part)
        due = np.arange(rows) % r.rows
        demand((channels[:rows] == due).all(), "a row is another channel", part)
        if self.swapped:
            b = r.at("shifts", 0)
            taps = part.taps.start + np.arange(rows) // r.rows
            pairs = {*zip(taps.tolist(), shifts[:rows].tolist(), strict=True)}
            spare = {Shift(None, a, b) for a in shifts[rows:].tolist()}
            return spare | {Shift(tap, a, b) for tap, a in pairs}
        return {Shift(tap, 0, r.at("shifts", tap)) for tap in part.taps}

    def _check_sums(self, part: _Part, widths: tuple[int, ...]) -> None:
        """Look whether sums lie apart, and whether each is stored for its tap, row and panel."""
        r, (rows, tiles) = self.r, self._tile_rows(part)
        demand(not self.swapped or tiles <= r.block_tiles, "rows of taps are torn apart", part)
        tile = self.height * self.columns
        wide = np.array(widths)[:, None]
        # Where tiles sum: by shift, panel and row.
        shifts = np.arange(1 if self.swapped else len(part.taps))[:, None, None]
        block, inside = np.divmod(np.arange(tiles * self.height), r.block_tiles * self.height)
        blocks = -(-tiles // r.block_tiles)
        turn, panel = np.divmod(np.arange(len(widths))[:, None], r.block_panels)
        a_shift = r.block_tiles * tile
        begins = (turn * blocks + block) * r.sums_step + panel * r.panel_sums
        summed = begins + shifts * a_shift + inside * wide
        if r.sums_step == 0:  # one after another in the same place, each stored at once
            demand(r.all_blocks == 1, "sums are written over before they are stored", r.sums_step)
            for first, here in product(range(0, len(widths), r.block_panels), range(blocks)):
                some = slice(first, first + r.block_panels)
                self._check_apart(part, summed[:, some, block == here], wide[some])
        else:
            self._check_apart(part, summed, wide)
        # Where they are stored from: by tap, panel and row.
        taps, rows_here = np.arange(len(part.taps)), np.arange(len(part.rows))
        block, inside = np.divmod(rows_here, r.block_tiles * self.height)
        if self.swapped:
            block, inside = np.zeros_like(block), rows_here
        begins = (turn * blocks + block) * r.sums_step + panel * r.panel_sums
        for run in {len(self.taps), self.problem.axes[-1].taps}:  # as the target lies
            length = min(run, len(taps))
            demand(len(taps) % length == 0, "a run of taps ends inside a work item", part)
        pitch = r.rows * wide if self.swapped else a_shift
        stored = begins + inside * wide + taps[:, None, None] * pitch
        due = summed[:, :, :rows]
        if self.swapped:  # rows are taps and channels
            due = due.reshape(len(widths), len(taps), r.rows).swapaxes(0, 1)
            due = due[:, :, part.rows.start : part.rows.stop]
        demand(np.array_equal(stored, due), "a sum is stored in another's place", part)

    def _check_apart(self, part: _Part, begins: Table, widths: Table) -> None:
        """Look whether rows of sums lie apart, and inside what there is for them."""
        order = np.argsort(begins, axis=None)
        starts = begins.ravel()[order]
        stops = starts + np.broadcast_to(widths, begins.shape).ravel()[order]
        whole = starts[0] >= 0 and stops[-1] <= self.r.sums and (stops[:-1] <= starts[1:]).all()
        demand(whole, "sums overlap, or leave their place", (part, self.r.sums))

    def _check_pieces(self) -> None:
        """Look whether pieces take every block once, and have room for their sums."""
        r = self.r
        demand(r.pieces <= r.all_blocks, "a piece has no block", r.pieces)
        room = self.recipe.items * r.sums if r.pieces > 1 else self.groups * r.shared
        demand(room <= self.recipe.common, "there is no room for what all workers see", room)
