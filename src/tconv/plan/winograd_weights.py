"""Where weights for Winograd's algorithm come from and go to."""

from itertools import pairwise

from tconv.plan.gather import make_record
from tconv.plan.winograd import FIELDS as RECIPE
from tconv.plan.winograd import Winograd
from tconv.problem import Operand, Problem

SCALARS = (
    "source", "target", "flag",  # addresses, filled in by each call
    "first_panel", "panels",  # those of a slice, filled in likewise
    "phases", "parts", "blocks", "depth", "columns",
    "entries", "straight",
    "group_weights",
    "group_step", "depth_step", "column_step",  # of the source, in elements
)  # fmt: skip
"""The numbers of a record, in order."""

ARRAYS = ("offsets", "places", "taps", "rows", "starts", "counts")
"""For each tap of the window that some phase has, as lines are packed: where it lies in the
source, and its line in the working memory.  For each phase and part: the lines of its taps, a
line of zeros for missing ones; and the rows of each point's matrix, or -1.  For each phase and
point: where the matrices of all panels begin, and how many parts they have."""

BLOCK = 16  # channels of the depth in one work item: their taps stay in the first-level cache

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}


def plan_weight_transform(
    problem: Problem, recipe: Winograd, strides: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the record that transforms weights of these element strides."""
    letters, spatial = problem.weights_layout.steps(strides, problem.sizes)
    depth, columns = ("c", "f") if problem.wanted is Operand.FINE else ("f", "c")
    lines = {
        tap: sum(t * step for t, step in zip(tap, spatial, strict=True))
        for phase in recipe.phase_weights
        for part in phase
        for tap in part.taps
        if tap is not None
    }
    order = sorted(lines, key=lines.__getitem__)
    offsets = [lines[tap] for tap in order]
    line_of = {tap: line for line, tap in enumerate(order)}
    parts = [part for phase in recipe.phase_weights for part in phase]
    width = recipe.lanes * recipe.vectors
    entries = len(recipe.phase_weights) * len(parts[0].rows)
    starts, counts = (
        list(recipe.record[begin : begin + entries])
        for begin in (recipe.record[RECIPE[name]] for name in ("matrix_start", "segment_count"))
    )
    arrays = {
        "offsets": offsets,
        "places": [line * width for line in range(len(order))],
        "taps": [
            len(order) if tap is None else line_of[tap] for part in parts for tap in part.taps
        ],
        "rows": [-1 if row is None else row for part in parts for row in part.rows],
        "starts": starts,
        "counts": counts,
    }
    shared = ("depth", "columns", "group_weights", "parts")
    numbers = {
        "panels": recipe.slice,
        **{name: recipe.record[RECIPE[name]] for name in shared},
        "phases": len(recipe.phase_weights),
        "blocks": -(-problem.sizes[depth] // BLOCK),
        "entries": len(order),
        "straight": int(all(right - left == 1 for left, right in pairwise(offsets))),
        "group_step": letters.get("g", 0),
        "depth_step": letters[depth],
        "column_step": letters[columns],
    }
    return make_record(SCALARS, ARRAYS, numbers, arrays)


def transform_work(record: tuple[int, ...], problem: Problem, recipe: Winograd) -> tuple[int, int]:
    """Return how many work items a transform has, and the elements that each works in."""
    panels, blocks, entries = (record[FIELDS[name]] for name in ("panels", "blocks", "entries"))
    working = BLOCK * (entries + 1) * recipe.lanes * recipe.vectors
    return problem.groups * panels * blocks, working
