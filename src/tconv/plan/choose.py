"""Which algorithm: the first of an ordered list that takes the problem."""

import math
from dataclasses import replace

from tconv.errors import UnsupportedError
from tconv.plan.cells import Cells, plan_cells
from tconv.plan.correlate import Correlate, plan_correlate
from tconv.plan.few import Pays, cells_pay, gather_pays, overlap_pays, products_pay
from tconv.plan.gather import Gather, plan_gather
from tconv.plan.grouped import Grouped, plan_grouped
from tconv.plan.grouped_weights import GroupedWeights, plan_grouped_weights
from tconv.plan.machine import Machine
from tconv.plan.overlap import Overlap, plan_overlap
from tconv.plan.pace import faster, few_groups_pay, many_small_groups
from tconv.plan.phases import len_of_phases
from tconv.plan.plan import Plan, Step
from tconv.plan.planes import (
    MOST_COLUMNS,
    MOST_RESIDUES,
    SHORT_DEPTH,
    Planes,
    plan_planes,
)
from tconv.plan.taps import tap_products
from tconv.plan.tiles import SMALL_TILE, tile_rows
from tconv.plan.winograd import Winograd, error_bounds, plan_winograd
from tconv.plan.winograd_choice import Worth, unbound_refusal, weigh
from tconv.problem import Operand, Problem, accumulator

LINE_BY_LINE = 4  # times longer a vector of points takes in a short line
LARGE_WINDOW = 100  # taps that pay for packing points line by line
SHORT_WINDOW = 512  # elements that an output reads; more pay for transposing sums
MOST_PHASES = 1 << 12  # of all axes together
KERNELS = {Operand.COARSE: "gather", Operand.FINE: "phases", Operand.WEIGHTS: "correlate"}
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
    slower = "takes longer, by estimate" if why is None else f"not asked for; winograd {why}"
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
    if problem.coarse_channels * problem.fine_channels > 1 and products_pay(problem, machine):
        missed = (name, "most taps miss the picture")
        return _overlap(problem, plan_overlap(problem, machine), (missed, *slower))
    return _data_plan(problem, machine, name, slower)


def _data_plan(
    problem: Problem, machine: Machine, name: str, slower: tuple[tuple[str, str], ...]
) -> Plan:
    fine = problem.wanted is Operand.FINE
    written = problem.fine_channels if fine else problem.coarse_channels
    few = (name, f"{written} channels a group would leave vectors half empty")
    if problem.groups > 1 and problem.coarse_channels * problem.fine_channels > 1:
        return _groups_plan(problem, machine, slower)
    if many_small_groups(problem, machine):
        return _grouped(problem, plan_grouped(problem, machine), (few, *slower))
    narrow = _few_plan(problem, machine, written, (few, *slower))
    no_lines = narrow is None or isinstance(narrow.recipe, Gather)
    if few_groups_pay(problem, machine, no_lines=no_lines):
        return _grouped(problem, plan_grouped(problem, machine), (few, *slower))
    if narrow is not None:
        return narrow
    if _lines_pay(problem, machine):
        read = problem.coarse_channels if fine else problem.fine_channels
        short = (name, f"{read} channels a group are too short a run")
        return _planes(problem, plan_planes(problem, machine), (short, *slower))
    many = ("planes", f"{written} channels a group fill vectors by themselves")
    return _gather(problem, plan_gather(problem, machine), (many, *slower))


def _groups_plan(problem: Problem, machine: Machine, slower: tuple[tuple[str, str], ...]) -> Plan:
    """Return the plan for groups of several channels: by what they are, or by estimate."""
    fine = problem.wanted is Operand.FINE
    written = problem.fine_channels if fine else problem.coarse_channels
    chosen = "gather"
    if many_small_groups(problem, machine):
        chosen = "grouped"
    elif written <= MOST_COLUMNS or _lines_pay(problem, machine):
        chosen = "planes"
    best = faster(problem, machine, chosen)
    others = tuple(
        (name, "takes longer, by estimate")
        for name in ("gather", "planes", "grouped")
        if name != best
    )
    if best == "grouped":
        return _grouped(problem, plan_grouped(problem, machine), (*others, *slower))
    if best == "planes":
        return _planes(problem, plan_planes(problem, machine), (*others, *slower))
    return _gather(problem, plan_gather(problem, machine), (*others, *slower))


