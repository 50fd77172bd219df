"""Which algorithm few written channels get."""

from dataclasses import replace

import pytest

from tconv.plan import Spread, choose_plan
from tconv.plan.machine import AVX2
from tconv.problem import Axis, Layout, Operand, Problem


def a_layer(wanted: Operand, layout: str, axis: Axis, channels: tuple[int, int]) -> Problem:
    """Return a picture with channels read, and written."""
    coarse, fine = channels if wanted is Operand.FINE else channels[::-1]
    order = "n {} x" if layout == "NCX" else "n x {}"
    layouts = Layout(order.format("gc")), Layout(order.format("gf")), Layout("gc f x")
    return Problem(wanted, 1, 1, coarse, fine, (axis, axis), "float32", *layouts)


SAME = Axis(30, 30, 3, 1, 1, 1)
HALF = Axis(60, 30, 3, 2, 1, 1)
POINTS = Axis(30, 30, 1, 1, 1, 0)
EVEN = Axis(60, 30, 4, 2, 1, 1)
LONG = Axis(98, 30, 5, 3, 3, 0)
MISSED = Axis(15, 7, 9, 1, 1, 0)  # most taps of an output meet nothing


@pytest.mark.parametrize(
    ("wanted", "layout", "axis", "channels", "algorithm"),
    [
        (Operand.FINE, "NXC", LONG, (128, 1), "overlap"),
        (Operand.FINE, "NCX", LONG, (128, 7), "overlap"),
        (Operand.COARSE, "NCX", SAME, (128, 2), "overlap"),
        (Operand.FINE, "NCX", LONG, (3, 2), "planes"),
        (Operand.COARSE, "NXC", HALF, (256, 2), "dots"),
        (Operand.COARSE, "NXC", HALF, (32, 2), "dots"),
        (Operand.COARSE, "NXC", POINTS, (40, 3), "dots"),
        (Operand.COARSE, "NCX", POINTS, (40, 3), "planes"),
        (Operand.FINE, "NXC", EVEN, (64, 3), "dots"),
        (Operand.FINE, "NCX", EVEN, (64, 3), "planes"),
        (Operand.FINE, "NXC", MISSED, (40, 24), "overlap"),
        (Operand.FINE, "NCX", MISSED, (40, 24), "overlap"),
        (Operand.FINE, "NXC", MISSED, (40, 256), "phases"),
    ],
)
def test_what_is_chosen(
    wanted: Operand, layout: str, axis: Axis, channels: tuple[int, int], algorithm: str
) -> None:
    """As measured, about; any batch is treated like one image."""
    problem = a_layer(wanted, layout, axis, channels)
    for batch in (1, 2, 32):
        assert choose_plan(replace(problem, batch=batch), AVX2, "").algorithm == algorithm


def test_few_taps_are_summed_along_lines_whatever_the_stride() -> None:
    """A gather would turn all that it reads, and all sums, for a tap or two."""
    layouts = Layout("n gc x"), Layout("n gf x"), Layout("gc f x")
    axis = Axis(5 * 990 + 1, 991, 1, 5, 1, 0)
    problem = Problem(Operand.FINE, 1, 1, 256, 24, (axis,), "float32", *layouts)

    plan = choose_plan(problem, AVX2, "")
    if isinstance(plan.recipe, Spread):
        plan = plan.recipe.variants[0].inner
    assert plan.algorithm == "planes"


def test_cells_are_refused_where_a_phase_lacks_a_tap() -> None:
    """However many taps meet nothing: an infinity must not meet the zeros in their place."""
    for first, last in (
        (Axis(2, 1, 2, 2, 3, 2), Axis(3, 3, 2, 1, 3, 0)),
        (Axis(8, 4, 3, 2, 1, 1), Axis(8, 4, 3, 2, 1, 1)),
    ):
        layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
        problem = Problem(Operand.FINE, 1, 1, 3, 2, (first, last), "float32", *layouts)

        assert choose_plan(problem, AVX2, "").algorithm != "cells"
