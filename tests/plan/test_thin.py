"""Fine points that no window reads: left out, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import whole_numbers
from tconv import engine, reference
from tconv.plan import Winograd, choose_plan, thinned
from tconv.plan.check import check_plan
from tconv.plan.machine import AVX2
from tconv.plan.thin import thin_axis
from tconv.plan.tiles import tile_rows
from tconv.problem import Axis, Layout, Operand, Problem, window

AXES = {
    "1x1": Axis(fine_size=10, coarse_size=5, taps=1, stride=2, dilation=1, pad_begin=0),
    "1x1, padded": Axis(fine_size=10, coarse_size=6, taps=1, stride=3, dilation=1, pad_begin=4),
    "alike": Axis(fine_size=23, coarse_size=11, taps=3, stride=2, dilation=2, pad_begin=1),
    "divisor": Axis(fine_size=40, coarse_size=6, taps=3, stride=6, dilation=4, pad_begin=3),
    "one point": Axis(fine_size=9, coarse_size=1, taps=3, stride=5, dilation=3, pad_begin=1),
}


def problem_of(axes: tuple[Axis, ...], layout: str, wanted: Operand = Operand.COARSE) -> Problem:
    """Return a question with 24 channels to 16."""
    layouts = Layout(layout.format("gc")), Layout(layout.format("gf")), Layout("gc f x")
    return Problem(wanted, 2, 1, 16, 24, axes, "float32", *layouts)


@given(
    st.integers(1, 30), st.integers(1, 6), st.integers(1, 4), st.integers(1, 6),
    st.integers(1, 6), st.integers(0, 7),
)  # fmt: skip
def test_points_and_taps_meet_where_they_met(  # noqa: PLR0913 - the numbers of an axis
    fine: int, coarse: int, taps: int, stride: int, dilation: int, pad: int
) -> None:
    """Each fine point of the smaller axis is one of the larger, and none is missed."""
    axis = Axis(fine, coarse, taps, stride, dilation, pad)
    thin, start, step = thin_axis(axis)

    for point in range(coarse):
        for tap in range(taps):
            met = thin.fine(point, tap)
            assert axis.fine(point, tap) == (None if met is None else start + step * met)
    assert start + step * (thin.fine_size - 1) < fine


@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.WEIGHTS])
def test_only_coarse_reads_a_view(wanted: Operand) -> None:
    """FINE writes every point."""
    assert thinned(problem_of((AXES["alike"],), "n x {}", wanted)) is None


def test_an_ordinary_window_meets_everything() -> None:
    """Taps side by side leave nothing out, whatever the stride."""
    axis = Axis(fine_size=10, coarse_size=5, taps=3, stride=2, dilation=1, pad_begin=1)

    assert thinned(problem_of((axis, axis), "n x {}")) is None


@pytest.mark.parametrize("layout", ["n x {}", "n {} x", "x n {}"])
@pytest.mark.parametrize("name", AXES)
def test_results_are_those_of_the_whole_problem(name: str, layout: str) -> None:
    """Whole numbers, so every bit; given as an array, and as an address."""
    ordinary = Axis(fine_size=7, coarse_size=7, taps=3, stride=1, dilation=1, pad_begin=1)
    problem = problem_of((ordinary, AXES[name]), layout)
    data, weights = (
        whole_numbers(problem.shape(operand), "float32", seed)
        for seed, operand in enumerate(problem.given)
    )
    expected = reference.answer(problem, data, weights).astype(np.float32)
    run = engine.executable(problem, "direct")
    packed = run.pack(weights)

    assert run.plan.thin is not None
    assert np.array_equal(run.run(data, packed, None, None), expected)
    launch = run.launch(data.strides, expected.strides, weights.strides)
    assert launch is not None
    found, bias = np.empty_like(expected), run.padded_bias(None)
    launch(data.ctypes.data, found.ctypes.data, packed.address, bias.ctypes.data)  # type: ignore[attr-defined]
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("name", AXES)
def test_what_is_planned_reads_inside_the_view(name: str) -> None:
    """The check of plans looks at what the recipe solves."""
    problem = problem_of((AXES[name], AXES[name]), "n x {}")
    thin = thinned(problem)
    assert thin is not None
    plan = replace(choose_plan(thin.problem, AVX2, "", "direct"), problem=problem, thin=thin)

    check_plan(plan, tile_rows=tile_rows(AVX2))
    assert f"one of {' x '.join(map(str, thin.steps))} fine points" in str(plan)


def test_a_dilated_window_of_the_same_stride_can_be_transformed() -> None:
    """What is left of it is a 3x3 window of stride 1."""
    axis = Axis(61, 30, taps=3, stride=2, dilation=2, pad_begin=2)
    assert window(3, 2) == 5
    problem = replace(problem_of((axis, axis), "n x {}"), coarse_channels=64, fine_channels=64)
    thin = thinned(problem)
    assert thin is not None

    recipe = choose_plan(thin.problem, AVX2, "", bound=True).recipe

    assert isinstance(recipe, Winograd)
    assert {form.outputs for form in recipe.forms} <= {2, 3, 4}
