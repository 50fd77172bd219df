"""Correlations in every form that they can take, each with a machine that it is planned for."""

from dataclasses import dataclass, replace
from functools import cache

from plan.plans import SIDES, Form, Parts, a_layer, caches
from tconv.plan import Plan, correlate_form
from tconv.plan.machine import AVX2, Machine
from tconv.problem import Axis, Layout, Operand, Problem

NATURAL, SWAPPED = SIDES
GROUPS = correlate_form.Form(groups=8)
SMALL = caches(4000)


@dataclass(frozen=True)
class Case:
    """A problem, planned in a form, and the numbers of the record that make it one."""

    problem: Problem
    form: Form
    numbers: dict[str, int]
    machine: Machine = SMALL

    def plan(self) -> Plan:
        """Plan in this form."""
        return self.form.plan(self.problem, self.machine)


def layer(coarse: int, fine: int, *axes: Axis) -> Problem:
    """Return a layer for WEIGHTS: two groups, two images of 5 x 7 points if not said."""
    problem = a_layer(Operand.WEIGHTS, coarse, fine)
    return replace(problem, axes=axes or problem.axes)


def many(problem: Problem) -> Problem:
    """Return the same with groups for a whole vector, and some more."""
    return replace(problem, groups=10)


def last(problem: Problem) -> Problem:
    """Return the same with channels side by side."""
    return replace(problem, coarse_layout=Layout("n x gc"), fine_layout=Layout("n x gf"))


FAR = Axis(9, 3, 3, 1, 3, 1)  # windows as long as the picture
ONCE = Axis(9, 1, 3, 4, 2, 1)  # a single window
SPARSE = Axis(80, 4, 3, 20, 2, 2)  # windows apart: most residues are never read
HALF = Axis(20, 5, 2, 4, 1, 1)  # half of the residues are never read, but packed in no time
LONG = Axis(200, 5, 12, 40, 1, 1)  # the same, and points that meet a tap lie far apart
LINES = (1, 2, 7)  # some lines of an image: the last block has one

CASES = {
    "natural": Case(layer(18, 18), Form(NATURAL, block=LINES), {"swapped": 0, "all_blocks": 6}),
    "swapped": Case(layer(18, 2), Form(SWAPPED, block=LINES), {"swapped": 1, "all_blocks": 6}),
    "groups": Case(many(layer(18, 3)), Form(GROUPS, block=LINES), {"groups": 10, "all_blocks": 6}),
    "groups, pieces and chunks": Case(
        many(layer(8, 5)),
        Form(GROUPS, Parts(2, 3, 6, 2), LINES),
        {"pieces": 2, "tap_chunks": 4, "row_chunks": 2, "panel_chunks": 2},
    ),
    "groups, shared": Case(
        many(layer(18, 5)),
        Form(GROUPS, Parts(1, 12, 6, 1, shared=True)),
        {"all_blocks": 1, "row_chunks": 3, "panel_chunks": 3, "sums_step": 0},
    ),
    "lines cut": Case(layer(7, 18), Form(NATURAL, block=(1, 1, 4)), {"all_blocks": 20}),
    "images and lines are one run": Case(
        layer(7, 18), Form(NATURAL, block=(2, 5, 7), split=1), {"all_blocks": 1, "split": 1}
    ),
    "lines apart": Case(layer(7, 9, FAR, FAR), Form(NATURAL, block=(1, 2, 3)), {"split": 2}),
    "swapped, lines apart": Case(
        layer(9, 2, FAR, FAR), Form(SWAPPED, block=(1, 2, 3)), {"split": 2, "swapped": 1}
    ),
    "long runs": Case(
        layer(7, 18), Form(NATURAL, block=(1, 5, 7)), {"run_points": 2}, caches(1500)
    ),
    "pieces": Case(layer(7, 18), Form(NATURAL, Parts(4, 12, 12, 2), LINES), {"pieces": 4}),
    "swapped, pieces": Case(
        layer(18, 2), Form(SWAPPED, Parts(6, 12, 6, 2), LINES), {"pieces": 6, "swapped": 1}
    ),
    "chunks": Case(
        layer(18, 34),
        Form(NATURAL, Parts(1, 6, 12, 2), LINES),
        {"tap_chunks": 2, "row_chunks": 2, "panel_chunks": 2},
    ),
    "swapped, chunks": Case(
        layer(34, 5),
        Form(SWAPPED, Parts(1, 9, 6, 2), LINES),
        {"tap_chunks": 2, "row_chunks": 1, "panel_chunks": 2, "swapped": 1},
    ),
    "pieces and chunks": Case(
        layer(8, 20),
        Form(NATURAL, Parts(2, 3, 6, 1), LINES),
        {"pieces": 2, "tap_chunks": 4, "row_chunks": 2, "panel_chunks": 2},
    ),
    "shared": Case(
        layer(18, 34),
        Form(NATURAL, Parts(1, 12, 6, 1, shared=True)),
        {"all_blocks": 1, "row_chunks": 3, "panel_chunks": 3, "sums_step": 0},
    ),
    "shared, panels together": Case(
        layer(18, 34),
        Form(NATURAL, Parts(1, 12, 6, 3, shared=True)),
        {"block_panels": 3, "sums_step": 0},
        AVX2,
    ),
    "pieces, panels together": Case(
        layer(18, 34), Form(NATURAL, Parts(4, 12, 6, 3), LINES), {"block_panels": 3}, AVX2
    ),
    "swapped, shared": Case(
        layer(34, 5),
        Form(SWAPPED, Parts(1, 6, 6, 2, shared=True)),
        {"all_blocks": 1, "tap_chunks": 2, "panel_chunks": 2, "swapped": 1, "sums_step": 0},
    ),
    "a single point": Case(layer(7, 9, ONCE, ONCE), Form(NATURAL), {"all_blocks": 1}),
    "swapped, a single point": Case(layer(9, 2, ONCE, ONCE), Form(SWAPPED), {"swapped": 1}),
    "windows apart": Case(
        layer(7, 9, SPARSE, SPARSE), Form(NATURAL), {"b_width": 3, "b_contiguous": 0}
    ),
    "all residues": Case(layer(7, 9, HALF, HALF), Form(NATURAL), {"b_width": 4, "b_contiguous": 4}),
    "swapped, lines as they lie": Case(
        layer(9, 2, HALF, HALF), Form(SWAPPED), {"a_scale": 4, "a_contiguous": 1, "a_beside": 1}
    ),
    "swapped, channels last": Case(
        last(layer(9, 2, HALF, HALF)), Form(SWAPPED), {"a_beside": 2, "a_next": 8, "split": 2}
    ),
    "swapped, all residues": Case(
        layer(9, 2, HALF, LONG), Form(SWAPPED), {"a_contiguous": 40, "a_scale": 1}
    ),
    "swapped, windows apart": Case(
        layer(9, 2, SPARSE, SPARSE), Form(SWAPPED), {"a_width": 3, "a_contiguous": 0}
    ),
}


@cache
def plan_of(case: str) -> Plan:
    """Plan a case once."""
    return CASES[case].plan()
