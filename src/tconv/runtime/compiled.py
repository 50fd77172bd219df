"""Run compiled plans on arrays."""

import ctypes
from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tconv.plan import correlate as correlate_plan
from tconv.plan import gather as gather_plan
from tconv.plan import planes as planes_plan
from tconv.plan.correlate import Correlate
from tconv.plan.gather import Gather
from tconv.plan.grouped import Grouped
from tconv.plan.planes import Planes
from tconv.plan.weights import plan_packing
from tconv.problem import Operand, Problem, numpy_dtype
from tconv.runtime import pool
from tconv.runtime.kernels import (
    correlate_kernel,
    gather_kernel,
    pack_weights_kernel,
    planes_kernel,
)
from tconv.runtime.scratch import address, scratch_address
from tconv.threads import get_num_threads

Array = npt.NDArray[Any]

KERNEL = ctypes.CFUNCTYPE(None, *[ctypes.c_size_t] * 3)

MOST_LAUNCHES = 64  # kept for each problem; a stream of odd strides must not pile up
SPARE = 64  # elements that kernels may read past the end of a bias
SMALL_PACKING = 32_768  # weights, likewise
SMALL = 500_000  # flops below which waking a worker costs more than it saves


class PackedWeights:
    """Weights in the order that tiles read them."""

    __slots__ = ("address", "finite", "panels", "source")

    def __init__(self, panels: Array, where: int, source: Array, *, finite: bool) -> None:
        self.panels, self.address, self.source = panels, where, source
        self.finite = finite  # with infinities, zeros around the picture must not be multiplied


