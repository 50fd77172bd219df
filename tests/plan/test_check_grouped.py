"""Plans of grouped layers hold what kernels trust them with, and one that does not is refused."""

import math
from dataclasses import dataclass, replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plan.plans import MACHINES
from strategies import an_axis
from tconv.errors import InternalError
from tconv.plan import grouped, grouped_weights
from tconv.plan.check_grouped import check_grouped, check_grouped_weights
from tconv.plan.grouped import Grouped, plan_grouped
from tconv.plan.grouped_weights import GroupedWeights, plan_grouped_weights
from tconv.plan.machine import AVX2, Machine
from tconv.problem import Axis, Layout, Operand, Problem

Recipe = Grouped | GroupedWeights
NXC = Layout("n x gc"), Layout("n x gf")
NCX = Layout("n gc x"), Layout("n gf x")


def planned(problem: Problem, machine: Machine, *, packs: bool | None = None) -> Recipe:
    """Return the plan for grouped layers, whatever would be chosen."""
    if problem.wanted is Operand.WEIGHTS:
        return plan_grouped_weights(problem, machine)
    return plan_grouped(problem, machine, packs=packs)


def check(problem: Problem, recipe: Recipe) -> None:
    """Check either kind."""
    if isinstance(recipe, Grouped):
        check_grouped(problem, recipe)
    else:
        check_grouped_weights(problem, recipe)


def a_layer(wanted: Operand, layouts: tuple[Layout, Layout] = NCX) -> Problem:
    """Return a problem that leaves no number free: all reach past what they read on each side."""
    fine = {Operand.FINE: (11, 15), Operand.COARSE: (9, 13), Operand.WEIGHTS: (9, 15)}[wanted]
    axes = (Axis(fine[0], 5, 4, 2, 1, 1), Axis(fine[1], 7, 3, 2, 1, 0))
    return Problem(wanted, 2, 37, 2, 3, axes, "float32", *layouts, Layout("gc f x"))


@cache
def cut(wanted: Operand) -> Recipe:
    """Plan the layer for caches just small enough for several blocks, of several lines each."""
    problem = a_layer(wanted)
    for size in range(100_000, 1000, -1000):
        recipe = planned(problem, replace(AVX2, l2=size, l3=16 * size))
        if recipe.block[-2] < 5 and math.prod(recipe.block[:-1]) > 1:
            return recipe
    return pytest.fail("no cache is small enough, or every small one cuts lines apart")


@settings(deadline=None, max_examples=120)
@given(
    wanted=st.sampled_from(list(Operand)),
    batch=st.integers(1, 2),
    groups=st.integers(16, 40),
    channels=st.sampled_from([(1, 1), (1, 3), (2, 2)]),
    axes=st.lists(an_axis(most=4), min_size=1, max_size=2),
    layouts=st.sampled_from([NXC, NCX]),
    machine=st.sampled_from(MACHINES),
    packs=st.booleans(),
)
def test_every_plan_passes(  # noqa: PLR0913 - one number of a problem each
    wanted: Operand,
    batch: int,
    groups: int,
    channels: tuple[int, int],
    axes: list[Axis],
    layouts: tuple[Layout, Layout],
    machine: Machine,
    *,
    packs: bool,
) -> None:
    """Every output once, every address in its array, every meeting the relation's."""
    problem = Problem(
        wanted, batch, groups, *channels, tuple(axes), "float32", *layouts, Layout("gc f x")
    )

    check(problem, planned(problem, machine, packs=packs))


@pytest.mark.parametrize("wanted", list(Operand))
@pytest.mark.parametrize("layouts", [NXC, NCX])
def test_three_axes_pass(wanted: Operand, layouts: tuple[Layout, Layout]) -> None:
    """No file counts axes."""
    axes = (Axis(7, 4, 3, 2, 1, 1), Axis(5, 3, 2, 2, 1, 0), Axis(9, 4, 5, 2, 1, 2))
    problem = Problem(wanted, 1, 24, 1, 1, axes, "float32", *layouts, Layout("gc f x"))

    check(problem, planned(problem, AVX2))


@pytest.mark.parametrize("wanted", list(Operand))
def test_the_plan_that_is_changed_below_is_right(wanted: Operand) -> None:
    """Or refusing its changes would show nothing."""
    check(a_layer(wanted), cut(wanted))


@dataclass(frozen=True)
class Change:
    """A number of a plan that is wrong."""

    field: str  # of the record, or of the recipe
    by: int
    index: int = 0

    def __str__(self) -> str:
        """Print for the name of a test."""
        return f"{self.field}[{self.index}]{self.by:+}"

    def apply(self, recipe: Recipe) -> Recipe:
        """Return the recipe with the wrong number in it."""
        module = grouped if isinstance(recipe, Grouped) else grouped_weights
        if self.field not in module.FIELDS:
            return replace(recipe, **{self.field: getattr(recipe, self.field) + self.by})
        record = list(recipe.record)
        place = module.FIELDS[self.field]
        if self.field in module.ARRAYS:
            place = record[place] + self.index
        record[place] += self.by
        return replace(recipe, record=tuple(record))


