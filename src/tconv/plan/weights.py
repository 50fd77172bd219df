"""Where packed weights come from and go to."""

from tconv.plan.cells import Cells
from tconv.plan.gather import Gather, make_record
from tconv.problem import Operand, Problem

SCALARS = (
    "source", "target", "flag",  # addresses, filled in by each call
    "runs", "panels", "depth", "columns", "group_weights",
    "group_step", "depth_step", "column_step",  # of the source, in elements
)  # fmt: skip
"""The numbers of a packing's record, in order."""

ARRAYS = ("starts", "panel_steps", "first_rows", "tap_starts", "tap_counts", "tap_offsets")
"""One number for each run of taps; then where each tap lies in the source."""

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}


def plan_packing(problem: Problem, recipe: Gather, strides: tuple[int, ...]) -> tuple[int, ...]:
    """Return the record that packs weights of these element strides for a gather."""
    letters, spatial = problem.weights_layout.steps(strides, problem.sizes)
    depth, columns = ("c", "f") if problem.wanted is Operand.FINE else ("f", "c")
    arrays: dict[str, list[int]] = {name: [] for name in ARRAYS}
    for run in recipe.runs:
        arrays["starts"].append(run.start)
        arrays["panel_steps"].append(run.panel_step)
        arrays["first_rows"].append(run.first_row)
        arrays["tap_starts"].append(len(arrays["tap_offsets"]))
        arrays["tap_counts"].append(len(run.taps))
        arrays["tap_offsets"] += [
            sum(t * step for t, step in zip(tap, spatial, strict=True)) for tap in run.taps
        ]
    numbers = {
        "runs": len(recipe.runs),
        "panels": recipe.panels,
        "depth": problem.sizes[depth],
        "columns": problem.sizes[columns],
        "group_weights": recipe.group_weights,
        "group_step": letters.get("g", 0),
        "depth_step": letters[depth],
        "column_step": letters[columns],
    }
    return make_record(SCALARS, ARRAYS, numbers, arrays)


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
