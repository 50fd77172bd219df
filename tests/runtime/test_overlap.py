"""Products that are added up afterwards, on real arrays: exact, and the same in any company."""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

from strategies import a_problem, as_float64, whole_numbers
from tconv import engine, reference
from tconv.plan import Plan
from tconv.plan import overlap as overlap_plan
from tconv.plan.overlap import plan_overlap
from tconv.problem import DTYPES, Activation, Axis, Layout, Operand, Problem, numpy_dtype
from tconv.runtime.kernels import machine
from tconv.runtime.overlap import OverlapRunner
from tconv.threads import get_num_threads, set_num_threads

Array = npt.NDArray[Any]

LAYOUTS = {"NCX": "n {} x", "NXC": "n x {}"}


def a_layer(  # noqa: PLR0913 - a problem has many numbers
    axes: tuple[Axis, ...],
    channels: tuple[int, int] = (13, 2),
    *,
    wanted: Operand = Operand.FINE,
    batch: int = 2,
    groups: int = 1,
    dtype: str = "float32",
    layout: str = "NCX",
) -> Problem:
    """Return a problem with some axes; channels are read ones, and written ones."""
    coarse, fine = (Layout(LAYOUTS[layout].format(letter)) for letter in ("gc", "gf"))
    if wanted is Operand.COARSE:
        channels = channels[::-1]
    weights = Layout("gc f x")
    return Problem(wanted, batch, groups, *channels, axes, dtype, coarse, fine, weights)


def numbers(problem: Problem) -> list[Array]:
    """Return small whole numbers for both given arrays."""
    return [
        whole_numbers(problem.shape(operand), problem.dtype, seed)
        for seed, operand in enumerate(problem.given)
    ]


def multiplied(problem: Problem, data: Array, weights: Array, bias: Array | None = None) -> Array:
    """Run the kernel, whatever the planner would choose."""
    runner = OverlapRunner(problem, plan_overlap(problem, machine()))
    out = np.full(problem.shape(problem.wanted), 77, numpy_dtype(problem.dtype))
    runner.run(data, runner.pack(weights), bias, out)
    return out


def is_exact(problem: Problem) -> None:
    """Hold whole numbers against the definition."""
    data, weights = numbers(problem)
    written = problem.sizes["f" if problem.wanted is Operand.FINE else "c"]
    bias = whole_numbers((problem.groups * written,), problem.dtype, 5)
    found = multiplied(problem, data, weights, bias)

    expected = reference.answer(problem, data, weights, bias)
    np.testing.assert_array_equal(as_float64(found), expected)


@settings(deadline=None, max_examples=150)
@given(problem=a_problem())
def test_any_problem_is_exact(problem: Problem) -> None:
    """In every layout and type, with several groups, holes and crops."""
    problem = replace(problem, batch=max(problem.batch, 1))
    if problem.wanted is Operand.WEIGHTS:
        problem = replace(problem, wanted=Operand.COARSE)
    is_exact(problem)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("stride", [2, 3, 5])
def test_residues_of_a_stride_are_pictures_of_their_own(stride: int, layout: str) -> None:
    """Of any size: the last points of some are not there, and count as nothing."""
    for size in (1, 2, 15, 16, 17, 40):
        for more in range(stride):
            fine = stride * size + more
            axes = (Axis(7, 3, 3, 2, 1, 1), Axis(fine, size, 4, stride, 1, 1))
            is_exact(a_layer(axes, (17, 2), wanted=Operand.COARSE, layout=layout))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 5])
def test_lines_around_whole_vectors(stride: int, dtype: str, layout: str) -> None:
    """Of every phase, one less and one more: shuffled where there are enough, else not."""
    for size in (1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 41):
        axes = (Axis(4, 3, 3, 1, 1, 1), Axis(stride * size, size, 5, stride, 2, 3))
        for written in (1, 2, 3):
            is_exact(a_layer(axes, (5, written), dtype=dtype, layout=layout))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("taps", [1, 3, 4, 5, 6, 7, 10, 11, 12, 13])
