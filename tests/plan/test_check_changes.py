"""A plan with a wrong number in it is refused: a check that cannot fail is worth nothing."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from plan.correlations import CASES, plan_of
from plan.plans import (
    POINT,
    Change,
    Recipe,
    a_layer,
    caches,
    changes,
    checked,
    plans,
    refused,
)
from tconv.errors import InternalError
from tconv.plan import Correlate, Gather, Plan, Planes, Strips
from tconv.plan import correlate as correlate_plan
from tconv.plan import gather as gather_plan
from tconv.plan import planes as planes_plan
from tconv.plan import strips as strips_plan
from tconv.plan.machine import AVX2
from tconv.problem import Axis, Operand


@cache
def cut(wanted: Operand, algorithm: str) -> Plan:
    """Plan for caches just small enough for several blocks, of several lines each."""
    which = ("gather", "planes", "strips").index(algorithm)
    problem = a_layer(wanted, 3, 3) if which else a_layer(wanted)
    problem = replace(problem, groups=7 if which else 2)
    for size in range(100_000, 1000, -1000):
        plan = [*plans(problem, caches(size))][which]
        assert isinstance(plan.recipe, Gather | Planes | Strips)
        block = plan.recipe.block
        if block[-2] < 5 and math.prod(block[:-1]) > 1:
            return plan
    pytest.fail("no cache is small enough, or every small one cuts lines apart")


DATA = (Operand.FINE, Operand.COARSE)


@cache
def at_borders(wanted: Operand) -> Plan:
    """Plan for a picture that windows mostly miss: segments are listed."""
    axes = (Axis(4, 4, 5, 1, 1, 2), Axis(5, 5, 3, 1, 2, 2))
    problem = replace(a_layer(wanted, 40, 40), axes=axes, groups=1)
    (plan,) = plans(problem, caches(20_000))
    assert isinstance(plan.recipe, Gather)
    assert plan.recipe.record[gather_plan.FIELDS["words"]] > 0
    return plan


@cache
def deep(wanted: Operand) -> Plan:
    """Plan strips of three axes: planes of the outer one lie behind each other."""
    axes = Axis(6, 5, 2, 1, 1, 0), Axis(9, 5, 4, 2, 1, 1), Axis(13, 7, 3, 2, 1, 1)
    problem = replace(a_layer(wanted, 1, 1), axes=axes, groups=3)
    return [*plans(problem, caches(20_000))][-1]


def all_plans(kind: type[Recipe]) -> list[Plan]:
    """Return the plans of an algorithm that are changed here."""
    if kind is Correlate:
        return [plan_of(case) for case in CASES]
    borders = [at_borders(wanted) for wanted in DATA] if kind is Gather else []
    borders += [deep(wanted) for wanted in DATA] if kind is Strips else []
    return borders + [cut(wanted, kind.__name__.lower()) for wanted in DATA]


@pytest.mark.parametrize("kind", [Gather, Planes, Strips, Correlate])
def test_the_plans_that_are_changed_below_are_right(kind: type[Recipe]) -> None:
    """Or refusing their changes would show nothing."""
    for plan in all_plans(kind):
        checked(plan, AVX2)


# Numbers that are none of a plan's: calls fill them in, or kernels never read them.
ADDRESSES = ("source", "target", "weights", "bias", "call", "side_a", "side_b", "flag", "common")
STEPS = ("source_g", "source_c", "source_x", "target_g", "target_c", "target_x", "target_row",
         "target_column", "tap_run", "stream", "source_steps", "target_steps", "target_taps",
         "activate", "slope", "zeros")  # fmt: skip
SIDE_STEPS = tuple(f"{s}_{name}" for s in "ab" for name in ("g", "c", "x", "source_steps"))
FREE = {*ADDRESSES, *STEPS, *SIDE_STEPS, "segments_in_place", "afar"}  # that one is only of time
UNREAD = {"size_out", "span"}  # of planes, whose phases say it

FIELDS = [
    *((Gather, name) for name in gather_plan.FIELDS if name not in FREE),
    *((Planes, name) for name in planes_plan.FIELDS if name not in FREE | UNREAD),
    *((Strips, name) for name in strips_plan.FIELDS if name not in FREE),
    *((Correlate, name) for name in correlate_plan.FIELDS if name not in FREE),
]


@pytest.mark.parametrize(
    ("kind", "field"), FIELDS, ids=[f"{kind.__name__} {name}" for kind, name in FIELDS]
)
def test_every_number_of_a_record_counts(kind: type[Recipe], field: str) -> None:
    """Off by one, zero or far too large: some plan is refused for it."""

    def is_refused(plan: Plan, change: Change) -> bool:
        try:
            checked(change.apply(plan), AVX2)
        except InternalError:
            return True
        return False

    assert any(is_refused(plan, c) for plan in all_plans(kind) for c in changes(plan, field))


GATHER_CHANGES = [
    # too few or too many work items, blocks and phases
    *(Change(name, -1) for name in ("items", "blocks", "block", "end", "phases", "outer_phases")),
    *(Change(name, -1, i) for name in ("outer_blocks", "outer_block", "ends") for i in (0, 1)),
    *(Change(name, +1) for name in ("begin", "groups", "chunks", "items")),
    *(Change("begins", +1, i) for i in (0, 1)),
    *(Change("phase_low", +1, i) for i in (0, 2, 3)),
    *(Change("phase_high", -1, i) for i in (0, 2, 3)),
    *(Change("last_low", +1, i) for i in (0, 1)),
    *(Change("last_high", -1, i) for i in (0, 1)),
    Change("axis_phases", -1, 1),
    # what is read
    *(Change(name, by) for name in ("size_in", "low_in") for by in (-1, 1)),
    *(Change(name, by, 1) for name in ("sizes_in", "lows_in") for by in (-1, 1)),
    *(Change(name, -1) for name in ("span", "depth", "step_in")),
    *(Change(name, -1, 1) for name in ("spans", "pitches", "steps_in")),
    *(Change("segments", by, i) for by in (-POINT, -1, 1, POINT) for i in (0, 3, 7)),
    *(Change(name, -1) for name in ("segment_count", "segment_depth", "segment_start")),
    Change("segment_depth", -POINT),
    Change("segment_start", +1, 2),
    *(Change(name, -1000) for name in ("part_segments", "part_depth", "segment_count")),
    # weights
    *(Change(name, +1) for name in ("rows_before", "phase_weights", "panel_weights")),
    *(Change(name, -1) for name in ("panels", "wide_panels", "columns", "panels_a_chunk")),
    Change("group_weights", -1),
    # sums, tables and stores
    *(Change(name, -1) for name in ("points", "size_out", "step_out")),
    *(Change(name, -1000) for name in ("points", "sums_pitch")),
    Change("sums_pitch", -2),
    Change("spare", -4),
    Change("spare", +1),
    Change("blank", +1, 3),
    Change("sums_point", +1),
    Change("sums_panel", -(10**6)),
    *(Change(name, +1) for name in ("size_out", "shift_out")),
    *(Change(name, +1, i) for name in ("shifts_out", "steps_out") for i in (0, 1)),
    # scratch
    *(Change(f"scratch_{name}", -16) for name in ("sums", "places", "targets", "counts")),
    Change("scratch_rows", -1000),
    *(Change(f"scratch_{name}", 10**6) for name in ("sums", "rows", "places", "targets")),
    Change("scratch_rows", -1),
    Change("scratch", -16),
]  # fmt: skip


@pytest.mark.parametrize("change", GATHER_CHANGES, ids=str)
def test_a_gather_with_one_wrong_number_is_refused(change: Change) -> None:
    """Off by one, by one point or by far: each number of the tables counts."""
    refused(change.apply(cut(Operand.FINE, "gather")))


PLANES_SCRATCH = ("sums", "lines", "targets")
PLANES_CHANGES = [
    *(Change(name, -1) for name in ("items", "blocks", "phases", "outer_phases")),
    *(Change(name, by) for name in ("chunks", "groups", "depth", "columns") for by in (-1, 1)),
    *(Change(name, by) for name in ("size_in", "low_in", "step_in", "residue") for by in (-1, 1)),
    *(Change(name, by, 1) for name in ("sizes_in", "lows_in", "pitches") for by in (-1, 1)),
    *(Change("segments", by, i) for by in (-1, 1) for i in (0, 3, 7)),
    *(Change(name, by) for name in ("phase_weights", "segment_counts") for by in (-1, 1)),
    *(Change("segment_counts", by, i) for by in (-1, 1) for i in (1, 2)),
    *(Change(name, by) for name in ("panels", "panel_weights", "run") for by in (-1, 1)),
    *(Change(name, +1, 1) for name in ("phase_weights", "segment_start", "steps_out")),
    *(Change(name, by) for name in ("step_out", "shift_out", "row") for by in (-1, 1)),
    *(Change(name, -1) for name in ("group_weights", "lines", "sums_pitch", "rows")),
    *(Change(f"scratch_{name}", by) for name in PLANES_SCRATCH for by in (-200, 10**6)),
    Change("scratch", -16),
]


@pytest.mark.parametrize("change", PLANES_CHANGES, ids=str)
def test_planes_with_one_wrong_number_are_refused(change: Change) -> None:
    """The same for vectors along points."""
    refused(change.apply(cut(Operand.FINE, "planes")))


STRIPS_CHANGES = [
    *(Change(name, -1) for name in ("items", "blocks", "phases", "outer_phases", "chunks")),
    *(Change(name, by) for name in ("groups", "depth", "columns", "apart") for by in (-1, 1)),
    *(Change(name, by) for name in ("size_in", "low_in", "step_in", "line") for by in (-1, 1)),
    *(Change(name, by, 1) for name in ("sizes_in", "lows_in", "read_steps") for by in (-1, 1)),
    *(Change("segments", by, i) for by in (-1, 1) for i in (0, 3, 7)),
    *(Change(name, by) for name in ("phase_weights", "segment_start") for by in (-1, 1)),
    *(Change("segment_counts", by, 3) for by in (-1, 1)),
    *(Change(name, by) for name in ("step_out", "shift_out", "shared") for by in (-1, 1)),
    *(Change(name, -1) for name in ("column_weights", "sums_pitch", "sums_apart", "merged")),
    Change("plane", -1),
    *(Change("scratch_sums", by) for by in (-200, 10**6)),
    *(Change("at_once", by) for by in (-1000, 1000)),
    Change("scratch", -400),
]


@pytest.mark.parametrize("change", STRIPS_CHANGES, ids=str)
def test_strips_with_one_wrong_number_are_refused(change: Change) -> None:
    """The same for tiles of lines."""
    refused(change.apply(cut(Operand.FINE, "strips")))


@pytest.mark.parametrize("name", ["line_residue", "column_residue"])
@pytest.mark.parametrize("by", [-1, 1])
def test_residues_of_strips_are_packed_where_they_are_read(name: str, by: int) -> None:
    """With a stride, neighbours that points read lie in planes of their own."""
    refused(Change(name, by).apply(cut(Operand.COARSE, "strips")))


def swap_weights(recipe: Recipe) -> Recipe:
    """Let two taps of a phase change places in the packed weights."""
    assert isinstance(recipe, Gather)
    first, *others = recipe.runs
    swapped = replace(first, taps=(first.taps[1], first.taps[0], *first.taps[2:]))
    return replace(recipe, runs=(swapped, *others))


def move_run(recipe: Recipe) -> Recipe:
    """Pack one phase's weights over another's."""
    assert isinstance(recipe, Gather)
    first, second, *others = recipe.runs
    return replace(recipe, runs=(first, replace(second, first_row=first.first_row), *others))


def swap_taps(recipe: Recipe) -> Recipe:
    """Pack two taps in each other's place."""
    assert isinstance(recipe, Planes)
    first, second, *others = recipe.taps
    return replace(recipe, taps=(second, first, *others))


