"""A record of a spread result, run as kernels run it and held against the relation.

The smaller result's elements are known by their places; what each should be is found anew, from
which taps and points meet.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from tconv.plan import spread
from tconv.plan.check_record import Record, Scratch, Table, demand, digits_of, met_by
from tconv.plan.spread import NOWHERE, Spread, Variant
from tconv.problem import Operand, Problem, numpy_dtype

BLANK, UNWRITTEN = -1, -2


def check_spread(problem: Problem, recipe: Spread) -> None:
    """Refuse parts that are not what they should be, or do not make up the whole."""
    for variant in recipe.variants:
        VariantRun(problem, recipe, variant).check()
    orders = {_weights_order(variant) for variant in recipe.variants}
    demand(len(orders) <= 1, "parts want weights in other orders", len(orders))
    kinds = [variant.problem for variant in recipe.variants]
    cut = recipe.axis
    images = 1 if cut is None else problem.batch
    demand(recipe.items == images * len(recipe.parts), "work items are not all parts", recipe.items)
    demand(recipe.items < spread.MOST_PARTS, "parts have no numbers of their own", recipe.items)
    done = 0
    for which, read, write in recipe.parts:
        demand(0 <= which < len(kinds), "a part is none of those that there are", which)
        demand(write == done, "parts do not follow one another", (write, done))
        part = kinds[which]
        if cut is None:
            demand(read == write, "a part reads other images than it writes", (read, write))
            demand(part == replace(problem, batch=part.batch), "a part is another problem", part)
            done += part.batch
            continue
        axis, first = part.axes[cut], problem.axes[cut]
        pad = first.pad_begin + write - first.stride * read
        due = replace(first, fine_size=axis.fine_size, coarse_size=axis.coarse_size, pad_begin=pad)
        axes = *problem.axes[:cut], due, *problem.axes[cut + 1 :]
        slab = replace(problem, batch=1, axes=axes)
        demand(part == slab, "a slab is another problem", part)
        inside = read >= 0 and read + axis.coarse_size <= first.coarse_size
        demand(inside, "a slab reads outside the source", (read, axis.coarse_size))
        for point in range(write, write + axis.fine_size):
            met = [there for _, there in met_by(first, Operand.FINE)[point]]
            mine = all(read <= there < read + axis.coarse_size for there in met)
            demand(mine, "a slab does not read all that it writes", (point, met))
        done += axis.fine_size
    whole = problem.batch if cut is None else problem.axes[cut].fine_size
    demand(done == whole, "parts do not make up the whole", (done, whole))


def _weights_order(variant: Variant) -> tuple[Any, ...]:
    """Return how the algorithm of a part wants weights packed."""
    names = (
        "lanes", "vectors", "rows", "merged", "taps", "counts", "runs", "panels",
        "depths", "columns", "neighbours",
    )  # fmt: skip
    return tuple(getattr(variant.inner.recipe, name, None) for name in names)


class VariantRun:
    """All chunks of one part, as compiled code writes them."""

    def __init__(self, whole: Problem, recipe: Spread, variant: Variant) -> None:
        problem = variant.problem
        self.whole, self.problem, self.recipe, self.variant = whole, problem, recipe, variant
        self.r = Record(variant.record, spread.SCALARS, spread.ARRAYS)
        self.scratch = Scratch(self.r, variant.scratch, problem.dtype)
        self.sizes = problem.spatial(Operand.FINE)
        self.beside = self.r.planes == 1
        shape = (problem.batch, self.r.planes, *self.sizes, self.r.unit)
        self.found: Table = np.full(shape, UNWRITTEN, np.int64)

    def check(self) -> None:
        """Write every chunk, then look whether each element is what it should be."""
        r, problem, recipe = self.r, self.problem, self.recipe
        channels = problem.groups * problem.fine_channels
        rows = self.sizes[-2] if len(self.sizes) > 1 else 1
        found = (r.channels, r.planes * r.unit, r.rows, r.size, r.outer)
        due = (channels, channels, rows, self.sizes[-1], max(0, len(self.sizes) - 2))
        demand(found == due, "sizes are not the problem's", found)
        r.positive("step", "x_chunk", "x_chunks", "row_chunk", "row_chunks", "period")
        r.room({"target_steps": len(self.sizes)})
        whole = r.row_chunk == 1 or r.x_chunks == 1
        demand(whole, "parts of several lines are one chunk", (r.row_chunk, r.x_chunks))
        repeats = r.period % r.unit == 0 and r.period % recipe.lanes == 0
        demand(repeats, "blanks do not repeat after whole points and vectors", r.period)
        size = math.prod(self.variant.inner.problem.shape(Operand.FINE))
        demand(self.variant.compact == size, "the smaller result is not what is read", size)
        chunks = r.row_chunks * r.x_chunks * math.prod(self.sizes[:-2]) * r.planes
        demand(r.chunks == problem.batch * chunks, "chunks are not all that there are", r.chunks)
        for unit in range(r.chunks):
            self._chunk(unit)
        expected = self._expected()
        found_there = np.where(self.found < 0, self.found, self._met()[self.found])
        wrong = np.argwhere(found_there != expected)
        demand(len(wrong) == 0, "an element is not what the relation says", wrong[:3].tolist())
        line = 64 // numpy_dtype(problem.dtype).itemsize
        self.scratch.touch("pattern", -(-(r.period + line) // r.unit) * r.unit)
        self.scratch.touch("blank", r.channels + recipe.lanes - 1)
        self.scratch.check()

    def _chunk(self, unit: int) -> None:
        """Write one chunk: blanks, then what lies between them."""
        r = self.r
        outer = [r.at("sizes", d) for d in range(r.outer)]
        *above, row, x = digits_of(
            unit, [self.problem.batch, r.planes, *outer, r.row_chunks, r.x_chunks]
        )
        image, channel, *points = above
        limits = [min(max(each * r.x_chunk - r.shift, 0), r.size) for each in (x, x + 1)]
        first = 0 if x == 0 else limits[0]
        last = r.size if x == r.x_chunks - 1 else limits[1]
        lines = range(row * r.row_chunk, min((row + 1) * r.row_chunk, r.rows))
        demand(len(lines) > 0, "a chunk has no lines", row)
        item = np.dtype(f"f{self.scratch.item}").itemsize
        self.scratch.touch("stage", len(lines) * (last - first) * r.unit + 64 // item)
        places = [r.at("places", r.at("tables", d) + point) for d, point in enumerate(points)]
        begin = image * r.compact_image + channel * r.compact_channel + sum(places)
        for line in lines:
            at = (image, channel, *points, *([line] if len(self.sizes) > 1 else []))
            target = self.found[at].reshape(-1)
            ends = first * r.unit, last * r.unit
            fresh = (target[slice(*ends)] == UNWRITTEN).all()
            demand(fresh, "an output is written twice", (at, first, last))
            target[slice(*ends)] = BLANK if r.blanks else UNWRITTEN
            there = r.at("places", r.at("tables", r.outer) + line)
            if min(*places, there, 0) < 0:
                demand(r.blanks, "a line is blank, and blanks are not filled in", at)
                continue
            for to, read in self._copied(ends):
                inside = ends[0] <= to < ends[1]
                demand(inside, "a run leaves its chunk", (to, ends))
                demand(target[to] < 0, "an element is copied twice", to)
                there_too = 0 <= begin + there + read < self.variant.compact
                demand(there_too, "a run leaves the smaller result", read)
                target[to] = begin + there + read

    def _copied(self, ends: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """Yield what is copied of a line: where it goes, and where it is read."""
        r, lanes = self.r, self.recipe.lanes
        low, high = (end - r.base for end in ends)
        begin = max(-(-max(low, 0) // r.step), r.mixed_low)
        cells = min(max(high, 0) // r.step, r.mixed_high) - begin
        cells = cells if cells >= lanes else 0
        if cells:
            points = len(r.arrays["cell_reads"])
            demand(points == r.mixed == r.step, "cells have other points", (points, r.mixed))
        for cell, point in product(range(begin, begin + cells), range(r.mixed)):
            read = r.at("cell_reads", point)
            if read != NOWHERE:
                yield r.base + cell * r.step + point, read + cell
        for entry in range(r.entries):
            read, write, count, length, first = (
                r.at(f"entry_{name}", entry) for name in spread.ENTRY
            )
            for run in range(count):
                to = write + run * r.step
                mixed = begin <= first + run < begin + cells
                if ends[0] <= to < ends[1] and not mixed:
                    for k in range(length):
                        yield to + k, read + run * r.cell + k

    def _expected(self) -> Table:
        """Return which of the smaller result's elements each should be, by what meets."""
        problem, inner = self.problem, self.variant.inner.problem
        parts = [[self._part(axis, point) for point in range(size)]
                 for axis, size in enumerate(self.sizes)]  # fmt: skip
        shape = inner.shape(Operand.FINE)
        every: Table = np.arange(math.prod(shape)).reshape(shape)
        path, permutation = inner.path(Operand.FINE, "ngfx")
        smaller = every.reshape(path).transpose(permutation)
        smaller = smaller.reshape(*smaller.shape[:1], -1, *smaller.shape[3:])
        channels = problem.groups * problem.fine_channels
        expected = np.full((problem.batch, channels, *self.sizes), BLANK, np.int64)
        for point in product(*map(range, self.sizes)):
            found = [parts[axis][p] for axis, p in enumerate(point)]
            if None in found:
                continue
            known = [each for each in found if each is not None]
            there, taps = [where for where, _ in known], [tap for _, tap in known]
            tap = 0
            if self.recipe.taps:
                tap = int(np.ravel_multi_index(taps, self.recipe.taps))
            some = slice(tap * channels, (tap + 1) * channels)
            every_image: tuple[Any, ...] = (slice(None),)
            expected[(*every_image, slice(None), *point)] = smaller[(*every_image, some, *there)]
        if self.beside:
            return np.moveaxis(expected, 1, -1)[:, None]
        return expected[..., None]

    def _met(self) -> Table:
        """Return by element of the smaller result which it is, blank if nothing meets there."""
        inner = self.variant.inner.problem
        shape = inner.shape(Operand.FINE)
        every: Table = np.arange(math.prod(shape)).reshape(shape)
        before = inner.fine_layout.words.index("x")
        for place, axis in enumerate(inner.axes, before):
            met = np.array([bool(some) for some in met_by(axis, Operand.FINE)])
            sizes = [-1 if each == place else 1 for each in range(len(shape))]
            every = np.where(met.reshape(sizes), every, BLANK)
        return every.reshape(-1)

    def _part(self, axis: int, point: int) -> tuple[int, int] | None:
        """Return which point of a smaller axis a fine one is, and which tap; None for none."""
        met = met_by(self.problem.axes[axis], Operand.FINE)[point]
        if not met:
            return None
        if self.recipe.taps:
            (tap, there), *others = met
            demand(not others, "taps overlap, and are channels", point)
            return there, tap
        same = met_by(self.variant.inner.problem.axes[axis], Operand.FINE)
        demand(met in same, "a denser axis has not what meets", point)
        return same.index(met), 0
