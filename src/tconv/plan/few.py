"""Which algorithms a problem can be done by, beside a gather, and which of them takes least.

Few channels, read or written, leave vectors of a gather half empty or its runs short; so do small
groups, and phases of FINE with few channels.  A picture that windows mostly miss is multiplied as
zeros.
"""

import math
from functools import lru_cache

from tconv.plan.cells import MOST_COLUMNS as MOST_CELL
from tconv.plan.cells import cell_columns, neighbours_of
from tconv.plan.dots import lines_fit
from tconv.plan.extent import multiplied
from tconv.plan.machine import Machine
from tconv.plan.overlap import MOST_PRODUCTS, channels_of, products_of
from tconv.plan.phases import all_phases, meeting_taps
from tconv.plan.planes import MOST_RESIDUES
from tconv.plan.times import estimate, residues_of
from tconv.plan.woven import groups_share
from tconv.problem import Operand, Problem

FEW = 8  # channels of a group, read or written; more are best side by side
MOST_WRITTEN = 8  # channels of a group whose products are kept
FEW_TAPS = 4  # products of a channel that are soon done: to turn their sums takes about as long
LEAST_READ = 4  # channels of a group: shorter sums cost less than what is done with their products
MISSED, MOST_MISSED = 1.5, 32  # times more is multiplied than is met: then so many are written
MOST_CLASSES = 256  # residues of all strides together: each has tables of its own


@lru_cache(maxsize=16)  # asked for several times while a problem is planned
def fastest(problem: Problem, machine: Machine) -> tuple[str, tuple[str, ...]]:
    """Return the algorithm that takes least time, by estimate, and the others that could do it.

    The bits of an image do not depend on its company: no estimate looks at the batch.
    """
    names = _candidates(problem, machine)
    best = names[0]
    if len(names) > 1:
        best = min(names, key=lambda name: estimate(name, problem, machine))
    return best, tuple(name for name in names if name != best)


def _candidates(problem: Problem, machine: Machine) -> list[str]:
    groups = problem.groups
    products = problem.coarse_channels * problem.fine_channels
    lanes = machine.lanes(problem.dtype)
    few = min(problem.coarse_channels, problem.fine_channels) <= FEW
    names = ["gather"]
    if (few or groups > 1 or _turned(problem)) and problem.axes[-1].stride <= MOST_RESIDUES:
        names.append("planes")
    if lines_fit(problem, machine):
        names.append("dots")
    if products > 1 and groups >= lanes:
        names.append("grouped")
    if groups_share(problem, machine):
        names.append("woven")
    if groups == 1 and _phases_fit(problem, lanes):
        names.append("cells")
    if products > 1 and _products_fit(problem, machine):
        names.append("overlap")
    return names


def _turned(problem: Problem) -> bool:
    """Tell whether a gather would turn every sum for few products: points lie side by side."""
    taps = math.prod(axis.taps for axis in problem.axes)
    return taps <= FEW_TAPS and str(problem.layout(problem.wanted)).endswith("x")


def _phases_fit(problem: Problem, lanes: int) -> bool:
    """Tell whether phases of FINE would fill vectors better than its channels alone.

    Every phase must have a tap for every neighbour that any of them reads: an infinity must not
    meet the zeros that would stand for taps not there.
    """
    channels = problem.fine_channels
    if problem.wanted is not Operand.FINE or channels % (2 * lanes) == 0:
        return False
    # Of those that meet anything: the others are no columns' at all.
    taps = math.prod(len(meeting_taps(axis)) for axis in problem.axes)
    columns = cell_columns(problem)
    return channels < columns <= MOST_CELL and taps * channels == neighbours_of(problem) * columns


def _products_fit(problem: Problem, machine: Machine) -> bool:
    """Tell whether products of every tap are few enough to be kept, and to be added up.

    Those of many channels take long to add up, unless windows miss so much of a small picture
    that a gather would mostly multiply the zeros around it.
    """
    read, written = channels_of(problem)
    if read < LEAST_READ or written > MOST_MISSED:
        return False
    if written > MOST_WRITTEN:
        met = math.prod(axis.meetings() for axis in problem.axes)
        if multiplied(all_phases(problem)[1:]) < MISSED * met:
            return False
    item = machine.vector_bytes // machine.lanes(problem.dtype)
    if products_of(problem) * item > MOST_PRODUCTS:
        return False
    return math.prod(len(residues) for residues in residues_of(problem)) <= MOST_CLASSES
