"""Grouped layers on real arrays: any layout, any caches, the same bits for any threads."""

import warnings
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tconv
from runtime.machines import caches
from strategies import DATA, WEIGHTS, an_axis, as_float64, whole_numbers
from tconv import engine, reference
from tconv.plan.grouped import Grouped, plan_grouped
from tconv.plan.grouped_weights import GroupedWeights, plan_grouped_weights
from tconv.plan.machine import Machine
from tconv.plan.stretches import ROWS
from tconv.problem import DTYPES, Activation, Axis, Layout, Operand, Problem, numpy_dtype
from tconv.runtime import kernels
from tconv.runtime.grouped import GroupedRunner, GroupedWeightsRunner
from tconv.threads import set_num_threads

Array = npt.NDArray[Any]

TWICE = Axis(26, 13, 4, 2, 1, 1)
SAME = Axis(11, 11, 3, 1, 1, 1)
HOLES = Axis(17, 9, 3, 2, 2, 2)
LONG = Axis(75, 20, 7, 1, 3, 0)
GUARD = 99
every_wanted = pytest.mark.parametrize("wanted", list(Operand))


def computed(
    problem: Problem, machine: Machine, arrays: tuple[Array, Array], *, packs: bool | None = None
) -> Array:
    """Run the algorithm for grouped layers, whatever would be chosen."""
    first, second = arrays
    out = np.full(problem.shape(problem.wanted), np.nan, numpy_dtype(problem.dtype))
    if problem.wanted is Operand.WEIGHTS:
        weights = GroupedWeightsRunner(problem, plan_grouped_weights(problem, machine))
        assert weights.run(first, second, out)
    else:
        runner = GroupedRunner(problem, plan_grouped(problem, machine, packs=packs))
        runner.run(first, runner.pack(second), None, out)
    return out


def given_arrays(problem: Problem, seed: int = 0) -> tuple[Array, Array]:
    """Return whole numbers for both given operands."""
    first, second = (
        whole_numbers(problem.shape(operand), problem.dtype, seed + i)
        for i, operand in enumerate(problem.given)
    )
    return first, second


@st.composite
def a_grouped_problem(draw: st.DrawFn) -> Problem:
    """Draw a problem with some groups: mostly as many as a vector has lanes, or more."""
    dtype = draw(st.sampled_from(DTYPES))
    lanes = kernels.machine().lanes(dtype)
    layouts = draw(st.sampled_from(DATA)), draw(st.sampled_from(DATA))
    if draw(st.booleans()):
        layouts = "n x gX", "n x gX"  # where groups lie side by side
    return Problem(
        wanted=draw(st.sampled_from(list(Operand))),
        batch=draw(st.integers(1, 3)),
        groups=draw(st.integers(1, lanes) | st.integers(lanes, 3 * lanes + 1)),
        coarse_channels=draw(st.sampled_from([1, 1, 1, 2, 3, 5])),
        fine_channels=draw(st.sampled_from([1, 1, 1, 2, 4, 9])),
        axes=tuple(draw(st.lists(an_axis(most=7), min_size=1, max_size=3))),
        dtype=dtype,
        coarse_layout=Layout(layouts[0].replace("X", "c")),
        fine_layout=Layout(layouts[1].replace("X", "f")),
        weights_layout=Layout(draw(st.sampled_from(WEIGHTS))),
    )


@settings(deadline=None, max_examples=200)
@given(
    problem=a_grouped_problem(),
    size=st.sampled_from([(1, 1), (700, 2_000), (4_000, 20_000), (32_768, 524_288)]),
    seed=st.integers(0, 2**16),
    packs=st.booleans(),
)
def test_any_grouped_layer_is_what_the_definition_says(
    problem: Problem, size: tuple[int, int], seed: int, *, packs: bool
) -> None:
    """With caches of one byte and more: any blocks, parts, panels, stages and turns."""
    arrays = given_arrays(problem, seed)
    result = computed(problem, caches(*size), arrays, packs=packs)

    np.testing.assert_array_equal(as_float64(result), rounded(problem, arrays))


