"""Run compiled correlations on arrays."""

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from tconv.plan.correlate import FIELDS, Correlate
from tconv.problem import Operand, Problem, accumulator, numpy_dtype
from tconv.runtime import pool
from tconv.runtime.kernels import correlate_kernel
from tconv.runtime.launch import SMALL, addressable
from tconv.runtime.scratch import address, scratch_address
from tconv.threads import get_num_threads

Array = npt.NDArray[Any]
Strides = tuple[int, ...]

MOST_ROWS = 8  # of a tile on any machine
MOST_RECORDS = 64  # kept for each problem; a stream of odd strides must not pile up


class CorrelateRunner:
    """WEIGHTS by a compiled correlation."""

    def __init__(self, problem: Problem, recipe: Correlate) -> None:
        self.problem, self.recipe = problem, recipe
        self.dtype = numpy_dtype(problem.dtype)
        form = problem.dtype, recipe.swapped, recipe.groups > 1
        self.kernel = correlate_kernel("correlate", *form)
        self.packing = correlate_kernel("pack_sides", *form) if recipe.packs else 0
        self.adding = correlate_kernel("add_pieces", *form) if recipe.stores else 0
        sums = accumulator(problem.dtype)
        self.scratch_bytes = -(-recipe.scratch * sums.itemsize // 64) * 64
        self.common_bytes = recipe.common * sums.itemsize
        self.zeros = np.zeros(MOST_ROWS * recipe.lanes * recipe.vectors, sums)
        self.single = problem.flops() < SMALL
        self.records: dict[tuple[Strides, Strides, Strides], list[array[int]]] = {}

    def run(self, coarse: Array, fine: Array, out: Array) -> bool:
        """Compute into ``out``; False when infinities make the answer doubtful."""
        recipe = self.recipe
        coarse, fine = addressable(coarse), addressable(fine)
        strides = coarse.strides, fine.strides, out.strides
        spare = self.records.get(strides)
        if spare is None:
            spare = [array("q", self._strided(*strides))]
            if len(self.records) < MOST_RECORDS:
                self.records[strides] = spare
        # Calls may come from several threads at once, so each takes a record of its own.
        try:
            record = spare.pop()
        except IndexError:
            record = array("q", self._strided(*strides))
        flag = array("q", [0])
        threads = 1 if self.single else get_num_threads()
        workers = self.scratch_bytes * threads
        scratch = scratch_address(workers + self.common_bytes)
        sides = (fine, coarse) if recipe.swapped else (coarse, fine)
        addresses = (*map(address, (*sides, out, self.zeros)), flag.buffer_info()[0])
        record[: len(addresses) + 1] = array("q", (*addresses, scratch + workers))
        where = record.buffer_info()[0]
        if recipe.packs:
            pool.run(self.packing, where, scratch, self.scratch_bytes, recipe.packs, threads)
        pool.run(self.kernel, where, scratch, self.scratch_bytes, recipe.items, threads)
        if recipe.stores:
            pool.run(self.adding, where, scratch, self.scratch_bytes, recipe.stores, threads)
        spare.append(record)
        return not flag[0]

    def _strided(self, coarse: Strides, fine: Strides, out: Strides) -> list[int]:
        """Return the record for arrays of these strides."""
        problem, item, swapped = self.problem, self.dtype.itemsize, self.recipe.swapped
        record = list(self.recipe.record)
        for name, operand, strides, letter in (
            ("b" if swapped else "a", Operand.COARSE, coarse, "c"),
            ("a" if swapped else "b", Operand.FINE, fine, "f"),
        ):
            steps = [stride // item for stride in strides]
            letters, spatial = problem.layout(operand).steps(steps, problem.sizes)
            record[FIELDS[f"{name}_g"]] = letters["g"]
            record[FIELDS[f"{name}_c"]] = letters[letter]
            record[FIELDS[f"{name}_x"]] = spatial[-1]
            begin = record[FIELDS[f"{name}_source_steps"]]
            record[begin : begin + len(spatial)] = (letters["n"], *spatial[:-1])
        steps = [stride // item for stride in out]
        letters, spatial = problem.weights_layout.steps(steps, problem.sizes)
        row, column = ("f", "c") if swapped else ("c", "f")
        record[FIELDS["target_g"]] = letters.get("g", 0)
        record[FIELDS["target_row"]], record[FIELDS["target_column"]] = (
            letters[row],
            letters[column],
        )
        offsets = np.array(self.recipe.taps, np.int64) @ np.array(spatial, np.int64)
        apart = np.diff(offsets)
        uniform = len(apart) == 0 or bool((apart == apart[0]).all())
        record[FIELDS["target_x"]] = int(apart[0]) if uniform and len(apart) else spatial[-1]
        record[FIELDS["tap_run"]] = len(offsets) if uniform else problem.axes[-1].taps
        taps = len(offsets)
        # Of an axis with one tap the stride tells nothing.
        one_run = uniform and record[FIELDS["target_x"]] == 1
        beside = one_run and record[FIELDS["target_column"]] == taps
        record[FIELDS["stream"]] = int(self.recipe.streamed and beside)
        begin = record[FIELDS["target_taps"]]
        record[begin : begin + len(offsets)] = offsets.tolist()
        return record
