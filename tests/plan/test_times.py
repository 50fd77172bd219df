"""Estimates: what is counted has a price, for any problem and for one image of any batch."""

import math
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import a_problem
from tconv.plan.few import fastest
from tconv.plan.machine import AVX2, AVX512, NEON, ZEN4, Machine
from tconv.plan.prices import OF_VECTORS, PRICES
from tconv.plan.times import COUNTS, estimate
from tconv.problem import Axis, Layout, Operand, Problem


@settings(deadline=None, max_examples=100)
@given(
    problem=a_problem(),
    wanted=st.sampled_from([Operand.FINE, Operand.COARSE]),
    machine=st.sampled_from([AVX2, AVX512, NEON, ZEN4]),
)
def test_any_problem_has_a_fastest_algorithm(
    problem: Problem, wanted: Operand, machine: Machine
) -> None:
    """Whatever can do it takes some time, which no batch changes."""
    problem = replace(problem, wanted=wanted, batch=1)
    best, others = fastest(problem, machine)

    times = {name: estimate(name, problem, machine) for name in (best, *others)}
    assert all(math.isfinite(time) and time >= 0 for time in times.values())
    assert times[best] == min(times.values())
    assert fastest(replace(problem, batch=7), machine) == (best, others)


@pytest.mark.parametrize("machine", [AVX2, AVX512, NEON, ZEN4], ids=str)
@pytest.mark.parametrize("order", ["n {} x", "n x {}"])
def test_no_batch_changes_what_large_pictures_take(order: str, machine: Machine) -> None:
    """Of thousands of images, which no cache holds, each is done as it is alone."""
    layouts = Layout(order.format("gc")), Layout(order.format("gf")), Layout("gc f x")
    axes = (Axis(64, 64, 1, 1, 1, 0), Axis(128, 64, 2, 2, 1, 0))
    for wanted, (coarse, fine, groups) in product(
        (Operand.FINE, Operand.COARSE), ((40, 24, 1), (3, 40, 1), (4, 4, 8), (16, 2, 4))
    ):
        alone = Problem(wanted, 1, groups, coarse, fine, axes, "float32", *layouts)
        many = replace(alone, batch=4096)
        best, others = fastest(alone, machine)

        assert fastest(many, machine) == (best, others)
        for name in (best, *others):
            assert COUNTS[name](alone, machine) == COUNTS[name](many, machine), name


def square(points: tuple[int, ...], taps: int, stride: int, dilation: int = 1) -> tuple[Axis, ...]:
    """Return axes without padding."""
    window = (taps - 1) * dilation + 1
    return tuple(Axis(stride * (n - 1) + window, n, taps, stride, dilation, 0) for n in points)


# Found slow once: wanted, groups, channels of each (coarse, fine), axes, what took much longer.
Slow = tuple[Operand, int, int, int, tuple[Axis, ...], str]
SLOW_ONCE: dict[str, Slow] = {
    "strides leave out most of a volume": (
        *(Operand.COARSE, 4, 24, 4, square((10, 14, 5), 2, 3)),
        "planes",
    ),
    "groups share the lines of a large result": (
        *(Operand.FINE, 16, 2, 8, square((56, 56), 3, 2)),
        "gather",
    ),
    "groups share lines of data from afar": (
        *(Operand.COARSE, 8, 2, 31, square((5, 10, 10), 2, 3, 2)),
        "overlap",
    ),
    "a large result is mostly filled": (
        *(Operand.FINE, 32, 16, 16, square((5, 10, 7), 1, 3)),
        "planes",
    ),
}


@pytest.mark.parametrize("name", SLOW_ONCE)
def test_layers_that_were_slow_once_are_done_otherwise(name: str) -> None:
    """Two to five times as long as by another algorithm, on a machine with AVX2."""
    _not_again(SLOW_ONCE[name], "n x {}", AVX2)


# Likewise, where an instruction on 64 bytes takes a single turn; and how channels lie.
SLOW_LONG: dict[str, tuple[str, Slow]] = {
    "groups fill long vectors": (
        "n {} x",
        (*(Operand.COARSE, 32, 12, 2, square((30, 10), 3, 3, 2)), "gather"),
    ),
    "so they do in phases": (
        "n {} x",
        (*(Operand.FINE, 32, 12, 2, square((30, 10), 3, 3, 2)), "planes"),
    ),
    "phases are soon mixed": (
        "n {} x",
        (*(Operand.FINE, 4, 7, 7, square((29, 63), 2, 3)), "overlap"),
    ),
    "a large result is passed over for every phase": (
        "n x {}",
        (*(Operand.FINE, 1, 1, 64, (Axis(135424, 529, 512, 256, 1, 128),)), "planes"),
    ),
}


@pytest.mark.parametrize("name", SLOW_LONG)
def test_layers_that_were_slow_on_long_vectors_are_done_otherwise(name: str) -> None:
    """A third to two thirds longer: prices per lane do not know how many an instruction has.

    Four times where phases are many: each of their points was fetched anew.
    """
    order, case = SLOW_LONG[name]
    _not_again(case, order, AVX512)


def _not_again(case: Slow, order: str, machine: Machine) -> None:
    """Fail if a layer is done by what was slow."""
    wanted, groups, coarse, fine, axes, slow = case
    layouts = Layout(order.format("gc")), Layout(order.format("gf")), Layout("gc f x")
    problem = Problem(wanted, 1, groups, coarse, fine, axes, "float32", *layouts)
    best, others = fastest(problem, machine)

    assert slow in others
    assert best != slow


def test_algorithms_that_are_counted_have_prices() -> None:
    """And no others."""
    assert COUNTS.keys() == PRICES.keys() == OF_VECTORS.keys()
    assert all(OF_VECTORS[name] <= prices.keys() for name, prices in PRICES.items())