CHANGES = [
    *(Change(name, -1) for name in ("items", "blocks", "block", "end", "phases", "outer_phases")),
    *(Change(name, -1, i) for name in ("outer_blocks", "outer_block", "ends") for i in (0, 1)),
    Change("straight", +1),
    *(Change(name, +1) for name in ("begin", "groups", "chunks", "items", "panels", "depth")),
    *(Change("phase_low", +1, i) for i in (0, 2, 3)),
    *(Change("phase_high", -1, i) for i in (0, 2, 3)),
    *(Change(name, by, i) for name, by in (("last_low", 1), ("last_high", -1)) for i in (0, 1)),
    *(Change(name, by) for name in ("size_in", "low_in") for by in (-1, 1)),
    *(Change(name, by, 1) for name in ("sizes_in", "lows_in") for by in (-1, 1)),
    *(Change(name, -1) for name in ("span", "step_in", "width", "panel_weights", "columns")),
    *(Change(name, -1, 1) for name in ("spans", "pitches", "steps_in")),
    *(Change("table", by, i) for by in (-1, 1, 16) for i in (0, 1, 2, 5)),
    *(Change(name, +1) for name in ("phase_weights", "row_start")),
    *(Change("stretch_low", by, i) for by in (-1, 1) for i in (0, 1)),
    *(Change("stretch_high", by, i) for by in (-1, 1) for i in (0, 1)),
    *(Change(f"stretch{name}", by) for name in ("es", "_count", "_start") for by in (-1, 1)),
    *(Change(f"kind{name}", by) for name in ("", "_start", "_count") for by in (-1, 9)),
    *(Change("meetings", by, i) for by in (-1, 1) for i in range(10)),
    *(Change("packed_meetings", by, i) for by in (-1, 1) for i in range(10)),
    *(Change("outer_offsets", by, i) for by in (-1, 1) for i in (0, 1, 3)),
    *(Change(name, +1) for name in ("last_kind", "outer_count", "apart")),
    Change("together", -(10**6)),
    *(Change(name, +1) for name in ("shift_out", "step_out")),
    *(Change(name, +1, i) for name in ("shifts_out", "steps_out") for i in (0, 1)),
    Change("scratch_sums", -16),
    *(Change(f"scratch_{name}", 10**6) for name in ("sums", "outer")),
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_layer_with_one_wrong_number_is_refused(change: Change) -> None:
    """Off by one, by one point or by far: each number of the tables counts."""
    with pytest.raises(InternalError):
        check(a_layer(Operand.FINE), change.apply(cut(Operand.FINE)))


CUT_CHANGES = [
    *(Change("last_kind", 9, i) for i in (0, 1)),
    *(Change("packed_meetings", by, 2) for by in (-1, 1)),
]


def test_rows_of_taps_that_are_cut_wrong_are_refused() -> None:
    """Both phases of the last axis have more taps than a kernel takes at once."""
    axes = (Axis(7, 4, 3, 2, 1, 1), Axis(22, 8, 12, 2, 1, 4))
    problem = Problem(Operand.FINE, 1, 24, 1, 1, axes, "float32", *NXC, Layout("gc f x"))
    recipe = planned(problem, AVX2)

    check(problem, recipe)
    assert isinstance(recipe, Grouped)
    assert {(kind.taps, kind.cut) for kind in recipe.kinds} >= {(3, True)}
    for change in CUT_CHANGES:
        with pytest.raises(InternalError):
            check(problem, change.apply(recipe))


WEIGHTS_CHANGES = [
    *(Change(name, by) for name in ("items", "all_blocks", "taps", "parts") for by in (-1, 1)),
    *(Change(name, -1) for name in ("blocks", "outer_blocks", "block", "outer_block", "end")),
    *(Change(name, +1) for name in ("groups", "panels", "chunks", "rows", "depth")),
    *(Change("low_in", by) for by in (-1, 1)),
    Change("size_in", -1),
    *(Change(name, by, 1) for name in ("sizes_in", "lows_in") for by in (-1, 1)),
    *(Change(name, -1) for name in ("span", "step_in", "width")),
    *(Change("outer_offsets", by, i) for by in (-1, 1) for i in (0, 1, 3)),
    *(Change("last_offsets", by, i) for by in (-1, 1) for i in (0, 1)),
    *(Change(name, +1) for name in ("last_kind", "last_piece", "last_count", "outer_count")),
    *(Change(f"scratch_{name}", -16) for name in ("coarse", "outer", "table")),
    *(Change(f"scratch_{name}", 10**6) for name in ("coarse", "outer", "table")),
]  # fmt: skip


@pytest.mark.parametrize("change", WEIGHTS_CHANGES, ids=str)
def test_weights_with_one_wrong_number_are_refused(change: Change) -> None:
    """The same for the tables of WEIGHTS."""
    with pytest.raises(InternalError):
        check(a_layer(Operand.WEIGHTS), change.apply(cut(Operand.WEIGHTS)))


def test_taps_in_the_wrong_place_are_refused() -> None:
    """A permutation leaves every address sound, and is still wrong."""
    recipe = cut(Operand.FINE)
    assert isinstance(recipe, Grouped)
    first, *others = recipe.runs
    swapped = replace(recipe, runs=(first[::-1], *others))

    with pytest.raises(InternalError, match="is not the relation's"):
        check(a_layer(Operand.FINE), swapped)
