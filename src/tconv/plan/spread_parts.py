"""Parts of a spread result: what one worker computes and spreads, in its own caches.

A part is some images, or a slab of one: some points of the first axis that is read, and what they
spread to.  Windows of a slab must not reach into another's.
"""

import math
from dataclasses import dataclass, replace

from tconv.plan.machine import Machine
from tconv.plan.smaller import Smaller, bytes_of, one_product
from tconv.problem import Axis, Problem, numpy_dtype

PARTS = 8  # at least, where there is enough to do
LEAST = 32 << 10  # bytes of a part's result
LEAST_POINTS = 64  # that a slab reads
MOST_COMPACT = 4 << 20  # bytes of the smaller result of a part
MOST_LISTED = 1 << 16  # lines of an image, by axes, and taps: each has an entry in a table
AFAR = 16  # data larger than such a part of the last cache is read from there, or further
ALIKE = 16  # points of a slab of a line: whole vectors


@dataclass(frozen=True, slots=True)
class Cut:
    """Parts of a problem: which problem each is, where it reads and where it writes.

    Slabs do so on the first axis of an image, others are images.
    """

    problems: tuple[Problem, ...]
    parts: tuple[tuple[int, int, int], ...]
    slabs: bool


def cut(problem: Problem, smaller: Smaller, machine: Machine) -> Cut | None:
    """Return the parts of a problem; None where they are too large for a worker."""
    image, room = bytes_of(smaller.problem), machine.l2 // 2
    listed = sum(axis.size for axis in smaller.axes[:-1]) + sum(smaller.taps)
    if problem.batch == 0 or image == 0 or listed > MOST_LISTED:
        return None
    wanted = min(PARTS, -(-problem.batch * bytes_of(problem) // LEAST))
    points = _slab(problem, smaller, machine, wanted)
    if points is not None:
        return _slabs(problem, points)
    if image > MOST_COMPACT:
        return None
    images = max(1, min(room // max(image, _source(problem)), problem.batch // wanted))
    whole, rest = divmod(problem.batch, images)
    parts = [(0, at * images, at * images) for at in range(whole)]
    problems = [replace(problem, batch=images)]
    if rest:
        parts.append((1, whole * images, whole * images))
        problems.append(replace(problem, batch=rest))
    return Cut(tuple(problems), tuple(parts), slabs=False)


def _slab(problem: Problem, smaller: Smaller, machine: Machine, wanted: int) -> int | None:
    """Return how many points of the first axis make a slab; None if images are not cut."""
    first, *others = smaller.axes
    image, room = bytes_of(smaller.problem), machine.l2 // 2
    span = first.offsets[-1] - first.offsets[0]
    if not smaller.taps or first.cells == 1 or span >= first.step:
        return None
    if image <= room and problem.batch >= wanted:
        return None
    row, each = image // first.cells, 1
    for axis in others:
        each *= axis.cells
    points = min(room // row, first.cells // -(-wanted // problem.batch))
    points = max(1, points, -(-LEAST_POINTS // each))
    if points < first.cells:  # all alike, if they can be
        points = -(-first.cells // -(-first.cells // points))
    if not others:
        points = -(-points // ALIKE) * ALIKE
    if points >= first.cells or points * row > MOST_COMPACT:
        return None
    return points


def _slabs(problem: Problem, points: int) -> Cut:
    """Return slabs of so many points, the last one of those that are left."""
    axis, *others = problem.axes
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
        one = replace(problem, batch=1, axes=(slab, *others))
        if one not in problems:
            problems.append(one)
        parts.append((problems.index(one), begin, low))
    return Cut(tuple(problems), tuple(parts), slabs=True)


def _clipped(axis: Axis, point: int) -> int:
    """Return where on an axis the window of a point begins."""
    return min(max(axis.stride * point - axis.pad_begin, 0), axis.fine_size)


def smaller_part(problem: Problem, smaller: Smaller) -> Smaller:
    """Return what spreads to a part, as the smaller problem does to the whole."""
    if smaller.taps:
        found = one_product(problem)
        if found is not None:
            return found
    return replace(smaller, problem=replace(smaller.problem, batch=problem.batch))


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
