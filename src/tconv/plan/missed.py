"""Taps that meet nothing: which of them tiles leave out, as tables of a gather's record.

At the borders of a small picture windows reach far outside, more so if they are dilated.  Points
are sorted by what they meet, and a tile skips the segments that none of its rows does.  What a
point meets is a set of bits, one for each segment: the product of what it meets on each axis.
"""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product

from tconv.plan.boxes import inside
from tconv.plan.machine import Machine
from tconv.plan.phases import AxisPhases

BITS = 64  # of a word: segments
PAYS = 0.95  # of the time that it takes to multiply everything
# Steps of the depth, of a panel, in the time that it takes to list a segment, to begin one, and to
# sort a point.
LIST, BEGIN, SORT = 4.0, 0.5, 30.0
MIXED = 0.12  # of what the rows of a tile miss, that is multiplied where they differ once
LEAST_DEPTH = 4  # channels: shorter segments are over before the next one is found
# Channels, and elements of a point, that tiles without lists sum faster, and how much faster.
SHORT, FEW_STEPS, SLOWER = 8, 1024, 1.4
LISTS = 3  # of the second cache: what lists of segments may take
PACKED = 16  # points that a panel multiplies in a small part of the time that one is packed in
LISTED_ROWS = 8  # addresses of a listed segment, as many as any tile has rows
ENTRY = LISTED_ROWS + 2  # numbers of one: also the steps before it, and its own
LARGE_TILE = 6  # rows of most tiles
TILE = 4  # rows of any tile, at least
SPARE = 8  # entries that are read behind the last, and mean nothing
TABLES = ("met_start", "met")


