"""Run strips on arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tconv.plan import strips as strips_plan
from tconv.plan.strips import Strips
from tconv.problem import Operand, Problem
from tconv.runtime.compiled import OrderedRunner
from tconv.runtime.kernels import strips_kernel

Array = npt.NDArray[Any]


class StripsRunner(OrderedRunner):
    """FINE or COARSE of depthwise layers whose lines lie side by side."""

    fields, across = strips_plan.FIELDS, True
    nothing = -0.0  # the sign of a zero must not depend on how sums are stored

    def __init__(self, problem: Problem, recipe: Strips) -> None:
        super().__init__(problem, recipe, strips_kernel(problem.dtype, recipe.lanes, recipe.merged))
        self.taps = np.array(recipe.taps).T if recipe.taps else None

    def ordered(self, weights: Array) -> Array:
        """Return the weights group by group, by written channel, in the kernel's order of taps."""
        problem = self.problem
        shape, permutation = problem.path(Operand.WEIGHTS, f"xg{''.join(self.letters)}")
        view = weights.reshape(shape).transpose(permutation)
        if self.taps is None:
            return view[:0].reshape(0)
        channels, *taps = self.taps
        taken = view[(*taps, slice(None), channels)]
        found: Array = np.moveaxis(taken, 0, -1)
        return found