WRONG_SUM = "the sum of .* is not the relation's"


@pytest.mark.parametrize(
    ("wanted", "change", "why"),
    [
        (Operand.FINE, swap_weights, WRONG_SUM),
        (Operand.COARSE, swap_weights, WRONG_SUM),
        (Operand.FINE, move_run, "packed weights overlap"),
        (Operand.FINE, swap_taps, WRONG_SUM),
        (Operand.COARSE, swap_taps, WRONG_SUM),
    ],
)
def test_taps_in_the_wrong_place_are_refused(
    wanted: Operand, change: Callable[[Recipe], Recipe], why: str
) -> None:
    """A permutation leaves every address sound, and is still wrong."""
    plan = cut(wanted, "planes" if change is swap_taps else "gather")
    assert isinstance(plan.recipe, Gather | Planes)

    assert re.search(why, refused(replace(plan, recipe=change(plan.recipe))))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (Change("ends", -1, 1), "outputs are never written."),
        (Change("size_out", +1), "an output is stored that was not summed."),
        (Change("size_in", +1), "packing reads outside the source."),
        (Change("segments", +POINT), "the sum of (0, 1, 0) is not the relation's."),
        (Change("segments", +1), "a tile reads what was not packed."),
        (Change("scratch_sums", -16), "parts of the scratch overlap."),
        (Change("points", -1), "two phases share an entry of the tables."),
        (Change("sums_pitch", -2), "two outputs are summed in one place."),
        (Change("group_weights", -1), "weights are packed for another record."),
    ],
    ids=str,
)
def test_the_refusal_says_what_is_wrong(change: Change, why: str) -> None:
    """The first thing found is what the message names."""
    assert refused(change.apply(cut(Operand.FINE, "gather"))) == why


