"""Windows that reach far outside small pictures: what is left out adds nothing, exactly."""

from dataclasses import replace

import numpy as np
import pytest

from strategies import whole_numbers
from tconv import engine
from tconv.plan import gather as gather_plan
from tconv.problem import Axis, Layout, Operand, Problem, numpy_dtype
from tconv.runtime.panels import GatherRunner
from tconv.runtime.taps import TapRunner

AXES = {
    "one word": (Axis(4, 4, 5, 1, 1, 2), Axis(5, 5, 3, 1, 2, 2)),
    "several words": (Axis(3, 3, 5, 1, 1, 2), Axis(5, 5, 5, 1, 1, 2), Axis(7, 4, 5, 2, 1, 2)),
    "outer axes alone": (Axis(4, 4, 5, 1, 1, 2), Axis(12, 5, 4, 2, 1, 0)),
    "dilated and strided": (Axis(8, 5, 3, 3, 3, 4), Axis(9, 6, 3, 2, 3, 3)),
    "one long line": (Axis(9, 9, 7, 1, 1, 3),),
}


@pytest.mark.parametrize("axes", AXES.values(), ids=AXES)
@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE], ids=lambda o: o.name)
@pytest.mark.parametrize("layout", ["n g%s x", "n x g%s"])
@pytest.mark.parametrize("channels", [(1, 40, 24), (2, 17, 33), (1, 100, 16)])
def test_sums_are_exact(
    axes: tuple[Axis, ...], wanted: Operand, layout: str, channels: tuple[int, int, int]
) -> None:
    """Whatever the layout: read in place or packed, by wide panels and narrow ones."""
    layouts = Layout(layout % "c"), Layout(layout % "f"), Layout("gc f x")
    problem = Problem(wanted, 3, *channels, axes, "float32", *layouts)
    data, weights = (whole_numbers(problem.shape(given), "float32", 1) for given in problem.given)
    found, expected = (np.full(problem.shape(wanted), 77, np.float32) for _ in range(2))
    chosen = engine.executable(problem, "direct")
    chosen.run(data, chosen.pack(weights), None, found)
    taps = TapRunner(problem)
    taps.run(data, taps.pack(weights), None, expected)

    np.testing.assert_array_equal(found, expected)


def test_such_plans_leave_something_out() -> None:
    """Or the test above would show nothing."""
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    problem = Problem(Operand.COARSE, 1, 1, 40, 24, AXES["one word"], "float32", *layouts)
    recipe = engine.plan(problem, "direct").recipe

    assert isinstance(recipe, gather_plan.Gather)
    assert recipe.record[gather_plan.FIELDS["words"]] == 1


# Windows of few channels that mostly miss a picture: on all axes but the last.
FEW = Axis(3, 3, 5, 1, 1, 2), Axis(4, 4, 5, 1, 1, 2), Axis(14, 16, 5, 1, 1, 3)


@pytest.mark.parametrize("layout", ["n g%s x", "n x g%s"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("channels", [3, 5, 7])
def test_few_channels_leave_out_lines_of_taps(layout: str, dtype: str, channels: int) -> None:
    """The last axis has a border, too: what it reads outside the picture is zeros."""
    layouts = Layout(layout % "c"), Layout(layout % "f"), Layout("gc f x")
    problem = Problem(Operand.FINE, 3, 1, channels, 256, FEW, dtype, *layouts)
    machine = engine.machine()
    assert not isinstance(machine, str)
    recipe = gather_plan.plan_gather(problem, machine)
    assert recipe.record[gather_plan.FIELDS["words"]] > 0
    assert recipe.record[gather_plan.FIELDS["unpacked"]] == 0
    data, weights = (whole_numbers(problem.shape(given), dtype, 1) for given in problem.given)
    kind = numpy_dtype(dtype)
    found, expected = (np.full(problem.shape(Operand.FINE), 77, kind) for _ in range(2))
    run, taps = GatherRunner(problem, recipe), TapRunner(problem)
    run.run(data, run.pack(weights), None, found)
    taps.run(data, taps.pack(weights), None, expected)

    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("size", [5, 9, 14])
@pytest.mark.parametrize("batch", [2, 8])
def test_signs_of_zero_do_not_depend_on_the_batch(size: int, batch: int) -> None:
    """Which rows of a tile add zeros depends on their neighbours, and -0 + 0 is +0."""
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    axes = (Axis(size, size, 3, 1, 2, 2),) * 2
    many = Problem(Operand.COARSE, batch, 1, 32, 32, axes, "float32", *layouts, bias=True)
    weights = np.where(np.random.default_rng(0).random(many.shape(Operand.WEIGHTS)) < 0.01, 1, -1)
    bias, found = np.full(32, -0.0, np.float32), []
    for problem in (many, replace(many, batch=1)):
        out = np.empty(problem.shape(Operand.COARSE), np.float32)
        run = engine.executable(problem, "direct")
        packed = run.pack(weights.astype(np.float32))
        run.run(np.zeros(problem.shape(Operand.FINE), np.float32), packed, bias, out)
        found.append(np.signbit(out))

    assert (found[0] == found[1]).all()
