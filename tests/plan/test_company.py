"""What computes an image does not depend on the batch that it comes in."""

from dataclasses import replace

import pytest

from tconv.bench.families import draw_layers
from tconv.plan import choose_plan
from tconv.plan.machine import AVX2
from tconv.problem import Axis, Layout, Operand, Problem


def algorithms(problem: Problem) -> set[str]:
    """Return what batches of several sizes are computed by."""
    batches = (replace(problem, batch=batch) for batch in (1, 2, 32))
    return {choose_plan(each, AVX2, "", bound=True).algorithm for each in batches}


def test_random_layers_are_computed_alike_in_any_company() -> None:
    """Other algorithms add in another order, so the last bits of an image would change."""
    drawn = [problem for _, problem in draw_layers(5, 300)]
    found = [p for p in drawn if p.wanted is not Operand.WEIGHTS and len(algorithms(p)) > 1]

    assert not found


@pytest.mark.parametrize("groups", [2, 3, 8, 16, 32])
@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
def test_groups_of_several_channels_do_not_count_images(wanted: Operand, groups: int) -> None:
    """They are chosen for by an estimate, which has a constant part."""
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    for channels in range(2, 32, 3):
        for size in (1, 3, 7, 12):
            axis = Axis(2 * size, size, 4, 2, 1, 1)
            problem = Problem(
                wanted, 1, groups, channels, 33 - channels, (axis, axis), "float32", *layouts
            )

            assert len(algorithms(problem)) == 1, problem