def test_tables_of_another_problem_are_refused() -> None:
    """The check knows the problem, not only the tables."""
    for plan in (cut(Operand.FINE, "gather"), cut(Operand.FINE, "planes"), plan_of("natural")):
        axis = replace(plan.problem.axes[0], dilation=2)
        other = replace(plan.problem, axes=(axis, *plan.problem.axes[1:]))
        why = refused(replace(plan, problem=other))

        assert "is not the relation's" in why or "meets another" in why


def needed_bits(plan: Plan) -> list[tuple[int, int]]:
    """Return where a record tells which residues are packed, and each bit that is set there."""
    record = plan.recipe.record  # type: ignore[union-attr] # gathers and planes have one
    fields = gather_plan.FIELDS if isinstance(plan.recipe, Gather) else planes_plan.FIELDS
    places = [record[fields["needed"]] + 1]  # the batch is the first axis
    places += [fields["needed_last"]] if isinstance(plan.recipe, Planes) else []
    return [(place, bit) for place in places for bit in range(5) if record[place] >> bit & 1]


@pytest.mark.parametrize("which", [0, 1], ids=["gather", "planes"])
def test_lines_that_taps_read_must_be_packed(which: int) -> None:
    """Two taps, two apart, read two residues of a stride of five on each axis."""
    axis = Axis(5 * 5 + 3, 6, 2, 5, 2, 0)
    problem = replace(a_layer(Operand.COARSE, 3, 3), axes=(axis, axis), groups=1)
    plan = [*plans(problem, caches(4000))][which]
    assert isinstance(plan.recipe, Gather | Planes)
    checked(plan, AVX2)
    bits = needed_bits(plan)

    assert len(bits) == 2 * (1 + which)
    for place, bit in bits:
        record = list(plan.recipe.record)
        record[place] -= 1 << bit
        wrong = replace(plan, recipe=replace(plan.recipe, record=tuple(record)))
        with pytest.raises(InternalError, match="reads what was not packed"):
            checked(wrong, AVX2)
