"""Run compiled plans of grouped layers on arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tconv.plan import grouped as grouped_plan
from tconv.plan import grouped_weights as grouped_weights_plan
from tconv.plan.grouped import FLOP, MOST_LINES, PAIRED, Grouped
from tconv.plan.grouped_weights import GroupedWeights
from tconv.problem import Operand, Problem, numpy_dtype
from tconv.runtime.compiled import OrderedRunner
from tconv.runtime.gradient import GradientRunner, Strides
from tconv.runtime.kernels import grouped_kernel, grouped_weights_kernel, sweep_kernel
from tconv.runtime.launch import flows, is_brief, put_steps, soon_done

Array = npt.NDArray[Any]


class GroupedRunner(OrderedRunner):
    """FINE or COARSE with many small groups."""

    fields, across = grouped_plan.FIELDS, False

    def __init__(self, problem: Problem, recipe: Grouped) -> None:
        lanes, groups = recipe.lanes, problem.groups
        firsts = np.minimum(np.arange(recipe.panels) * lanes, max(0, groups - lanes))
        # By panel and lane; where there are fewer groups, the last one more often.
        self.groups = np.minimum(firsts[:, None] + np.arange(lanes), groups - 1)
        if problem.dtype == PAIRED:
            self.groups = np.concatenate([self.groups, _in_pairs(self.groups, groups)])
        self.recipe, self.item = recipe, numpy_dtype(problem.dtype).itemsize
        super().__init__(problem, recipe, grouped_kernel(problem.dtype, recipe.lanes))
        self.single = soon_done(problem, FLOP)
        self.brief = is_brief(problem, FLOP * problem.flops())
        # By axis of the weights: which of it, for each tap of the outer axes and of the last.
        self.runs = [tuple(np.moveaxis(np.array(run), -1, 0)) for run in recipe.runs if run]

    def strided(self, source: tuple[int, ...], target: tuple[int, ...]) -> list[int]:
        """Return the record for arrays of these strides, with the kernels that it calls for."""
        record, fields, recipe = super().strided(source, target), self.fields, self.recipe
        steps = [record[fields[name]] for name in ("source_g", "target_g", "depth")]
        enough = record[fields["groups"]] >= recipe.lanes
        direct = steps == [1, 1, 1] and record[fields["stretches"]] > 0 and enough
        begin, dtype = record[fields["kernels"]], self.problem.dtype
        apart = record[fields["target_x"]] * record[fields["step_out"]] * self.item
        written = (step for step in target if step != self.item)
        # A last panel that begins among the groups of the one before lies across lines.
        whole = record[fields["groups"]] % recipe.lanes == 0
        record[fields["stream"]] *= direct and whole and flows(written, apart)
        # Sums of packed points are written where they belong if they lie side by side there.
        record[fields["straight"]] *= steps[1] == 1
        reads = direct or self.alike  # where they are alike, nothing is widened or rounded
        writes = reads or record[fields["straight"]] > 0
        for index, kind in enumerate(recipe.kinds):
            for lines in range(MOST_LINES + 1):
                unrolled = lines if lines in recipe.windows and kind.unrolls(lines) else 0
                sizes = dtype, recipe.lanes, kind, unrolled
                kernel = sweep_kernel(*sizes, reads_stored=reads, writes_stored=writes)
                record[begin + index * (MOST_LINES + 1) + lines] = kernel
        return record

    @property
    def alike(self) -> bool:
        """Tell whether elements are computed as arrays hold them."""
        return self.dtype == self.sums

    def ordered(self, weights: Array) -> Array:
        """Return weights in the order that kernels read them."""
        read, written = self.letters
        shape, permutation = self.problem.path(Operand.WEIGHTS, f"x{written}{read}g")
        view = weights.reshape(shape).transpose(permutation)
        parts = [
            view[run][..., self.groups].transpose(4, 2, 0, 3, 1, 5).reshape(len(self.groups), -1)
            for run in self.runs
        ]
        return np.concatenate(parts, axis=1) if parts else np.zeros((1, 1), int)

    def padded(self, bias: Array) -> Array:
        """Return the bias by panel, written channel and lane."""
        # Adding zeros around the picture would make 0.0 of -0.0, where they are added.
        matrix = bias.astype(self.sums).reshape(self.problem.groups, -1).T + self.sums.type(0)
        if self.problem.dtype == PAIRED:
            matrix = np.where(
                np.isnan(matrix), np.float32(np.nan), matrix
            )  # other bits may be lost
        return np.ascontiguousarray(matrix[:, self.groups].swapaxes(0, 1))


def _in_pairs(panels: Array, groups: int) -> Array:
    """Return the groups of panels where two are the even and the odd ones of their groups."""
    lanes = panels.shape[1]
    whole = groups // (2 * lanes) * 2
    found = panels.copy()
    found[:whole] = panels[:whole].reshape(-1, lanes, 2).swapaxes(1, 2).reshape(-1, lanes)
    return found


class GroupedWeightsRunner(GradientRunner):
    """WEIGHTS with many small groups."""

    fields = grouped_weights_plan.FIELDS

    def __init__(self, problem: Problem, recipe: GroupedWeights) -> None:
        super().__init__(problem, recipe.scratch, recipe.common)
        self.recipe, self.turned = recipe, True
        self.single = soon_done(problem, FLOP)

    def passes(self, record: list[int]) -> Sequence[tuple[int, int]]:
        """Return the kernels, each with its number of work items.

        Elements may be widened where they lie, for arrays of some steps.
        """
        names = ("source_g", "coarse_g", "depth", "rows")
        beside = all(record[self.fields[name]] == 1 for name in names)
        enough = self.problem.groups >= self.recipe.lanes
        widening = beside and enough and self.dtype != self.sums
        steps = ("grouped_weights", self.recipe.items), ("add_parts", self.recipe.stores)
        kind = self.problem.dtype, self.recipe.lanes
        return [
            (grouped_weights_kernel(name, *kind, widening=widening), items) for name, items in steps
        ]

    def strided(self, coarse: Strides, target: Strides, fine: Strides) -> list[int]:
        """Return the record for arrays of these strides."""
        record, problem = list(self.recipe.record), self.problem
        put_steps(record, self.fields, problem, Operand.COARSE, coarse, "coarse")
        put_steps(record, self.fields, problem, Operand.FINE, fine, "source")
        self.put_weights(record, self.recipe.taps, target, "c")
        return record
