"""Operators that run on arrays: call, bind and plan."""

from typing import Any

import numpy as np

from tconv import engine
from tconv.arrays import Array, check_memory, check_out, common_dtype, take_array, too_large
from tconv.dialects.operator import BIAS, Operator, Resolved, ShapeLike
from tconv.dialects.shapes import parse_dtype
from tconv.plan import Plan
from tconv.problem import Operand, Problem
from tconv.runtime.taps import Floats

Result = np.ndarray[Any, np.dtype[Any]]


class Runnable(Operator):
    """What a document's operator can do once there is an engine to run it."""

    def __call__(
        self, first: object, second: object, third: object = None, *, out: Result | None = None
    ) -> Result:
        """Compute the result for arrays, in the document's order of inputs.

        ``third`` is the optional third input: a bias, or the values of an output_shape.
        """
        arrays = self._take(first, second)
        return self._run(arrays, third, out, packed=None)

    def bind(self, second: object, bias: object = None) -> "Bound":
        """Fix the second input (the weights), packed once, and return a callable.

        The values are copied: changing the array afterwards changes nothing.
        """
        return Bound(self, second, bias)

    def plan(
        self,
        first: ShapeLike,
        second: ShapeLike,
        third: ShapeLike | None = None,
        *,
        dtype: object = "float32",
    ) -> Plan:
        """Return what will run for inputs of these shapes, and why; print it."""
        self.warn_if_ambiguous(self.resolve(first, second, third, dtype=dtype))
        return engine.plan(self.problem(first, second, third, dtype=dtype))

    def _take(self, first: object, second: object) -> tuple[Array, Array]:
        title = self.title()
        return (
            take_array(title, self.inputs[0], first),
            take_array(title, self.inputs[1], second),
        )

    def _run(
        self,
        arrays: tuple[Array, Array],
        third: object,
        out: object,
        *,
        packed: "dict[tuple[object, ...], Floats] | None",
    ) -> Result:
        title = self.title()
        named = list(zip(self.inputs, arrays, strict=True))
        bias = None
        if third is not None and self.third in BIAS:
            bias = take_array(title, str(self.third), third)
            named.append((str(self.third), bias))
        dtype = common_dtype(title, named)
        resolved = self.resolve(
            arrays[0].shape, arrays[1].shape, self._request(third, bias), dtype=dtype
        )
        problem = _certain(resolved)
        if out is not None:
            out = check_out(title, out, problem.shape(self.wanted), problem.dtype, named)
        check_memory(title, problem.shape(self.wanted), engine.bytes_needed(problem))
        self.warn_if_ambiguous(resolved)
        try:
            operands = {self.given[0]: engine.pack(problem, self.given[0], arrays[0])}
            operands[self.given[1]] = _pack_once(problem, self.given[1], arrays[1], packed)
            first, second = (operands[operand] for operand in problem.given)
            return engine.run(problem, first, second, bias, out)
        except MemoryError as error:
            raise too_large(title, problem.shape(self.wanted), "memory ran out.") from error

    def _request(self, third: object, bias: Array | None) -> Any:  # noqa: ANN401 - parsed by resolve
        if bias is not None:
            return bias.shape
        known = (list, tuple, range, np.ndarray, type(None))
        return (
            third if isinstance(third, known) else take_array(self.title(), str(self.third), third)
        )


class Bound:
    """An operator with its weights packed: call it on data of any batch and spatial size."""

    def __init__(self, op: Runnable, second: object, bias: object) -> None:
        title = op.title()
        self._op = op
        self._second = np.array(take_array(title, op.inputs[1], second))
        self._second.flags.writeable = False
        self._bias = None
        if bias is not None:
            self._bias = np.array(take_array(title, str(op.third or "bias"), bias))
        self._packed: dict[tuple[object, ...], Floats] = {}
        self._check()

    def __call__(self, first: object, third: object = None, *, out: Result | None = None) -> Result:
        """Compute the result for one input; ``third`` is an optional output_shape."""
        op = self._op
        array = take_array(op.title(), op.inputs[0], first)
        if self._bias is not None and third is None:
            third = self._bias
        return op._run((array, self._second), third, out, packed=self._packed)  # noqa: SLF001 - its other half

    def __repr__(self) -> str:
        """Print the operator and the shape that is bound."""
        return f"{self._op!r}.bind({self._op.inputs[1]}{self._second.shape})"

    def _check(self) -> None:
        """Refuse weights that fit no data at all now, not at the first call."""
        op, second = self._op, self._second
        parse_dtype(op.title(), op.document, second.dtype, op._dtypes())  # noqa: SLF001 - its other half
        if op.wanted is Operand.WEIGHTS:
            return
        rank = second.ndim - (len(op._weights_layouts()[0].words) - 3)  # noqa: SLF001 - its other half
        bias = self._bias.shape if self._bias is not None else None
        if op.third in BIAS or bias is None:
            op.resolve((None,) * max(rank, 0), second.shape, bias, dtype=second.dtype)


def _pack_once(
    problem: Problem,
    operand: Operand,
    array: Array,
    packed: dict[tuple[object, ...], Floats] | None,
) -> Floats:
    """Pack the second operand, or find it packed: its order depends on layout and groups."""
    if packed is None:
        return engine.pack(problem, operand, array)
    key = (problem.layout(operand), problem.groups)
    if key not in packed:
        packed[key] = engine.pack(problem, operand, array)
    return packed[key]


def _certain(resolved: Resolved) -> Problem:
    if resolved.problem is None:  # arrays have every size
        raise AssertionError
    return resolved.problem
