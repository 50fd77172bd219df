"""A correlation with a wrong number in it is refused, in every form that it can take."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from plan.correlations import NATURAL, layer, plan_of
from plan.plans import Change, Form, refused
from tconv.plan import Correlate
from tconv.plan import correlate as correlate_plan
from tconv.plan.machine import AVX2, AVX512
from tconv.plan.sides import FAR

# Refused in both forms.
CORRELATE_CHANGES = [
    *(Change(name, by) for name in ("items", "stores", "taps") for by in (-1, 1)),
    *(Change(name, by) for name in ("rows", "columns") for by in (-1, 1)),
    *(Change(name, -1) for name in ("blocks", "panels", "block", "end", "wide_panels")),
    *(Change(name, -1, 1) for name in ("outer_blocks", "outer_block", "ends")),
    *(Change(name, by) for name in ("outer", "all_blocks", "panel_chunks") for by in (-1, 1)),
    *(Change(f"{side}_{name}", by) for side in "ab" for by in (-1, 1)
      for name in ("low", "width", "combinations", "channels")),
    *(Change(f"{side}_lows", by, i) for side in "ab" for by in (-1, 1) for i in (0, 1)),
    *(Change("b_last_residues", by, 0) for by in (-1, 1)),
    *(Change(f"{side}_residues", by, 1) for side in "ab" for by in (-1, 1)),
    *(Change("row_offsets", by, i) for by in (-1, 1) for i in (0, 5, 17)),
    *(Change("shifts", by) for by in (-1, 1)),
    *(Change(f"{side}_pitches", -1, 1) for side in "ab"),
    *(Change(name, by) for name in ("plane", "a_plane") for by in (-1, 1)),
    *(Change(name, -1) for name in ("a_most", "sums", "pieces", "a_halo")),
    Change("run_points", -1000),
    *(Change(f"scratch_{name}", by) for by in (-16, 10**6)
      for name in ("b", "sums", "a_table", "b_table", "reads", "places")),
    Change("scratch", -16),
]  # fmt: skip


@pytest.mark.parametrize("change", CORRELATE_CHANGES, ids=str)
@pytest.mark.parametrize("case", ["natural", "swapped", "groups"])
def test_a_correlation_with_one_wrong_number_is_refused(case: str, change: Change) -> None:
    """The same for the tables of WEIGHTS, whichever side is A."""
    refused(change.apply(plan_of(case)))


# Refused in one form: the case, and what is wrong.
MORE_CHANGES = [
    *((case, Change("a_last_residues", by, 0)) for by in (-1, 1)
      for case in ("natural", "swapped, windows apart")),
    *((case, Change("panel_sums", -1))
      for case in ("shared, panels together", "pieces, panels together")),
    ("natural", Change("b_pitches", +1, 1)),
    ("swapped", Change("a_pitches", +1, 1)),
    ("images and lines are one run", Change("a_pitches", +1, 1)),
    ("natural", Change("b_halos", -1, 1)),
    *((case, Change("b_halo", -1)) for case in ("swapped", "images and lines are one run")),
    *(("natural", Change("meets_from", +1, i)) for i in (1, 2, 4, 5)),
    *(("natural", Change("meets_to", -1, i)) for i in (1, 2, 4, 5)),
    *(("images and lines are one run", Change("meets_from", +1, i)) for i in (0, 1)),
    ("swapped", Change("meets_from", +1, 1)),
    *(("natural", Change("scratch_run", by)) for by in (-16, 10**6)),
    ("natural", Change("b_steps", -1, 1)),
    ("natural", Change("b_sizes", +1, 1)),
    ("natural", Change("b_size", +1)),
    ("natural", Change("b_slack", -FAR)),
    *(("natural", Change("shifts", by, i)) for by in (-1, 1) for i in (1, 5, 11)),
    ("swapped", Change("a_halos", -1, 1)),
    ("swapped", Change("a_steps", -1, 1)),
    ("swapped", Change("a_contiguous", +1)),
    ("swapped", Change("swapped", -1)),
    *(("swapped", Change("row_offsets", by, 23)) for by in (-1, 1)),
    ("lines cut", Change("row_offsets", 10**6, 7)),  # of a row that no channel has
    ("lines cut", Change("a_step", +1)),
    ("lines apart", Change("split", +1)),
    ("lines apart", Change("split", -1)),
    ("images and lines are one run", Change("split", +2)),
    *(("pieces", Change(name, by)) for name in ("pieces", "items") for by in (-1, 1)),
    ("pieces", Change("stores", -1)),
    ("swapped, pieces", Change("sums", +8)),
    *(("chunks", Change(name, by)) for by in (-1, 1)
      for name in ("tap_chunks", "row_chunks", "panel_chunks", "chunk_rows", "chunk_panels")),
    ("chunks", Change("chunk_taps", -1)),
    *((case, Change(name, by)) for case in ("shared", "swapped, shared") for by in (-1, 1)
      for name in ("packs", "pack_a_chunks", "pack_b_chunks", "pack_b")),
    *(("shared", Change(name, by)) for name, by in (("pack_a", 1), ("shared", -1), ("shared_b", 1),
      ("shared_b", -1), ("chunk_rows", 1), ("pieces", 1))),
    ("swapped, shared", Change("shared", -1)),
    ("pieces", Change("sums_step", -1)),
    ("shared", Change("block_tiles", 1)),
    *(("chunks", Change(name, by)) for name in ("a_most", "b_most") for by in (-1, 1)),
    ("chunks", Change("row_offsets", -1, 12)),
    ("swapped, chunks", Change("chunk_taps", -1)),
    ("swapped, chunks", Change("row_chunks", +1)),
    ("a single point", Change("b_last_residues", +1, 2)),
    ("windows apart", Change("b_contiguous", +1)),
    ("windows apart", Change("b_width", -1)),
    ("swapped, windows apart", Change("a_contiguous", +1)),
    *((case, Change(name, by)) for by in (-1, 1) for name in ("a_beside", "a_next", "a_scale")
      for case in ("swapped, lines as they lie", "swapped, channels last")),
    *(("natural", Change(name, by)) for name in ("a_next", "b_scale") for by in (-1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("case", "change"), MORE_CHANGES, ids=str)
def test_a_form_with_one_wrong_number_is_refused(case: str, change: Change) -> None:
    """What only some correlations use."""
    refused(change.apply(plan_of(case)))


def test_a_run_that_goes_over_places_of_another_block_is_refused() -> None:
    """Inner axes are cut only where no run goes on behind their end.

    A shorter last block leaves what the block before it packed between its lines.
    """
    plan = Form(NATURAL, block=(1, 5, 4), split=1).plan(layer(7, 9), AVX2)

    assert refused(plan) == "a tile reads what was not packed."


@pytest.mark.parametrize("case", ["pieces", "shared", "swapped, shared"])
def test_pieces_without_room_for_what_all_workers_see_are_refused(case: str) -> None:
    """Sums are kept until all are added, shared sides until all work items are done."""
    plan = plan_of(case)
    assert isinstance(plan.recipe, Correlate)
    recipe = replace(plan.recipe, common=plan.recipe.common - 1)

    assert refused(replace(plan, recipe=recipe)) == "there is no room for what all workers see."


def test_a_plan_for_lower_tiles_is_refused() -> None:
    """Tables and sums are laid out for tiles of one height."""
    assert refused(plan_of("natural"), AVX512) == "channels lie side by side in part."


def swap_taps(recipe: Correlate) -> Correlate:
    """Store two taps in each other's place."""
    first, second, *others = recipe.taps
    return replace(recipe, taps=(second, first, *others))


