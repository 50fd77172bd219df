"""Run compiled plans on arrays."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tconv.plan import correlate as correlate_plan
from tconv.plan import gather as gather_plan
from tconv.plan.correlate import Correlate
from tconv.plan.gather import Gather
from tconv.problem import Operand, Problem, numpy_dtype
from tconv.runtime import pool
from tconv.runtime.kernels import correlate_kernel, gather_kernel, pack_weights_kernel
from tconv.runtime.scratch import scratch_address
from tconv.threads import get_num_threads

Array = npt.NDArray[Any]

SMALL = 500_000  # flops below which waking a worker costs more than it saves


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """Weights in the order that tiles read them."""

    panels: Array
    finite: bool  # with infinities, zeros around the picture must not be multiplied
    source: Array


class GatherRunner:
    """FINE or COARSE by a compiled gather."""

    def __init__(self, problem: Problem, recipe: Gather) -> None:
        self.problem, self.recipe = problem, recipe
        self.dtype = numpy_dtype(problem.dtype)
        self.source = problem.given[0] if problem.given[0] is not Operand.WEIGHTS else Operand.FINE
        self.letters = ("c", "f") if problem.wanted is Operand.FINE else ("f", "c")
        self.kernel = gather_kernel(problem.dtype)
        self.scratch_bytes = -(-recipe.scratch * self.dtype.itemsize // 64) * 64
        self.single = problem.flops() < SMALL
        self.columns = recipe.lanes * recipe.vectors
        self.no_bias = np.zeros(problem.groups * recipe.panels * self.columns, self.dtype)
        self.records: dict[tuple[tuple[int, ...], tuple[int, ...]], npt.NDArray[np.int64]] = {}
        taps = [tap for run in recipe.runs for tap in run.taps]
        self.taps = np.array(taps, np.int64).reshape(-1, len(problem.axes))

    def pack(self, weights: Array) -> PackedWeights:
        """Return the weights as panels, zeros past the last channel."""
        problem, recipe = self.problem, self.recipe
        item = self.dtype.itemsize
        weights = addressable(weights)
        strides = [stride // item for stride in weights.strides]
        letters, spatial = problem.weights_layout.steps(strides, problem.sizes)
        read, written = (letters[letter] for letter in self.letters)
        depth, columns = (problem.sizes[letter] for letter in self.letters)
        offsets = self.taps @ np.array(spatial, np.int64)
        panels = np.empty(problem.groups * recipe.group_weights + self.columns, self.dtype)
        pack = pack_weights_kernel(problem.dtype)
        target, source, table = address(panels), address(weights), address(offsets)
        good = 1
        for group in range(problem.groups):
            begin = target + item * group * recipe.group_weights
            from_ = source + item * group * letters.get("g", 0)
            done = 0
            for run in recipe.runs:
                good &= pack(
                    begin + item * run.start, from_, table + 8 * done, len(run.taps),
                    depth, columns, read, written, run.panel_step, run.first_row,
                )  # fmt: skip
                done += len(run.taps)
        return PackedWeights(panels, bool(good), weights)

    def run(self, data: Array, packed: PackedWeights, bias: Array | None, out: Array) -> None:
        """Compute into ``out``."""
        problem = self.problem
        data = addressable(data)
        record = self._record(data, out).copy()
        added = self.no_bias if bias is None else self._padded(bias)
        record[0], record[1] = address(data), address(out)
        record[2], record[3] = address(packed.panels), address(added)
        threads = 1 if self.single else get_num_threads()
        pool.run(
            self.kernel,
            address(record),
            scratch_address(self.scratch_bytes * threads),
            self.scratch_bytes,
            self.recipe.items,
            threads,
        )

    def _padded(self, bias: Array) -> Array:
        """Return the bias with zeros where panels have channels and the result has none."""
        groups = self.problem.groups
        padded = np.zeros((groups, self.recipe.panels * self.columns), self.dtype)
        padded[:, : bias.size // groups] = bias.reshape(groups, -1)
        return padded

    def _record(self, data: Array, out: Array) -> npt.NDArray[np.int64]:
        """Return the record for arrays of these strides."""
        key = (data.strides, out.strides)
        found = self.records.get(key)
        if found is not None:
            return found
        problem, item = self.problem, self.dtype.itemsize
        record = np.array(self.recipe.record, np.int64)
        fields = gather_plan.FIELDS
        for name, operand, array, letter in (
            ("source", self.source, data, self.letters[0]),
            ("target", problem.wanted, out, self.letters[1]),
        ):
            strides = [stride // item for stride in array.strides]
            letters, spatial = problem.layout(operand).steps(strides, problem.sizes)
            record[fields[f"{name}_n"]] = letters["n"]
            record[fields[f"{name}_g"]] = letters["g"]
            record[fields[f"{name}_c"]] = letters[letter]
            record[fields[f"{name}_x"]] = spatial[-1]
            begin = record[fields[f"{name}_steps"]]
            record[begin : begin + len(spatial) - 1] = spatial[:-1]
        if len(self.records) < 64:
            self.records[key] = record
        return record


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
        for name, array in (*addresses.items(), ("flag", flag)):
            record[fields[name]] = address(array)
        for name, operand, array, letter in (
            ("source", Operand.FINE, fine, "f"),
            ("coarse", Operand.COARSE, coarse, "c"),
        ):
            strides = [stride // item for stride in array.strides]
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


def addressable(array: Array) -> Array:
    """Return an array whose elements lie at whole numbers of elements from each other."""
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    item = array.itemsize
    if array.flags.aligned and all(stride % item == 0 for stride in array.strides):
        return array
    return np.ascontiguousarray(array)


def address(array: npt.NDArray[Any]) -> int:
    """Return where an array begins."""
    return int(array.__array_interface__["data"][0])
