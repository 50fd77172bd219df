"""The algorithm for few channels a group: vectors run along points instead of channels.

The region that a block reads is packed as planes, one for each channel of several groups,
so depthwise layers, colour heads, masks and audio fill whole vectors.  A register tile has a row
for each of some written channels, and for every phase of the last axis where those are few: what
is read for one phase then serves the others, and phases are stored side by side.
"""

import math
from dataclasses import dataclass
from itertools import product

from tconv.plan.blocks import (
    ENOUGH_POINTS,
    FEW_POINTS,
    FIRST_ITEMS,
    first_items,
    shrink,
    spread,
)
from tconv.plan.extent import channels_last
from tconv.plan.gather import (
    Scratch,
    axis_numbers,
    make_record,
    outer_tables,
)
from tconv.plan.machine import Machine
from tconv.plan.phases import AxisPhases, even_phases, needed_residues
from tconv.problem import Operand, Problem

SCALARS = (
    "source", "target", "weights", "bias",  # addresses, filled in by each call
    "source_g", "source_c", "source_x",  # element steps, by each call
    "target_g", "target_c", "target_x",
    "outer", "groups", "chunk", "chunks", "depth", "columns",
    "panels", "panel_weights",  # written channels of one tile after the other
    "passes", "pass_columns",  # over the points of a block, each for so many written channels
    "run",  # channels read at each entry of the segments, a row apart
    "size_in", "size_out", "step_in", "step_out", "low_in", "shift_out",  # the last axis
    "block", "begin", "end", "blocks", "phases", "span", "residue", "row",
    "needed_last",  # bits, one for each residue of the last axis' step that taps read
    "outer_phases", "group_weights", "lines", "sums_pitch", "most_phases",
    "scratch_sums", "scratch_lines", "scratch_targets",
    "unpacked",  # whether data may be read where it lies
    "in_place",  # whether it can be, by each call
    "blank_phases",  # whether phases of the last axis have no taps: lines are filled before
    "activate", "slope", "zeros",  # by each runner
)  # fmt: skip
"""The numbers of a record of planes, in order."""

ARRAYS = (
    "source_steps", "target_steps",  # one for each outer axis, filled in by each call
    "sizes_in", "steps_in", "steps_out", "lows_in", "shifts_out", "outer_block",
    "begins", "ends", "outer_blocks", "axis_phases", "spans", "pitches",
    "needed",  # bits, one for each residue of the step that taps read; all are set where all are
    "phase_low", "phase_high", "last_low", "last_high",
    # one for each phase of all axes together; those of the last are one if they are merged
    "phase_weights", "segment_start",
    "segment_counts",  # of each: those that all merged phases read, then each phase's own
    "segments",
    "segments_in_place",  # the same in the source itself, filled in by each call
)  # fmt: skip
"""The arrays of a record of planes; a number tells where in the record each begins."""

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}

WORTH = 400_000  # flops of a work item: some ten microseconds
LONG_LINES = 16  # a line is kept whole until it is so much longer than the block is high
MOST_RESIDUES = 4096  # of the last axis' stride: each is packed for itself
MOST_COLUMNS = 4  # written channels of a group with which vectors of them would stay half empty
MOST_ROWS = 6  # of a register tile: two vectors each and what they are made of fill the registers
MANY_ROWS = 12  # of one with twice the registers: more lines would be written than a cache keeps
MOST_VECTORS = 8  # of a line in a tile
MOST_MERGED = 16  # phases in one tile: more take long to compile
MOST_MIXED = 9  # phases of several channels that are stored element by element beside each other
# By rows of the tile and vectors of a line in it: time of a multiplication, about.
TILE_PACE = {6: {2: 1.0}, 5: {2: 1.06}, 4: {3: 1.05, 2: 1.09}}
MANY_PACE = {
    8: {3: 1.0, 2: 1.02}, 7: {3: 1.02, 2: 1.05}, 12: {2: 1.03}, 10: {2: 1.03}, 9: {2: 1.04},
}  # fmt: skip
FEW_PANELS, FEW_BESIDE = 2, 4  # what so few panels and taps of a line read is not worth packing
WAY, WAYS = 4096, 8  # bytes that a first cache has one place for in each of so many ways
SECOND_WAY = 64 << 10  # likewise, of a second one
NEAR = 3  # problems that fit the last cache at once, about
SHORT_DEPTH = 4  # channels that are listed one by one beside the taps


