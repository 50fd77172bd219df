"""Both sides of a correlation: what is packed of each, and where."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from tconv.plan.shifts import AxisShifts
from tconv.problem import Axis

FAR = 1 << 40  # further than any array reaches
MOST_LIMITS = 256  # taps of an axis whose limits are noted


@dataclass(frozen=True, slots=True)
class Side:
    """How one side is packed."""

    numbers: dict[str, int]
    arrays: dict[str, list[int]]
    points: int  # of a line, if kernels note where each is read and goes; else 0


def coarse_side(axes: list[AxisShifts], split: int, block: list[int]) -> Side:
    """Return the block's points, with zeros between lines that are one run."""
    *outer, last = axes
    halos = [0 if d < split else axis.span - 1 for d, axis in enumerate(axes)]
    halos[-1] = 0 if split == len(outer) else last.span - 1
    return Side(
        {
            "size": last.coarse_size, "step": 1, "low": 0, "scale": 1, "halo": halos[-1],
            "slack": 0,
            "combinations": 1, "width": 1, "contiguous": 1,
        },
        {
            "source_steps": [0] * len(outer),
            "sizes": [axis.coarse_size for axis in outer],
            "steps": [1] * len(outer),
            "lows": [0] * len(outer),
            "halos": halos[:-1],
            "residues": [0] * len(outer),
            "last_residues": [0],
            "pitches": pitches_of(map(sum, zip(block, halos, strict=True))),
        },
        block[-1] + halos[-1],
    )  # fmt: skip


def fine_side(axes: list[AxisShifts], block: list[int], *, planes: bool) -> Side:
    """Return all that the block's windows cover, residue by residue.

    Points of ``planes`` that are read one after another need no notes of where they go: a
    long stride makes long lines.
    """
    *outer, last = axes
    combinations = [*product(*(axis.residues for axis in outer))]
    width = len(last.residues)
    return Side(
        {
            "size": last.fine_size, "step": last.stride, "low": last.low,
            "scale": last.scale, "halo": last.span - last.scale, "slack": FAR,
            "combinations": len(combinations), "width": width,
            "contiguous": width if runs_on(last) else 0,
        },
        {
            "source_steps": [0] * len(outer),
            "sizes": [axis.fine_size for axis in outer],
            "steps": [axis.stride for axis in outer],
            "lows": [axis.low for axis in outer],
            "halos": [axis.span - 1 for axis in outer],
            "residues": [residue for combination in combinations for residue in combination],
            "last_residues": [*last.residues],
            "pitches": pitches_of(
                axis.extent(size) for axis, size in zip(axes, block, strict=True)
            ),
        },
        0 if planes and runs_on(last) else last.extent(block[-1]) * width,
    )  # fmt: skip


def runs_on(axis: AxisShifts) -> bool:
    """Tell whether points that are packed one after another are neighbours in memory."""
    return axis.scale * len(axis.residues) == axis.stride


def all_shifts(axes: list[AxisShifts], plane: int, pitches: list[int]) -> list[int]:
    """Return where in the packed fine side each tap's windows begin, in points."""
    combinations = offsets = np.zeros(1, np.int64)
    for axis, pitch in zip(axes, pitches, strict=True):
        residues, quotients = np.array(axis.shifts, np.int64).T
        combinations = (combinations[:, None] * len(axis.residues) + residues).ravel()
        offsets = (offsets[:, None] + quotients * pitch).ravel()
    found: list[int] = (combinations * plane + offsets).tolist()
    return found


def tap_meets(axes: Sequence[Axis]) -> tuple[list[int], list[int]]:
    """Return which coarse points each tap meets: three limits for each, from and to.

    They are those of planes of lines, of lines and of points.  Axes before these, and taps that
    are too many to look at, have no limits: points that meet nothing meet zeros.
    """
    limits = np.zeros((2, *(axis.taps for axis in axes), 3), np.int64)
    limits[1] = FAR
    for place, axis in enumerate(axes[::-1][: 3 if len(axes) <= 3 else 2]):
        if axis.taps <= MOST_LIMITS:
            reaches = [axis.reach(tap) for tap in range(axis.taps)]
            ends = [(reach.coarse_start, reach.coarse_start + reach.count) for reach in reaches]
            shape = (2, *[1] * (len(axes) - 1 - place), axis.taps, *[1] * place)
            limits[..., 2 - place] = np.array(ends, np.int64).T.reshape(shape)
    first, last = limits.reshape(2, -1).tolist()
    return first, last


def pitches_of(extents: Iterable[int]) -> list[int]:
    """Return how far apart neighbours on each outer axis lie.

    >>> pitches_of([2, 3, 4])
    [12, 4]
    """
    sizes = [*extents]
    return [math.prod(sizes[place + 1 :]) for place in range(len(sizes) - 1)]
