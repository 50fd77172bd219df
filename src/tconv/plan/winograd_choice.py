"""Whether Winograd's algorithm is worth it, and with which forms: a model of what it costs.

The choice looks at one image and at many, whatever the batch is, so that an image's bits do
not depend on its company.  Costs are cycles of one core; docs/winograd.md holds them against
measurements.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from tconv.plan.machine import Machine
from tconv.plan.phases import AxisPhases, all_phases
from tconv.plan.planes import MOST_COLUMNS
from tconv.plan.transforms import noise
from tconv.plan.winograd import most_patches
from tconv.plan.winograd_axis import cut_axis, taps_of
from tconv.problem import Operand, Problem

# Outputs of patches to try, by taps; with more taps nothing is saved that rounding allows.
OUTPUTS = {2: (3, 4, 5), 3: (2, 3, 4), 4: (2, 3), 5: (2,)}
MOST_POINTS = 64  # of a transform, all axes together: its code is unrolled
MOST_NOISE = 1.8  # times the rounding errors of direct sums; the largest of many stays below 4

SURE = 0.9  # of the direct cost: models err
EVEN, MUCH_LESS = 0.98, 0.75  # for one image, if it is for many
MANY = 8  # images
MOST_UNBOUND = 24 << 20  # bytes of weights that a call transforms and lets go again

# Measured, in cycles: of one vector, one byte or one term.
PACK = 1.5  # of a vector read
STORE, LATE_STORE = 6.0, 16.0  # of one written between products, and after all of them
TRANSFORM, LARGE_TRANSFORM = 3.0, 9.0  # of a vector at a point, on its way in or out
FEW_POINTS = 16  # of a transform that stays in registers
NEAR_BYTE, FAR_BYTE = 1 / 12, 1 / 8  # of weights, from the last cache and from memory
WEIGHT = 5.0  # of a transformed vector of weights
EFFICIENCY, PROLOGUE = 0.93, 4  # of register tiles: of the peak, and terms' time to begin


@dataclass(frozen=True, slots=True)
class Worth:
    """What a choice of forms costs, in cycles of an image, and the direct way."""

    outputs: tuple[int, ...]
    alone: float
    among_many: float
    weights: float  # to transform weights, once when bound
    direct: float
    kept: int  # bytes of transformed weights

    def refusal(self, *, bound: bool) -> str | None:
        """Return why it is not worth it, None if it is."""
        if not self._pays(0):
            return f"takes {self.alone / self.direct:.2f} of the direct time, by estimate"
        if not bound and not self._pays(self.weights):
            return "transforming the weights in every call would cost more than it saves"
        if not bound and self.kept > MOST_UNBOUND:
            return f"transformed weights would take {self.kept / 1e6:.1f} MB in every call"
        return None

    def _pays(self, more: float) -> bool:
        alone, among_many = self.alone + more, self.among_many + more / MANY
        much = alone < EVEN * self.direct and among_many < MUCH_LESS * self.direct
        return much or alone < SURE * self.direct


class _Cut(NamedTuple):
    """The numbers of one axis cut into patches of so many outputs."""

    outputs: int
    patches: int
    points: int
    parts: int
    phases: int
    products: int
    noise: float


def weigh(problem: Problem, machine: Machine) -> Worth | str:
    """Return the best forms and what they cost, or why there are none."""
    read, written = _channels(problem)
    refusals = {
        "it computes no gradient of weights": problem.wanted is Operand.WEIGHTS,
        "float64 is for exact sums": problem.dtype == "float64",
        "this CPU has no instruction that converts float16": (
            problem.dtype == "float16" and not machine.converts_halves
        ),
        "there is nothing to compute": problem.batch == 0,
        f"{written} channels a group would leave vectors half empty": written <= MOST_COLUMNS,
        f"{read} channels read a group would leave vectors half empty": read <= MOST_COLUMNS,
    }
    for why, holds in refusals.items():
        if holds:
            return why
    options = worths(problem, machine)
    if not options:
        return "no axis has taps that a transform would save"
    paying = [worth for worth in options if worth.refusal(bound=True) is None]
    return min(paying or options, key=lambda worth: worth.alone + 4 * worth.among_many)


def worths(problem: Problem, machine: Machine) -> list[Worth]:
    """Return what all allowed forms cost."""
    splits = all_phases(problem)[1:]
    direct = _direct_cycles(problem, machine, splits)
    moved = _moved(problem, machine, splits, LATE_STORE)
    made = []
    for cuts in product(*map(_cuts, splits)):
        quiet = math.prod(cut.noise for cut in cuts) <= MOST_NOISE
        few = math.prod(cut.points for cut in cuts) <= MOST_POINTS
        if quiet and few and any(cut.outputs > 1 for cut in cuts):
            alone, among_many = (_cycles(problem, machine, cuts, n) + moved for n in (1, MANY))
            kept = _weights(problem, machine, cuts)
            weights = WEIGHT * kept / machine.vector_bytes
            outputs = tuple(cut.outputs for cut in cuts)
            made.append(Worth(outputs, alone, among_many, weights, direct, kept))
    return made


def _cuts(split: AxisPhases) -> list[_Cut]:
    """Return every way to cut an axis, the first one whole; none with very many taps."""
    taps, made = taps_of(split), []
    if taps > MOST_POINTS:
        return []
    for outputs in (1, *OUTPUTS.get(taps, ())):
        axis = cut_axis(split, outputs)
        patches = -(-(split.end - split.begin) // axis.unit) * axis.apart
        numbers = (axis.form.points, len(axis.parts), len(split.ranges), axis.products())
        made.append(_Cut(outputs, patches, *numbers, noise(axis.form)))
    return made


def _channels(problem: Problem) -> tuple[int, int]:
    """Return the channels read and written, of a group."""
    read, written = problem.coarse_channels, problem.fine_channels
    return (read, written) if problem.wanted is Operand.FINE else (written, read)


def _whole(channels: int, vector: int) -> int:
    return -(-channels // vector) * vector


def _direct_cycles(problem: Problem, machine: Machine, splits: Sequence[AxisPhases]) -> float:
    """Estimate a gather."""
    lanes = machine.lanes(problem.dtype)
    read, written = _channels(problem)
    written = _whole(written, lanes)
    taps = math.prod(
        sum(
            (high - low) * len(taps)
            for (low, high), taps in zip(split.ranges, split.taps, strict=True)
        )
        for split in splits
    )
    products = problem.groups * taps * read * written / (2 * lanes) / EFFICIENCY
    weights = 4 * problem.groups * read * written * math.prod(a.taps for a in problem.axes)
    return products + weights * _byte(weights, machine) + _moved(problem, machine, splits, STORE)


def _cycles(problem: Problem, machine: Machine, cuts: Sequence[_Cut], images: int) -> float:
    """Estimate transforms and products, for one of some images."""
    lanes = machine.lanes(problem.dtype)
    read, written = _channels(problem)
    written = _whole(written, 2 * lanes)
    patches = images * math.prod(cut.patches for cut in cuts)
    points = math.prod(cut.points for cut in cuts)
    parts = math.prod(cut.parts for cut in cuts)
    phases = math.prod(cut.phases for cut in cuts)
    matrices = math.prod(cut.products for cut in cuts)
    terms = max(patches, 6) * matrices * (read + PROLOGUE / parts) * written
    weights = _weights(problem, machine, cuts)
    streams = -(-patches // most_patches(4 * points * parts * read, weights, machine))
    repeated = max(1, min(4, 8 // (streams * problem.groups)))  # by chunks of panels
    each = TRANSFORM if points <= FEW_POINTS else LARGE_TRANSFORM
    vectors = (repeated * _whole(read, lanes) * parts + written * phases) / lanes
    mapped = each * points * patches * vectors
    once = terms / (2 * lanes) / EFFICIENCY + mapped
    return (problem.groups * once + weights * streams * _byte(weights, machine)) / images


def _weights(problem: Problem, machine: Machine, cuts: Sequence[_Cut]) -> int:
    """Return the bytes of transformed weights."""
    read, written = _channels(problem)
    written = _whole(written, 2 * machine.lanes(problem.dtype))
    return 4 * problem.groups * read * written * math.prod(cut.products for cut in cuts)


def _moved(problem: Problem, machine: Machine, splits: Sequence[AxisPhases], store: float) -> float:
    """Estimate packing and storing."""
    read, written = _channels(problem)
    lanes = machine.lanes(problem.dtype)
    inside = math.prod(split.size_in for split in splits) * _whole(read, lanes)
    outside = math.prod(split.size_out for split in splits) * _whole(written, lanes)
    return problem.groups * (PACK * inside + store * outside) / lanes


def _byte(weights: int, machine: Machine) -> float:
    return NEAR_BYTE if weights <= machine.l3 // 8 else FAR_BYTE
