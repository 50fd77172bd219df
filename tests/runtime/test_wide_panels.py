"""Panels of three and four vectors, on a machine with long vectors: equal to the definition."""

from dataclasses import replace

import numpy as np
import pytest

from strategies import whole_numbers
from tconv.plan.gather import plan_gather
from tconv.plan.machine import Machine
from tconv.plan.tiles import MORE_VECTORS
from tconv.plan.winograd import plan_winograd
from tconv.problem import Axis, Layout, Operand, Problem
from tconv.runtime import kernels
from tconv.runtime.panels import GatherRunner
from tconv.runtime.taps import TapRunner
from tconv.runtime.winograd import WinogradRunner

STRIDED = Axis(14, 7, 4, 2, 1, 1), Axis(18, 9, 4, 2, 1, 1)
SLOW = Axis(40, 40, 3, 1, 1, 1), Axis(9, 9, 3, 1, 1, 1)
POINTS = (Axis(157, 157, 1, 1, 1, 0),)
FEW = Axis(2, 2, 3, 1, 1, 1), Axis(3, 3, 3, 1, 1, 1)


@pytest.fixture
def long_vectors(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return this machine as if it had thirty-two registers of 64 bytes; LLVM makes do."""
    machine = replace(kernels.machine(), vector_bytes=64, registers=32, doubled=False)
    monkeypatch.setattr(kernels, "machine", lambda: machine)
    return machine


def a_problem(
    wanted: Operand, channels: tuple[int, int], axes: tuple[Axis, ...], layout: str, dtype: str
) -> Problem:
    """Return a layer of two images as a question; the channels are read and written."""
    read, written = channels
    both = (read, written) if wanted is Operand.FINE else (written, read)
    return Problem(
        wanted, 2, 1, *both, axes, dtype,
        Layout(layout % "gc"), Layout(layout % "gf"), Layout("gc f x"),
    )  # fmt: skip


def check(problem: Problem, runner: GatherRunner | WinogradRunner) -> None:
    """Compare with NumPy's products, in whole numbers."""
    data, weights = (
        whole_numbers(problem.shape(operand), problem.dtype, seed)
        for seed, operand in enumerate(problem.given)
    )
    slowly = TapRunner(problem)
    right = np.empty(problem.shape(problem.wanted), data.dtype)
    slowly.run(data, slowly.pack(weights), None, right)
    out = np.full_like(right, 99)
    runner.run(data, runner.pack(weights), None, out)

    np.testing.assert_array_equal(out, right)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["n x %s", "n %s x"])
@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
@pytest.mark.parametrize(
    "axes", [STRIDED, SLOW, POINTS, FEW], ids=["strided", "slow", "points", "few"]
)
@pytest.mark.parametrize("lacking", [0, 3])
@pytest.mark.parametrize("vectors", MORE_VECTORS)
def test_full_panels_of_more_vectors_are_summed(  # noqa: PLR0913 - all that they depend on
    long_vectors: Machine,
    vectors: int,
    lacking: int,
    axes: tuple[Axis, ...],
    wanted: Operand,
    layout: str,
    dtype: str,
) -> None:
    """Packed or in place, with strides and without, in tiles of all rows or of few.

    The last vector may lack some channels.
    """
    written = 2 * vectors * long_vectors.lanes(dtype) - lacking
    problem = a_problem(wanted, (21, written), axes, layout, dtype)
    recipe = plan_gather(problem, long_vectors)

    assert recipe.vectors == vectors
    check(problem, GatherRunner(problem, recipe))


@pytest.mark.parametrize("layout", ["n x %s", "n %s x"])
@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
@pytest.mark.parametrize("vectors", MORE_VECTORS)
def test_transforms_have_such_panels_too(
    long_vectors: Machine, vectors: int, wanted: Operand, layout: str
) -> None:
    """Products at every point of the transform, and the way back."""
    written = vectors * long_vectors.lanes("float32")
    problem = a_problem(wanted, (24, written), STRIDED, layout, "float32")
    recipe = plan_winograd(problem, long_vectors, (3, 3))

    assert recipe.vectors == vectors
    check(problem, WinogradRunner(problem, recipe))


@pytest.mark.parametrize("written", [16, 32, 80])
def test_panels_that_would_not_be_full_have_two_vectors(
    long_vectors: Machine, written: int
) -> None:
    """Empty vectors would cost more than fewer loads save."""
    problem = a_problem(Operand.COARSE, (24, written), SLOW, "n x %s", "float32")

    assert plan_gather(problem, long_vectors).vectors == 2
