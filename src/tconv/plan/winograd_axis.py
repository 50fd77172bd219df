"""An axis cut into patches, and which weights the phases of all axes have at each point."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from tconv.plan.phases import AxisPhases, aligned, all_phases
from tconv.plan.transforms import Form, noise, transforms
from tconv.problem import Problem


@dataclass(frozen=True, slots=True)
class WinogradAxis:
    """One axis cut into patches."""

    phases: AxisPhases
    form: Form
    apart: int  # how far apart the points of a patch lie
    parts: tuple[int, ...]  # phases read: what each adds to the place read
    taps: tuple[tuple[tuple[int | None, ...], ...], ...]  # by phase written, part and place

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
        taps = self.taps[phase][part]
        present = [place for place, tap in enumerate(taps) if tap is not None]
        matrix = transforms(self.form).weights
        return frozenset(
            point for point, row in enumerate(matrix) if not any(row[place] for place in present)
        )

    def noise(self) -> float:
        """Return rounding errors as a multiple of those of direct sums, all phases together.

        Parts are summed in a row, so errors of each grow with their number.

        >>> from tconv.plan.phases import axis_phases
        >>> from tconv.problem import Axis, Operand
        >>> split = axis_phases(Axis(8, 4, 4, 2, 1, 1), Operand.FINE)
        >>> round(cut_axis(split, 2).noise(), 2), round(cut_axis(aligned(split), 2).noise(), 2)
        (1.0, 0.87)
        """
        ours = direct = 0.0
        for parts in self.taps:
            found = [
                tuple(place for place, tap in enumerate(taps) if tap is not None) for taps in parts
            ]
            each = [noise(self.form, places) * len(places) for places in found if places]
            ours += len(each) * sum(error * error for error in each)
            direct += sum(map(len, found)) ** 2
        return math.sqrt(ours / direct) if direct else 0.0

    def products(self) -> int:
        """Return how many numbers are multiplied for each patch, all phases and parts."""
        return sum(
            self.form.points - len(self.vanishing(phase, part))
            for phase, parts in enumerate(self.taps)
            for part in range(len(parts))
        )


def taps_of(split: AxisPhases) -> int:
    """Return how many taps the forms of an axis have: places of one phase and part."""
    places = {(offset - split.low) // split.step_in for row in split.offsets for offset in row}
    return max(places, default=0) // (math.gcd(*places) or 1) + 1


def cut_axis(split: AxisPhases, outputs: int) -> WinogradAxis:
    """Cut an axis into patches of some outputs.

    Offsets read are ``low + part + step_in * apart * place``, for a part below the step.
    """
    step = split.step_in
    found = [
        {divmod(offset - split.low, step)[::-1]: tap for tap, offset in zip(*both, strict=True)}
        for both in zip(split.taps, split.offsets, strict=True)
    ]  # by phase: (part, place) -> tap
    parts = sorted({part for phase in found for part, _ in phase}) or [0]
    places = [place for phase in found for _, place in phase]
    apart = math.gcd(*places) or 1
    count = max(places, default=0) // apart + 1
    taps = tuple(
        tuple(tuple(phase.get((part, i * apart)) for i in range(count)) for part in parts)
        for phase in found
    )
    return WinogradAxis(split, Form(outputs, count), apart, tuple(parts), taps)


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


def phase_weights(axes: Sequence[WinogradAxis]) -> tuple[tuple[PhaseWeights, ...], ...]:
    """Return which taps each phase and part has, and where its weights stand."""
    made = []
    count = math.prod(axis.form.points for axis in axes)
    for phase in product(*(range(len(axis.phases.ranges)) for axis in axes)):
        free = [0] * count  # rows of each point's matrix that are taken
        entries = []
        for part in product(*(range(len(axis.parts)) for axis in axes)):
            chosen = list(zip(axes, phase, part, strict=True))
            taps: list[tuple[int, ...] | None] = []
            for combination in product(*(axis.taps[p][q] for axis, p, q in chosen[1:])):
                present = tuple(tap for tap in combination if tap is not None)
                taps.append(present if len(present) == len(combination) else None)
            alive = []
            for axis, p, q in chosen:
                vanishing = axis.vanishing(p, q)
                alive.append([place not in vanishing for place in range(axis.form.points)])
            here = [all(point) for point in product(*alive)]
            rows = [row if left else None for row, left in zip(free, here, strict=True)]
            free = [row + left for row, left in zip(free, here, strict=True)]
            entries.append(PhaseWeights(tuple(taps), tuple(rows)))
        made.append(tuple(entries))
    return tuple(made)
