"""Run planes on arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tconv.plan import planes as planes_plan
from tconv.plan.planes import Planes, cache_keeps
from tconv.problem import Operand, Problem
from tconv.runtime.compiled import OrderedRunner, put_segments_in_place
from tconv.runtime.kernels import planes_kernel

Array = npt.NDArray[Any]


class PlanesRunner(OrderedRunner):
    """FINE or COARSE with few channels a group."""

    fields, across = planes_plan.FIELDS, True
    nothing = -0.0  # the sign of a zero must not depend on how sums are stored

    def __init__(self, problem: Problem, recipe: Planes) -> None:
        tile = recipe.vectors, recipe.rows, recipe.merged
        kernel = planes_kernel(problem.dtype, recipe.lanes, *tile)
        super().__init__(problem, recipe, kernel)
        self.taps = tuple(np.array(recipe.taps).T) if recipe.taps else None
        self.beside = recipe.beside
        self.panels = _plane_order(problem, recipe, self.letters)

    def strided(self, source: tuple[int, ...], target: tuple[int, ...]) -> list[int]:
        """Return the record for arrays of these strides; it tells if data is read in place."""
        record, fields = super().strided(source, target), self.fields
        beside = record[fields["source_x"]] == 1 and self.dtype == self.sums
        sizes = (record[fields[name]] for name in ("depth", "panels", "source_c"))
        depth, panels, apart = sizes
        kept = cache_keeps(depth, panels, self.beside, apart * self.dtype.itemsize)
        if beside and record[fields["unpacked"]] and kept:
            row = record[fields["row"]], record[fields["source_c"]]
            put_segments_in_place(record, fields, [row, (1, 1)])
            record[fields["in_place"]] = 1
        return record

    def ordered(self, weights: Array) -> Array:
        """Return the weights group by group, tap by tap, in the kernel's order of taps."""
        problem = self.problem
        shape, permutation = problem.path(Operand.WEIGHTS, f"xg{''.join(self.letters)}")
        view = weights.reshape(shape).transpose(permutation)
        taken = view[:0].reshape(0, *view.shape[-3:]) if self.taps is None else view[self.taps]
        taken = taken.swapaxes(0, 1)
        if self.panels is None:
            return taken
        found: Array = np.take(taken.reshape(problem.groups, -1), self.panels, axis=1)
        return found


def _plane_order(problem: Problem, recipe: Planes, letters: tuple[str, str]) -> Array | None:
    """Return which of a group's weights, tap by tap, tiles read one after the other.

    None where that is their order: with one panel and no merged phases.
    """
    depth, columns = (problem.sizes[letter] for letter in letters)
    rows, merged = recipe.rows, recipe.merged
    if merged == 1 and columns == rows:
        return None
    panels = np.minimum(np.arange(0, columns, rows), columns - rows)
    lines = np.arange(depth)[:, None, None] * columns + np.arange(rows)  # of a tap and panel
    found, tap = [], 0
    for together, *alone in recipe.counts:
        for number, phases in ((together, merged), (sum(alone), 1)):
            taps = tap + np.arange(number * phases).reshape(number, 1, phases, 1)
            found.append((taps * depth * columns + lines).ravel())
            tap += number * phases
    order: Array = panels[:, None] + np.concatenate(found)
    return order.ravel()
