"""Where packed weights come from and go to."""

import math
from itertools import pairwise

from tconv.plan.cells import Cells
from tconv.plan.gather import Gather, make_record
from tconv.problem import Operand, Problem

SCALARS = (
    "source", "target", "flag",  # addresses, filled in by each call
    "panels", "blocks", "block", "depth", "columns", "group_weights",
    "sets", "unit", "entries", "straight",
    "group_step", "depth_step", "column_step",  # of the source, in elements
)  # fmt: skip
"""The numbers of a packing's record, in order.

Lines are packed in sets of ``unit`` channels of the depth with ``entries`` taps each.
``straight``: the elements of a set lie side by side in the source, in the set's order.
"""

ARRAYS = ("offsets", "wide", "narrow", "panel_steps")
"""For each line of each set: where it lies in the source, and where it goes, in panels with all
vectors and with one, before the steps of its panel are added."""

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}

COPIED = 16  # lines of a tap in a set, where columns lie side by side
BLOCK = 64  # channels of the depth, about, in one work item


def plan_packing(problem: Problem, recipe: Gather, strides: tuple[int, ...]) -> tuple[int, ...]:
    """Return the record that packs weights of these element strides for a gather."""
    letters, spatial = problem.weights_layout.steps(strides, problem.sizes)
    depth, columns = ("c", "f") if problem.wanted is Operand.FINE else ("f", "c")
    # Each tap: where it is read, its run, and its first line there.
    taps = sorted(
        (sum(t * step for t, step in zip(tap, spatial, strict=True)), number, index)
        for number, run in enumerate(recipe.runs)
        for index, tap in enumerate(run.taps)
    )
    step = letters[depth]
    sets, unit, straight = _sets([offset for offset, _, _ in taps], step, recipe.lanes)
    if taps and letters[columns] == 1 and problem.sizes[columns] >= recipe.lanes * recipe.vectors:
        sets, unit, straight = len(taps), COPIED, False  # whatever lies between them
    arrays: dict[str, list[int]] = {name: [] for name in ARRAYS}
    for which in range(sets):
        for u in range(unit):
            for offset, number, index in taps if sets == 1 else taps[which : which + 1]:
                run = recipe.runs[number]
                row = run.first_row + index * problem.sizes[depth] + u
                arrays["offsets"].append(offset + u * step)
                arrays["wide"].append(run.start + row * recipe.lanes * recipe.vectors)
                arrays["narrow"].append(run.start + row * recipe.lanes)
                arrays["panel_steps"].append(run.panel_step)
    block = -(-BLOCK // unit) * unit
    numbers = {
        "panels": recipe.panels,
        "blocks": -(-problem.sizes[depth] // block),
        "block": block,
        "depth": problem.sizes[depth],
        "columns": problem.sizes[columns],
        "group_weights": recipe.group_weights,
        "sets": sets,
        "unit": unit,
        "entries": len(taps) // sets,
        "straight": int(straight),
        "group_step": letters.get("g", 0),
        "depth_step": step,
        "column_step": letters[columns],
    }
    return make_record(SCALARS, ARRAYS, numbers, arrays)


def packing_scratch(record: tuple[int, ...]) -> int:
    """Return the bytes of scratch that a packing needs: a place for each line of its sets."""
    return 8 * math.prod(record[FIELDS[name]] for name in ("sets", "unit", "entries"))


def packing_items(record: tuple[int, ...], groups: int) -> int:
    """Return how many work items a packing has."""
    return groups * record[FIELDS["panels"]] * record[FIELDS["blocks"]]


def _sets(offsets: list[int], step: int, lanes: int) -> tuple[int, int, bool]:
    """Return how many sets of lines there are, how many channels each takes, and if straight.

    Squares of elements are transposed in registers.  Taps that lie side by side fill them,
    together with those of following channels if these come next.
    """
    side_by_side = all(right - left == 1 for left, right in pairwise(offsets))
    if side_by_side and step == len(offsets):
        return 1, lanes // math.gcd(lanes, len(offsets)), True
    if len(offsets) > 1 and step == 1:
        return len(offsets), lanes, True
    return 1, 1, side_by_side


CELL_SCALARS = (
    "source", "target", "flag",  # addresses, filled in by each call
    "panels", "wide_panels", "neighbours", "depth", "group_weights",
    "group_step", "depth_step",  # of the source, in elements
)  # fmt: skip
"""The numbers of the record that packs cells, in order."""

CELL_ARRAYS = ("offsets",)
"""For each neighbour and column where the first weight of the depth lies, or NOWHERE."""

NOWHERE = -(1 << 62)  # strides may be negative, but reach less far

CELL_FIELDS = {name: place for place, name in enumerate((*CELL_SCALARS, *CELL_ARRAYS))}


def plan_cell_packing(problem: Problem, recipe: Cells, strides: tuple[int, ...]) -> tuple[int, ...]:
    """Return the record that packs weights of these element strides for cells."""
    letters, spatial = problem.weights_layout.steps(strides, problem.sizes)
    width = recipe.lanes * recipe.vectors
    columns = sum(map(len, recipe.columns))
    padded = recipe.panels * width
    offsets = [NOWHERE] * (recipe.neighbours * padded)
    for taps, places in zip(recipe.taps, recipe.columns, strict=True):
        for neighbour, tap in enumerate(taps):
            if not tap:
                continue
            first = sum(t * step for t, step in zip(tap, spatial, strict=True))
            for channel, column in enumerate(places):
                offsets[neighbour * padded + column] = first + channel * letters["f"]
    numbers = {
        "panels": recipe.panels,
        "wide_panels": recipe.panels - (0 < columns % width <= recipe.lanes),
        "neighbours": recipe.neighbours,
        "depth": problem.coarse_channels,
        "group_weights": recipe.group_weights,
        "group_step": letters.get("g", 0),
        "depth_step": letters["c"],
    }
    return make_record(CELL_SCALARS, CELL_ARRAYS, numbers, {"offsets": offsets})


PICK_SCALARS = (
    "source", "target", "flag",  # addresses, filled in by each call
    "count",
)  # fmt: skip
"""The numbers of the record that picks weights one by one, in order."""

PICK_ARRAYS = ("offsets",)
"""Where each of them lies."""

PICK_FIELDS = {name: place for place, name in enumerate((*PICK_SCALARS, *PICK_ARRAYS))}


def plan_picking(offsets: list[int]) -> tuple[int, ...]:
    """Return the record that picks weights from so many elements behind the first one."""
    return make_record(PICK_SCALARS, PICK_ARRAYS, {"count": len(offsets)}, {"offsets": offsets})
