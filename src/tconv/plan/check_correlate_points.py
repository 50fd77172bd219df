"""The points of a correlation's record, packed and read as the kernel does it, block by block."""

import math
from dataclasses import dataclass
from itertools import product
from operator import mul

import numpy as np

from tconv.plan import correlate
from tconv.plan.check_record import Block, Point, Record, Scratch, Table, all_blocks, demand, inside
from tconv.problem import Operand, Problem

ZERO, UNPACKED = -1, -2  # instead of a point's number


@dataclass(frozen=True, slots=True)
class Shift:
    """How far behind a point both sides are read, and for which tap; None for no sum."""

    tap: int | None
    a: int
    b: int


class CorrelatePoints:
    """Both sides of all blocks, and which of their points meet."""

    def __init__(
        self, problem: Problem, record: Record, scratch: Scratch, widths: tuple[int, int]
    ) -> None:
        self.problem, self.r, self.scratch = problem, record, scratch
        self.a_rows, self.columns = widths  # channels that lie side by side
        self.swapped = record.swapped != 0
        self.coarse = problem.batch, *problem.spatial(Operand.COARSE)
        self.fine = problem.batch, *problem.spatial(Operand.FINE)
        self.taps = [*product(*(range(axis.taps) for axis in problem.axes))]

    def check(self, shifts: set[Shift]) -> None:
        """Run every block with every shift: each meets each coarse point once."""
        blocks = [*all_blocks(self.r, [0] * (self.r.outer + 1))]
        demand(self.r.all_blocks == len(blocks), "not every block is visited", self.r.all_blocks)
        met = {shift: self._met(shift.tap) for shift in shifts if shift.tap is not None}
        seen = {shift: np.zeros(math.prod(self.coarse), np.int64) for shift in met}
        for block in blocks:
            a, b = self._pack(block, "a", self.a_rows), self._pack(block, "b", self.columns)
            a_places, b_places = self._places(block)
            for shift in shifts:
                taken = self._taken(block, 0 if self.swapped else shift.tap or 0, a_places.shape)
                left = _read(a, a_places[taken] + shift.a)
                right = _read(b, b_places[taken] + shift.b)
                coarse, fine = (right, left) if self.swapped else (left, right)
                if shift.tap is not None:
                    summed = coarse != ZERO
                    points = coarse[summed]
                    np.add.at(seen[shift], points, 1)
                    agreed = np.array_equal(fine[summed], met[shift][points])
                    tap = self.taps[shift.tap]
                    demand(agreed, f"a point meets another by {tap}", (shift, block.starts))
        for shift, counts in seen.items():
            nothing = (met[shift] == ZERO) & (counts == 0)
            demand(
                (nothing | (counts == 1)).all(), "points are not all summed once", (shift, counts)
            )

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
        points = (block.counts[-1] * n["scale"] + n["halo"]) * n["width"]
        quotients, rests = np.divmod(np.arange(points), n["width"])
        step = n["step"] // n["scale"]
        demand(step * n["scale"] == n["step"], "points are packed between others", side)
        reads = quotients * step + r.part(f"{side}_last_residues", 0, n["width"])[rests]
        places = quotients + rests * r.plane
        if n["contiguous"] and side == "a" and self.swapped:  # computed, not noted
            whole = n["contiguous"] == n["width"]
            demand(whole, "points go to planes of other residues", (side, n["contiguous"]))
        else:
            self.scratch.touch_table("reads", points)
            self.scratch.touch_table("places", points)
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
        """Return the places on both sides that tiles read: by plane, line and point.

        Each must come once.
        """
        r = self.r
        demand(0 <= r.split <= r.outer, "more axes are apart than there are", r.split)
        apart, merged = block.counts[: r.split], [*enumerate(block.counts[:-1])][r.split :]
        run = block.counts[-1] + sum((count - 1) * r.at("b_pitches", d) for d, count in merged)
        # Images come last, so that lines of all of them are neighbours.
        order = [*range(1, r.split), 0][: r.split]
        lines = math.prod(apart[d] for d in order[-2:])
        shape = math.prod(apart) // lines, lines, run
        for part in ("a_table", "b_table"):
            self.scratch.touch_table(part, math.prod(apart))
        self._check_runs(shape)
        found = []
        for side in "ab":
            pitches = r.outer_of(f"{side}_pitches")
            offsets = np.zeros(1, np.int64)
            for d in order:
                offsets = np.add.outer(offsets, np.arange(apart[d]) * pitches[d]).ravel()
            along = np.arange(run) * r.scalars[f"{side}_scale"]
            found.append(np.add.outer(offsets, along).reshape(shape))
        return found[0], found[1]

    def _check_runs(self, shape: tuple[int, int, int]) -> None:
        """Look whether runs take every point of every line once."""
        _, lines, run = shape
        most = self.r.run_points
        parts = -(-run // most)
        sizes = (
            max(most // (lines * run), 1),
            min(max(most // run, 1), lines),
            (-(-run // parts) + 3) // 4 * 4,
        )
        read = np.zeros(shape, np.int64)
        turns = (range(0, whole, size) for whole, size in zip(shape, sizes, strict=True))
        for first in product(*turns):
            read[tuple(slice(at, at + size) for at, size in zip(first, sizes, strict=True))] += 1
        demand((read == 1).all(), "runs do not take every point once", shape)

    def _taken(self, block: Block, tap: int, shape: tuple[int, ...]) -> tuple[slice, ...]:
        """Return which planes, lines and points of a block are summed for a tap."""
        r = self.r
        images = block.counts[0] if r.split else 1
        axes = max(r.split - 2, 0), max(r.split - 1, 0), -1
        units = 1, images, 1
        found = []
        for k, (d, unit, size) in enumerate(zip(axes, units, shape, strict=True)):
            first, last = (
                (r.at(name, 3 * tap + k) - block.starts[d]) * unit
                for name in ("meets_from", "meets_to")
            )
            found.append(slice(max(first, 0), max(min(last, size), 0)))
        return tuple(found)


def _read(packed: Table, places: Table) -> Table:
    """Return what lies in places."""
    if places.size == 0:
        return places
    real = places.min() >= 0 and places.max() < len(packed)
    demand(real, "a tile reads past its plane", (places.min(), places.max(), len(packed)))
    found = packed[places]
    demand((found != UNPACKED).all(), "a tile reads what was not packed", places)
    return found
