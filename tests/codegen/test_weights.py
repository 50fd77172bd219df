"""Packed weights as machine code, as NumPy, and as the tiles will read them."""

import itertools
from dataclasses import dataclass
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.meanings import Array, Code, pack_weights_meaning
from strategies import a_problem, as_float64, whole_numbers
from tconv.codegen.block import KernelShape
from tconv.codegen.weights import emit_pack_weights, emit_pick_weights
from tconv.jit import host_machine
from tconv.plan.gather import Gather, plan_gather
from tconv.plan.weights import (
    ARRAYS,
    BLOCK,
    FIELDS,
    PICK_FIELDS,
    SCALARS,
    packing_items,
    packing_scratch,
    plan_packing,
    plan_picking,
)
from tconv.problem import Axis, Layout, Operand, Problem

DTYPES = ("float32", "float64", "float16", "bfloat16")
WHOLE = Layout("gc f x")


@cache
def code(shape: KernelShape) -> tuple[Code, str]:
    """Compile for one type."""
    made = Code()
    return made, made.add(emit_pack_weights(made.module, shape))


@dataclass(frozen=True)
class Packing:
    """Weights of a problem, and the record that tells how to pack them."""

    problem: Problem
    weights: Array

    @property
    def recipe(self) -> Gather:
        """The gather that the weights are for."""
        return plan_gather(self.problem, host_machine())

    @property
    def shape(self) -> KernelShape:
        """Its panels."""
        return KernelShape(self.problem.dtype, self.recipe.lanes, self.recipe.vectors, (1,))

    @property
    def record(self) -> list[int]:
        """The record for the strides of the weights."""
        steps = tuple(stride // self.weights.itemsize for stride in self.weights.strides)
        return list(plan_packing(self.problem, self.recipe, steps))

    def empty(self) -> Array:
        """Return room for the packed weights, full of what must not stay."""
        room = self.problem.groups * self.recipe.group_weights
        return np.full(room, 99, self.weights.dtype)

    def compiled(self) -> tuple[Array, bool]:
        """Pack by machine code; also tell whether all weights are finite."""
        target, flag, record = self.empty(), np.zeros(1, np.int64), self.record
        for name, array in (("source", self.weights), ("target", target), ("flag", flag)):
            record[FIELDS[name]] = array.ctypes.data
        made, name = code(self.shape)
        places = np.empty(packing_scratch(tuple(record)), np.uint8)
        for item in range(packing_items(tuple(record), self.problem.groups)):
            made.call(name, np.array(record), places, item)
        return target, not flag[0]

    def meant(self) -> tuple[Array, bool]:
        """Pack by NumPy; only for weights in C order."""
        record, target = np.array(self.record), self.empty()
        begins = [record[FIELDS[name]] for name in ARRAYS]
        ends = [*begins[1:], len(record)]
        arrays = {name: record[a:b] for name, a, b in zip(ARRAYS, begins, ends, strict=True)}
        numbers = {name: int(record[FIELDS[name]]) for name in SCALARS}
        sizes = self.shape.lanes, self.shape.columns
        return target, pack_weights_meaning(target, self.weights.ravel(), numbers, arrays, sizes)


def a_packing(wanted: Operand, channels: int, dtype: str = "float32", groups: int = 2) -> Packing:
    """Return weights with so many channels to a panel's side, and three to its depth."""
    coarse, fine = (3, channels) if wanted is Operand.FINE else (channels, 3)
    axes = (Axis(7, 4, 3, 2, 1, 1), Axis(9, 4, 4, 2, 1, 0))
    layouts = Layout("n gc x"), Layout("n gf x"), WHOLE
    problem = Problem(wanted, 1, groups, coarse, fine, axes, dtype, *layouts)
    return Packing(problem, whole_numbers(problem.shape(Operand.WEIGHTS), dtype, 1, most=1000))


def around(lanes: int) -> list[int]:
    """Return channel counts on, before and behind whole vectors and whole panels."""
    return [1, *(k * lanes + by for k in (1, 2, 3, 4) for by in (-1, 0, 1))]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
def test_packed_panels_equal_their_meaning(wanted: Operand, dtype: str) -> None:
    """Full panels, narrow ones and rests, for every phase and group."""
    for channels in around(host_machine().lanes(dtype)):
        packing = a_packing(wanted, channels, dtype)
        computed, expected = packing.compiled(), packing.meant()

        np.testing.assert_array_equal(computed[0], expected[0], f"{channels} channels")
        assert computed[1]
        assert expected[1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
@pytest.mark.parametrize("window", [1, 2, 3, 8, 9, 17])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (2, 1, 0), (1, 2, 0)])
def test_depths_around_blocks_and_squares(
    wanted: Operand, dtype: str, window: int, order: tuple[int, int, int]
) -> None:
    """Whatever lies side by side in the source: taps, taps of following channels, or channels."""
    lanes = host_machine().lanes(dtype)
    for depth in (lanes - 1, lanes, lanes + 1, BLOCK + lanes + 1):
        channels = (depth, 3 * lanes + 1) if wanted is Operand.FINE else (3 * lanes + 1, depth)
        axes = (Axis(window + 4, 3, window, 2, 1, 0),)
        layouts = Layout("n gc x"), Layout("n gf x"), WHOLE
        problem = Problem(wanted, 1, 1, *channels, axes, dtype, *layouts)
        weights = whole_numbers(problem.shape(Operand.WEIGHTS), dtype, 1, most=1000)
        expected, _ = Packing(problem, weights).meant()
        placed = np.ascontiguousarray(weights.transpose(order)).transpose(np.argsort(order))

        np.testing.assert_array_equal(Packing(problem, placed).compiled()[0], expected)


