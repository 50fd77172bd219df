"""Plans of every compiled algorithm for tests, and plans with one wrong number in them."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import ModuleType
from unittest.mock import patch

import pytest
from hypothesis import strategies as st

from strategies import a_problem, an_axis
from tconv.errors import InternalError
from tconv.plan import Correlate, Gather, Overlap, Plan, Planes, Strips, correlate_form
from tconv.plan import cells as cells_plan
from tconv.plan import correlate as correlate_plan
from tconv.plan import dots as dots_plan
from tconv.plan import gather as gather_plan
from tconv.plan import overlap as overlap_plan
from tconv.plan import parts as parts_plan
from tconv.plan import planes as planes_plan
from tconv.plan import strips as strips_plan
from tconv.plan import woven as woven_plan
from tconv.plan.cells import Cells
from tconv.plan.check import check_plan
from tconv.plan.machine import AVX2, AVX512, NEON, Machine
from tconv.plan.tiles import tile_rows
from tconv.problem import Axis, Layout, Operand, Problem

Recipe = Gather | Planes | Strips | Correlate | Cells | Overlap
MODULES: dict[type, ModuleType] = {
    Gather: gather_plan, Planes: planes_plan, Correlate: correlate_plan, Cells: cells_plan,
    Overlap: overlap_plan, Strips: strips_plan,
}  # fmt: skip

# Caches of some bytes cut even tiny problems into many blocks.
TINY = tuple(
    replace(machine, l1=first, l2=second, l3=16 * second)
    for machine in (AVX2, AVX512, NEON)
    for first, second in ((256, 256), (300, 500), (2000, 3000))
)
MACHINES = (AVX2, AVX512, NEON, *TINY)
POINT = 18  # channels: three whole tiles of rows, a wide panel and a narrow one


def caches(size: int) -> Machine:
    """Return a machine with a small second cache, a smaller first and a larger last one."""
    return replace(AVX2, l1=size // 4, l2=size, l3=16 * size)


def a_layer(wanted: Operand, coarse: int = POINT, fine: int = POINT) -> Problem:
    """Return a problem that leaves no number free: all reach past what they read on each side."""
    sizes = (11, 15) if wanted is Operand.FINE else (9, 13)
    axes = (Axis(sizes[0], 5, 4, 2, 1, 1), Axis(sizes[1], 7, 3, 2, 1, 0))
    return Problem(
        wanted, 2, 2, coarse, fine, axes, "float32",
        Layout("n gc x"), Layout("n gf x"), Layout("gc f x"),
    )  # fmt: skip


@dataclass(frozen=True)
class Parts:
    """Into how many parts a correlation is split, whatever that costs."""

    pieces: int
    chunk_taps: int
    chunk_rows: int
    chunk_panels: int
    shared: bool = False


SIDES = correlate_form.Form(), correlate_form.Form(swapped=True)


@dataclass(frozen=True)
class Form:
    """What a correlation decides by cost, decided otherwise; None lets it decide."""

    sides: correlate_form.Form | None = None
    parts: Parts | None = None
    block: tuple[int, ...] | None = None
    split: int | None = None

    def plan(self, problem: Problem, machine: Machine) -> Plan:
        """Plan in this form."""
        block = None if self.block is None else [*self.block]
        decided = {
            "choose_form": self.sides, "choose_parts": self.parts, "choose_block": block,
            "choose_split": self.split,
        }  # fmt: skip
        with ExitStack() as stack:
            for name, value in decided.items():
                if value is not None:
                    stack.enter_context(patch.object(correlate_plan, name, return_value=value))
            if self.block is not None:  # sides that are shared are one block
                stack.enter_context(patch.object(parts_plan, "MOST_SHARED", 0))
            return as_plan(problem, correlate_plan.plan_correlate(problem, machine))


def as_plan(problem: Problem, recipe: Recipe) -> Plan:
    """Return a plan of a recipe."""
    return Plan(problem, "test", "", (), (), recipe)


def plans(problem: Problem, machine: Machine) -> Iterator[Plan]:
    """Yield a plan by gather, and by planes and strips where few channels are written or read."""
    if problem.wanted is Operand.WEIGHTS:
        yield as_plan(problem, correlate_plan.plan_correlate(problem, machine))
        return
    yield as_plan(problem, gather_plan.plan_gather(problem, machine))
    if dots_plan.lines_fit(problem, machine):
        yield as_plan(problem, dots_plan.plan_dots(problem, machine))
    if woven_plan.groups_share(problem, machine):
        yield as_plan(problem, woven_plan.plan_woven(problem, machine))
    fine = problem.wanted is Operand.FINE
    few = planes_plan.MOST_COLUMNS, planes_plan.SHORT_DEPTH
    written, read = problem.fine_channels, problem.coarse_channels
    if not fine:
        written, read = read, written
    if written <= few[0] or read <= few[1]:
        yield as_plan(problem, planes_plan.plan_planes(problem, machine))
    if written <= few[0] and read <= few[0]:
        yield as_plan(problem, strips_plan.plan_strips(problem, machine))


def checked(plan: Plan, machine: Machine) -> Plan:
    """Check a plan for a machine."""
    check_plan(plan, tile_rows=tile_rows(machine))
    return plan


def refused(plan: Plan, machine: Machine = AVX2) -> str:
    """Return why a plan is refused."""
    with pytest.raises(InternalError) as caught:
        checked(plan, machine)
    return caught.value.wrong


def numbers(plan: Plan) -> dict[str, int]:
    """Return the numbers of a plan's record by name."""
    recipe = plan.recipe
    assert isinstance(recipe, Recipe)
    return dict(zip(MODULES[type(recipe)].SCALARS, recipe.record, strict=False))


