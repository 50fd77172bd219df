"""What plans tell of themselves: the algorithm, why, and the steps with what they cost."""

import math

from tconv.plan.cells import Cells
from tconv.plan.correlate import Correlate
from tconv.plan.dots import ROWS, Dots
from tconv.plan.gather import Gather
from tconv.plan.grouped import Grouped
from tconv.plan.grouped_weights import GroupedWeights
from tconv.plan.overlap import Overlap, channels_of
from tconv.plan.plan import Plan, Refused, Step
from tconv.plan.planes import Planes
from tconv.plan.spread import Spread
from tconv.plan.strips import Strips
from tconv.plan.taps import tap_products
from tconv.plan.winograd import Winograd, error_bounds
from tconv.plan.woven import Woven
from tconv.problem import Operand, Problem, accumulator


def show_gather(problem: Problem, recipe: Gather, refused: Refused) -> Plan:
    """Return the plan for a gather, whatever it is called."""
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


def show_winograd(problem: Problem, recipe: Winograd, refused: Refused) -> Plan:
    """Return the plan for Winograd's algorithm."""
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


def show_cells(problem: Problem, recipe: Cells, refused: Refused) -> Plan:
    """Return the plan for cells."""
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


def show_dots(problem: Problem, recipe: Dots, refused: Refused) -> Plan:
    """Return the plan for dots."""
    _, written = channels_of(problem)
    how = f"vectors of {recipe.lanes} channels read, for few that are written"
    tiles = f"tiles of {ROWS[written]} points by {written} channels"
    return _by_blocks(problem, recipe, refused, ("dots", how, tiles))


def show_woven(problem: Problem, recipe: Woven, refused: Refused) -> Plan:
    """Return the plan for woven groups."""
    groups = f"{recipe.lanes // recipe.written} groups"
    shared = groups if recipe.written < recipe.lanes else "one group"
    how = f"vectors of the {recipe.written} channels of {shared}"
    tiles = f"tiles by {recipe.vectors}x{recipe.lanes}"
    return _by_blocks(problem, recipe, refused, ("woven", how, tiles))


def show_grouped(problem: Problem, recipe: Grouped | GroupedWeights, refused: Refused) -> Plan:
    """Return the plan for groups that are lanes."""
    panels = f"{recipe.panels} panel{'s' if recipe.panels > 1 else ''}"
    how = f"vectors of {recipe.lanes} groups, {panels}"
    tiles = f"tiles of points by {recipe.lanes} groups"
    return _by_blocks(problem, recipe, refused, ("grouped", how, tiles))


def show_planes(problem: Problem, recipe: Planes, refused: Refused) -> Plan:
    """Return the plan for planes."""
    how = f"vectors of {recipe.lanes} points, for few channels a group"
    tiles = f"tiles of {recipe.rows} channels by points"
    return _by_blocks(problem, recipe, refused, ("planes", how, tiles))


def show_strips(problem: Problem, recipe: Strips, refused: Refused) -> Plan:
    """Return the plan for strips."""
    how = "lines of points, several in a tile, for each channel"
    tiles = f"tiles of lines by {recipe.lanes} points"
    return _by_blocks(problem, recipe, refused, ("strips", how, tiles))


def _by_blocks(
    problem: Problem,
    recipe: Dots | Woven | Grouped | GroupedWeights | Planes | Strips,
    refused: Refused,
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


def show_overlap(problem: Problem, recipe: Overlap, refused: Refused) -> Plan:
    """Return the plan for products that are added up."""
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


def show_spread(problem: Problem, recipe: Spread, refused: Refused) -> Plan:
    """Return the plan for a smaller problem whose results are spread."""
    inner = recipe.variants[0].inner
    how = "a denser problem without points that nothing meets"
    if recipe.taps:
        how = "no two windows overlap: taps are channels of one product"
    part = f"{recipe.items} work items, each {'some images' if recipe.axis is None else 'a slab'}"
    return Plan(
        problem, "spread", how, refused,
        (
            Step(inner.algorithm, f"a smaller problem, {part}", problem.flops()),
            Step("spread", f"among blanks, {_epilogue(problem)}layout {_layout(problem)}", 0),
        ),
        recipe,
    )  # fmt: skip


def show_correlate(problem: Problem, recipe: Correlate, refused: Refused) -> Plan:
    """Return the plan for a gradient of weights."""
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


def show_portable(problem: Problem, refused: Refused) -> Plan:
    """Return the plan for NumPy's products."""
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
