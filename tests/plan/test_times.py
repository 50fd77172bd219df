"""Estimates: what is counted has a price, for any problem and for one image of any batch."""

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import a_problem
from tconv.plan.few import fastest
from tconv.plan.machine import AVX2, AVX512, NEON, ZEN4, Machine
from tconv.plan.prices import OF_VECTORS, PRICES
from tconv.plan.times import COUNTS, estimate
from tconv.problem import Operand, Problem


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


def test_algorithms_that_are_counted_have_prices() -> None:
    """And no others."""
    assert COUNTS.keys() == PRICES.keys() == OF_VECTORS.keys()
    assert all(OF_VECTORS[name] <= prices.keys() for name, prices in PRICES.items())
