"""About how long a spread result takes for one image, in nanoseconds of one core."""

import math
from dataclasses import dataclass, replace

from tconv.plan.extent import channels_last
from tconv.plan.few import fastest
from tconv.plan.flat import flattened
from tconv.plan.machine import Machine
from tconv.plan.overlap import channels_of
from tconv.plan.prices import SPREAD
from tconv.plan.smaller import Smaller, SpreadAxis, bytes_of, smaller_problem
from tconv.plan.spread import MIXED, chunks_of
from tconv.plan.spread_parts import Cut, cut, smaller_part
from tconv.plan.times import LARGE, estimate
from tconv.problem import Problem

FAR_BLANK = 0.08  # more for a blank of a large result: no sums pay for it
CLEARLY = 0.95  # of the time that the best other way takes, by estimate
STAGES = {"overlap"}  # algorithms of several
MOST_WRITTEN = 64  # channels of a group that may gain by more of them; others fill vectors


@dataclass(frozen=True, slots=True)
class Worthy:
    """A smaller problem that spreads to another, its parts, and the algorithm for it."""

    smaller: Smaller
    cut: Cut
    algorithm: str


def spreading(problem: Problem, machine: Machine) -> Worthy | None:
    """Return what spreads to a problem, whatever that takes."""
    smaller = smaller_problem(problem)
    parts = None if smaller is None else cut(problem, smaller, machine)
    if smaller is None or parts is None:
        return None
    inner = _line(smaller.problem)
    best, others = fastest(inner, machine)
    if best in STAGES:  # all workers would wait for each other
        best = min(others, key=lambda name: estimate(name, inner, machine))
    return Worthy(smaller, parts, best)


def worth_spreading(problem: Problem, machine: Machine, best: str) -> Worthy | None:
    """Return what spreads to a problem, if that takes less time than the best other way."""
    smaller = smaller_problem(problem)
    if smaller is None:
        return None
    _, written = channels_of(problem)
    full = written > MOST_WRITTEN or written % (2 * machine.lanes(problem.dtype)) == 0
    if full and not smaller.blanks:
        return None
    worth = spreading(problem, machine)
    other = estimate(best, problem, machine)
    if bytes_of(problem) > machine.l3 // LARGE:
        other += FAR_BLANK * _blanks(problem, smaller)
    if worth is None or _time(problem, worth, machine) > CLEARLY * other:
        return None
    return worth


def _line(problem: Problem) -> Problem:
    flat = flattened(problem)
    return problem if flat is None else flat.problem


def _blanks(problem: Problem, smaller: Smaller) -> int:
    """Return how many elements of an image are blank."""
    every = math.prod(axis.size for axis in smaller.axes)
    points = every - math.prod(map(_met, smaller.axes))
    return points * problem.groups * problem.fine_channels


def _time(problem: Problem, worth: Worthy, machine: Machine) -> float:
    """Return about how long it takes: the smaller problem, and what is done with its result."""
    counts = count_spread(problem, worth, machine)
    spread = sum(SPREAD[what][machine.long] * count for what, count in counts.items())
    return estimate(worth.algorithm, _line(worth.smaller.problem), machine) + spread


def count_spread(problem: Problem, worth: Worthy, machine: Machine) -> dict[str, float]:
    """Return what is done for one image, by what costs time."""
    smaller = worth.smaller
    beside, lanes = channels_last(problem), machine.lanes(problem.dtype)
    channels = problem.groups * problem.fine_channels
    planes, unit = (1, channels) if beside else (channels, 1)
    *outer, last = smaller.axes
    lines = planes * math.prod(map(_met, outer))
    points = math.prod(axis.size for axis in smaller.axes) * channels
    mixed = not beside and last.step in MIXED and last.cells >= lanes
    single = not beside and not mixed
    follow = beside and smaller.taps and last.offsets[-1] - last.offsets[0] < len(last.offsets)
    entries = lines * (1 if follow else len(last.offsets))
    return {
        "filled": points * smaller.blanks,
        "mixed": lines * last.size * mixed,
        "single": lines * _met(last) * single,
        "copied": lines * _met(last) * unit * beside,
        "runs": entries * last.cells * beside,
        "lines": lines,
        "entries": entries,
        "chunks": _chunks(problem, worth, machine),
        "stages": 1,
    }


def _chunks(problem: Problem, worth: Worthy, machine: Machine) -> int:
    """Return how many chunks an image has that is alone: those of every slab."""
    alone = worth.cut
    if problem.batch > 1:  # bits of an image do not depend on its company
        found = cut(replace(problem, batch=1), worth.smaller, machine)
        alone = alone if found is None else found
    if alone.axis is None:
        return chunks_of(problem, worth.smaller).count
    part = alone.problems[0]
    return len(alone.parts) * chunks_of(part, smaller_part(part, worth.smaller)).count


def _met(axis: SpreadAxis) -> int:
    """Return how many points of an axis are not blank."""
    return sum(len(axis.range_of(tap)) for tap in range(len(axis.offsets)))
