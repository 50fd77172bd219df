"""Calls that were checked before: for arrays of the same shapes, what is left is addresses."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from tconv import engine
from tconv.arrays import Array
from tconv.dialects.operator import Operator
from tconv.problem import Activation, Problem, numpy_dtype
from tconv.runtime.scratch import address, maker

Result = np.ndarray[Any, np.dtype[Any]]
Packed = dict[object, object]


MOST_QUICK = 256  # calls that are remembered


class Quick:
    """A call that was checked once: for arrays of the same shapes, what is left is addresses."""

    def __init__(self, run: engine.Executable, launch: Any, bias: Array | None) -> None:  # noqa: ANN401 - known only with a compiler
        problem = run.problem
        self._launch, self._run = launch, run
        self._repacking: Any = None
        self._shape = problem.shape(problem.wanted)
        self._dtype = numpy_dtype(problem.dtype)
        self._strides = np.empty(self._shape, self._dtype).strides
        self._make = maker(self._shape, self._dtype)
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
        request: tuple[int, ...] | None = None,
        bound: bool = False,
    ) -> "Quick | None":
        """Return the quick way, where kernels take the arrays as they are."""
        third = request if bias is None else bias.shape
        resolved = op.resolve(first.shape, second.shape, third, dtype=first.dtype)
        if resolved.problem is None or resolved.other_pads is not None:
            return None  # a warning must be given every time
        run = engine.executable(activated(resolved.problem, activation), algorithm, bound=bound)
        strides = np.empty(run.problem.shape(op.wanted), first.dtype).strides
        whole = all(stride % first.itemsize == 0 for stride in (*first.strides, *second.strides))
        turned = op.given != run.problem.given  # of two sides, documents have either one first
        ends = (second, first) if turned else (first, second)
        launch = run.launch(ends[0].strides, strides, ends[1].strides) if whole else None
        if launch is None:
            return None
        if turned:
            launch = _turned(launch)
        quick = Quick(run, launch, bias)
        if not bound:
            quick._repacking = run.repacking(second.strides)
        return quick

    def eager(
        self, first: Array, weights: Array, bias: Array | None, out: Result | None
    ) -> Result | None:
        """Pack and compute; None when the arrays need a closer look."""
        padded = None if bias is None else self._run.padded_bias(bias)
        repacking = self._repacking
        if repacking is None:
            given: Any = self._run.pack(weights)
            if not self._run.packed_in_place(given, weights.strides):
                return None  # a copy was packed, which lies otherwise
            return self(first, given, out, padded)
        packed = repacking(weights)
        result = self(first, packed, out, padded)
        repacking.spare.append(packed)
        return result

    def packed(self, second: Array, known: Packed) -> Any:  # noqa: ANN401 - as above
        """Return what is bound as the call before this one packed it."""
        return pack_once(self._run, second, known)

    def door(self, first: Array, weights: Any) -> Any | None:  # noqa: ANN401 - as above
        """Return a way past Python for arrays like this one, where there is one."""
        if first.dtype is not self._dtype:
            return None  # it has notes of its own, which results have not
        with suppress(MemoryError):
            return engine.door(self._launch, first, self._shape, weights, self._bias, self._run)
        return None

    def __call__(
        self,
        first: Array,
        weights: Any,  # noqa: ANN401 - as above
        out: Result | None,
        padded: Array | None = None,
    ) -> Result | None:
        """Compute; None when the arrays need a closer look.

        What is padded is the bias, if it is not the one that was known before.
        """
        source = address(first)
        if out is None:
            try:
                out = self._make()
            except MemoryError:
                return None  # who looks closer can tell what for
        else:
            if type(out) is not np.ndarray or out.shape != self._shape:
                return None
            same = out.strides == self._strides and out.dtype is self._dtype
            if not same or not out.flags.writeable or np.may_share_memory(first, out):
                return None
        target = address(out)
        if (source | target) % self._item or not weights.finite:
            return None
        added = self._added if padded is None else address(padded)
        done = self._launch(source, target, weights.address, added)
        return None if done is False else out


def pack_once(run: engine.Executable, second: Array, packed: Packed) -> Any:  # noqa: ANN401 - as above
    """Pack weights, or find them packed: what the order depends on is the key."""
    key = run.packing
    if key not in packed:
        packed[key] = run.pack(second)
    return packed[key]


def _turned(launch: Any) -> Any:  # noqa: ANN401 - as above
    """Return a launch that takes the first operand for the second."""
    return lambda first, target, second, added: launch(second, target, first, added)


class Calls:
    """Calls that were checked before, by what was asked and the shapes and strides of arrays."""

    def __init__(self) -> None:
        self._known: dict[object, Quick | None] = {}

    def key(self, asked: object, arrays: tuple[Any, Any, Any]) -> object:
        """Return what a call is known by; None if it is none of those that can be quick.

        The arrays are data, weights, and a bias if there is one.
        """
        first, second, bias = arrays
        if type(first) is not np.ndarray or type(second) is not np.ndarray:
            return None
        dtype = first.dtype
        if dtype is not second.dtype or not dtype.isnative:
            return None
        if bias is None:
            return asked, dtype, first.shape, first.strides, second.shape, second.strides
        if type(bias) is not np.ndarray or bias.dtype is not dtype:
            return None
        shapes = first.shape, first.strides, second.shape, second.strides, bias.shape
        return asked, dtype, shapes

    def again(
        self, key: object, arrays: tuple[Array, Array, Array | None], out: Result | None
    ) -> Result | None:
        """Return the result of a call that is known; None if it needs a closer look."""
        try:
            quick = self._known.get(key)
        except TypeError:  # a list is a good argument, but no key
            return None
        if quick is None:
            return None
        first, second, bias = arrays
        if out is not None and (
            not isinstance(out, np.ndarray)
            or np.may_share_memory(out, second)
            or (bias is not None and np.may_share_memory(out, bias))
        ):
            return None
        return quick.eager(first, second, bias, out)

    def learn(
        self,
        key: object,
        op: Operator,
        arrays: tuple[Array, Array, Array | None],
        request: tuple[int, ...] | None = None,
    ) -> None:
        """Remember a call that went well; also that there is no quick way, as for some."""
        if len(self._known) >= MOST_QUICK:
            return
        with suppress(TypeError):  # as above
            if key not in self._known:
                self._known[key] = Quick.make(op, *arrays, request=request)

    def clear(self) -> None:
        """Forget all calls."""
        self._known.clear()

    def __iter__(self) -> Iterator[Quick]:
        """Go through the quick ways."""
        return iter([quick for quick in self._known.values() if quick is not None])


def activated(problem: Problem, activation: Activation | None) -> Problem:
    """Return the problem with an activation, if there is one."""
    return problem if activation is None else replace(problem, activation=activation)