@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
@pytest.mark.parametrize("window", [(3, 1, 1, 1), (5, 1, 1, 2), (5, 2, 1, 2), (3, 1, 2, 2)])
def test_columns_at_the_ends_of_lines_are_right(
    wanted: Operand, window: tuple[int, int, int, int]
) -> None:
    """Few points of a line meet the same taps there, but as many as lines do below each other."""
    taps, stride, dilation, pad = window
    lanes = kernels.machine().lanes("float32")
    for lines, images, groups in product((1, 2, 5, 6, 9, 14), (1, 2), (lanes, 3 * lanes + 1)):
        axes = tuple(
            Axis(stride * size, size, taps, stride, dilation, pad) for size in (3, lines, 7)
        )
        layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
        problem = Problem(wanted, images, groups, 1, 1, axes, "float32", *layouts)
        arrays = given_arrays(problem, lines)
        for size in ((700, 2_000), (32_768, 524_288)):
            result = computed(problem, caches(*size), arrays)

            np.testing.assert_array_equal(as_float64(result), rounded(problem, arrays))


def rounded(problem: Problem, arrays: tuple[Array, Array]) -> Array:
    """Return the right answer, rounded once to the type of the problem."""
    right = reference.answer(problem, *arrays)
    return as_float64(right.astype(numpy_dtype(problem.dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layouts", [("n x gc", "n x gf"), ("n gc x", "n gf x")], ids=str)
@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
@pytest.mark.parametrize("groups", [21, 24])
def test_an_activation_is_applied_before_rounding(
    wanted: Operand, layouts: tuple[str, str], dtype: str, groups: int
) -> None:
    """To tiles that lie over each other and panels that begin early, once."""
    problem = Problem(
        wanted, 2, groups, 1, 1, (SAME, TWICE), dtype,
        Layout(layouts[0]), Layout(layouts[1]), Layout("gc f x"),
    )  # fmt: skip
    arrays = given_arrays(problem)
    right = reference.answer(problem, *arrays)
    leaky = replace(problem, activation=Activation("leaky_relu", 0.25))
    expected = np.where(right < 0, right / 4, right).astype(numpy_dtype(dtype))

    for machine, packs in product((kernels.machine(), caches(2_000, 9_000)), (False, True)):
        result = computed(leaky, machine, arrays, packs=packs)

        np.testing.assert_array_equal(as_float64(result), as_float64(expected))


@every_wanted
@pytest.mark.parametrize("layouts", [("n x gc", "n x gf"), ("n gc x", "n gf x")], ids=str)
@pytest.mark.parametrize("axis", [TWICE, SAME, HOLES, LONG], ids=str)
@pytest.mark.parametrize("channels", [(1, 1), (1, 3), (2, 2), (7, 8)], ids=str)
@pytest.mark.parametrize("groups", [21, 24])
def test_lines_around_the_tile_are_exact(
    wanted: Operand, layouts: tuple[str, str], axis: Axis, channels: tuple[int, int], groups: int
) -> None:
    """Lines of one to nine points more than fit, in turns and at once, in place and packed."""
    for more in (0, 1, 2, 3):
        longer = replace(axis, coarse_size=axis.coarse_size + more)
        longer = replace(longer, fine_size=axis.fine_size + more * axis.stride)
        problem = Problem(
            wanted, 2, groups, *channels, (SAME, longer), "float32",
            Layout(layouts[0]), Layout(layouts[1]), Layout("gc f x"),
        )  # fmt: skip
        arrays = given_arrays(problem)
        expected = reference.answer(problem, *arrays)
        for machine, packs in product((kernels.machine(), caches(2_000, 9_000)), (False, True)):
            result = computed(problem, machine, arrays, packs=packs)

            np.testing.assert_array_equal(as_float64(result), expected)


def depthwise(wanted: Operand, batch: int = 4) -> Problem:
    """Return a depthwise layer that is worth several work items."""
    axes = (Axis(64, 32, 4, 2, 1, 1), Axis(66, 33, 4, 2, 1, 1))
    return Problem(
        wanted, batch, 37, 1, 1, axes, "float32",
        Layout("n x gc"), Layout("n x gf"), Layout("gc f x"),
    )  # fmt: skip


@every_wanted
def test_threads_and_batches_do_not_change_a_bit(wanted: Operand) -> None:
    """Parts depend on the problem alone; an image's bits do not depend on its neighbours."""
    problem = depthwise(wanted)
    rng = np.random.default_rng(0)
    first, second = (
        rng.standard_normal(problem.shape(o)).astype(np.float32) for o in problem.given
    )
    run = engine.executable(problem)
    packed = second if wanted is Operand.WEIGHTS else run.pack(second)
    results = []
    for threads in (1, 2, 3):
        set_num_threads(threads)
        results.append(run.run(first, packed, None, None).tobytes())

    assert len(set(results)) == 1
    if wanted is not Operand.WEIGHTS:
        whole = run.run(first, packed, None, None)
        alone = engine.executable(replace(problem, batch=1))
        for n in range(problem.batch):
            image = alone.run(first[n : n + 1], alone.pack(second), None, None)

            assert image.tobytes() == whole[n : n + 1].tobytes()


@every_wanted
@pytest.mark.parametrize("step", [(1, 1), (1, -1), (-1, 2)])
def test_arrays_may_lie_as_they_like(wanted: Operand, step: tuple[int, int]) -> None:
    """Backwards and with holes, on both sides: groups side by side or not."""
    problem = replace(depthwise(wanted, batch=2), dtype="float64")
    arrays = []
    for i, operand in enumerate(problem.given):
        shape = problem.shape(operand)
        wide = (shape[0], shape[1], 2 * shape[2], 2 * shape[3]) if len(shape) == 4 else shape
        whole = whole_numbers(wide, "float64", i)
        view = whole[:, :: step[0], ::2, : shape[3]] if i == 0 else whole[..., :: step[1]]
        arrays.append(np.ascontiguousarray(view[tuple(map(slice, shape))]))
        if view.shape == shape:
            arrays[-1] = view
    run = engine.executable(problem)
    packed = arrays[1] if wanted is Operand.WEIGHTS else run.pack(arrays[1])
    shape = problem.shape(wanted)
    out = np.full((*shape[:-1], 2 * shape[-1]), np.nan)[..., :: 2 * step[0]]
    result = run.run(arrays[0], packed, None, out)

    assert result is out
    np.testing.assert_array_equal(out, reference.answer(problem, *arrays))


@every_wanted
@pytest.mark.parametrize("layout", ["n x g", "n g"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_infinities_stay_where_the_definition_puts_them(
    wanted: Operand, layout: str, value: float, dtype: str
) -> None:
    """A term that falls outside is left out, and zeros around are never multiplied."""
    problem = replace(depthwise(wanted, batch=1), axes=(TWICE, SAME), dtype=dtype)
    if layout == "n g":
        layouts = Layout("n gc x"), Layout("n gf x")
        problem = replace(problem, coarse_layout=layouts[0], fine_layout=layouts[1])
    for spoilt in (0, 1):
        first, second = given_arrays(problem)
        (first, second)[spoilt].flat[[0, 7, -1]] = value
        run = engine.executable(problem)
        result = run.run(
            first, second if wanted is Operand.WEIGHTS else run.pack(second), None, None
        )

        np.testing.assert_array_equal(as_float64(result), reference.answer(problem, first, second))


def test_the_bias_of_every_channel_is_added_once() -> None:
    """Also where the last panel computes groups again."""
    data = np.zeros((1, 11, 5), np.float32)
    weights = np.zeros((11, 3, 2), np.float32)
    bias = np.arange(33, dtype=np.float32)
    result = tconv.conv_transpose(data, weights, bias=bias, groups=11)

    np.testing.assert_array_equal(result, np.broadcast_to(bias[:, None], (1, 33, 6)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("packs", [False, True], ids=["in place", "packed"])
def test_the_sign_of_a_zero_does_not_depend_on_how_arrays_lie(dtype: str, *, packs: bool) -> None:
    """Channels with room between them are packed, with zeros around the picture."""
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    problem = Problem(Operand.COARSE, 1, 16, 1, 1, (SAME, SAME), dtype, *layouts)
    kind = numpy_dtype(dtype)
    shapes = [problem.shape(operand) for operand in problem.given]
    data, weights = np.full(shapes[0], -0.0, kind), np.ones(shapes[1], kind)
    bias = np.full(16, -0.0, kind)
    runner = GroupedRunner(problem, plan_grouped(problem, kernels.machine(), packs=packs))
    results = []
    for view in (data, np.full((*data.shape[:-1], 32), -0.0, kind)[..., ::2]):
        out = np.full(problem.shape(Operand.COARSE), np.nan, kind)
        runner.run(view, runner.pack(weights), bias, out)
        results.append(out.tobytes())

    assert results[0] == results[1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("groups", [3, 16, 32])
@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
@pytest.mark.parametrize("packs", [False, True], ids=["in place", "packed"])
def test_nothing_but_the_result_is_written(
    wanted: Operand, groups: int, dtype: str, *, packs: bool
) -> None:
    """On the border of a cache line and off it, with room between points and without.

    The last cache is so small that results are written past it, where they may be.
    """
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    problem = Problem(wanted, 2, groups, 1, 1, (SAME, TWICE), dtype, *layouts)
    machine = caches(4_000, 64)
    arrays, kind = given_arrays(problem), numpy_dtype(dtype)
    expected, shape = rounded(problem, arrays), problem.shape(wanted)
    runner = GroupedRunner(problem, plan_grouped(problem, machine, packs=packs))
    for begin, room in product((0, 1), (0, 1, 64 // kind.itemsize)):
        steps = (*shape[:-1], shape[-1] + room)
        memory = np.full(np.prod(steps) + 128, GUARD, kind)
        first = -memory.ctypes.data % 64 // kind.itemsize + 32 + begin
        whole = memory[first : first + np.prod(steps)].reshape(steps)
        runner.run(arrays[0], runner.pack(arrays[1]), None, whole[..., : shape[-1]])

        np.testing.assert_array_equal(as_float64(whole[..., : shape[-1]]), expected)
        whole[..., : shape[-1]] = GUARD
        assert (memory == kind.type(GUARD)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [1, 90])
@pytest.mark.parametrize("groups", [7, 8, 9, 33])
def test_weights_are_written_where_they_are_wanted(dtype: str, batch: int, groups: int) -> None:
    """Into views of any order, from one part or several; nothing else is touched."""
    problem = replace(depthwise(Operand.WEIGHTS), dtype=dtype, batch=batch, groups=groups)
    axes = (Axis(18, 9, 4, 2, 1, 1), Axis(14, 7, 4, 2, 1, 1))
    problem = replace(problem, coarse_channels=2, axes=axes)
    arrays = given_arrays(problem)
    expected, kind = rounded(problem, arrays), numpy_dtype(dtype)
    runner = GroupedWeightsRunner(problem, plan_grouped_weights(problem, caches(4_000, 20_000)))
    assert (runner.recipe.parts > 1) == (batch > 1)
    shape = problem.shape(Operand.WEIGHTS)
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2)):
        memory = np.full([2 * shape[place] for place in order], GUARD, kind)
        out = memory[1::2, ::-2, ::2, 1::2].transpose(np.argsort(order))
        assert runner.run(*arrays, out)

        np.testing.assert_array_equal(as_float64(out), expected)
        out[...] = GUARD
        assert (memory == kind.type(GUARD)).all()


def test_many_small_groups_are_chosen_and_others_are_not() -> None:
    """By lanes and by products a group."""
    chosen = {}
    for groups, channels in ((1, 1), (64, 1), (64, 16)):
        layer = replace(depthwise(Operand.FINE), groups=groups)
        layer = replace(layer, coarse_channels=channels, fine_channels=channels)
        recipes = [engine.plan(replace(layer, wanted=wanted)).recipe for wanted in Operand]
        chosen[groups, channels] = [type(recipe) for recipe in recipes]

    assert not {Grouped, GroupedWeights} & {*chosen[1, 1], *chosen[64, 16]}
    assert chosen[64, 1] == [Grouped, Grouped, GroupedWeights]


@pytest.mark.parametrize("dilation", [1, 4, 6, 8])
@pytest.mark.parametrize("taps", [2, 3, 9])
@pytest.mark.parametrize("size", [2, 5, 9])
def test_many_points_may_meet_few_of_a_rows_taps(dilation: int, taps: int, size: int) -> None:
    """Taps far apart, or more of them than points: rows of weights are longer than what is met."""
    draw = np.random.default_rng(3)
    data = draw.integers(-3, 4, (1, size, size, 16)).astype("float32")
    weights = draw.integers(-3, 4, (16, 1, 2, taps)).astype("float32")
    beside = tconv.conv_transpose(data, weights, dilation=dilation, groups=16, layout="NXC")
    apart = np.zeros_like(beside)
    for i, j in np.ndindex(2, taps):
        rows, columns = (slice(dilation * at, dilation * at + size) for at in (i, j))
        apart[:, rows, columns] += data * weights[:, 0, i, j]

    assert np.array_equal(beside, apart)


def test_weights_that_float16_cannot_hold_are_infinite_without_a_warning() -> None:
    """As they are in every other kernel."""
    data = np.full((1, 16, 40), 100, np.float16)
    gradient = np.full((1, 16, 40), 100, np.float16)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = tconv.conv_grad_weight(data, (16, 1, 1), gradient, groups=16)

    assert np.isposinf(found).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("layouts", [("n x gc", "n x gf"), ("n gc x", "n gf x")], ids=str)
def test_a_nan_of_any_bits_stays_one(layouts: tuple[str, str], dtype: str) -> None:
    """Of a bias too, which may have bits that elements have no room for."""
    problem = Problem(
        Operand.COARSE, 1, 37, 1, 1, (SAME,), dtype,
        Layout(layouts[0]), Layout(layouts[1]), Layout("gc f x"),
    )  # fmt: skip
    data, weights = given_arrays(problem)
    image = np.moveaxis(data[0], 0 if layouts[0] == "n gc x" else 1, 0)  # by channel
    exponent = 0x7C00 if dtype == "float16" else 0x7F80
    image.view(np.uint16)[:16, 5] = exponent | np.arange(1, 17) | 0x8000 * (np.arange(16) % 2)
    image.view(np.uint16)[16:24, 5] = 0x7FFF
    bias = np.zeros(37, np.float32)
    bias.view(np.uint32)[24:] = 0x7FFFFFFF
    out = np.zeros(problem.shape(Operand.COARSE), numpy_dtype(dtype))
    runner = GroupedRunner(problem, plan_grouped(problem, kernels.machine()))
    with np.errstate(invalid="ignore"):
        runner.run(data, runner.pack(np.abs(weights) + weights.dtype.type(1)), bias, out)
    result = np.moveaxis(as_float64(out)[0], 0 if layouts[1] == "n gf x" else 1, 0)

    assert np.isnan(result[:24, 4:7]).all()
    assert np.isnan(result[24:]).all()
    assert not np.isnan(result[:24, :4]).any()


@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
@pytest.mark.parametrize("layout", ["n x {}", "n {} x"])
@pytest.mark.parametrize("taps", [2, 3, 4, 5, 7, 9, 11])
def test_points_that_share_taps_may_lie_apart(wanted: Operand, layout: str, taps: int) -> None:
    """Dilated windows: lines of fewer points than tiles take apart, as many and more; strides."""
    for stride, dilation in ((1, 2), (1, 3), (1, 5), (2, 4), (2, 3), (3, 1)):
        apart = dilation // stride if dilation % stride == 0 else 1
        for size in (ROWS * apart - 1, ROWS * apart, ROWS * apart + taps * dilation + 1):
            pad = dilation * (taps // 2)
            axis = Axis(stride * size, size, taps, stride, dilation, pad)
            layouts = Layout(layout.format("gc")), Layout(layout.format("gf")), Layout("gc f x")
            axes = (Axis(3, 3, 2, 1, 2, 1), axis)
            problem = Problem(wanted, 2, 19, 1, 1, axes, "float32", *layouts)
            data, weights = (
                whole_numbers(problem.shape(operand), "float32", seed)
                for seed, operand in enumerate(problem.given)
            )
            run = GroupedRunner(problem, plan_grouped(problem, kernels.machine()))
            out = np.full(problem.shape(wanted), 99, "float32")
            run.run(data, run.pack(weights), None, out)

            due = reference.answer(problem, data, weights)
            np.testing.assert_array_equal(out, due, str(problem))
