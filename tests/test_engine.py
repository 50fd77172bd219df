"""The engine against the definition, for any problem whatever."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import a_problem, an_axis, as_float64, whole_numbers
from tconv import engine, reference
from tconv.plan import TapProducts, choose_plan
from tconv.plan.machine import AVX2, SSE2
from tconv.problem import Axis, Layout, Operand, Problem, numpy_dtype
from tconv.runtime.taps import TapRunner

Array = npt.NDArray[Any]
Float64 = npt.NDArray[np.float64]


Runner = Callable[[Problem, Array, Array], Array]


def compiled(problem: Problem, first: Array, second: Array) -> Array:
    """Run what the engine chooses, compiled kernels where there are any."""
    run = engine.executable(problem)
    right = second if problem.wanted is Operand.WEIGHTS else run.pack(second)
    return run.run(first, right, None, None)


def portable(problem: Problem, first: Array, second: Array) -> Array:
    """Run one matrix product a tap."""
    run = TapRunner(problem)
    out = np.empty(problem.shape(problem.wanted), numpy_dtype(problem.dtype))
    run.run(first, second if problem.wanted is Operand.WEIGHTS else run.pack(second), None, out)
    return out


both = pytest.mark.parametrize("runner", [compiled, portable])


def computed(
    runner: Runner, problem: Problem, seed: int, *, most: int = 3
) -> tuple[Float64, Float64]:
    """Return a runner's answer and the definition's, on whole numbers."""
    first, second = (
        whole_numbers(problem.shape(operand), problem.dtype, seed + i, most)
        for i, operand in enumerate(problem.given)
    )
    result = runner(problem, first, second)
    assert result.dtype.name == problem.dtype
    assert result.shape == problem.shape(problem.wanted)
    return as_float64(result), reference.answer(problem, first, second)


@both
@settings(deadline=None, max_examples=300)
@given(problem=a_problem(dtypes=("float32", "float64")), seed=st.integers(0, 2**16))
def test_the_engine_gives_what_the_definition_says(
    runner: Runner, problem: Problem, seed: int
) -> None:
    """Whole numbers leave no rounding, so the two must be equal."""
    ours, theirs = computed(runner, problem, seed)

    np.testing.assert_array_equal(ours, theirs)


@both
@settings(deadline=None, max_examples=100)
@given(problem=a_problem(ranks=2, dtypes=("float16", "bfloat16")), seed=st.integers(0, 2**16))
def test_small_types_are_exact_on_whole_numbers(
    runner: Runner, problem: Problem, seed: int
) -> None:
    """With values in -1..1 every sum stays below 256, exact in both small types."""
    ours, theirs = computed(runner, problem, seed, most=1)

    np.testing.assert_array_equal(ours, theirs)


@both
@settings(deadline=None, max_examples=20)
@given(
    axes=st.lists(an_axis(most=2), min_size=4, max_size=5),
    wanted=st.sampled_from(list(Operand)),
    seed=st.integers(0, 2**16),
)
def test_four_and_five_spatial_axes_are_nothing_special(
    runner: Runner, axes: list[Axis], wanted: Operand, seed: int
) -> None:
    """No file counts axes."""
    axes = [
        Axis(min(a.fine_size, 2), a.coarse_size, min(a.taps, 2), a.stride, a.dilation, a.pad_begin)
        for a in axes
    ]
    problem = Problem(
        wanted, 1, 1, 2, 2, tuple(axes), "float32",
        Layout("n gc x"), Layout("n gf x"), Layout("gc f x"),
    )  # fmt: skip
    ours, theirs = computed(runner, problem, seed)

    np.testing.assert_array_equal(ours, theirs)


@settings(deadline=None, max_examples=200)
@given(problem=a_problem(dtypes=("float64",)), seed=st.integers(0, 2**16))
def test_the_trilinear_form_has_one_value(problem: Problem, seed: int) -> None:
    """``<coarse, gather> == <fine, scatter> == <weights, correlate>``, exactly."""
    arrays = {
        operand: whole_numbers(problem.shape(operand), "float64", seed + i)
        for i, operand in enumerate(Operand)
    }
    values = set()
    for wanted in Operand:
        asked = Problem(
            wanted, problem.batch, problem.groups, problem.coarse_channels, problem.fine_channels,
            problem.axes, "float64", problem.coarse_layout, problem.fine_layout,
            problem.weights_layout,
        )  # fmt: skip
        left, right = (arrays[operand] for operand in asked.given)
        result = as_float64(compiled(asked, left, right))
        values.add(float((result * as_float64(arrays[wanted])).sum()))

    assert len(values) == 1


@given(axis=an_axis(), tap=st.integers(0, 3))
def test_a_reach_is_exactly_the_points_that_meet(axis: Axis, tap: int) -> None:
    """The run of points that a plan uses is the relation's own."""
    reach = axis.reach(tap)
    listed = [
        (reach.coarse_start + k, reach.fine_start + k * axis.stride) for k in range(reach.count)
    ]
    met = [(c, axis.fine(c, tap)) for c in range(axis.coarse_size)]

    assert listed == [(c, f) for c, f in met if f is not None]


