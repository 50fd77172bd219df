"""Signals of one channel as frames: where windows begin where those do, and nowhere else."""

from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

import tconv
from strategies import whole_numbers
from tconv import engine, reference
from tconv.plan import Hops, Winograd, hopped
from tconv.plan.check import check_plan
from tconv.plan.tiles import tile_rows
from tconv.problem import Axis, Layout, Operand, Problem
from tconv.runtime.kernels import machine

FRAMES = Axis(fine_size=24 * 21, coarse_size=18, taps=24 * 4, stride=24, dilation=1, pad_begin=0)
PADDED = replace(FRAMES, fine_size=24 * 19, pad_begin=24)
MORE = replace(FRAMES, fine_size=24 * 23)  # points that no window meets
OTHERS = {
    "taps": replace(FRAMES, taps=24 * 4 - 1),
    "pads": replace(FRAMES, pad_begin=12),
    "a part of a frame": replace(FRAMES, fine_size=24 * 21 - 1),
    "a dilation": replace(FRAMES, dilation=2),
    "no overlap": replace(FRAMES, taps=24),
    "single steps": replace(FRAMES, stride=1),
}
LAYOUTS = ("n {} x", "n x {}")
Array = npt.NDArray[np.float32]


def problem_of(axis: Axis, wanted: Operand, layout: str = LAYOUTS[0], groups: int = 1) -> Problem:
    """Return a question of 20 channels a group and one of a signal."""
    layouts = Layout(layout.format("gc")), Layout(layout.format("gf")), Layout("gc f x")
    return Problem(wanted, 2, groups, 20, 1, (axis,), "float32", *layouts, bias=True)


@pytest.mark.parametrize("name", OTHERS)
def test_other_windows_stay_what_they_are(name: str) -> None:
    """Each would begin inside of a frame, or transforms would save nothing."""
    assert hopped(problem_of(OTHERS[name], Operand.FINE)) is None


def test_other_questions_stay_what_they_are() -> None:
    """Gradients of weights, and signals of several channels, which lie apart."""
    problem = problem_of(FRAMES, Operand.FINE)

    assert isinstance(hopped(problem), Hops)
    assert hopped(replace(problem, wanted=Operand.WEIGHTS)) is None
    assert hopped(replace(problem, fine_channels=2)) is None


