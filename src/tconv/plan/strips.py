"""The algorithm for depthwise layers whose lines lie side by side: tiles of several lines.

Vectors run along points, and a register tile has some lines of them, one below the other: what one
line reads the next ones read too, so every vector is loaded once for all taps of a column of the
window.  The planes that some groups read are packed, zeros around them; points of a residue of a
stride are packed as a plane of their own, where neighbours lie side by side again.

Where taps are further apart than points, lines that share taps lie apart, too: a tile has those.
Of one spatial axis images are the lines.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product

from tconv.plan.blocks import first_items, shrink
from tconv.plan.gather import Scratch, axis_numbers, make_record, outer_tables
from tconv.plan.machine import Machine
from tconv.plan.overlap import channels_of
from tconv.plan.phases import AxisPhases, even_phases
from tconv.plan.planes import longest
from tconv.problem import Problem

SCALARS = (
    "source", "target", "weights", "bias",  # addresses, filled in by each call
    "source_g", "source_c", "source_x",  # element steps, by each call
    "target_g", "target_c", "target_x",
    "outer", "groups", "chunk", "chunks", "at_once", "depth", "columns",
    "size_in", "size_out", "step_in", "step_out", "low_in", "shift_out",  # the last axis
    "block", "begin", "end", "blocks", "phases", "span",
    "outer_phases", "most_phases",
    "apart",  # lines from one to the next that shares taps with it
    "shared",  # whether there are such
    "line", "column_residue", "line_residue", "plane",  # elements of the packed region, from line
    # to line, from residue to residue of the last axis and of the one before, and of a channel
    "column_weights",  # of a written channel
    "sums_pitch", "sums_apart",  # from line to line, and from phase to phase of the last axis
    "scratch_sums",
    "activate", "slope", "zeros",  # by each runner
)  # fmt: skip
"""The numbers of a record of strips, in order."""

ARRAYS = (
    "source_steps", "target_steps",  # one for each outer axis, filled in by each call
    "sizes_in", "steps_in", "steps_out", "lows_in", "shifts_out", "outer_block",
    "begins", "ends", "outer_blocks", "axis_phases", "spans", "pitches",
    "phase_low", "phase_high", "last_low", "last_high",
    "read_steps",  # one for each outer axis: elements of the region, from point to point
    # one for each phase of all axes together
    "phase_weights", "segment_start",
    "segment_counts",  # of each: columns of taps, by how many taps they have, most first
    "segments",  # where they begin to read
)  # fmt: skip
"""The arrays of a record of strips; a number tells where in the record each begins."""

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}

SIZES = (5, 4, 3, 2, 1)  # taps of a column that tiles keep in registers
STEPS = 4  # of a stride at most, whose residues are parted by whole vectors
FEW_RESIDUES, FEW_PHASES = 2, 4  # that are parted, or mixed, fast
MIXED = (2, 3, 4, 6, 8)  # phases whose points are mixed by whole vectors, not one by one
MOST_PRODUCTS = 4  # of channels read and written, of a group
MOST_LINES = 64  # of a block: as many zeros as a bias has to spare
LONG_LINES = 256  # points: longer lines are cut before blocks have few of them
PACE = {8: 8, 4: 9}  # of tiles of so many lines: the time of a multiplication, about
FEW_LINES = 8  # of a block, that a tile takes at once
MUCH_AGAIN = 2  # times that what is read is packed: then blocks may leave the first cache
WORTH = 200_000  # flops of a work item
ENOUGH_ITEMS = 16
FAR = 4  # parts of the last cache that others leave to a layer
SLACK = 16  # vectors around the region and the sums that tiles may touch

Tap = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Strips:
    """All that compiled strips need to know, but addresses."""

    lanes: int
    merged: int  # phases of the last axis that are stored side by side
    record: tuple[int, ...]
    taps: tuple[Tap, ...]  # in the order that weights are packed: channel read, then by axis
    block: tuple[int, ...]
    items: int
    scratch: int


@dataclass(frozen=True, slots=True)
class _Region:
    """How the planes that a block reads are packed."""

    line: int
    column_residue: int
    line_residue: int
    pitches: list[int]  # of axes but the last two
    plane: int


def plan_strips(problem: Problem, machine: Machine) -> Strips:
    """Lay out blocks, chunks of groups and tables for FINE or COARSE."""
    lanes = machine.lanes(problem.dtype)
    item = machine.vector_bytes // lanes
    axes = even_phases(problem)
    depth, wanted = channels_of(problem)
    *outer, last = axes
    merged = merged_of(last)
    block = _choose_block(axes, depth * item, last.step_out * item, machine)
    blocks = [-(-(axis.end - axis.begin) // size) for axis, size in zip(axes, block, strict=True)]
    region = _lay_region(axes, block)
    at_once = max(1, machine.l1 // 2 // (depth * region.plane * item))
    few = max(1, min(ENOUGH_ITEMS, problem.flops() // WORTH), first_items(problem))
    chunk = max(1, min(problem.groups, problem.groups * math.prod(blocks) // few))
    at_once = min(at_once, chunk)
    chunks = -(-problem.groups // chunk)
    arrays, taps = _phase_tables(axes, region, depth, merged)
    pitch = -(-block[-1] // lanes) * lanes
    scratch = Scratch(item)
    scratch.take(at_once * depth * region.plane + SLACK * lanes)
    numbers = {
        "groups": problem.groups,
        "chunk": chunk,
        "chunks": chunks,
        "at_once": at_once,
        "depth": depth,
        "columns": wanted,
        **axis_numbers(axes, block, blocks),
        "phases": len(last.ranges) // merged,
        "apart": _lines_apart(axes[-2]),
        "shared": int(_shares(axes[-2])),
        "line": region.line,
        "column_residue": region.column_residue,
        "line_residue": region.line_residue,
        "plane": region.plane,
        "column_weights": len(taps),
        "sums_pitch": pitch,
        "sums_apart": block[-2] * pitch,
        "scratch_sums": scratch.take(merged * block[-2] * pitch + SLACK * lanes),
    }
    arrays |= outer_tables(axes, block, blocks, [*region.pitches, 0, 0])
    arrays["read_steps"] = [
        *(pitch * axis.step_in for pitch, axis in zip(region.pitches, outer, strict=False)),
        region.line,
    ]
    return Strips(
        lanes=lanes,
        merged=merged,
        record=make_record(SCALARS, ARRAYS, numbers, arrays),
        taps=tuple(taps),
        block=tuple(block),
        items=chunks * math.prod(blocks),
        scratch=scratch.size,
    )


def lines_are_long(problem: Problem, machine: Machine) -> bool:
    """Tell whether channels have lines side by side in both arrays that fill vectors.

    Lines that are written as they are summed may fill half of one.  Several channels share what
    they read: only many small groups are better summed one channel after the other.
    """
    lanes = machine.lanes(problem.dtype)
    coarse, fine = problem.coarse_channels, problem.fine_channels
    if coarse * fine > (MOST_PRODUCTS if problem.groups >= lanes else 1):
        return False
    both = (problem.coarse_layout, coarse), (problem.fine_layout, fine)
    if any(layout.words[-1] != "x" and problem.groups * channels > 1 for layout, channels in both):
        return False
    last = even_phases(problem)[-1]
    # To part residues and to mix phases takes as long as few taps: long strides have enough only
    # in long windows, and some are parted and mixed one by one.
    few = len(last.taps[0]) < 2 * last.step_in or min(map(len, last.taps)) < 2
    fast = last.step_in <= STEPS and last.step_out in (1, *MIXED)
    if not fast or (few and (last.step_in > FEW_RESIDUES or last.step_out > FEW_PHASES)):
        return False
    # What comes from memory is parted slower than it is turned; of one image, as bits of it do
    # not depend on its company.
    if last.step_in > 1 and replace(problem, batch=1).bytes() > machine.l3 // FAR:
        return False
    points = longest(last) * (2 if last.step_out == 1 else 1)
    return points >= lanes


def whole_lines(lines: int) -> int:
    """Return how many lines tiles take for so many that share taps.

    >>> [whole_lines(lines) for lines in (3, 5, 9, 14)]
    [3, 8, 12, 16]
    """
    (many, pace), (few, other) = PACE.items()
    if lines < few:
        return lines
    larger, smaller = (-(-lines // size) * size for size in (many, few))
    return larger if lines >= many and pace * larger <= other * smaller else smaller


def most_at_once(merged: int) -> int:
    """Return how many taps of a column tiles of so many phases keep in registers.

    Those of long strides have few; code for more would take long to compile.
    """
    return SIZES[0] if merged <= 2 else 3 if merged <= FEW_PHASES else 2


def merged_of(axis: AxisPhases) -> int:
    """Return how many phases of the last axis are stored side by side."""
    return axis.step_out if axis.step_out in MIXED else 1


def _extents(axes: list[AxisPhases], block: list[int]) -> list[int]:
    return [axis.step_in * (size - 1) + axis.span for axis, size in zip(axes, block, strict=True)]


def _packed_again(axes: list[AxisPhases], block: list[int]) -> float:
    """Return how often a point is packed, about."""
    steps = (axis.step_in * size for axis, size in zip(axes, block, strict=True))
    return math.prod(_extents(axes, block)) / math.prod(steps)


def _lay_region(axes: list[AxisPhases], block: list[int]) -> _Region:
    """Return how a channel's plane is packed: by residue of both strides, line after line."""
    *far, lines, points = _extents(axes, block)
    line = -(-points // axes[-1].step_in)
    column_residue = line * -(-lines // axes[-2].step_in)
    line_residue = column_residue * axes[-1].step_in
    sizes = line_residue * axes[-2].step_in
    pitches = [sizes * math.prod(far[place + 1 :]) for place in range(len(far))]
    return _Region(line, column_residue, line_residue, pitches, sizes * math.prod(far))


def _choose_block(axes: list[AxisPhases], point: int, sums: int, machine: Machine) -> list[int]:
    """Return how many points of each axis one work item takes: half of the first cache.

    Or a third of the second one, where less would be packed again and again.
    """
    sizes = [axis.end - axis.begin for axis in axes]
    block = list(sizes)
    last = len(axes) - 1
    if last > 1:
        block[0] = 1
    while block[-2] > MOST_LINES:
        shrink(block, sizes, last - 1)
    enough = FEW_LINES * _lines_apart(axes[-2]) if _shares(axes[-2]) else 1
    if last == 1 and block[-1] >= LONG_LINES:
        block[0] = 1

    def too_large() -> bool:
        # Few lines share little, and most of what they read is read again for others.
        few = block[-2] < min(enough, sizes[-2]) or _packed_again(axes, block) > MUCH_AGAIN
        most = machine.l2 // 3 if few else machine.l1 // 2
        kept = sums * block[-2] * block[-1]
        return point * math.prod(_extents(axes, block)) > most or kept > most

    while max(block) > 1 and too_large():
        others = [d for d in range(last) if block[d] > 1]
        place = max(others, key=lambda d: block[d] / axes[d].span, default=last)
        few = not others or (place == last - 1 and block[place] <= FEW_LINES)
        if block[last] > 1 and (block[last] > LONG_LINES * (1 if few else 8) or not others):
            place = last
        shrink(block, sizes, place)
    return block


def _lines_apart(axis: AxisPhases) -> int:
    """Return how far apart lines of one residue lie that neighbouring taps of a phase read."""
    for offsets in axis.offsets:
        for _, places in _by_residue(axis, offsets):
            if len(places) > 1:
                return places[1][0] - places[0][0]
    return 1


def _shares(axis: AxisPhases) -> bool:
    """Tell whether lines share taps: whether any column has several of them."""
    columns = (places for offsets in axis.offsets for _, places in _by_residue(axis, offsets))
    return any(len(places) > 1 for places in columns)


def _by_residue(
    axis: AxisPhases, offsets: tuple[int, ...]
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield for each residue of the step the lines that taps read, with their numbers."""
    for residue in range(axis.step_in):
        places = [
            ((offset - axis.low) // axis.step_in, number)
            for number, offset in enumerate(offsets)
            if (offset - axis.low) % axis.step_in == residue
        ]
        if places:
            yield residue, places


def _pieces(axis: AxisPhases, phase: int, region: _Region, merged: int) -> list[tuple[int, Tap]]:
    """Return the columns of taps of a phase: where the first reads, and which they are."""
    found = []
    taps, apart = axis.taps[phase], _lines_apart(axis)
    for residue, places in _by_residue(axis, axis.offsets[phase]):
        steps = {later - line for (line, _), (later, _) in pairwise(places)}
        at_once = most_at_once(merged) if steps <= {apart} else 1
        count = -(-len(places) // at_once)
        ends = [len(places) * part // count for part in range(count + 1)]
        for begin, end in pairwise(ends):
            where = residue * region.line_residue + places[begin][0] * region.line
            found.append((where, tuple(taps[number] for _, number in places[begin:end])))
    return found


def _phase_tables(
    axes: list[AxisPhases], region: _Region, depth: int, merged: int
) -> tuple[dict[str, list[int]], list[Tap]]:
    """Return where each phase's columns of taps read, and in which order weights are packed."""
    *far, lines, last = axes
    arrays: dict[str, list[int]] = {name: [] for name in ARRAYS}
    packed: list[Tap] = []
    columns = [_pieces(lines, phase, region, merged) for phase in range(len(lines.ranges))]
    points = [
        [
            (divmod(offset - last.low, last.step_in), tap)
            for tap, offset in zip(last.taps[phase], last.offsets[phase], strict=True)
        ]
        for phase in range(len(last.ranges))
    ]
    for phases in product(*(range(len(axis.ranges)) for axis in far)):
        above = [
            (
                sum(
                    (o - a.low) * p for (_, o), a, p in zip(some, far, region.pitches, strict=True)
                ),
                tuple(tap for tap, _ in some[1:]),  # of the batch there is nothing to tell
            )
            for some in product(
                *(
                    zip(axis.taps[phase], axis.offsets[phase], strict=True)
                    for axis, phase in zip(far, phases, strict=True)
                )
            )
        ]
        for column, point in product(columns, points):
            arrays["phase_weights"].append(len(packed))
            arrays["segment_start"].append(len(arrays["segments"]))
            for size in SIZES:
                mine = [piece for piece in column if len(piece[1]) == size]
                met = list(product(range(depth), above, mine, point))
                arrays["segment_counts"].append(len(met))
                for channel, (begin, first), (line, taps), ((place, residue), tap) in met:
                    where = begin + line + residue * region.column_residue + place
                    arrays["segments"].append(channel * region.plane + where)
                    # Of one spatial axis lines are images, which have no taps.
                    packed += [(channel, *first, *((t,) if far else ()), tap) for t in taps]
    return arrays, packed
