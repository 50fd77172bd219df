"""Half vectors: taken where they fill better and a machine does as much with them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plan.plans import checked
from strategies import a_problem
from tconv import engine, reference
from tconv.plan import TapProducts, choose_plan
from tconv.plan import choose as choose_module
from tconv.plan.machine import AVX512, ZEN4, Machine
from tconv.problem import Axis, Layout, Operand, Problem
from tconv.runtime import kernels

SQUARE = (Axis(28, 28, 3, 1, 1, 1),) * 2
LAYOUTS = {"NCX": "n {} x", "NXC": "n x {}"}


def a_layer(  # noqa: PLR0913 - a problem has many numbers
    channels: tuple[int, int], *, groups: int = 1, wanted: Operand = Operand.COARSE,
    layout: str = "NXC", batch: int = 1, axes: tuple[Axis, ...] = SQUARE,
) -> Problem:  # fmt: skip
    """Return a problem of so many channels a group: written and read by COARSE."""
    coarse, fine = (Layout(LAYOUTS[layout].format(letter)) for letter in ("gc", "gf"))
    return Problem(
        wanted, batch, groups, *channels, axes, "float32", coarse, fine, Layout("gc f x")
    )


def lanes_of(problem: Problem, machine: Machine = ZEN4) -> int:
    """Return how many lanes the vectors of a plan have."""
    recipe: Any = choose_plan(problem, machine, "", "direct").recipe
    return int(recipe.lanes)


@pytest.mark.parametrize(
    ("problem", "lanes"),
    [
        pytest.param(a_layer((24, 64)), 8, id="24 channels fill three half vectors"),
        pytest.param(a_layer((64, 64)), 16, id="64 fill whole ones"),
        pytest.param(a_layer((1, 1), groups=21), 8, id="21 groups"),
        pytest.param(a_layer((1, 1), groups=64), 16, id="64 groups"),
        pytest.param(a_layer((24, 24), wanted=Operand.WEIGHTS), 8, id="weights of 24 channels"),
        pytest.param(a_layer((64, 64), wanted=Operand.WEIGHTS), 16, id="weights of 64 channels"),
        pytest.param(
            a_layer((1, 1), groups=64, layout="NCX", axes=(Axis(7, 7, 3, 1, 1, 1),) * 2), 8,
            id="short lines",
        ),
    ],
)  # fmt: skip
def test_vectors_are_as_long_as_they_fill(problem: Problem, lanes: int) -> None:
    """Where both do the same in a turn; elsewhere they are as long as they can be."""
    assert lanes_of(problem) == lanes
    assert lanes_of(problem, AVX512) == AVX512.lanes("float32")


@settings(deadline=None, max_examples=150)
@given(problem=a_problem(), algorithm=st.sampled_from([None, "direct"]), bound=st.booleans())
def test_plans_of_either_width_keep_to_their_arrays(
    problem: Problem, algorithm: str | None, *, bound: bool
) -> None:
    """Whatever is chosen is checked like a plan for a machine that has only such vectors."""
    plan = choose_plan(problem, ZEN4, "", algorithm, bound=bound)
    recipe: Any = plan.recipe
    if isinstance(recipe, TapProducts):
        return
    machine = ZEN4 if recipe.lanes == ZEN4.lanes(problem.dtype) else ZEN4.half

    assert machine is not None
    checked(plan, machine)
    if problem.wanted is not Operand.WEIGHTS and problem.batch > 0:
        alone: Any = choose_plan(replace(problem, batch=1), ZEN4, "", algorithm, bound=bound)
        assert alone.recipe.lanes == recipe.lanes


@pytest.mark.skipif(
    kernels.machine().half is None, reason="this CPU does as much with whole vectors"
)
@pytest.mark.parametrize("wanted", list(Operand), ids=lambda wanted: wanted.name)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("groups", [1, 3])
def test_both_widths_are_exact(
    wanted: Operand, layout: str, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole numbers; both kinds of kernels live in one process."""
    problem = a_layer((20, 9), groups=groups, wanted=wanted, layout=layout, batch=2)
    random = np.random.default_rng(0)
    first, second = (
        random.integers(-3, 4, problem.shape(operand)).astype(np.float32)
        for operand in problem.given
    )
    expected = reference.answer(problem, first, second)
    machine = kernels.machine()
    for width in (machine, machine.half):
        monkeypatch.setattr(choose_module, "suited", lambda *_, width=width, **__: width)
        plan = choose_plan(problem, machine, "", "direct")
        run, out = engine.Executable(plan), np.empty(problem.shape(wanted), np.float32)
        run.run(first, second if wanted is Operand.WEIGHTS else run.pack(second), None, out)

        np.testing.assert_array_equal(out, expected)
