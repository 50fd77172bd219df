"""Results that no cache should keep: whole lines are written past all of them."""

from dataclasses import replace

import numpy as np
import pytest

from strategies import whole_numbers
from tconv import engine
from tconv.plan.correlate import STREAM as STREAM_WEIGHTS
from tconv.plan.correlate import Correlate
from tconv.plan.gather import FIELDS, STREAM, plan_gather
from tconv.problem import Axis, Layout, Operand, Problem
from tconv.runtime.panels import GatherRunner
from tconv.runtime.taps import TapRunner


def layer(channels: int, size: int, stride: int = 1, dtype: str = "float32") -> Problem:
    """Return a layer of 1x1 windows with a large result."""
    axis = Axis(stride * (size - 1) + 1, size, 1, stride, 1, 0)
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    return Problem(Operand.FINE, 1, 1, 3, channels, (axis, axis), dtype, *layouts)


def lines(channels: int, groups: int = 1) -> Problem:
    """Return a layer of few terms along long lines, with a large result."""
    axis = Axis(300, 300, 3, 1, 1, 1)
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    return Problem(Operand.COARSE, 1, groups, channels, 1, (axis, axis), "float32", *layouts)


LARGE = {
    "terms along lines": lines(64),
    "a narrow panel along lines": lines(48),
    "points that are no whole lines": lines(100),
    "points that are no whole vectors": lines(52),
    "groups that share lines": lines(12, 4),
    "whole lines": layer(64, 270),
    "phases without taps": layer(32, 190, 2),
    "a narrow panel": layer(48 + 8, 290),  # lines that two points share
    "float64": layer(40, 240, dtype="float64"),
}


