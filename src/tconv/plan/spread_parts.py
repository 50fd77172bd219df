"""Parts of a spread result: what one worker computes and spreads, in its own caches.

A part is some images, or a slab of one: some points of an axis that is written, and all that they
read.  Where windows overlap, slabs read some of what their neighbours do.
"""

import math
from dataclasses import dataclass, replace

from tconv.plan.blocks import BYTE
from tconv.plan.extent import channels_last
from tconv.plan.machine import Machine
from tconv.plan.overlap import AFAR
from tconv.plan.phases import aligned, axis_phases
from tconv.plan.smaller import Smaller, bytes_of, denser_axis, product_axis, smaller_of
from tconv.problem import Axis, Operand, Problem, numpy_dtype

PARTS = 8  # at least, where there is enough to do
LEAST = 32 << 10  # bytes of a part's result
MOST_POINTS, LEAST_POINTS = 64, 8  # that a slab reads at least: as many as there is little to do
WORTH = 500_000  # flops of a slab that are enough
MOST_COMPACT = 4 << 20  # bytes of the smaller result of a part
MOST_CELL = 256 << 10  # bytes between two points of a line
MOST_LISTED = 1 << 16  # lines of an image, by axes, and taps: each has an entry in a table
ALIKE = 16  # points of a slab of a line: whole vectors


@dataclass(frozen=True, slots=True)
class Cut:
    """Parts of a problem: which problem each is, where it reads and where it writes.

    Slabs do so on an axis of an image; without one parts are images.
    """

    problems: tuple[Problem, ...]
    parts: tuple[tuple[int, int, int], ...]
    axis: int | None


