"""What kernels will really do for a plan, counted: no clock, no compiler.

Tiles, panels and vectors are whole ones, blocks read beyond their borders and patches beyond
the picture: all that is counted too, so that a layer that a plan treats badly stands out.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from tconv.plan import correlate, overlap
from tconv.plan.cells import Cells
from tconv.plan.check_record import Record
from tconv.plan.correlate import Correlate
from tconv.plan.dots import ROWS as ROWS_OF_DOTS
from tconv.plan.dots import Dots
from tconv.plan.gather import Gather
from tconv.plan.grouped import Grouped, in_place
from tconv.plan.grouped_weights import GroupedWeights
from tconv.plan.overlap import Overlap, channels_of, products_of
from tconv.plan.phases import (
    AxisPhases,
    all_phases,
    axis_phases,
    batch_phases,
    even_phases,
)
from tconv.plan.plan import Plan
from tconv.plan.planes import Planes
from tconv.plan.spread import Spread
from tconv.plan.stretches import ROWS
from tconv.plan.strips import Strips, whole_lines
from tconv.plan.tiles import whole_tiles
from tconv.plan.winograd import Winograd
from tconv.plan.winograd_axis import cut_axes, products_a_patch
from tconv.plan.woven import Woven, all_together
from tconv.problem import Operand, Problem, accumulator

PACK, STORE = 3, 4  # multiplications in the time of one element


@dataclass(frozen=True, slots=True)
class Count:
    """What is done for a plan, in numbers of elements; scratch in bytes."""

    multiplications: int
    packed: int  # data, zeros and repetitions too
    stored: int  # sums, as often as they are written
    kept: int  # weights as they are packed, or partial sums: once for all workers
    scratch: int  # of one worker

    def cost(self, weights: int = 0) -> int:
        """Return about how long it takes, in multiplications; ``weights`` are packed in the call.

        Of the vectors that a core multiplies, two a cycle, it packs one in the time of three.
        """
        return self.multiplications + PACK * (self.packed + weights) + STORE * self.stored


def count_least(problem: Problem) -> Count:
    """Count what no plan can do without: every meeting, every element once."""
    first, second = (math.prod(problem.shape(operand)) for operand in problem.given)
    data = first + (second if problem.wanted is Operand.WEIGHTS else 0)
    written = math.prod(problem.shape(problem.wanted))
    return Count(problem.flops() // 2, data, written, second, 0)


def count_plan(plan: Plan, tile_rows: int) -> Count:
    """Count what kernels with tiles of so many rows do; NumPy's products have no kernels."""
    problem, recipe = plan.solved, plan.recipe
    item = accumulator(problem.dtype).itemsize
    if isinstance(recipe, Gather | Cells):
        numbers = _gather(problem, recipe, tile_rows)
    elif isinstance(recipe, Planes):
        numbers = _planes(problem, recipe)
    elif isinstance(recipe, Strips):
        numbers = _strips(problem, recipe)
    elif isinstance(recipe, Overlap):
        numbers = _overlap(problem, recipe, tile_rows)
    elif isinstance(recipe, Grouped):
        numbers = _grouped(problem, recipe)
    elif isinstance(recipe, GroupedWeights):
        numbers = _grouped_weights(problem, recipe)
    elif isinstance(recipe, Correlate):
        numbers = _correlate(problem, recipe, tile_rows)
    elif isinstance(recipe, Winograd):
        numbers = _winograd(problem, recipe, tile_rows)
    elif isinstance(recipe, Spread):
        return _spread(problem, recipe, tile_rows)
    else:
        return _tap_products(problem)
    return Count(*numbers, recipe.scratch * item)


def _spread(problem: Problem, recipe: Spread, tile_rows: int) -> Count:
    """Count the smaller problem of every part, and what is copied and filled."""
    images = 1 if recipe.axis is None else problem.batch
    times = Counter(variant for variant, _, _ in recipe.parts)
    inner = [count_plan(variant.inner, tile_rows) for variant in recipe.variants]
    item = accumulator(problem.dtype).itemsize
    own = [item * (variant.compact + variant.scratch) for variant in recipe.variants]

    def every(name: str) -> int:
        return images * sum(int(getattr(inner[at], name)) * count for at, count in times.items())

    return Count(
        multiplications=every("multiplications"),
        packed=every("packed"),
        stored=every("stored") + math.prod(problem.shape(Operand.FINE)),
        kept=max(count.kept for count in inner),
        scratch=max(count.scratch for count in inner) + max(own),
    )


