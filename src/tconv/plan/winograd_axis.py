"""An axis cut into patches, and which weights the phases of all axes have at each point."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple, cast

from tconv.plan.phases import AxisPhases, aligned, all_phases
from tconv.plan.transforms import Form, noise, transforms
from tconv.problem import Problem

Places = tuple[int | None, ...]  # the tap of each place, None where there is none


@dataclass(frozen=True, slots=True)
class WinogradAxis:
    """One axis cut into patches."""

    phases: AxisPhases
    form: Form
    apart: int  # how far apart the points of a patch lie
    parts: tuple[int, ...]  # phases read: what each adds to the place read
    taps: tuple[tuple[Places, ...], ...]  # by phase written and part

    @property
    def unit(self) -> int:
        """Points that whole patches cover without a hole."""
        return self.form.outputs * self.apart

    @property
    def span(self) -> int:
        """How many neighbours one point reads among, any taps."""
        step = self.phases.step_in
        return (self.form.taps - 1) * self.apart * step + self.parts[-1] + 1

    def vanishing(self, phase: int, part: int) -> frozenset[int]:
        """Return the points of the transform where a phase and part have no weights.

        >>> from tconv.plan.phases import axis_phases
        >>> from tconv.problem import Axis, Operand
        >>> axis = cut_axis(axis_phases(Axis(8, 4, 3, 2, 1, 1), Operand.FINE), 3)
        >>> axis.taps
        (((2, 0),), ((None, 1),))
        >>> axis.vanishing(0, 0), axis.vanishing(1, 0)
        (frozenset(), frozenset({0}))
        """
        return _vanishing(self.form, _present(self.taps[phase][part]))

    def noise(self) -> float:
        """Return rounding errors as a multiple of those of direct sums, all phases together.

        Parts are summed in a row, so errors of each grow with their number.

        >>> from tconv.plan.phases import axis_phases
        >>> from tconv.problem import Axis, Operand
        >>> split = axis_phases(Axis(8, 4, 4, 2, 1, 1), Operand.FINE)
        >>> round(cut_axis(split, 2).noise(), 2), round(cut_axis(aligned(split), 2).noise(), 2)
        (1.0, 0.87)
        """
        return _noise(self.form, self.taps)

    def products(self) -> int:
        """Return how many numbers are multiplied for each patch, all phases and parts."""
        return sum(
            self.form.points - len(_vanishing(self.form, _present(taps)))
            for parts in self.taps
            for taps in parts
        )


def _present(taps: Places) -> tuple[int, ...]:
    """Return the places that have taps: all that the transforms of a window depend on."""
    return tuple(place for place, tap in enumerate(taps) if tap is not None)


# What windows have in common is found once, whatever the picture's size.
@lru_cache(maxsize=1024)
def _vanishing(form: Form, present: tuple[int, ...]) -> frozenset[int]:
    matrix = transforms(form).weights
    return frozenset(
        point for point, row in enumerate(matrix) if not any(row[place] for place in present)
    )


@lru_cache(maxsize=256)
def _noise(form: Form, phases: tuple[tuple[Places, ...], ...]) -> float:
    ours = direct = 0.0
    for parts in phases:
        found = [_present(taps) for taps in parts]
        each = [noise(form, places) * len(places) for places in found if places]
        ours += len(each) * sum(error * error for error in each)
        direct += sum(map(len, found)) ** 2
    return math.sqrt(ours / direct) if direct else 0.0


def taps_of(split: AxisPhases) -> int:
    """Return how many taps the forms of an axis have: places of one phase and part."""
    places = {(offset - split.low) // split.step_in for row in split.offsets for offset in row}
    return max(places, default=0) // (math.gcd(*places) or 1) + 1


def cut_axis(split: AxisPhases, outputs: int) -> WinogradAxis:
    """Cut an axis into patches of some outputs.

    Offsets read are ``low + part + step_in * apart * place``, for a part below the step.
    """
    apart, parts, taps = _cut(split.step_in, split.low, split.taps, split.offsets)
    return WinogradAxis(split, Form(outputs, len(taps[0][0])), apart, parts, taps)


@lru_cache(maxsize=256)
def _cut(
    step: int, low: int, taps: tuple[tuple[int, ...], ...], offsets: tuple[tuple[int, ...], ...]
) -> tuple[int, tuple[int, ...], tuple[tuple[Places, ...], ...]]:
    """Return how far apart places lie, the parts, and the taps by phase and part."""
    found = [
        {divmod(offset - low, step)[::-1]: tap for tap, offset in zip(*both, strict=True)}
        for both in zip(taps, offsets, strict=True)
    ]  # by phase: (part, place) -> tap
    parts = sorted({part for phase in found for part, _ in phase}) or [0]
    places = [place for phase in found for _, place in phase]
    apart = math.gcd(*places) or 1
    count = max(places, default=0) // apart + 1
    by_part = tuple(
        tuple(tuple(phase.get((part, i * apart)) for i in range(count)) for part in parts)
        for phase in found
    )
    return apart, tuple(parts), by_part


def cut_axes(
    problem: Problem, outputs: Sequence[int], alike: Sequence[bool] = ()
) -> list[WinogradAxis]:
    """Cut the batch, image by image, and every spatial axis.

    The phases of an axis that is ``alike`` have the same points; else they read the same ones.
    """
    batch, *splits = all_phases(problem)
    alike = alike or (False,) * len(splits)
    return [
        cut_axis(batch, 1),
        *(
            cut_axis(aligned(split) if same else split, count)
            for split, count, same in zip(splits, outputs, alike, strict=True)
        ),
    ]


@dataclass(frozen=True, slots=True)
class PhaseWeights:
    """The weights of one phase written and one part read: taps, and rows by point."""

    taps: tuple[tuple[int, ...] | None, ...]  # of the form's places, None for a zero
    rows: tuple[int | None, ...]  # of each point's matrix; None where all would be zeros


def products_a_patch(weights: Sequence[Sequence[PhaseWeights]]) -> int:
    """Return how many numbers are multiplied for each patch, channel read and channel written."""
    return sum(row is not None for phase in weights for part in phase for row in part.rows)


class Used(NamedTuple):
    """Which parts each phase multiplies at each point: where they begin, how many, and which."""

    starts: tuple[int, ...]
    counts: tuple[int, ...]
    parts: tuple[int, ...]


def parts_used(axes: Sequence[WinogradAxis]) -> Used:
    """Return which parts of a patch's row each phase multiplies at each point."""
    return _parts_used(tuple((axis.form, axis.taps) for axis in axes))


