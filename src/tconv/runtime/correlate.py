"""Run compiled correlations on arrays."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from tconv.plan.correlate import FIELDS, Correlate
from tconv.problem import Problem
from tconv.runtime.gradient import GradientRunner, Strides
from tconv.runtime.kernels import correlate_kernel
from tconv.runtime.launch import SMALL, put_steps
from tconv.runtime.scratch import address

MOST_ROWS = 8  # of a tile on any machine


class CorrelateRunner(GradientRunner):
    """WEIGHTS by a compiled correlation."""

    fields = FIELDS

    def __init__(self, problem: Problem, recipe: Correlate) -> None:
        super().__init__(problem, recipe.scratch, recipe.common)
        self.recipe, self.turned = recipe, recipe.swapped
        self.single = problem.flops() < SMALL
        self.zeros = np.zeros(MOST_ROWS * recipe.lanes * recipe.vectors, self.sums)
        steps = (
            ("pack_sides", recipe.packs),
            ("correlate", recipe.items),
            ("add_pieces", recipe.stores),
        )
        kernel = partial(
            correlate_kernel, dtype=problem.dtype, lanes=recipe.lanes,
            swapped=recipe.swapped, groups=recipe.groups > 1,
        )  # fmt: skip
        self.steps = [(kernel(name), items) for name, items in steps if items]

    def passes(self, record: list[int]) -> Sequence[tuple[int, int]]:
        """Return the kernels, each with its number of work items."""
        del record  # they are the same for all
        return self.steps

    def strided(self, coarse: Strides, target: Strides, fine: Strides) -> list[int]:
        """Return the record for arrays of these strides."""
        problem, recipe = self.problem, self.recipe
        record = list(recipe.record)
        names = ("b", "a") if recipe.swapped else ("a", "b")
        for name, operand, strides in zip(names, problem.given, (coarse, fine), strict=True):
            put_steps(record, FIELDS, problem, operand, strides, name, "source_steps")
        self.put_weights(record, recipe.taps, target, "f" if recipe.swapped else "c")
        # Of an axis with one tap the stride tells nothing.
        one_run = record[FIELDS["tap_run"]] == len(recipe.taps) and record[FIELDS["target_x"]] == 1
        beside = one_run and record[FIELDS["target_column"]] == len(recipe.taps)
        record[FIELDS["stream"]] = int(recipe.streamed and beside)
        record[FIELDS["zeros"]] = address(self.zeros)
        return record
