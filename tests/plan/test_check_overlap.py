"""Tables of products hold what kernels trust them with, and wrong numbers in them are refused."""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plan.plans import MACHINES, Change, as_plan, changes, checked, refused
from strategies import a_problem
from tconv.errors import InternalError
from tconv.plan import Overlap, Plan, choose_plan
from tconv.plan import overlap as overlap_plan
from tconv.plan.count import count_least, count_plan
from tconv.plan.machine import AVX2, Machine
from tconv.plan.overlap import plan_overlap
from tconv.plan.tiles import tile_rows
from tconv.problem import Axis, Layout, Operand, Problem


def a_layer(wanted: Operand = Operand.FINE, batch: int = 3, stride: int = 2) -> Problem:
    """Return a layer with few written channels; pads and crops cut products on both sides."""
    axes = (Axis(11, 7, 3, stride, 3, 2), Axis(19, 21 // stride, 4, stride, 3, 3))
    channels = (18, 2) if wanted is Operand.FINE else (2, 18)
    return Problem(
        wanted, batch, 2, *channels, axes, "float32",
        Layout("n gc x"), Layout("n gf x"), Layout("gc f x"),
    )  # fmt: skip


def planned(problem: Problem, images: int = 2) -> Plan:
    """Plan rounds of so many images, in several blocks, chunks and folds."""
    size = 4 * overlap_plan.products_of(problem)
    limits: dict[str, Any] = {"ROUND": images * size, "MOST_SUMS": 40, "ITEMS": 200}
    with patch.multiple(overlap_plan, **limits):
        return as_plan(problem, plan_overlap(problem, AVX2))


PLANS = [
    planned(a_layer()),
    planned(a_layer(Operand.COARSE, stride=1)),
    planned(a_layer(Operand.COARSE)),
    planned(a_layer(batch=1)),
]


@settings(deadline=None, max_examples=150)
@given(problem=a_problem(ranks=3), machine=st.sampled_from(MACHINES))
def test_products_of_any_problem_pass(problem: Problem, machine: Machine) -> None:
    """Chosen or not: windows with holes and phases without taps have right tables too."""
    problem = replace(problem, batch=max(problem.batch, 1))
    if problem.wanted is Operand.WEIGHTS:
        problem = replace(problem, wanted=Operand.COARSE)

    plan = checked(as_plan(problem, plan_overlap(problem, machine)), machine)

    counted, least = count_plan(plan, tile_rows(machine)), count_least(problem)
    assert counted.multiplications >= least.multiplications


def test_products_that_are_chosen_pass() -> None:
    """As users get them: a dilated window with a stride, and one channel."""
    axis = Axis(15, 6, 3, 2, 3, 1)
    problem = replace(a_layer(), groups=1, axes=(axis, axis), coarse_channels=128, fine_channels=1)
    plan = choose_plan(problem, AVX2, "")

    assert isinstance(plan.recipe, Overlap)
    assert "added up where they overlap" in str(plan)
    checked(plan, AVX2)


def test_the_choice_does_not_depend_on_the_batch() -> None:
    """Or an image's bits would depend on its company."""
    for channels in (3, 8, 13, 24, 40, 100):
        problem = replace(a_layer(), groups=1, coarse_channels=channels)
        found = {
            choose_plan(replace(problem, batch=batch), AVX2, "").algorithm for batch in (1, 2, 9)
        }

        assert len(found) == 1


@pytest.mark.parametrize("plan", PLANS, ids=["fine", "coarse", "strided", "one image"])
def test_the_plans_that_are_changed_below_are_right(plan: Plan) -> None:
    """Or refusing their changes would show nothing."""
    checked(plan, AVX2)


# Calls fill these in, and every round; what is asked for early is a matter of time alone.
FREE = {
    "source", "target", "weights", "bias", "products", "stage", "first", "images", "source_g",
    "source_c", "source_x", "target_g", "target_c", "target_x", "run", "run_step", "run_axes",
    "afar", "ahead", "activate", "slope", "zeros", "source_steps", "target_steps", "run_sizes",
    "run_steps",
}  # fmt: skip


@pytest.mark.parametrize("field", [name for name in overlap_plan.FIELDS if name not in FREE])
def test_every_number_of_a_record_counts(field: str) -> None:
    """Off by one, zero or far too large: some plan is refused for it."""

    def is_refused(plan: Plan, change: Change) -> bool:
        try:
            checked(change.apply(plan), AVX2)
        except InternalError:
            return True
        return False

    assert any(is_refused(plan, change) for plan in PLANS for change in changes(plan, field))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (Change("tap_offsets", +1, 3), "is not the relation's."),
        (Change("tap_count", -1, 1), "is not the relation's."),
        (Change("axis_points", +1, 1), "sums read other points."),
        (Change("row_reads", +1), "a row lies elsewhere."),
        (Change("chunks", -1), "chunks do not take every row once."),
        (Change("folds", +40), "lines are left out."),
        (Change("panels", +1), "points are left out."),
        (Change("size_out", -1), "outputs are never written."),
        (Change("size_in", -1), "lines are read elsewhere."),
        (Change("shared", -1), "products leave what workers share."),
        (Change("scratch_sums", -16), "parts of the scratch overlap."),
    ],
    ids=str,
)
def test_the_refusal_says_what_is_wrong(change: Change, why: str) -> None:
    """The first thing found is what the message names."""
    assert refused(change.apply(PLANS[0])).endswith(why)


def test_one_image_never_takes_more_than_its_share() -> None:
    """Products of large images are not kept: other algorithms do those."""
    axis = Axis(1200, 600, 4, 2, 1, 1)
    problem = replace(a_layer(batch=1), groups=1, axes=(axis, axis), coarse_channels=64)

    assert not isinstance(choose_plan(problem, AVX2, "").recipe, Overlap)
