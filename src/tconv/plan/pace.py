"""Whether groups are the lanes of a vector: depthwise channels, and many small groups."""

from tconv.plan.machine import Machine
from tconv.problem import Operand, Problem

# Products of read and written channels a group: with more, groups fill vectors by themselves.
MOST_PRODUCTS = 64
MANY_RESIDUES = 4  # of a stride: vectors along points are packed for each of them


def many_small_groups(problem: Problem, machine: Machine) -> bool:
    """Tell whether groups are many enough to be a vector's lanes, and too small to fill one.

    Weights of depthwise channels leave fewer lanes empty even if these fill a third of one;
    or less, where they lie side by side.
    """
    products = problem.coarse_channels * problem.fine_channels
    lanes = machine.lanes(problem.dtype)
    if products == 1 and problem.wanted is Operand.WEIGHTS:
        return problem.groups > 1 and (_beside(problem) or 3 * problem.groups >= lanes)
    return problem.groups >= lanes and products <= MOST_PRODUCTS


def few_groups_pay(problem: Problem, machine: Machine, *, no_lines: bool) -> bool:
    """Tell whether few depthwise channels are better as lanes, though they leave some empty.

    Vectors along lines of points are better still, where there are any; unless a stride splits
    them into too many, or channels lie side by side and fill more than half of a vector.
    """
    many, twice = problem.axes[-1].stride > MANY_RESIDUES, 2 * problem.groups
    lanes = machine.lanes(problem.dtype)
    return no_lines or (many and twice >= lanes) or (_beside(problem) and twice > lanes)


def _beside(problem: Problem) -> bool:
    """Tell whether groups lie side by side in both arrays."""
    layouts = problem.coarse_layout, problem.fine_layout
    return all("g" in layout.words[-1] for layout in layouts)
