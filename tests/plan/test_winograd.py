"""Winograd's forms are exact, its plans hold what kernels trust, and its choice is explained."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import an_axis
from tconv.bench.suite import Layer, load_suite
from tconv.errors import InternalError, UnsupportedError
from tconv.plan import Winograd, choose_plan, winograd_blocks
from tconv.plan import winograd as winograd_plan
from tconv.plan.check_winograd import check_winograd
from tconv.plan.machine import AVX2, AVX512, NEON, Machine
from tconv.plan.tiles import tile_rows, whole_tiles
from tconv.plan.transforms import POINTS, Form, Matrix, transforms
from tconv.plan.winograd import plan_winograd
from tconv.plan.winograd_axis import cut_axes
from tconv.plan.winograd_choice import weigh, worths
from tconv.plan.winograd_cuts import MOST_NOISE, MOST_POINTS, OUTPUTS
from tconv.problem import Axis, Layout, Operand, Problem

FORMS = [
    Form(outputs, taps)
    for outputs, taps in product(range(1, 6), range(1, 6))
    if outputs == 1 or taps == 1 or outputs + taps - 2 in POINTS
]
DATA_WANTED = (Operand.FINE, Operand.COARSE)
TINY = tuple(
    replace(machine, l1=size // 4, l2=size, l3=16 * size)
    for machine in (AVX2, AVX512, NEON)
    for size in (1, 3000, 30_000)
)
MACHINES = (AVX2, AVX512, NEON, *TINY)


def a_layer(wanted: Operand, *axes: Axis, channels: int = 18, batch: int = 2) -> Problem:
    """Return a problem with some axes."""
    return Problem(
        wanted, batch, 2, channels, channels, axes, "float32",
        Layout("n gc x"), Layout("n gf x"), Layout("gc f x"),
    )  # fmt: skip


def times(matrix: Matrix, column: list[Fraction]) -> list[Fraction]:
    """Multiply exactly."""
    return [sum((x * y for x, y in zip(row, column, strict=True)), Fraction(0)) for row in matrix]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_form_is_its_correlation_exactly(form: Form) -> None:
    """For every single datum and tap, which is all there is to a bilinear map."""
    made = transforms(form)
    for datum, tap in product(range(form.points), range(form.taps)):
        data = [Fraction(place == datum) for place in range(form.points)]
        weights = [Fraction(place == tap) for place in range(form.taps)]
        products = map(Fraction.__mul__, times(made.data, data), times(made.weights, weights))
        found = times(made.result, list(products))

        assert found == [Fraction(output + tap == datum) for output in range(form.outputs)]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_floats_hold_the_matrices_of_data_and_results(form: Form) -> None:
    """Only weights are divided, and they are rounded once."""
    made = transforms(form)
    for entry in (entry for matrix in (made.data, made.result) for row in matrix for entry in row):
        power = entry.denominator

        assert power & (power - 1) == 0
        assert abs(entry.numerator) < 2**11  # even float16 would do


@st.composite
def a_cut(draw: st.DrawFn) -> tuple[Problem, tuple[int, ...], tuple[bool, ...]]:
    """Draw a problem whose phases have few taps, how many outputs patches have, and alignments."""
    axes = tuple(draw(st.lists(an_axis(most=4), min_size=1, max_size=2)))
    wanted = draw(st.sampled_from(DATA_WANTED))
    problem = a_layer(wanted, *axes, channels=draw(st.sampled_from((1, 9, 18))))
    outputs = tuple(draw(st.integers(1, 3)) for _ in axes)
    alike = tuple(draw(st.booleans()) for _ in axes)
    cuts = cut_axes(problem, outputs, alike)
    # Forms are known for so many points; one output needs none.
    known = tuple(
        count if cut.form.points - 1 in POINTS else 1
        for count, cut in zip(outputs, cuts[1:], strict=True)
    )
    return problem, known, alike


@settings(deadline=None, max_examples=150)
@given(cut=a_cut(), machine=st.sampled_from(MACHINES))
def test_every_plan_writes_what_the_relation_says(
    cut: tuple[Problem, tuple[int, ...], tuple[bool, ...]], machine: Machine
) -> None:
    """Every output once, made of its taps, with no address outside of its array."""
    problem, outputs, alike = cut
    recipe = plan_winograd(problem, machine, outputs, alike)

    check_winograd(problem, recipe, tile_rows=tile_rows(machine))


@settings(deadline=None, max_examples=60)
@given(cut=a_cut(), machine=st.sampled_from(TINY))
def test_every_plan_in_stages_does_too(
    cut: tuple[Problem, tuple[int, ...], tuple[bool, ...]], machine: Machine
) -> None:
    """Rounds take every box once, in memory that has room for them."""
    problem, outputs, alike = cut
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd_blocks, "WORTH_STAGES", 0)
        recipe = plan_winograd(problem, machine, outputs, alike)
    check_winograd(problem, recipe, tile_rows=tile_rows(machine))
    demanded = -(-recipe.boxes // recipe.round) * recipe.round

    assert recipe.boxes <= demanded < recipe.boxes + recipe.round


@pytest.mark.parametrize("change", [{"shared": 0}, {"round": 0}, {"boxes": 1}, {"slabs": 3}])
def test_wrong_stages_are_refused(change: dict[str, int]) -> None:
    """Boxes would be left out, or leave the shared memory."""
    problem = a_layer(Operand.FINE, Axis(22, 11, 4, 2, 1, 1), Axis(27, 13, 3, 2, 1, 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd_blocks, "WORTH_STAGES", 0)
        recipe = plan_winograd(problem, replace(AVX2, l2=20_000, l3=20_000), (3, 3))
    assert recipe.staged
    assert recipe.boxes > 1
    check_winograd(problem, recipe)

    with pytest.raises(InternalError):
        check_winograd(problem, replace(recipe, **change))  # type: ignore[arg-type]


def test_phases_alike_need_fewer_weights_on_small_pictures() -> None:
    """As many products as phases that begin where they like, with half the matrices."""
    axis = Axis(16, 8, 4, 2, 1, 1)
    problem = a_layer(Operand.FINE, axis, axis)
    apart = plan_winograd(problem, AVX2, (3, 3))
    alike = plan_winograd(problem, AVX2, (2, 2), (True, True))

    assert alike.multiplications == apart.multiplications
    assert 16 * alike.group_weights == 9 * apart.group_weights


@pytest.mark.parametrize(("most", "tile"), [(20, 6), (23, 6), (50, 8), (7, 6), (1, 6)])
def test_blocks_fill_tiles(most: int, tile: int) -> None:
    """No block is larger than it may be, and few rows of tiles are computed for nothing."""
    (block,) = winograd_blocks.choose_block([200], 1, most, (tile, 16), 1)

    assert 1 <= block <= most
    assert most < tile or whole_tiles(block, tile) - block <= 1


def test_lines_are_whole_where_points_lie_side_by_side() -> None:
    """Squares of points and channels are turned there, and lines are read and written."""
    beside, apart = (winograd_blocks.choose_block([1, 16, 16], 1, 24, (6, 16), n) for n in (1, 16))

    assert beside[-1] < apart[-1] == 16


def small(wanted: Operand) -> tuple[Problem, Winograd]:
    """Return a plan of several blocks."""
    problem = a_layer(wanted, Axis(22, 11, 4, 2, 1, 1), Axis(27, 13, 3, 2, 1, 0))
    recipe = plan_winograd(problem, replace(AVX2, l1=500, l2=60_000, l3=50_000), (3, 3))
    assert recipe.items >= 4
    return problem, recipe


@pytest.mark.parametrize("wanted", DATA_WANTED)
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("patch_reads", 1), ("patch_writes", 16), ("read_steps", 1), ("write_steps", 16),
        ("part_reads", 1), ("segment_count", -1), ("patch_points", -1), ("ends", -3),
        ("spans", -1), ("pitches", -1), ("matrix_start", 32), ("matrix_next", 10**6),
        ("part_places", 1),
    ],
)  # fmt: skip
def test_a_wrong_table_is_refused(wanted: Operand, name: str, change: int) -> None:
    """The check can fail: one changed entry is found."""
    problem, recipe = small(wanted)
    record = list(recipe.record)
    # The batch has one entry that nothing depends on while a block has one image.
    batched = (
        "ends", "spans", "pitches", "read_steps", "write_steps", "patch_points", "part_places",
    )  # fmt: skip
    place = record[winograd_plan.FIELDS[name]] + (name in batched)
    record[place] += change

    with pytest.raises(InternalError):
        check_winograd(problem, replace(recipe, record=tuple(record)))


@pytest.mark.parametrize("wanted", DATA_WANTED)
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("scratch_products", -16), ("scratch_sums", -16), ("product_pitch", -32), ("begin", 1),
        ("point_pitch", -64), ("nowhere", -16), ("size_out", 1), ("size_in", 1), ("step_in", 1),
        ("low_in", 1), ("shift_out", 1), ("group_weights", 16), ("spare", -8), ("span", -1),
        ("phases", -1), ("slab", -8), ("slabs", 1), ("slot", -16), ("part_depth", -40),
        ("boxes", 1), ("stage", 1), ("scratch_points", -16), ("scratch_targets", -16),
        ("scratch_lists", -16), ("scratch_nothing", -16), ("scratch_nowhere", 16),
    ],
)  # fmt: skip
def test_a_wrong_number_is_refused(wanted: Operand, name: str, change: int) -> None:
    """The check can fail: one changed number is found."""
    problem, recipe = small(wanted)
    record = list(recipe.record)
    record[winograd_plan.FIELDS[name]] += change

    with pytest.raises(InternalError):
        check_winograd(problem, replace(recipe, record=tuple(record)), tile_rows=6)


@pytest.mark.parametrize("layer", load_suite(), ids=lambda layer: layer.name)
@pytest.mark.parametrize("wanted", DATA_WANTED)
def test_the_choice_does_not_see_the_batch(layer: Layer, wanted: Operand) -> None:
    """So an image has the same bits alone and among others."""
    problem = layer.problem(wanted)
    choices = {
        (plan.algorithm, getattr(plan.recipe, "forms", None))
        for batch in (1, 2, 8)
        for plan in [choose_plan(replace(problem, batch=batch), AVX2, "", bound=True)]
    }

    assert len(choices) == 1


def test_dense_layers_of_the_suite_are_transformed() -> None:
    """Or every measurement of transforms measures something else."""
    layers = {layer.name: layer for layer in load_suite()}
    for name, wanted in product(("dcgan_4", "pose_up", "s1_3x3", "hifigan_2"), DATA_WANTED):
        plan = choose_plan(layers[name].problem(wanted), AVX2, "", bound=True)

        assert plan.algorithm == "winograd"


def test_a_plan_tells_what_is_saved_and_how_far_off_it_may_be() -> None:
    """The forms, the multiplications saved and the bound of the error are printed."""
    axis = Axis(64, 32, 4, 2, 1, 1)
    problem = a_layer(Operand.FINE, axis, axis, channels=64, batch=1)
    plan = choose_plan(problem, AVX2, "", bound=True)
    assert isinstance(plan.recipe, Winograd)
    saved = problem.flops() / 2 / plan.recipe.multiplications

    assert f"F(3,2) x F(3,2) needs {saved:.2f} times fewer multiplications" in str(plan)
    assert 1.9 < saved < 2.25
    assert "error <= " in str(plan)


@pytest.mark.parametrize("wanted", list(Operand))
def test_direct_means_no_transform(wanted: Operand) -> None:
    """An algorithm that is asked for is the one that runs."""
    axis = Axis(64, 32, 4, 2, 1, 1)
    problem = a_layer(wanted, axis, axis, channels=64)

    assert choose_plan(problem, AVX2, "", "direct", bound=True).algorithm != "winograd"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"wanted": Operand.WEIGHTS}, "it computes no gradient of weights"),
        ({"dtype": "float64"}, "float64 is for exact sums"),
        ({"batch": 0}, "there is nothing to compute"),
        ({"axes": (Axis(8, 4, 2, 2, 1, 0),)}, "no axis has taps that a transform would save"),
        ({"fine_channels": 1}, "1 channels a group would leave vectors half empty"),
        ({"axes": (Axis(2**20, 9, 3, 2**13, 1, 0),)}, "the stride makes more phases"),
        ({"axes": (Axis(8, 4, 9, 3, 1000, 0),)}, "no axis has taps"),
    ],
)
def test_what_cannot_be_transformed_is_refused_not_replaced(
    change: dict[str, object], why: str
) -> None:
    """With the reason, when it was asked for by name; else it runs directly."""
    problem = replace(a_layer(Operand.FINE, Axis(8, 4, 4, 2, 1, 1)), **change)  # type: ignore[arg-type]

    with pytest.raises(UnsupportedError, match=why):
        choose_plan(problem, AVX2, "", "winograd")
    assert choose_plan(problem, AVX2, "").algorithm != "winograd"


def test_without_a_compiler_there_are_no_transforms() -> None:
    """The reason is the machine's."""
    problem = a_layer(Operand.FINE, Axis(8, 4, 4, 2, 1, 1))

    with pytest.raises(UnsupportedError, match="no compiler here"):
        choose_plan(problem, None, "no compiler here", "winograd")