@pytest.mark.parametrize(("groups", "channels"), [(1, 12), (1, 24), (4, 20)])
@pytest.mark.parametrize("step", [1, 2])
def test_lines_without_taps_leave_other_channels_alone(
    groups: int, channels: int, step: int
) -> None:
    """Channels of a view that are no whole vectors, or do not lie side by side."""
    axis = Axis(24, 12, 1, 2, 1, 0)
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    problem = Problem(Operand.FINE, 1, groups, 40, channels, (axis, axis), "float32", *layouts)
    machine = engine.machine()
    assert not isinstance(machine, str)
    recipe = plan_gather(problem, replace(machine, l3=1 << 16))
    assert recipe.record[FIELDS["stream"]] == 1
    data, weights = (whole_numbers(problem.shape(given), "float32", 3) for given in problem.given)
    width = (-(-step * groups * channels // 16) + 1) * 16  # points begin with cache lines
    size = 24 * 24 * width
    room = np.full(size + 16, 77, np.float32)
    begin = -room.ctypes.data % 64 // 4
    whole = room[begin : begin + size].reshape(1, 24, 24, width)
    out = whole[..., : step * groups * channels : step]
    run = GatherRunner(problem, recipe)
    run.run(data, run.pack(weights), None, out)
    taps, expected = TapRunner(problem), np.empty(out.shape, np.float32)
    taps.run(data, taps.pack(weights), None, expected)

    np.testing.assert_array_equal(out, expected)
    out[...] = 77
    assert (room == 77).all()


@pytest.mark.parametrize("askew", [0, 4])  # elements from the border of a cache line
@pytest.mark.parametrize("name", LARGE)
def test_every_element_is_written_once_and_no_other(name: str, askew: int) -> None:
    """Whole numbers, so every bit; what lies around the result stays as it was."""
    problem = LARGE[name]
    machine = engine.machine()
    assert not isinstance(machine, str)
    if problem.bytes() <= machine.l3 // STREAM:
        pytest.skip("the last cache is so large that nothing is streamed")
    recipe = plan_gather(problem, machine)
    assert recipe.record[FIELDS["stream"]] == 1
    run = GatherRunner(problem, recipe)
    draw = np.random.default_rng(8)
    data, weights = (
        draw.integers(-4, 5, problem.shape(operand)).astype(problem.dtype)
        for operand in problem.given
    )
    size = int(np.prod(problem.shape(problem.wanted)))
    room = np.full(size + 64, 77, problem.dtype)
    begin = -room.ctypes.data % 64 // room.itemsize + askew
    out = room[begin : begin + size].reshape(problem.shape(problem.wanted))

    run.run(data, run.pack(weights), None, out)

    taps = TapRunner(problem)
    expected = np.empty_like(out)
    taps.run(data, taps.pack(weights), None, expected)
    assert np.array_equal(out, expected)
    assert (room[:begin] == 77).all()
    assert (room[begin + size :] == 77).all()


@pytest.mark.parametrize(
    ("dtype", "groups", "channels"), [("float32", 20, 48), ("float16", 20, 96), ("float64", 10, 24)]
)
def test_groups_whose_last_vector_lies_across_lines_stay_in_the_caches(
    dtype: str, groups: int, channels: int
) -> None:
    """A result among other channels: its points begin lines, but its last groups do not."""
    axis = Axis(700, 700, 3, 1, 1, 1)
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    problem = Problem(Operand.COARSE, 1, groups, 1, 1, (axis, axis), dtype, *layouts)
    run = engine.executable(problem)
    assert run.plan.algorithm == "grouped"
    draw = np.random.default_rng(8)
    data, weights = (
        draw.integers(-4, 5, problem.shape(operand)).astype(dtype) for operand in problem.given
    )
    room = np.full(700 * 700 * channels + 64, 77, dtype)
    begin = -room.ctypes.data % 64 // room.itemsize
    whole = room[begin : begin + 700 * 700 * channels].reshape(1, 700, 700, channels)
    out = whole[..., :groups]

    run.run(data, run.pack(weights), None, out)

    taps = TapRunner(problem)
    expected = np.empty_like(out)
    taps.run(data, taps.pack(weights), None, expected)
    assert np.array_equal(out, expected)
    assert (whole[..., groups:] == 77).all()


@pytest.mark.parametrize(("channels", "streams"), [(8, 0), (16, 1)])
def test_groups_that_share_lines_stay_in_the_caches(channels: int, streams: int) -> None:
    """Half a line at a time, memory takes twice as long as to fetch and keep it."""
    problem = replace(lines(channels, 4), coarse_channels=channels)
    machine = engine.machine()
    assert not isinstance(machine, str)
    recipe = plan_gather(problem, replace(machine, l3=1 << 16))
    runner = GatherRunner(problem, recipe)
    shapes = (problem.shape(Operand.FINE), problem.shape(Operand.COARSE))
    strides = (np.empty(shape, np.float32).strides for shape in shapes)

    assert recipe.record[FIELDS["stream"]] == 1
    assert runner.strided(*strides)[FIELDS["stream"]] == streams


def test_taps_that_lie_apart_are_not_streamed() -> None:
    """An axis with one tap may have any stride, also that of taps side by side."""
    machine = engine.machine()
    assert not isinstance(machine, str)
    taps, fine = 7, machine.l3 // STREAM_WEIGHTS // (7 * 7 * 4) + 100
    axes = Axis(12, 6, taps, 1, 1, 0), Axis(1, 1, 1, 1, 1, 0)
    layouts = Layout("n gc x"), Layout("n gf x"), Layout("gc f x")
    problem = Problem(Operand.WEIGHTS, 1, 1, taps, fine, axes, "float32", *layouts)
    run = engine.executable(problem)
    assert isinstance(run.plan.recipe, Correlate)
    assert run.plan.recipe.streamed
    draw = np.random.default_rng(8)
    coarse, data = (
        draw.integers(-4, 5, problem.shape(operand)).astype("float32") for operand in problem.given
    )
    out = np.empty((taps, fine, taps, 1), "float32").transpose(2, 1, 0, 3)

    run.run(coarse, data, None, out)

    expected = np.empty(problem.shape(Operand.WEIGHTS), "float32")
    TapRunner(problem).run(coarse, data, None, expected)
    assert np.array_equal(out, expected)
