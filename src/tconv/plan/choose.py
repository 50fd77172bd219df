"""Which algorithm: what can do the problem, and of that what takes least time by estimate."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from tconv.errors import UnsupportedError
from tconv.plan.cells import Cells, plan_cells
from tconv.plan.correlate import plan_correlate
from tconv.plan.dots import Dots, plan_dots
from tconv.plan.few import fastest
from tconv.plan.flat import flattened
from tconv.plan.gather import STREAM, Gather, plan_gather
from tconv.plan.grouped import Grouped, plan_grouped
from tconv.plan.grouped_weights import plan_grouped_weights
from tconv.plan.machine import Machine
from tconv.plan.overlap import Overlap, plan_overlap
from tconv.plan.pace import few_groups_pay, many_small_groups
from tconv.plan.phases import len_of_phases
from tconv.plan.plan import Plan, Refused
from tconv.plan.planes import Planes, plan_planes
from tconv.plan.shown import (
    show_cells,
    show_correlate,
    show_dots,
    show_gather,
    show_grouped,
    show_overlap,
    show_planes,
    show_portable,
    show_spread,
    show_strips,
    show_winograd,
    show_woven,
)
from tconv.plan.spread import Spread, Variant, plan_variant
from tconv.plan.spread_parts import smaller_part, touches
from tconv.plan.spread_times import Worthy, spreading, worth_spreading
from tconv.plan.strips import Strips, lines_are_long, plan_strips
from tconv.plan.tiles import SMALL_TILE
from tconv.plan.widths import suited
from tconv.plan.winograd import plan_winograd
from tconv.plan.winograd_choice import Worth, unbound_refusal, weigh
from tconv.plan.woven import Woven, plan_woven
from tconv.problem import Operand, Problem

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
    return show_winograd(problem, recipe, notes)


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
        return show_portable(problem, ((name, str(why)),))
    slower = (("tap products", "moves every tap's product through memory"),)
    if problem.wanted is Operand.WEIGHTS:
        return _weights_plan(problem, machine, slower)
    if _few_phases(problem):
        return _data_plan(problem, machine, slower)
    refused = (name, MANY_PHASES)
    worth = spreading(problem, machine)
    if worth is not None:
        return spread_plan(problem, machine, worth, (refused, *slower))
    return show_portable(problem, (refused,))


def _data_plan(problem: Problem, machine: Machine, slower: Refused) -> Plan:
    """Return the plan for FINE or COARSE: by estimate, or as depthwise channels lie."""
    if lines_are_long(problem, machine):
        return show_strips(problem, plan_strips(problem, machine), (("grouped", TURNED), *slower))
    if _groups_are_lanes(problem, machine):
        refused = ((_called(problem, "gather"), EMPTY), ("planes", LONGER), *slower)
        return show_grouped(problem, plan_grouped(problem, machine), refused)
    best, others = fastest(problem, machine)
    refused = (*((_called(problem, name), LONGER) for name in others), *slower)
    if not others:
        refused = (("planes", FULL), *refused)
    worth = worth_spreading(problem, machine, best)
    if worth is not None:
        return spread_plan(problem, machine, worth, ((_called(problem, best), LONGER), *refused))
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


def _weights_plan(problem: Problem, machine: Machine, slower: Refused) -> Plan:
    coarse, fine = problem.coarse_channels, problem.fine_channels
    if _weights_are_few(problem, machine):
        small = ("correlate", f"{coarse * fine} weights a group and tap would leave tiles empty")
        return show_grouped(problem, plan_grouped_weights(problem, machine), (small, *slower))
    return show_correlate(problem, plan_correlate(problem, machine), slower)


def _few_phases(problem: Problem) -> bool:
    """Tell whether phases are worth listing: a huge stride on a small picture is not."""
    phases = math.prod(len_of_phases(axis) for axis in problem.axes)
    return problem.wanted is not Operand.FINE or phases <= MOST_PHASES


def _called(problem: Problem, name: str) -> str:
    """Return what plans call an algorithm: a gather of FINE is one of phases."""
    return KERNELS[problem.wanted] if name == "gather" else name


def spread_plan(
    problem: Problem, machine: Machine, worth: Worthy, refused: Refused, *, lines: bool = True
) -> Plan:
    """Return the plan for FINE by a smaller problem, whatever others take.

    Pictures whose points meet one by one are read as lines, where arrays may be.  All parts are
    done by the same algorithm.
    """
    past = problem.bytes() > machine.l3 // STREAM
    variants: list[Variant] = []
    plans: dict[Problem, Plan] = {}  # slabs that end otherwise may be of the same smaller problem
    for part in worth.cut.problems:
        smaller = smaller_part(part, worth.smaller)
        inner = plans.get(smaller.problem)
        if inner is None:
            like = variants[0].inner if variants else worth.algorithm
            inner = plans[smaller.problem] = _inner(smaller.problem, machine, like, lines=lines)
        variants.append(plan_variant(part, machine, smaller, inner, past=past))
    images = 1 if worth.cut.axis is None else problem.batch
    recipe = Spread(
        lanes=machine.lanes(problem.dtype),
        variants=tuple(variants),
        parts=worth.cut.parts,
        axis=worth.cut.axis,
        taps=worth.smaller.taps,
        touched=touches(problem, machine),
        items=images * len(worth.cut.parts),
    )
    return show_spread(problem, recipe, refused)


def _inner(problem: Problem, machine: Machine, like: Plan | str, *, lines: bool) -> Plan:
    """Return the plan for a problem without points that nothing meets.

    By an algorithm, or like another: with weights in the same order.
    """
    flat = flattened(problem) if lines else None
    solved = problem if flat is None else flat.problem
    if isinstance(like, str):
        found = choose_alike(solved, machine, like)
    elif isinstance(like.recipe, Planes):
        tile = like.recipe.rows, like.recipe.merged
        found = show_planes(solved, plan_planes(solved, machine, tile), ())
    else:
        found = choose_alike(solved, machine, kind_of(like))
    return found if flat is None else replace(found, problem=problem, recast=flat)


Recipe = TypeVar("Recipe")


def _planner(
    plan: Callable[[Problem, Machine], Recipe], show: Callable[[Problem, Recipe, Refused], Plan]
) -> Callable[[Problem, Machine, Refused], Plan]:
    return lambda problem, machine, refused: show(problem, plan(problem, machine), refused)


PLANNERS = {
    "gather": _planner(plan_gather, show_gather),
    "dots": _planner(plan_dots, show_dots),
    "woven": _planner(plan_woven, show_woven),
    "planes": _planner(plan_planes, show_planes),
    "strips": _planner(plan_strips, show_strips),
    "grouped": _planner(plan_grouped, show_grouped),
    "cells": _planner(plan_cells, show_cells),
    "overlap": _planner(plan_overlap, show_overlap),
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
