"""Windows longer than the picture: taps that meet nothing are neither listed nor multiplied."""

import time
from dataclasses import replace

import numpy as np
import pytest

from plan.plans import plans
from tconv import engine
from tconv.plan import Gather, Plan, Planes, choose_plan
from tconv.plan.check import check_plan
from tconv.plan.gather import FIELDS, plan_gather
from tconv.plan.machine import AVX2
from tconv.plan.phases import even_phases, meeting_taps
from tconv.plan.tiles import tile_rows
from tconv.problem import Axis, Layout, Operand, Problem

LAYOUTS = Layout("n gc x"), Layout("n gf x"), Layout("gc f x")
LONG = Axis(fine_size=9, coarse_size=5, taps=40, stride=2, dilation=1, pad_begin=15)


def layer(wanted: Operand, axis: Axis, channels: tuple[int, int] = (3, 20)) -> Problem:
    """Return a layer with one axis."""
    return Problem(wanted, 1, 1, *channels, (axis,), "float32", *LAYOUTS)


def listed(plan: Plan) -> set[tuple[int, ...]]:
    """Return the taps that a plan multiplies."""
    if isinstance(plan.recipe, Gather):
        return {tap for run in plan.recipe.runs for tap in run.taps}
    assert isinstance(plan.recipe, Planes)
    return {*plan.recipe.taps}


def test_the_range_of_taps_holds_all_that_meet() -> None:
    """And its ends are as near as the sizes say."""
    for pad in range(-3, 50):
        axis = replace(LONG, pad_begin=pad)
        met = [tap for tap in range(axis.taps) if axis.reach(tap).count]
        assert set(met) <= set(meeting_taps(axis))
        assert not met or (met[0], met[-1]) == (meeting_taps(axis)[0], meeting_taps(axis)[-1])
        assert axis.meetings() == sum(axis.reach(tap).count for tap in range(axis.taps))


@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
@pytest.mark.parametrize("pad", [-20, 0, 15, 39, 60])
def test_no_other_tap_is_multiplied(wanted: Operand, pad: int) -> None:
    """With channels for gathers and for planes; all taps may meet nothing."""
    axis = replace(LONG, pad_begin=pad)
    for channels in ((20, 20), (20, 3), (3, 20)):
        problem = layer(wanted, axis, channels)
        for plan in plans(problem, AVX2):
            check_plan(plan, tile_rows=tile_rows(AVX2))
            useful = len(meeting_taps(axis))
            assert len(listed(plan)) <= useful


def test_phases_begin_where_the_result_begins() -> None:
    """Every phase has the same points, and reads what the relation says."""
    for pad in range(5):
        axis = Axis(fine_size=13, coarse_size=6, taps=5, stride=3, dilation=2, pad_begin=pad)
        (_, split) = even_phases(layer(Operand.FINE, axis))
        for phase, (low, high) in enumerate(split.ranges):
            for point in range(low, high):
                met = zip(split.taps[phase], split.offsets[phase], strict=True)
                inside = {(t, point + o) for t, o in met if 0 <= point + o < axis.coarse_size}
                here = split.step_out * point + phase
                every = ((t, c) for t in range(axis.taps) for c in range(axis.coarse_size))
                assert inside == {(t, c) for t, c in every if axis.fine(c, t) == here}


@pytest.mark.parametrize("groups", [1, 16])
def test_weights_that_meet_nothing_are_zero(groups: int) -> None:
    """They are written all the same, by every algorithm."""
    problem = replace(layer(Operand.WEIGHTS, LONG, (1, 1)), groups=groups)
    given = [np.ones(problem.shape(operand), "float32") for operand in problem.given]
    found = engine.executable(problem).run(given[0], given[1], None, None)
    due = [LONG.reach(tap).count for tap in range(LONG.taps)]

    np.testing.assert_array_equal(found, np.broadcast_to(due, found.shape))


def test_a_window_of_a_million_taps_is_planned_at_once_for_a_small_picture() -> None:
    """Only taps that meet something take time."""
    for wanted in (Operand.FINE, Operand.COARSE):
        start = time.process_time()
        choose_plan(layer(wanted, Axis(100, 100, 1_000_000, 1, 1, 500_000)), AVX2, "")
        assert time.process_time() - start < 1


@pytest.mark.parametrize("channels", [8, 4, 3])
def test_few_channels_leave_out_what_wide_windows_miss(channels: int) -> None:
    """Three quarters of all products were zeros; runs of three channels do not pay for lists."""
    sizes = (5, 10, 14)
    axes = tuple(Axis(n + 4, n, taps=4, stride=1, dilation=2, pad_begin=1) for n in sizes)
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    problem = Problem(Operand.FINE, 4, 2, channels, 12, axes, "float32", *layouts)
    recipe = plan_gather(problem, AVX2)

    assert (recipe.record[FIELDS["words"]] > 0) == (channels > 3)
