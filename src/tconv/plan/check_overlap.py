"""A record of products and folds, run as kernels run it and held against the relation.

One channel of one group is followed; that the others lie beside it is looked at by their
stretches.
"""

import math
from itertools import product
from operator import add, mul, sub

from tconv.plan import overlap
from tconv.plan.check_record import (
    Outputs,
    Point,
    Record,
    Scratch,
    Terms,
    demand,
    digits_of,
    inside,
)
from tconv.plan.overlap import Overlap, stage_items
from tconv.plan.tiles import whole_tiles
from tconv.problem import Operand, Problem


class OverlapRun:
    """All rounds of one group, as compiled products and folds do them."""

    def __init__(self, problem: Problem, recipe: Overlap, tile_rows: int) -> None:
        self.problem, self.recipe, self.tile_rows = problem, recipe, tile_rows
        self.r = Record(recipe.record, overlap.SCALARS, overlap.ARRAYS)
        self.scratch = Scratch(self.r, recipe.scratch, problem.dtype)
        self.width = recipe.lanes * recipe.vectors
        source = Operand.COARSE if problem.wanted is Operand.FINE else Operand.FINE
        self.source: Point = problem.spatial(source)
        target = problem.batch, *problem.spatial(problem.wanted)
        self.outputs = Outputs(target, problem.axes, problem.wanted)
        sizes = problem.batch, *self.source
        strides = recipe.strides
        # By axis: how many points there are of each residue, at most.
        self.extents = [-(-size // s) for size, s in zip(sizes, strides, strict=True)]
        self.taps: dict[int, Point] = {}  # by place of products: of which tap they are
        self.residues: dict[int, Point] = {}  # and which points it is multiplied by

    def check(self) -> None:
        """Run every round, then look whether anything was left out."""
        r, problem, recipe = self.r, self.problem, self.recipe
        channels = problem.coarse_channels, problem.fine_channels
        sizes = channels if problem.wanted is Operand.FINE else channels[::-1]
        found = (r.outer, r.groups, r.depth, r.columns, r.points)
        due = (len(problem.axes), problem.groups, *sizes, math.prod(self.extents[1:]))
        demand(found == due, "sizes are not the problem's", found)
        r.positive("panels", "chunks", "blocks", "block", "folds", "phases", "lines")
        r.room(dict.fromkeys(("source_steps", "target_steps"), r.outer))
        r.room(dict.fromkeys(("run_sizes", "run_steps"), r.outer + 1))
        r.room({"blank": overlap.ZEROS, "last_table": 1})
        blank = [r.at("blank", place) for place in range(overlap.ZEROS)]
        demand(not any(blank), "sums do not begin with zeros", blank)
        demand(self.width <= overlap.ZEROS, "zeros are fewer than sums", self.width)
        self._rows()
        whole = recipe.round > 0 and r.block % recipe.lanes == 0 and r.sums_pitch >= r.block
        demand(whole, "sums overlap the next phase", (recipe.round, r.block, r.sums_pitch))
        for first in range(0, problem.batch, recipe.round):
            images = min(recipe.round, problem.batch - first)
            self._multiply(images)
            self._fold(first, images)
        self.outputs.check()
        self.scratch.check()

    def _rows(self) -> None:
        """Look whether rows are all taps and channels, and note which."""
        r, recipe = self.r, self.recipe
        taps = [*product(*(range(first, stop) for first, stop in recipe.taps))]
        demand(r.rows == len(taps) * r.columns, "rows are not all taps and channels", r.rows)
        for chunk in range(r.chunks):
            start, rows = r.at("chunk_start", chunk), r.at("chunk_rows", chunk)
            demand(rows > 0, "a chunk is empty", chunk)
            entries = range(start, start + whole_tiles(rows, self.tile_rows))
            # Rows behind the last do again what that one does.
            listed = [r.at("row_places", min(entry, start + rows - 1)) for entry in entries]
            found = [(r.at("row_reads", e), r.at("row_places", e)) for e in entries]
            due = [(place // r.pitch * r.depth, place) for place in listed]
            demand(found == due, "a row lies elsewhere", chunk)
            self._note_residues(chunk, listed[:rows])
        demand(len(self.residues) == r.rows, "chunks do not take every row once", r.rows)
        self.taps = {place * r.columns * r.pitch: tap for place, tap in enumerate(taps)}

    def _note_residues(self, chunk: int, listed: list[int]) -> None:
        """Note which points the rows of a chunk are multiplied by."""
        r, strides = self.r, self.recipe.strides
        count = r.outer + 1
        residues = tuple(r.at("chunk_residues", chunk * count + d) for d in range(count))
        limits = [r.at("chunk_limits", chunk * count + d) for d in range(count)]
        sizes = self.problem.batch, *self.source
        due = [len(range(*each)) for each in zip(residues, sizes, strides, strict=True)]
        right = min(residues) >= 0 and limits == due and max(map(sub, residues, strides)) < 0
        demand(right, "packing reads outside the source", (residues, limits))
        for place in listed:
            row, rest = divmod(place, r.pitch)
            real = rest == 0 and 0 <= row < r.rows and place not in self.residues
            demand(real, "chunks do not take every row once", place)
            self.residues[place] = residues[1:]

    def _multiply(self, images: int) -> None:
        """Look whether work items pack and multiply every point of a round."""
        r, recipe = self.r, self.recipe
        every = images * r.points
        panels = -(-every // self.width)
        items = r.groups * r.chunks * -(-panels // r.panels)
        demand(stage_items(recipe, images)[0] == items, "points are left out", items)
        self.scratch.touch("region", min(r.panels, panels) * r.depth * self.width)
        demand(panels * self.width <= r.pitch, "products overlap the next row", r.pitch)
        end = r.groups * r.rows * r.pitch + 2 * overlap.SLACK
        demand(end <= recipe.shared, "products leave what workers share", (end, recipe.shared))

    def _fold(self, first: int, images: int) -> None:
        """Add up and store every block of every line of a round."""
        r, lanes = self.r, self.recipe.lanes
        sizes = r.outer_of("sizes_out")
        whole = sizes == [*self.outputs.sizes[:-1]] and math.prod(sizes[1:]) == r.lines
        demand(whole, "lines are not the problem's", (sizes, r.lines))
        items = r.groups * -(-images * r.lines * r.blocks // r.folds)
        demand(stage_items(self.recipe, images)[1] == items, "lines are left out", items)
        longest = -(-r.size_out // r.phases)
        for index in range(images * r.lines * r.blocks):
            line, block = divmod(index, r.blocks)
            image, *places = digits_of(line, [images, *sizes[1:]])
            bases = self._bases(image, places)
            low = block * r.block
            points = min(longest - low, r.block)
            demand(points > 0, "a block is empty", block)
            vectors = -(-points // lanes)
            demand(vectors * lanes <= r.sums_pitch, "sums overlap the next phase", points)
            self.scratch.touch("sums", r.columns * r.phases * r.sums_pitch)
            self.scratch.touch_table("order", r.columns * r.phases * r.block)
            for x, q in product(range(r.phases), range(low, low + points)):
                here = q * r.phases + x
                if here < r.size_out:
                    point = (first + image, *places, here)
                    self.outputs.store(point, self._terms(first, bases, x, q))

    def _bases(self, image: int, places: list[int]) -> list[tuple[int, Point]]:
        """Return where products begin that meet a line, and of which points those are."""
        r = self.r
        found: list[tuple[int, Point]] = [(image * r.points, ())]
        for d in range(r.outer - 1, 0, -1):
            phases = r.at("axis_phases", d)
            demand(phases > 0, "an axis has no phases", d)
            point, phase = divmod(places[d - 1], phases)
            size = r.at("sizes_in", d)
            demand(size == self.extents[d], "lines are read elsewhere", (d, size))
            taps = self._phase(r.at("axis_tables", d) + phase)
            found = [
                (base + rows + (point + offset) * r.at("axis_points", d), (point + offset, *read))
                for rows, offset in taps
                if 0 <= point + offset < size
                for base, read in found
            ]
            for table in ("bases", "more"):
                self.scratch.touch_table(table, max(len(found), 1))
        return found

    def _terms(self, first: int, bases: list[tuple[int, Point]], x: int, q: int) -> Terms:
        """Return what one sum is made of."""
        r = self.r
        terms = []
        strides = self.recipe.strides[1:]
        demand(r.size_in == self.extents[-1], "lines are read elsewhere", r.size_in)
        for rows, offset in self._phase(r.at("last_table", 0) + x):
            for base, read in bases if 0 <= q + offset < r.size_in else ():
                row, column = divmod(base + rows + q + offset, r.pitch)
                tap = self.taps.get(row * r.pitch)
                demand(tap is not None, "sums read rows that there are not", row)
                image, *point = digits_of(column, [self.recipe.round, *self.extents[1:]])
                met = (*read, q + offset)
                demand(tuple(point) == met, "sums read other points", (point, met))
                residues = self.residues[row * r.pitch]
                there = tuple(map(add, map(mul, point, strides), residues))
                # What is not in the source was packed as zeros.
                if tap is not None and inside(there, self.source):
                    terms.append((tap, (first + image, *there)))
        demand(len(set(terms)) == len(terms), "a term is added twice", terms)
        return set(terms)

    def _phase(self, entry: int) -> list[tuple[int, int]]:
        """Return where the taps of a phase find their rows, and how much further they read."""
        r = self.r
        start = r.at("tap_start", entry)
        entries = range(start, start + r.at("tap_count", entry))
        return [(r.at("tap_rows", e), r.at("tap_offsets", e)) for e in entries]
