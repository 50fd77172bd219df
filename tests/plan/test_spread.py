"""Smaller problems whose results are spread: which they are, where they go, and when they pay."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plan.plans import MACHINES, Change, checked, refused
from strategies import a_problem
from tconv.plan import Plan, Spread, choose_plan, spreading
from tconv.plan import spread as spread_module
from tconv.plan import spread_parts as parts_module
from tconv.plan.choose import spread_plan
from tconv.plan.count import count_plan
from tconv.plan.machine import AVX2, Machine
from tconv.plan.smaller import denser_axis, product_axis, smaller_problem
from tconv.problem import Axis, Layout, Operand, Problem

LAYOUTS = {"NCX": "n {} x", "NXC": "n x {}"}


def a_layer(  # noqa: PLR0913 - a problem has many numbers
    axes: tuple[Axis, ...],
    channels: tuple[int, int] = (5, 3),
    *,
    batch: int = 2,
    groups: int = 1,
    dtype: str = "float32",
    layout: str = "NCX",
) -> Problem:
    """Return FINE with some axes; channels are read ones, and written ones."""
    coarse, fine = (Layout(LAYOUTS[layout].format(letter)) for letter in ("gc", "gf"))
    weights = Layout("gc f x")
    return Problem(Operand.FINE, batch, groups, *channels, axes, dtype, coarse, fine, weights)


def spread(problem: Problem, machine: Machine = AVX2) -> Plan:
    """Return the plan that spreads a smaller result, whatever it costs."""
    worth = spreading(problem, machine)
    assert worth is not None
    return spread_plan(problem, machine, worth, ())


@settings(deadline=None, max_examples=200)
@given(
    problem=a_problem(),
    machine=st.sampled_from(MACHINES),
    chunk=st.sampled_from((64, 200, 1000, 16 << 10)),
    cuts=st.sampled_from(((1, 1 << 40, 1), (100, 1, 1), (100, 5, 2), (64, 32 << 10, 64))),
)
def test_any_plan_writes_every_output_once(
    problem: Problem, machine: Machine, chunk: int, cuts: tuple[int, int, int]
) -> None:
    """With several groups, holes, crops and chunks of a few points."""
    beside = str(problem.fine_layout).endswith("f")
    layout = Layout(LAYOUTS["NXC" if beside else "NCX"].format("gf"))
    problem = replace(problem, wanted=Operand.FINE, batch=max(1, problem.batch), fine_layout=layout)
    if smaller_problem(problem) is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spread_module, "CHUNK", chunk)
        for name, value in zip(("PARTS", "LEAST", "MOST_POINTS"), cuts, strict=True):
            patch.setattr(parts_module, name, value)
        if spreading(problem, machine) is not None:
            checked(spread(problem, machine), machine)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("pad", range(8))
@pytest.mark.parametrize(("taps", "stride", "dilation"), [
    (1, 2, 1), (1, 5, 1), (2, 3, 1), (2, 2, 1), (3, 4, 1), (2, 5, 3), (2, 4, 2), (3, 2, 2),
    (2, 5, 7), (4, 4, 1),
])  # fmt: skip
def test_lines_with_crops_and_holes(
    taps: int, stride: int, dilation: int, pad: int, layout: str
) -> None:
    """Some taps of the first and the last cells may be cut off, or all."""
    for size in (1, 3, 9, 12):
        window = (taps - 1) * dilation + 1
        for more in (0, 1, 4):
            fine = stride * (size - 1) + window - pad + more
            if fine <= 0:
                continue
            axis = Axis(fine, size, taps, stride, dilation, pad)
            problem = a_layer((Axis(5, 2, 1, 3, 1, 0), axis), layout=layout)
            checked(spread(problem), AVX2)


CHANGES = [
    Change("entry_read", 1), Change("entry_write", 1), Change("entry_count", -1),
    Change("entry_length", 1), Change("entry_cell", 1), Change("places", 1), Change("places", 1, 3),
    Change("tables", 1), Change("cell_reads", 1), Change("step", 1), Change("base", 1),
    Change("size", 1), Change("rows", -1), Change("row_chunk", -1), Change("compact_image", 1),
    Change("compact_channel", 1), Change("planes", 1), Change("blanks", -1), Change("period", 1),
    Change("chunks", 1), Change("scratch_blank", -96), Change("compact", -1),
    Change("scratch", -16),
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_wrong_number_is_refused(change: Change) -> None:
    """Each of those that kernels go by."""
    axes = (Axis(11, 4, 2, 3, 1, 0), Axis(35, 12, 2, 3, 1, 0))
    plan = checked(spread(a_layer(axes, batch=3)), AVX2)
    recipe = plan.recipe
    assert isinstance(recipe, Spread)
    one, *others = recipe.variants
    if change.field in spread_module.FIELDS:
        record, place = list(one.record), spread_module.FIELDS[change.field]
        if change.field in spread_module.ARRAYS:
            place = record[place] + change.index
        record[place] += change.by
        one = replace(one, record=tuple(record))
    else:
        one = replace(one, **{change.field: getattr(one, change.field) + change.by})
    assert refused(replace(plan, recipe=replace(recipe, variants=(one, *others))))


def test_parts_that_do_not_make_up_the_whole_are_refused() -> None:
    """Slabs and images: one left out, twice, elsewhere, or another."""
    axes = (Axis(95, 32, 2, 3, 1, 0), Axis(191, 64, 2, 3, 1, 0))
    for batch, cut in ((1, 0), (16, None)):
        plan = checked(spread(a_layer(axes, (5, 3), batch=batch)), AVX2)
        recipe = plan.recipe
        assert isinstance(recipe, Spread)
        assert recipe.axis == cut
        (variant, read, write), *others = recipe.parts
        wrong = [
            others,
            [(variant, read, write), *recipe.parts],
            [(variant, read + 1, write), *others],
            [(variant, read, write + 1), *others],
            [(variant + 9, read, write), *others],
        ]
        for parts in wrong:
            changed = replace(recipe, parts=tuple(parts))
            assert refused(replace(plan, recipe=changed))
        assert refused(replace(plan, recipe=replace(recipe, items=recipe.items - 1)))


def a_square(points: int, stride: int, taps: int, dilation: int = 1) -> tuple[Axis, ...]:
    """Return two axes without padding."""
    size = stride * (points - 1) + (taps - 1) * dilation + 1
    return (Axis(size, points, taps, stride, dilation, 0),) * 2


@pytest.mark.parametrize(("axes", "channels", "groups"), [
    (a_square(7, 16, 16), (1024, 21), 1),
    ((Axis(1, 1, 1, 1, 1, 0), Axis(79998, 20000, 2, 4, 1, 0)), (64, 3), 1),
    (a_square(150, 4, 3, 4), (64, 5), 1),
    (a_square(128, 4, 2), (32, 3), 4),
    ((Axis(6401, 65, 1, 100, 1, 0),), (4, 512), 1),
])  # fmt: skip
def test_a_large_image_has_work_for_many(
    axes: tuple[Axis, ...], channels: tuple[int, int], groups: int
) -> None:
    """It is cut along any axis, even of few points, or done otherwise."""
    for layout in LAYOUTS:
        problem = a_layer(axes, channels, batch=1, groups=groups, layout=layout)
        plan = choose_plan(problem, AVX2, "")
        assert not isinstance(plan.recipe, Spread) or plan.recipe.items >= 4


def test_cells_too_large_for_scratch_are_done_otherwise() -> None:
    """What lies between two points is put together there, by every worker."""
    for channels in (1, 512):
        axes = (Axis(20000 * 3 + 1, 4, 1, 20000, 1, 0),)
        problem = a_layer(axes, (2, channels), layout="NXC")
        found = spreading(problem, AVX2)
        assert (found is None) == (channels == 512)
        count = count_plan(choose_plan(problem, AVX2, ""), 6)
        assert count.scratch < 2 << 20


def test_windows_that_do_not_overlap_are_one_product() -> None:
    """Of so many channels as there are taps; of several groups a denser picture is made."""
    axes = (Axis(17, 4, 2, 5, 1, 0), Axis(12, 4, 3, 3, 1, 0))
    smaller = smaller_problem(a_layer(axes))
    assert smaller is not None
    assert smaller.problem.fine_channels == 3 * 6
    assert smaller.blanks
    several = smaller_problem(a_layer(axes, groups=2))
    assert several is not None
    assert [axis.fine_size for axis in several.problem.axes] == [8, 12]
    assert smaller_problem(a_layer((Axis(8, 8, 1, 1, 1, 0),))) is None
    assert product_axis(Axis(9, 4, 3, 2, 1, 0)) is None
    assert denser_axis(Axis(9, 4, 2, 2, 2, 0)).axis.stride == 1


@pytest.mark.parametrize(("problem", "pays"), [
    (a_layer((Axis(46, 12, 2, 4, 1, 0),) * 3, (64, 3)), True),
    (a_layer((Axis(46, 12, 2, 4, 1, 0),) * 3, (64, 3), layout="NXC"), True),
    (a_layer((Axis(24, 12, 2, 2, 1, 0),) * 2, (64, 64)), False),
    (a_layer((Axis(24, 12, 4, 2, 1, 1),) * 2, (64, 3)), False),
    (a_layer((Axis(4, 2, 1, 2, 1, 0),) * 2, (3, 3)), False),
])  # fmt: skip
def test_it_is_chosen_where_it_pays(problem: Problem, pays: bool) -> None:  # noqa: FBT001 - a case
    """Few channels and many blanks: not where windows overlap or channels fill vectors."""
    plan = choose_plan(problem, AVX2, "")
    assert isinstance(plan.recipe, Spread) == pays
    if pays:
        assert "spread" in str(plan)


@pytest.mark.parametrize("taps", [2, 3, 7, 12, 30])
def test_whether_an_image_can_be_cut_does_not_depend_on_others(taps: int) -> None:
    """Windows as long as the picture leave no slab that all taps meet: then nobody is spread."""
    axis = Axis(2 * (19 + taps - 1) + 1, 20, taps, 2, 2, 0)
    found = [
        spreading(a_layer((axis, axis), (6, 8), batch=batch), AVX2) is not None
        for batch in (1, 2, 40)
    ]
    assert found == [taps <= axis.coarse_size // 2] * len(found)
