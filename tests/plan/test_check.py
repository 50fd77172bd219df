"""Plans hold what kernels trust them with."""

import math
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plan.correlations import CASES, plan_of
from plan.plans import (
    MACHINES,
    TINY,
    Form,
    a_correlation,
    a_layer,
    checked,
    numbers,
    plans,
)
from strategies import a_problem
from tconv.bench.suite import Layer, load_suite
from tconv.plan import (
    Correlate,
    Gather,
    Planes,
    Spread,
    Strips,
    TapProducts,
    choose_plan,
    tap_products,
)
from tconv.plan.correlate import plan_correlate
from tconv.plan.machine import AVX2, Machine
from tconv.problem import Axis, Operand, Problem

every_result = pytest.mark.parametrize("wanted", list(Operand))


@settings(deadline=None, max_examples=250)
@given(problem=a_problem(ranks=3), machine=st.sampled_from(MACHINES))
def test_every_plan_passes(problem: Problem, machine: Machine) -> None:
    """Every output once, every address in its array, every meeting the relation's."""
    for plan in plans(replace(problem, batch=max(problem.batch, 1)), machine):
        checked(plan, machine)


@settings(deadline=None, max_examples=15)
@given(
    problem=a_problem(ranks=4, dtypes=("float32",)),
    channels=st.integers(1, 40),
    machine=st.sampled_from(MACHINES),
)
def test_four_axes_and_many_channels_pass_too(
    problem: Problem, channels: int, machine: Machine
) -> None:
    """Several panels, the last of them narrow or not, on any number of axes."""
    problem = replace(problem, batch=1, coarse_channels=channels, fine_channels=41 - channels)
    for plan in plans(problem, machine):
        checked(plan, machine)


@settings(deadline=None, max_examples=250)
@given(drawn=a_correlation())
def test_correlations_pass_however_they_are_split(drawn: tuple[Problem, Machine, Form]) -> None:
    """Tables are right for any sides, pieces and chunks, not only for those that cost least."""
    problem, machine, form = drawn

    checked(form.plan(problem, machine), machine)


@pytest.mark.parametrize("case", CASES)
def test_every_form_of_a_correlation_passes(case: str) -> None:
    """Each is what it is called, and right."""
    found = numbers(checked(plan_of(case), CASES[case].machine))

    assert {name: found[name] for name in CASES[case].numbers} == CASES[case].numbers


@every_result
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 8, 9, 16, 17, 24, 25, 100])
@pytest.mark.parametrize("other", [1, 18])
def test_channels_around_the_panel_pass(wanted: Operand, channels: int, other: int) -> None:
    """Eight lanes and two vectors: panels are full, narrow, or wide with a rest."""
    for problem in (a_layer(wanted, channels, other), a_layer(wanted, other, channels)):
        for plan in plans(problem, TINY[2]):
            checked(plan, TINY[2])


@pytest.mark.parametrize("groups", [1, 4, 5, 16, 17, 33])
@pytest.mark.parametrize("wanted", [Operand.COARSE, Operand.FINE])
def test_depthwise_planes_and_strips_pass(wanted: Operand, groups: int) -> None:
    """Groups fill a chunk, leave a rest of one, or are fewer than a chunk."""
    problem = replace(a_layer(wanted, 1, 1), groups=groups)
    for machine in (AVX2, TINY[1]):
        _, planes, strips = (checked(plan, machine) for plan in plans(problem, machine))

        assert isinstance(planes.recipe, Planes)
        assert isinstance(strips.recipe, Strips)


# Checking these is a matter of a moment.
FEW_POINTS = [layer for layer in load_suite() if math.prod(layer.output_spatial) < 4000]


@pytest.mark.parametrize("layer", FEW_POINTS, ids=lambda layer: layer.name)
@every_result
def test_real_layers_pass(layer: Layer, wanted: Operand) -> None:
    """Hundreds of channels, blocks as large as real caches allow."""
    for plan in plans(replace(layer.problem(wanted), batch=min(layer.batch, 2)), AVX2):
        checked(plan, AVX2)


