"""Blocks that are touched before they are summed: nothing behind the source is read."""

import mmap
from dataclasses import replace

import numpy as np
import pytest

from runtime.walls import before_a_wall, build_wall, linux
from strategies import whole_numbers
from tconv import reference
from tconv.plan.gather import FIELDS, plan_gather
from tconv.plan.overlap import FIELDS as OVERLAP_FIELDS
from tconv.plan.overlap import plan_overlap
from tconv.plan.woven import plan_woven
from tconv.problem import Axis, Layout, Operand, Problem
from tconv.runtime.kernels import machine
from tconv.runtime.overlap import OverlapRunner
from tconv.runtime.panels import GatherRunner, WovenRunner

# Groups, channels of each (coarse, fine), axes: strides without padding, few terms, one panel.
LAYERS = {
    "one group": (1, 8, 24, (Axis(13, 5, 1, 3, 1, 0), Axis(28, 10, 1, 3, 1, 0))),
    "groups": (4, 8, 16, (Axis(60, 20, 3, 3, 1, 0), Axis(300, 100, 3, 3, 1, 0))),
    "a line": (2, 5, 12, (Axis(20003, 4001, 3, 5, 1, 0),)),
}


def question(name: str) -> Problem:
    """Return a layer as a question."""
    groups, coarse, fine, axes = LAYERS[name]
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    return Problem(Operand.COARSE, 2, groups, coarse, fine, axes, "float32", *layouts)


@linux
@pytest.mark.parametrize("more", [0, 20], ids=["whole points", "channels of larger points"])
@pytest.mark.parametrize("name", LAYERS)
def test_nothing_behind_the_source_is_touched(name: str, more: int) -> None:
    """The last point may have channels behind those that are read; there is no memory there."""
    problem = question(name)
    recipe = plan_gather(problem, replace(machine(), l3=0))  # all that there is comes from afar
    shape = problem.shape(Operand.FINE)
    data = before_a_wall(shape, shape[-1] + more)
    data[:] = whole_numbers(shape, "float32", 1)
    weights = whole_numbers(problem.shape(Operand.WEIGHTS), "float32", 2)
    out = np.empty(problem.shape(Operand.COARSE), np.float32)
    runner = GatherRunner(problem, recipe)
    runner.run(data, runner.pack(weights), None, out)

    # Few terms, and points are summed for all groups in turns.
    names = "together", "panels", "groups_at_once", "afar"
    assert [recipe.record[FIELDS[name]] for name in names] == [1, 1, problem.groups, 1]
    np.testing.assert_array_equal(out, reference.answer(problem, data, weights))


@linux
def test_nothing_between_points_that_lie_far_apart_is_touched() -> None:
    """Other arrays may be there, or nothing: here every second page is a wall."""
    problem = replace(question("a line"), batch=1, axes=(Axis(43, 9, 3, 5, 1, 0),))
    _, points, channels = problem.shape(Operand.FINE)
    memory = mmap.mmap(-1, 2 * points * mmap.PAGESIZE)
    whole = np.frombuffer(memory, np.float32)
    strides = [2 * points * mmap.PAGESIZE, 2 * mmap.PAGESIZE, 4]
    data = np.lib.stride_tricks.as_strided(whole, (1, points, channels), strides)
    data[:] = whole_numbers(data.shape, "float32", 1)
    for point in range(points):
        build_wall(whole.ctypes.data + (2 * point + 1) * mmap.PAGESIZE)
    weights = whole_numbers(problem.shape(Operand.WEIGHTS), "float32", 2)
    out = np.empty(problem.shape(Operand.COARSE), np.float32)
    runner = GatherRunner(problem, plan_gather(problem, replace(machine(), l3=0)))
    runner.run(data, runner.pack(weights), None, out)

    np.testing.assert_array_equal(out, reference.answer(problem, data, weights))


