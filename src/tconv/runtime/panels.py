"""Run gathers, cells and dots on arrays: what is read is packed, or lies where it is read."""

import math
from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from tconv.plan import cells as cells_plan
from tconv.plan import gather as gather_plan
from tconv.plan.cells import Cells
from tconv.plan.dots import Dots
from tconv.plan.gather import Gather
from tconv.plan.weights import (
    packing_items,
    packing_scratch,
    plan_cell_packing,
    plan_packing,
)
from tconv.plan.winograd import Winograd
from tconv.plan.woven import Woven
from tconv.problem import Operand, Problem
from tconv.runtime.compiled import (
    MOST_KEPT,
    OrderedRunner,
    Repacking,
    Runner,
    put_segments_in_place,
)
from tconv.runtime.kernels import (
    cells_kernel,
    gather_kernel,
    pack_cells_kernel,
    pack_weights_kernel,
)
from tconv.runtime.launch import MOST_GAPS, MOST_LAUNCHES, Launch, PackedWeights, addressable, flows
from tconv.runtime.scratch import address, on_lines

Array = npt.NDArray[Any]

SMALL_PACKING = 32_768  # weights that one worker packs


class PanelRunner(Runner):
    """What gathers, cells and transforms have in common: panels, packed by a kernel."""

    def __init__(self, problem: Problem, recipe: Gather | Cells | Winograd, kernel: int) -> None:
        self.recipe = recipe
        self.columns = recipe.lanes * recipe.vectors
        super().__init__(problem, recipe, kernel)
        self.packings: dict[tuple[int, ...], Launch] = {}
        self.packed_size = problem.groups * recipe.group_weights
        self.packed_type = self.dtype

    def pack(self, weights: Array) -> PackedWeights:
        """Return the weights as panels, zeros past the last column."""
        weights = addressable(weights)
        panels, target = on_lines(self.packed_size * self.packed_type.itemsize)
        flag = array("q", [0])
        launch = self.packing_launch(weights.strides)
        launch(address(weights), target, flag.buffer_info()[0])
        return PackedWeights(panels, target, weights, finite=not flag[0])

    def repacking(self, strides: tuple[int, ...]) -> "Repacking | None":
        """Return what packs small weights of these strides again and again."""
        size, item = self.packed_size * self.packed_type.itemsize, self.dtype.itemsize
        if size > MOST_KEPT or any(stride % item for stride in strides):
            return None
        return Repacking(self.packing_launch(strides), size, item)

    def packing_launch(self, strides: tuple[int, ...]) -> Launch:
        """Return the kernel that packs weights of these strides."""
        launch = self.packings.get(strides)
        if launch is None:
            steps = tuple(stride // self.dtype.itemsize for stride in strides)
            kernel, record, items, scratch = self.packing(steps)
            single = math.prod(self.problem.shape(Operand.WEIGHTS)) < SMALL_PACKING
            launch = Launch(kernel, list(record), scratch, items, single=single)
            if len(self.packings) < MOST_LAUNCHES:
                self.packings[strides] = launch
        return launch

    def packing(self, steps: tuple[int, ...]) -> tuple[int, tuple[int, ...], int, int]:
        """Return the kernel that packs, its record, work items and bytes of scratch."""
        raise NotImplementedError


class TileRunner(PanelRunner):
    """What gathers and cells have in common: they may read data where it lies."""

    numbered = True

    def strided(self, source: tuple[int, ...], target: tuple[int, ...]) -> list[int]:
        """Return the record for arrays of these strides; it tells if blocks are read in place."""
        record, fields = super().strided(source, target), self.fields
        depth, outer = record[fields["depth"]], record[fields["outer"]]
        item, line = self.sums.itemsize, record[fields["target_x"]]
        begin = record[fields["target_steps"]]
        steps = [*record[begin : begin + outer], line, self.columns]
        if self.problem.groups > 1:
            steps.append(record[fields["columns"]])  # or groups share lines
        written = (item * step for step in steps)
        record[fields["stream"]] *= flows(written, item * line * record[fields["step_out"]])
        apart, channel = record[fields["source_x"]], record[fields["source_c"]]
        if self.dtype != self.sums or (channel != 1 and depth > 1):
            return record  # runs of channels must lie side by side
        if apart != depth and self.neighbours(record):
            return record  # and so must runs of neighbours
        put_segments_in_place(record, fields, [(depth, apart)])
        record[fields["in_place"]] = 1
        return record

    def neighbours(self, record: list[int]) -> bool:
        """Tell whether tiles read several points as if they lay side by side."""
        begin, end = (record[self.fields[name]] for name in ("segment_depth", "part_segments"))
        return max(record[begin:end]) > record[self.fields["depth"]]


class GatherRunner(TileRunner):
    """FINE or COARSE by a compiled gather."""

    fields, across = gather_plan.FIELDS, False
    recipe: Gather

    def __init__(self, problem: Problem, recipe: Gather) -> None:
        super().__init__(
            problem,
            recipe,
            gather_kernel(problem.dtype, recipe.lanes, recipe.vectors, **self.kinds(recipe)),
        )

    def strided(self, source: tuple[int, ...], target: tuple[int, ...]) -> list[int]:
        """Return the record for arrays of these strides; it tells if blocks are touched first.

        Only what is read and little between: other arrays may lie there, or nothing at all.
        """
        record = super().strided(source, target)
        names = ("groups", "depth", "source_g", "source_x")
        groups, depth, group, point = (record[self.fields[name]] for name in names)
        dense = group >= 0 and (groups - 1) * group + depth <= point <= MOST_GAPS * groups * depth
        record[self.fields["afar"]] *= dense
        return record

    def kinds(self, recipe: Gather) -> dict[str, int]:
        """Return which tiles a recipe needs."""
        names = {"few": "together", "past": "stream", "missed": "words"}
        wanted = {kind: recipe.record[self.fields[name]] != 0 for kind, name in names.items()}
        wide = recipe.record[self.fields["wide_panels"]]
        return {**wanted, "joined": 0 < wide < recipe.panels}

    def packing(self, steps: tuple[int, ...]) -> tuple[int, tuple[int, ...], int, int]:
        """Return the kernel that packs, its record, work items and bytes of scratch."""
        problem, recipe = self.problem, self.recipe
        record = plan_packing(problem, recipe, steps)
        kernel = pack_weights_kernel(problem.dtype, recipe.lanes, recipe.vectors)
        scratch = -(-packing_scratch(record) // 64) * 64
        return kernel, record, packing_items(record, problem.groups), scratch

    def padded(self, bias: Array) -> Array:
        """Return the bias with zeros where panels have channels and the result has none."""
        groups = self.problem.groups
        padded = np.zeros((groups, self.recipe.panels * self.columns), self.sums)
        padded[:, : bias.size // groups] = bias.reshape(groups, -1)
        padded += 0  # tiles that leave out taps make 0.0 of -0.0, and a batch decides who does
        return padded


class DotsRunner(OrderedRunner, GatherRunner):
    """FINE or COARSE with very few written channels: weights are lines of the depth."""

    fields, across, numbered = gather_plan.FIELDS, False, True
    recipe: Dots

    def kinds(self, recipe: Gather) -> dict[str, int]:
        """Return the tile for so many channels."""
        return {"dots": recipe.record[self.fields["columns"]]}

    def ordered(self, weights: Array) -> Array:
        """Return the weights of every segment by vectors of its depth, for each channel a line."""
        problem, lanes = self.problem, self.recipe.lanes
        shape, permutation = problem.path(Operand.WEIGHTS, f"xg{''.join(self.letters)}")
        taken = weights.reshape(shape).transpose(permutation)
        found = []
        for run, depth in zip(self.recipe.runs, self.recipe.depths, strict=True):
            taps = taken[tuple(np.array(run.taps).T)].swapaxes(0, 1)  # group, tap, depth, channel
            lines = taps.reshape(problem.groups, -1, depth, taps.shape[-1])
            # The last vector overlaps the one before.
            begins = np.minimum(np.arange(0, depth, lanes), depth - lanes)
            vectors = lines[:, :, begins[:, None] + np.arange(lanes)]
            found.append(vectors.swapaxes(-1, -2).reshape(problem.groups, -1))
        return np.concatenate(found, axis=1) if found else taken[:0]


class WovenRunner(OrderedRunner, GatherRunner):
    """FINE or COARSE with groups that share vectors."""

    fields, across, numbered = gather_plan.FIELDS, False, True
    recipe: Woven

    def kinds(self, recipe: Gather) -> dict[str, Any]:
        """Return the tiles for groups of so many channels."""
        assert isinstance(recipe, Woven)  # noqa: S101 - no other is run by this
        return {**super().kinds(recipe), "woven": (recipe.summed, recipe.written)}

    def ordered(self, weights: Array) -> Array:
        """Return the weights by panel, tap and channel read; of channels written side by side."""
        problem, recipe = self.problem, self.recipe
        shape, permutation = problem.path(Operand.WEIGHTS, f"xg{''.join(self.letters)}")
        taken = weights.reshape(shape).transpose(permutation)
        lanes, total = recipe.lanes, problem.groups * recipe.written
        found = np.zeros(recipe.group_weights, weights.dtype)
        for panel in range(recipe.panels):
            # The last vector ends with the last channel.
            first, behind = panel * self.columns, min((panel + 1) * self.columns, total)
            begins = np.minimum(range(first, behind, lanes), total - lanes)
            lie = (begins[:, None] + np.arange(lanes)).ravel()
            groups, channels = np.divmod(lie, recipe.written)
            for run in recipe.runs:
                begin = run.start + panel * run.panel_step + run.first_row * groups.size
                taps = taken[tuple(np.array(run.taps).T)]  # tap, group, channel read, and written
                lines = taps[:, groups, :, channels]  # channel written, tap, channel read
                found[begin : begin + lines.size] = lines.transpose(1, 2, 0).ravel()
        return found

    def padded(self, bias: Array) -> Array:
        """Return the bias with zeros behind the last channel."""
        padded = np.zeros((1, self.recipe.panels * self.columns), self.sums)
        padded[0, : bias.size] = bias
        padded += 0
        return padded


class CellsRunner(TileRunner):
    """FINE with phases as columns."""

    fields, across = cells_plan.FIELDS, False
    recipe: Cells

    def __init__(self, problem: Problem, recipe: Cells) -> None:
        super().__init__(problem, recipe, cells_kernel(problem.dtype, recipe.lanes))

    def packing(self, steps: tuple[int, ...]) -> tuple[int, tuple[int, ...], int, int]:
        """Return the kernel that packs, its record, work items and bytes of scratch."""
        problem, recipe = self.problem, self.recipe
        items = problem.groups * recipe.neighbours * recipe.panels
        kernel = pack_cells_kernel(problem.dtype, recipe.lanes)
        return kernel, plan_cell_packing(problem, recipe, steps), items, 0

    def padded(self, bias: Array) -> Array:
        """Return the bias of every column."""
        groups = self.problem.groups
        padded = np.zeros((groups, self.recipe.panels * self.columns), self.sums)
        padded[:, np.array(self.recipe.columns)] = bias.reshape(groups, 1, -1)
        return padded
