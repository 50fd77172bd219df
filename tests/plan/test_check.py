"""Plans hold what kernels trust them with, and a plan that does not is refused."""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import a_problem
from tconv.bench.suite import Layer, load_suite
from tconv.errors import InternalError
from tconv.plan import Correlate, Gather, Plan, TapProducts, choose_plan, tap_products
from tconv.plan import correlate as correlate_plan
from tconv.plan import gather as gather_plan
from tconv.plan.check import check_plan
from tconv.plan.choose import tile_rows
from tconv.plan.correlate import plan_correlate
from tconv.plan.gather import plan_gather
from tconv.plan.machine import AVX2, AVX512, NEON, Machine
from tconv.problem import Axis, Layout, Operand, Problem

Recipe = Gather | Correlate

# Caches of some bytes cut even tiny problems into many blocks.
TINY = tuple(
    replace(machine, l1=first, l2=second, l3=16 * second)
    for machine in (AVX2, AVX512, NEON)
    for first, second in ((1, 1), (300, 500), (2000, 3000))
)
MACHINES = (AVX2, AVX512, NEON, *TINY)
POINT = 18  # channels: three whole tiles of rows, a wide panel and a narrow one


def planned(problem: Problem, machine: Machine) -> Plan:
    """Return the plan of the compiled algorithm, whatever else there may be to choose."""
    recipe: Recipe
    if problem.wanted is Operand.WEIGHTS:
        recipe = plan_correlate(problem, machine, tile_rows(machine))
    else:
        recipe = plan_gather(problem, machine)
    return Plan(problem, "test", "", (), (), recipe)


def checked(problem: Problem, machine: Machine) -> Plan:
    """Plan and check."""
    plan = planned(problem, machine)
    check_plan(plan, tile_rows=tile_rows(machine))
    return plan


def a_layer(wanted: Operand, channels: int = POINT) -> Problem:
    """Return a problem that leaves no number free: all reach past what they read on each side."""
    fine = (11, 15) if wanted is Operand.FINE else (9, 13)
    axes = (Axis(fine[0], 5, 4, 2, 1, 1), Axis(fine[1], 7, 3, 2, 1, 0))
    return Problem(
        wanted, 2, 2, channels, channels, axes, "float32",
        Layout("n gc x"), Layout("n gf x"), Layout("gc f x"),
    )  # fmt: skip


