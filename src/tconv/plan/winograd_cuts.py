"""The ways to cut all axes into patches, with the numbers that their cost depends on."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tconv.plan.phases import AxisPhases, aligned
from tconv.plan.winograd_axis import cut_axis, taps_of

# Outputs of patches to try, by taps; with more taps nothing is saved that rounding allows.
OUTPUTS = {2: (2, 3, 4, 5), 3: (2, 3, 4), 4: (2, 3), 5: (2,)}
MOST_WEIGHED = 40  # choices, all axes together: planning takes a moment for each
MOST_POINTS = 64  # of a transform, all axes together: its code is unrolled
MOST_ENTRIES = 2048  # of tables by phase, part and point
MOST_NOISE = 1.8  # times the rounding errors of direct sums; the largest of many stays below 4


class Cuts(NamedTuple):
    """The numbers of some axes cut into patches of so many outputs; those of all multiplied."""

    outputs: tuple[int, ...] = ()
    alike: tuple[bool, ...] = ()  # whether the phases of an axis have the same points
    patches: int = 1
    points: int = 1
    parts: int = 1
    phases: int = 1
    products: int = 1
    noise: float = 1.0

    @property
    def multiplied(self) -> int:
        """How many numbers are multiplied for an image, of one channel read and written."""
        return self.patches * self.products

    def fit(self) -> bool:
        """Tell whether a transform is small enough to be unrolled."""
        few = self.points <= MOST_POINTS
        return few and self.points * self.parts * self.phases <= MOST_ENTRIES


def all_cuts(splits: Sequence[AxisPhases]) -> list[Cuts]:
    """Return the ways that save something, round well and are small enough.

    Those that multiply least come first.
    """
    found = [Cuts()]
    for cuts in _fewer([_axis_cuts(split) for split in splits]):
        both = (_joined(before, cut) for before in found for cut in cuts)
        found = [each for each in both if each.fit()]
    found = [each for each in found if each.noise <= MOST_NOISE and max(each.outputs) > 1]
    return sorted(found, key=lambda each: each.multiplied)


def _joined(some: Cuts, one: Cuts) -> Cuts:
    return Cuts(
        some.outputs + one.outputs,
        some.alike + one.alike,
        some.patches * one.patches,
        some.points * one.points,
        some.parts * one.parts,
        some.phases * one.phases,
        some.products * one.products,
        some.noise * one.noise,
    )


def _fewer(choices: list[list[Cuts]]) -> list[list[Cuts]]:
    """Leave out the cuts with the most products while there are too many to weigh."""
    choices = [sorted(cuts, key=lambda cut: cut.multiplied) for cuts in choices]
    while math.prod(map(len, choices)) > MOST_WEIGHED:
        max(choices, key=len).pop()
    return choices


@lru_cache(maxsize=256)
def _axis_cuts(split: AxisPhases) -> list[Cuts]:
    """Return the ways to cut an axis that no other is better than; none with very many taps."""
    other = aligned(split)
    made: list[Cuts] = []
    for alike in (False,) if other == split else (False, True):
        both = other if alike else split
        window = both.step_in, both.taps, both.offsets
        for outputs, unit, apart, points, parts, products, noise in _forms(*window):
            patches = -(-(both.end - both.begin) // unit) * apart
            phases = len(both.ranges)
            made.append(Cuts((outputs,), (alike,), patches, points, parts, phases, products, noise))
    goods = [(each.multiplied, each.products, each.noise, each.points) for each in made]
    return [
        cut
        for place, cut in enumerate(made)
        if not any(
            _better(good, goods[place]) and (index < place or not _better(goods[place], good))
            for index, good in enumerate(goods)
            if index != place
        )
    ]


Good = tuple[int, int, float, int]


def _better(good: Good, other: Good) -> bool:
    """Tell whether a cut is as good as another in all that counts most."""
    return (
        good[0] <= other[0] and good[1] <= other[1] and good[2] <= other[2] and good[3] <= other[3]
    )


@lru_cache(maxsize=256)  # what windows have in common is found once, whatever the picture's size
def _forms(
    step: int, taps: tuple[tuple[int, ...], ...], offsets: tuple[tuple[int, ...], ...]
) -> list[tuple[int, int, int, int, int, int, float]]:
    """Return outputs, unit, apart, points, parts, products and noise of each way to cut a window.

    A picture of any size will do.
    """
    ranges = ((0, 1),) * len(taps)
    split = AxisPhases(1, 1, step, 1, 0, ranges, taps, offsets)
    count = taps_of(split)
    found = []
    for outputs in () if count > MOST_POINTS else (1, *OUTPUTS.get(count, ())):
        axis = cut_axis(split, outputs)
        numbers = axis.form.points, len(axis.parts), axis.products(), axis.noise()
        found.append((outputs, axis.unit, axis.apart, *numbers))
    return found
