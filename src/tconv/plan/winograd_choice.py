"""Whether Winograd's algorithm is worth it, and with which forms: a model of what it costs.

The choice looks at one image, whatever the batch, so that an image's bits do not depend on
its company.  Costs are cycles of one core; docs/winograd.md compares them with measurements.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product

from tconv.plan.gather import all_phases
from tconv.plan.machine import Machine
from tconv.plan.planes import MOST_COLUMNS
from tconv.plan.transforms import Form, noise, transforms
from tconv.plan.winograd import Winograd, WinogradAxis, cut_axis, most_tiles
from tconv.problem import Operand, Problem

OUTPUTS = {2: (3, 4, 5), 3: (2, 3, 4), 4: (2, 3), 5: (2,)}  # of tiles, by taps; with others nothing is saved
MOST_PRODUCTS = 64  # points of a transform, all axes together: its code is unrolled
MOST_NOISE = 2.5  # times the rounding errors of direct sums; the largest of many stays below 4
MARGIN = 0.92  # of the direct cost: models err

# Measured, in cycles: of one vector and one byte.
PACK, STORE = 1.5, 4.0  # of a vector read, and of one written
TRANSFORM, LARGE_TRANSFORM = 3.0, 8.0  # of a vector at a point, on its way in or out
FEW_POINTS = 16  # of a transform that stays in registers
NEAR_BYTE, FAR_BYTE = 1 / 12, 1 / 9  # of weights, from the last cache and from memory
WEIGHT = 4.0  # of a transformed vector of weights
EFFICIENCY, PROLOGUE = 0.93, 4  # of register tiles: of the peak, and terms' time to begin


@dataclass(frozen=True, slots=True)
class Worth:
    """What a choice of forms costs, in cycles, and the direct way."""

    outputs: tuple[int, ...]
    cycles: float
    weights: float  # cycles to transform weights, once when bound
    direct: float

    def refusal(self, *, bound: bool) -> str | None:
        """Return why it is not worth it, None if it is."""
        if self.cycles > MARGIN * self.direct:
            return f"would take {self.cycles / self.direct:.2f} times as long"
        if not bound and self.cycles + self.weights > MARGIN * self.direct:
            return "transforming the weights in every call would cost more than it saves"
        return None


def weigh(problem: Problem, machine: Machine) -> Worth | str:
    """Return the best forms and what they cost, or why there are none."""
    if problem.wanted is Operand.WEIGHTS:
        return "it computes no gradient of weights"
    if problem.dtype != "float32":
        return f"its kernels compute float32, not {problem.dtype}"
    if problem.batch == 0:
        return "there is nothing to compute"
    _, written = _channels(problem)
    if written <= MOST_COLUMNS:
        return f"{written} channels a group would leave vectors half empty"
    options = worths(problem, machine)
    if not options:
        return "no axis has taps that a transform would save"
    return min(options, key=lambda worth: worth.cycles)


def worths(problem: Problem, machine: Machine) -> list[Worth]:
    """Return what all allowed forms cost, for one image."""
    splits = all_phases(problem)[1:]
    axes = [
        [cut_axis(split, outputs) for outputs in (1, *OUTPUTS.get(cut_axis(split, 1).form.taps, ()))]
        for split in splits
    ]
    made = []
    direct = _direct_cycles(problem, machine, [choices[0] for choices in axes])
    for chosen in product(*axes):
        forms = [axis.form for axis in chosen]
        points = math.prod(form.points for form in forms)
        saving = any(form.outputs > 1 for form in forms)
        if saving and points <= MOST_PRODUCTS and math.prod(map(noise, forms)) <= MOST_NOISE:
            cycles, weights = _winograd_cycles(problem, machine, chosen)
            made.append(Worth(tuple(form.outputs for form in forms), cycles, weights, direct))
    return made


def _channels(problem: Problem) -> tuple[int, int]:
    """Return the channels read and written, of a group."""
    read, written = problem.coarse_channels, problem.fine_channels
    return (read, written) if problem.wanted is Operand.FINE else (written, read)


def _whole(channels: int, vector: int) -> int:
    return -(-channels // vector) * vector


def _direct_cycles(problem: Problem, machine: Machine, axes: Sequence[WinogradAxis]) -> float:
    """Estimate a gather."""
    lanes = machine.lanes(problem.dtype)
    read, written = _channels(problem)
    written = _whole(written, lanes)
    taps = [
        sum(
            (high - low) * len(taps)
            for (low, high), taps in zip(axis.phases.ranges, axis.phases.taps, strict=True)
        )
        for axis in axes
    ]
    products = math.prod(taps) * read * written / (2 * lanes) / EFFICIENCY
    weights = 4 * read * written * math.prod(axis.taps for axis in problem.axes)
    inside, outside = _moved(axes, read, written, lanes)
    once = products + PACK * inside + STORE * outside
    return problem.groups * (once + weights * _byte(weights * problem.groups, machine))


def _winograd_cycles(
    problem: Problem, machine: Machine, axes: Sequence[WinogradAxis]
) -> tuple[float, float]:
    """Estimate transforms and products, and the transform of weights."""
    lanes = machine.lanes(problem.dtype)
    read, written = _channels(problem)
    written = _whole(written, 2 * lanes)
    tiles = math.prod(
        -(-(axis.phases.end - axis.phases.begin) // axis.unit) * axis.apart for axis in axes
    )
    points = math.prod(axis.form.points for axis in axes)
    parts = math.prod(len(axis.parts) for axis in axes)
    phases = math.prod(len(axis.phases.ranges) for axis in axes)
    matrices = math.prod(axis.products() for axis in axes)
    rows = max(tiles, 6)
    products = rows * matrices * (read + PROLOGUE / parts) * written / (2 * lanes) / EFFICIENCY
    each = TRANSFORM if points <= FEW_POINTS else LARGE_TRANSFORM
    transforms = each * points * tiles * (read * parts + written * phases) / lanes
    weights = 4 * read * written * matrices
    most = most_tiles(4 * points * parts * read, weights * problem.groups, machine)
    streams = -(-tiles // most)
    inside, outside = _moved(axes, read, written, lanes)
    once = products + transforms + PACK * inside + STORE * outside
    once += weights * streams * _byte(weights * problem.groups, machine)
    return problem.groups * once, WEIGHT * problem.groups * weights / 4 / lanes


def _moved(
    axes: Sequence[WinogradAxis], read: int, written: int, lanes: int
) -> tuple[float, float]:
    """Return the vectors read and written."""
    inside = math.prod(axis.phases.size_in for axis in axes) * read / lanes
    return inside, math.prod(axis.phases.size_out for axis in axes) * written / lanes


def _byte(weights: int, machine: Machine) -> float:
    return NEAR_BYTE if weights <= machine.l3 // 2 else FAR_BYTE


def error_bounds(problem: Problem, recipe: Winograd) -> tuple[float, float]:
    """Return how far off a result can be, and the same for direct sums.

    Both are multiples of the largest datum times the sum of the absolute weights that a
    result meets, as the usual bounds of sums are: terms times half a unit of float32.
    """
    unit = 2.0**-24
    depth = problem.coarse_channels if problem.wanted is Operand.FINE else problem.fine_channels
    parts = max(len(phase) for phase in recipe.phase_weights)
    taps = max(
        sum(tap is not None for part in phase for tap in part.taps)
        for phase in recipe.phase_weights
    )
    roundings = depth * parts + 1 + sum(2 * form.points for form in recipe.forms)
    growth = math.prod(float(_growth(form)) for form in recipe.forms)
    return unit * roundings * growth, unit * depth * taps


@cache
def _growth(form: Form) -> Fraction:
    """Return how much larger the terms of a form can be than its result's."""
    made = transforms(form)
    sizes = [
        sum(map(abs, data)) * max(map(abs, weights))
        for data, weights in zip(made.data, made.weights, strict=True)
    ]
    return max(
        sum((abs(x) * size for x, size in zip(row, sizes, strict=True)), Fraction(0))
        for row in made.result
    )
