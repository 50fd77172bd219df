"""How long vectors are, where half of one does as much in a turn: few channels fill it better.

What both take is estimated for one image, like all choices: bits must not depend on the batch.
"""

from collections.abc import Callable

from tconv.plan.correlate import estimate_correlate
from tconv.plan.few import fastest
from tconv.plan.machine import Machine
from tconv.plan.strips import lines_are_long
from tconv.plan.times import estimate
from tconv.plan.winograd_choice import WEIGHED_IMAGES, Worth, weigh
from tconv.problem import Operand, Problem

# Of the time with whole vectors, by estimate, that half ones may take: they are twice as many.
CLEARLY = 0.95
GROUPS = 0.85  # the same, of vectors of groups: these come and go, little is done with them
TRANSFORMS = 0.8


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
    if half is None or problem.batch == 0:
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


def _transformed(
    problem: Problem, machines: tuple[Machine, Machine], algorithm: str | None, *, bound: bool
) -> list[float] | None:
    """Return what FINE or COARSE takes with transforms, if those pay on either machine."""
    if algorithm == "direct":
        return None
    worths = [weigh(problem, each, bound=bound) for each in machines]
    found = [worth for worth in worths if isinstance(worth, Worth)]
    pays = [worth.refusal(bound=bound) is None for worth in found]
    if len(found) < len(machines) or not (any(pays) or algorithm == "winograd"):
        return None
    return [
        worth.cost(bound=bound) / WEIGHED_IMAGES if yes or algorithm else worth.direct
        for worth, yes in zip(found, pays, strict=True)
    ]


def _whole(groups: int, lanes: int) -> int:
    return -(-groups // lanes) * lanes
