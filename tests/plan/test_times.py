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


def test_algorithms_that_are_counted_have_prices() -> None:
    """And no others."""
    assert COUNTS.keys() == PRICES.keys() == OF_VECTORS.keys()
    assert all(OF_VECTORS[name] <= prices.keys() for name, prices in PRICES.items())