@lru_cache(maxsize=64)
def _parts_used(axes: tuple[tuple[Form, tuple[tuple[Places, ...], ...]], ...]) -> Used:
    starts: list[int] = []
    counts: list[int] = []
    parts: list[int] = []
    for phase in _phase_weights(axes):
        for rows in zip(*(entry.rows for entry in phase), strict=True):
            starts.append(len(parts))
            parts += [part for part, row in enumerate(rows) if row is not None]
            counts.append(len(parts) - starts[-1])
    return Used(tuple(starts), tuple(counts), tuple(parts))


def phase_weights(axes: Sequence[WinogradAxis]) -> tuple[tuple[PhaseWeights, ...], ...]:
    """Return which taps each phase and part has, and where its weights stand."""
    return _phase_weights(tuple((axis.form, axis.taps) for axis in axes))


@lru_cache(maxsize=64)
def _phase_weights(
    axes: tuple[tuple[Form, tuple[tuple[Places, ...], ...]], ...],
) -> tuple[tuple[PhaseWeights, ...], ...]:
    made = []
    forms = [form for form, _ in axes]
    for phase in product(*(taps for _, taps in axes)):
        free = [0] * math.prod(form.points for form in forms)  # rows of each matrix that are taken
        entries = []
        for part in product(*phase):
            taps = tuple(
                None if None in tap else cast("tuple[int, ...]", tap[1:])  # the batch has no taps
                for tap in product(*part)
            )
            gone = tuple(map(_vanishing, forms, map(_present, part)))
            here = _alive(gone, tuple(form.points for form in forms))
            rows = tuple(row if left else None for row, left in zip(free, here, strict=True))
            free = [row + left for row, left in zip(free, here, strict=True)]
            entries.append(PhaseWeights(taps, rows))
        made.append(tuple(entries))
    return tuple(made)


@lru_cache(maxsize=256)
def _alive(vanishing: tuple[frozenset[int], ...], points: tuple[int, ...]) -> tuple[bool, ...]:
    """Tell for each point of all axes together whether there are weights."""
    kept = [
        [place not in gone for place in range(count)]
        for gone, count in zip(vanishing, points, strict=True)
    ]
    return tuple(map(all, product(*kept)))
