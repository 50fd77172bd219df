"""Winograd's algorithm on real arrays: exact, bounded, and the same bits in any company."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tconv
from strategies import WEIGHTS, an_axis, as_float64, whole_numbers
from tconv import engine, reference
from tconv.bench.suite import Layer, load_suite
from tconv.plan import Winograd, winograd_blocks
from tconv.plan.machine import Machine
from tconv.plan.transforms import POINTS
from tconv.plan.winograd import error_bounds, plan_winograd
from tconv.plan.winograd_axis import cut_axes
from tconv.problem import Axis, Layout, Operand, Problem, numpy_dtype
from tconv.runtime import kernels
from tconv.runtime.taps import TapRunner
from tconv.runtime.winograd import WinogradRunner
from tconv.threads import get_num_threads, set_num_threads

Array = npt.NDArray[Any]

LAYOUTS = {"NCX": "n {} x", "NXC": "n x {}"}
DATA_WANTED = (Operand.FINE, Operand.COARSE)
UP = (Axis(36, 18, 4, 2, 1, 1), Axis(36, 18, 4, 2, 1, 1))
HALVES = {(2, 2), (3, 2), (2, 3)}  # (outputs, taps) whose weights are only halved: exact


def a_layer(  # noqa: PLR0913 - a problem has many numbers
    wanted: Operand,
    axes: tuple[Axis, ...],
    channels: tuple[int, int] = (17, 24),
    *,
    batch: int = 2,
    groups: int = 1,
    dtype: str = "float32",
    layout: str = "NCX",
    weights: str = "gc f x",
) -> Problem:
    """Return a problem with some axes."""
    coarse, fine = (Layout(LAYOUTS[layout].format(letter)) for letter in ("gc", "gf"))
    return Problem(wanted, batch, groups, *channels, axes, dtype, coarse, fine, Layout(weights))


def transformed(  # noqa: PLR0913 - how, and of what
    problem: Problem,
    outputs: tuple[int, ...],
    data: Array,
    weights: Array,
    *,
    alike: tuple[bool, ...] = (),
    machine: Machine | None = None,
) -> Array:
    """Run the kernel with these outputs a patch, whatever the planner would choose."""
    recipe = plan_winograd(problem, machine or kernels.machine(), outputs, alike)
    runner = WinogradRunner(problem, recipe)
    out = np.full(problem.shape(problem.wanted), np.nan, numpy_dtype(problem.dtype))
    packed = runner.pack(weights)

    assert packed.finite
    assert runner.run(data, packed, None, out) == []
    return out


def numbers(problem: Problem, most: int = 3) -> list[Array]:
    """Return small whole numbers for both given arrays."""
    return [
        whole_numbers(problem.shape(operand), problem.dtype, seed, most)
        for seed, operand in enumerate(problem.given)
    ]


SIZES = (5, 6, 7, 11, 12, 13)  # around whole patches of three
SHAPES = {
    "k4 s2": [Axis(2 * n, n, 4, 2, 1, 1) for n in SIZES],
    "k3 s2": [Axis(2 * n, n, 3, 2, 1, 1) for n in SIZES],
    "k3 s1": [Axis(n, n, 3, 1, 1, 1) for n in SIZES],
    "k3 s1 d2": [Axis(n, n, 3, 1, 2, 2) for n in SIZES],
    "k8 s4, cropped": [Axis(4 * n, n, 8, 4, 1, -3) for n in SIZES],
    "one point": [Axis(4, 1, 4, 2, 1, 0), Axis(1, 3, 4, 2, 1, 1)],
    "out of reach": [Axis(3, 9, 4, 2, 1, 40), Axis(50, 2, 3, 1, 1, 0)],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("wanted", DATA_WANTED)
@pytest.mark.parametrize("name", SHAPES)
def test_halved_weights_leave_no_rounding(name: str, wanted: Operand, layout: str) -> None:
    """Whole numbers through F(3,2) and F(2,3) are exact, so the results must be equal."""
    for axis in SHAPES[name]:
        problem = a_layer(wanted, (axis,), layout=layout)
        (cut,) = cut_axes(problem, (1,))[1:]
        outputs = (3 if cut.form.taps == 2 else 2 if cut.form.taps == 3 else 1,)
        data, weights = numbers(problem)
        found = transformed(problem, outputs, data, weights)

        np.testing.assert_array_equal(found, reference.answer(problem, data, weights))


@st.composite
def an_exact_cut(draw: st.DrawFn) -> tuple[Problem, tuple[int, ...], tuple[bool, ...]]:
    """Draw a problem in any layout, cut by forms that leave no rounding."""
    axes = tuple(draw(st.lists(an_axis(most=4), min_size=1, max_size=3)))
    problem = a_layer(
        draw(st.sampled_from(DATA_WANTED)), axes,
        draw(st.sampled_from([(1, 1), (3, 17), (16, 5), (9, 33)])),
        batch=draw(st.integers(1, 3)), groups=draw(st.integers(1, 2)),
        dtype=draw(st.sampled_from(["float32", "float64"])),
        layout=draw(st.sampled_from(list(LAYOUTS))), weights=draw(st.sampled_from(WEIGHTS)),
    )  # fmt: skip
    alike = tuple(draw(st.booleans()) for _ in axes)
    taps = [cut.form.taps for cut in cut_axes(problem, (1,) * len(axes), alike)[1:]]
    outputs = tuple(
        draw(st.sampled_from([1, *(o for o, t in sorted(HALVES) if t == count)])) for count in taps
    )
    return problem, outputs, alike


@settings(deadline=None, max_examples=60)
@given(cut=an_exact_cut(), seed=st.integers(0, 2**16), stages=st.booleans())
def test_any_problem_in_any_layout(
    cut: tuple[Problem, tuple[int, ...], tuple[bool, ...]], seed: int, *, stages: bool
) -> None:
    """Any rank, stride, dilation, pad, group and layout; the answer is the definition's.

    In one stage and in two, several rounds of them.
    """
    problem, outputs, alike = cut
    small = replace(kernels.machine(), l1=3000, l2=20_000, l3=30_000)
    data, weights = (
        whole_numbers(problem.shape(operand), problem.dtype, seed + i)
        for i, operand in enumerate(problem.given)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd_blocks, "WORTH_STAGES", 0 if stages else 10**18)
        found = transformed(problem, outputs, data, weights, alike=alike, machine=small)

    np.testing.assert_array_equal(found, reference.answer(problem, data, weights))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("wanted", DATA_WANTED)
@pytest.mark.parametrize("depth", [1, 7, 8, 9, 15, 16, 17, 255, 256, 257, 515])
def test_any_depth_is_multiplied_part_by_part(depth: int, wanted: Operand, layout: str) -> None:
    """Around a part that stays in the first cache, segments together and in pieces."""
    channels = (depth, 18) if wanted is Operand.FINE else (18, depth)
    for axis in (Axis(14, 7, 4, 2, 1, 1), Axis(8, 8, 3, 1, 1, 1)):
        problem = a_layer(wanted, (axis,), channels, layout=layout)
        data, weights = numbers(problem)
        found = transformed(problem, (2,), data, weights)

        np.testing.assert_array_equal(found, reference.answer(problem, data, weights))


@pytest.mark.parametrize("wanted", DATA_WANTED)
def test_stages_do_not_change_a_bit(wanted: Operand) -> None:
    """Rounds of boxes, or each box by itself; with any number of threads."""
    problem = a_layer(wanted, UP, (48, 40), batch=5)
    random = np.random.default_rng(6)
    data, weights = (
        random.standard_normal(problem.shape(operand), np.float32) for operand in problem.given
    )
    machine = kernels.machine()
    whole = transformed(problem, (3, 3), data, weights)
    threads = get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd_blocks, "WORTH_STAGES", 0)
        for l2, l3 in ((30_000, 400_000), (200_000, 900_000)):
            small = replace(machine, l2=l2, l3=l3)
            assert plan_winograd(problem, small, (3, 3)).staged
            try:
                for count in (1, 2, 3):
                    set_num_threads(count)
                    found = transformed(problem, (3, 3), data, weights, machine=small)

                    np.testing.assert_array_equal(found, whole)
            finally:
                set_num_threads(threads)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("wanted", DATA_WANTED)
def test_small_types_are_transformed_in_float32(dtype: str, layout: str, wanted: Operand) -> None:
    """Values in -1..1 stay exact in both, and are rounded once."""
    axes = (Axis(14, 7, 4, 2, 1, 1), Axis(11, 11, 3, 1, 1, 1))
    problem = a_layer(wanted, axes, (7, 9), dtype=dtype, layout=layout)
    data, weights = numbers(problem, most=1)
    found = transformed(problem, (3, 2), data, weights)

    expected = reference.answer(problem, data, weights).astype(numpy_dtype(dtype))
    np.testing.assert_array_equal(as_float64(found), as_float64(expected))


OUTPUTS = [*product((1, 2, 3, 4, 5), repeat=2)]


@pytest.mark.parametrize("wanted", DATA_WANTED)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("outputs", OUTPUTS, ids=str)
def test_no_result_is_further_off_than_the_plan_prints(
    wanted: Operand, stride: int, outputs: tuple[int, int]
) -> None:
    """Every form, on random numbers, keeps to the bound of the error."""
    axis = Axis(17 * stride, 17, 3 if stride == 1 else 4, stride, 1, 1)
    problem = a_layer(wanted, (axis, axis), (24, 24), batch=1)
    if any(cut.form.points - 1 not in POINTS for cut in cut_axes(problem, outputs)[1:]):
        assert max(outputs) + stride >= 4 or min(outputs) == 1  # a form that nobody chooses
        return
    random = np.random.default_rng(1)
    data, weights = (
        random.standard_normal(problem.shape(operand)).astype(np.float32)
        for operand in problem.given
    )
    found = transformed(problem, outputs, data, weights)
    bound, _ = error_bounds(problem, plan_winograd(problem, kernels.machine(), outputs))
    exact = reference.answer(problem, data, weights)
    meet = reference.answer(problem, np.ones_like(data), np.abs(weights))

    assert (np.abs(found - exact) <= bound * np.abs(data).max() * meet).all()


def double(problem: Problem, data: Array, weights: Array) -> npt.NDArray[np.float64]:
    """Return the right answer, by float64."""
    wide = Problem(
        problem.wanted, problem.batch, problem.groups, problem.coarse_channels,
        problem.fine_channels, problem.axes, "float64", problem.coarse_layout,
        problem.fine_layout, problem.weights_layout,
    )  # fmt: skip
    runner = TapRunner(wide)
    out = np.empty(wide.shape(wide.wanted))
    runner.run(data.astype(float), runner.pack(weights.astype(float)), None, out)
    return out


PROMISED = [
    layer for layer in load_suite()
    if layer.name in ("pose_up", "s1_3x3", "style_up", "grouped_4", "encodec", "dil_3x3", "dcgan_2")
]  # fmt: skip


@pytest.mark.parametrize("layer", PROMISED, ids=lambda layer: layer.name)
@pytest.mark.parametrize("wanted", DATA_WANTED)
def test_errors_are_at_most_four_times_those_of_direct_sums(layer: Layer, wanted: Operand) -> None:
    """On layers of the suite, the largest error and its root mean square."""
    problem = layer.problem(wanted)
    random = np.random.default_rng(2)
    data, weights = (
        random.standard_normal(problem.shape(operand), np.float32) for operand in problem.given
    )
    exact = double(problem, data, weights)
    errors = {}
    for algorithm in ("direct", "winograd"):
        run = engine.executable(problem, algorithm)
        errors[algorithm] = np.abs(run.run(data, run.pack(weights), None, None) - exact)
    direct, ours = errors["direct"], errors["winograd"]

    assert isinstance(engine.plan(problem, bound=True).recipe, Winograd)
    assert ours.max() <= 4 * direct.max()
    assert np.sqrt((ours**2).mean()) <= 4 * np.sqrt((direct**2).mean())


@pytest.mark.parametrize("wanted", DATA_WANTED)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays_where_the_definition_puts_it(
    wanted: Operand, value: float
) -> None:
    """A transform would spread it over a patch; such an image is computed directly."""
    problem = a_layer(wanted, UP, (32, 32), batch=3)
    data, weights = numbers(problem)
    data[1, 3, 5, 7] = value
    run = engine.executable(problem, "winograd")
    found = run.run(data, run.pack(weights), None, None)
    expected = reference.answer(problem, data, weights).astype("f4")

    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("wanted", DATA_WANTED)
def test_a_transform_that_overflows_gives_way_to_direct_sums(wanted: Operand) -> None:
    """Two huge numbers are added before anything is multiplied: the sum may be too large."""
    problem = a_layer(wanted, UP, (32, 32))
    data = np.full(problem.shape(problem.given[0]), 2.5e38, np.float32)
    weights = np.full(problem.shape(Operand.WEIGHTS), 1e-6, np.float32)
    direct, ours = (engine.executable(problem, algorithm) for algorithm in ("direct", "winograd"))
    expected = direct.run(data, direct.pack(weights), None, None)

    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(ours.run(data, ours.pack(weights), None, None), expected)


@pytest.mark.parametrize("wanted", DATA_WANTED)
def test_one_bad_image_does_not_change_its_neighbours(wanted: Operand) -> None:
    """Not by a bit: they are transformed as ever."""
    problem = a_layer(wanted, UP, (32, 32), batch=5)
    random = np.random.default_rng(3)
    data, weights = (
        random.standard_normal(problem.shape(operand), np.float32) for operand in problem.given
    )
    run = engine.executable(problem, "winograd")
    packed = run.pack(weights)
    before = run.run(data, packed, None, None)
    spoiled = data.copy()
    spoiled[2] = np.nan
    after = run.run(spoiled, packed, None, None)

    assert np.isnan(after[2]).any()
    np.testing.assert_array_equal(np.delete(after, 2, 0), np.delete(before, 2, 0))


def test_weights_that_are_not_finite_are_not_transformed() -> None:
    """Their taps are skipped where there is nothing to multiply."""
    problem = a_layer(Operand.FINE, UP, (32, 32))
    data, weights = numbers(problem)
    weights[0, 0, 0, 0] = np.inf
    run = engine.executable(problem, "winograd")
    packed: Any = run.pack(weights)

    assert not packed.finite
    np.testing.assert_array_equal(
        run.run(data, packed, None, None), reference.answer(problem, data, weights)
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("wanted", DATA_WANTED)
def test_threads_and_company_do_not_change_a_bit(wanted: Operand, layout: str) -> None:
    """One to three threads; alone, in a pair, in the whole batch, backwards."""
    problem = a_layer(wanted, UP, (48, 40), batch=5, layout=layout)
    random = np.random.default_rng(4)
    data, weights = (
        random.standard_normal(problem.shape(operand), np.float32) for operand in problem.given
    )
    strides = [2, 2]
    formats: dict[str, Any] = {"data_format": layout, "weights_format": "IOX"}
    pads: dict[str, Any] = {"pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    kind: Any = {
        Operand.FINE: tconv.onednn.ConvTranspose,
        Operand.COARSE: tconv.onednn.ConvTransposeBackwardData,
    }[wanted]
    bound = kind(strides=strides, **pads, **formats).bind(weights, algorithm="winograd")
    threads = get_num_threads()
    whole = bound(data)
    try:
        for count in (1, 2, 3):
            set_num_threads(count)

            np.testing.assert_array_equal(bound(data), whole)
    finally:
        set_num_threads(threads)
    np.testing.assert_array_equal(bound(data[::-1]), whole[::-1])
    np.testing.assert_array_equal(bound(data[1:3]), whole[1:3])
    for image in range(5):
        np.testing.assert_array_equal(bound(data[image : image + 1])[0], whole[image])


def test_a_bound_operator_runs_what_is_asked_for() -> None:
    """Direct sums and transforms differ in their last bits, on a second call too."""
    random = np.random.default_rng(5)
    data = random.standard_normal((2, 64, 28, 28), np.float32)
    weights = random.standard_normal((64, 64, 4, 4), np.float32)
    op = tconv.onnx.ConvTranspose(strides=[2, 2], pads=[1, 1, 1, 1])
    results = {
        algorithm: [op.bind(weights, algorithm=algorithm)(data) for _ in range(2)]
        for algorithm in (None, "direct", "winograd")
    }
    for first, second in results.values():
        np.testing.assert_array_equal(first, second)

    assert (results[None][0] == results["winograd"][0]).all()
    assert (results[None][0] != results["direct"][0]).any()
    np.testing.assert_allclose(results[None][0], results["direct"][0], rtol=0, atol=2e-4)


def test_a_quick_call_notices_what_is_not_finite() -> None:
    """The second call of a bound operator takes a shorter way, and must look as well."""
    data = np.ones((1, 64, 28, 28), np.float32)
    weights = np.ones((64, 64, 4, 4), np.float32)
    op = tconv.onnx.ConvTranspose(strides=[2, 2], pads=[1, 1, 1, 1])
    assert op.plan(data.shape, weights.shape).algorithm == "winograd"
    bound, direct = op.bind(weights), op.bind(weights, algorithm="direct")
    bound(data)
    data[0, 0, 5, 5] = np.inf

    for _ in range(2):
        np.testing.assert_array_equal(bound(data), direct(data))
    assert np.isinf(bound(data)).sum() == 64 * 4 * 4


def test_a_bias_is_added_and_may_be_infinite() -> None:
    """It is no reason to compute anything again, and reaches every point of its channel."""
    data, weights = np.ones((1, 64, 20, 20), "f4"), np.ones((64, 48, 4, 4), "f4")
    bias = np.arange(48, dtype="f4")
    bias[7] = np.inf
    op = tconv.onnx.ConvTranspose(strides=[2, 2], pads=[1, 1, 1, 1])
    found = op.bind(weights, bias)(data)
    plain = op.bind(weights, algorithm="direct")(data)

    np.testing.assert_array_equal(found, plain + bias[:, None, None])
