"""Operators that run on arrays: call, bind and plan."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import FrozenInstanceError
from typing import Any, cast

import numpy as np

from tconv import engine
from tconv.arrays import (
    Array,
    allocating,
    check_axes,
    check_memory,
    check_out,
    check_window,
    common_dtype,
    take_array,
)
from tconv.dialects.activation import parse_activation
from tconv.dialects.operator import BIAS, Operator, ShapeLike
from tconv.errors import ProblemError, UnsupportedError
from tconv.plan import ALGORITHMS, Plan
from tconv.problem import Activation, Operand, Problem
from tconv.quick import MOST_QUICK, Calls, Packed, Quick, Result, activated, pack_once

_CALLS = Calls()
NO_DOOR = object()  # where a call has been found to have none


class Runnable(Operator):
    """What a document's operator can do once there is an engine to run it."""

    # A frozen dataclass lets its plain subclasses set what are no fields; nothing does here.
    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: operators are frozen."""
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        """Refuse: operators are frozen."""
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __call__(
        self,
        first: object,
        second: object,
        third: object = None,
        *,
        bias: object = None,
        out: Result | None = None,
    ) -> Result:
        """Compute the result for arrays, in the document's order of inputs.

        ``third`` is the optional third input: a bias, or the values of an output_shape.
        A bias may be given by that name too.
        """
        if bias is not None:
            _check_bias(self, third)
            third = bias
        added, request = (third, None) if third is None or self.third in BIAS else (None, third)
        key: object = None
        if request is None or _plain(request):
            arrays: Any = first, second, added
            key = _CALLS.key((self, request), arrays)
            done = None if key is None else _CALLS.again(key, arrays, out)
            if done is not None:
                return done
        result = _compute(self, first, second, third, out, packed=None)
        if key is not None:
            _CALLS.learn(key, self, arrays, cast("tuple[int, ...] | None", request))
        return result

    def bind(
        self,
        second: object,
        bias: object = None,
        *,
        activation: object = None,
        algorithm: str | None = None,
    ) -> "Bound":
        """Fix the second input (the weights), packed once, and return a callable.

        The values are copied: changing the array afterwards changes nothing.  ``activation``
        is applied to every sum before it is rounded and stored: one of "relu", "leaky_relu",
        "relu6", "elu", "hardsigmoid", "hardswish", "sigmoid", "silu", "tanh" and "gelu", or a
        pair of "leaky_relu" or "elu" and its slope.  ``algorithm`` is "direct", "winograd" or
        None for what is faster.
        """
        title = self.title()
        parsed = parse_activation(title, activation)
        if parsed is not None and self.wanted is Operand.WEIGHTS:
            raise ProblemError(
                title,
                "its result takes no activation.",
                got={"activation": str(parsed)},
                rule="an activation is for data; the result here is a gradient of weights",
                fix="leave activation out of bind",
            )
        return Bound(self, second, bias, parsed, algorithm)

    def plan(
        self,
        first: ShapeLike,
        second: ShapeLike,
        third: ShapeLike | None = None,
        *,
        dtype: object = "float32",
        algorithm: str | None = None,
    ) -> Plan:
        """Return what will run for inputs of these shapes, once bound, and why; print it."""
        check_algorithm(self.title(), algorithm)
        problem = self.problem(first, second, third, dtype=dtype)
        check_window(self.title(), problem.spatial(Operand.WEIGHTS))
        self.warn_if_ambiguous(self.resolve(first, second, third, dtype=dtype))
        with in_words_of(self.title()):
            return engine.plan(problem, algorithm, bound=True)


class Bound:
    """An operator with its weights packed: call it on data of any batch and spatial size."""

    def __init__(
        self,
        op: Runnable,
        second: object,
        bias: object,
        activation: Activation | None = None,
        algorithm: str | None = None,
    ) -> None:
        title = op.title()
        check_algorithm(title, algorithm)
        self._op, self._activation, self._algorithm = op, activation, algorithm
        given = take_array(title, op.inputs[1], second)
        added = None
        if bias is not None:
            _check_bias(op, None)
            added = take_array(title, str(op.third), bias)
        self._check(given, added)
        check_memory(title, given.shape, given.nbytes)
        with allocating(title, given.shape):
            self._second = np.array(given)
            self._bias = None if added is None else np.array(added)
        self._packed: Packed = {}
        self._quick: dict[object, tuple[Quick, Any, Any]] = {}
        self._door: Any = None  # of the last call that went through one
        self._dtype = self._second.dtype

    def __call__(self, first: object, third: object = None, *, out: Result | None = None) -> Result:
        """Compute the result for one input; ``third`` is an optional output_shape."""
        if self._door is not None and third is None:
            through: Result | None = self._door(first, out)
            if through is not None:
                return through
        key: object = None
        if type(first) is np.ndarray and first.dtype is self._dtype:
            if third is None:
                key = first.shape, first.strides
            elif _plain(third):
                key = first.shape, first.strides, third
            found = self._quick.get(key)
            if found is not None:
                again = self._again(key, first, out)
                if again is not None:
                    return again
        return self._closely(first, third, out, key)

    def _closely(self, first: object, third: object, out: Result | None, key: object) -> Result:
        """Check everything and compute; remember the call by its key, if there is one."""
        op, request = self._op, third
        if self._bias is not None:
            if third is not None:
                raise ProblemError(
                    op.title(),
                    f"{op.third} is given, but one is bound already.",
                    got={},
                    rule="bind(weights, bias) fixes the bias",
                    fix=f"leave {op.third} out of bind, or out of the call",
                )
            third = self._bias
        result = _compute(op, first, self._second, third, out, packed=self._packed,
                          activation=self._activation, algorithm=self._algorithm)  # fmt: skip
        if key is not None and key not in self._quick and len(self._quick) < MOST_QUICK:
            quick = Quick.make(
                op, cast("Array", first), self._second, self._bias, self._activation,
                self._algorithm, request=cast("tuple[int, ...] | None", request), bound=True,
            )  # fmt: skip
            if quick is not None:
                packed = quick.packed(self._second, self._packed)
                self._quick[key] = quick, packed, None if request is None else NO_DOOR
        return result

    def _again(self, key: object, first: Array, out: Result | None) -> Result | None:
        """Return the result of a call that was checked; None if it needs a closer look."""
        quick, packed, door = self._quick[key]
        if door is None:  # not in the first call, which has enough to do
            door = quick.door(first, packed) or NO_DOOR
            self._quick[key] = quick, packed, door
        door = None if door is NO_DOOR else door
        if door is not None and door.call is not self._door:
            self._door = door.call
            result: Result | None = door.call(first, out)
            if result is not None:
                return result
        result = quick(first, packed, out)
        if door is not None:
            with suppress(MemoryError):
                door.arrange()
        return result

    def __reduce__(self) -> tuple[object, ...]:
        """Cross process borders as what was bound; it is packed again over there."""
        return Bound, (self._op, self._second, self._bias, self._activation, self._algorithm)

    def __repr__(self) -> str:
        """Print the operator and the shape that is bound."""
        activation = f", {self._activation}" if self._activation else ""
        return f"{self._op!r}.bind({self._op.inputs[1]} {self._second.shape}{activation})"

    def _check(self, second: Array, bias: Array | None) -> None:
        """Refuse weights that fit no data at all now, not at the first call."""
        op = self._op
        named = [(op.inputs[1], second)] + ([] if bias is None else [(str(op.third), bias)])
        dtype = common_dtype(op.title(), named)
        op.parse_dtype(dtype)
        if op.wanted is Operand.WEIGHTS:
            return  # what is bound is data: any shape fits some weights
        # Every size of the data, and of an output_shape, is still open.
        spatial = max(second.ndim - len(op.weights_layouts()[0].words) + 1, 1)
        third: ShapeLike | None = None if bias is None else bias.shape
        if op.third is not None and op.third not in BIAS:
            third = (None,) * spatial
        op.resolve((None,) * (spatial + 2), second.shape, third, dtype=dtype)


def _plain(request: object) -> bool:
    """Tell whether a request can be known again: True is 1 to a dictionary, but not to us."""
    return type(request) is tuple and all(type(number) is int for number in request)


def check_algorithm(title: str, algorithm: object) -> None:
    """Refuse an algorithm that is none, or that is not for users to choose."""
    if algorithm is not None and not (isinstance(algorithm, str) and algorithm in ALGORITHMS):
        raise ProblemError(
            title,
            f"there is no algorithm {algorithm!r:.60}.",
            got={},
            rule="algorithm is 'direct', 'winograd' or None, for what is faster",
            fix="leave algorithm out",
        )


@contextmanager
def in_words_of(title: str) -> Iterator[None]:
    """Let a refused plan name the operator that it is for."""
    try:
        yield
    except UnsupportedError as error:
        parts = {"got": error.got, "rule": error.rule, "fix": error.fix}
        raise UnsupportedError(title, error.wrong, **parts) from None  # type: ignore[arg-type]


class Settled:
    """A problem whose checks are done: arrays of its shapes go straight to kernels.

    For adapters, which meet the same problem again and again and look at their arrays
    themselves: shapes and element type are the problem's, ``out`` overlaps no input.
    """

    __slots__ = ("_run", "packing")

    def __init__(self, title: str, problem: Problem, *, bound: bool = False) -> None:
        """Choose how to run; ``bound`` tells that weights are packed for many calls."""
        _check_sizes(title, problem)
        self._run = engine.executable(problem, bound=bound)
        self.packing = self._run.packing

    def pack(self, weights: Array) -> object:
        """Return weights as kernels read them; good for every problem of equal ``packing``."""
        return self._run.pack(weights)

    def __call__(self, first: Array, second: object, bias: Array | None, out: Result) -> None:
        """Compute into ``out`` from the given operands in the order COARSE, FINE, WEIGHTS.

        Weights are given as :meth:`pack` returned them.
        """
        self._run.run(first, second, bias, out)


def _compute(  # noqa: PLR0913 - the inputs of a call and what a bound one remembers
    op: Operator,
    given_first: object,
    given_second: object,
    third: object,
    out: Result | None,
    *,
    packed: Packed | None,
    activation: Activation | None = None,
    algorithm: str | None = None,
) -> Result:
    """Check everything, then compute; ``out`` is touched last."""
    title = op.title()
    given = [(op.inputs[0], given_first), (op.inputs[1], given_second)]
    request = third
    if third is not None and op.third in BIAS:
        given.append((str(op.third), third))
    elif (
        third is not None
        and op.third is not None
        and not isinstance(third, list | tuple | range | np.ndarray)
    ):
        request = take_array(title, op.third, third)
    named = [(name, take_array(title, name, value)) for name, value in given]
    first, second = named[0][1], named[1][1]
    bias = named[2][1] if len(named) > 2 else None
    if bias is not None:
        request = bias.shape
    dtype = common_dtype(title, named)
    resolved = op.resolve(first.shape, second.shape, request, dtype=dtype)  # type: ignore[arg-type]
    if resolved.problem is None:
        raise op.unknown_sizes(first.shape, second.shape)
    problem = activated(resolved.problem, activation)
    shape = problem.shape(op.wanted)
    if out is not None:
        # What was given, too: an array in a foreign byte order was copied by now.
        raw = [(name, value) for name, value in given if isinstance(value, np.ndarray)]
        check_out(title, out, shape, problem.dtype, [*named, *raw])
    _check_sizes(title, problem)
    op.warn_if_ambiguous(resolved)
    with allocating(title, shape):
        with in_words_of(title):
            run = engine.executable(problem, algorithm, bound=packed is not None)
        if op.wanted is Operand.WEIGHTS:
            operands = dict(zip(op.given, (first, second), strict=True))
            coarse, fine = (operands[each] for each in problem.given)
            return run.run(coarse, fine, None, out)
        weights = run.pack(second) if packed is None else pack_once(run, second, packed)
        return run.run(first, weights, bias, out)


def _check_bias(op: Operator, third: object) -> None:
    """Refuse a bias where the document has none, or where there is one already."""
    if op.third not in BIAS:
        raise ProblemError(
            op.title(),
            "it takes no bias.",
            got={"inputs": ", ".join(op.inputs)},
            rule=f"the inputs are {' and '.join(op.inputs)}   ({op.document})",
            fix="leave bias out",
        )
    if third is not None:
        raise ProblemError(
            op.title(),
            "the bias is given twice.",
            got={"inputs": ", ".join(op.inputs)},
            rule=f"bias= is another way to give the input {op.third}",
            fix="leave one of them out",
        )


def _check_sizes(title: str, problem: Problem) -> None:
    """Refuse what this machine cannot hold or walk through."""
    check_memory(title, problem.shape(problem.wanted), engine.bytes_needed(problem))
    check_window(title, problem.spatial(Operand.WEIGHTS))
    check_axes(title, len(problem.axes))