class Runner:
    """What FINE and COARSE by any compiled algorithm have in common."""

    fields: Mapping[str, int]

    def __init__(self, problem: Problem, recipe: Gather | Planes | Grouped, kernel: int) -> None:
        self.problem, self.kernel = problem, kernel
        self.dtype = numpy_dtype(problem.dtype)
        fine = problem.wanted is Operand.FINE
        self.source = Operand.COARSE if fine else Operand.FINE
        self.letters = ("c", "f") if fine else ("f", "c")
        self.record, self.items = recipe.record, recipe.items
        self.scratch_bytes = -(-recipe.scratch * self.dtype.itemsize // 64) * 64
        self.single = problem.flops() < SMALL
        self.launches: dict[tuple[tuple[int, ...], tuple[int, ...]], Launch] = {}
        self.no_bias = self._padded(np.zeros(problem.groups * problem.sizes[self.letters[1]]))

    def run(self, data: Array, packed: PackedWeights, bias: Array | None, out: Array) -> None:
        """Compute into ``out``."""
        data = addressable(data)
        added = self.no_bias if bias is None else self._padded(bias)
        launch = self.launch(data.strides, out.strides)
        launch(address(data), address(out), packed.address, address(added))

    def launch(self, source: tuple[int, ...], target: tuple[int, ...]) -> "Launch":
        """Return the kernel made ready for arrays of these strides."""
        found = self.launches.get((source, target))
        if found is None:
            record = self._strided(source, target)
            found = Launch(self.kernel, record, self.scratch_bytes, self.items, single=self.single)
            if len(self.launches) < MOST_LAUNCHES:
                self.launches[source, target] = found
        return found

    def _padded(self, bias: Array) -> Array:
        """Return the bias as kernels read it, with a vector to spare at the end."""
        padded = np.zeros(bias.size + SPARE, self.dtype)
        padded[: bias.size] = bias
        return padded

    def _strided(self, source: tuple[int, ...], target: tuple[int, ...]) -> list[int]:
        """Return the record for arrays of these strides."""
        problem, item, fields = self.problem, self.dtype.itemsize, self.fields
        record = list(self.record)
        for name, operand, strides, letter in (
            ("source", self.source, source, self.letters[0]),
            ("target", problem.wanted, target, self.letters[1]),
        ):
            steps = [stride // item for stride in strides]
            letters, spatial = problem.layout(operand).steps(steps, problem.sizes)
            record[fields[f"{name}_g"]] = letters["g"]
            record[fields[f"{name}_c"]] = letters[letter]
            record[fields[f"{name}_x"]] = spatial[-1]
            begin = record[fields[f"{name}_steps"]]
            record[begin : begin + len(spatial)] = (letters["n"], *spatial[:-1])
        return record


class PlanesRunner(Runner):
    """FINE or COARSE with few channels a group."""

    fields = planes_plan.FIELDS

    def __init__(self, problem: Problem, recipe: Planes) -> None:
        super().__init__(problem, recipe, planes_kernel(problem.dtype, recipe.rows))
        self.taps = tuple(np.array(recipe.taps).T) if recipe.taps else None

    def pack(self, weights: Array) -> PackedWeights:
        """Return the weights group by group, tap by tap, in the kernel's order of taps."""
        problem = self.problem
        shape, permutation = problem.path(Operand.WEIGHTS, f"xg{''.join(self.letters)}")
        view = weights.reshape(shape).transpose(permutation)
        taken = view[:0].reshape(0, *view.shape[-3:]) if self.taps is None else view[self.taps]
        panels = np.ascontiguousarray(taken.swapaxes(0, 1))
        finite = bool(np.isfinite(panels).all())
        return PackedWeights(panels, address(panels), weights, finite=finite)


class GatherRunner(Runner):
    """FINE or COARSE by a compiled gather."""

    fields = gather_plan.FIELDS

    def __init__(self, problem: Problem, recipe: Gather) -> None:
        self.recipe = recipe
        self.columns = recipe.lanes * recipe.vectors
        super().__init__(problem, recipe, gather_kernel(problem.dtype))
        self.packings: dict[tuple[int, ...], Launch] = {}
        self.packed_size = problem.groups * recipe.group_weights

    def pack(self, weights: Array) -> PackedWeights:
        """Return the weights as panels, zeros past the last channel."""
        weights = addressable(weights)
        panels = np.empty(self.packed_size, self.dtype)
        launch = self.packings.get(weights.strides)
        if launch is None:
            problem, recipe, item = self.problem, self.recipe, self.dtype.itemsize
            steps = tuple(stride // item for stride in weights.strides)
            items = problem.groups * len(recipe.runs) * recipe.panels
            launch = Launch(
                pack_weights_kernel(problem.dtype), list(plan_packing(problem, recipe, steps)),
                0, items, single=weights.size < SMALL_PACKING,
            )  # fmt: skip
            if len(self.packings) < MOST_LAUNCHES:
                self.packings[weights.strides] = launch
        flag = array("q", [0])
        target = address(panels)
        launch(address(weights), target, flag.buffer_info()[0])
        return PackedWeights(panels, target, weights, finite=not flag[0])

    def _padded(self, bias: Array) -> Array:
        """Return the bias with zeros where panels have channels and the result has none."""
        groups = self.problem.groups
        padded = np.zeros((groups, self.recipe.panels * self.columns), self.dtype)
        padded[:, : bias.size // groups] = bias.reshape(groups, -1)
        return padded


class Launch:
    """A kernel with its record, waiting for addresses.

    Calls may come from several threads at once, so each takes a record of its own: a used
    one if there is one, which costs less than a copy.
    """

    __slots__ = ("alone", "items", "kernel", "scratch_bytes", "single", "spare", "template")

    def __init__(
        self, kernel: int, record: list[int], scratch_bytes: int, items: int, *, single: bool
    ) -> None:
        self.kernel, self.scratch_bytes, self.items = kernel, scratch_bytes, items
        self.single = single or items == 1
        # A single work item needs no pool.
        self.alone = KERNEL(kernel) if items == 1 else None
        self.template = array("q", record)
        self.spare: list[tuple[array[int], int]] = []

    def __call__(self, *addresses: int) -> None:
        """Run with the addresses that the record begins with."""
        spare = self.spare
        if spare:
            record, where = spare.pop()
        else:
            record = self.template[:]
            where = record.buffer_info()[0]
        record[: len(addresses)] = array("q", addresses)
        size = self.scratch_bytes
        if self.alone is not None:
            self.alone(where, scratch_address(size), 0)
        else:
            threads = 1 if self.single else get_num_threads()
            scratch = scratch_address(size * threads)
            pool.run(self.kernel, where, scratch, size, self.items, threads)
        spare.append((record, where))


class CorrelateRunner:
    """WEIGHTS by a compiled correlation."""

    def __init__(self, problem: Problem, recipe: Correlate) -> None:
        self.problem, self.recipe = problem, recipe
        self.dtype = numpy_dtype(problem.dtype)
        self.kernel = correlate_kernel(problem.dtype)
        self.scratch_bytes = -(-recipe.scratch * self.dtype.itemsize // 64) * 64
        self.no_bias = np.zeros(2 * recipe.lanes * recipe.vectors, self.dtype)
        self.taps = np.array(recipe.taps, np.int64)
        self.single = problem.flops() < SMALL

    def run(self, coarse: Array, fine: Array, out: Array) -> bool:
        """Compute into ``out``; False when infinities make the answer doubtful."""
        problem, item = self.problem, self.dtype.itemsize
        coarse, fine = addressable(coarse), addressable(fine)
        record = np.array(self.recipe.record, np.int64)
        fields = correlate_plan.FIELDS
        flag = np.zeros(1, np.int64)
        addresses = {"source": fine, "coarse": coarse, "target": out, "bias": self.no_bias}
        for name, each in (*addresses.items(), ("flag", flag)):
            record[fields[name]] = address(each)
        for name, operand, each, letter in (
            ("source", Operand.FINE, fine, "f"),
            ("coarse", Operand.COARSE, coarse, "c"),
        ):
            strides = [stride // item for stride in each.strides]
            letters, spatial = problem.layout(operand).steps(strides, problem.sizes)
            record[fields[f"{name}_g"]] = letters["g"]
            record[fields[f"{name}_c"]] = letters[letter]
            record[fields[f"{name}_x"]] = spatial[-1]
            begin = record[fields[f"{name}_steps"]]
            record[begin : begin + len(spatial)] = (letters["n"], *spatial[:-1])
        strides = [stride // item for stride in out.strides]
        letters, spatial = problem.weights_layout.steps(strides, problem.sizes)
        offsets = self.taps @ np.array(spatial, np.int64)
        steps = np.diff(offsets)
        uniform = len(steps) == 0 or bool((steps == steps[0]).all())
        record[fields["target_g"]] = letters.get("g", 0)
        record[fields["target_c"]], record[fields["target_f"]] = letters["c"], letters["f"]
        record[fields["target_x"]] = steps[0] if uniform and len(steps) else spatial[-1]
        record[fields["tap_run"]] = len(offsets) if uniform else problem.axes[-1].taps
        begin = record[fields["target_taps"]]
        record[begin : begin + len(offsets)] = offsets
        threads = 1 if self.single else get_num_threads()
        pool.run(
            self.kernel,
            address(record),
            scratch_address(self.scratch_bytes * threads),
            self.scratch_bytes,
            self.recipe.items,
            threads,
        )
        return not flag[0]


def runner(
    problem: Problem, recipe: Gather | Planes | Correlate
) -> GatherRunner | PlanesRunner | CorrelateRunner:
    """Return what runs a recipe."""
    if isinstance(recipe, Gather):
        return GatherRunner(problem, recipe)
    return (
        PlanesRunner(problem, recipe)
        if isinstance(recipe, Planes)
        else (CorrelateRunner(problem, recipe))
    )


def addressable(given: Array) -> Array:
    """Return an array whose elements lie at whole numbers of elements from each other."""
    if given.flags.aligned:
        item = given.itemsize
        if given.flags.c_contiguous or all(stride % item == 0 for stride in given.strides):
            return given
    return np.ascontiguousarray(given)