@cache
def cut(wanted: Operand) -> Plan:
    """Plan the layer for caches just small enough for several blocks, of several lines each."""
    problem = a_layer(wanted)
    for size in range(100_000, 1000, -1000):
        plan = planned(problem, replace(AVX2, l1=size // 4, l2=size, l3=16 * size))
        assert isinstance(plan.recipe, Gather | Correlate)
        block = plan.recipe.block
        if block[-2] < 5 and math.prod(block[:-1]) > 1:
            return plan
    pytest.fail("no cache is small enough, or every small one cuts lines apart")


@settings(deadline=None, max_examples=250)
@given(problem=a_problem(ranks=3, dtypes=("float32", "float64")), machine=st.sampled_from(MACHINES))
def test_every_plan_passes(problem: Problem, machine: Machine) -> None:
    """Every output once, every address in its array, every meeting the relation's."""
    checked(replace(problem, batch=max(problem.batch, 1)), machine)


@settings(deadline=None, max_examples=15)
@given(
    problem=a_problem(ranks=4, dtypes=("float32",)),
    channels=st.integers(1, 40),
    machine=st.sampled_from(MACHINES),
)
def test_four_axes_and_many_channels_pass_too(
    problem: Problem, channels: int, machine: Machine
) -> None:
    """Several panels, the last of them narrow or not, on any number of axes."""
    problem = replace(problem, batch=1, coarse_channels=channels, fine_channels=41 - channels)

    checked(problem, machine)


@pytest.mark.parametrize("wanted", list(Operand))
@pytest.mark.parametrize("channels", [1, 8, 9, 16, 17, 24, 25, 100])
def test_channels_around_the_panel_pass(wanted: Operand, channels: int) -> None:
    """Eight lanes and two vectors: panels are full, narrow, or wide with a rest."""
    checked(a_layer(wanted, channels), TINY[2])


# Checking these is a matter of a moment.
FEW_POINTS = [layer for layer in load_suite() if math.prod(layer.output_spatial) < 4000]


@pytest.mark.parametrize("layer", FEW_POINTS, ids=lambda layer: layer.name)
@pytest.mark.parametrize("wanted", list(Operand))
def test_real_layers_pass(layer: Layer, wanted: Operand) -> None:
    """Hundreds of channels, blocks as large as real caches allow."""
    checked(replace(layer.problem(wanted), batch=min(layer.batch, 2)), AVX2)


@pytest.mark.parametrize("wanted", list(Operand))
def test_the_plan_that_is_changed_below_is_right(wanted: Operand) -> None:
    """Or refusing its changes would show nothing."""
    check_plan(cut(wanted), tile_rows=tile_rows(AVX2))


def test_what_numpy_runs_has_nothing_to_check() -> None:
    """A plan without tables passes."""
    problem = a_layer(Operand.FINE)

    check_plan(Plan(problem, "tap products", "", (), (), tap_products(problem)))


@dataclass(frozen=True)
class Change:
    """A number of a plan that is wrong."""

    field: str  # of the record, or of the recipe
    by: int
    index: int = 0

    def __str__(self) -> str:
        """Print for the name of a test."""
        return f"{self.field}[{self.index}]{self.by:+}"

    def apply(self, plan: Plan) -> Plan:
        """Return the plan with the wrong number in it."""
        recipe = plan.recipe
        assert isinstance(recipe, Gather | Correlate)
        module = gather_plan if isinstance(recipe, Gather) else correlate_plan
        if self.field not in module.FIELDS:
            return replace(
                plan, recipe=replace(recipe, **{self.field: getattr(recipe, self.field) + self.by})
            )
        record = list(recipe.record)
        place = module.FIELDS[self.field]
        if self.field in module.ARRAYS:
            place = record[place] + self.index
        record[place] += self.by
        return replace(plan, recipe=replace(recipe, record=tuple(record)))


def refused(plan: Plan) -> str:
    """Return why a plan is refused."""
    with pytest.raises(InternalError) as caught:
        check_plan(plan, tile_rows=tile_rows(AVX2))
    return caught.value.wrong


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
    # weights
    *(Change(name, +1) for name in ("rows_before", "phase_weights", "panel_weights")),
    *(Change(name, -1) for name in ("panels", "wide_panels", "columns", "panels_a_chunk")),
    Change("group_weights", -1),
    # sums, tables and stores
    *(Change(name, -1) for name in ("points", "size_out", "step_out")),
    Change("sums_pitch", -2),
    Change("nowhere", -32),
    Change("nowhere", 10**6),
    Change("spare", -4),
    Change("spare", +1),
    *(Change(name, +1) for name in ("size_out", "shift_out")),
    *(Change(name, +1, i) for name in ("shifts_out", "steps_out") for i in (0, 1)),
    # scratch
    *(Change(f"scratch_{name}", -16) for name in ("sums", "rows", "places", "counts")),
    *(Change(f"scratch_{name}", 10**6) for name in ("sums", "rows", "places", "counts")),
    Change("scratch_rows", -1),
    Change("scratch", -16),
]  # fmt: skip


@pytest.mark.parametrize("change", GATHER_CHANGES, ids=str)
def test_a_gather_with_one_wrong_number_is_refused(change: Change) -> None:
    """Off by one, by one point or by far: each number of the tables counts."""
    refused(change.apply(cut(Operand.FINE)))


CORRELATE_CHANGES = [
    *(Change(name, -1) for name in ("items", "blocks", "outer_blocks", "block", "outer_block")),
    *(Change(name, -1) for name in ("end", "ends", "all_blocks", "taps", "panels", "rows")),
    *(Change(name, +1) for name in ("items", "all_blocks", "taps", "panels", "rows", "chunks")),
    Change("ends", -1, 1),
    *(Change(name, by) for name in ("chunk_rows", "wide_panels", "depth") for by in (-1, 1)),
    *(Change("lows_in", by, i) for by in (-1, 1) for i in (0, 1)),
    *(Change("sizes_in", by, 1) for by in (-1, 1)),
    *(Change(name, by) for name in ("size_in", "low_in") for by in (-1, 1)),
    *(Change("spans", -1, i) for i in (0, 1)),
    *(Change(name, -1, 1) for name in ("pitches", "steps_in")),
    *(Change(name, -1) for name in ("span", "step_in", "region")),
    *(Change("tap_offsets", by, i) for by in (-POINT, -1, 1, POINT) for i in (0, 5, 11)),
    *(Change(f"scratch_{name}", -16) for name in ("planes", "sums", "rows", "lines", "other")),
    *(Change(f"scratch_{name}", 10**6) for name in ("planes", "sums", "rows", "lines", "other")),
    Change("scratch", -16),
]  # fmt: skip


@pytest.mark.parametrize("change", CORRELATE_CHANGES, ids=str)
def test_a_correlation_with_one_wrong_number_is_refused(change: Change) -> None:
    """The same for the tables of WEIGHTS."""
    refused(change.apply(cut(Operand.WEIGHTS)))


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
    """Store two taps' sums in each other's place."""
    assert isinstance(recipe, Correlate)
    first, second, *others = recipe.taps
    return replace(recipe, taps=(second, first, *others))


@pytest.mark.parametrize(
    ("wanted", "change", "why"),
    [
        (Operand.FINE, swap_weights, "the sum of .* is not the relation's"),
        (Operand.COARSE, swap_weights, "the sum of .* is not the relation's"),
        (Operand.FINE, move_run, "packed weights overlap"),
        (Operand.WEIGHTS, swap_taps, "taps are not all stored once"),
    ],
)
def test_taps_in_the_wrong_place_are_refused(
    wanted: Operand, change: Callable[[Recipe], Recipe], why: str
) -> None:
    """A permutation leaves every address sound, and is still wrong."""
    plan = cut(wanted)
    assert isinstance(plan.recipe, Gather | Correlate)

    with pytest.raises(InternalError, match=why):
        check_plan(replace(plan, recipe=change(plan.recipe)))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (Change("ends", -1, 1), "outputs are never written."),
        (Change("size_out", +1), "a store leaves the target."),
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
    assert refused(change.apply(cut(Operand.FINE))) == why


def test_tables_of_another_problem_are_refused() -> None:
    """The check knows the problem, not only the tables."""
    plan = cut(Operand.FINE)
    axis = replace(plan.problem.axes[0], dilation=2)
    other = replace(plan.problem, axes=(axis, *plan.problem.axes[1:]))

    assert "is not the relation's" in refused(replace(plan, problem=other))


@pytest.mark.parametrize("layer", load_suite(), ids=lambda layer: layer.name)
@pytest.mark.parametrize("wanted", list(Operand))
def test_planning_a_layer_of_the_suite_takes_no_time_and_no_room(
    layer: Layer, wanted: Operand
) -> None:
    """1 ms for an ordinary layer (5 here: machines are noisy), and no table of points.

    Windows of hundreds of taps are not ordinary.
    """
    problem = layer.problem(wanted)
    times = []
    for _ in range(9):
        start = time.thread_time()
        plan = planned(problem, AVX2)
        times.append(time.thread_time() - start)
    milliseconds = 1e3 * statistics.median(times)
    print(f"{layer.name} {wanted.name}: planned in {milliseconds:.3f} ms")  # noqa: T201 - asked for

    assert isinstance(plan.recipe, Gather | Correlate)
    assert len(plan.recipe.record) <= most_numbers(problem)
    if len(layer.spatial) == 2 and math.prod(layer.kernel) < 100:
        assert milliseconds < 5


def most_numbers(problem: Problem) -> int:
    """Return how long a record may be: some numbers for each tap and for each coordinate."""
    extents = sum(axis.fine_size + axis.coarse_size for axis in problem.axes)
    return 100 + 20 * len(problem.axes) + 8 * (extents + math.prod(a.taps for a in problem.axes))


@pytest.mark.parametrize("wanted", list(Operand))
def test_a_larger_picture_has_no_larger_record(wanted: Operand) -> None:
    """Tables know taps and phases; points are counted by kernels."""
    sizes = []
    for points in (8, 64, 4096):
        axes = tuple(Axis(2 * points, points, 4, 2, 1, 1) for _ in range(2))
        recipe = planned(replace(a_layer(wanted), axes=axes), AVX2).recipe
        assert isinstance(recipe, Gather | Correlate)
        sizes.append(len(recipe.record))

    assert len(set(sizes)) == 1


@pytest.mark.parametrize("wanted", list(Operand))
def test_a_long_stride_needs_no_table_of_its_square(wanted: Operand) -> None:
    """Most phases of a stride far above the window are empty: then none are listed."""
    axes = tuple(Axis(202, 3, 2, 100, 1, 0) for _ in range(2))
    problem = replace(a_layer(wanted), axes=axes)
    recipe = choose_plan(problem, AVX2, "").recipe

    assert isinstance(recipe, TapProducts) or len(recipe.record) <= most_numbers(problem)
