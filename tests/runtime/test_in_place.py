"""Gathers that read their source where it lies, and sums made in parts: equal to the definition."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from strategies import whole_numbers
from tconv.plan.cells import plan_cells
from tconv.plan.gather import FIELDS, plan_gather
from tconv.plan.in_place import segments_in_place
from tconv.problem import Axis, Layout, Operand, Problem
from tconv.runtime.kernels import machine
from tconv.runtime.panels import CellsRunner, GatherRunner
from tconv.runtime.taps import TapRunner

Array = npt.NDArray[Any]

FULL, LONG = Axis(14, 7, 2, 2, 1, 0), Axis(6001, 3000, 5, 2, 1, 1)
# Channels of a group (coarse, fine), groups, axes: no padding, padding at both ends of many
# blocks, overlapping windows, dilation, lines that follow each other in memory, a panel for a
# single tile, a depth that is summed in parts for several panels.
LAYERS = {
    "no padding": (40, 33, 1, (FULL, FULL)),
    "volume": (18, 48, 1, (FULL, FULL, FULL)),
    "many blocks": (24, 40, 1, (LONG,)),
    "overlapping": (17, 48, 1, (Axis(60, 58, 3, 1, 1, 0), Axis(61, 57, 3, 1, 2, 0))),
    "apart": (20, 20, 1, (Axis(118, 40, 1, 3, 1, 0), Axis(59, 20, 2, 3, 1, 0))),
    "groups": (20, 24, 3, (FULL, LONG)),
    "short lines": (24, 40, 1, (Axis(13, 13, 1, 1, 1, 0), Axis(5, 5, 1, 1, 1, 0))),
    "short lines, padded": (20, 24, 1, (Axis(9, 9, 3, 1, 1, 1), Axis(5, 5, 3, 1, 1, 1))),
    "short lines of volumes": (20, 7, 2, (Axis(6, 5, 2, 1, 1, 0), *[Axis(5, 5, 1, 1, 1, 0)] * 2)),
    "one tile": (40, 700, 1, (Axis(4, 2, 4, 2, 1, 1), Axis(4, 2, 4, 2, 1, 1))),
    "one tile and a row": (40, 700, 1, (Axis(7, 7, 3, 1, 1, 1), Axis(1, 1, 3, 1, 1, 1))),
    "deep": (700, 40, 1, (Axis(9, 9, 3, 1, 1, 1), Axis(7, 7, 1, 1, 1, 0))),
    "deep the other way": (40, 700, 1, (Axis(9, 9, 3, 1, 1, 1), Axis(7, 7, 1, 1, 1, 0))),
}
WANTED = (Operand.FINE, Operand.COARSE)


def problem_of(name: str, wanted: Operand, layout: str, dtype: str = "float32") -> Problem:
    """Return a layer as a question."""
    coarse, fine, groups, axes = LAYERS[name]
    return Problem(
        wanted, 2, groups, coarse, fine, axes, dtype,
        Layout(layout % "gc"), Layout(layout % "gf"), Layout("gc f x"),
    )  # fmt: skip


def computed(problem: Problem, data: Array, weights: Array) -> Array:
    """Run a gather, whatever else the planner would choose."""
    runner = GatherRunner(problem, plan_gather(problem, machine()))
    out = np.full(problem.shape(problem.wanted), 99, data.dtype)
    runner.run(data, runner.pack(weights), None, out)
    return out


def expected(problem: Problem, data: Array, weights: Array) -> Array:
    """Run NumPy's products."""
    runner = TapRunner(problem)
    out = np.empty(problem.shape(problem.wanted), data.dtype)
    runner.run(data, runner.pack(weights), None, out)
    return out


def operands(problem: Problem) -> tuple[Array, Array]:
    """Return data and weights of whole numbers."""
    first, second = problem.given
    data = whole_numbers(problem.shape(first), problem.dtype, 1)
    return data, whole_numbers(problem.shape(second), problem.dtype, 2)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("layout", ["n x %s", "n %s x"])
@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("name", LAYERS)
def test_a_gather_equals_the_definition(
    name: str, wanted: Operand, layout: str, dtype: str
) -> None:
    """Read in place or packed, in one part or several, stored directly or turned."""
    problem = problem_of(name, wanted, layout, dtype)
    data, weights = operands(problem)

    np.testing.assert_array_equal(
        computed(problem, data, weights), expected(problem, data, weights)
    )


@pytest.mark.parametrize("layout", ["n x %s", "n %s x"])
@pytest.mark.parametrize("name", ["no padding", "volume", "many blocks", "overlapping", "groups"])
def test_cells_equal_the_definition(name: str, layout: str) -> None:
    """They read in place as gathers do."""
    problem = problem_of(name, Operand.FINE, layout)
    data, weights = operands(problem)
    runner = CellsRunner(problem, plan_cells(problem, machine()))
    out = np.full(problem.shape(problem.wanted), 99, data.dtype)
    runner.run(data, runner.pack(weights), None, out)

    np.testing.assert_array_equal(out, expected(problem, data, weights))


@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("name", LAYERS)
def test_channels_of_a_wider_array_are_read_as_well(name: str, wanted: Operand) -> None:
    """Points then lie further apart than their channels reach; lines may run backwards."""
    problem = problem_of(name, wanted, "n x %s")
    data, weights = operands(problem)
    wide = np.full((*data.shape[:-1], data.shape[-1] + 3), 99, data.dtype)
    wide[..., :-3] = data
    backwards = np.ascontiguousarray(data[:, ::-1])[:, ::-1]
    due = expected(problem, data, weights)

    np.testing.assert_array_equal(computed(problem, wide[..., :-3], weights), due)
    np.testing.assert_array_equal(computed(problem, backwards, weights), due)


@pytest.mark.parametrize("layout", ["n x %s", "n %s x"])
@pytest.mark.parametrize("name", ["deep", "many blocks"])
def test_data_that_changed_between_calls_is_packed_again(name: str, layout: str) -> None:
    """Even if it lies where it lay, and nothing else ran in between."""
    problem = problem_of(name, Operand.COARSE, layout)
    data, weights = operands(problem)
    runner = GatherRunner(problem, plan_gather(problem, machine()))
    packed = runner.pack(weights)
    out = np.empty(problem.shape(problem.wanted), data.dtype)
    for turn in range(3):
        data += turn
        runner.run(data, packed, None, out)

        np.testing.assert_array_equal(out, expected(problem, data, weights), f"turn {turn}")


@pytest.mark.parametrize(
    ("layout", "dtype", "due"),
    [("n x %s", "float32", 1), ("n %s x", "float32", 0), ("n x %s", "bfloat16", 0)],
)
def test_only_channels_side_by_side_are_read_in_place(layout: str, dtype: str, due: int) -> None:
    """And only as they are multiplied: others are turned, or widened, when they are packed."""
    problem = problem_of("no padding", Operand.FINE, layout, dtype)
    data, _ = operands(problem)
    runner = GatherRunner(problem, plan_gather(problem, machine()))
    out = np.empty(problem.shape(problem.wanted), data.dtype)

    assert runner.strided(data.strides, out.strides)[FIELDS["in_place"]] == due


def test_segments_are_found_by_their_axes() -> None:
    """In a region of 3 x 4 points of 5 channels, and in an array of other lines."""
    region = np.arange(60).reshape(3, 4, 5)[:, :, 0].ravel().tolist()

    assert segments_in_place(region, (20, 5), (700, 6)) == [
        700 * y + 6 * x for y in range(3) for x in range(4)
    ]
