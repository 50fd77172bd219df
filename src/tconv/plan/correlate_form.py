"""Which form a correlation has: what its rows are, and what the lanes of its vectors."""

import math
from dataclasses import dataclass

from tconv.plan.machine import padded
from tconv.plan.tiles import whole_tiles
from tconv.problem import Operand, Problem

# Multiplications in the time of one element that is packed: into panels or vectors of groups;
# into planes; the same if residues of the stride lie side by side; single points of lines that
# fill no vector, or of which some residues are left out.
PACK_PANELS, PACK_PLANES, PACK_RESIDUES, PACK_POINTS = 3, 8, 20, 25
PACK_LINES = 3  # the same of lines that are copied as they lie
PACK_APART = 48  # the same of one point of a group that lies among others
CLEARLY = 0.95  # of the time of others that rows of taps may take
ACROSS = 1.3  # multiplications of vectors of groups in the time of one: both come from memory


@dataclass(frozen=True, slots=True)
class Form:
    """What rows of tiles are, and what lanes of vectors."""

    swapped: bool = False  # rows are taps and fine channels, lanes coarse channels
    groups: int = 1  # that the lanes of a vector are, on both sides; with one they are channels


def choose_form(
    problem: Problem, fine_points: int, tile: tuple[int, int], runs: tuple[bool, bool]
) -> Form:
    """Return the form that takes clearly less time, of :func:`form_times`."""
    times = form_times(problem, fine_points, tile, runs)
    best = min(times, key=lambda form: times[form])
    if best.swapped and times[best] >= CLEARLY * times[Form()]:
        return Form()
    return best


def form_times(
    problem: Problem, fine_points: int, tile: tuple[int, int], runs: tuple[bool, bool]
) -> dict[Form, float]:
    """Return how long forms take, in multiplications of one sum for each point.

    Rows of taps and fine channels leave less of the tiles empty where the fine side has few
    channels.  But they know no taps to leave points out for, and planes take longer to pack than
    panels.  Where groups have few channels on both sides, lanes are groups.
    ``fine_points`` are those that are packed; ``tile`` has the lanes of a vector and the rows
    of a tile; ``runs`` tell whether points of a line run on or leave some out, and whether
    rows of taps may read them from where they lie.
    """
    lanes, tile_rows = tile
    taps = math.prod(axis.taps for axis in problem.axes)
    coarse, fine = problem.coarse_channels, problem.fine_channels
    points = math.prod(axis.coarse_size for axis in problem.axes)
    met = math.prod(axis.meetings() for axis in problem.axes) / points
    spread = fine_points / (problem.batch * points)
    last = problem.axes[-1]
    rows_of_points = str(problem.layout(Operand.FINE)).endswith("x")
    planes = PACK_RESIDUES if last.stride > 1 and rows_of_points else PACK_PLANES
    if last.coarse_size < lanes or not runs[0]:
        planes = PACK_POINTS
    if runs[1]:
        planes = PACK_LINES
    apart = PACK_APART if problem.groups > 1 and not rows_of_points else 0
    both = PACK_PANELS * coarse + apart
    natural = padded(fine, lanes) * whole_tiles(coarse, tile_rows) * met
    natural += (PACK_PANELS * max(fine, lanes) + apart) * spread + both
    swapped = padded(coarse, lanes) * whole_tiles(taps * fine, tile_rows)
    swapped += (planes * fine + apart / 2) * spread + both
    times = {Form(): natural, Form(swapped=True): swapped}
    if problem.groups == 1:
        return times
    rows = whole_tiles(coarse, tile_rows)
    across = ACROSS * (fine - fine % 2 + (fine % 2) * 4 / 3) * rows * met
    across += PACK_PANELS * (fine * spread + coarse)
    across *= -(-problem.groups // lanes) * lanes / problem.groups
    return times | {Form(groups=lanes): across}