def test_rows_around_whole_tiles(taps: int, layout: str) -> None:
    """One row to two tiles and one more; points around panels and work items."""
    for size in (1, 15, 16, 17, 63, 64, 65, 70):
        axes = (Axis(size + taps - 1, size, taps, 1, 1, 0),)
        is_exact(a_layer(axes, (9, 1), layout=layout))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
def test_rounds_blocks_and_chunks_change_nothing(wanted: Operand, layout: str) -> None:
    """Few images a round, few points a block and few rows a chunk: the same bits."""
    stride = 3 if wanted is Operand.FINE else 2
    axes = (Axis(13, 6, 3, stride, 2, 2), Axis(59, 57 // stride, 4, stride, 1, 1))
    problem = a_layer(axes, (21, 3), wanted=wanted, batch=5, layout=layout)
    random = np.random.default_rng(1)
    data, weights = (random.standard_normal(problem.shape(o), np.float32) for o in problem.given)
    expected = multiplied(problem, data, weights)
    size = 4 * overlap_plan.products_of(problem)
    for images, sums, items in ((1, 40, 500), (2, 4096, 500), (3, 100, 1)):
        limits: dict[str, Any] = {"ROUND": images * size, "MOST_SUMS": sums, "ITEMS": items}
        with patch.multiple(overlap_plan, **limits):
            np.testing.assert_array_equal(multiplied(problem, data, weights), expected)


def test_bits_do_not_depend_on_threads_or_company() -> None:
    """One thread or three, alone or in a batch, in rows that lie apart."""
    axes = (Axis(20, 9, 4, 2, 1, 0), Axis(33, 11, 5, 3, 2, 4))
    problem = a_layer(axes, (40, 3), batch=4)
    random = np.random.default_rng(2)
    data, weights = (random.standard_normal(problem.shape(o), np.float32) for o in problem.given)
    before = get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            set_num_threads(threads)
            found.append(multiplied(problem, data, weights))
    finally:
        set_num_threads(before)
    wide = np.zeros((4, 40, 9, 22), np.float32)
    wide[..., ::2] = data
    found.append(multiplied(problem, wide[..., ::2], weights))
    wide = np.zeros((4, 40, 12, 11), np.float32)
    wide[:, :, 1:10] = data
    found.append(multiplied(problem, wide[:, :, 1:10], weights))
    alone = replace(problem, batch=1)
    single = [multiplied(alone, data[n : n + 1], weights) for n in range(4)]
    found.append(np.concatenate(single))

    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_activation_comes_after_the_bias(layout: str) -> None:
    """Once for each output, those that no tap meets too."""
    axes = (Axis(9, 4, 2, 3, 1, 0), Axis(14, 5, 2, 3, 1, 0))
    plain = a_layer(axes, (6, 3), layout=layout)
    data, weights = numbers(plain)
    bias = np.array([-2, 0, 3], np.float32)
    expected = reference.answer(plain, data, weights, bias)
    problem = replace(plain, bias=True, activation=Activation("relu"))

    found = multiplied(problem, data, weights, bias)
    np.testing.assert_array_equal(found, np.maximum(expected, 0))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays_where_it_belongs(value: float) -> None:
    """Nothing is multiplied but what meets."""
    axes = (Axis(14, 6, 4, 2, 1, 0), Axis(15, 7, 3, 2, 1, 1))
    problem = a_layer(axes, (24, 2), dtype="float64")
    for spoilt in (0, 1):
        given = numbers(problem)
        given[spoilt].flat[7] = value
        with np.errstate(invalid="ignore"):
            expected = reference.answer(problem, given[0], given[1])
        run = engine.Executable(
            Plan(problem, "overlap", "", (), (), plan_overlap(problem, machine()))
        )
        found = run.run(given[0], run.pack(given[1]), None, None)

        np.testing.assert_array_equal(found, expected)