@linux
@pytest.mark.parametrize("stride", [1, 2])
def test_woven_groups_touch_what_their_panels_read_in_turns(stride: int) -> None:
    """With any stride: each panel reads a part of every point, which no machine foresees."""
    axis = Axis(100 * stride + 2, 100, 3, stride, 1, 0)
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    problem = Problem(Operand.COARSE, 2, 6, 8, 8, (axis,), "float32", *layouts)
    recipe = plan_woven(problem, replace(machine(), l3=0))
    shape = problem.shape(Operand.FINE)
    data = before_a_wall(shape, shape[-1])
    data[:] = whole_numbers(shape, "float32", 1)
    weights = whole_numbers(problem.shape(Operand.WEIGHTS), "float32", 2)
    out = np.empty(problem.shape(Operand.COARSE), np.float32)
    runner = WovenRunner(problem, recipe)
    runner.run(data, runner.pack(weights), None, out)

    assert recipe.record[FIELDS["afar"]] == 1
    np.testing.assert_array_equal(out, reference.answer(problem, data, weights))


@linux
@pytest.mark.parametrize("more", [0, 7, 60], ids=["whole points", "little between", "much between"])
@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
def test_points_of_products_are_touched_up_to_the_last_channel(wanted: Operand, more: int) -> None:
    """Runs of points are read from one end to the other before they are packed, no further."""
    axes = Axis(13, 6, 3, 2, 1, 0), Axis(27, 13, 3, 2, 1, 0)
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    channels = (24, 2) if wanted is Operand.FINE else (2, 24)
    problem = Problem(wanted, 2, 1, *channels, axes, "float32", *layouts)
    recipe = plan_overlap(problem, replace(machine(), l3=0))
    shape = problem.shape(problem.given[0])
    data = before_a_wall(shape, shape[-1] + more)
    data[:] = whole_numbers(shape, "float32", 1)
    weights = whole_numbers(problem.shape(Operand.WEIGHTS), "float32", 2)
    out = np.empty(problem.shape(wanted), np.float32)
    runner = OverlapRunner(problem, recipe)
    runner.run(data, runner.pack(weights), None, out)

    assert recipe.record[OVERLAP_FIELDS["afar"]] == 1
    np.testing.assert_array_equal(out, reference.answer(problem, data, weights))


@linux
def test_nothing_is_touched_where_words_are_longer_than_elements() -> None:
    """A word of the last element of 16 bits would end behind it."""
    points, channels = 17, 33  # the last panel has one point: its last element begins a line
    axis = Axis(2 * points + 1, points, 3, 2, 1, 0)
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    problem = Problem(Operand.FINE, 1, 1, channels, 2, (axis,), "float16", *layouts)
    count = points * channels
    memory = before_a_wall((1, -(-count // 2)), -(-count // 2)).reshape(-1).view(np.float16)
    data = memory[-count:].reshape(problem.shape(Operand.COARSE))
    data[:] = whole_numbers(data.shape, "float16", 1)
    weights = whole_numbers(problem.shape(Operand.WEIGHTS), "float16", 2)
    out = np.empty(problem.shape(Operand.FINE), np.float16)
    runner = OverlapRunner(problem, plan_overlap(problem, replace(machine(), l3=0)))
    runner.run(data, runner.pack(weights), None, out)

    np.testing.assert_array_equal(out, reference.answer(problem, data, weights))


@pytest.mark.parametrize("apart", [1, 3, 500], ids=["beside", "near", "far"])
def test_points_that_lie_far_apart_are_not_asked_for(apart: int) -> None:
    """All lines between them would be, of every channel: millions for one work item."""
    axis = Axis(401, 200, 3, 2, 1, 0)
    layouts = Layout("n gc x"), Layout("n gf x"), Layout("gc f x")
    problem = Problem(Operand.FINE, 1, 1, 16, 2, (axis,), "float32", *layouts)
    runner = OverlapRunner(problem, plan_overlap(problem, replace(machine(), l3=0)))
    data = np.zeros((1, 16, 200 * apart), np.float32)[..., ::apart]
    data[:] = whole_numbers(data.shape, "float32", 1)
    weights = whole_numbers(problem.shape(Operand.WEIGHTS), "float32", 2)
    out = np.empty(problem.shape(Operand.FINE), np.float32)
    runner.run(data, runner.pack(weights), None, out)
    steps = (data.strides, out.strides)
    record = runner.strided(*steps)

    assert record[OVERLAP_FIELDS["ahead"]] == (apart < 8)
    np.testing.assert_array_equal(out, reference.answer(problem, data, weights))