def _few_plan(
    problem: Problem, machine: Machine, written: int, refused: tuple[tuple[str, str], ...]
) -> Plan | None:
    """Return the plan for channels that leave vectors half empty, if these do."""
    cells = cells_pay(problem, machine)
    if cells != Pays.CLEARLY and overlap_pays(problem, machine):
        return _overlap(problem, plan_overlap(problem, machine), refused)
    if cells != Pays.NOT:
        return _cells(problem, plan_cells(problem, machine), refused)
    if written > MOST_COLUMNS or problem.axes[-1].stride > MOST_RESIDUES:
        return None
    why = None
    if _short_lines(problem, machine):
        why = "lines are too short for vectors along them"
    elif gather_pays(problem, machine):
        why = "packing every residue of the stride takes longer, by estimate"
    if why is not None:
        return _gather(problem, plan_gather(problem, machine), (("planes", why), *refused[1:]))
    return _planes(problem, plan_planes(problem, machine), refused)


def _short_lines(problem: Problem, machine: Machine) -> bool:
    """Tell whether lines of COARSE are too short for vectors along points, even of few channels.

    Of points that a stride lies between, packing takes as long again; large windows pay for it.
    """
    axis, window = problem.axes[-1], math.prod(axis.taps for axis in problem.axes)
    lanes, points = machine.lanes(problem.dtype), axis.coarse_size
    if problem.wanted is not Operand.COARSE or window > LARGE_WINDOW:
        return False
    vectors = -(-points // lanes)
    emptier = points <= LINE_BY_LINE * vectors * problem.coarse_channels
    return emptier and vectors <= (1 if axis.stride == 1 else 2) and points % lanes > 0


def _lines_pay(problem: Problem, machine: Machine) -> bool:
    """Tell whether vectors along points are better than tiles that read few channels at a time.

    They are where lines are written as they are summed.
    """
    axis, fine = problem.axes[-1], problem.wanted is Operand.FINE
    read = problem.coarse_channels if fine else problem.fine_channels
    points = axis.fine_size if fine else axis.coarse_size
    window = math.prod(each.taps for each in problem.axes)
    if read > SHORT_DEPTH or read * window > SHORT_WINDOW:
        return False
    if points < machine.lanes(problem.dtype) * (1 if fine else 2):
        return False
    together = not fine or len_of_phases(axis) == 1
    return together and axis.stride <= MOST_RESIDUES and _layout(problem).endswith("x")


def _weights_plan(problem: Problem, machine: Machine, slower: tuple[tuple[str, str], ...]) -> Plan:
    coarse, fine = problem.coarse_channels, problem.fine_channels
    few = coarse * fine < SMALL_TILE or (coarse == 1 and fine <= machine.lanes(problem.dtype))
    if few and many_small_groups(problem, machine):
        small = ("correlate", f"{coarse * fine} weights a group and tap would leave tiles empty")
        return _grouped(problem, plan_grouped_weights(problem, machine), (small, *slower))
    return _correlate(problem, plan_correlate(problem, machine, tile_rows(machine)), slower)


def _few_phases(problem: Problem) -> bool:
    """Tell whether phases are worth listing: a huge stride on a small picture is not."""
    phases = math.prod(len_of_phases(axis) for axis in problem.axes)
    return problem.wanted is not Operand.FINE or phases <= MOST_PHASES


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
            Step("store", f"{_epilogue(problem)}layout {_layout(problem)}", 0),
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


def _layout(problem: Problem) -> str:
    return str(problem.layout(problem.wanted))


def _epilogue(problem: Problem) -> str:
    """Return what is done to sums before they are stored."""
    activation = f"{problem.activation}, " if problem.activation else ""
    return f"{'add bias, ' if problem.bias else ''}{activation}"
