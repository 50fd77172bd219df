"""About how long a spread result takes for one image, in nanoseconds of one core."""

import math

from tconv.plan.extent import channels_last
from tconv.plan.few import fastest
from tconv.plan.flat import flattened
from tconv.plan.machine import Machine
from tconv.plan.overlap import channels_of
from tconv.plan.prices import SPREAD
from tconv.plan.smaller import Smaller, SpreadAxis, bytes_of, fits, smaller_problem
from tconv.plan.spread import CHUNK, MIXED
from tconv.plan.times import estimate
from tconv.problem import Problem, numpy_dtype

LARGE, FAR_BLANK = 8, 0.08  # parts of the last cache: blanks that no sums pay for take longer
CLEARLY = 0.95  # of the time that the best other way takes, by estimate
MOST_WRITTEN = 64  # channels of a group that may gain by more of them; others fill vectors


def worth_spreading(problem: Problem, machine: Machine, best: str) -> Smaller | None:
    """Return what spreads to a problem, if that takes less time than the best other way."""
    smaller = smaller_problem(problem)
    if smaller is None or not fits(smaller):
        return None
    _, written = channels_of(problem)
    full = written > MOST_WRITTEN or written % (2 * machine.lanes(problem.dtype)) == 0
    if full and not smaller.blanks:
        return None
    other = estimate(best, problem, machine)
    if bytes_of(problem) > machine.l3 // LARGE:
        other += FAR_BLANK * _blanks(problem, smaller)
    return smaller if _time(problem, smaller, machine) < CLEARLY * other else None


def _blanks(problem: Problem, smaller: Smaller) -> int:
    """Return how many elements of an image are blank."""
    every = math.prod(axis.size for axis in smaller.axes)
    points = every - math.prod(map(_met, smaller.axes))
    return points * problem.groups * problem.fine_channels


def _time(problem: Problem, smaller: Smaller, machine: Machine) -> float:
    """Return about how long it takes: the smaller problem, and what is done with its result."""
    flat = flattened(smaller.problem)
    inner = smaller.problem if flat is None else flat.problem
    counts = count_spread(problem, smaller, machine)
    spread = sum(SPREAD[what] * count for what, count in counts.items())
    return estimate(fastest(inner, machine)[0], inner, machine) + spread


def count_spread(problem: Problem, smaller: Smaller, machine: Machine) -> dict[str, float]:
    """Return what is done for one image, by what costs time."""
    beside, lanes = channels_last(problem), machine.lanes(problem.dtype)
    channels = problem.groups * problem.fine_channels
    planes, unit = (1, channels) if beside else (channels, 1)
    *outer, last = smaller.axes
    lines = planes * math.prod(map(_met, outer))
    points = math.prod(axis.size for axis in smaller.axes) * channels
    item = numpy_dtype(problem.dtype).itemsize
    mixed = not beside and last.step in MIXED and last.cells >= lanes
    single = not beside and not mixed
    follow = beside and smaller.taps and last.offsets[-1] - last.offsets[0] < len(last.offsets)
    entries = lines * (1 if follow else len(last.offsets))
    compact = bytes_of(smaller.problem)
    return {
        "filled": points * smaller.blanks,
        "mixed": lines * last.size * mixed,
        "single": lines * _met(last) * single,
        "copied": lines * _met(last) * unit * beside,
        "far": compact / item if compact > machine.l2 else 0,
        "runs": entries * last.cells * beside,
        "lines": lines,
        "entries": entries,
        "chunks": points * item / CHUNK,
        "stages": 1,
    }


def _met(axis: SpreadAxis) -> int:
    """Return how many points of an axis are not blank."""
    return sum(len(axis.range_of(tap)) for tap in range(len(axis.offsets)))