@given(axis=an_axis())
def test_meetings_counts_what_the_definition_visits(axis: Axis) -> None:
    """The flops that a plan prints are those of the definition."""
    visited = sum(1 for _ in reference.meetings((axis,)))

    assert axis.meetings() == visited


def test_the_plan_prints_what_runs_and_what_does_not() -> None:
    """A plan names its algorithm, the refused ones, its steps and its cost."""
    axis = Axis(8, 4, taps=4, stride=2, dilation=1, pad_begin=1)
    problem = Problem(
        Operand.FINE, 1, 1, 8, 16, (axis, axis), "float32",
        Layout("n gc x"), Layout("n gf x"), Layout("gc f x"),
    )  # fmt: skip
    text = str(engine.plan(problem))

    assert text.splitlines()[0] == str(problem)
    assert "chosen   phases" in text
    assert "refused  tap products" in text
    assert f"{problem.flops() / 1e6:.3f} MFLOP" in text
    assert problem.flops() == 2 * 8 * 16 * math.prod([axis.meetings()] * 2)


@both
@pytest.mark.parametrize("wanted", list(Operand))
def test_infinities_stay_where_the_definition_puts_them(runner: Runner, wanted: Operand) -> None:
    """A dropped term must not turn into NaN: zero times infinity is never computed."""
    axis = Axis(fine_size=5, coarse_size=3, taps=3, stride=2, dilation=1, pad_begin=1)
    problem = Problem(
        wanted, 2, 1, 2, 2, (axis,), "float32",
        Layout("n gc x"), Layout("n gf x"), Layout("gc f x"),
    )  # fmt: skip
    first, second = (
        whole_numbers(problem.shape(operand), "float32", i)
        for i, operand in enumerate(problem.given)
    )
    first.flat[0], second.flat[0], second.flat[-1] = np.inf, np.nan, -np.inf

    np.testing.assert_array_equal(
        as_float64(runner(problem, first, second)), reference.answer(problem, first, second)
    )


@pytest.mark.parametrize("wanted", list(Operand))
def test_float16_is_refused_where_no_instruction_converts_it(wanted: Operand) -> None:
    """The plan says why NumPy runs; bfloat16 needs no instruction of its own."""
    axis = Axis(8, 4, taps=4, stride=2, dilation=1, pad_begin=1)
    for dtype, compiled_here in (("float16", False), ("bfloat16", True)):
        problem = Problem(
            wanted, 1, 1, 16, 8, (axis, axis), dtype,
            Layout("n gc x"), Layout("n gf x"), Layout("gc f x"),
        )  # fmt: skip
        plan = choose_plan(problem, SSE2, "")

        assert isinstance(plan.recipe, TapProducts) is not compiled_here
        assert ("this CPU has no instruction that converts float16" in str(plan)) is not (
            compiled_here
        )
        assert not isinstance(choose_plan(problem, AVX2, "").recipe, TapProducts)
