"""Blocks that are split where they touch a border: what lies inside is not packed."""

from dataclasses import replace

import numpy as np
import pytest

from strategies import whole_numbers
from tconv import engine, reference
from tconv.errors import InternalError
from tconv.plan import Gather, choose_plan
from tconv.plan.check import check_plan
from tconv.plan.gather import FIELDS
from tconv.plan.machine import AVX2
from tconv.plan.tiles import tile_rows
from tconv.problem import Axis, Layout, Operand, Problem


def problem_of(
    axes: tuple[Axis, ...], coarse: int = 8, fine: int = 64, batch: int = 1, layout: str = "n x {}"
) -> Problem:
    """Return a question for COARSE: many channels are read for few."""
    layouts = Layout(layout.format("gc")), Layout(layout.format("gf")), Layout("gc f x")
    return Problem(Operand.COARSE, batch, 1, coarse, fine, axes, "float32", *layouts)


def boxes(problem: Problem) -> int:
    """Return into how many boxes blocks are split."""
    recipe = choose_plan(problem, AVX2, "", "direct").recipe
    assert isinstance(recipe, Gather)
    return recipe.record[FIELDS["boxes"]]


def padded(points: int, taps: int = 3, stride: int = 2, pad: int = 1, extra: int = 0) -> Axis:
    """Return an axis with pads on both sides."""
    fine = stride * (points - 1) + taps - 2 * pad + extra
    return Axis(fine, points, taps, stride, 1, pad)


LAYERS = {
    "2-D": problem_of((padded(28), padded(28))),
    "2-D, an odd end": problem_of((padded(28, extra=1), padded(29, 4))),
    "1-D": problem_of((padded(300, 5, 3, 2),), 16, 100),
    "3-D": problem_of((padded(6), padded(12), padded(21))),
    "several images": problem_of((padded(13), padded(26)), batch=3),
    "nine channels": problem_of((padded(40), padded(40)), 9, 32),
    "not padded behind": problem_of((Axis(58, 28, 3, 2, 1, 1), padded(28))),
}


@pytest.mark.parametrize("name", LAYERS)
def test_every_bit_is_that_of_packed_blocks(name: str) -> None:
    """Whole numbers: products of zeros at the border are left out or not, sums are the same."""
    problem = LAYERS[name]
    data, weights = (
        whole_numbers(problem.shape(operand), "float32", seed)
        for seed, operand in enumerate(problem.given)
    )
    expected = reference.answer(problem, data, weights)
    run = engine.executable(problem, "direct")

    assert np.array_equal(run.run(data, run.pack(weights), None, None), expected)


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "3-D"])
def test_blocks_of_few_written_channels_are_split(name: str) -> None:
    """Packing would take about as long as multiplying."""
    assert boxes(LAYERS[name]) == 3 ** len(LAYERS[name].axes)


def test_tiny_pictures_and_many_channels_are_packed_whole() -> None:
    """Most points lie at a border; or what is packed is read so often that it does not matter."""
    assert boxes(problem_of((padded(7), padded(7)), batch=32)) == 1
    assert boxes(problem_of((padded(28), padded(28)), 256)) == 1


@pytest.mark.parametrize("name", ["2-D, an odd end", "1-D", "not padded behind"])
def test_split_plans_are_checked_box_by_box(name: str) -> None:
    """And a border that is one point off is refused."""
    small = replace(LAYERS[name], coarse_channels=8, fine_channels=16)
    plan = choose_plan(small, AVX2, "", "direct")
    assert isinstance(plan.recipe, Gather)
    record = list(plan.recipe.record)
    record[FIELDS["boxes"]] = 3 ** len(small.axes)
    check_plan(replace(plan, recipe=replace(plan.recipe, record=tuple(record))),
               tile_rows=tile_rows(AVX2))  # fmt: skip
    record[FIELDS["inside_low"]] -= 1
    wrong = replace(plan, recipe=replace(plan.recipe, record=tuple(record)))

    with pytest.raises(InternalError, match="read in place reach outside"):
        check_plan(wrong, tile_rows=tile_rows(AVX2))
