"""Which algorithm: what can do the problem, and of that what takes least time by estimate."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from tconv.errors import UnsupportedError
from tconv.plan.cells import Cells, plan_cells
from tconv.plan.correlate import Correlate, plan_correlate
from tconv.plan.dots import ROWS, Dots, plan_dots
from tconv.plan.few import fastest
from tconv.plan.gather import Gather, plan_gather
from tconv.plan.grouped import Grouped, plan_grouped
from tconv.plan.grouped_weights import GroupedWeights, plan_grouped_weights
from tconv.plan.machine import Machine
from tconv.plan.overlap import Overlap, channels_of, plan_overlap
from tconv.plan.pace import few_groups_pay, many_small_groups
from tconv.plan.phases import len_of_phases
from tconv.plan.plan import Plan, Step
from tconv.plan.planes import Planes, plan_planes
from tconv.plan.strips import Strips, lines_are_long, plan_strips
from tconv.plan.taps import tap_products
from tconv.plan.tiles import SMALL_TILE
from tconv.plan.widths import suited
from tconv.plan.winograd import Winograd, error_bounds, plan_winograd
from tconv.plan.winograd_choice import Worth, unbound_refusal, weigh
from tconv.plan.woven import Woven, plan_woven
from tconv.problem import Operand, Problem, accumulator

MOST_PHASES = 1 << 12  # of all axes together
KERNELS = {Operand.COARSE: "gather", Operand.FINE: "phases", Operand.WEIGHTS: "correlate"}
LONGER = "takes longer, by estimate"
FULL = "channels fill vectors by themselves"
EMPTY = "one channel a group would leave vectors mostly empty"
TURNED = "would turn every channel's points"
MANY_PHASES = "the stride makes more phases than there are points"

ALGORITHMS = ("direct", "winograd")  # that a user can ask for


def choose_plan(
    problem: Problem,
    machine: Machine | None,
    no_machine: str,
    algorithm: str | None = None,
    *,
    bound: bool = False,
) -> Plan:
    """Return the plan for a problem; without a machine, why not is ``no_machine``.

    ``algorithm`` is what a user asks for, ``bound`` whether weights are packed once.
    """
    if machine is not None and _few_phases(problem):
        machine = suited(problem, machine, _lanes_are_groups, algorithm=algorithm, bound=bound)
    direct = algorithm == "direct" or problem.wanted is Operand.WEIGHTS
    if algorithm != "winograd" and (direct or machine is None or not _few_phases(problem)):
        return _choose_direct(problem, machine, no_machine)
    worth: Worth | str = no_machine
    if not _few_phases(problem):
        worth = MANY_PHASES
    elif machine is not None:
        worth = weigh(problem, machine, bound=bound)
    why = worth if isinstance(worth, str) else worth.refusal(bound=bound)
    if machine is None or isinstance(worth, str) or (why is not None and algorithm is None):
        if algorithm is not None:
            raise UnsupportedError(
                "tconv plan",
                f"algorithm is 'winograd', but {why}.",
                got={"algorithm": algorithm},
                rule="an algorithm that is asked for is used or refused, never replaced",
                fix="leave algorithm out",
            )
        plan = _choose_direct(problem, machine, no_machine)
        return replace(plan, refused=(("winograd", str(why)), *plan.refused))
    slower = LONGER if why is None else f"not asked for; winograd {why}"
    unbound = unbound_refusal(problem, machine, worth) if bound and not why else None
    notes = (("direct", slower), *((("unbound", unbound),) if unbound else ()))
    most = None if bound else worth.most
    recipe = plan_winograd(problem, machine, worth.outputs, worth.alike, most=most)
    return _winograd(problem, recipe, notes)


def _choose_direct(problem: Problem, machine: Machine | None, no_machine: str) -> Plan:
    name = KERNELS[problem.wanted]
    why = None
    if machine is None:
        why = no_machine
    elif problem.dtype == "float16" and not machine.converts_halves:
        why = "this CPU has no instruction that converts float16"
    elif problem.batch == 0:
        why = "there is nothing to compute"
    if machine is None or why is not None:
        return _portable(problem, ((name, str(why)),))
    slower = (("tap products", "moves every tap's product through memory"),)
    if problem.wanted is Operand.WEIGHTS:
        return _weights_plan(problem, machine, slower)
    if not _few_phases(problem):
        return _portable(problem, ((name, MANY_PHASES),))
    return _data_plan(problem, machine, slower)


def _data_plan(problem: Problem, machine: Machine, slower: tuple[tuple[str, str], ...]) -> Plan:
    """Return the plan for FINE or COARSE: by estimate, or as depthwise channels lie."""
    if lines_are_long(problem, machine):
        return _strips(problem, plan_strips(problem, machine), (("grouped", TURNED), *slower))
    if _groups_are_lanes(problem, machine):
        refused = ((_called(problem, "gather"), EMPTY), ("planes", LONGER), *slower)
        return _grouped(problem, plan_grouped(problem, machine), refused)
    best, others = fastest(problem, machine)
    refused = (*((_called(problem, name), LONGER) for name in others), *slower)
    if not others:
        refused = (("planes", FULL), *refused)
    return PLANNERS[best](problem, machine, refused)


def _groups_are_lanes(problem: Problem, machine: Machine) -> bool:
    """Tell whether depthwise channels are the lanes of vectors."""
    if problem.groups == 1 or problem.coarse_channels * problem.fine_channels > 1:
        return False
    if many_small_groups(problem, machine):
        return True
    best, _ = fastest(problem, machine)
    return few_groups_pay(problem, machine, no_lines=best == "gather")


def _lanes_are_groups(problem: Problem, machine: Machine) -> bool:
    """Tell whether the lanes of vectors are groups, whatever is wanted."""
    if problem.wanted is Operand.WEIGHTS:
        return _weights_are_few(problem, machine)
    return not lines_are_long(problem, machine) and _groups_are_lanes(problem, machine)


def _weights_are_few(problem: Problem, machine: Machine) -> bool:
    """Tell whether groups are many, and have few weights a tap."""
    coarse, fine = problem.coarse_channels, problem.fine_channels
    few = coarse * fine < SMALL_TILE or (coarse == 1 and fine <= machine.lanes(problem.dtype))
    return few and many_small_groups(problem, machine)


def _weights_plan(problem: Problem, machine: Machine, slower: tuple[tuple[str, str], ...]) -> Plan:
    coarse, fine = problem.coarse_channels, problem.fine_channels
    if _weights_are_few(problem, machine):
        small = ("correlate", f"{coarse * fine} weights a group and tap would leave tiles empty")
        return _grouped(problem, plan_grouped_weights(problem, machine), (small, *slower))
    return _correlate(problem, plan_correlate(problem, machine), slower)


def _few_phases(problem: Problem) -> bool:
    """Tell whether phases are worth listing: a huge stride on a small picture is not."""
    phases = math.prod(len_of_phases(axis) for axis in problem.axes)
    return problem.wanted is not Operand.FINE or phases <= MOST_PHASES


def _called(problem: Problem, name: str) -> str:
    """Return what plans call an algorithm: a gather of FINE is one of phases."""
    return KERNELS[problem.wanted] if name == "gather" else name


def _gather(problem: Problem, recipe: Gather, refused: tuple[tuple[str, str], ...]) -> Plan:
    phases = math.prod(axis.stride for axis in problem.axes)
    if problem.wanted is Operand.COARSE:
        name, reason = "gather", "every output point reads its window"
    elif all(axis.taps <= axis.stride and axis.dilation == 1 for axis in problem.axes):
        name, reason = "pointwise", f"no two windows overlap: one product for {phases} phases"
    else:
        name, reason = "phases", f"the strides split the output into {phases} dense gathers"
    tile = f"{recipe.vectors}x{recipe.lanes} channels a panel, {recipe.panels} panels"
    block = "x".join(map(str, recipe.block))
    return Plan(
        problem, name, reason, refused,
        (
            Step("pack weights", tile, 0),
            Step("pack block", f"{block} points, {recipe.items} work items", 0),
            Step(name, f"tiles of points by {recipe.vectors}x{recipe.lanes}", problem.flops()),
            Step("store", f"{_epilogue(problem)}layout {_layout(problem)}", 0),
        ),
        recipe,
    )  # fmt: skip


def _winograd(problem: Problem, recipe: Winograd, refused: tuple[tuple[str, str], ...]) -> Plan:
    forms = " x ".join(map(str, recipe.forms))
    saved = problem.flops() / 2 / recipe.multiplications
    bound, direct = error_bounds(problem, recipe)
    points = math.prod(form.points for form in recipe.forms)
    work = f"{'x'.join(map(str, recipe.block))} points, {recipe.items} work items"
    size = f"{4e-6 * problem.groups * recipe.group_weights:.3f} MB"
    if recipe.staged:
        work += f", before they are multiplied: {recipe.round} of {recipe.boxes} blocks at a time"
    return Plan(
        problem, "winograd", f"{forms} needs {saved:.2f} times fewer multiplications", refused,
        (
            Step("transform weights", size + " at a time" * (recipe.slice < recipe.panels), 0),
            Step("transform data", work, 0),
            Step("multiply", f"at {points} points of the transform", 2 * recipe.multiplications),
            Step("transform back", f"error <= {bound:.1e} * max|data| * sum|weights|, "
                 f"direct {direct:.1e}", 0),
            Step("store", f"{'add bias, ' if problem.bias else ''}layout {_layout(problem)}", 0),
        ),
        recipe,
    )  # fmt: skip


def _cells(problem: Problem, recipe: Cells, refused: tuple[tuple[str, str], ...]) -> Plan:
    block = "x".join(map(str, recipe.block))
    phases = len(recipe.columns)
    return Plan(
        problem, "cells", f"{phases} phases are columns of one product", refused,
        (
            Step("pack weights", f"{recipe.panels} panels, {recipe.neighbours} neighbours", 0),
            Step("pack block", f"{block} points, {recipe.items} work items", 0),
            Step("cells", f"tiles of points by {recipe.vectors}x{recipe.lanes}", problem.flops()),
            Step("store", f"{'add bias, ' if problem.bias else ''}layout {_layout(problem)}", 0),
        ),
        recipe,
    )  # fmt: skip


def _dots(problem: Problem, recipe: Dots, refused: tuple[tuple[str, str], ...]) -> Plan:
    _, written = channels_of(problem)
    how = f"vectors of {recipe.lanes} channels read, for few that are written"
    tiles = f"tiles of {ROWS[written]} points by {written} channels"
    return _by_blocks(problem, recipe, refused, ("dots", how, tiles))


def _woven(problem: Problem, recipe: Woven, refused: tuple[tuple[str, str], ...]) -> Plan:
    groups = f"{recipe.lanes // recipe.written} groups"
    shared = groups if recipe.written < recipe.lanes else "one group"
    how = f"vectors of the {recipe.written} channels of {shared}"
    tiles = f"tiles by {recipe.vectors}x{recipe.lanes}"
    return _by_blocks(problem, recipe, refused, ("woven", how, tiles))


def _grouped(
    problem: Problem, recipe: Grouped | GroupedWeights, refused: tuple[tuple[str, str], ...]
) -> Plan:
    panels = f"{recipe.panels} panel{'s' if recipe.panels > 1 else ''}"
    how = f"vectors of {recipe.lanes} groups, {panels}"
    tiles = f"tiles of points by {recipe.lanes} groups"
    return _by_blocks(problem, recipe, refused, ("grouped", how, tiles))


def _planes(problem: Problem, recipe: Planes, refused: tuple[tuple[str, str], ...]) -> Plan:
    how = f"vectors of {recipe.lanes} points, for few channels a group"
    tiles = f"tiles of {recipe.rows} channels by points"
    return _by_blocks(problem, recipe, refused, ("planes", how, tiles))


def _strips(problem: Problem, recipe: Strips, refused: tuple[tuple[str, str], ...]) -> Plan:
    how = "lines of points, several in a tile, for each channel"
    tiles = f"tiles of lines by {recipe.lanes} points"
    return _by_blocks(problem, recipe, refused, ("strips", how, tiles))


def _by_blocks(
    problem: Problem,
    recipe: Dots | Woven | Grouped | GroupedWeights | Planes | Strips,
    refused: tuple[tuple[str, str], ...],
    told: tuple[str, str, str],
) -> Plan:
    """Return a plan that packs, sums and stores blocks; told are its name, how, and what tiles."""
    name, how, tiles = told
    block = "x".join(map(str, recipe.block))
    return Plan(
        problem, name, how, refused,
        (
            Step("pack block", f"{block} points, {recipe.items} work items", 0),
            Step(name, tiles, problem.flops()),
            Step("store", f"{_epilogue(problem)}layout {_layout(problem)}", 0),
        ),
        recipe,
    )  # fmt: skip


def _overlap(problem: Problem, recipe: Overlap, refused: tuple[tuple[str, str], ...]) -> Plan:
    images = f"{recipe.round} image{'s' if recipe.round > 1 else ''} at a time"
    return Plan(
        problem, "overlap", "every tap's products first, added up where they overlap", refused,
        (
            Step("pack points", f"panels of {recipe.vectors}x{recipe.lanes}", 0),
            Step("multiply", f"all taps and channels, {images}", problem.flops()),
            Step("add up", f"lines, {_epilogue(problem)}layout {_layout(problem)}", 0),
        ),
        recipe,
    )  # fmt: skip


def _correlate(problem: Problem, recipe: Correlate, refused: tuple[tuple[str, str], ...]) -> Plan:
    block = "x".join(map(str, recipe.block))
    return Plan(
        problem, "correlate", "every tap's product over blocks of points", refused,
        (
            Step("pack block", f"{block} points, {recipe.items} work items", 0),
            Step("correlate", f"tiles by {recipe.vectors}x{recipe.lanes}", problem.flops()),
            Step("store", f"layout {_layout(problem)}", 0),
        ),
        recipe,
    )  # fmt: skip


def _portable(problem: Problem, refused: tuple[tuple[str, str], ...]) -> Plan:
    recipe = tap_products(problem)
    taps = math.prod(axis.taps for axis in problem.axes)
    used = math.prod(sum(reach.count > 0 for reach in axis) for axis in recipe.reaches)
    first, second = problem.given
    sums = accumulator(problem.dtype).name
    verb = {Operand.COARSE: "gather", Operand.FINE: "scatter", Operand.WEIGHTS: "correlate"}
    groups = f"{problem.groups} group{'s' if problem.groups > 1 else ''}"
    matrix = f"{problem.coarse_channels} x {problem.fine_channels} channels, {groups}"
    return Plan(
        problem,
        "tap products",
        f"NumPy runs {used} matrix products for {taps} taps, on any machine",
        refused,
        (
            Step("pack", f"{first.name} and {second.name} as {sums}", 0),
            Step(verb[problem.wanted], f"{used} products of {matrix}", problem.flops()),
            Step(
                "store",
                f"{_epilogue(problem)}round to {problem.dtype}, layout {_layout(problem)}",
                0,
            ),
        ),
        recipe,
    )


Refused = tuple[tuple[str, str], ...]
Recipe = TypeVar("Recipe")


def _planner(
    plan: Callable[[Problem, Machine], Recipe], show: Callable[[Problem, Recipe, Refused], Plan]
) -> Callable[[Problem, Machine, Refused], Plan]:
    return lambda problem, machine, refused: show(problem, plan(problem, machine), refused)


PLANNERS = {
    "gather": _planner(plan_gather, _gather),
    "dots": _planner(plan_dots, _dots),
    "woven": _planner(plan_woven, _woven),
    "planes": _planner(plan_planes, _planes),
    "strips": _planner(plan_strips, _strips),
    "grouped": _planner(plan_grouped, _grouped),
    "cells": _planner(plan_cells, _cells),
    "overlap": _planner(plan_overlap, _overlap),
}
"""By the names that estimates have for them."""


KINDS: dict[type, str] = {
    Gather: "gather", Dots: "dots", Planes: "planes", Strips: "strips", Grouped: "grouped",
    Cells: "cells", Overlap: "overlap", Woven: "woven",
}  # fmt: skip
"""The same names, by recipe."""


def choose_alike(problem: Problem, machine: Machine, name: str) -> Plan:
    """Return the plan for a problem by one of these: its sums have the same order."""
    return PLANNERS[name](problem, machine, ())


def kind_of(plan: Plan) -> str:
    """Return which of these a plan's recipe is."""
    return KINDS[type(plan.recipe)]


def _layout(problem: Problem) -> str:
    return str(problem.layout(problem.wanted))


def _epilogue(problem: Problem) -> str:
    """Return what is done to sums before they are stored."""
    activation = f"{problem.activation}, " if problem.activation else ""
    return f"{'add bias, ' if problem.bias else ''}{activation}"
