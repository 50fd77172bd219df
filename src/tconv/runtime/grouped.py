"""Run compiled plans of grouped layers on arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tconv.plan import grouped as grouped_plan
from tconv.plan import grouped_weights as grouped_weights_plan
from tconv.plan.cells import Cells
from tconv.plan.correlate import Correlate
from tconv.plan.gather import Gather
from tconv.plan.grouped import MOST_LINES, PAIRED, Grouped
from tconv.plan.grouped_weights import GroupedWeights
from tconv.plan.planes import Planes
from tconv.problem import Operand, Problem, accumulator, numpy_dtype
from tconv.runtime import compiled
from tconv.runtime.compiled import MOST_LAUNCHES, OrderedRunner
from tconv.runtime.kernels import grouped_kernel, grouped_weights_kernel, sweep_kernel
from tconv.runtime.launch import Launch, addressable, flows, soon_done
from tconv.runtime.scratch import address

Array = npt.NDArray[Any]

FLOP = 3  # what one takes, in flops of a matrix product


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
        super().__init__(problem, recipe, grouped_kernel(problem.dtype))
        self.single = soon_done(problem, FLOP)
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
        for index, kind in enumerate(recipe.kinds):
            for lines in range(MOST_LINES + 1):
                unrolled = lines if lines in recipe.windows and kind.unrolls(lines) else 0
                kernel = sweep_kernel(dtype, kind, unrolled, stored=direct or self.alike)
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
        matrix = bias.astype(self.sums).reshape(self.problem.groups, -1).T
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


class GroupedWeightsRunner:
    """WEIGHTS with many small groups."""

    def __init__(self, problem: Problem, recipe: GroupedWeights) -> None:
        self.problem, self.recipe = problem, recipe
        self.dtype = numpy_dtype(problem.dtype)
        self.sums_type = accumulator(problem.dtype)
        self.scratch_bytes = -(-recipe.scratch * self.sums_type.itemsize // 64) * 64
        self.single = soon_done(problem, FLOP)
        self.launches: dict[tuple[tuple[int, ...], tuple[int, ...]], Launch] = {}
        lanes, panels = recipe.lanes, recipe.panels
        channels = problem.coarse_channels, problem.fine_channels
        self.sums = recipe.parts, panels, *channels, *problem.spatial(Operand.WEIGHTS), lanes
        # The groups of all panels but the last, and those that only the last one has: it ends
        # with the last group, if there are enough to fill it.
        self.last = problem.groups - (panels - 1) * lanes
        self.first = max(0, lanes - self.last) if panels > 1 else 0
        self.path = problem.path(Operand.WEIGHTS, "gcfx")
        # Of sums: panels, lanes and all that a group has.
        self.order = 0, len(self.sums) - 2, *range(1, len(self.sums) - 2)

    def run(self, coarse: Array, fine: Array, out: Array) -> bool:
        """Compute into ``out``; what falls outside was never multiplied."""
        coarse, fine = addressable(coarse), addressable(fine)
        sums = np.empty(self.sums, self.sums_type)
        launch = self.launches.get((coarse.strides, fine.strides))
        if launch is None:
            record = self._strided(coarse.strides, fine.strides)
            items, single = self.recipe.items, self.single
            kernel = grouped_weights_kernel(self.problem.dtype, widening=self._widens(record))
            launch = Launch(kernel, record, self.scratch_bytes, items, single=single)
            if len(self.launches) < MOST_LAUNCHES:
                self.launches[coarse.strides, fine.strides] = launch
        launch(address(fine), address(coarse), address(sums))
        shape, permutation = self.path
        weights = out.reshape(shape).transpose(permutation)
        # Parts are added in order, so that no thread count changes a bit.
        total = (sums[0] if len(sums) == 1 else sums.sum(axis=0)).transpose(self.order)
        whole = len(weights) - self.last
        with np.errstate(over="ignore"):  # what float16 cannot hold is infinite, as in any kernel
            if whole:
                weights[:whole] = total[:-1].reshape(whole, *weights.shape[1:])
            weights[whole:] = total[-1, self.first : self.first + self.last]
        return True

    def _widens(self, record: list[int]) -> bool:
        """Tell whether elements are widened where they lie, for arrays of these steps."""
        fields = grouped_weights_plan.FIELDS
        names = ("source_g", "coarse_g", "depth", "rows")
        beside = all(record[fields[name]] == 1 for name in names)
        enough = self.problem.groups >= self.recipe.lanes
        return beside and enough and self.dtype != self.sums_type

    def _strided(self, coarse: tuple[int, ...], fine: tuple[int, ...]) -> list[int]:
        """Return the record for arrays of these strides."""
        problem, item, fields = self.problem, self.dtype.itemsize, grouped_weights_plan.FIELDS
        record = list(self.recipe.record)
        for name, operand, strides, letter in (
            ("source", Operand.FINE, fine, "f"),
            ("coarse", Operand.COARSE, coarse, "c"),
        ):
            steps = [stride // item for stride in strides]
            letters, spatial = problem.layout(operand).steps(steps, problem.sizes)
            record[fields[f"{name}_g"]] = letters["g"]
            record[fields[f"{name}_c"]] = letters[letter]
            record[fields[f"{name}_x"]] = spatial[-1]
            begin = record[fields[f"{name}_steps"]]
            record[begin : begin + len(spatial)] = (letters["n"], *spatial[:-1])
        return record


def runner(
    problem: Problem, recipe: Gather | Cells | Planes | Grouped | GroupedWeights | Correlate
) -> object:
    """Return what runs a recipe."""
    if isinstance(recipe, GroupedWeights):
        return GroupedWeightsRunner(problem, recipe)
    if isinstance(recipe, Grouped):
        return GroupedRunner(problem, recipe)
    return compiled.runner(problem, recipe)
