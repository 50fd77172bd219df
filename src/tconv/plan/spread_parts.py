"""Parts of a spread result: what one worker computes and spreads, in its own caches.

A part is some images, or a slab of one: some points of an axis that is read, and what they spread
to.  Windows of a slab must not reach into another's.
"""

import math
from dataclasses import dataclass, replace

from tconv.plan.blocks import BYTE
from tconv.plan.extent import channels_last
from tconv.plan.machine import Machine
from tconv.plan.overlap import AFAR
from tconv.plan.smaller import Smaller, bytes_of, product_axis, smaller_of
from tconv.problem import Axis, Problem, numpy_dtype

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
    axis = _axis_to_cut(problem)
    if axis is None and (alone > 1 or image > MOST_COMPACT):
        return None
    if axis is not None and (image > room or problem.batch < wanted):
        points = _slab(problem, image, axis, (room, -(-wanted // problem.batch)))
        if points * image // problem.axes[axis].coarse_size > MOST_COMPACT:
            return None
        if points < problem.axes[axis].coarse_size:
            return _slabs(problem, axis, points)
    images = max(1, min(room // max(image, _source(problem)), problem.batch // wanted))
    whole, rest = divmod(problem.batch, images)
    parts = [(0, at * images, at * images) for at in range(whole)]
    problems = [replace(problem, batch=images)]
    if rest:
        parts.append((1, whole * images, whole * images))
        problems.append(replace(problem, batch=rest))
    return Cut(tuple(problems), tuple(parts), None)


def _axis_to_cut(problem: Problem) -> int | None:
    """Return the first axis of several points whose windows keep apart."""
    for place, axis in enumerate(problem.axes):
        if axis.coarse_size > 1:
            found = product_axis(axis)
            if found is not None and found.offsets[-1] - found.offsets[0] < found.step:
                return place
    return None


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
    some = max(1, some, -(-least * points // every))
    if some < points:  # all alike, if they can be
        some = -(-points // -(-points // some))
    if place == len(problem.axes) - 1:
        some = -(-some // ALIKE) * ALIKE
    return some


def _slabs(problem: Problem, place: int, points: int) -> Cut:
    """Return slabs of so many points of an axis, the last one of those that are left."""
    axis = problem.axes[place]
    problems: list[Problem] = []
    parts = []
    for begin in range(0, axis.coarse_size, points):
        end = min(begin + points, axis.coarse_size)
        low = 0 if begin == 0 else _clipped(axis, begin)
        high = axis.fine_size if end == axis.coarse_size else _clipped(axis, end)
        if low == high:  # cut off
            continue
        pad = axis.pad_begin + low - axis.stride * begin
        slab = Axis(high - low, end - begin, axis.taps, axis.stride, axis.dilation, pad)
        axes = *problem.axes[:place], slab, *problem.axes[place + 1 :]
        one = replace(problem, batch=1, axes=axes)
        if one not in problems:
            problems.append(one)
        parts.append((problems.index(one), begin, low))
    return Cut(tuple(problems), tuple(parts), place)


def _clipped(axis: Axis, point: int) -> int:
    """Return where on an axis the window of a point begins."""
    return min(max(axis.stride * point - axis.pad_begin, 0), axis.fine_size)


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
