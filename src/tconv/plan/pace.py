"""About how long algorithms take for groups of some channels each: by layers that were timed."""

import math

from tconv.plan.machine import Machine, padded
from tconv.plan.phases import len_of_phases
from tconv.plan.planes import MOST_RESIDUES, ROWS_PACE, choose_rows
from tconv.problem import Operand, Problem

CLEARLY = 1.3  # so much faster an algorithm must seem: estimates are off by that
LAUNCH = 10_000
FEW_ROWS_PACE = {3: 1.5, 2: 2.0, 1: 3.5}  # of planes; the time of a multiplication goes on rising
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
    if problem.groups == 1 or problem.coarse_channels * problem.fine_channels > 1:
        return False
    many, twice = problem.axes[-1].stride > MANY_RESIDUES, 2 * problem.groups
    lanes = machine.lanes(problem.dtype)
    return no_lines or (many and twice >= lanes) or (_beside(problem) and twice > lanes)


def _beside(problem: Problem) -> bool:
    """Tell whether groups lie side by side in both arrays."""
    layouts = problem.coarse_layout, problem.fine_layout
    return all("g" in layout.words[-1] for layout in layouts)


def faster(problem: Problem, machine: Machine, chosen: str) -> str:
    """Return the algorithm that seems clearly faster than the chosen one, or that one."""
    found = estimates(problem, machine)
    best = min(found, key=lambda name: found[name])
    return best if chosen not in found or found[chosen] > CLEARLY * found[best] else chosen


def estimates(problem: Problem, machine: Machine) -> dict[str, float]:
    """Return the nanoseconds that algorithms would take on the machine they were timed on.

    The numbers were fitted to some hundred layers of 2 to 32 groups with 2 to 31 channels each;
    what counts is how they compare.  They are for one image, so that its bits do not depend on
    its company.
    """
    fine, lanes = problem.wanted is Operand.FINE, machine.lanes(problem.dtype)
    read, written = problem.fine_channels, problem.coarse_channels
    if fine:
        read, written = written, read
    last, groups = problem.axes[-1], problem.groups
    phases = len_of_phases(last) if fine else 1
    line = max(1.0, (last.fine_size if fine else last.coarse_size) / phases)
    coarse, target = (
        groups * math.prod(problem.spatial(operand)) for operand in (Operand.COARSE, Operand.FINE)
    )
    source = coarse if fine else target
    points = target if fine else coarse
    products = problem.flops() / 2 / max(1, problem.batch) / written  # of every channel written
    window = products / max(1, points * read)
    width = padded(written, lanes)
    runs = points * window / max(1.0, last.taps / phases) * -(-written // (2 * lanes))
    found = {
        "gather": products * width / 80 + 0.66 * runs + 0.16 * source * read + 0.28 * points * width
    }
    if last.stride <= MOST_RESIDUES:
        rows = choose_rows(written)
        tiles = -(-written // rows)
        pace = FEW_ROWS_PACE.get(rows) or ROWS_PACE[rows]
        filled = math.ceil(line / lanes) * lanes / line
        done = products * filled * tiles * rows * pace
        found["planes"] = done / 66 + 25 * tiles * points / line + 0.21 * source * read
        # Channels side by side, and points of phases that are not, are stored one by one.
        beside = str(problem.layout(problem.wanted)).endswith("x")
        found["planes"] += (0.9 * (phases > 1) if beside else 0.4) * points * written
    if groups >= lanes:
        whole = -(-groups // lanes) * lanes / groups
        done = products * written / 35 + 0.08 * source * read + 0.5 * points * written
        found["grouped"] = whole * done
    return {name: time + LAUNCH for name, time in found.items()}
