"""The algorithm for very few written channels: vectors run along the channels that are read.

Panels of one to four channels would leave vectors mostly empty.  Where the channels of a point,
and often those of its neighbours, lie side by side, so do lines of weights: every vector of data
is multiplied with one of each, and lanes are added up in the end.
"""

from dataclasses import dataclass

from tconv.plan.gather import FIELDS, Gather, plan_gather
from tconv.plan.gather_blocks import beside
from tconv.plan.machine import Machine
from tconv.plan.overlap import channels_of
from tconv.plan.phases import all_phases
from tconv.problem import Problem

MOST_WRITTEN = 4  # channels of a group: more fill vectors well enough
ROWS = {1: 8, 2: 6, 3: 4, 4: 2}  # points of a tile, by those: eight to twelve sums


@dataclass(frozen=True, slots=True)
class Dots(Gather):
    """A gather whose weights are lines of the depth; for each run of them, how long they are."""

    depths: tuple[int, ...]


def plan_dots(problem: Problem, machine: Machine) -> Dots:
    """Lay out blocks, phases and tables for FINE or COARSE."""
    base = plan_gather(problem, machine, lines=True)
    record = base.record
    begin, end = record[FIELDS["segment_depth"]], record[FIELDS["part_segments"]]
    counts = record[record[FIELDS["segment_count"]] : begin]
    depths = [depth for depth, count in zip(record[begin:end], counts, strict=True) if count]
    fields = {name: getattr(base, name) for name in Gather.__slots__}
    return Dots(**fields, depths=tuple(depths))


def lines_fit(problem: Problem, machine: Machine) -> bool:
    """Tell whether vectors may run along channels that are read: a group has enough of them.

    Or those of all taps of a line have, which lie side by side.
    """
    read, written = channels_of(problem)
    if not beside(problem) or written > MOST_WRITTEN:
        return False
    lanes = machine.lanes(problem.dtype)
    if read >= lanes or problem.groups > 1:
        return read >= lanes
    lines = (offsets for offsets in all_phases(problem)[-1].offsets if offsets)
    return all(len(line) * read >= lanes and line[-1] - line[0] == len(line) - 1 for line in lines)
