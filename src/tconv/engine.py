"""Problem to result, one cached path; the only file that knows plans and their runners."""

from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tconv.errors import UnsupportedError
from tconv.plan import (
    Flat,
    Hops,
    Machine,
    Plan,
    Spread,
    TapProducts,
    Winograd,
    choose_alike,
    choose_plan,
    flattened,
    hopped,
    kind_of,
    spread_plan,
    spreading,
    thinned,
)
from tconv.problem import Operand, Problem, accumulator, numpy_dtype
from tconv.runtime.scratch import maker
from tconv.runtime.taps import TapRunner
from tconv.settings import settings

# Now and not when first needed: a fork in the middle of an import, by another thread,
# would leave the child a module that nobody finishes.
try:
    from tconv.runtime import kernels
    from tconv.runtime.door import make_door
    from tconv.runtime.launch import Shifted
    from tconv.runtime.runners import runner
    from tconv.runtime.spread import SpreadRunner
except UnsupportedError as error:
    NO_COMPILER = error.wrong
except ImportError:
    NO_COMPILER = "llvmlite cannot be imported"
else:
    NO_COMPILER = ""

Array = npt.NDArray[Any]

OF_SIZES = {
    "record", "block", "items", "scratch", "shared", "common", "stores", "packs", "parts",
    "round", "boxes", "staged", "chunks", "slabs", "multiplications", "multiplies", "folds",
    "kinds", "windows",
}  # fmt: skip
"""What recipes have of data and results alone.  All else may tell the order of packed weights."""