def cut(problem: Problem, smaller: Smaller, machine: Machine) -> Cut | None:
    """Return the parts of a problem; None where they are too large for a worker.

    Or where a large image is one: whether it is done so must not depend on others.
    """
    image, room = bytes_of(smaller.problem), machine.l2 // 2
    *outer, last = smaller.axes
    listed = sum(axis.size for axis in outer) + sum(axis.taps for axis in problem.axes)
    if problem.batch == 0 or image == 0 or listed > MOST_LISTED:
        return None
    unit = problem.groups * problem.fine_channels if channels_last(problem) else 1
    if numpy_dtype(problem.dtype).itemsize * unit * min(last.step, last.size) > MOST_CELL:
        return None
    alone, wanted = (
        min(PARTS, -(-images * bytes_of(problem) // LEAST)) for images in (1, problem.batch)
    )
    products = bool(smaller.taps)
    axis = _axis_to_cut(problem, products=products)
    if axis is None and (alone > 1 or image > MOST_COMPACT):
        return None
    if axis is not None and (image > room or problem.batch < wanted):
        points = _slab(problem, image, axis, (room, -(-wanted // problem.batch)))
        if points * image // problem.axes[axis].coarse_size > MOST_COMPACT:
            return None
        if points < problem.axes[axis].coarse_size:
            return _slabs(problem, axis, points, products=products)
    images = max(1, min(room // max(image, _source(problem)), problem.batch // wanted))
    whole, rest = divmod(problem.batch, images)
    parts = [(0, at * images, at * images) for at in range(whole)]
    problems = [replace(problem, batch=images)]
    if rest:
        parts.append((1, whole * images, whole * images))
        problems.append(replace(problem, batch=rest))
    return Cut(tuple(problems), tuple(parts), None)


def _axis_to_cut(problem: Problem, *, products: bool) -> int | None:
    """Return the first axis of several points that can be cut.

    Of products one whose windows keep apart; of others, one whose halves both have all taps.
    """
    for place, axis in enumerate(problem.axes):
        if axis.coarse_size > 1 and (_keep_apart(axis) if products else _has_halves(axis)):
            return place
    return None


def _keep_apart(axis: Axis) -> bool:
    found = product_axis(axis)
    return found is not None and found.offsets[-1] - found.offsets[0] < found.step


def _has_halves(axis: Axis) -> bool:
    middle = axis.stride * -(-axis.coarse_size // 2)
    if middle >= axis.fine_size:
        return False
    ends = (0, middle), (middle, axis.fine_size)
    halves = (_order(_part_of(axis, *each)[-1], products=False) for each in ends)
    order = _order(axis, products=False)
    return all(half == order for half in halves)


def _slab(problem: Problem, image: int, place: int, limits: tuple[int, int]) -> int:
    """Return how many points of an axis make a slab.

    The limits are the bytes of a smaller result that fit, of an image's, and slabs at least.
    """
    room, slabs = limits
    points = problem.axes[place].coarse_size
    every = math.prod(axis.coarse_size for axis in problem.axes)
    flops = replace(problem, batch=1).flops() + BYTE * bytes_of(problem)
    least = min(MOST_POINTS, max(LEAST_POINTS, WORTH * every // max(1, flops)))
    some = min(room * points // image, points // slabs)
    # Windows that overlap make slabs read what others do, too: of points that they reach over.
    axis = problem.axes[place]
    shared = axis.dilation * (axis.taps - 1) // axis.stride
    some = max(1, some, -(-least * points // every), shared)
    if some < points:  # all alike, if they can be
        some = -(-points // -(-points // some))
    if place == len(problem.axes) - 1:
        some = -(-some // ALIKE) * ALIKE
    return some


def _slabs(problem: Problem, place: int, points: int, *, products: bool) -> Cut:
    """Return slabs from so many points of an axis on to the next, the last one to the end.

    Weights lie in the same order for all of them: slabs that would have another go with the next.
    """
    axis = problem.axes[place]
    order = _order(axis, products=products)
    before = axis.pad_begin if products else 0  # else all have what lies before them in common
    found: list[tuple[int, int, Axis]] = []
    low = 0
    for point in range(points, axis.coarse_size + points, points):
        high = min(max(axis.stride * point - before, 0), axis.fine_size)
        high = axis.fine_size if point >= axis.coarse_size else high
        if low == high:  # cut off
            continue
        slab = _part_of(axis, low, high)
        if _order(slab[-1], products=products) != order:
            if high < axis.fine_size:
                continue
            while found and _order(slab[-1], products=products) != order:
                slab = _part_of(axis, found.pop()[1], high)
        found.append(slab)
        low = high
    problems: list[Problem] = []
    parts = []
    for begin, write, part in found:
        axes = *problem.axes[:place], part, *problem.axes[place + 1 :]
        one = replace(problem, batch=1, axes=axes)
        if one not in problems:
            problems.append(one)
        parts.append((problems.index(one), begin, write))
    return Cut(tuple(problems), tuple(parts), place)


def _part_of(axis: Axis, low: int, high: int) -> tuple[int, int, Axis]:
    """Return where the points lie that reach what lies between, where that begins, and the axis."""
    reach = axis.dilation * (axis.taps - 1)
    begin = -(-(low + axis.pad_begin - reach) // axis.stride)
    begin = min(max(begin, 0), axis.coarse_size - 1)
    end = (high - 1 + axis.pad_begin) // axis.stride + 1
    points = max(1, min(end, axis.coarse_size) - begin)
    pad = axis.pad_begin + low - axis.stride * begin
    return begin, low, Axis(high - low, points, axis.taps, axis.stride, axis.dilation, pad)


def _order(axis: Axis, *, products: bool) -> tuple[object, ...]:
    """Return what the order of the weights that spread to an axis depends on."""
    if products:
        return ()
    split = axis_phases(denser_axis(axis).axis, Operand.FINE)
    return split.taps, aligned(split).taps


def smaller_part(problem: Problem, smaller: Smaller) -> Smaller:
    """Return what spreads to a part, as the smaller problem does to the whole."""
    return smaller_of(problem, products=bool(smaller.taps))


def touches(problem: Problem, machine: Machine) -> bool:
    """Tell whether images are touched in order first: planes that come from afar, in short runs.

    All of an image fits the second cache then.
    """
    image = _source(problem)
    far = image * problem.batch > machine.l3 // AFAR
    return far and image <= machine.l2 // 2 and str(problem.coarse_layout).endswith("x")


def _source(problem: Problem) -> int:
    """Return the bytes that an image of the data has."""
    points = math.prod(axis.coarse_size for axis in problem.axes)
    channels = problem.groups * problem.coarse_channels
    return points * channels * numpy_dtype(problem.dtype).itemsize
