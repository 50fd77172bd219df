"""Run a smaller problem, round by round, and spread its results."""

import math
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from tconv.plan.spread import APART, FIELDS, IN_PLACE, Spread
from tconv.problem import Operand, Problem, accumulator, numpy_dtype
from tconv.runtime.compiled import SPARE
from tconv.runtime.kernels import activation_kernel, spread_kernel
from tconv.runtime.launch import (
    MOST_LAUNCHES,
    Array,
    Launch,
    PackedWeights,
    addressable,
    is_brief,
    put_steps,
    soon_done,
)
from tconv.runtime.scratch import address, compact_address

Strides = tuple[int, ...]
Run = Callable[..., bool | None]


class Inner(Protocol):
    """What runs the smaller problem, for some images."""

    problem: Problem

    def launch(self, source: Strides, target: Strides, second: Strides) -> Run | None:
        """Return what takes addresses of arrays of these strides, where there is something."""

    def padded_bias(self, bias: Array | None) -> Array:
        """Return the bias as kernels read it."""

    def pack(self, weights: Array) -> Any:  # noqa: ANN401 - what its own launch takes
        """Return weights as kernels read them."""

    def repacking(self, strides: Strides) -> Any | None:  # noqa: ANN401 - as above
        """Return what packs weights of these strides again and again."""