def meetings(axis: AxisPhases, phase: int) -> int:
    """Return how often points of a phase of an axis meet its taps inside the picture.

    >>> from tconv.plan.phases import axis_phases
    >>> from tconv.problem import Axis, Operand
    >>> meetings(axis_phases(Axis(8, 8, 3, stride=1, dilation=1, pad_begin=1), Operand.COARSE), 0)
    22
    """
    (low, high), step = axis.ranges[phase], axis.step_in
    found = 0
    for offset in axis.offsets[phase]:
        first, end = -(offset // step), -((offset - axis.size_in) // step)
        found += max(0, min(high, end) - max(low, first))
    return found


@lru_cache(maxsize=256)  # asked for by estimates and by plans
def met_share(axis: AxisPhases) -> float:
    """Return which part of all products on an axis has anything to multiply."""
    every = sum(
        len(taps) * max(0, high - low)
        for (low, high), taps in zip(axis.ranges, axis.taps, strict=True)
    )
    met = sum(meetings(axis, phase) for phase in range(len(axis.ranges)))
    return met / every if every else 1.0


def sorted_axes(axes: Sequence[AxisPhases], depth: int, panels: int) -> list[bool]:
    """Tell of each axis whether points are sorted by the taps that they meet on it.

    If leaving out taps does not pay, on none.  Few channels are segments of their own only on
    outer axes: those of all taps of a line go together.

    >>> from tconv.plan.phases import axis_phases
    >>> from tconv.problem import Axis, Operand
    >>> axis = axis_phases(Axis(8, 8, 15, stride=1, dilation=1, pad_begin=7), Operand.COARSE)
    >>> sorted_axes([axis, axis], 64, 4), sorted_axes([axis, axis, axis], 3, 4)
    ([True, True], [True, True, False])
    """
    count, time = min(_choices(axes, depth, panels), key=lambda choice: choice[1])
    pays = time < PAYS
    return [pays and place < count and met_share(axis) < 1 for place, axis in enumerate(axes)]


def _choices(axes: Sequence[AxisPhases], depth: int, panels: int) -> Iterator[tuple[int, float]]:
    """Yield of how many axes points may be sorted by what they meet, and what time that takes."""
    yield 0, 1.0
    *outer, last = axes
    if depth >= LEAST_DEPTH and math.prod(map(_least_met, axes)) < PAYS:
        yield len(axes), _time(axes, axes, (depth, depth, panels))
    together = all(len(some) and some[-1] - some[0] == len(some) - 1 for some in last.offsets)
    run = depth * min(map(len, last.offsets))
    if (
        depth < SHORT
        and together
        and run >= LEAST_DEPTH
        and math.prod(map(_least_met, outer)) < PAYS
    ):
        yield len(outer), _time(axes, outer, (depth, run, panels))


def _least_met(axis: AxisPhases) -> float:
    """Return which part of all products on an axis meets something at least, without counting.

    Points that read nothing outside meet all of theirs.
    """
    low, high = inside(axis)
    whole = min(high, axis.end) - max(low, axis.begin)
    return max(0, whole) / max(1, axis.end - axis.begin)


def _time(
    axes: Sequence[AxisPhases], chosen: Sequence[AxisPhases], sizes: tuple[int, int, int]
) -> float:
    """Return about which part of the time for all products it takes to do those that meet.

    The sizes are the channels of a tap, those of a segment, and panels.
    """
    depth, run, panels = sizes
    phases = math.prod(len(axis.ranges) for axis in axes)
    taps = math.prod(sum(map(len, axis.taps)) for axis in axes) / phases
    again = panels if len(axes[-1].ranges) == 1 else 1  # other phases have other lists
    met = math.prod(map(met_share, chosen))
    slower = SLOWER if run < SHORT or (depth < SHORT and taps * depth <= FEW_STEPS) else 1
    listed = met * (1 + (LIST / again + BEGIN) / run) * slower
    return listed + _mixed(chosen) * (1 - met) + SORT / (max(1.0, taps) * depth * panels)


def multiplied_share(axes: Sequence[AxisPhases], depth: int, panels: int) -> float:
    """Return about which part of the time for all products is left, where taps are left out.

    >>> from tconv.plan.phases import axis_phases
    >>> from tconv.problem import Axis, Operand
    >>> axis = axis_phases(Axis(5, 5, 5, stride=1, dilation=2, pad_begin=4), Operand.COARSE)
    >>> round(met_share(axis), 2), round(multiplied_share([axis, axis], depth=64, panels=4), 2)
    (0.52, 0.79)
    """
    time = min(time for _, time in _choices(axes, depth, panels))
    return time if time < PAYS else 1.0


def _mixed(axes: Sequence[AxisPhases]) -> float:
    """Return which part of what points miss is multiplied all the same, about.

    Rows of a tile miss different taps where sorted points go on with the next class.  If there
    is a single tile, it leaves nothing out.

    >>> from tconv.plan.phases import axis_phases
    >>> from tconv.problem import Axis, Operand
    >>> [_mixed([axis_phases(Axis(n, n, 3, 1, 1, 1), Operand.COARSE)]) for n in (4, 12, 48)]
    [1.0, 0.12, 0.03]
    """
    classes, points = 1.0, 1.0
    for axis in axes:
        points *= sum(max(0, high - low) for low, high in axis.ranges) / len(axis.ranges)
        classes *= _classes(axis)
    return 1.0 if points <= LARGE_TILE else min(1.0, MIXED * LARGE_TILE * (classes - 1) / points)


@lru_cache(maxsize=256)
def _classes(axis: AxisPhases) -> float:
    """Return how many different taps points of a phase meet, about: from border to border."""
    step, found = axis.step_in, 0
    for (low, high), offsets in zip(axis.ranges, axis.offsets, strict=True):
        ends = {-((offset - size) // step) for offset in offsets for size in (0, axis.size_in)}
        found += 1 + sum(low < end < high for end in ends)
    return found / len(axis.ranges)


def packing_matters(axes: Sequence[AxisPhases], block: Sequence[int], panels: int) -> bool:
    """Tell whether packing a block would take long beside the sums.

    Data that is packed has zeros of its own, so that neighbours are one long segment.
    """
    read = math.prod(a.step_in * (n - 1) + a.span for a, n in zip(axes, block, strict=True))
    taps = math.prod(sum(map(len, axis.taps)) for axis in axes)
    return PACKED * read > math.prod(block) * taps * panels


def met_tables(
    axes: Sequence[AxisPhases], chosen: Sequence[bool], counts: Sequence[int]
) -> tuple[dict[str, list[int]], int]:
    """Return what each tap reads and which segments are its own, and how many words those are.

    By phase of all axes, whose segments are counted; then by axis: how many taps, and of each the
    offset and its bits.  Axes whose borders do not matter have no taps here.
    """
    if not any(chosen):
        return {name: [] for name in TABLES}, 0
    words = max(1, -(-max(counts) // BITS))
    starts: list[int] = []
    met: list[int] = []
    phases = product(*(range(len(axis.ranges)) for axis in axes))
    for phase, count in zip(phases, counts, strict=True):
        starts.append(len(met))
        lists = [axis.offsets[p] for axis, p in zip(axes, phase, strict=True)]
        if count == math.prod(map(len, lists[:-1])):
            lists[-1] = lists[-1][:1]  # neighbours are one segment
        period = count
        for offsets, wanted in zip(lists, chosen, strict=True):
            taps = len(offsets)
            met.append(taps if wanted else 0)
            if wanted:
                for offset, mine in zip(offsets, _own(taps, period, count, words), strict=True):
                    met.append(offset)
                    met += mine
            period //= max(1, taps)
    return {"met_start": starts, "met": met}, words


def kept_pitch(segments: int, panels: int, points: int, machine: Machine) -> int:
    """Return how far apart the lists of tiles lie that all panels read; 0: each lists again.

    They must not drive the data out of the second cache.
    """
    pitch = list_entries(segments)
    tiles = -(-points // TILE)
    return pitch if panels > 1 and 8 * tiles * pitch <= machine.l2 // LISTS else 0


def list_rooms(
    block: Sequence[int], bits: tuple[int, int], listed: tuple[int, int]
) -> dict[str, int]:
    """Return how many entries of scratch are needed: to sort points, for bits, to list segments.

    Bits are of so many points and words; lists are of so many segments, and so far apart.
    """
    (points, words), (segments, pitch) = bits, listed
    lines = math.prod(block[:-1])
    tiles = -(-lines * block[-1] // TILE)
    return {
        "classes": lines * (words + 4) + block[-1] * (words + 2),
        "bits": points * words + SPARE,
        "listed": max(tiles * pitch, list_entries(segments)),
    }


def list_entries(segments: int) -> int:
    """Return how many numbers the list of so many segments takes."""
    return 1 + ENTRY * segments


@lru_cache(maxsize=256)  # the same for all phases with as many taps
def _own(taps: int, period: int, count: int, words: int) -> tuple[list[int], ...]:
    """Return which segments are each tap's own, as words: they come again with a period."""
    apart = period // max(1, taps)
    first = _bits(apart, period, count)
    return tuple(_words(first << (tap * apart), words) for tap in range(taps))


def _bits(run: int, period: int, count: int) -> int:
    """Return the first bits of every period, of so many bits.

    >>> bin(_bits(2, 3, 9))
    '0b11011011'
    """
    return ((1 << run) - 1) * (((1 << count) - 1) // ((1 << period) - 1)) if count else 0


def _words(bits: int, count: int) -> list[int]:
    """Return a large number as words, the lowest first; they have signs."""
    found = [(bits >> BITS * word) & ((1 << BITS) - 1) for word in range(count)]
    return [word - (1 << BITS) if word >> (BITS - 1) else word for word in found]
