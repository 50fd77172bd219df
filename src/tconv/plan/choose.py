"""Which algorithm: the first of an ordered list that takes the problem."""

import math

from tconv.plan.correlate import Correlate, plan_correlate
from tconv.plan.gather import Gather, len_of_phases, plan_gather
from tconv.plan.grouped import Grouped, plan_grouped
from tconv.plan.grouped_weights import GroupedWeights, plan_grouped_weights
from tconv.plan.machine import Machine
from tconv.plan.plan import Plan, Step
from tconv.plan.planes import MOST_COLUMNS, MOST_RESIDUES, Planes, plan_planes
from tconv.plan.taps import tap_products
from tconv.problem import Operand, Problem, accumulator

# Products of read and written channels a group: with more, groups fill vectors by themselves.
MOST_PRODUCTS = {Operand.FINE: 64, Operand.COARSE: 64, Operand.WEIGHTS: 36}
MOST_PHASES = 1 << 12  # of all axes together


def choose_plan(problem: Problem, machine: Machine | None, no_machine: str) -> Plan:
    """Return the plan for a problem; without a machine, why not is ``no_machine``."""
    kernel = {Operand.COARSE: "gather", Operand.FINE: "phases", Operand.WEIGHTS: "correlate"}
    name = kernel[problem.wanted]
    why = None
    if machine is None:
        why = no_machine
    elif problem.dtype not in ("float32", "float64"):
        why = f"kernels compute float32 and float64, not {problem.dtype}"
    elif problem.batch == 0:
        why = "there is nothing to compute"
    if machine is None or why is not None:
        return _portable(problem, ((name, str(why)),))
    slower = (("tap products", "moves every tap's product through memory"),)
    if problem.wanted is Operand.WEIGHTS:
        return _weights_plan(problem, machine, slower)
    if problem.wanted is Operand.FINE and not _few_phases(problem):
        why = "the stride makes more phases than there are points"
        return _portable(problem, ((name, why),))
    written = problem.fine_channels if problem.wanted is Operand.FINE else problem.coarse_channels
    few = (name, f"{written} channels a group would leave vectors half empty")
    if _many_small_groups(problem, machine):
        return _grouped(problem, plan_grouped(problem, machine), (few, *slower))
    if written <= MOST_COLUMNS and problem.axes[-1].stride <= MOST_RESIDUES:
        return _planes(problem, plan_planes(problem, machine), (few, *slower))
    many = ("planes", f"{written} channels a group fill vectors by themselves")
    return _gather(problem, plan_gather(problem, machine), (many, *slower))


def _weights_plan(problem: Problem, machine: Machine, slower: tuple[tuple[str, str], ...]) -> Plan:
    if _many_small_groups(problem, machine):
        products = problem.coarse_channels * problem.fine_channels
        small = ("correlate", f"{products} weights a group and tap would leave vectors half empty")
        return _grouped(problem, plan_grouped_weights(problem, machine), (small, *slower))
    return _correlate(problem, plan_correlate(problem, machine, tile_rows(machine)), slower)


def _few_phases(problem: Problem) -> bool:
    """Tell whether phases are worth listing: a huge stride on a small picture is not."""
    return math.prod(len_of_phases(axis) for axis in problem.axes) <= MOST_PHASES


def tile_rows(machine: Machine) -> int:
    """Return the rows of the register tile.

    Twelve sums and three operands fill sixteen registers; with thirty-two, the addresses of
    the rows are what runs out first.
    """
    return 8 if machine.registers >= 32 else 6


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
            Step("store", f"{'add bias, ' if problem.bias else ''}layout {_layout(problem)}", 0),
        ),
        recipe,
    )  # fmt: skip


def _many_small_groups(problem: Problem, machine: Machine) -> bool:
    """Tell whether groups are many enough to be a vector's lanes, and too small to fill one."""
    products = problem.coarse_channels * problem.fine_channels
    enough = problem.groups >= machine.lanes(problem.dtype)
    return enough and products <= MOST_PRODUCTS[problem.wanted]


def _grouped(
    problem: Problem, recipe: Grouped | GroupedWeights, refused: tuple[tuple[str, str], ...]
) -> Plan:
    block = "x".join(map(str, recipe.block))
    panels = f"{recipe.panels} panel{'s' if recipe.panels > 1 else ''}"
    return Plan(
        problem, "grouped", f"vectors of {recipe.lanes} groups, {panels}", refused,
        (
            Step("pack block", f"{block} points, {recipe.items} work items", 0),
            Step("grouped", f"tiles of points by {recipe.lanes} groups", problem.flops()),
            Step("store", f"{'add bias, ' if problem.bias else ''}layout {_layout(problem)}", 0),
        ),
        recipe,
    )  # fmt: skip


def _planes(problem: Problem, recipe: Planes, refused: tuple[tuple[str, str], ...]) -> Plan:
    block = "x".join(map(str, recipe.block))
    return Plan(
        problem, "planes", f"vectors of {recipe.lanes} points, for few channels a group", refused,
        (
            Step("pack block", f"{block} points, {recipe.items} work items", 0),
            Step("planes", f"tiles of {recipe.rows} channels by points", problem.flops()),
            Step("store", f"{'add bias, ' if problem.bias else ''}layout {_layout(problem)}", 0),
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
                f"{'add bias, ' if problem.bias else ''}round to {problem.dtype}, "
                f"layout {_layout(problem)}",
                0,
            ),
        ),
        recipe,
    )


def _layout(problem: Problem) -> str:
    return str(problem.layout(problem.wanted))
