"""Which algorithm is the best for few written channels: what each of them costs.

All costs are cycles of one core for one image, whatever the batch is, so that an image's bits do
not depend on its company.
"""

import math
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from itertools import product

from tconv.plan.blocks import choose_block
from tconv.plan.cells import MOST_COLUMNS as MOST_CELL
from tconv.plan.cells import cell_columns, neighbours_of
from tconv.plan.machine import Machine, padded
from tconv.plan.overlap import MOST_PRODUCTS, products_of
from tconv.plan.phases import AxisPhases, all_phases, batch_phases, even_phases, len_of_phases
from tconv.plan.planes import MOST_COLUMNS, MOST_ROWS, planes_block
from tconv.plan.tiles import tile_rows, whole_tiles
from tconv.problem import Operand, Problem

# Of the pace of full vectors of channels, about: tiles of all phases, of many of them, of one.
MERGED_PACE, MANY_PACE, PLANES_PACE = 0.8, 0.5, 0.35
MERGED_PHASES = 3
CLEARLY = 1.1  # better by so much that what else it costs does not matter
SCATTERED = 5.0  # cycles more of an element that a cell stores between those of its neighbours
FILLED, APART_FILLED = 0.8, 0.95  # of the vectors of a cell's columns
MOST_CLASSES = 256  # residues of all strides together: each has tables of its own
MOST_WRITTEN = 8  # channels of a group; more fill vectors
LEAST_READ = 4  # channels of a group: shorter sums cost less than what is done with their products
# Measured, in cycles: of a vector multiplied, packed, added up, and of an element stored.
PRODUCT, PACK, FOLD, STORE = 0.58, 6.0, 3.0, 1.2
FAR = 28.0  # of a vector of products that have left the nearer caches, so long that they are many
TILE, LINE, STAGES = 40.0, 15.0, 6000.0  # to begin a tile, a phase of a line, and two stages
# Of planes: a vector multiplied, and read for all rows of a tile, of one phase or of several.
ROW, LOAD, MERGED_LOAD = 0.5, 1.2, 1.7
NEAR = 0.25  # of half of all products that may be kept
NARROW = 0.72  # of a vector of channels, alone in its panel
SMALL_PACK = 3.0
# With a stride: a vector of channels alone in its panel; one packed as planes, as points, and as
# points of one residue, from channels that lie side by side, and from those that lie apart.
LONELY = 1.15
APART, NEAR_PACK, APART_PACK = 22.0, 6.0, 25.0
FAR_APART, FAR_PACK, FAR_APART_PACK = 30.0, 20.0, 45.0
MISSED = 1.5  # times more is multiplied than is met
MOST_MISSED = 32  # channels of a group that are written nevertheless
MUCH_LESS = 0.7  # of a gather's time, by estimate
SCATTER = 4.0  # of an element that planes store for itself: phases that are not merged lie apart


class Pays(Enum):
    """Whether an algorithm is the best for few written channels."""

    NOT = "not"
    PERHAPS = "perhaps"  # of those that sum every output by itself
    CLEARLY = "clearly"


def cells_pay(problem: Problem, machine: Machine) -> Pays:
    """Tell whether columns of phases leave clearly less of the vectors empty.

    Planes, where few channels go otherwise, read all data again for every few sums.  Products
    that are added up cost less than columns that are half empty, or stored point by point.
    """
    columns, channels, read = cell_columns(problem), problem.fine_channels, problem.coarse_channels
    if problem.wanted is not Operand.FINE or columns > MOST_CELL or read < MOST_COLUMNS:
        return Pays.NOT
    taps = math.prod(axis.taps for axis in problem.axes)
    if taps * channels != neighbours_of(problem) * columns:
        return Pays.NOT  # an infinity must not meet the zeros that stand for taps not there
    lanes = machine.lanes(problem.dtype)
    alone = channels / padded(channels, lanes)
    if channels <= MOST_COLUMNS:
        alone = _planes_pace(problem, lanes)
    filled = columns / padded(columns, lanes)
    apart = problem.fine_layout.axes.endswith("x")
    full = read * taps * channels / columns / (2 * lanes)  # cycles of an output
    if full / alone <= CLEARLY * (full / filled + apart * SCATTERED):
        return Pays.NOT
    needed = APART_FILLED if apart and channels > MOST_COLUMNS else FILLED
    return Pays.CLEARLY if filled >= needed else Pays.PERHAPS


