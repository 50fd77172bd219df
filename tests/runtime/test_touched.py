"""Blocks that are touched before they are summed: nothing behind the source is read."""

import ctypes
import mmap
import sys
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from strategies import whole_numbers
from tconv import reference
from tconv.plan.gather import FIELDS, plan_gather
from tconv.problem import Axis, Layout, Operand, Problem
from tconv.runtime.kernels import machine
from tconv.runtime.panels import GatherRunner

Floats = npt.NDArray[np.float32]

PROT_NONE = 0
# Groups, channels of each (coarse, fine), axes: strides without padding, few terms, one panel.
LAYERS = {
    "one group": (1, 8, 24, (Axis(13, 5, 1, 3, 1, 0), Axis(28, 10, 1, 3, 1, 0))),
    "groups": (4, 8, 16, (Axis(60, 20, 3, 3, 1, 0), Axis(300, 100, 3, 3, 1, 0))),
    "a line": (2, 5, 12, (Axis(20003, 4001, 3, 5, 1, 0),)),
}


def build_wall(place: int) -> None:
    """Let nobody read a page."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(place), mmap.PAGESIZE, PROT_NONE) == 0


def before_a_wall(shape: tuple[int, ...], room: int) -> Floats:
    """Return zeros, so many elements for each point, whose last channel ends where memory does.

    Behind it lies a page that nobody may read.
    """
    *outer, channels = shape
    points = int(np.prod(outer))
    needed = ((points - 1) * room + channels) * 4
    pages = -(-needed // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    whole = np.frombuffer(memory, np.float32)
    wall = whole.ctypes.data + pages * mmap.PAGESIZE
    build_wall(wall)
    first = pages * mmap.PAGESIZE // 4 - needed // 4
    strides = [4 * room * int(np.prod(outer[place + 1 :])) for place in range(len(outer))]
    return np.lib.stride_tricks.as_strided(whole[first:], shape, [*strides, 4])


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="walls are Linux's")


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
