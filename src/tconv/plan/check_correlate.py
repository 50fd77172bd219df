"""A correlation's record, run as the kernel runs it and held against the relation.

Work items, rows and panels are one thing, points the other, and both are looked at apart: the
items must take every sum once, each from the right rows and channels, and every pair of shifts
that any of them reads with must meet, over all blocks, every coarse point once.
"""

import math
from dataclasses import dataclass, replace
from itertools import product
from operator import mul

import numpy as np

from tconv.plan import correlate
from tconv.plan.check_record import (
    Block,
    Point,
    Record,
    Scratch,
    Table,
    all_blocks,
    demand,
    digits_of,
    inside,
)
from tconv.plan.correlate import Correlate
from tconv.problem import Operand, Problem

ZERO, UNPACKED = -1, -2  # instead of a point's number


@dataclass(frozen=True, slots=True)
class _Part:
    """What of the weights a work item computes."""

    group: int
    taps: range
    rows: range
    panels: range


@dataclass(frozen=True, slots=True)
class _Shift:
    """How far behind a point both sides are read, and for which tap; None for no sum."""

    tap: int | None
    a: int
    b: int


class CorrelateRun:
    """All work items, block after block, as a compiled correlation does them."""

    def __init__(self, problem: Problem, recipe: Correlate, tile_rows: int) -> None:
        self.problem, self.recipe, self.height = problem, recipe, tile_rows
        self.columns = recipe.lanes * recipe.vectors
        self.r = Record(recipe.record, correlate.SCALARS, correlate.ARRAYS)
        self.scratch = Scratch(self.r, recipe.scratch, problem.dtype)
        self.swapped = self.r.swapped != 0
        self.a_rows = 1 if self.swapped else tile_rows  # of side A that lie side by side
        self.coarse = problem.batch, *problem.spatial(Operand.COARSE)
        self.fine = problem.batch, *problem.spatial(Operand.FINE)
        self.taps = [*product(*(range(axis.taps) for axis in problem.axes))]

    def check(self) -> None:
        """Run every item and every block, then look whether anything was left out."""
        self._check_sizes()
        self._check_shared()
        shifts: set[_Shift] = set()
        shapes: set[tuple[int, int, tuple[int, ...]]] = set()
        for part in self._parts():
            self._check_channels(part)
            shifts |= self._shifts(part)
            widths = tuple(self._width(panel) for panel in part.panels)
            if (shape := (len(part.taps), len(part.rows), widths)) not in shapes:
                shapes.add(shape)
                self._check_sums(part, widths)
        self._check_pieces()
        self._check_points(shifts)
        self.scratch.check()

    def _check_sizes(self) -> None:
        """Refuse a record of another problem, or one that divides by zero."""
        r, problem, recipe = self.r, self.problem, self.recipe
        stored = recipe.taps == tuple(self.taps) and r.taps == len(self.taps)
        demand(stored, "taps are not all stored once", r.taps)
        demand(recipe.swapped == self.swapped, "sides change places by halves", r.swapped)
        channels = problem.coarse_channels, problem.fine_channels
        rows, columns = channels[::-1] if self.swapped else channels
        found = (r.outer, r.rows, r.columns, r.a_channels, r.b_channels)
        due = (len(problem.axes), rows, columns, rows, columns)
        demand(found == due, "sizes are not the problem's", found)
        r.positive("pieces", "piece_blocks", "run_points", "sums", "a_plane", "b_plane")
        r.positive("block_tiles", "block_panels")
        r.positive(*(f"{name}_chunks" for name in ("tap", "row", "panel")))
        r.positive(*(f"chunk_{name}" for name in ("taps", "rows", "panels")))
        steps = dict.fromkeys(("a_source_steps", "b_source_steps"), r.outer)
        r.room({**steps, "target_taps": len(self.taps)})
        demand(r.sums % recipe.lanes == 0, "sums end inside a vector", r.sums)
        left = r.columns - (r.panels - 1) * self.columns
        demand(0 < left <= self.columns, "panels do not take every channel once", r.panels)

    def _check_shared(self) -> None:
        """Look whether what is packed for all work items is whole, and has room."""
        r, recipe = self.r, self.recipe
        packs = 0
        if r.shared != 0:
            demand((r.all_blocks, r.pieces) == (1, 1), "sides are shared by blocks", r.all_blocks)
            ends = []
            for side, width in (("a", self.a_rows), ("b", self.columns)):
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
        due = self.problem.groups * packs
        demand(recipe.packs == due, "sides are not all packed once", recipe.packs)

    def _width(self, panel: int) -> int:
        """Return how many channels the sums of a panel have, used or not."""
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
        demand(index < self.problem.groups, "a work item has no group", index)
        return _Part(index, taps, rows, panels)

    def _parts(self) -> list[_Part]:
        """Return the different parts of groups; together they must take every sum once."""
        r, recipe, groups = self.r, self.recipe, self.problem.groups
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
        first = part.panels.start * self.columns
        packed = min(r.b_channels - first, r.b_most)
        due = min(r.columns - first, len(part.panels) * self.columns)
        demand(packed == due, "panels have other channels than are packed", (packed, due))
        for panel in part.panels:
            used = min(r.columns - panel * self.columns, self.columns)
            demand(used <= self._width(panel), "a panel is stored wider than summed", panel)
        if r.shared == 0:
            self.scratch.touch("region", -(-self._packed_rows(part) // self.a_rows) * r.a_plane)
            self.scratch.touch("b", len(part.panels) * r.b_plane)
        else:
            whole = self.swapped or part.rows.start % self.height == 0
            demand(whole, "rows begin inside a tile", part)
        if r.pieces == 1:
            self.scratch.touch("sums", r.sums)

    def _packed_rows(self, part: _Part) -> int:
        """Return how many channels of side A are packed."""
        return min(self.r.a_channels - (0 if self.swapped else part.rows.start), self.r.a_most)

    def _tile_rows(self, part: _Part) -> tuple[int, int]:
        """Return how many rows a panel sums, and how many tiles they are."""
        rows = len(part.taps) * self.r.rows if self.swapped else len(part.rows)
        return rows, -(-rows // self.height)

    def _shifts(self, part: _Part) -> set[_Shift]:
        """Look whether rows are the right channels; return all shifts that they are read with.

        The small tile has fewer rows; what the large one would read counts.
        """
        r = self.r
        rows, tiles = self._tile_rows(part)
        first = part.taps.start * r.rows if self.swapped else part.rows.start
        offsets = r.part("row_offsets", first, tiles * self.height)
        planes, shifts = np.divmod(offsets, r.a_plane)
        channels = planes * self.a_rows
        if not self.swapped:  # a tile begins where its first row does; the others lie beside it
            channels, shifts = channels + shifts, np.zeros_like(shifts)
        packed = ((channels >= 0) & (channels < self._packed_rows(part))).all()
        demand(packed, "a row is a channel that was not packed", part)
        due = np.arange(rows) % r.rows
        demand((channels[:rows] == due).all(), "a row is another channel", part)
        if self.swapped:
            b = r.at("shifts", 0)
            taps = part.taps.start + np.arange(rows) // r.rows
            pairs = {*zip(taps.tolist(), shifts[:rows].tolist(), strict=True)}
            spare = {_Shift(None, a, b) for a in shifts[rows:].tolist()}
            return spare | {_Shift(tap, a, b) for tap, a in pairs}
        return {_Shift(tap, 0, r.at("shifts", tap)) for tap in part.taps}

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
            alone = (r.pieces, r.piece_blocks) == (1, 1)
            demand(alone, "sums are written over before they are stored", r.sums_step)
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
        r, size = self.r, self.r.piece_blocks
        pieces = (range(p * size, min((p + 1) * size, r.all_blocks)) for p in range(r.pieces))
        taken = [block for piece in pieces for block in piece]
        demand(taken == [*range(r.all_blocks)], "pieces do not take every block once", r.pieces)
        room = self.recipe.items * r.sums if r.pieces > 1 else self.problem.groups * r.shared
        demand(room <= self.recipe.common, "there is no room for what all workers see", room)

    def _check_points(self, shifts: set[_Shift]) -> None:
        """Run every block with every shift: each meets each coarse point once."""
        blocks = [*all_blocks(self.r, [0] * (self.r.outer + 1))]
        demand(self.r.all_blocks == len(blocks), "not every block is visited", self.r.all_blocks)
        met = {shift: self._met(shift.tap) for shift in shifts if shift.tap is not None}
        seen = {shift: np.zeros(math.prod(self.coarse), np.int64) for shift in met}
        for block in blocks:
            a, b = self._pack(block, "a", self.a_rows), self._pack(block, "b", self.columns)
            a_places, b_places = self._places(block)
            for shift in shifts:
                left, right = _read(a, a_places + shift.a), _read(b, b_places + shift.b)
                coarse, fine = (right, left) if self.swapped else (left, right)
                if shift.tap is not None:
                    summed = coarse != ZERO
                    points = coarse[summed]
                    np.add.at(seen[shift], points, 1)
                    agreed = np.array_equal(fine[summed], met[shift][points])
                    tap = self.taps[shift.tap]
                    demand(agreed, f"a point meets another by {tap}", (shift, block.starts))
        for shift, counts in seen.items():
            demand((counts == 1).all(), "points are not all summed once", (shift, counts))

    def _met(self, tap: int) -> Table:
        """Return for every coarse point the number of the fine one that a tap meets."""
        numbers = np.arange(self.problem.batch)
        outside = np.zeros(self.problem.batch, bool)
        for axis, t in zip(self.problem.axes, self.taps[tap], strict=True):
            fine = [axis.fine(coarse, t) for coarse in range(axis.coarse_size)]
            here = np.array([0 if point is None else point for point in fine])
            numbers = (numbers[:, None] * axis.fine_size + here).ravel()
            outside = (outside[:, None] | np.array([point is None for point in fine])).ravel()
        return np.where(outside, ZERO, numbers)

    def _pack(self, block: Block, side: str, width: int) -> Table:
        """Return the points of a side as packed, so many channels side by side."""
        r = self.r
        room = r.scalars[f"{side}_plane"] // width
        grid: Point = self.fine if (side == "a") == self.swapped else self.coarse
        n = {name: r.scalars[f"{side}_{name}"] for name in correlate.SIDE_SCALARS}
        t = {name: r.outer_of(f"{side}_{name}") for name in ("sizes", "steps", "lows", "halos")}
        first = block.starts[-1] * n["step"] + n["low"]
        limit = min(n["size"], block.stops[-1] * n["step"] + n["slack"])
        points = (block.counts[-1] + n["halo"]) * n["width"]
        if n["contiguous"] and width == 1:  # computed, each to the plane of its residue
            quotients, rests = np.divmod(np.arange(points), n["contiguous"])
            reads, places = np.arange(points), quotients + rests * r.plane
        else:
            reads, places = (r.part(f"{side}_{name}", 0, points) for name in ("reads", "places"))
        head = int((reads < -first).sum())
        read = slice(head, head + int(((reads >= -first) & (reads < limit - first)).sum()))
        line = first + reads[read]
        real = ((line >= 0) & (line < grid[-1])).all()
        demand(real, "packing reads outside a side", (side, first, block.starts))
        own = not n["contiguous"] or np.array_equal(reads, np.arange(points))
        demand(own, "what is copied whole does not lie so", side)
        packed = np.full(room, UNPACKED, np.int64)
        extents = [count + halo for count, halo in zip(block.counts, t["halos"], strict=False)]
        reach = [
            stop * step + n["slack"] for stop, step in zip(block.stops, t["steps"], strict=False)
        ]
        limits = [*map(min, t["sizes"], reach)]
        for combination, *here in product(range(n["combinations"]), *map(range, extents)):
            residues = r.part(f"{side}_residues", combination * r.outer, r.outer).tolist()
            outer = zip(block.starts, here, t["steps"], t["lows"], residues, strict=False)
            point = [(start + h) * step + low + rest for start, h, step, low, rest in outer]
            into = places + combination * n["width"] * r.plane
            into += sum(map(mul, here, r.outer_of(f"{side}_pitches")))
            fits = ((into >= 0) & (into < room)).all()
            demand(fits, "packed points leave their plane", (side, point, room))
            free = (packed[into] == UNPACKED).all() and len({*into.tolist()}) == len(into)
            demand(free, "two points are packed in one place", (side, point))
            packed[into] = ZERO
            if inside(point, limits):
                demand(inside(point, grid[:-1]), "packing reads outside a side", (side, point))
                number = 0
                for p, size in zip(point, grid, strict=False):
                    number = number * size + p
                packed[into[read]] = number * grid[-1] + line
        return packed

    def _places(self, block: Block) -> tuple[Table, Table]:
        """Return the places on both sides that tiles read, run after run; each must come once."""
        r = self.r
        apart, merged = block.counts[: r.split], [*enumerate(block.counts[:-1])][r.split :]
        demand(0 <= r.split <= r.outer, "more axes are apart than there are", r.split)
        segments, run = math.prod(apart), block.counts[-1]
        run += sum((count - 1) * r.at("b_pitches", d) for d, count in merged)
        for part in ("a_table", "b_table"):
            self.scratch.touch_table(part, segments)
        digits = [digits_of(segment, apart) for segment in range(segments)]
        at_once = r.run_points // run if run <= r.run_points else 1
        runs = -(-run // r.run_points)
        length = (-(-run // runs) + 3) // 4 * 4
        read = np.zeros((segments, run), np.int64)
        for turn, piece in product(range(-(-segments // at_once)), range(runs)):
            read[turn * at_once : (turn + 1) * at_once, piece * length : (piece + 1) * length] += 1
        demand((read == 1).all(), "runs do not take every point once", (segments, run))
        a, b = (
            np.array([sum(map(mul, here, r.outer_of(f"{side}_pitches"))) for here in digits])
            for side in "ab"
        )
        return np.add.outer(a, np.arange(run)), np.add.outer(b, np.arange(run))


def _read(packed: Table, places: Table) -> Table:
    """Return what lies in places."""
    real = places.min() >= 0 and places.max() < len(packed)
    demand(real, "a tile reads past its plane", (places.min(), places.max(), len(packed)))
    found = packed[places]
    demand((found != UNPACKED).all(), "a tile reads what was not packed", places)
    return found
