"""Pictures as one line: where each point meets its own, and nowhere else."""

from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

import tconv
from strategies import whole_numbers
from tconv import engine, reference
from tconv.plan import choose_plan, flattened
from tconv.plan.check import check_plan
from tconv.plan.machine import AVX2
from tconv.plan.tiles import tile_rows
from tconv.problem import Axis, Layout, Operand, Problem

OWN = Axis(fine_size=7, coarse_size=7, taps=1, stride=1, dilation=1, pad_begin=0)
OTHERS = {
    "a window": Axis(fine_size=7, coarse_size=5, taps=3, stride=1, dilation=1, pad_begin=0),
    "a stride": Axis(fine_size=13, coarse_size=7, taps=1, stride=2, dilation=1, pad_begin=0),
    "a pad": Axis(fine_size=7, coarse_size=7, taps=1, stride=1, dilation=1, pad_begin=1),
    "a longer side": Axis(fine_size=9, coarse_size=7, taps=1, stride=1, dilation=1, pad_begin=0),
}
Array = npt.NDArray[np.float32]
LAYOUTS = ("n {} x", "x n {}", "n x {}")


def problem_of(axes: tuple[Axis, ...], layout: str, groups: int = 1) -> Problem:
    """Return a question for the weights of 24 channels to 10, or of so many groups."""
    layouts = Layout(layout.format("gc")), Layout(layout.format("gf")), Layout("gc f x")
    coarse, fine = (24, 10) if groups == 1 else (1, 1)
    return Problem(Operand.WEIGHTS, 2, groups, coarse, fine, axes, "float32", *layouts)


@pytest.mark.parametrize("name", OTHERS)
def test_other_axes_stay_what_they_are(name: str) -> None:
    """One axis that is not met point by point is enough."""
    assert flattened(problem_of((OWN, OTHERS[name]), "n {} x")) is None


def test_weights_of_points_that_lie_apart_are_no_line() -> None:
    """They are packed point by point in any case; FINE and COARSE are lines in any layout."""
    problem = problem_of((OWN, OWN), "n {} x")

    assert flattened(problem) is not None
    assert flattened(replace(problem, axes=(OWN,))) is None
    assert flattened(problem_of((OWN, OWN), "n x {}")) is None
    for wanted, layout in product((Operand.FINE, Operand.COARSE), LAYOUTS):
        assert flattened(replace(problem_of((OWN, OWN), layout), wanted=wanted)) is not None


@pytest.mark.parametrize("sizes", [(7, 7), (3, 5, 4), (1, 9), (9, 1), (1, 1), (30, 40)])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
@pytest.mark.parametrize("groups", [1, 9])
def test_pictures_are_those_of_lines(
    sizes: tuple[int, ...], layout: str, wanted: Operand, groups: int
) -> None:
    """Whole numbers, so every bit: of arrays, of views, into views, and by addresses."""
    axes = tuple(replace(OWN, fine_size=size, coarse_size=size) for size in sizes)
    problem = replace(problem_of(axes, layout, groups), wanted=wanted, bias=True)
    data, weights = (
        whole_numbers(problem.shape(operand), "float32", seed)
        for seed, operand in enumerate(problem.given)
    )
    expected = reference.answer(problem, data, weights).astype(np.float32)
    run = engine.executable(problem)
    packed = run.pack(weights)
    gaps = np.repeat(data, 2, axis=2)[:, :, ::2]
    out = np.repeat(np.zeros_like(expected), 2, axis=2)[:, :, ::2]

    assert np.array_equal(run.run(data, packed, None, None), expected)
    assert np.array_equal(run.run(gaps, packed, None, out), expected)
    launch = run.launch(data.strides, expected.strides, weights.strides)
    assert launch is not None
    found = np.empty_like(expected)
    added = run.padded_bias(None)
    launch(data.ctypes.data, found.ctypes.data, packed.address, added.ctypes.data)  # type: ignore[attr-defined]
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("sizes", [(7, 7), (3, 5, 4), (1, 9), (9, 1), (1, 1)])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("groups", [1, 9])
def test_results_are_those_of_the_picture(sizes: tuple[int, ...], layout: str, groups: int) -> None:
    """Whole numbers, so every bit: of arrays, of views, into views, and by addresses."""
    axes = tuple(replace(OWN, fine_size=size, coarse_size=size) for size in sizes)
    problem = problem_of(axes, layout, groups)
    sides = [
        whole_numbers(problem.shape(operand), "float32", seed)
        for seed, operand in enumerate(problem.given)
    ]
    expected = reference.answer(problem, *sides).astype(np.float32)
    views = [np.repeat(side, 2, axis=2)[:, :, ::2] for side in sides]
    out = np.zeros(expected.shape[::-1], np.float32).T
    run = engine.executable(problem)

    assert np.array_equal(run.run(sides[0], sides[1], None, None), expected)
    assert np.array_equal(run.run(views[0], views[1], None, out), expected)
    launch = run.launch(sides[0].strides, expected.strides, sides[1].strides)
    assert launch is not None
    found = np.empty_like(expected)
    assert launch(sides[0].ctypes.data, found.ctypes.data, sides[1].ctypes.data) is not False
    assert np.array_equal(found, expected)