class Executable:
    """A plan with what it needs to run: give it arrays."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.problem = plan, plan.problem
        self._taps = TapRunner(plan.problem)
        self._compiled: Any = None
        self._view = None if plan.thin is None else plan.thin.view
        self._recast = plan.recast
        if isinstance(plan.recipe, Spread):
            plans = [variant.inner for variant in plan.recipe.variants]
            made = {inner.problem: inner for inner in plans}
            runs = {each: Executable(inner) for each, inner in made.items()}
            inner = [runs[each.problem] for each in plans]
            self._compiled = SpreadRunner(plan.problem, plan.recipe, inner)
        elif not isinstance(plan.recipe, TapProducts):
            self._compiled = runner(plan.solved, plan.recipe)

    def launch(
        self, source: tuple[int, ...], target: tuple[int, ...], second: tuple[int, ...]
    ) -> Any | None:  # noqa: ANN401 - known only with a compiler
        """Return a kernel that needs nothing but addresses, where there is one.

        It takes those of the first operand, the result, `PackedWeights.address` and
        :meth:`padded_bias` for arrays of the given strides, and returns False if it cannot
        answer for the result.
        """
        if self._compiled is None:
            return None
        begin = 0
        if self._recast is not None:
            operands = self.problem.given[0], self.problem.wanted, self.problem.given[1]
            ends = zip(operands, (source, target, second), strict=True)
            lines = [self._recast.strides(operand, strides) for operand, strides in ends]
            return None if None in lines else self._compiled.ready(*lines)
        if self.plan.thin is not None:
            source, begin = self.plan.thin.strides(source)
        launch = self._compiled.ready(source, target, second)
        return launch if begin == 0 else Shifted(launch, begin)

    def padded_bias(self, bias: Array | None) -> Array:
        """Return the bias as kernels read it; zeros where there is none."""
        if bias is None:
            none: Array = self._compiled.no_bias
            return none
        added: Array = self._compiled.padded(self._of_channels(bias))
        return added

    @property
    def packing(self) -> object:
        """What the order of packed weights depends on: equal means interchangeable."""
        problem = self.problem
        recipe: Any = self.plan.recipe
        if isinstance(recipe, Spread):
            return recipe.taps, self._compiled.inner[0].packing
        names = [field.name for field in fields(recipe) if field.name not in OF_SIZES]
        order = *(getattr(recipe, name) for name in names), getattr(recipe, "weights_order", None)
        seen = self.plan.solved.weights_layout
        return problem.weights_layout, seen, problem.groups, problem.dtype, type(recipe), order

    def pack(self, weights: Array) -> object:
        """Return the second operand as kernels read it: weights in their order, a copy.

        Of a gradient of weights it is either side, as it lies.
        """
        if self._compiled is None:
            return self._taps.pack(weights)
        if self.problem.wanted is not Operand.WEIGHTS:
            weights = self._as_seen(Operand.WEIGHTS, weights)
        packed: object = self._compiled.pack(weights)
        return packed

    def packed_in_place(self, packed: Any, strides: tuple[int, ...]) -> bool:  # noqa: ANN401 - as above
        """Tell whether what was packed is what was given, with these strides, and no copy of it."""
        same: bool = packed.source.strides == self._seen(strides)
        return same

    def repacking(self, strides: tuple[int, ...]) -> Any | None:  # noqa: ANN401 - as above
        """Return what packs small weights of these strides into memory that it uses again."""
        found = getattr(self._compiled, "repacking", None)
        seen = self._seen(strides)
        return None if found is None or seen is None else found(seen)

    def _seen(self, strides: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the strides of what is packed, as what is solved sees it; None if it does not."""
        if self._recast is None or self.problem.wanted is Operand.WEIGHTS:
            return strides
        return self._recast.strides(Operand.WEIGHTS, strides)

    def run(
        self,
        first: Array,
        second: Any,  # noqa: ANN401 - what the runner's own pack returned
        bias: Array | None,
        out: Array | None,
    ) -> Array:
        """Compute from the given operands in the order COARSE, FINE, WEIGHTS.

        ``second`` is what :meth:`pack` returned when it is the weights, else an array.
        ``out`` is touched only when everything else has succeeded.
        """
        problem = self.problem
        result = out
        if self._compiled is not None and not self._lie_as_seen(first, out):
            recipe: Any = self.plan.recipe
            name = "" if isinstance(recipe, Spread) else kind_of(self.plan)
            whole = pictured(problem, name, recipe.lanes)
            return whole.run(first, whole.pack(self._weights(second)), bias, out)
        if result is None or not _whole_steps(result):
            result = maker(problem.shape(problem.wanted), numpy_dtype(problem.dtype))()
        if self._compiled is None:
            self._taps.run(first, second, bias, result)
        elif problem.wanted is Operand.WEIGHTS:
            if not self._run_weights(first, second, result):
                self._taps.run(first, second, bias, result)
        elif second.finite:
            met = self._as_seen(problem.given[0], first)
            met = met if self._view is None else met[self._view]
            lines = self._as_seen(problem.wanted, result)
            added = None if bias is None else self._of_channels(bias)
            doubtful = self._compiled.run(met, second, added, lines)
            if doubtful:
                self._run_directly(doubtful, first, self._weights(second), bias, result)
        else:
            # Zeros around the picture times an infinity would be NaN.
            taps = self._taps.pack(self._weights(second))
            self._taps.run(first, taps, bias, result)
        if out is not None and out is not result:
            np.copyto(out, result)
            return out
        return result

    def _as_seen(self, operand: Operand, array: Array) -> Array:
        """Return an array as what is solved sees it: a line instead of a picture, or frames."""
        return array if self._recast is None else array.reshape(self._recast.shape(operand))

    def _weights(self, packed: Any) -> Array:  # noqa: ANN401 - as above
        """Return the weights that were packed, as the problem has them."""
        weights: Array = packed.source.reshape(self.problem.shape(Operand.WEIGHTS))
        return weights

    def _of_channels(self, bias: Array) -> Array:
        """Return the bias of the channels that are written: those of a frame have one."""
        solved, wanted = self.plan.solved, self.problem.wanted
        if wanted is not Operand.FINE or solved.fine_channels == self.problem.fine_channels:
            return bias
        return np.repeat(bias, solved.fine_channels)

    def _lie_as_seen(self, first: Array, out: Array | None) -> bool:
        """Tell whether data and result are lines; a gradient of weights copies what is not."""
        seen, problem = self._recast, self.problem
        if isinstance(self.plan.recipe, Spread):  # the result may lie in any way
            parts = [variant.inner.recast for variant in self.plan.recipe.variants]
            ends = [(problem.given[0], first)]
            return all(part is None or _lies_so(part, ends) for part in parts)
        if seen is None or problem.wanted is Operand.WEIGHTS:
            return True
        ends = [(problem.given[0], first)]
        if out is not None:
            ends.append((problem.wanted, out))
        return _lies_so(seen, ends)

    def _run_weights(self, coarse: Array, fine: Array, out: Array) -> bool:
        """Compute weights; False when infinities make the answer doubtful."""
        sides = zip((Operand.COARSE, Operand.FINE), (coarse, fine), strict=True)
        lines = (self._as_seen(operand, side) for operand, side in sides)
        answered: bool = self._compiled.run(*lines, self._as_seen(Operand.WEIGHTS, out))
        return answered

    def _run_directly(
        self, images: list[int], data: Array, weights: Array, bias: Array | None, out: Array
    ) -> None:
        """Compute some images again, one by one, without transforms."""
        problem = self.problem
        run = executable(replace(problem, batch=1), "direct")
        packed = run.pack(weights)
        arrays = (data, problem.given[0]), (out, problem.wanted)
        for image in images:
            one, result = (
                array[(slice(None),) * problem.image_axis(operand) + (slice(image, image + 1),)]
                for array, operand in arrays
            )
            run.run(one, packed, bias, result)


