"""Tiles of very few channels with vectors along what is read: as machine code and as NumPy."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

import strategies
from codegen.meanings import Array, Code
from tconv import engine, reference
from tconv.codegen.dots import dot_line_meaning, emit_dot_line
from tconv.jit import host_machine
from tconv.plan.dots import MOST_WRITTEN, ROWS, Dots, lines_fit, plan_dots
from tconv.plan.machine import AVX2
from tconv.problem import (
    DTYPES,
    Activation,
    Axis,
    Layout,
    Operand,
    Problem,
    accumulator,
    numpy_dtype,
)
from tconv.runtime.kernels import kernel_shape, machine
from tconv.runtime.panels import DotsRunner

CHANNELS = range(1, MOST_WRITTEN + 1)
GUARD = 64  # elements around what may be written


@cache
def code() -> tuple[Code, dict[tuple[str, int], str]]:
    """Compile all of them at once."""
    made = Code()
    shapes = {dtype: kernel_shape(dtype, host_machine()) for dtype in DTYPES}
    return made, {
        (dtype, channels): made.add(emit_dot_line(made.module, shape, channels))
        for (dtype, shape), channels in product(shapes.items(), CHANNELS)
    }


def whole_numbers(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Return small whole numbers."""
    return strategies.whole_numbers(shape, dtype, seed)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("more", [0, 1, 5, 8, 13])
def test_lines_equal_their_meaning(channels: int, dtype: str, more: int) -> None:
    """Depths of whole vectors and others; points less than, as many as and more than tiles have."""
    made, names = code()
    lanes, sums = machine().lanes(dtype), accumulator(dtype).name
    depth, segments = lanes + more, np.array([7, 0, 31])
    for points, count in product((1, ROWS[channels] - 1, ROWS[channels], 19), (0, 1, 3)):
        apart, between, channel = 5, 2 * channels + 1, 2
        data = whole_numbers((GUARD + depth + points * apart,), sums, 1)
        weights = whole_numbers((count, channels, depth), sums, 2)
        bias = whole_numbers((channels,), sums, 3)
        expected = np.full(2 * GUARD + points * between, 99, sums)
        computed = expected.astype(numpy_dtype(dtype))
        sizes = depth, points, apart, between, channel
        some = segments[:count]
        dot_line_meaning(expected[GUARD:], bias, data, weights, some, sizes)
        begins = np.minimum(np.arange(0, depth, lanes), depth - lanes)
        packed = weights[:, :, begins[:, None] + np.arange(lanes)].swapaxes(1, 2).ravel()
        arrays = computed[GUARD:], bias, data, packed, segments
        made.call(names[dtype, channels], *arrays, count, *sizes)

        np.testing.assert_array_equal(computed.astype(sums), expected, f"{points} {count}")


def layer(  # noqa: PLR0913 - what differs between layers
    wanted: Operand,
    channels: tuple[int, int],
    axes: tuple[Axis, ...],
    dtype: str = "float32",
    groups: int = 1,
    layout: str = "n x {}",
) -> Problem:
    """Return a layer that reads and writes so many channels of a group."""
    read, written = channels
    coarse, fine = (written, read) if wanted is Operand.COARSE else (read, written)
    layouts = Layout(layout.format("gc")), Layout(layout.format("gf")), Layout("gc f x")
    return Problem(wanted, 2, groups, coarse, fine, axes, dtype, *layouts, bias=True)


PICTURES = {
    "borders": (Axis(13, 13, 3, 1, 1, 1), Axis(27, 27, 3, 1, 1, 1)),
    "phases": (Axis(20, 10, 3, 2, 1, 1), Axis(29, 14, 2, 2, 1, 0)),
    "no taps": (Axis(17, 5, 2, 4, 1, 1), Axis(18, 6, 1, 3, 1, 0)),
    "points": (Axis(9, 9, 1, 1, 1, 0), Axis(17, 17, 1, 1, 1, 0)),
    "dilated": (Axis(31, 8, 2, 4, 3, 1),),
    "volume": (Axis(5, 5, 2, 1, 1, 1), Axis(6, 6, 3, 1, 1, 1), Axis(11, 11, 3, 1, 1, 1)),
}
WANTED = [Operand.FINE, Operand.COARSE]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("name", PICTURES)
def test_layers_are_right(name: str, wanted: Operand, dtype: str) -> None:
    """Any window, groups, channels that are whole vectors and others, of a wider array too."""
    lanes = machine().lanes(dtype)
    for written, read, groups in product(CHANNELS, (lanes, 2 * lanes + 3), (1, 3)):
        check(layer(wanted, (read, written), PICTURES[name], dtype, groups))


def check(problem: Problem) -> None:
    """Compare with the definition."""
    dtype, written = problem.dtype, problem.shape(problem.wanted)[-1]
    data, weights = (
        strategies.whole_numbers(problem.shape(operand), dtype, seed)
        for seed, operand in enumerate(problem.given)
    )
    bias = strategies.whole_numbers((written,), dtype, 3)
    due = reference.answer(problem, data, weights) + bias.astype("float64")
    runner = DotsRunner(problem, plan_dots(problem, machine()))
    packed = runner.pack(weights)
    wide = np.full((*data.shape[:-1], data.shape[-1] + 3), np.nan, data.dtype)
    wide[..., :-3] = data
    for given in (data, wide[..., :-3]):
        out = np.full(problem.shape(problem.wanted), 99, numpy_dtype(dtype))
        runner.run(given, packed, bias, out)

        exact = due.astype(out.dtype).astype("float64")
        np.testing.assert_array_equal(out.astype("float64"), exact, str(problem))


