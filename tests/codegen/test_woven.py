"""Groups that share vectors, as machine code: both widths, all types, borders and places."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import strategies
from tconv import engine, reference
from tconv.plan.choose import PLANNERS
from tconv.plan.machine import AVX2, AVX512, Machine
from tconv.plan.woven import groups_share
from tconv.problem import Axis, Layout, Operand, Problem, numpy_dtype
from tconv.problem.activation import Activation
from tconv.runtime.kernels import machine

MACHINES = [found for found in (machine(), machine().half) if found is not None]
WINDOWS = [(3, 1, 1, 1), (1, 1, 1, 0), (4, 2, 1, 1), (3, 3, 2, 2)]


def layer(
    wanted: Operand, channels: tuple[int, int], groups: int, window: tuple[int, ...], dtype: str
) -> Problem:
    """Return a layer whose groups read and write so many channels, side by side."""
    taps, stride, dilation, pad = window
    axes = tuple(
        Axis((size - 1) * stride + dilation * (taps - 1) + 1 - 2 * pad, size, taps, stride,
             dilation, pad)
        for size in (3, 11)
    )  # fmt: skip
    coarse, fine = channels if wanted is Operand.FINE else channels[::-1]
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    return Problem(wanted, 2, groups, coarse, fine, axes, dtype, *layouts, bias=True)


def check(problem: Problem, target: Machine) -> None:
    """Hold a layer of whole numbers against the definition."""
    operands = [
        strategies.whole_numbers(problem.shape(operand), problem.dtype, seed)
        for seed, operand in enumerate(problem.given)
    ]
    out = np.full(problem.shape(problem.wanted), 99, numpy_dtype(problem.dtype))
    bias = strategies.whole_numbers(out.shape[-1:], problem.dtype, 3)
    run = engine.Executable(PLANNERS["woven"](problem, target, ()))
    run.run(operands[0], run.pack(operands[1]), bias, out)
    plain = replace(problem, activation=None)
    due = reference.answer(plain, *operands) + bias.astype("float64")
    if problem.activation is not None:
        due = np.maximum(due, 0)

    exact = due.astype(out.dtype).astype("float64")
    np.testing.assert_array_equal(out.astype("float64"), exact, str(problem))


@pytest.mark.parametrize("target", MACHINES, ids=lambda found: f"{found.vector_bytes} bytes")
@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
@pytest.mark.parametrize("written", [2, 4, 8, 16])
def test_groups_of_every_size_are_right(written: int, wanted: Operand, target: Machine) -> None:
    """One vector and several, whole panels and not; groups that read fewer, as many, and more."""
    reads = {1, written // 2, written - 1, written, written + 5}
    for read, groups, window in product(sorted(reads), (2, 9, 33), WINDOWS):
        problem = layer(wanted, (read, written), groups, window, "float32")
        if groups_share(problem, target):
            check(problem, target)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
def test_other_types_are_right(wanted: Operand, dtype: str) -> None:
    """Weights are kept as sums are, data is widened when it is packed."""
    for target, groups, window in product(MACHINES, (5, 16), WINDOWS):
        problem = layer(wanted, (4, 4), groups, window, dtype)
        if groups_share(problem, target):
            check(problem, target)


def test_an_activation_comes_last() -> None:
    """Sums go by way of scratch then."""
    problem = layer(Operand.COARSE, (4, 4), 9, WINDOWS[0], "float32")
    check(replace(problem, activation=Activation("relu")), machine())


@pytest.mark.parametrize(
    ("channels", "groups", "layout", "share"),
    [
        ((4, 4), 32, "n x gc", True),
        ((4, 4), 2, "n x gc", False),  # fewer channels than lanes
        ((8, 4), 32, "n x gc", False),  # more are read than a vector has
        ((40, 16), 4, "n x gc", True),  # of one group: they are read one by one
        ((3, 3), 32, "n x gc", False),  # vectors end inside a group
        ((4, 4), 32, "n gc x", False),
    ],
)
def test_vectors_hold_whole_groups(
    channels: tuple[int, int], groups: int, layout: str, *, share: bool
) -> None:
    """Channels lie side by side, and those of a vector's groups are no more than it has lanes."""
    read, written = channels
    axis = Axis(8, 8, 3, 1, 1, 1)
    layouts = Layout(layout), Layout(layout.replace("c", "f")), Layout("gc f x")
    problem = Problem(Operand.FINE, 1, groups, read, written, (axis,), "float32", *layouts)

    assert groups_share(problem, AVX512) == share
    assert not groups_share(problem, AVX2) or written <= AVX2.lanes("float32")