@pytest.mark.parametrize("layer", load_suite(), ids=lambda layer: layer.name)
@pytest.mark.parametrize("wanted", DATA_WANTED)
def test_no_form_is_noisier_than_promised(layer: Layer, wanted: Operand) -> None:
    """Every form that is weighed has known points, fits its code and keeps errors small."""
    for worth in worths(layer.problem(wanted), AVX2):
        cuts = cut_axes(layer.problem(wanted), worth.outputs, worth.alike)[1:]
        forms = [cut.form for cut in cuts]

        assert math.prod(form.points for form in forms) <= MOST_POINTS
        assert math.prod(cut.noise() for cut in cuts) <= MOST_NOISE
        assert all(f.outputs == 1 or f.outputs in OUTPUTS[f.taps] for f in forms)


def test_weights_are_transformed_in_a_call_only_where_that_pays() -> None:
    """A tiny picture of many channels is worth it once bound, a large one always."""
    few, many = Axis(16, 8, 4, 2, 1, 1), Axis(128, 64, 4, 2, 1, 1)
    small_picture = weigh(a_layer(Operand.FINE, few, few, channels=256), AVX2)
    large_picture = weigh(a_layer(Operand.FINE, many, many, channels=64), AVX2)
    assert not isinstance(small_picture, str)
    assert not isinstance(large_picture, str)

    assert small_picture.refusal(bound=True) is None
    assert "in every call" in str(small_picture.refusal(bound=False))
    assert large_picture.refusal(bound=False) is None
