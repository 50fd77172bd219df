"""The algorithm for small groups whose channels lie side by side: they share vectors.

A vector holds the written channels of several groups, each lane sums what its own group reads.
Points are packed with all their channels, or read where they lie, and written as they lie.
"""

from dataclasses import dataclass, replace

from tconv.plan.extent import channels_last
from tconv.plan.gather import Gather, plan_gather
from tconv.plan.gather_blocks import beside
from tconv.plan.machine import Machine
from tconv.plan.overlap import channels_of
from tconv.problem import Problem


@dataclass(frozen=True, slots=True)
class Woven(Gather):
    """A gather of all groups together."""

    written: int  # channels of a group


def plan_woven(problem: Problem, machine: Machine) -> Woven:
    """Lay out blocks, phases, panels and tables for FINE or COARSE."""
    read, written = channels_of(problem)
    base = plan_gather(all_together(problem), machine, summed=read)
    fields = {name: getattr(base, name) for name in Gather.__slots__}
    return Woven(**fields, written=written)


def all_together(problem: Problem) -> Problem:
    """Return the problem as if all its channels were one group's."""
    groups = problem.groups
    channels = groups * problem.coarse_channels, groups * problem.fine_channels
    return replace(problem, groups=1, coarse_channels=channels[0], fine_channels=channels[1])


def groups_share(problem: Problem, machine: Machine) -> bool:
    """Tell whether vectors may hold channels of several groups, or all those of one.

    Whole groups, which read no more channels than they write: those of a vector are one, too.
    """
    read, written = channels_of(problem)
    lanes = machine.lanes(problem.dtype)
    whole = written > 1 and lanes % written == 0 and problem.groups * written >= lanes
    fits = read <= written or written == lanes
    return problem.groups > 1 and beside(problem) and channels_last(problem) and whole and fits