Numbers = tuple[int, int, int, int]  # multiplications, packed data, stored sums, kept elements


def _gather(problem: Problem, recipe: Gather | Cells, tile_rows: int) -> Numbers:
    if isinstance(recipe, Woven):
        problem = all_together(problem)
    axes = all_phases(problem)
    depth, wanted = channels_of(problem)
    if isinstance(recipe, Cells):
        # All phases are columns, and all neighbours taps.
        wanted *= math.prod(axis.step_out for axis in axes)
        axes = [_joined(axis) for axis in axes]
    width, summed = _panels_width(wanted, recipe.lanes, recipe.vectors), depth
    if isinstance(recipe, Woven):
        summed = recipe.summed
    lines, run = isinstance(recipe, Dots), 1
    if isinstance(recipe, Dots):  # vectors run along what is read
        width, run = wanted, min(recipe.depths, default=1)
    whole = _up(run, recipe.lanes) if lines else 1
    done = stored = 0
    for taps, counts, times in _phases(axes, recipe.block):
        points = math.prod(counts)
        tiles = _up(points, ROWS_OF_DOTS[wanted]) if lines else whole_tiles(points, tile_rows)
        rows = times * tiles * width
        done += -(-taps * summed // run) * whole * rows
        stored += rows
    blocks = _blocks(axes, recipe.block)
    chunks = recipe.items // (problem.groups * math.prod(map(len, blocks)))
    packed = chunks * depth * _read(axes, blocks)
    groups = problem.groups
    return groups * done, groups * packed, groups * stored, groups * recipe.group_weights


def _planes(problem: Problem, recipe: Planes) -> Numbers:
    axes = even_phases(problem)
    depth, wanted = channels_of(problem)
    rows = -(-wanted // recipe.rows) * recipe.rows
    done = stored = 0
    for taps, (*lines, length), times in _phases(axes, recipe.block):
        points = times * math.prod(lines) * _up(length, recipe.lanes)
        done += taps * depth * rows * points
        stored += rows * points
    blocks = _blocks(axes, recipe.block)
    last = axes[-1]
    whole = -(-(last.step_in * (recipe.block[-1] - 1) + last.span) // last.step_in) * last.step_in
    packed = depth * _read(axes[:-1], blocks[:-1]) * len(blocks[-1]) * whole
    groups = problem.groups
    return groups * done, groups * packed, groups * stored, groups * recipe.group_weights


def _strips(problem: Problem, recipe: Strips) -> Numbers:
    axes = even_phases(problem)
    depth, wanted = channels_of(problem)
    done = stored = 0
    for taps, (*far, lines, length), times in _phases(axes, recipe.block):
        points = times * math.prod(far) * whole_lines(lines) * _up(length, recipe.lanes)
        done += taps * depth * wanted * points
        stored += wanted * points
    packed = depth * _read(axes, _blocks(axes, recipe.block))
    groups = problem.groups
    return groups * done, groups * packed, groups * stored, groups * len(recipe.taps) * wanted


def _overlap(problem: Problem, recipe: Overlap, tile_rows: int) -> Numbers:
    depth, wanted = channels_of(problem)
    chunks, points, _ = recipe.multiplies
    rows = products_of(problem) // points // problem.groups
    each = Record(recipe.record, overlap.SCALARS, overlap.ARRAYS).arrays["chunk_rows"]
    tiles = sum(whole_tiles(some, tile_rows) for some in each)
    width = recipe.lanes * recipe.vectors
    counts = _parts(problem.batch, recipe.round)
    panels = sum(_up(images * points, width) for images in counts)
    folds = sum(images * points * problem.groups * rows for images in counts)
    written = problem.groups * wanted * _points(problem, problem.wanted)
    return (
        problem.groups * depth * tiles * panels,
        chunks * depth * panels,
        folds + written,
        problem.groups * rows * depth,
    )


def _grouped(problem: Problem, recipe: Grouped) -> Numbers:
    axes = all_phases(problem)
    depth, wanted = channels_of(problem)
    lanes = recipe.panels * recipe.lanes  # of all panels: the last one repeats some groups
    weights = recipe.panels * recipe.panel_weights
    if in_place(problem, recipe.lanes) and not recipe.packs:
        useful = problem.flops() // 2 // problem.groups
        return lanes * useful, 0, lanes * _points(problem, problem.wanted), weights
    done = stored = 0
    for taps, (*lines, length), times in _phases(axes, recipe.block):
        points = times * math.prod(lines) * max(length, ROWS) * lanes
        done += taps * depth * wanted * points
        stored += wanted * points
    packed = lanes * depth * _read(axes, _blocks(axes, recipe.block))
    return done, packed, stored, weights


def _grouped_weights(problem: Problem, recipe: GroupedWeights) -> Numbers:
    axes = [batch_phases(problem.batch)]
    axes += (axis_phases(axis, problem.wanted) for axis in problem.axes)
    lanes = recipe.panels * recipe.lanes
    matrix = problem.coarse_channels * problem.fine_channels
    blocks = _blocks(axes, recipe.block)
    sums = lanes * matrix * len(recipe.taps)
    stored = sums * math.prod(map(len, blocks))
    points = _points(problem, Operand.COARSE)
    if in_place(problem, recipe.lanes):
        return lanes * problem.flops() // 2 // problem.groups, 0, stored, recipe.parts * sums
    packed = problem.fine_channels * _read(axes, blocks) + problem.coarse_channels * points
    return sums * points, lanes * packed, stored, recipe.parts * sums


def _correlate(problem: Problem, recipe: Correlate, tile_rows: int) -> Numbers:
    r = Record(recipe.record, correlate.SCALARS, correlate.ARRAYS)
    width = _panels_width(r.columns * recipe.groups, recipe.lanes, recipe.vectors)
    taps = len(recipe.taps)
    chunks = _parts(r.rows, r.chunk_rows)
    rows = taps * sum(whole_tiles(chunk, tile_rows) for chunk in chunks)
    if recipe.swapped:
        parts = _parts(taps, r.chunk_taps)
        rows = sum(whole_tiles(part * r.rows, tile_rows) for part in parts)
    sizes = [problem.batch, *problem.spatial(Operand.COARSE)]
    cuts = [_parts(size, block) for size, block in zip(sizes, recipe.block, strict=True)]
    pitches = [*r.outer_of("b_pitches"), 1]
    points = turns = 0
    # How many points both sides of all blocks have.
    packed = {"a": 0, "b": 0}
    for counts, times in _boxes(cuts):
        run = 1 + sum((count - 1) * pitches[d] for d, count in [*enumerate(counts)][r.split :])
        segments = math.prod(counts[: r.split])
        points += times * segments * run
        at_once = max(1, r.run_points // run)
        turns += times * -(-segments // at_once) * -(-run // r.run_points)
        for side in packed:
            halos = [*r.outer_of(f"{side}_halos"), r.scalars[f"{side}_halo"]]
            scaled = [*counts[:-1], counts[-1] * r.scalars[f"{side}_scale"]]
            lines = math.prod(map(sum, zip(scaled, halos, strict=True)))
            planes = r.scalars[f"{side}_combinations"] * r.scalars[f"{side}_width"]
            packed[side] += times * lines * planes
    row_chunks = 1 if recipe.swapped else r.row_chunks
    both = packed["a"] * r.a_channels * r.panel_chunks + packed["b"] * r.b_channels * row_chunks
    both *= r.tap_chunks
    if r.shared:
        both = packed["a"] * r.a_channels + packed["b"] * r.b_channels
    partials = recipe.common if recipe.stores else 0
    groups = -(-problem.groups // recipe.groups)
    if r.split == r.outer and not recipe.swapped:  # what meets nothing is left out
        met = math.prod(axis.meetings() for axis in problem.axes)
        points = -(-points * met // (taps * math.prod(sizes[1:])))
    return (
        groups * rows * width * points,
        groups * recipe.groups * both,
        groups * rows * width * turns + partials,
        recipe.common,
    )


def _winograd(problem: Problem, recipe: Winograd, tile_rows: int) -> Numbers:
    axes = cut_axes(problem, [form.outputs for form in recipe.forms], recipe.alike)
    depth, wanted = channels_of(problem)
    width = _up(wanted, recipe.lanes * recipe.vectors)
    sizes = [_up(axis.phases.end - axis.phases.begin, axis.unit) for axis in axes]
    cuts = [_parts(size, block) for size, block in zip(sizes, recipe.block, strict=True)]
    outputs = math.prod(axis.form.outputs for axis in axes)
    phases = math.prod(len(axis.phases.ranges) for axis in axes)
    rows = sum(
        times * whole_tiles(math.prod(counts) // outputs, tile_rows)
        for counts, times in _boxes(cuts)
    )
    packed = math.prod(
        sum(axis.phases.step_in * (size - 1) + axis.span for size in cut)
        for axis, cut in zip(axes, cuts, strict=True)
    )
    groups = problem.groups
    chunks = 1 if recipe.staged else recipe.chunks  # each packs again
    return (
        groups * depth * width * products_a_patch(recipe.phase_weights) * rows,
        groups * depth * chunks * packed,
        groups * width * phases * outputs * rows,
        groups * recipe.group_weights,
    )


def _tap_products(problem: Problem) -> Count:
    """Count one matrix product a tap, each moved through memory."""
    useful = problem.flops() // 2
    given = sum(math.prod(problem.shape(operand)) for operand in problem.given)
    meetings = problem.batch * math.prod(axis.meetings() for axis in problem.axes)
    written = problem.fine_channels
    if problem.wanted is Operand.COARSE:
        written = problem.coarse_channels
    return Count(useful, given, problem.groups * written * meetings, 0, 0)


def _points(problem: Problem, operand: Operand) -> int:
    return problem.batch * math.prod(problem.spatial(operand))


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _panels_width(channels: int, lanes: int, vectors: int) -> int:
    """Return the channels of all panels, the last of them one vector wide if that is enough."""
    rest = channels % (lanes * vectors)
    return channels - rest + (lanes if 0 < rest <= lanes else _up(rest, lanes * vectors))


def _parts(size: int, part: int) -> list[int]:
    """Return how long the parts of something are: the last may be shorter."""
    whole, rest = divmod(size, part)
    return [part] * whole + [rest] * (rest > 0)


def _joined(axis: AxisPhases) -> AxisPhases:
    offsets = tuple(sorted({offset for phase in axis.offsets for offset in phase}))
    return AxisPhases(axis.size_in, 0, 1, 1, 0, ((axis.begin, axis.end),), (offsets,), (offsets,))


def _blocks(axes: Sequence[AxisPhases], block: Sequence[int]) -> list[list[int]]:
    """Return how many points the blocks of each axis have."""
    return [_parts(axis.end - axis.begin, size) for axis, size in zip(axes, block, strict=True)]


def _read(axes: Sequence[AxisPhases], blocks: Sequence[list[int]]) -> int:
    """Return how many points all blocks read, those twice that two of them read."""
    return math.prod(
        sum(axis.step_in * (size - 1) + axis.span for size in sizes)
        for axis, sizes in zip(axes, blocks, strict=True)
    )


def _boxes(cuts: Iterable[list[int]]) -> Iterable[tuple[tuple[int, ...], int]]:
    """Yield the different sizes of blocks, and how many blocks have each."""
    for choice in product(*(Counter(cut).items() for cut in cuts)):
        yield tuple(size for size, _ in choice), math.prod(times for _, times in choice)


def _phases(
    axes: Sequence[AxisPhases], block: Sequence[int]
) -> Iterable[tuple[int, tuple[int, ...], int]]:
    """Yield taps and points on each axis of the phases of blocks, and how many have those."""
    counters: list[Counter[tuple[int, int]]] = []
    for axis, size in zip(axes, block, strict=True):
        counter: Counter[tuple[int, int]] = Counter()
        for start in range(axis.begin, axis.end, size):
            for (low, high), taps in zip(axis.ranges, axis.taps, strict=True):
                points = min(start + size, high) - max(start, low)
                if points > 0:
                    counter[len(taps), points] += 1
        counters.append(counter)
    for choice in product(*(counter.items() for counter in counters)):
        met = math.prod(taps for (taps, _), _ in choice)
        counts = tuple(points for (_, points), _ in choice)
        yield met, counts, math.prod(times for _, times in choice)
