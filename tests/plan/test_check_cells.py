"""Tables of cells hold what kernels trust them with, and wrong numbers in them are refused."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plan.plans import MACHINES, Change, as_plan, caches, changes, checked, refused
from strategies import a_problem
from tconv.errors import InternalError
from tconv.plan import Plan, choose_plan
from tconv.plan import cells as cells_plan
from tconv.plan.cells import Cells, plan_cells
from tconv.plan.machine import AVX2, Machine
from tconv.problem import Axis, Layout, Operand, Problem


def a_layer(layout: str = "n gf x", channels: int = 3) -> Problem:
    """Return an upsampling layer with few channels; pads cut cells on both sides."""
    axes = (Axis(10, 5, 4, 2, 1, 1), Axis(14, 7, 4, 2, 1, 1))
    return Problem(
        Operand.FINE, 2, 2, 18, channels, axes, "float32",
        Layout("n gc x"), Layout(layout), Layout("gc f x"),
    )  # fmt: skip


def cut(layout: str, channels: int = 3) -> Plan:
    """Plan cells for caches so small that there are several blocks of several lines."""
    problem = a_layer(layout, channels)
    for size in range(60_000, 1000, -1000):
        recipe = plan_cells(problem, caches(size))
        if 1 < recipe.block[-2] < 5 and recipe.items > 4:
            return as_plan(problem, recipe)
    pytest.fail("no cache is small enough")


PLANS = [cut("n gf x"), cut("n x gf"), cut("n gf x", 7)]


@settings(deadline=None, max_examples=150)
@given(problem=a_problem(ranks=2), machine=st.sampled_from(MACHINES))
def test_cells_of_any_problem_pass(problem: Problem, machine: Machine) -> None:
    """Chosen or not: windows with holes and phases without taps have right tables too."""
    problem = replace(problem, wanted=Operand.FINE, batch=max(problem.batch, 1))

    checked(as_plan(problem, plan_cells(problem, machine)), machine)


@pytest.mark.parametrize("layout", ["n gf x", "n x gf"])
def test_cells_that_are_chosen_pass(layout: str) -> None:
    """As users get them."""
    layer = replace(a_layer(layout), groups=1, coarse_channels=64, fine_channels=4)
    plan = choose_plan(layer, AVX2, "", "direct")

    assert isinstance(plan.recipe, Cells)
    checked(plan, AVX2)


def test_three_axes_pass() -> None:
    """Eight phases, and an axis that no stride splits."""
    axes = (Axis(6, 3, 2, 2, 1, 0), Axis(5, 4, 2, 1, 1, 0), Axis(8, 4, 4, 2, 1, 1))
    problem = replace(a_layer(), axes=axes)

    checked(as_plan(problem, plan_cells(problem, AVX2)), AVX2)


@pytest.mark.parametrize("plan", PLANS, ids=["planes", "side by side", "several panels"])
def test_the_plans_that_are_changed_below_are_right(plan: Plan) -> None:
    """Or refusing their changes would show nothing."""
    checked(plan, AVX2)


# Calls fill these in, or kernels never read them: where all phases are columns, targets are
# found by cells, and there is one phase whose numbers stand for all.
FREE = {
    "source", "target", "weights", "bias", "call", "source_g", "source_c", "source_x", "target_g",
    "target_c", "target_x", "activate", "slope", "zeros", "source_steps", "target_steps",
    "shift_out", "steps_out", "shifts_out", "points", "segments_in_place",
}  # fmt: skip


@pytest.mark.parametrize("field", [name for name in cells_plan.FIELDS if name not in FREE])
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
        (Change("ends", -1, 1), "outputs are never written."),
        (Change("pads", +1, 1), "is not the relation's."),
        (Change("pad", +1), "is not the relation's."),
        (Change("cell", +1), "is not the relation's."),
        (Change("segments", +18), "is not the relation's."),
        (Change("segments", +1), "a tile reads what was not packed."),
        (Change("sums_panel", -1), "panels do not lie side by side."),
        (Change("sums_point", -1), "sums of two cells overlap."),
        (Change("store_channels", +1), "a column is stored as another channel."),
        (Change("store_phases", +1, 1), "is not the relation's."),
        (Change("size_in", +1), "packing reads outside the source."),
        (Change("size_out", +1), "a store leaves the target."),
        (Change("scratch_rows", -160), "parts of the scratch overlap."),
        (Change("group_weights", -1), "weights are packed for another record."),
        (Change("items", -1), "work items are not all blocks."),
    ],
    ids=str,
)
def test_the_refusal_says_what_is_wrong(change: Change, why: str) -> None:
    """The first thing found is what the message names."""
    assert refused(change.apply(PLANS[0])).endswith(why)


def swapped_taps(recipe: Cells) -> Cells:
    """Let two neighbours of a phase change places in the packed weights."""
    (first, second, *others), *phases = recipe.taps
    return replace(recipe, taps=((second, first, *others), *phases))


def swapped_columns(recipe: Cells) -> Cells:
    """Let two phases change columns."""
    first, second, *others = recipe.columns
    return replace(recipe, columns=(second, first, *others))


@pytest.mark.parametrize("plan", PLANS)
def test_columns_and_taps_in_the_wrong_place_are_refused(plan: Plan) -> None:
    """A permutation leaves every address sound, and is still wrong."""
    assert isinstance(plan.recipe, Cells)
    for wrong in (swapped_taps(plan.recipe), swapped_columns(plan.recipe)):
        assert "is not the relation's" in refused(replace(plan, recipe=wrong))


def test_tables_of_another_problem_are_refused() -> None:
    """The check knows the problem, not only the tables."""
    plan = PLANS[0]
    axis = replace(plan.problem.axes[0], dilation=3)
    other = replace(plan.problem, axes=(axis, *plan.problem.axes[1:]))

    assert "is not the relation's" in refused(replace(plan, problem=other))
