"""Run parts of a smaller problem, and spread their results."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tconv.plan.gather import make_record
from tconv.plan.plan import Plan
from tconv.plan.spread import (
    APART,
    FIELDS,
    HEAD_ARRAYS,
    HEAD_SCALARS,
    IN_PLACE,
    Spread,
    Variant,
)
from tconv.problem import Operand, Problem, accumulator, numpy_dtype
from tconv.runtime.compiled import SPARE, activation_numbers
from tconv.runtime.kernels import spread_kernel
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
from tconv.runtime.scratch import address

Strides = tuple[int, ...]

WORD = 4  # bytes that are touched: shorter elements may end before


class Inner(Protocol):
    """What runs the smaller problem of a part."""

    problem: Problem
    plan: Plan

    def launch(self, source: Strides, target: Strides, second: Strides) -> Any | None:  # noqa: ANN401 - a launch
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
        self.launches: dict[tuple[Strides, Strides], Launch] = {}
        channels = problem.groups * problem.fine_channels
        self.zeros = np.zeros(channels + SPARE, self.sums)
        self.of_all = {  # numbers of every part
            "zeros": address(self.zeros),
            **activation_numbers(problem, recipe.lanes, across=False),
        }
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
        if found is None:
            return None
        shape = self.problem.shape(Operand.WEIGHTS)
        numbers = np.arange(math.prod(shape)).reshape(shape)
        return Reordered(found, self._as_channels(numbers))

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

    def ready(self, source: Strides, target: Strides, weights: Strides = ()) -> Launch | None:
        """Return what takes addresses of arrays of these strides, if they lie as is needed."""
        del weights  # they are packed
        found = self.launches.get((source, target))
        if found is None:
            found = self._made(source, target)
            if found is not None and len(self.launches) < MOST_LAUNCHES:
                self.launches[source, target] = found
        return found

    def _made(self, source: Strides, target: Strides) -> Launch | None:
        """Return all records as one, for arrays of these strides."""
        problem, recipe, item = self.problem, self.recipe, self.sums.itemsize
        launches = [self._inner_launch(inner, source) for inner in self.inner]
        records: list[int] = []
        arrays: dict[str, list[int]] = {name: [] for name in HEAD_ARRAYS}
        for variant, inner, launch in zip(recipe.variants, self.inner, launches, strict=True):
            if launch is None:
                return None
            made: Any = inner.plan.recipe
            arrays["inner_kernel"].append(launch.kernel)
            arrays["inner_items"].append(made.items)
            arrays["inner_words"].append(len(launch.template))
            arrays["inner_record"].append(len(records))
            records += launch.template
            arrays["variant_record"].append(len(records))
            records += self._part_record(variant, target)
        both = Operand.COARSE, Operand.FINE
        images = [problem.image_axis(operand) for operand in both]
        along = images
        if recipe.axis is not None:
            along = [problem.layout(each).words.index("x") + recipe.axis for each in both]
        steps = source[along[0]], target[along[1]]
        for variant_of, read, write in recipe.parts:
            arrays["part_variant"].append(variant_of)
            arrays["part_read"].append(read * steps[0])
            arrays["part_write"].append(write * steps[1])
        arrays["inner_bytes"] += self._touched(source)
        known = [launch for launch in launches if launch is not None]
        words = max(len(launch.template) for launch in known)
        sizes = [
            max(launch.scratch_bytes for launch in known),
            item * max(variant.compact for variant in recipe.variants),
            8 * words,
            item * max(variant.scratch for variant in recipe.variants),
        ]
        begins = [0]
        for size in sizes:
            begins.append(begins[-1] + -(-size // 64) * 64)
        numbers = {
            "numbered": int(known[0].numbered),
            "parts": len(recipe.parts),
            "source_image": source[images[0]],
            "target_image": target[images[1]],
            "behind": (self.no_bias.size - self.zeros.size) * item,
            "scratch_compact": begins[1] // item,
            "scratch_record": begins[2] // item,
            "scratch_spread": begins[3] // item,
        }
        record = make_record(HEAD_SCALARS, HEAD_ARRAYS, numbers, {**arrays, "records": records})
        return Launch(
            self.kernel, list(record), begins[-1], recipe.items,
            single=soon_done(problem), brief=is_brief(problem, problem.flops()), numbered=True,
        )  # fmt: skip

    def _touched(self, source: Strides) -> list[int]:
        """Return how many bytes of the source a part touches, by variant: none with gaps."""
        problem, parts = self.problem, [variant.problem for variant in self.recipe.variants]
        item = numpy_dtype(problem.dtype).itemsize
        whole = source == _contiguous(problem.shape(Operand.COARSE), item)
        wanted = self.recipe.touched and self.recipe.axis is None and whole and item >= WORD
        return [item * wanted * math.prod(part.shape(Operand.COARSE)) for part in parts]

    def _inner_launch(self, inner: Inner, source: Strides) -> Launch | None:
        """Return what runs the smaller problem of a part, between arrays that lie so."""
        problem = inner.problem
        item = numpy_dtype(problem.dtype).itemsize
        compact, weights = (
            _contiguous(problem.shape(each), item) for each in (Operand.FINE, Operand.WEIGHTS)
        )
        found: Launch | None = inner.launch(source, compact, weights)
        return found

    def _part_record(self, variant: Variant, target: Strides) -> list[int]:
        """Return the record of a part, for a result of these strides."""
        record, problem = list(variant.record), variant.problem
        for name, value in self.of_all.items():
            record[FIELDS[name]] = value
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
        return record


class Reordered:
    """Packs small weights again and again, in another order than they have."""

    __slots__ = ("order", "repacking", "spare")

    def __init__(self, repacking: Any, order: Array) -> None:  # noqa: ANN401 - as above
        self.repacking, self.order, self.spare = repacking, order, repacking.spare

    def __call__(self, weights: Array) -> Any:  # noqa: ANN401 - as above
        """Return the weights as panels."""
        return self.repacking(weights.take(self.order))


def _contiguous(shape: tuple[int, ...], item: int) -> Strides:
    """Return the strides of an array without gaps."""
    return tuple(item * math.prod(shape[place + 1 :]) for place in range(len(shape)))