def test_what_numpy_runs_has_nothing_to_check() -> None:
    """A plan without tables passes."""
    problem = a_layer(Operand.FINE)
    plan = replace(next(plans(problem, AVX2)), recipe=tap_products(problem))

    checked(plan, AVX2)


@pytest.mark.parametrize("layer", load_suite(), ids=lambda layer: layer.name)
@every_result
def test_planning_a_layer_of_the_suite_takes_no_time_and_no_room(
    layer: Layer, wanted: Operand
) -> None:
    """1 ms for an ordinary layer (5 here: machines are noisy), and no table of points.

    Windows of hundreds of taps are not ordinary.
    """
    problem = layer.problem(wanted)
    times = []
    for _ in range(9):
        start = time.thread_time()
        plan = next(plans(problem, AVX2))
        times.append(time.thread_time() - start)
    milliseconds = 1e3 * min(times)
    print(f"{layer.name} {wanted.name}: planned in {milliseconds:.3f} ms")  # noqa: T201 - asked for

    assert isinstance(plan.recipe, Gather | Correlate)
    assert len(plan.recipe.record) <= most_numbers(problem)
    if len(layer.spatial) == 2 and math.prod(layer.kernel) < 100:
        assert milliseconds < 5


def most_numbers(problem: Problem) -> int:
    """Return how long a record may be: some numbers for each tap and for each coordinate.

    Correlations have one for each row of their tiles too: a channel, and maybe a tap.
    """
    extents = sum(axis.fine_size + axis.coarse_size for axis in problem.axes)
    taps = math.prod(axis.taps for axis in problem.axes)
    rows = max(problem.coarse_channels, taps * problem.fine_channels)
    return 150 + 20 * len(problem.axes) + 8 * (extents + taps) + rows


@pytest.mark.parametrize("wanted", [Operand.COARSE, Operand.FINE])
def test_a_larger_picture_has_no_larger_record(wanted: Operand) -> None:
    """Tables know taps and phases; points are counted by kernels."""
    sizes = {len(record(wanted, points)) for points in (8, 64, 4096)}

    assert len(sizes) == 1


def test_a_correlation_of_a_larger_picture_knows_one_line_of_it() -> None:
    """Where the points of one line go, on both sides; lines are counted by kernels."""
    smallest = len(record(Operand.WEIGHTS, 8))
    for points in (64, 512):
        assert len(record(Operand.WEIGHTS, points)) - smallest <= 8 * points


def record(wanted: Operand, points: int) -> tuple[int, ...]:
    """Return the record for a square picture of so many coarse points each way."""
    axes = tuple(Axis(2 * points, points, 4, 2, 1, 1) for _ in range(2))
    recipe = next(plans(replace(a_layer(wanted), axes=axes), AVX2)).recipe
    assert isinstance(recipe, Gather | Correlate)
    return recipe.record


@every_result
def test_a_long_stride_needs_no_table_of_its_square(wanted: Operand) -> None:
    """Most phases of a stride far above the window are empty: then none are listed."""
    axes = tuple(Axis(202, 3, 2, 100, 1, 0) for _ in range(2))
    problem = replace(a_layer(wanted), axes=axes)
    recipe = choose_plan(problem, AVX2, "").recipe

    if isinstance(recipe, Spread):
        records = [variant.record for variant in recipe.variants]
        assert sum(map(len, records)) <= most_numbers(problem)
    else:
        assert isinstance(recipe, TapProducts) or len(recipe.record) <= most_numbers(problem)


def test_few_fine_channels_make_sides_change_places() -> None:
    """Forms above are made by hand; here the plan decides."""
    few, many = (a_layer(Operand.WEIGHTS, 36, fine) for fine in (2, 32))

    assert plan_correlate(few, AVX2).swapped
    assert not plan_correlate(many, AVX2).swapped