@st.composite
def a_correlation(
    draw: st.DrawFn, machines: tuple[Machine, ...] = MACHINES
) -> tuple[Problem, Machine, Form]:
    """Draw WEIGHTS of somewhat larger pictures, split in any way that is allowed."""
    problem = replace(
        draw(a_problem(ranks=1, dtypes=("float32", "float64"))),
        wanted=Operand.WEIGHTS,
        batch=draw(st.integers(1, 3)),
        axes=tuple(draw(st.lists(an_axis(most=6), min_size=1, max_size=2))),
    )
    machine = draw(st.sampled_from(machines))
    lanes = machine.lanes(problem.dtype)
    groups = correlate_form.Form(groups=lanes)
    sides = draw(st.sampled_from((None, *SIDES, groups)))
    if sides is groups:
        problem = replace(problem, groups=draw(st.sampled_from((2, lanes, lanes + 1))))
    if draw(st.booleans()) or sides is None:
        return problem, machine, Form(sides)
    rows, wide = problem.coarse_channels, problem.fine_channels
    if sides.swapped:
        rows, wide = wide, rows
    *outer, last = (axis.taps for axis in problem.axes)
    height, columns = tile_rows(machine), 2 * lanes // sides.groups
    shared = draw(st.booleans())
    parts = Parts(
        pieces=1 if shared else draw(st.integers(1, 5)),
        chunk_taps=last * draw(st.integers(1, outer[0] if outer else 1)),
        chunk_rows=height * draw(st.integers(1, -(-rows // height))),
        chunk_panels=draw(st.integers(1, -(-wide // columns))),
        shared=shared,
    )
    return problem, machine, Form(sides, parts)


@dataclass(frozen=True)
class Change:
    """A number of a plan that is wrong."""

    field: str  # of the record, or of the recipe
    by: int
    index: int = 0

    def __str__(self) -> str:
        """Print for the name of a test."""
        return f"{self.field}[{self.index}]{self.by:+}"

    def apply(self, plan: Plan) -> Plan:
        """Return the plan with the wrong number in it."""
        recipe = plan.recipe
        assert isinstance(recipe, Recipe)
        module = MODULES[type(recipe)]
        if self.field not in module.FIELDS:
            wrong = {self.field: getattr(recipe, self.field) + self.by}
            return replace(plan, recipe=replace(recipe, **wrong))
        record = list(recipe.record)
        place = module.FIELDS[self.field]
        if self.field in module.ARRAYS:
            place = record[place] + self.index
        record[place] += self.by
        return replace(plan, recipe=replace(recipe, record=tuple(record)))


def changes(plan: Plan, field: str) -> Iterator[Change]:
    """Yield ways to get a number of the record wrong, or any entry of an array of it."""
    recipe = plan.recipe
    assert isinstance(recipe, Recipe)
    module = MODULES[type(recipe)]
    record, place = recipe.record, module.FIELDS[field]
    if field in module.SCALARS:
        entries: tuple[int, ...] = record[place : place + 1]
    else:
        ends = [*(record[module.FIELDS[name]] for name in module.ARRAYS), len(record)]
        entries = record[record[place] : ends[module.ARRAYS.index(field) + 1]]
    for index, value in enumerate(entries):
        yield from (Change(field, by, index) for by in (-1, 1, -value, 10**6) if by)
