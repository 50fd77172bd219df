"""Whether Winograd's algorithm is worth it, and with which forms: a model of what it costs.

The choice looks at one image and at many, whatever the batch is, so that an image's bits do
not depend on its company.  Costs are cycles of one core; docs/winograd.md holds them against
measurements.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tconv.plan.machine import Machine
from tconv.plan.missed import multiplied_share
from tconv.plan.phases import AxisPhases, all_phases
from tconv.plan.planes import MOST_COLUMNS
from tconv.plan.tiles import panel_vectors, tile_rows, whole_tiles
from tconv.plan.winograd_blocks import Volume, most_patches, needs_stages, shared_bytes
from tconv.plan.winograd_cuts import Cuts, all_cuts
from tconv.problem import Operand, Problem

SURE = 0.95  # of the direct cost: most layers between that and .85 gain, 1.1 times in the mean
MANY = 8  # images
FEW_ITEMS = 4  # that keep a few workers busy
WEIGHED_IMAGES = 5  # one alone, and how often one among many counts as much
ABOUT = 1.01  # times the cost of the quickest forms: of such the quietest are taken
# Bytes of weights and data that a call transforms and lets go again, beyond a quarter of what it
# is given and makes; and of weights at a time where they are more.
MOST_UNBOUND, MOST_SLICE = 30 << 20, 8 << 20

# Measured, in cycles: of one vector, one byte or one term.
PACK = 1.5  # of a vector read
TURN = 2.5  # more, of a vector that is read or written where points lie side by side
STORE, LATE_STORE = 6.0, 9.0  # of one written between products, and after all of them
TRANSFORM, LARGE_TRANSFORM = 3.0, 6.0  # of a vector at a point, on its way in or out
SHARED_BYTE = 0.3  # of transformed data that all of an image wait in memory
FEW_POINTS = 16  # of a transform that stays in registers
# Of a byte of weights from the last cache and from memory.  Products of patches go on meanwhile,
# but not faster than this; direct sums of few points wait for it.
NEAR_BYTE, FAR_BYTE = 0.12, 0.33
LONG_NEAR_BYTE = 0.06  # the first of them where vectors are long: a line a turn
WAITED = 0.3  # of the shorter of products and weights, that it takes longer to do both at once
FAR_WAITED = 1.0  # the same of weights from memory, as measured where vectors take two turns
WEIGHT = 12.0  # of a transformed vector of weights
EFFICIENCY, PROLOGUE = 0.93, 8  # of register tiles: of the peak, and terms' time to begin
LISTED = 1.15  # times as long take direct sums of taps that are listed, beside the estimate
PRODUCT, PATCH = 80.0, 40.0  # to begin a product of matrices, or to transform one of a patch


@dataclass(frozen=True, slots=True)
class Worth:
    """What a choice of forms costs, in cycles of an image, and the direct way."""

    outputs: tuple[int, ...]
    alike: tuple[bool, ...]
    alone: float
    among_many: float
    weights: float  # to transform weights for one image, and for one among many; once when bound
    weights_of_many: float
    direct: float
    kept: int  # bytes of transformed weights
    panel: int  # and of one panel, of all groups
    sliced: bool  # whether calls that transform all of them need too much memory
    noise: float  # times the rounding errors of direct sums

    def cost(self, *, bound: bool) -> float:
        """Return what choices are compared by: an image alone, and among others more so."""
        alone, among_many = self._each(bound=bound)
        return alone + (WEIGHED_IMAGES - 1) * among_many

    def refusal(self, *, bound: bool) -> str | None:
        """Return why it is not worth it, None if it is."""
        if not self._pays(bound=True):
            return f"takes {self.alone / self.direct:.2f} of the direct time, by estimate"
        if not bound and not self._pays(bound=False):
            return "transforming the weights in every call would cost more than it saves"
        if not bound and self.panel > MOST_SLICE:
            return f"transformed weights would take {self.kept / 1e6:.1f} MB in every call"
        return None

    @property
    def most(self) -> int | None:
        """Bytes of weights that a call transforms at a time; None: all of them."""
        return MOST_SLICE if self.sliced else None

    def _each(self, *, bound: bool) -> tuple[float, float]:
        """Return the cycles of one image, and of one among many."""
        if bound:
            return self.alone, self.among_many
        return self.alone + self.weights, self.among_many + self.weights_of_many

    def _pays(self, *, bound: bool) -> bool:
        return self._each(bound=bound)[0] < SURE * self.direct


@lru_cache(maxsize=16)  # asked for several times while a problem is planned
def weigh(problem: Problem, machine: Machine, *, bound: bool = True) -> Worth | str:
    """Return the best forms and what they cost, or why there are none.

    Other forms may be best where every call transforms its weights.
    """
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
    options = worths(problem, machine, bound=bound)
    if not options:
        return "no axis has taps that a transform would save"
    paying = [worth for worth in options if worth.refusal(bound=bound) is None]
    least = min(worth.cost(bound=bound) for worth in paying or options)
    quick = [worth for worth in paying or options if worth.cost(bound=bound) <= ABOUT * least]
    return min(quick, key=lambda worth: (worth.noise, worth.cost(bound=bound)))


def unbound_refusal(problem: Problem, machine: Machine, bound: Worth) -> str | None:
    """Return why calls that transform their weights take another way than these forms' owner."""
    if bound.refusal(bound=False) is None:
        return None
    found = weigh(problem, machine, bound=False)  # forms with fewer weights may pay
    return found if isinstance(found, str) else found.refusal(bound=False)


