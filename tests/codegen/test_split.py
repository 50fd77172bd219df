"""Kernels on plans that only caches of some bytes make: many blocks, pieces and chunks.

What the check of plans believes of kernels is true of them: the answer is the definition's
whatever scratch held before, and nothing behind a worker's scratch is written.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from plan.plans import Form, a_correlation, checked, plans
from strategies import a_problem, as_float64, whole_numbers
from tconv import reference
from tconv.plan import Correlate, Gather, Planes, Strips
from tconv.plan.machine import Machine
from tconv.problem import Operand, Problem, numpy_dtype
from tconv.runtime.correlate import CorrelateRunner
from tconv.runtime.kernels import machine as this_machine
from tconv.runtime.runners import runner
from tconv.runtime.scratch import scratch_address
from tconv.threads import get_num_threads

BEHIND = 4096  # bytes
POISON = 0xFF  # each byte of a NaN


@cache
def machines() -> tuple[Machine, ...]:
    """Return this machine with caches of some bytes."""
    sizes = ((1000, 256), (1000, 2000), (4000, 20_000))
    return tuple(replace(this_machine(), l1=l1, l2=l2, l3=16 * l2) for l1, l2 in sizes)


@contextmanager
def poisoned(used: int) -> Iterator[None]:
    """Fill scratch with NaN, and look whether what lies behind the used bytes stays so."""
    address = scratch_address(used + BEHIND)
    ctypes.memset(address, POISON, used + BEHIND)
    yield
    behind = ctypes.string_at(address + used, BEHIND)

    assert behind == bytes([POISON]) * BEHIND


def operands(problem: Problem, seed: int) -> list[np.ndarray]:
    """Return the given operands, small whole numbers."""
    return [
        whole_numbers(problem.shape(operand), problem.dtype, seed + i, most=1)
        for i, operand in enumerate(problem.given)
    ]


@settings(deadline=None, max_examples=200)
@given(data=st.data(), seed=st.integers(0, 2**16))
def test_correlations_are_right_however_they_are_split(data: st.DataObject, seed: int) -> None:
    """Any sides, pieces and chunks; a sum that is NaN would raise the flag."""
    problem, machine, form = data.draw(a_correlation(machines()))
    assert isinstance(form, Form)
    recipe = checked(form.plan(problem, machine), machine).recipe
    assert isinstance(recipe, Correlate)
    running = CorrelateRunner(problem, recipe)
    coarse, fine = operands(problem, seed)
    out = np.full(problem.shape(Operand.WEIGHTS), 99, numpy_dtype(problem.dtype))
    threads = 1 if running.single else get_num_threads()
    with poisoned(running.scratch_bytes * threads + running.common_bytes):
        trusted = running.run(coarse, fine, out)

    assert trusted
    np.testing.assert_array_equal(as_float64(out), reference.answer(problem, coarse, fine))


@settings(deadline=None, max_examples=100)
@given(problem=a_problem(ranks=2), machine=st.deferred(lambda: st.sampled_from(machines())))
def test_gathers_planes_and_strips_are_right_in_many_blocks(
    problem: Problem, machine: Machine
) -> None:
    """The same for FINE and COARSE."""
    problem = replace(problem, batch=max(problem.batch, 1))
    if problem.wanted is Operand.WEIGHTS:
        problem = replace(problem, wanted=Operand.FINE)
    data, weights = operands(problem, 0)
    for plan in plans(problem, machine):
        recipe = checked(plan, machine).recipe
        assert isinstance(recipe, Gather | Planes | Strips)
        running = runner(problem, recipe)
        packed = running.pack(weights)
        out = np.full(problem.shape(problem.wanted), 99, numpy_dtype(problem.dtype))
        threads = 1 if running.single else get_num_threads()
        with poisoned(running.scratch_bytes * threads):
            running.run(data, packed, None, out)

        np.testing.assert_array_equal(as_float64(out), reference.answer(problem, data, weights))
