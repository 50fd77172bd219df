"""What WEIGHTS by any compiled algorithm have in common: two sides, sums, and weights."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import mul
from typing import ClassVar

import numpy as np

from tconv.problem import Problem, accumulator, numpy_dtype
from tconv.runtime import pool
from tconv.runtime.launch import MOST_LAUNCHES, Array, Launch, addressable, as_it_lies
from tconv.runtime.scratch import address, scratch_address
from tconv.threads import get_num_threads

Strides = tuple[int, ...]


class GradientRunner:
    """Computes WEIGHTS from the coarse and the fine side.

    Its kernels run one after the other over one record; those without work items are left out.
    """

    fields: ClassVar[Mapping[str, int]]
    no_bias = np.empty(0)  # weights have none

    def __init__(self, problem: Problem, scratch: int, common: int) -> None:
        """Take the elements of scratch for each worker, and of memory that all workers see."""
        self.problem = problem
        self.dtype, self.sums = numpy_dtype(problem.dtype), accumulator(problem.dtype)
        self.scratch_bytes = -(-scratch * self.sums.itemsize // 64) * 64
        self.common_bytes = common * self.sums.itemsize
        self.single = False  # whether a call is done before a worker is awake
        self.turned = False  # whether the record begins with the fine side
        self.launches: dict[tuple[Strides, Strides, Strides], Passes] = {}

    def run(self, coarse: Array, fine: Array, out: Array) -> bool:
        """Compute into ``out``; False when infinities make the answer doubtful."""
        coarse, fine = addressable(coarse), addressable(fine)
        launch = self.ready(coarse.strides, out.strides, fine.strides)
        return launch(address(coarse), address(out), address(fine))

    pack = staticmethod(as_it_lies)

    def ready(self, coarse: Strides, target: Strides, fine: Strides) -> "Passes":
        """Return the kernels made ready for arrays of these strides."""
        found = self.launches.get((coarse, target, fine))
        if found is None:
            record = self.strided(coarse, target, fine)
            found = Passes(self, [one for one in self.passes(record) if one[1]], record)
            if len(self.launches) < MOST_LAUNCHES:
                self.launches[coarse, target, fine] = found
        return found

    def strided(self, coarse: Strides, target: Strides, fine: Strides) -> list[int]:
        """Return the record for arrays of these strides."""
        raise NotImplementedError

    def passes(self, record: list[int]) -> Sequence[tuple[int, int]]:
        """Return the kernels for a record, in order, each with its number of work items."""
        raise NotImplementedError

    def put_weights(
        self, record: list[int], taps: Sequence[tuple[int, ...]], target: Strides, row: str
    ) -> None:
        """Note where weights are written, whose rows are channels of a letter.

        Taps are written in runs: all of them, if they lie evenly apart, or those of the last axis.
        """
        fields, problem = self.fields, self.problem
        steps = [stride // self.dtype.itemsize for stride in target]
        letters, spatial = problem.weights_layout.steps(steps, problem.sizes)
        record[fields["target_g"]] = letters.get("g", 0)
        record[fields["target_row"]] = letters[row]
        record[fields["target_column"]] = letters["f" if row == "c" else "c"]
        offsets = [sum(map(mul, tap, spatial)) for tap in taps]
        apart = {after - before for before, after in pairwise(offsets)}
        even = len(apart) < 2
        record[fields["target_x"]] = apart.pop() if even and apart else spatial[-1]
        record[fields["tap_run"]] = len(offsets) if even else problem.axes[-1].taps
        begin = record[fields["target_taps"]]
        record[begin : begin + len(offsets)] = offsets


class Passes(Launch):
    """Kernels with one record, waiting for the addresses of both sides and the weights.

    Memory that all workers see lies behind the scratch of the last; the flag of results that are
    not finite lies behind the numbers.
    """

    __slots__ = ("common", "common_bytes", "flag", "passes", "turned")

    def __init__(
        self, runner: GradientRunner, passes: list[tuple[int, int]], record: list[int]
    ) -> None:
        first, items = passes[0]
        items = items if len(passes) == 1 else 0
        super().__init__(first, [*record, 0], runner.scratch_bytes, items, single=runner.single)
        self.passes, self.turned, self.common_bytes = passes, runner.turned, runner.common_bytes
        self.common, self.flag = runner.fields["common"], runner.fields["flag"]

    def __call__(self, *addresses: int) -> bool:
        """Run with those of the coarse side, the weights and the fine side.

        Returns whether the weights can be answered for.
        """
        coarse, target, fine = addresses[:3]
        try:
            record, where = self.spare.pop()
        except IndexError:
            record, where = self.fresh()
        record[0], record[1] = (fine, coarse) if self.turned else (coarse, fine)
        record[2], record[self.flag], record[-1] = target, where + 8 * len(record) - 8, 0
        threads = 1 if self.single else get_num_threads()
        size = self.scratch_bytes
        scratch = scratch_address(size * threads + self.common_bytes)
        record[self.common] = scratch + size * threads
        if self.alone is not None:
            self.alone(where, scratch, 0)
        else:
            for kernel, items in self.passes:
                pool.run(kernel, where, scratch, size, items, threads)
        finite = record[-1] == 0
        self.spare.append((record, where))
        return finite