def _lies_so(seen: Flat | Hops, ends: list[tuple[Operand, Array]]) -> bool:
    """Tell whether arrays are lines, or frames."""
    return all(seen.strides(operand, array.strides) is not None for operand, array in ends)


def _whole_steps(out: Array) -> bool:
    """Tell whether kernels can write there: elements at whole numbers of elements."""
    return out.flags.aligned and all(stride % out.itemsize == 0 for stride in out.strides)


def door(  # noqa: PLR0913 - what a call needs
    launch: object,
    first: Array,
    shape: tuple[int, ...],
    weights: Any,  # noqa: ANN401 - as above
    bias: Array,
    owner: Executable,
) -> Any | None:  # noqa: ANN401 - known only with a compiler
    """Return what calls a launch past Python, for operands like the first; None if nothing does.

    It has ``call(first, out or None)``, which returns None where arrays are others, and
    ``arrange()``, which readies it for the next call.
    """
    return make_door(launch, first, shape, weights, bias, owner)


@lru_cache(maxsize=1024)
def executable(
    problem: Problem, algorithm: str | None = None, *, bound: bool = False
) -> Executable:
    """Return what computes a problem, by an algorithm that is asked for or chosen."""
    return Executable(plan(problem, algorithm, bound=bound))


@lru_cache(maxsize=64)
def pictured(problem: Problem, name: str, lanes: int) -> Executable:
    """Return what computes a problem as it is, where another makes one line of its picture.

    By the same algorithm, with vectors as long: bits must not depend on how arrays lie.  One
    without a name spreads a smaller result.
    """
    target = kernels.machine_of(problem.dtype, lanes)
    worth = None if name else spreading(problem, target)
    if worth is not None:
        return Executable(spread_plan(problem, target, worth, (), lines=False))
    return Executable(choose_alike(problem, target, name))


@lru_cache(maxsize=1024)
def plan(problem: Problem, algorithm: str | None = None, *, bound: bool = False) -> Plan:
    """Return what will run for a problem, and why."""
    target = machine()
    known = target if isinstance(target, Machine) else None
    if known is None:
        return choose_plan(problem, None, str(target), algorithm, bound=bound)
    frames = None if algorithm == "direct" else hopped(problem)
    why: dict[str, str] = {}
    if frames is not None:
        found = choose_plan(frames.problem, known, str(target), algorithm, bound=bound)
        if isinstance(found.recipe, Winograd):  # others gain nothing by it
            return replace(found, problem=problem, recast=frames)
        why = {name: reason for name, reason in found.refused if name == "winograd"}
    thin, flat = thinned(problem), flattened(problem)
    other = thin or flat
    solved = problem if other is None else other.problem
    found = choose_plan(solved, known, str(target), algorithm, bound=bound)
    if why:  # what speaks against frames, not against a single channel
        refused = tuple((name, why.get(name, reason)) for name, reason in found.refused)
        found = replace(found, refused=refused)
    return found if other is None else replace(found, problem=problem, thin=thin, recast=flat)


@lru_cache(maxsize=1)
def machine() -> Machine | str:
    """Return the machine that kernels are made for, or why there are none."""
    if settings().engine == "numpy":
        return "TCONV_ENGINE is numpy"
    if NO_COMPILER:
        return NO_COMPILER
    try:
        return kernels.machine()
    except UnsupportedError as error:
        return error.wrong


@lru_cache(maxsize=1024)  # asked for in every call
def bytes_needed(problem: Problem) -> int:
    """Return the memory that a call may take beyond its inputs: sums, products and result."""
    sums = accumulator(problem.dtype).itemsize
    sizes = {
        operand: int(np.prod([1, *problem.shape(operand)], dtype=object)) for operand in Operand
    }
    return sums * (sum(sizes.values()) + max(sizes.values())) + (
        numpy_dtype(problem.dtype).itemsize * sizes[problem.wanted]
    )
