"""Where weights for Winograd's algorithm come from and go to."""

from tconv.plan.gather import make_record
from tconv.plan.winograd import FIELDS as RECIPE
from tconv.plan.winograd import Winograd
from tconv.problem import Operand, Problem

SCALARS = (
    "source", "target", "flag",  # addresses, filled in by each call
    "phases", "last_phases", "parts", "panels", "depth", "columns",
    "group_weights", "panel_weights", "point_weights", "product_weights",
    "group_step", "depth_step", "column_step",  # of the source, in elements
)  # fmt: skip
"""The numbers of a record, in order."""

ARRAYS = ("taps", "rows")
"""For each phase and part: where each tap lies in the source, or that it is missing; and the
rows of each point's matrix, or -1."""

MISSING = -(1 << 62)  # no place in any array, whatever its strides

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}


def plan_weight_transform(
    problem: Problem, recipe: Winograd, strides: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the record that transforms weights of these element strides."""
    letters, spatial = problem.weights_layout.steps(strides, problem.sizes)
    depth, columns = ("c", "f") if problem.wanted is Operand.FINE else ("f", "c")
    offsets: list[int] = []
    rows: list[int] = []
    for phase in recipe.phase_weights:
        for part in phase:
            offsets += [
                MISSING
                if tap is None
                else sum(t * step for t, step in zip(tap, spatial, strict=True))
                for tap in part.taps
            ]
            rows += [-1 if row is None else row for row in part.rows]
    shared = ("panels", "depth", "columns", "group_weights", "panel_weights", "point_weights",
              "product_weights", "parts")  # fmt: skip
    numbers = {
        **{name: recipe.record[RECIPE[name]] for name in shared},
        "phases": len(recipe.phase_weights),
        "last_phases": recipe.record[RECIPE["phases"]],
        "group_step": letters.get("g", 0),
        "depth_step": letters[depth],
        "column_step": letters[columns],
    }
    return make_record(SCALARS, ARRAYS, numbers, {"taps": offsets, "rows": rows})
