"""Calls that were checked before: for arrays of the same shapes, what is left is addresses."""

from dataclasses import replace
from typing import Any

import numpy as np

from tconv import engine
from tconv.arrays import Array
from tconv.dialects.operator import Operator
from tconv.problem import Activation, Problem, numpy_dtype
from tconv.runtime.scratch import address

Result = np.ndarray[Any, np.dtype[Any]]
Packed = dict[object, object]


class Quick:
    """A call that was checked once: for arrays of the same shapes, what is left is addresses."""

    def __init__(self, run: engine.Executable, launch: Any, bias: Array | None) -> None:  # noqa: ANN401 - known only with a compiler
        problem = run.problem
        self._launch, self._run = launch, run
        self._repacking: Any = None
        self._shape = problem.shape(problem.wanted)
        self._dtype = numpy_dtype(problem.dtype)
        self._strides = np.empty(self._shape, self._dtype).strides
        self._item = self._dtype.itemsize
        self._bias = run.padded_bias(bias)
        self._added = address(self._bias)

    @staticmethod
    def make(  # noqa: PLR0913 - what a bound call remembers
        op: Operator,
        first: Array,
        second: Array,
        bias: Array | None = None,
        activation: Activation | None = None,
        algorithm: str | None = None,
        *,
        bound: bool = False,
    ) -> "Quick | None":
        """Return the quick way, where kernels take the arrays as they are."""
        third = None if bias is None else bias.shape
        resolved = op.resolve(first.shape, second.shape, third, dtype=first.dtype)
        if resolved.problem is None or resolved.other_pads is not None:
            return None  # a warning must be given every time
        run = engine.executable(activated(resolved.problem, activation), algorithm, bound=bound)
        strides = np.empty(run.problem.shape(op.wanted), first.dtype).strides
        whole = all(stride % first.itemsize == 0 for stride in (*first.strides, *second.strides))
        launch = run.launch(first.strides, strides, second.strides) if whole else None
        if launch is None:
            return None
        quick = Quick(run, launch, bias)
        if not bound:
            quick._repacking = run.repacking(second.strides)
        return quick

    def eager(self, first: Array, weights: Array, out: Result | None) -> Result | None:
        """Pack and compute; None when the arrays need a closer look."""
        repacking = self._repacking
        if repacking is None:
            given: Any = self._run.pack(weights)
            if given.source.strides != weights.strides:
                return None  # a copy was packed, which lies otherwise
            return self(first, given, out)
        packed = repacking(weights)
        result = self(first, packed, out)
        repacking.spare.append(packed)
        return result

    def packed(self, known: Packed) -> Any:  # noqa: ANN401 - as above
        """Return the weights that the call before this one packed."""
        return known[self._run.packing]

    def __call__(self, first: Array, weights: Any, out: Result | None) -> Result | None:  # noqa: ANN401 - as above
        """Compute; None when the arrays need a closer look."""
        source = address(first)
        if out is None:
            out = np.empty(self._shape, self._dtype)
        else:
            if type(out) is not np.ndarray or out.shape != self._shape:
                return None
            same = out.strides == self._strides and out.dtype is self._dtype
            if not same or not out.flags.writeable or np.may_share_memory(first, out):
                return None
        target = address(out)
        if (source | target) % self._item or not weights.finite:
            return None
        done = self._launch(source, target, weights.address, self._added)
        return None if done is False else out


def activated(problem: Problem, activation: Activation | None) -> Problem:
    """Return the problem with an activation, if there is one."""
    return problem if activation is None else replace(problem, activation=activation)