def _planes_pace(problem: Problem, lanes: int) -> float:
    """Return how fast planes are for FINE, about, beside full vectors of channels."""
    phases = len_of_phases(problem.axes[-1])
    points = -(-problem.axes[-1].fine_size // phases)
    filled = points / (-(-points // lanes) * lanes)
    if phases * problem.fine_channels > MOST_ROWS:
        return PLANES_PACE * filled
    return (MERGED_PACE if phases <= MERGED_PHASES else MANY_PACE) * filled


def overlap_pays(problem: Problem, machine: Machine) -> bool:
    """Tell whether a problem with few written channels should be done by products."""
    fine = problem.wanted is Operand.FINE
    read, written = problem.coarse_channels, problem.fine_channels
    if not fine:
        read, written = written, read
    if written > MOST_WRITTEN or read < LEAST_READ:
        return False
    apart = all(axis.taps <= axis.stride and axis.dilation == 1 for axis in problem.axes)
    if apart and written > MOST_COLUMNS:
        return False  # no two products meet
    item = machine.vector_bytes // machine.lanes(problem.dtype)
    if products_of(problem) * item > MOST_PRODUCTS:
        return False
    if _strided(problem):
        if math.prod(len(residues) for residues in _residues(problem)) > MOST_CLASSES:
            return False
        rivals = strided_costs(problem, machine)
        best = min(rivals) if written <= MOST_COLUMNS else rivals[1]
        return _by_products(problem, machine, (read, written)) < best
    return _by_products(problem, machine, (read, written)) < _by_sums(
        problem, machine, (read, written)
    )


def products_pay(problem: Problem, machine: Machine) -> bool:
    """Tell whether windows miss so much of the picture that products of what they meet pay.

    A gather multiplies the zeros around a small picture by most taps of a large window, products
    have no zeros.  But those of many channels take long to add up.
    """
    fine = problem.wanted is Operand.FINE
    read, written = problem.coarse_channels, problem.fine_channels
    if not fine:
        read, written = written, read
    axes = all_phases(problem)[1:]
    summed, met = _meetings(axes), math.prod(axis.meetings() for axis in problem.axes)
    if read < LEAST_READ or written > MOST_MISSED or summed < MISSED * met:
        return False
    lanes = machine.lanes(problem.dtype)
    if products_of(problem) * (machine.vector_bytes // lanes) > MOST_PRODUCTS:
        return False
    if math.prod(len(residues) for residues in _residues(problem)) > MOST_CLASSES:
        return False
    gather = problem.groups * summed * read * -(-written // lanes) * PRODUCT
    return _by_products(problem, machine, (read, written)) < MUCH_LESS * gather


def _strided(problem: Problem) -> bool:
    """Tell whether points that are read lie apart."""
    return problem.wanted is Operand.COARSE and any(axis.stride > 1 for axis in problem.axes)


def _residues(problem: Problem) -> list[Counter[int]]:
    """Return how many taps of each axis read each residue of its step."""
    return [
        Counter(offset % axis.step_in for phase in axis.offsets for offset in phase)
        for axis in even_phases(problem)[1:]
    ]


def _by_products(problem: Problem, machine: Machine, channels: tuple[int, int]) -> float:
    """Estimate products and folds."""
    read, written = channels
    lanes, large = machine.lanes(problem.dtype), tile_rows(machine)
    *outer, last = even_phases(problem)[1:]
    points = math.prod(-(-axis.size_in // axis.step_in) for axis in (*outer, last))
    rows = products_of(problem) // points // problem.groups
    lines = math.prod(axis.size_out for axis in outer)
    classes, padded, pack = 1, whole_tiles(rows, large), PACK
    if _strided(problem):
        # Taps of each residue of the strides have points and tiles of their own.
        taps = [math.prod(each) for each in product(*(r.values() for r in _residues(problem)))]
        classes, padded = len(taps), sum(whole_tiles(each * written, large) for each in taps)
        pack = APART_PACK if problem.fine_layout.axes.endswith("f") else FAR_APART_PACK
    vectors = points / lanes
    multiplied = vectors * padded * (PRODUCT * read + TILE / 2 / large)
    item = machine.vector_bytes // lanes
    kept = problem.groups * rows * points * item / MOST_PRODUCTS
    fold = FOLD + FAR * min(1.0, max(0.0, 2 * kept - NEAR))
    moved = (
        vectors * (classes * pack * read + fold * rows) + STORE * lines * last.size_out * written
    )
    return problem.groups * (multiplied + moved + LINE * lines * written * last.step_out) + STAGES


def _by_sums(problem: Problem, machine: Machine, channels: tuple[int, int]) -> float:
    """Estimate planes, or a gather of channels that leave a vector half empty."""
    read, written = channels
    lanes = machine.lanes(problem.dtype)
    item = machine.vector_bytes // lanes
    if written > MOST_COLUMNS:
        axes = all_phases(problem)[1:]
        packed = _packed(axes, choose_block(_one(axes), read * item, 2 * lanes * item, machine))
        multiplied, store = _meetings(axes) * NARROW, STORE
    else:
        axes = even_phases(problem)[1:]
        merged = axes[-1].step_out if written * axes[-1].step_out <= MOST_ROWS else 1
        sums = merged * written
        packed = _packed(axes, planes_block(_one(axes), read * item, sums * item, machine))
        load = LOAD if merged == 1 else MERGED_LOAD
        multiplied = _plane_vectors(axes, lanes) * written * (ROW + load / sums)
        store = SCATTER if merged < axes[-1].step_out else STORE
    stored = math.prod(axis.size_out for axis in axes) * written
    moved = SMALL_PACK * packed * read / lanes + store * stored
    return problem.groups * (multiplied * read + moved)


def gather_pays(problem: Problem, machine: Machine) -> bool:
    """Tell whether half empty vectors of channels cost less than planes.

    Planes of every residue of a stride are packed by single elements.
    """
    if not _strided(problem):
        return False
    together = problem.fine_layout.axes.endswith("f")
    if not together and any(axis.taps < axis.stride for axis in problem.axes):
        return False  # a gather would turn points that nothing reads
    planes, gather = strided_costs(problem, machine)
    return gather < planes


def strided_costs(problem: Problem, machine: Machine) -> tuple[float, float]:
    """Estimate planes and a gather of points that lie apart."""
    read, written = problem.fine_channels, problem.coarse_channels
    together = problem.fine_layout.axes.endswith("f")
    lanes = machine.lanes(problem.dtype)
    item = machine.vector_bytes // lanes
    axes = all_phases(problem)[1:]
    regions = (
        planes_block(_one(axes), read * item, written * item, machine),
        choose_block(_one(axes), read * item, 2 * lanes * item, machine),
    )
    planes, points = (_packed(axes, block) / lanes for block in regions)
    each, turned = (APART, NEAR_PACK) if together else (FAR_APART, FAR_PACK)
    by_planes = _plane_vectors(axes, lanes) * written * (ROW + LOAD / written) + each * planes
    by_points = _meetings(axes) * LONELY + turned * points
    scale = problem.groups * read
    return scale * by_planes, scale * by_points


def _plane_vectors(axes: Sequence[AxisPhases], lanes: int) -> float:
    """Return how many vectors of points are multiplied, for a channel read and one written."""
    return _meetings(axes[:-1]) * _meetings(axes[-1:], lanes) / lanes


def _packed(axes: Sequence[AxisPhases], block: Sequence[int]) -> int:
    """Return how many points all blocks of an image read, those twice that two of them read."""
    return math.prod(
        -(-(axis.end - axis.begin) // size) * (axis.step_in * (size - 1) + axis.span)
        for axis, size in zip(axes, block[1:], strict=True)
    )


def _one(axes: Sequence[AxisPhases]) -> list[AxisPhases]:
    """Return the axes of one image."""
    return [batch_phases(1), *axes]


def _meetings(axes: Sequence[AxisPhases], lanes: int = 1) -> int:
    """Return how many taps are multiplied for all points, in whole vectors of them."""
    return math.prod(
        sum(
            len(taps) * -(-(high - low) // lanes) * lanes
            for (low, high), taps in zip(axis.ranges, axis.taps, strict=True)
        )
        for axis in axes
    )