@pytest.mark.parametrize("axis", [FRAMES, PADDED, MORE], ids=["even", "padded", "longer"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
def test_frames_are_the_signal(axis: Axis, layout: str, groups: int, wanted: Operand) -> None:
    """Of arrays, of views, into views, and by addresses; each group has its own bias."""
    problem = problem_of(axis, wanted, layout, groups)
    plan = engine.plan(problem, "winograd")
    assert isinstance(plan.recast, Hops)
    assert isinstance(plan.recipe, Winograd)
    check_plan(plan, tile_rows=tile_rows(machine()))
    data, weights = (
        whole_numbers(problem.shape(operand), "float32", seed)
        for seed, operand in enumerate(problem.given)
    )
    channels = groups * (1 if wanted is Operand.FINE else 20)
    bias = np.arange(1, channels + 1, dtype=np.float32)
    channel_axis = problem.layout(wanted).words.index("gf" if wanted is Operand.FINE else "gc")
    shape = [channels if place == channel_axis else 1 for place in range(3)]
    expected = reference.answer(problem, data, weights) + bias.reshape(shape)
    run = engine.executable(problem, "winograd")
    packed = run.pack(weights)
    gaps = np.repeat(data, 2, axis=2)[:, :, ::2]
    out = np.repeat(np.zeros_like(expected, np.float32), 2, axis=1)[:, ::2]
    far = np.repeat(weights, 3, axis=2)[:, :, ::3]
    found = np.empty(expected.shape, np.float32)
    launch = run.launch(data.strides, found.strides, weights.strides)
    assert launch is not None
    launch(data.ctypes.data, found.ctypes.data, packed.address, run.padded_bias(bias).ctypes.data)  # type: ignore[attr-defined]

    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-3)
    np.testing.assert_array_equal(run.run(data, packed, bias, None), found)
    np.testing.assert_array_equal(run.run(gaps, run.pack(far), bias, out), found)


def test_a_picture_of_frames() -> None:
    """Only the last axis has them; others keep their windows."""
    lines = Axis(fine_size=9, coarse_size=5, taps=3, stride=2, dilation=1, pad_begin=1)
    for wanted, layout in product((Operand.FINE, Operand.COARSE), LAYOUTS):
        problem = replace(problem_of(FRAMES, wanted, layout), axes=(lines, FRAMES), bias=False)
        data, weights = (
            whole_numbers(problem.shape(operand), "float32", seed)
            for seed, operand in enumerate(problem.given)
        )
        run = engine.executable(problem, "winograd")

        assert isinstance(run.plan.recast, Hops)
        np.testing.assert_allclose(
            run.run(data, run.pack(weights), None, None),
            reference.answer(problem, data, weights),
            rtol=1e-5,
            atol=2e-3,
        )


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite_reaches_only_its_own_points(value: float) -> None:
    """As the definition says, from data and from weights."""
    data, weights = np.ones((1, 600, 40), np.float32), np.ones((600, 1, 512), np.float32)
    bound = tconv.onnx.ConvTranspose(strides=[128]).bind(weights)
    assert "frames" in str(tconv.onnx.ConvTranspose(strides=[128]).plan(data.shape, weights.shape))
    data[0, 3, 17] = value
    weights[5, 0, 130] = value
    spoilt = tconv.onnx.ConvTranspose(strides=[128]).bind(weights)
    reached = np.zeros(bound(data).shape, bool)
    reached[..., 17 * 128 : 17 * 128 + 512] = True
    hit = np.zeros_like(reached)
    hit[..., 130 : 130 + 40 * 128 : 128] = True

    np.testing.assert_array_equal(np.isfinite(bound(data)), ~reached)
    np.testing.assert_array_equal(np.isfinite(spoilt(data)), ~(reached | hit))


def test_an_inverse_stft_is_framed_both_ways() -> None:
    """The layer that this is for: chosen without asking, and near float64."""
    numbers = np.random.default_rng(0)
    spectrum = numbers.standard_normal((1, 514, 60)).astype(np.float32)
    filters = numbers.standard_normal((514, 1, 512)).astype(np.float32)
    for operator, first in (
        (tconv.onnx.ConvTranspose(strides=[128]), spectrum),
        (tconv.onnx.Conv(strides=[128]), numbers.standard_normal((1, 1, 8064)).astype(np.float32)),
    ):
        assert "frames of 128 channels" in str(operator.plan(first.shape, filters.shape))
        ours = operator(first, filters)
        exact = operator(first.astype(np.float64), filters.astype(np.float64))
        assert np.abs(ours - exact).max() < 1e-5 * np.abs(exact).max()


def apart(weights: Array, offset: int) -> Array:
    """Return weights every second of whose taps is another's, so many bytes off."""
    channels, one, taps = weights.shape
    room = np.zeros(2 * weights.nbytes + 8, np.uint8)
    made = np.ndarray((channels, one, 2 * taps), weights.dtype, room.data, offset)[:, :, ::2]
    made[...] = weights
    return made


def test_weights_that_are_transformed_in_every_call_are_seen_as_frames_too() -> None:
    """Too many to be there at once: in slices, from wherever they lie."""
    numbers = np.random.default_rng(0)
    data = numbers.standard_normal((2, 2048, 100)).astype(np.float32)
    weights = numbers.standard_normal((2048, 1, 4096)).astype(np.float32)
    bias = np.ones(1, np.float32)
    operator = tconv.onnx.ConvTranspose(strides=[1024])
    problem = operator.resolve(data.shape, weights.shape).problem
    assert problem is not None
    run = engine.executable(problem)
    assert isinstance(run.plan.recast, Hops)
    assert isinstance(run.plan.recipe, Winograd)
    assert run.plan.recipe.slice < run.plan.recipe.panels  # or nothing is shown
    expected = operator.bind(weights, bias=bias, algorithm="direct")(data)
    for given in (weights, apart(weights, 0), apart(weights, 1), weights[:, :, ::-1][:, :, ::-1]):
        for _ in range(3):  # the second call is quick
            found = operator(data, given, bias)
            assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()
