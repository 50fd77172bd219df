"""How long vectors are, where half of one does as much in a turn: few channels fill it better.

What both take is estimated for one image, like all choices: bits must not depend on the batch.
"""

from collections.abc import Callable

from tconv.plan.correlate import estimate_correlate
from tconv.plan.few import fastest
from tconv.plan.machine import Machine
from tconv.plan.overlap import channels_of
from tconv.plan.strips import lines_are_long
from tconv.plan.times import estimate
from tconv.plan.winograd_choice import WEIGHED_IMAGES, weigh
from tconv.problem import Operand, Problem

# Of the time with whole vectors, by estimate, that half ones may take: they are twice as many.
CLEARLY = 0.95
GROUPS = 0.85  # the same, of vectors of groups: these come and go, little is done with them
TRANSFORMS = 0.8
FAR_FROM = 1.2  # times the direct time: transforms that do not pay with other vectors either


def suited(
    problem: Problem,
    machine: Machine,
    grouped: Callable[[Problem, Machine], bool],
    *,
    algorithm: str | None,
    bound: bool,
) -> Machine:
    """Return the machine, or it with half vectors where those take clearly less time.

    ``grouped`` tells of a problem whether groups are the lanes of its vectors.
    """
    half = machine.half
    if half is None or problem.batch == 0 or _fills(problem, machine.lanes(problem.dtype)):
        return machine
    if problem.wanted is not Operand.WEIGHTS and lines_are_long(problem, half):
        return machine if lines_are_long(problem, machine) else half
    if grouped(problem, machine) or grouped(problem, half):
        few, many = (_whole(problem.groups, each.lanes(problem.dtype)) for each in (half, machine))
        return half if few < GROUPS * many else machine
    machines, enough = (half, machine), CLEARLY
    if problem.wanted is Operand.WEIGHTS:
        times = [estimate_correlate(problem, each) for each in machines]
    elif (found := _transformed(problem, machines, algorithm, bound=bound)) is not None:
        times, enough = found, TRANSFORMS
    else:
        times = [estimate(fastest(problem, each)[0], problem, each) for each in machines]
    return half if times[0] < enough * times[1] else machine


def _fills(problem: Problem, lanes: int) -> bool:
    """Tell whether channels that are written fill tiles of two vectors, and many are read.

    Then half vectors gain nothing, and to estimate both takes as long as to plan.
    """
    read, written = channels_of(problem)
    both = problem.wanted is Operand.WEIGHTS and read % (2 * lanes) != 0
    return written % (2 * lanes) == 0 and read >= lanes and not both


def _transformed(
    problem: Problem, machines: tuple[Machine, Machine], algorithm: str | None, *, bound: bool
) -> list[float] | None:
    """Return what FINE or COARSE takes with transforms, if those pay on either machine."""
    if algorithm == "direct":
        return None
    whole = weigh(problem, machines[1], bound=bound)
    if isinstance(whole, str) or (algorithm is None and whole.alone > FAR_FROM * whole.direct):
        return None  # for half vectors, too
    half = weigh(problem, machines[0], bound=bound)
    if isinstance(half, str):
        return None
    pays = [worth.refusal(bound=bound) is None for worth in (half, whole)]
    if not any(pays) and algorithm is None:
        return None
    return [
        worth.cost(bound=bound) / WEIGHED_IMAGES if yes or algorithm else worth.direct
        for worth, yes in zip((half, whole), pays, strict=True)
    ]


def _whole(groups: int, lanes: int) -> int:
    return -(-groups // lanes) * lanes