class SpreadRunner:
    """FINE by a smaller problem, whose results go to some of the points; others are blank."""

    def __init__(self, problem: Problem, recipe: Spread, inner: Sequence[Inner]) -> None:
        self.problem, self.recipe, self.inner = problem, recipe, inner
        self.sums = accumulator(problem.dtype)
        self.kernel = spread_kernel(problem.dtype, recipe.lanes)
        self.record = list(recipe.record)
        self.scratch_bytes = -(-recipe.scratch * self.sums.itemsize // 64) * 64
        self.launches: dict[tuple[Strides, Strides], Spreading] = {}
        channels = problem.groups * problem.fine_channels
        self.zeros = np.zeros(channels + SPARE, self.sums)
        if problem.activation is not None:
            name = problem.activation.name
            kernel = activation_kernel(self.sums.name, recipe.lanes, name, across=False)
            self.record[FIELDS["activate"]] = kernel
            bits = array("q", array("d", [problem.activation.slope]).tobytes())
            self.record[FIELDS["slope"]] = bits[0]
        self.record[FIELDS["zeros"]] = address(self.zeros)
        self._same = math.prod(recipe.taps) == 1  # weights are the smaller problem's
        both = problem, inner[0].problem
        self._paths = [each.path(Operand.WEIGHTS, "gcxf") for each in both]
        self.no_bias = self._joined(None, self.zeros[:channels])

    def pack(self, weights: Array) -> PackedWeights:
        """Return the weights as the smaller problem reads them."""
        packed = self.inner[0].pack(self._as_channels(weights))
        return PackedWeights(packed.panels, packed.address, weights, finite=packed.finite)

    def repacking(self, strides: Strides) -> Any | None:  # noqa: ANN401 - as above
        """Return what packs few weights again and again."""
        if self._same:
            return self.inner[0].repacking(strides)
        inner = self.inner[0].problem
        item = numpy_dtype(inner.dtype).itemsize
        found = self.inner[0].repacking(_contiguous(inner.shape(Operand.WEIGHTS), item))
        return None if found is None else Reordered(found, self._as_channels)

    def _as_channels(self, weights: Array) -> Array:
        """Return weights with taps as written channels, if those are."""
        if self._same:
            return weights
        (shape, permutation), (other, back) = self._paths
        found = np.empty(self.inner[0].problem.shape(Operand.WEIGHTS), weights.dtype)
        view = found.reshape(other).transpose(back)
        view[...] = weights.reshape(shape).transpose(permutation).reshape(view.shape)
        return found

    def padded(self, bias: Array) -> Array:
        """Return the bias as the smaller problem reads it, and behind it as it is."""
        return self._joined(bias, bias)

    def _joined(self, bias: Array | None, plain: Array) -> Array:
        every = math.prod(self.recipe.taps)
        tiled = bias if bias is None or every == 1 else np.tile(bias, every)
        first = self.inner[0].padded_bias(tiled).ravel()
        joined = np.zeros(first.size + plain.size + SPARE, self.sums)
        joined[: first.size] = first
        joined[first.size : first.size + plain.size] = plain
        return joined

    def run(self, data: Array, packed: PackedWeights, bias: Array | None, out: Array) -> None:
        """Compute into ``out``; the data lies as the smaller problem sees it."""
        data = addressable(data)
        launch: Any = self.ready(data.strides, out.strides)
        added = self.no_bias if bias is None else self.padded(bias)
        launch(address(data), address(out), packed.address, address(added))

    def ready(self, source: Strides, target: Strides, weights: Strides = ()) -> "Spreading | None":
        """Return what takes addresses of arrays of these strides, if they lie as is needed."""
        del weights  # they are packed
        found = self.launches.get((source, target))
        if found is None:
            found = self._made(source, target)
            if found is not None and len(self.launches) < MOST_LAUNCHES:
                self.launches[source, target] = found
        return found

    def _made(self, source: Strides, target: Strides) -> "Spreading | None":
        rounds = []
        for inner in self.inner:
            problem = inner.problem
            item = numpy_dtype(problem.dtype).itemsize
            compact, weights = (
                _contiguous(problem.shape(each), item) for each in (Operand.FINE, Operand.WEIGHTS)
            )
            launch = inner.launch(source, compact, weights)
            if launch is None:
                return None
            rounds.append((launch, self._spread_launch(target, problem.batch)))
        images = [self.problem.image_axis(each) for each in (Operand.COARSE, Operand.FINE)]
        return Spreading(self, rounds, (source[images[0]], target[images[1]]))

    def _spread_launch(self, target: Strides, images: int) -> Launch:
        """Return the kernel made ready to spread so many images."""
        record, problem, recipe = list(self.record), self.problem, self.recipe
        put_steps(record, FIELDS, problem, Operand.FINE, target, "target")
        step, unit = record[FIELDS["target_x"]], record[FIELDS["unit"]]
        begin, outer = record[FIELDS["target_steps"]], len(problem.axes) - 1
        row = record[begin + outer] if outer else 0
        record[FIELDS["target_row"]] = row
        beside = step == unit and (unit == 1 or record[FIELDS["target_c"]] == 1)
        lines = record[FIELDS["row_chunk"]] == 1 or row == record[FIELDS["size"]] * unit
        if not beside:
            record[FIELDS["way"]] = APART
        elif not lines:
            record[FIELDS["way"]] = IN_PLACE
        record[FIELDS["units"]] = units = images * recipe.chunks
        items = -(-units // record[FIELDS["a_turn"]])
        return Launch(
            self.kernel, record, self.scratch_bytes, items,
            single=soon_done(problem), brief=is_brief(problem, 0),
        )  # fmt: skip


class Reordered:
    """Packs small weights again and again, in another order than they have."""

    __slots__ = ("order", "repacking", "spare")

    def __init__(self, repacking: Any, order: Callable[[Array], Array]) -> None:  # noqa: ANN401 - as above
        self.repacking, self.order, self.spare = repacking, order, repacking.spare

    def __call__(self, weights: Array) -> Any:  # noqa: ANN401 - as above
        """Return the weights as panels."""
        return self.repacking(self.order(weights))


class Spreading:
    """Launches in rounds of images: the smaller problem, then its results among blanks."""

    __slots__ = ("batch", "behind", "compact_bytes", "round", "rounds", "steps")

    def __init__(
        self, runner: SpreadRunner, rounds: list[tuple[Run, Launch]], steps: tuple[int, int]
    ) -> None:
        item = numpy_dtype(runner.problem.dtype).itemsize
        self.rounds, self.steps = rounds, steps
        self.batch, self.round = runner.problem.batch, runner.recipe.round
        self.compact_bytes = runner.recipe.compact * item
        channels = runner.problem.groups * runner.problem.fine_channels
        self.behind = (runner.no_bias.size - channels - SPARE) * runner.sums.itemsize

    def __call__(self, source: int, target: int, weights: int, bias: int) -> None:
        """Run with the addresses of arrays."""
        compact = compact_address(self.compact_bytes)
        read, written = self.steps
        for first in range(0, self.batch, self.round):
            multiply, spread = self.rounds[self.batch - first < self.round]
            multiply(source + first * read, compact, weights, bias)
            spread(compact, target + first * written, bias + self.behind)


def _contiguous(shape: tuple[int, ...], item: int) -> Strides:
    """Return the strides of an array without gaps."""
    return tuple(item * math.prod(shape[place + 1 :]) for place in range(len(shape)))