LINES = {
    "strided": (Axis(21, 8, 3, 3, 1, 1), Axis(40, 17, 9, 2, 1, 1)),
    "borders": (Axis(9, 9, 5, 1, 1, 2), Axis(17, 17, 17, 1, 1, 8)),
    "volume": (Axis(4, 4, 2, 1, 1, 0), Axis(5, 5, 3, 1, 1, 1), Axis(23, 20, 4, 1, 1, 0)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("name", LINES)
def test_taps_of_a_line_make_vectors_of_few_channels(
    name: str, wanted: Operand, dtype: str
) -> None:
    """Their points lie side by side, and so do the channels of all of them."""
    found = [
        layer(wanted, both, LINES[name], dtype)
        for both in product(range(1, machine().lanes(dtype)), CHANNELS)
    ]
    fitting = [problem for problem in found if lines_fit(problem, machine())]

    assert len(fitting) >= len(CHANNELS)
    for problem in fitting:
        check(problem)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("wanted", WANTED)
def test_activations_are_applied_to_sums(wanted: Operand, dtype: str) -> None:
    """They are kept until the store then, and rounded once."""
    plain = layer(wanted, (19, 3), PICTURES["phases"], dtype)
    problem = replace(plain, activation=Activation("leaky_relu", 0.5))
    data, weights = (
        strategies.whole_numbers(problem.shape(operand), dtype, seed)
        for seed, operand in enumerate(problem.given)
    )
    bias = strategies.whole_numbers((3,), dtype, 3)
    runner = DotsRunner(problem, plan_dots(problem, machine()))
    out = np.full(problem.shape(wanted), 99, numpy_dtype(dtype))
    runner.run(data, runner.pack(weights), bias, out)

    due = reference.answer(plain, data, weights) + bias.astype("float64")
    due = np.where(due < 0, due / 2, due).astype(out.dtype)
    np.testing.assert_array_equal(out.astype("float64"), due.astype("float64"))


@pytest.mark.parametrize("wanted", WANTED)
def test_infinities_count_once(wanted: Operand) -> None:
    """A last vector reads some elements again: times nothing, an infinity would be NaN."""
    problem = layer(wanted, (machine().lanes("float32") + 3, 2), PICTURES["borders"])
    data, weights = (
        strategies.whole_numbers(problem.shape(operand), "float32", seed)
        for seed, operand in enumerate(problem.given)
    )
    data[0, 4, 5] = np.inf
    weights[:] = np.abs(weights) + 1
    runner = DotsRunner(problem, plan_dots(problem, machine()))
    out = np.full(problem.shape(wanted), 99, "float32")
    runner.run(data, runner.pack(weights), np.zeros(2, "float32"), out)

    with np.errstate(invalid="ignore"):
        due = reference.answer(problem, data, weights)
    np.testing.assert_array_equal(out, due)


def test_lines_are_for_few_written_channels_that_read_side_by_side() -> None:
    """Others fill vectors by what they write, or would be turned."""
    axes = (Axis(9, 9, 3, 1, 1, 1), Axis(9, 9, 3, 1, 1, 1))
    fitting = layer(Operand.COARSE, (64, MOST_WRITTEN), axes)

    assert lines_fit(fitting, AVX2)
    assert not lines_fit(layer(Operand.COARSE, (64, MOST_WRITTEN + 1), axes), AVX2)
    assert lines_fit(layer(Operand.COARSE, (3, 1), axes), AVX2)  # three taps of them
    assert not lines_fit(layer(Operand.COARSE, (2, 1), axes), AVX2)
    assert not lines_fit(layer(Operand.COARSE, (7, 1), axes, groups=2), AVX2)
    apart = (Axis(9, 9, 3, 1, 1, 1), Axis(9, 9, 3, 1, 2, 2))
    assert not lines_fit(layer(Operand.COARSE, (7, 1), apart), AVX2)
    assert not lines_fit(layer(Operand.COARSE, (64, 1), axes, layout="n {} x"), AVX2)


def test_a_head_of_one_channel_takes_dots() -> None:
    """Bound and not, plain and packed again: as the definition says."""
    problem = layer(Operand.COARSE, (64, 1), (Axis(40, 40, 3, 1, 1, 1),) * 2)
    run = engine.executable(problem)
    assert isinstance(run.plan.recipe, Dots)
    assert "dots" in str(run.plan)
    data, weights = (
        strategies.whole_numbers(problem.shape(operand), "float32", seed)
        for seed, operand in enumerate(problem.given)
    )
    due = reference.answer(problem, data, weights)
    np.testing.assert_array_equal(run.run(data, run.pack(weights), None, None), due)
    repacking = run.repacking(weights.strides)
    assert repacking is not None
    np.testing.assert_array_equal(run.run(data, repacking(weights), None, None), due)