def worths(problem: Problem, machine: Machine, *, bound: bool = True) -> list[Worth]:
    """Return what forms cost, but of those that cannot be the best."""
    splits = all_phases(problem)[1:]
    direct = _direct_cycles(problem, machine, splits)
    moved = _moved(problem, machine, splits, LATE_STORE)
    if len(splits) > 1:  # blocks of patches have short lines
        moved += _turned(problem, machine, splits)
    floor = _products(problem, machine)
    written = _channels(problem)[1]
    vectors = panel_vectors(machine, problem.dtype, written)
    panels = -(-written // (vectors * machine.lanes(problem.dtype)))
    room = MOST_UNBOUND + replace(problem, batch=1).bytes() // 4
    made: list[Worth] = []
    most = math.inf
    for cuts in all_cuts(splits):
        least = floor * cuts.multiplied + moved
        if WEIGHED_IMAGES * least > most:
            break  # and so do all others: they multiply more
        kept = _weights(problem, machine, cuts)
        weights = WEIGHT * machine.turns * kept / machine.vector_bytes
        if made and not bound and least + weights >= SURE * direct:
            continue  # it would be refused
        # Weights that a call has just transformed are near.
        waits = WAITED
        if bound and machine.doubled:
            waits += (FAR_WAITED - WAITED) * _gone(kept, machine, machine.l3 / 2)
        times = _cycles(problem, machine, cuts, kept, waits)
        alone, among_many = (each + moved for each in times)
        waiting = _waiting(problem, machine, cuts) / shared_bytes(machine)
        sliced = kept + shared_bytes(machine) * min(1.0, waiting) > room
        rounds = waiting if sliced else 0.0  # slices are transformed for each
        worth = Worth(
            cuts.outputs, cuts.alike, alone, among_many,
            weights * max(1.0, math.ceil(rounds)), weights * max(1 / MANY, rounds),
            direct, kept, kept // panels, sliced, cuts.noise,
        )  # fmt: skip
        made.append(worth)
        if worth.refusal(bound=bound) is None:
            most = min(most, ABOUT * worth.cost(bound=bound))
    return made


def _channels(problem: Problem) -> tuple[int, int]:
    """Return the channels read and written, of a group."""
    read, written = problem.coarse_channels, problem.fine_channels
    return (read, written) if problem.wanted is Operand.FINE else (written, read)


def _whole(channels: int, vector: int) -> int:
    return -(-channels // vector) * vector


def _direct_cycles(problem: Problem, machine: Machine, splits: Sequence[AxisPhases]) -> float:
    """Estimate a gather of one image, which waits for its weights."""
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
    left = min(1.0, LISTED * multiplied_share(splits, read, -(-written // (2 * lanes))))
    products = left * taps * _products(problem, machine)
    size = 4 * problem.groups * read * written * math.prod(a.taps for a in problem.axes)
    weights = size * _byte(size, machine)
    moved = _moved(problem, machine, splits, STORE) + _turned(problem, machine, splits)
    return products + moved + weights


def _products(problem: Problem, machine: Machine) -> float:
    """Return the cycles of one product for all channels."""
    lanes = machine.lanes(problem.dtype)
    read, written = _channels(problem)
    vectors = read * _whole(written, lanes) / lanes
    return problem.groups * machine.turns * vectors / 2 / EFFICIENCY


def _cycles(
    problem: Problem, machine: Machine, cuts: Cuts, weights: int, waits: float
) -> tuple[float, float]:
    """Estimate transforms and products of one image, alone and among many.

    So much of the shorter of products and weights is waited for.
    """
    lanes = machine.lanes(problem.dtype)
    read, written = _channels(problem)
    vectors = panel_vectors(machine, problem.dtype, written)
    written, rows = _whole(written, vectors * lanes), tile_rows(machine, vectors)
    every, points, matrices = cuts.patches, cuts.points, cuts.products
    parts, phases = cuts.parts, cuts.phases
    row = 4 * parts * _whole(read, lanes)
    volume = Volume(
        row, points, weights, written // (vectors * lanes), rows, read, read * written * matrices
    )
    panels = written * machine.turns / (2 * lanes)
    term = matrices * (read + PROLOGUE / parts) * panels / EFFICIENCY
    begin = PRODUCT * matrices * volume.panels / parts
    each = machine.turns * (TRANSFORM if points <= FEW_POINTS else LARGE_TRANSFORM)
    moved = (_whole(read, lanes) * parts + written * phases) / lanes
    mapped = every * (each * points * moved + PATCH * (parts + phases * volume.panels))

    read_once = weights * _byte(weights, machine)

    def cycles(images: int) -> float:
        patches = images * every
        staged = needs_stages(volume, machine, problem.groups * patches)
        blocks = -(-patches // most_patches(volume, machine, staged=staged))
        rows = blocks * whole_tiles(-(-patches // blocks), volume.tile)
        products = problem.groups * (rows * term + blocks * begin)
        kept = SHARED_BYTE * every * volume.patch if staged else 0.0
        # Few panels keep few workers busy: blocks are split, and every one reads all weights.
        more = max(0, -(-FEW_ITEMS // (problem.groups * volume.panels)) - blocks)
        both = products, blocks * read_once
        waited = max(both) + waits * min(both) + more * read_once
        return waited / images + problem.groups * (mapped + kept)

    return cycles(1), cycles(MANY)


def _waiting(problem: Problem, machine: Machine, cuts: Cuts) -> int:
    """Return the bytes of one image's transformed data."""
    read = problem.groups * _whole(_channels(problem)[0], machine.lanes(problem.dtype))
    return 4 * read * cuts.patches * cuts.points * cuts.parts


def _weights(problem: Problem, machine: Machine, cuts: Cuts) -> int:
    """Return the bytes of transformed weights."""
    read, written = _channels(problem)
    vectors = panel_vectors(machine, problem.dtype, written)
    written = _whole(written, vectors * machine.lanes(problem.dtype))
    return 4 * problem.groups * read * written * cuts.products


def _moved(problem: Problem, machine: Machine, splits: Sequence[AxisPhases], store: float) -> float:
    """Estimate packing and storing."""
    inside, outside = _vectors(problem, machine, splits)
    return machine.turns * (PACK * inside + store * outside)


def _turned(problem: Problem, machine: Machine, splits: Sequence[AxisPhases]) -> float:
    """Estimate what packing and storing take longer where points lie side by side."""
    vectors = _vectors(problem, machine, splits)
    layouts = [problem.fine_layout, problem.coarse_layout]
    if problem.wanted is Operand.FINE:
        layouts.reverse()
    return (
        machine.turns
        * TURN
        * sum(
            count
            for count, layout in zip(vectors, layouts, strict=True)
            if layout.axes.endswith("x")
        )
    )


def _vectors(
    problem: Problem, machine: Machine, splits: Sequence[AxisPhases]
) -> tuple[float, float]:
    """Return how many vectors are read, and written."""
    lanes, channels = machine.lanes(problem.dtype), _channels(problem)
    sizes = ([split.size_in for split in splits], [split.size_out for split in splits])
    inside, outside = (
        problem.groups * math.prod(size) * _whole(count, lanes) / lanes
        for size, count in zip(sizes, channels, strict=True)
    )
    return inside, outside


def _byte(weights: int, machine: Machine) -> float:
    """Return the cycles of a byte of weights."""
    near = LONG_NEAR_BYTE if machine.long else NEAR_BYTE
    return near + (FAR_BYTE - near) * _gone(weights, machine, machine.l3 / 4)


def _gone(weights: int, machine: Machine, least: float) -> float:
    """Return which part of some bytes has left the last cache: of more than the least of them."""
    return min(1.0, max(0.0, (weights - least) / (machine.l3 - least)))