def swap_entries(field: str) -> Callable[[Correlate], Correlate]:
    """Let the first two entries of a table change places."""

    def swap(recipe: Correlate) -> Correlate:
        record = list(recipe.record)
        first = record[correlate_plan.FIELDS[field]]
        record[first], record[first + 1] = record[first + 1], record[first]
        return replace(recipe, record=tuple(record))

    swap.__name__ = field
    return swap


@pytest.mark.parametrize(
    ("case", "change", "why"),
    [
        ("natural", swap_taps, "taps are not all stored once"),
        ("natural", swap_entries("shifts"), "a point meets another"),
        ("natural", swap_entries("row_offsets"), "a row is another channel"),
        ("swapped", swap_entries("row_offsets"), "a row is another channel"),
        ("windows apart", swap_entries("b_last_residues"), "packing reads outside a side"),
    ],
)
def test_what_changes_places_is_refused(
    case: str, change: Callable[[Correlate], Correlate], why: str
) -> None:
    """A permutation leaves every address sound, and is still wrong."""
    plan = plan_of(case)
    assert isinstance(plan.recipe, Correlate)

    assert re.search(why, refused(replace(plan, recipe=change(plan.recipe))))


@pytest.mark.parametrize(
    ("case", "change", "why"),
    [
        ("natural", Change("b_size", +1), "packing reads outside a side."),
        ("natural", Change("plane", -1), "two points are packed in one place."),
        ("natural", Change("ends", -1, 1), "a block is empty."),
        ("lines cut", Change("end", -1), "points are not all summed once."),
        ("natural", Change("scratch_b", -16), "parts of the scratch overlap."),
        ("natural", Change("run_points", -1000), "the number run_points is not positive."),
        ("pieces", Change("pieces", +4), "pieces are not all added and stored once."),
        ("chunks", Change("chunk_rows", -1), "a row is a channel that was not packed."),
        ("chunks", Change("chunk_panels", +1), "a work item has no panel."),
        ("chunks", Change("chunk_panels", -1), "work items do not take every sum once."),
        ("swapped, chunks", Change("chunk_taps", -1), "a run of taps ends inside a work item."),
    ],
    ids=str,
)
def test_the_refusal_of_a_correlation_says_it_too(case: str, change: Change, why: str) -> None:
    """In the words of both sides."""
    assert refused(change.apply(plan_of(case))) == why


@pytest.mark.parametrize("name", ["shifts", "row_offsets", "a_last_residues"])
def test_an_array_that_begins_inside_another_is_refused(name: str) -> None:
    """Arrays follow each other in the record."""
    plan = plan_of("natural")
    assert isinstance(plan.recipe, Correlate)
    record = list(plan.recipe.record)
    record[correlate_plan.FIELDS[name]] = 0
    recipe = replace(plan.recipe, record=tuple(record))

    assert refused(replace(plan, recipe=recipe)).startswith("an array of the record begins")
