"""Patches that are read and written where arrays have them: the same bits as by way of scratch."""

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from runtime.walls import before_a_wall, linux
from strategies import whole_numbers
from tconv import reference
from tconv.plan.winograd import plan_winograd
from tconv.problem import Axis, Layout, Operand, Problem
from tconv.runtime.kernels import machine
from tconv.runtime.winograd import WinogradRunner

Floats = npt.NDArray[np.float32]

DATA_WANTED = (Operand.FINE, Operand.COARSE)
# Axes and outputs of a patch: whole patches and such that reach over borders, one axis (which is
# read in place) and several.
CUTS = {
    "k4 s2": ((Axis(70, 35, 4, 2, 1, 1),), (5,)),
    "k2 s1": ((Axis(31, 30, 2, 1, 1, 0),), (5,)),
    "dilated": ((Axis(60, 60, 2, 1, 3, 1),), (5,)),
    "one patch": ((Axis(4, 2, 4, 2, 1, 1),), (5,)),
    "a picture": ((Axis(14, 14, 3, 1, 1, 1), Axis(11, 11, 3, 1, 1, 1)), (4, 2)),
    "a volume": (tuple(Axis(2 * n, n, 4, 2, 1, 1) for n in (3, 4, 5)), (2, 3, 2)),
}
CHANNELS = {"vectors": 32, "ragged": 29}


def question(wanted: Operand, axes: tuple[Axis, ...], channels: int, groups: int = 2) -> Problem:
    """Return a layer with channels last."""
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    both = channels, channels
    return Problem(wanted, 2, groups, *both, axes, "float32", *layouts, bias=True)


def apart(shape: tuple[int, ...]) -> Floats:
    """Return zeros whose channels do not lie side by side: they are packed, and stored."""
    return np.zeros((*shape, 2), np.float32)[..., 0]


@linux
@pytest.mark.parametrize("channels", CHANNELS.values(), ids=CHANNELS)
@pytest.mark.parametrize("wanted", DATA_WANTED)
@pytest.mark.parametrize("name", CUTS)
def test_bits_do_not_depend_on_where_patches_lie(name: str, wanted: Operand, channels: int) -> None:
    """Nor is anything read or written behind the arrays: there is no memory."""
    axes, outputs = CUTS[name]
    problem = question(wanted, axes, channels)
    runner = WinogradRunner(problem, plan_winograd(problem, machine(), outputs))
    given, made = problem.shape(problem.given[0]), problem.shape(wanted)
    generator = np.random.default_rng(7)
    numbers = generator.uniform(-1, 1, given).astype(np.float32)
    weights = generator.uniform(-1, 1, problem.shape(Operand.WEIGHTS)).astype(np.float32)
    bias = generator.uniform(-1, 1, made[-1]).astype(np.float32)
    packed, found = runner.pack(weights), []
    walled = [before_a_wall(shape, shape[-1] + 5) for shape in (given, made)]
    for data, out in product((walled[0], apart(given)), (walled[1], apart(made))):
        data[:] = numbers
        out[:] = np.nan
        assert runner.run(data, packed, bias, out) == []
        found.append(out.copy())

    for other in found[1:]:
        np.testing.assert_array_equal(found[0].view(np.int32), other.view(np.int32))
    right = reference.answer(problem, numbers, weights, bias)
    np.testing.assert_allclose(found[0], right, atol=2e-3)


@pytest.mark.parametrize("wanted", DATA_WANTED)
def test_channels_of_a_view_leave_others_alone(wanted: Operand) -> None:
    """Vectors end with the last channel that is written."""
    axes, outputs = CUTS["k4 s2"]
    problem = question(wanted, axes, 20, groups=1)
    runner = WinogradRunner(problem, plan_winograd(problem, machine(), outputs))
    data = whole_numbers(problem.shape(problem.given[0]), "float32", 1)
    weights = whole_numbers(problem.shape(Operand.WEIGHTS), "float32", 2)
    room = np.full((*problem.shape(wanted)[:-1], 50), 77, np.float32)
    runner.run(data, runner.pack(weights), None, room[..., 9:29])

    assert (room[..., :9] == 77).all()
    assert (room[..., 29:] == 77).all()
    right = reference.answer(problem, data, weights)
    np.testing.assert_allclose(room[..., 9:29], right, atol=1e-3 * abs(right).max())


@pytest.mark.parametrize("place", [0, 17, 69])
def test_a_patch_that_is_not_finite_is_told_wherever_it_lies(place: int) -> None:
    """At a border, too: such images are computed again."""
    axes, outputs = CUTS["k4 s2"]
    problem = question(Operand.COARSE, axes, 16, groups=1)
    runner = WinogradRunner(problem, plan_winograd(problem, machine(), outputs))
    data = whole_numbers(problem.shape(Operand.FINE), "float32", 1)
    weights = whole_numbers(problem.shape(Operand.WEIGHTS), "float32", 2)
    data[1, place, 3] = np.inf
    out = np.empty(problem.shape(Operand.COARSE), np.float32)

    assert runner.run(data, runner.pack(weights), None, out) == [1]
