"""Blocks and chunks of grouped layers: what is packed again, and what memory is read by."""

import math
from dataclasses import replace

import pytest

from tconv.plan.check_grouped import check_grouped
from tconv.plan.group_blocks import choose_block
from tconv.plan.grouped import FIELDS, Grouped, plan_grouped
from tconv.plan.machine import AVX2
from tconv.plan.phases import all_phases
from tconv.problem import Axis, Layout, Operand, Problem


def depthwise(axes: tuple[Axis, ...], groups: int, layout: str, dtype: str = "float32") -> Problem:
    """Return a depthwise convolution."""
    return Problem(
        Operand.COARSE, 1, groups, 1, 1, axes, dtype,
        Layout(layout.format("gc")), Layout(layout.format("gf")), Layout("gc f x"),
    )  # fmt: skip


def number(recipe: Grouped, name: str) -> int:
    """Return a number of the record."""
    return recipe.record[FIELDS[name]]


@pytest.mark.parametrize(
    ("axes", "most"),
    [
        ((Axis(137, 61, 7, 2, 3, 1), Axis(69, 28, 7, 2, 3, 2)), 12),
        ((Axis(25, 5, 7, 2, 3, 1), Axis(37, 14, 5, 2, 3, 1), Axis(27, 14, 5, 2, 3, 6)), 120),
        ((Axis(58, 56, 3, 1, 1, 0), Axis(58, 56, 3, 1, 1, 0)), 1.5),
    ],
    ids=["dilated", "dilated in three dimensions", "narrow"],
)
def test_wide_windows_are_not_packed_for_every_point(axes: tuple[Axis, ...], most: float) -> None:
    """By points that are packed for each that is written."""
    phases = all_phases(depthwise(axes, 64, "n {} x"))
    block = choose_block(phases, (128, 128), 32, 2, AVX2)
    packed = [a.step_in * (size - 1) + a.span for a, size in zip(phases, block, strict=True)]

    assert math.prod(packed) <= most * math.prod(block)


@pytest.mark.parametrize("groups", [40, 100, 1000, 1024, 1036])
def test_pairs_of_panels_are_not_cut(groups: int) -> None:
    """Two panels of bfloat16 are read together: chunks are even, or there is one."""
    for layout in ("n {} x", "n x {}"):
        axes = (Axis(16, 14, 3, 1, 1, 0), Axis(16, 14, 3, 1, 1, 0))
        problem = depthwise(axes, groups, layout, "bfloat16")
        recipe = plan_grouped(problem, AVX2)
        check_grouped(problem, recipe)

        assert number(recipe, "chunks") == 1 or number(recipe, "panels_a_chunk") % 2 == 0


def test_points_from_memory_are_read_whole() -> None:
    """Arrays that no cache holds are read from one end to the other, others in chunks."""
    axes = (Axis(16, 14, 3, 1, 1, 0), Axis(16, 14, 3, 1, 1, 0))
    near = plan_grouped(depthwise(axes, 1040, "n x {}"), AVX2)
    axes = (Axis(66, 64, 3, 1, 1, 0), Axis(66, 64, 3, 1, 1, 0))
    far = plan_grouped(depthwise(axes, 1040, "n x {}"), AVX2)

    assert not near.packs
    assert not far.packs
    assert number(near, "chunks") > 1
    assert number(far, "chunks") == 1


@pytest.mark.parametrize(
    ("groups", "taps", "dilation", "packs"),
    [(1024, 3, 1, True), (512, 5, 1, True), (1040, 3, 1, False), (96, 3, 1, False),
     (128, 5, 2, True), (100, 5, 2, False)],
)  # fmt: skip
def test_points_that_push_each_other_out_of_the_cache_are_packed(
    groups: int, taps: int, dilation: int, *, packs: bool
) -> None:
    """Whole pages apart, or with wide windows; but not where last vectors would be half empty."""
    pad = dilation * (taps - 1) // 2
    axes = (Axis(19, 19, taps, 1, dilation, pad),) * 2
    layer = depthwise(axes, groups, "n x {}")

    for batch in (1, 32):  # an image is summed the same way in any company
        assert plan_grouped(replace(layer, batch=batch), AVX2).packs == packs
    assert not plan_grouped(depthwise(axes, groups, "n {} x"), AVX2).packs
