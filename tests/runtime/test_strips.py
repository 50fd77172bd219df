"""Strips on real arrays: any layout, any caches, the same bits for any threads and company."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tconv
from runtime.machines import caches
from strategies import DATA, WEIGHTS, an_axis, as_float64, whole_numbers
from tconv import engine, reference
from tconv.plan.machine import Machine
from tconv.plan.strips import Strips, plan_strips
from tconv.problem import DTYPES, Activation, Axis, Layout, Operand, Problem, numpy_dtype
from tconv.runtime import kernels
from tconv.runtime.strips import StripsRunner
from tconv.threads import set_num_threads

Array = npt.NDArray[Any]

LANES = kernels.machine().lanes("float32")
LINES = Layout("n gc x"), Layout("n gf x"), Layout("gc f x")
GUARD = 99
both_ways = pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])


def arrays_of(problem: Problem, seed: int = 0) -> tuple[Array, Array]:
    """Return whole numbers for both given operands."""
    first, second = (
        whole_numbers(problem.shape(operand), problem.dtype, seed + i)
        for i, operand in enumerate(problem.given)
    )
    return first, second


def check(problem: Problem, machine: Machine | None = None, seed: int = 0) -> None:
    """Hold strips against the definition, in the middle of larger arrays that must not change."""
    data, weights = arrays_of(problem, seed)
    runner = StripsRunner(problem, plan_strips(problem, machine or kernels.machine()))
    around = np.full([n + 2 for n in problem.shape(problem.wanted)], GUARD, data.dtype)
    out = around[(slice(1, -1),) * around.ndim]
    larger = np.full([n + 2 for n in data.shape], np.nan, data.dtype)
    inside = larger[(slice(1, -1),) * larger.ndim]
    inside[...] = data
    right = reference.answer(problem, data, weights).astype(data.dtype)
    for given_data, target in ((data, np.empty_like(out)), (inside, out)):
        runner.run(given_data, runner.pack(weights), None, target)

        np.testing.assert_array_equal(as_float64(target), as_float64(right), str(problem))
    out[...] = GUARD
    assert (as_float64(around) == GUARD).all()


@st.composite
def a_strip_problem(draw: st.DrawFn) -> Problem:
    """Draw a problem with some groups of few channels, mostly lines side by side."""
    layouts = draw(st.sampled_from(DATA)), draw(st.sampled_from(DATA))
    if draw(st.booleans()):
        layouts = "n gX x", "n gX x"
    return Problem(
        draw(st.sampled_from([Operand.FINE, Operand.COARSE])),
        batch=draw(st.integers(1, 3)),
        groups=draw(st.sampled_from((1, 2, 3, 9))),
        coarse_channels=draw(st.sampled_from((1, 1, 1, 2, 3))),
        fine_channels=draw(st.sampled_from((1, 1, 1, 2))),
        axes=tuple(draw(st.lists(an_axis(most=9), min_size=1, max_size=3))),
        dtype=draw(st.sampled_from(DTYPES)),
        coarse_layout=Layout(layouts[0].replace("X", "c")),
        fine_layout=Layout(layouts[1].replace("X", "f")),
        weights_layout=Layout(draw(st.sampled_from(WEIGHTS))),
    )


@settings(deadline=None, max_examples=300)
@given(
    problem=a_strip_problem(),
    size=st.sampled_from([(1, 1), (300, 900), (2_000, 9_000), (32_768, 524_288)]),
    seed=st.integers(0, 99),
)
def test_any_layer_is_what_the_definition_says(
    problem: Problem, size: tuple[int, int], seed: int
) -> None:
    """With caches of one byte and more: any blocks, residues, phases and chunks of groups."""
    check(problem, caches(*size), seed)


WINDOWS = [(3, 1, 1, 1), (5, 1, 1, 2), (3, 1, 2, 2), (3, 2, 1, 1), (4, 2, 1, 1), (6, 3, 1, 2),
           (3, 2, 3, 3), (8, 4, 1, 2), (5, 5, 1, 0), (12, 6, 1, 3), (16, 8, 1, 4), (11, 1, 1, 0),
           (7, 2, 2, 5), (2, 3, 1, 0), (1, 1, 1, 0)]  # fmt: skip


@both_ways
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_lines_around_the_tile_are_right(
    wanted: Operand, window: tuple[int, int, int, int]
) -> None:
    """One point and one line less, as many as and one more than tiles have; half of a vector."""
    taps, stride, dilation, pad = window
    several = (1, 2, 3, 4, 5, 7, 8, 9, 12, 17)
    lengths = (1, 3, 4, LANES - 1, LANES, LANES + 1, 2 * LANES + 3, 8 * LANES + 1)
    for (lines, length), extra in product(
        [(lines, LANES + 3) for lines in several] + [(9, length) for length in lengths], (0, 1)
    ):
        axes = []
        for size in (lines, length):
            fine = stride * (size - 1) + dilation * (taps - 1) + 1 - 2 * pad
            fine += extra * (stride - 1)
            axes.append(Axis(max(fine, 1), size, taps, stride, dilation, pad))
        check(Problem(wanted, 2, 3, 1, 1, tuple(axes), "float32", *LINES), seed=lines)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [2, 3, 4, 5, 6, 8])
def test_the_last_point_may_lack_any_phases(stride: int, dtype: str) -> None:
    """More of them than a vector has lanes, too: nothing is written behind a line."""
    lanes = kernels.machine().lanes(dtype)
    for lacking, points in product(range(stride), (lanes - 1, lanes, 2 * lanes + 1)):
        last = Axis(stride * points - lacking, points, 2 * stride, stride, 1, stride // 2)
        for first in (Axis(3, 3, 1, 1, 1, 0), Axis(10, 5, 4, 2, 1, 1)):
            check(Problem(Operand.FINE, 1, 2, 1, 1, (first, last), dtype, *LINES), seed=lacking)


@both_ways
def test_the_sign_of_a_zero_does_not_depend_on_strides(wanted: Operand) -> None:
    """Products that are too small are zeros with signs; what is stored later keeps those."""
    axes = Axis(16, 16, 3, 1, 1, 1), Axis(16, 16, 3, 1, 1, 1)
    for problem in (
        Problem(wanted, 1, 2, 1, 1, axes, "float32", *LINES),
        Problem(wanted, 1, 1, 1, 2, axes, "float32", *LINES),
    ):
        run = engine.executable(problem)
        data, weights = (np.full(problem.shape(o), 1e-30, "f4") for o in problem.given)
        found = []
        for step in (1, 2):
            *outer, last = problem.shape(wanted)
            out = np.empty((*outer, step * last), "f4")[..., ::step]
            run.run(-data, run.pack(weights), None, out)
            found.append(np.signbit(out))

        assert found[0].any()
        assert (found[0] == found[1]).all()


@both_ways
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_activation_is_applied_before_rounding(wanted: Operand, dtype: str) -> None:
    """To lines that are mixed and to others, once."""
    leaky = Activation("leaky_relu", 0.25)
    for last in (Axis(26, 13, 4, 2, 1, 1), Axis(11, 11, 3, 1, 1, 1), Axis(35, 7, 5, 5, 1, 0)):
        axes = Axis(11, 11, 3, 1, 1, 1), last
        check(Problem(wanted, 2, 5, 1, 1, axes, dtype, *LINES, activation=leaky))
        check(Problem(wanted, 2, 5, 1, 1, axes, dtype, *LINES))


@both_ways
def test_one_axis_has_images_as_lines(wanted: Operand) -> None:
    """Short lines of many images together, long ones each for itself."""
    for images, size in product((1, 4, 9, 70), (5, 40, 700)):
        axes = (Axis(2 * size, size, 4, 2, 1, 1),)
        check(Problem(wanted, images, 3, 1, 1, axes, "float32", *LINES))


@both_ways
def test_threads_and_batches_do_not_change_a_bit(wanted: Operand) -> None:
    """Of a layer that is worth several work items, and of its images alone."""
    axes = Axis(64, 32, 4, 2, 1, 1), Axis(66, 33, 4, 2, 1, 1)
    problem = Problem(wanted, 4, 37, 1, 1, axes, "float32", *LINES)
    draw = np.random.default_rng(0)
    data, weights = (draw.standard_normal(problem.shape(o)).astype("f4") for o in problem.given)
    run = engine.executable(problem)
    alone = engine.executable(replace(problem, batch=1))
    assert isinstance(run.plan.recipe, Strips)
    found = []
    for threads in (1, 2, 3):
        set_num_threads(threads)
        out = np.empty(problem.shape(wanted), numpy_dtype("float32"))
        run.run(data, run.pack(weights), None, out)
        found.append(out)
    single = [np.empty((1, *out.shape[1:]), "float32") for _ in range(4)]
    for image, into in enumerate(single):
        alone.run(data[image : image + 1], alone.pack(weights), None, into)

    assert all((each == found[0]).all() for each in found)
    assert (np.concatenate(single) == found[0]).all()


@both_ways
def test_infinite_data_stays_where_it_belongs(wanted: Operand) -> None:
    """No vector that reads past a line's end lets a NaN into another point."""
    length = LANES - 1
    axes = Axis(9, 9, 3, 1, 1, 1), Axis(length, length, 3, 1, 1, 1)
    problem = Problem(wanted, 1, 4, 1, 1, axes, "float32", *LINES)
    data, weights = arrays_of(problem)
    data[0, 1, 4, length - 1], data[0, 2, 0, 0] = np.inf, np.nan
    run = engine.executable(problem)
    assert isinstance(run.plan.recipe, Strips)
    out = np.empty(problem.shape(wanted), "float32")
    run.run(data, run.pack(weights), None, out)

    with np.errstate(invalid="ignore"):
        expected = reference.answer(problem, data, weights)
    np.testing.assert_array_equal(out, expected)


def test_plans_say_what_they_do() -> None:
    """And that other algorithms would turn points first."""
    op = tconv.onnx.ConvTranspose(strides=[2, 2], pads=[1, 1, 1, 1], group=8)
    printed = str(op.plan((1, 8, 14, 2 * LANES - 2), (8, 1, 4, 4)))

    assert "strips" in printed
    assert "would turn every channel's points" in printed