def test_what_does_not_lie_as_a_line_has_no_quick_way() -> None:
    """Lines with gaps between them have to be copied first."""
    problem = problem_of((OWN, OWN), "n {} x")
    run = engine.executable(problem)
    whole = np.zeros(problem.shape(Operand.COARSE), np.float32)
    gaps = np.zeros((*whole.shape[:-1], 8), np.float32)[..., :7]
    fine, out = (np.zeros(problem.shape(each)) for each in (Operand.FINE, Operand.WEIGHTS))

    assert run.launch(gaps.strides, out.strides, fine.strides) is None


def test_what_is_planned_is_the_line() -> None:
    """The check of plans looks at what the recipe solves, and the plan says so."""
    problem = problem_of((OWN, OWN), "n {} x")
    flat = flattened(problem)
    assert flat is not None
    plan = replace(choose_plan(flat.problem, AVX2, ""), problem=problem, recast=flat)

    check_plan(plan, tile_rows=tile_rows(AVX2))
    assert "7 x 7 points as one line" in str(plan)


def test_infinities_are_answered_for_as_pictures() -> None:
    """What the kernel doubts is computed from the arrays as they came."""
    problem = problem_of((OWN, OWN), "n {} x")
    sides = [whole_numbers(problem.shape(operand), "float32", 3) for operand in problem.given]
    sides[0][0, 0, 0, 0] = np.inf
    with np.errstate(invalid="ignore"):
        expected = reference.answer(problem, *sides).astype(np.float32)
        found = engine.executable(problem).run(sides[0], sides[1], None, None)

    assert np.array_equal(found, expected, equal_nan=True)


@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
def test_infinite_weights_are_multiplied_tap_by_tap(wanted: Operand) -> None:
    """From the weights as they came, with all axes of the picture."""
    problem = replace(problem_of((OWN, OWN), "n {} x"), wanted=wanted)
    data, weights = (
        whole_numbers(problem.shape(operand), "float32", 3) for operand in problem.given
    )
    weights[0, 0, 0, 0] = np.inf
    with np.errstate(invalid="ignore"):
        expected = reference.answer(problem, data, weights).astype(np.float32)
        run = engine.executable(problem)
        found = run.run(data, run.pack(weights), None, None)

    assert np.array_equal(found, expected, equal_nan=True)


@pytest.mark.parametrize("layout", ["NCX", "NXC"])
@pytest.mark.parametrize("sizes", [(5, 6), (1, 9), (3, 4, 5)])
def test_calls_again_and_again_are_those_of_the_picture(
    sizes: tuple[int, ...], layout: str
) -> None:
    """Functions and operators, whose sides come in either order; the second call is quick."""
    x, dy, w = (
        whole_numbers(shape, "float32", seed).astype(np.float32)
        for seed, shape in enumerate(((2, 7, *sizes), (2, 5, *sizes), (5, 7, *(1 for _ in sizes))))
    )
    flat_x, flat_dy = (side.reshape(*side.shape[:2], -1) for side in (x, dy))
    matrix = w.reshape(5, 7)
    due = np.einsum("nop,ncp->oc", flat_dy, flat_x)

    def given(side: Array) -> Array:
        return side if layout == "NCX" else np.ascontiguousarray(np.moveaxis(side, 1, -1))

    sides = given(x), given(dy)
    none, one = [0] * len(sizes), [1] * len(sizes)
    op = tconv.onednn.ConvolutionBackwardWeights(
        strides=one, pads_begin=none, pads_end=none, dilations=one, weights_shape=w.shape,
        data_format=layout, weights_format="OIX",
    )  # fmt: skip
    for turn in range(3):
        found = [
            tconv.conv_grad_weight(sides[0], w.shape, sides[1], layout=layout),
            tconv.conv_transpose_grad_weight(sides[1], w.shape, sides[0], layout=layout),
            op(*sides),
        ]
        for each in found:
            assert np.array_equal(each.reshape(5, 7), due), f"turn {turn}"
        up = tconv.conv(sides[0], w, layout=layout)
        down = tconv.conv_transpose(sides[1], w, layout=layout)
        assert np.array_equal(up, given(np.einsum("oc,nc...->no...", matrix, x)))
        assert np.array_equal(down, given(np.einsum("oc,no...->nc...", matrix, dy)))


def test_a_batch_of_no_pictures_has_no_lines() -> None:
    """There is nothing to compile for it."""
    weights = np.ones((5, 7, 1, 1), np.float32)
    for layout, shape in (("NCX", (0, 7, 3, 4)), ("NXC", (0, 3, 4, 7))):
        assert tconv.conv(np.ones(shape, np.float32), weights, layout=layout).size == 0
