"""Into how many work items blocks and panels are split: workers should end together."""

import math

import pytest

from tconv.plan import TapProducts, Winograd, choose_plan
from tconv.plan.blocks import EVEN_PANELS, MOST_CHUNKS, box_sizes, even_chunks
from tconv.plan.gather import FIELDS, Gather
from tconv.plan.machine import AVX2
from tconv.problem import Axis, Layout, Operand, Problem


def problem_of(coarse: int, fine: int, axes: tuple[Axis, ...]) -> Problem:
    """Return a question for COARSE, channels last."""
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    return Problem(Operand.COARSE, 1, 1, coarse, fine, axes, "float32", *layouts)


def test_a_short_last_block_is_made_up_for_by_chunks() -> None:
    """Nine blocks and a third of one: of ten items one worker would do five."""
    boxes = [84] * 9 + [28]

    assert even_chunks(1, boxes, 64) > 1


@pytest.mark.parametrize("boxes", [[5] * 8, [5] * 12])
def test_blocks_that_end_together_are_left_alone(boxes: list[int]) -> None:
    """Every chunk packs its block again."""
    assert even_chunks(1, boxes, 64) == 1


@pytest.mark.parametrize(("chunks", "count", "panels"), [(4, 9, 5), (1, 31, 64), (3, 11, 40)])
def test_chunks_are_neither_fewer_nor_too_many(chunks: int, count: int, panels: int) -> None:
    """So many were needed; more must be large, and a few."""
    found = even_chunks(chunks, [7] * count, panels)

    assert found >= chunks
    assert found == chunks or (panels // found >= EVEN_PANELS and found <= MOST_CHUNKS)


@pytest.mark.parametrize("panels", range(2, 40))
@pytest.mark.parametrize("chunks", range(2, 8))
def test_two_workers_share_a_single_block(chunks: int, panels: int) -> None:
    """Four chunks of six panels would be three items: one worker would do two of them."""
    count = even_chunks(min(chunks, panels), [49], panels)
    size = -(-panels // count)
    items = [min(size, panels - first) for first in range(0, panels, size)]
    ends = [0, 0]
    for item in items:
        ends[ends.index(min(ends))] += item

    assert max(ends) <= max(1.25 * panels / 2, -(-panels // 2))


def test_a_single_block_of_many_weights_has_many_chunks() -> None:
    """Every worker packs it once, and who reads its weights faster reads more of them."""
    line = Axis(4, 2, 4, 2, 1, 1)
    recipe = choose_plan(problem_of(512, 512, (line, line)), AVX2, "", "direct").recipe

    assert isinstance(recipe, Gather)
    assert recipe.items >= 16


def test_all_points_are_in_boxes() -> None:
    """The last of every axis is what is left."""
    boxes = box_sizes((7, 10), (3, 4), 2)

    assert boxes == [12, 12, 6, 12, 12, 6, 4, 4, 2] * 2
    assert sum(boxes) == 2 * math.prod((7, 10))


def test_many_weights_for_few_patches_are_read_by_several_workers() -> None:
    """Two points are next to nothing to multiply, but twelve megabytes are read for them."""
    short, line = Axis(2, 1, 4, 2, 1, 1), Axis(4, 2, 4, 2, 1, 1)
    plan = choose_plan(problem_of(512, 512, (short, line)), AVX2, "", "winograd", bound=True)

    assert isinstance(plan.recipe, Winograd)
    assert plan.recipe.items >= 4


def test_a_single_tile_sums_its_whole_depth_at_once() -> None:
    """Its weights are read once, so they need not stay in a cache; those of more tiles do."""
    line = Axis(4, 2, 4, 2, 1, 1)
    few = choose_plan(problem_of(512, 512, (line, line)), AVX2, "", "direct").recipe
    long = Axis(16, 8, 4, 2, 1, 1)
    more = choose_plan(problem_of(512, 512, (line, long)), AVX2, "", "direct").recipe

    assert isinstance(few, Gather)
    assert isinstance(more, Gather)
    whole, part = FIELDS["segment_count"], FIELDS["part_segments"]
    assert few.record[few.record[part]] == few.record[few.record[whole]]
    assert more.record[more.record[part]] < more.record[more.record[whole]]


@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
@pytest.mark.parametrize(
    ("coarse", "fine", "size", "taps", "stride", "batch"),
    [
        (32, 32, 16, 4, 2, 1),  # phases, and a transform
        (64, 64, 14, 3, 1, 1),  # transforms
        (100, 40, 13, 2, 2, 1),
        (24, 24, 7, 3, 1, 8),
        (16, 2, 20, 5, 2, 4),  # few channels
        (48, 16, 10, 5, 1, 1),  # one panel of few points
    ],
)
def test_work_of_some_ten_microseconds_is_for_two_workers(  # noqa: PLR0913 - a layer
    wanted: Operand, coarse: int, fine: int, size: int, taps: int, stride: int, batch: int
) -> None:
    """A single work item leaves all workers but one idle."""
    axis = Axis((size - 1) * stride + taps - 2, size, taps, stride, 1, 1)
    problem = Problem(
        wanted, batch, 1, coarse, fine, (axis, axis), "float32",
        Layout("n x gc"), Layout("n x gf"), Layout("gc f x"),
    )  # fmt: skip
    assert problem.flops() > 2_400_000
    recipe = choose_plan(problem, AVX2, "", bound=True).recipe
    assert not isinstance(recipe, TapProducts)
    assert recipe.items >= 2