@dataclass(frozen=True, slots=True)
class Planes:
    """All that compiled planes need to know, but addresses."""

    lanes: int
    rows: int  # written channels of one tile
    vectors: int  # of a line in it, at most
    merged: int  # phases of the last axis in one tile
    record: tuple[int, ...]
    taps: tuple[tuple[int, ...], ...]  # in the order that weights are packed, merged ones together
    counts: tuple[tuple[int, ...], ...]  # how many of them are merged, or a phase's own
    beside: int  # of one line, that a point reads at most
    group_weights: int
    block: tuple[int, ...]
    items: int
    scratch: int


def plan_planes(problem: Problem, machine: Machine, tile: tuple[int, int] | None = None) -> Planes:
    """Lay out blocks, chunks of groups and tables for FINE or COARSE.

    A tile has so many channels and phases, or what suits best.
    """
    lanes = machine.lanes(problem.dtype)
    item = machine.vector_bytes // lanes
    axes = even_phases(problem)
    depth, wanted = problem.coarse_channels, problem.fine_channels
    if problem.wanted is Operand.COARSE:
        depth, wanted = wanted, depth
    last = axes[-1]
    if tile is None:
        tile = choose_tile(wanted, last, machine, lanes, beside=channels_last(problem))
    rows, merged = tile
    panels = -(-wanted // rows)
    # Whole vectors of channels on both sides: fewer are packed and stored one by one.
    chunk = min(problem.groups, -(-2 * lanes // min(depth, wanted)))
    chunks = -(-problem.groups // chunk)
    block = planes_block(axes, chunk * depth * item, merged * chunk * wanted * item, machine)
    few = max(min(FIRST_ITEMS, problem.flops() // WORTH), first_items(problem))
    spread(block, axes, (chunks, few), wanted, ENOUGH_POINTS)
    _whole_vectors(block, axes[-1], 2 * lanes)
    blocks = [-(-(axis.end - axis.begin) // size) for axis, size in zip(axes, block, strict=True)]
    extents = [
        axis.step_in * (size - 1) + axis.span for axis, size in zip(axes, block, strict=True)
    ]
    residue = -(-extents[-1] // last.step_in)
    row = residue * last.step_in
    line = chunk * depth * row
    pitches = [line * math.prod(extents[place + 1 : -1]) for place in range(len(axes) - 1)]
    run = 1 if depth <= SHORT_DEPTH else depth
    channels = range(0, depth * row if run == 1 else 1, row)
    arrays, taps, counts = _phase_tables(axes, pitches, residue, (merged, depth * rows), channels)
    lines = math.prod(block[:-1])
    sums_pitch = -(-block[-1] // lanes) * lanes
    scratch = Scratch(item)
    scratch.take(line * math.prod(extents[:-1]) + 8 * lanes)
    panel_weights = len(taps) * depth * rows
    near = _is_near(problem, machine)
    numbers = {
        "groups": problem.groups,
        "chunk": chunk,
        "chunks": chunks,
        "depth": depth,
        "columns": wanted,
        "panels": panels,
        "panel_weights": panel_weights,
        # All channels of a tile's points, one panel after the other, find what they read in the
        # first cache.  Lines that come from memory and go there are better taken whole.
        "passes": 1 if near else panels,
        "pass_columns": wanted if near else rows,
        "run": run,
        **axis_numbers(axes, block, blocks),
        "phases": len(last.ranges) // merged,
        "residue": residue,
        "row": row,
        "needed_last": needed_residues(last),
        "group_weights": panels * panel_weights,
        "lines": lines,
        "sums_pitch": sums_pitch,
        "scratch_sums": scratch.take(merged * chunk * wanted * lines * sums_pitch + 8 * lanes),
        "scratch_lines": scratch.take_table(lines),
        "scratch_targets": scratch.take_table(lines),
        "blank_phases": int(merged == 1 and 0 in arrays["segment_counts"]),
        "unpacked": int(may_be_unpacked(problem, machine, last, panels * last.step_out // merged)),
    }
    arrays["segments_in_place"] = [0] * len(arrays["segments"])
    arrays |= outer_tables(axes, block, blocks, [*pitches, 0])
    return Planes(
        lanes=lanes,
        rows=rows,
        vectors=min(MOST_VECTORS, most_sums(machine) // (rows * merged)),
        merged=merged,
        record=make_record(SCALARS, ARRAYS, numbers, arrays),
        taps=tuple(taps),
        counts=tuple(counts),
        beside=taps_beside(last),
        group_weights=panels * panel_weights,
        block=tuple(block),
        items=chunks * math.prod(blocks),
        scratch=scratch.size,
    )


def _is_near(problem: Problem, machine: Machine) -> bool:
    return problem.bytes() <= machine.l3 // NEAR


def may_be_unpacked(problem: Problem, machine: Machine, last: AxisPhases, tiles: int) -> bool:
    """Tell whether blocks that need no zeros may be read where they lie, if points lie in lines.

    Each channel is a stream of its own: too many for what comes from memory, as a rule, unless few
    tiles read it, of panels and phases of the last axis.
    """
    return last.step_in == 1 and (tiles <= FEW_PANELS or _is_near(problem, machine))


def cache_keeps(depth: int, panels: int, beside: int, apart: int) -> bool:
    """Tell whether the first cache keeps a tile's channels for other panels and taps of a line.

    So many channels lie so many bytes apart: those of large pictures with even sizes compete for
    the same places of the cache.

    >>> cache_keeps(40, 3, 1, 56 * 56 * 4), cache_keeps(40, 3, 1, 64 * 64 * 4)
    (True, False)
    >>> cache_keeps(40, 2, 3, 4096), cache_keeps(40, 1, 9, 4096)
    (True, False)

    What no cache keeps is read again from afar, however few panels and taps there are.

    >>> cache_keeps(128, 1, 2, 128 * 128 * 4), cache_keeps(128, 1, 1, 128 * 128 * 4)
    (False, True)
    """
    few = panels <= FEW_PANELS and beside <= FEW_BESIDE
    once = panels * beside == 1
    near = once or depth * math.gcd(apart, SECOND_WAY) <= WAYS * SECOND_WAY
    return (few and near) or depth * math.gcd(apart, WAY) <= WAYS * WAY


def taps_beside(last: AxisPhases) -> int:
    """Return how many taps of one line a point reads at most."""
    return max(map(len, last.taps), default=0)


def _whole_vectors(block: list[int], last: AxisPhases, unit: int) -> None:
    """Let blocks of a line that is split end with whole tiles of so many points."""
    if block[-1] < last.end - last.begin:
        block[-1] = min(-(-block[-1] // unit) * unit, last.end - last.begin)


def most_rows(machine: Machine) -> int:
    """Return how many written channels a tile may have.

    >>> from tconv.plan.machine import AVX2, AVX512
    >>> most_rows(AVX2), most_rows(AVX512)
    (6, 12)
    """
    return MANY_ROWS if machine.registers > 2 * MANY_ROWS else MOST_ROWS


def most_sums(machine: Machine) -> int:
    """Return how many vectors of sums fit the registers, beside what they are made of."""
    return 2 * most_rows(machine)


def choose_tile(
    wanted: int, last: AxisPhases, machine: Machine, lanes: int, *, beside: bool
) -> tuple[int, int]:
    """Return how many written channels a tile takes, and how many phases of the last axis.

    Phases are stored side by side, with the channels ``beside`` them if these lie so.
    """
    rows = choose_rows(wanted, longest(last), lanes, most_rows(machine))
    # What one phase reads alone is summed in its own rows of the tile: few would wait for sums.
    alike = all(offsets == last.offsets[0] for offsets in last.offsets)
    most = most_sums(machine) if alike else MOST_ROWS
    fit = rows == wanted and rows * last.step_out <= most and last.step_out <= MOST_MERGED
    mixed = last.step_out * rows if beside and rows > 1 else 1
    odd = mixed // (mixed & -mixed)  # an even number is mixed by halves
    return rows, last.step_out if fit and odd <= MOST_MIXED else 1


def choose_rows(wanted: int, points: int, lanes: int, most: int) -> int:
    """Return how many written channels a tile takes: all, or so many that tiles end the soonest.

    Tiles of many rows read less for each multiplication, those of few take longer pieces of a
    line of so many points; the last of either overlaps the one before.

    >>> [choose_rows(64, points, lanes=8, most=MOST_ROWS) for points in (64, 65)]
    [6, 4]
    """
    if wanted <= most:
        return wanted
    vectors = -(-points // lanes)

    def time(rows: int) -> float:
        size, pace = tile_of(rows, points, lanes, most)
        return -(-wanted // rows) * rows * -(-vectors // size) * size * pace

    return min(TILE_PACE if most == MOST_ROWS else MANY_PACE, key=time)


def tile_of(rows: int, points: int, lanes: int, most: int) -> tuple[int, float]:
    """Return how many vectors of a line tiles of these rows take, and their pace.

    >>> [tile_of(4, points, lanes=8, most=MOST_ROWS)[0] for points in (23, 64, 65)]
    [2, 2, 3]
    """
    paces = TILE_PACE[rows] if most == MOST_ROWS else MANY_PACE[rows]
    vectors, longest = -(-points // lanes), max(2, points // lanes)
    fitting = [(size, pace) for size, pace in paces.items() if size <= longest]
    return min(fitting, key=lambda tile: -(-vectors // tile[0]) * tile[0] * tile[1])


def longest(axis: AxisPhases) -> int:
    """Return how many points a line of any phase has."""
    return max((high - low for low, high in axis.ranges), default=0)


def _phase_tables(
    axes: list[AxisPhases],
    pitches: list[int],
    residue: int,
    sizes: tuple[int, int],
    channels: range,
) -> tuple[dict[str, list[int]], list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Return where each phase's taps read and where its weights lie.

    ``sizes`` are how many phases of the last axis are merged, and the weights of one tap.
    """
    *outer, last = axes
    merged, matrix = sizes
    arrays: dict[str, list[int]] = {name: [] for name in ARRAYS}
    taps: list[tuple[int, ...]] = []
    counts: list[tuple[int, ...]] = []
    groups = [_merge(last, range(x, x + merged)) for x in range(0, len(last.ranges), merged)]
    for phase in product(*(range(len(axis.ranges)) for axis in outer)):
        met = [
            list(zip(axis.taps[p], axis.offsets[p], strict=True))
            for axis, p in zip(outer, phase, strict=True)
        ]
        lines = [
            (
                sum(
                    (o - a.low) * pitch
                    for (_, o), a, pitch in zip(lines, outer, pitches, strict=True)
                ),
                tuple(t for t, _ in lines[1:]),
            )
            for lines in product(*met)
        ]
        for classes in groups:
            arrays["phase_weights"].append(len(taps) * matrix)
            arrays["segment_start"].append(len(arrays["segments"]))
            for kind in classes:
                for base, above in lines:
                    for offset, mine in kind:
                        quotient, rest = divmod(offset - last.low, last.step_in)
                        where = base + rest * residue + quotient
                        arrays["segments"] += [where + channel for channel in channels]
                        taps += [(*above, tap) for tap in mine]
            counts.append(tuple(len(lines) * len(kind) for kind in classes))
            arrays["segment_counts"] += [count * len(channels) for count in counts[-1]]
    return arrays, taps, counts


def _merge(axis: AxisPhases, phases: range) -> list[list[tuple[int, list[int]]]]:
    """Return what phases read, with their taps: all of them together, then each for itself."""
    mine = [dict(zip(axis.offsets[p], axis.taps[p], strict=True)) for p in phases]
    if len(mine) == 1:
        return [[(offset, [tap]) for offset, tap in mine[0].items()]]
    shared = [offset for offset in mine[0] if all(offset in each for each in mine)]
    return [
        [(offset, [each[offset] for each in mine]) for offset in shared],
        *([(o, [tap]) for o, tap in each.items() if o not in shared] for each in mine),
    ]


def planes_block(axes: list[AxisPhases], point: int, sums: int, machine: Machine) -> list[int]:
    """Return how many points of each axis one work item takes: long lines, half of L2.

    Sums of many channels go on to the result at once, as a rule, and may be more.
    """
    sizes = [axis.end - axis.begin for axis in axes]
    block = list(sizes)

    # A region that one point nearly fills would be packed again for each of them.
    least = min(4 * point * math.prod(axis.span for axis in axes), machine.l3 // 2)

    def too_large() -> bool:
        extents = [a.step_in * (b - 1) + a.span for a, b in zip(axes, block, strict=True)]
        points = math.prod(block)
        most = machine.l2 * 9 // 20
        if points <= FEW_POINTS:
            most = max(most, least)
        read, kept = point * math.prod(extents), sums * points
        return read + min(kept, most // 2) > most or kept > machine.l3 // 16

    while max(block) > 1 and too_large():
        outer = [d for d in range(1, len(block) - 1) if block[d] > 1]
        place = 0 if block[0] > 1 else len(block) - 1
        if block[0] == 1 and outer:
            longest = max(outer, key=lambda d: block[d])
            place = len(block) - 1 if block[-1] > LONG_LINES * block[longest] else longest
        shrink(block, sizes, place)
    return block
