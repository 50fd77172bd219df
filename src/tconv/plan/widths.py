"""How long vectors are, where half of one does as much in a turn: few channels fill it better.

What both take is estimated for one image, like all choices: bits must not depend on the batch.
"""

from collections.abc import Callable

from tconv.plan.correlate import estimate_correlate
from tconv.plan.few import fastest
from tconv.plan.machine import Machine
from tconv.plan.times import estimate
from tconv.plan.winograd_choice import WEIGHED_IMAGES, Worth, weigh
from tconv.problem import Operand, Problem

CLEARLY = 0.95  # of the time with whole vectors: half ones take twice as many instructions
GROUPS = 0.85  # the same, of vectors of groups: these come and go, little is done with them


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
    if grouped(problem, machine) or grouped(problem, half):
        few, many = (_whole(problem.groups, each.lanes(problem.dtype)) for each in (half, machine))
        return half if few < GROUPS * many else machine
    if problem.wanted is Operand.WEIGHTS:
        times = [estimate_correlate(problem, each) for each in (half, machine)]
    else:
        times = _data_times(problem, (half, machine), algorithm, bound=bound)
    return half if times[0] < CLEARLY * times[1] else machine


def _data_times(
    problem: Problem, machines: tuple[Machine, Machine], algorithm: str | None, *, bound: bool
) -> list[float]:
    """Return what FINE or COARSE takes, by transforms if those pay on either machine."""
    if algorithm != "direct":
        worths = [weigh(problem, each, bound=bound) for each in machines]
        found = [worth for worth in worths if isinstance(worth, Worth)]
        if len(found) == len(machines) and (
            algorithm == "winograd" or any(w.refusal(bound=bound) is None for w in found)
        ):
            return [_cycles(worth, algorithm, bound=bound) for worth in found]
    return [estimate(fastest(problem, each)[0], problem, each) for each in machines]


def _cycles(worth: Worth, algorithm: str | None, *, bound: bool) -> float:
    if algorithm is None and worth.refusal(bound=bound) is not None:
        return worth.direct
    return worth.cost(bound=bound) / WEIGHED_IMAGES


def _whole(groups: int, lanes: int) -> int:
    return -(-groups // lanes) * lanes