@settings(deadline=None, max_examples=60)
@given(problem=a_problem(dtypes=DTYPES), wanted=st.sampled_from([Operand.FINE, Operand.COARSE]))
def test_any_layout_of_weights_is_packed_alike(problem: Problem, wanted: Operand) -> None:
    """Packing a view with odd strides is packing its values: layouts are steps."""
    problem = Problem(
        wanted, max(problem.batch, 1), problem.groups, problem.coarse_channels,
        problem.fine_channels, problem.axes, problem.dtype, problem.coarse_layout,
        problem.fine_layout, problem.weights_layout,
    )  # fmt: skip
    weights = whole_numbers(problem.shape(Operand.WEIGHTS), problem.dtype, 1, most=1000)
    expected, _ = Packing(problem, weights).meant()
    backwards = weights[tuple(slice(None, None, -1) for _ in weights.shape)].copy()
    backwards = backwards[tuple(slice(None, None, -1) for _ in weights.shape)]
    spread = np.full((*weights.shape[:-1], 3 * weights.shape[-1]), 99, weights.dtype)
    spread[..., ::3] = weights

    for view in (weights, np.asfortranarray(weights), backwards, spread[..., ::3]):
        np.testing.assert_array_equal(Packing(problem, view).compiled()[0], expected)


@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
def test_every_weight_lies_where_its_tile_reads_it(wanted: Operand) -> None:
    """By tap, then by channel read, then by channel written; the last vector ends with the last."""
    lanes = host_machine().lanes("float32")
    packing = a_packing(wanted, 4 * lanes + 3)
    recipe, problem = packing.recipe, packing.problem
    packed, _ = packing.compiled()
    order = "gxcf" if wanted is Operand.FINE else "gxfc"
    shape, permutation = problem.path(Operand.WEIGHTS, order)
    weights = packing.weights.reshape(shape).transpose(permutation)
    for group, panel in itertools.product(range(problem.groups), range(recipe.panels)):
        begin = min(panel * 2 * lanes, weights.shape[-1] - lanes)
        part = weights[group][..., begin : (panel + 1) * 2 * lanes]
        width = lanes if part.shape[-1] <= lanes else 2 * lanes
        for run in recipe.runs:
            begin = group * recipe.group_weights + run.start
            begin += panel * run.panel_step + run.first_row * width
            size = len(run.taps) * 3 * width
            lines = packed[begin : begin + size].reshape(len(run.taps), 3, width)

            for line, tap in zip(lines, run.taps, strict=True):
                np.testing.assert_array_equal(line, part[tap])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_weight_that_is_not_finite_raises_the_flag(value: float, dtype: str) -> None:
    """Wherever it is: first, last, in a wide panel or in a narrow one."""
    lanes = host_machine().lanes(dtype)
    packing = a_packing(Operand.FINE, 2 * lanes + 1, dtype)
    for place in (0, packing.weights.size - 1, packing.weights.size // 2, 7):
        kept = packing.weights.flat[place]
        packing.weights.flat[place] = value
        computed, finite = packing.compiled()
        expected, meant = packing.meant()
        packing.weights.flat[place] = kept

        np.testing.assert_array_equal(as_float64(computed), as_float64(expected))
        assert not finite
        assert not meant


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_largest_finite_weights_do_not_raise_the_flag(dtype: str) -> None:
    """Their sum would be infinite; each of them is not."""
    packing = a_packing(Operand.COARSE, 5, dtype)
    limits = ml_dtypes.finfo(packing.weights.dtype)  # type: ignore[no-untyped-call] # it has no types
    packing.weights[:] = limits.max
    packing.weights.flat[::2] = limits.smallest_subnormal

    assert packing.compiled()[1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_picked_weights_are_those_of_the_table(dtype: str) -> None:
    """In its order, as sums are kept; one that is not finite is noticed if it is picked."""
    made = Code()
    shape = KernelShape(dtype, host_machine().lanes(dtype), 2, (1,))
    name = made.add(emit_pick_weights(made.module, shape))
    weights = whole_numbers((40,), dtype, 1, most=100)
    weights[7] = np.inf
    sums = np.float64 if dtype == "float64" else np.float32
    for offsets in ([], [3], [5, 1, 1, 39, 0], [2, 7, 3]):
        target, flag = np.full(len(offsets) + 1, 99, sums), np.zeros(1, np.int64)
        record = list(plan_picking(offsets))
        for field, array in (("source", weights), ("target", target), ("flag", flag)):
            record[PICK_FIELDS[field]] = array.ctypes.data
        made.call(name, np.array(record), 0, 0)

        np.testing.assert_array_equal(target, [*as_float64(weights)[offsets], 99])
        assert flag[0] == (7 in offsets)
