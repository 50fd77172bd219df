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
        self.coarse = problem.batch, *problem.spatial(Operand.COARSE)
        self.fine = problem.batch, *problem.spatial(Operand.FINE)
        self.taps = [*product(*(range(axis.taps) for axis in problem.axes))]

    def check(self) -> None:
        """Run every item and every block, then look whether anything was left out."""
        self._check_sizes()
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
        r.positive(*(f"{name}_chunks" for name in ("tap", "row", "panel")))
        r.positive(*(f"chunk_{name}" for name in ("taps", "rows", "panels")))
        steps = dict.fromkeys(("a_source_steps", "b_source_steps"), r.outer)
        r.room({**steps, "target_taps": len(self.taps)})
        demand(r.sums % recipe.lanes == 0, "sums end inside a vector", r.sums)
        left = r.columns - (r.panels - 1) * self.columns
        demand(0 < left <= self.columns, "panels do not take every channel once", r.panels)

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
        self.scratch.touch("region", self._packed_rows(part) * r.a_plane)
        self.scratch.touch("b", len(part.panels) * r.b_plane)
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
        channels, shifts = np.divmod(offsets, r.a_plane)
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
        return {
            _Shift(tap, a, r.at("shifts", tap)) for tap in part.taps for a in {*shifts.tolist()}
        }

    def _check_sums(self, part: _Part, widths: tuple[int, ...]) -> None:
        """Look whether sums lie apart, and whether each is stored for its tap, row and panel."""
        r, (rows, tiles) = self.r, self._tile_rows(part)
        tile = self.height * self.columns
        wide = np.array(widths)
        panels = np.arange(len(widths))
        # Where tiles sum: by shift, panel and row.
        shifts = np.arange(1 if self.swapped else len(part.taps))[:, None, None]
        begins = (shifts * len(widths) + panels[:, None]) * tiles * tile
        summed = begins + np.arange(tiles * self.height) * wide[:, None]
        order = np.argsort(summed, axis=None)
        starts = summed.ravel()[order]
        stops = starts + np.broadcast_to(wide[:, None], summed.shape).ravel()[order]
        whole = starts[0] >= 0 and stops[-1] <= r.sums and (stops[:-1] <= starts[1:]).all()
        demand(whole, "sums overlap, or leave their place", (part, r.sums))
        # Where they are stored from: by tap, panel and row.
        a_shift = len(widths) * tiles * tile
        taps, here = np.arange(len(part.taps)), np.arange(len(part.rows))
        for run in {len(self.taps), self.problem.axes[-1].taps}:  # as the target lies
            length = min(run, len(taps))
            demand(len(taps) % length == 0, "a run of taps ends inside a work item", part)
            first, further = (taps // length * length)[:, None, None], taps[:, None, None] % length
            line = first * r.rows + here if self.swapped else here
            stored = panels[:, None] * tiles * tile + line * wide[:, None]
            stored = stored + (0 if self.swapped else first * a_shift)
            pitch = r.rows * wide[:, None] if self.swapped else a_shift
            stored = stored + further * pitch
            due = summed[:, :, :rows]
            if self.swapped:  # rows are taps and channels
                due = due.reshape(len(widths), len(taps), r.rows).swapaxes(0, 1)
                due = due[:, :, part.rows.start : part.rows.stop]
            demand(np.array_equal(stored, due), "a sum is stored in another's place", part)

    def _check_pieces(self) -> None:
        """Look whether pieces take every block once, and have room for their sums."""
        r, size = self.r, self.r.piece_blocks
        pieces = (range(p * size, min((p + 1) * size, r.all_blocks)) for p in range(r.pieces))
        taken = [block for piece in pieces for block in piece]
        demand(taken == [*range(r.all_blocks)], "pieces do not take every block once", r.pieces)
        room = self.recipe.items * r.sums if r.pieces > 1 else 0
        demand(room <= self.recipe.partials, "pieces have no room for their sums", room)

    def _check_points(self, shifts: set[_Shift]) -> None:
        """Run every block with every shift: each meets each coarse point once."""
        blocks = [*all_blocks(self.r, [0] * (self.r.outer + 1))]
        demand(self.r.all_blocks == len(blocks), "not every block is visited", self.r.all_blocks)
        met = {shift: self._met(shift.tap) for shift in shifts if shift.tap is not None}
        seen = {shift: np.zeros(math.prod(self.coarse), np.int64) for shift in met}
        for block in blocks:
            a, b = self._pack(block, "a", self.r.a_plane), self._pack(block, "b", self._b_points())
            places = self._places(block)
            for shift in shifts:
                left, right = _read(a, places + shift.a), _read(b, places + shift.b)
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

    def _b_points(self) -> int:
        """Return how many points of side B fit before the next panel."""
        return self.r.b_plane // self.columns

    def _pack(self, block: Block, side: str, room: int) -> Table:
        """Return the points of a side as packed, in a plane or panel of so many places."""
        r = self.r
        grid: Point = self.fine if (side == "a") == self.swapped else self.coarse
        n = {name: r.scalars[f"{side}_{name}"] for name in correlate.SIDE_SCALARS}
        t = {name: r.outer_of(f"{side}_{name}") for name in ("sizes", "steps", "lows", "halos")}
        first = block.starts[-1] * n["step"] + n["low"]
        limit = min(n["size"], block.stops[-1] * n["step"] + n["slack"])
        points = (block.counts[-1] + n["halo"]) * n["width"]
        reads, places = (r.part(f"{side}_{name}", 0, points) for name in ("reads", "places"))
        head = int((reads < -first).sum())
        read = slice(head, head + int(((reads >= -first) & (reads < limit - first)).sum()))
        line = first + reads[read]
        real = ((line >= 0) & (line < grid[-1])).all()
        demand(real, "packing reads outside a side", (side, first, block.starts))
        for table in (reads, places) if side == "a" else (reads,):
            runs_on = not n["contiguous"] or (np.diff(table[read]) == 1).all()
            demand(runs_on, "what is copied whole does not lie so", side)
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
            into += sum(map(mul, here, r.outer_of("pitches")))
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

    def _places(self, block: Block) -> Table:
        """Return the places that tiles read, run after run; each must come once."""
        r = self.r
        apart, merged = block.counts[: r.split], [*enumerate(block.counts[:-1])][r.split :]
        demand(0 <= r.split <= r.outer, "more axes are apart than there are", r.split)
        segments, run = math.prod(apart), block.counts[-1]
        run += sum((count - 1) * r.at("pitches", d) for d, count in merged)
        for part in ("a_table", "b_table"):
            self.scratch.touch_table(part, segments)
        offsets = [
            sum(map(mul, digits_of(segment, apart), r.outer_of("pitches")))
            for segment in range(segments)
        ]
        at_once = r.run_points // run if run <= r.run_points else 1
        runs = -(-run // r.run_points)
        length = (-(-run // runs) + 3) // 4 * 4
        read = np.zeros((segments, run), np.int64)
        for turn, piece in product(range(-(-segments // at_once)), range(runs)):
            read[turn * at_once : (turn + 1) * at_once, piece * length : (piece + 1) * length] += 1
        demand((read == 1).all(), "runs do not take every point once", (segments, run))
        return np.add.outer(np.array(offsets, np.int64), np.arange(run))


def _read(packed: Table, places: Table) -> Table:
    """Return what lies in places."""
    real = places.min() >= 0 and places.max() < len(packed)
    demand(real, "a tile reads past its plane", (places.min(), places.max(), len(packed)))
    found = packed[places]
    demand((found != UNPACKED).all(), "a tile reads what was not packed", places)
    return found
