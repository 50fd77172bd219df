"""About how long each algorithm takes for one image, in nanoseconds of one core.

What kernels will do is counted by what costs time: vectors multiplied, runs of channels begun,
elements packed and stored in one way or another, at the prices of :mod:`tconv.plan.prices`.
They are for one image, so that its bits do not depend on its company.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import product

from tconv.plan.blocks import choose_block
from tconv.plan.boxes import choose_boxes, within
from tconv.plan.cells import cell_columns, neighbours_of
from tconv.plan.extent import (
    blocks_of,
    channels_last,
    multiplied,
    needed_share,
    over_phases,
    packed_points,
    widened,
)
from tconv.plan.gather_blocks import goes_together, reads_unpacked
from tconv.plan.machine import Machine
from tconv.plan.missed import multiplied_share
from tconv.plan.overlap import MIXED, channels_of, products_of
from tconv.plan.phases import AxisPhases, all_phases, batch_phases, even_phases
from tconv.plan.plane_times import count_planes
from tconv.plan.prices import OF_VECTORS, PRICES
from tconv.plan.stretches import ROWS
from tconv.plan.tiles import tile_rows, whole_tiles
from tconv.problem import Problem

LINE = 64  # bytes that memory is read by
QUARTER = 16  # bytes of a vector that are shuffled at once
NEAR = 2  # times the second cache: larger images come from afar
SHORT_LINES = 1.7  # times that lines of a few vectors take longer: most have one that overlaps
LOADED = 1.6  # multiplied vectors in the time of one that is loaded, about
LARGE, FEW_VECTORS = 8, 3  # parts of the last cache; of a line that a page is read for
WAITS = 1.057  # of two stages: several workers wait for each other between them

Counts = dict[str, float]


@lru_cache(maxsize=16)  # the best of each width of vectors is compared once more
def estimate(name: str, problem: Problem, machine: Machine) -> float:
    """Return about how long an algorithm takes."""
    prices, turns = PRICES[name], machine.turns
    time = sum(
        prices[what][machine.long] * count * (turns if what in OF_VECTORS[name] else 1)
        for what, count in COUNTS[name](problem, machine).items()
    )
    return time * (WAITS if name == "overlap" else 1)


def residues_of(problem: Problem) -> list[Counter[int]]:
    """Return how many taps of each axis read each residue of its step."""
    return [
        Counter(offset % axis.step_in for phase in axis.offsets for offset in phase)
        for axis in even_phases(problem)[1:]
    ]


def _gather(problem: Problem, machine: Machine) -> Counts:
    read, written = channels_of(problem)
    lanes, beside = machine.lanes(problem.dtype), channels_last(problem)
    axes = all_phases(problem)[1:]
    *outer, last = axes
    item, one = machine.vector_bytes // lanes, [batch_phases(1), *axes]
    block = choose_block(one, read * item, 2 * lanes * item, machine)
    panels, rest = -(-written // (2 * lanes)), written % (2 * lanes)
    single, groups = 0 < rest <= lanes, problem.groups
    met, every = multiplied(axes), over_phases(axes, lambda _, points: points)
    # Lines that no tap reaches are filled.
    points = over_phases(outer, lambda taps, points: points * (taps > 0))
    points *= over_phases([last], lambda _, points: points)
    runs = over_phases(outer, lambda taps, points: taps * points) * sum(
        max(0, high - low) * _runs(offsets)
        for (low, high), offsets in zip(last.ranges, last.offsets, strict=True)
    )
    left = multiplied_share(axes, read, panels)
    if left == 1 and _listed(axes, read, panels * 2 * lanes * item, machine):
        runs = 0
    found: Counts = {
        **_vectors(left * met * read, panels, machine, single=single),
        "runs": left * runs * panels,
        "points": points * panels,
        "filled": (every - points) * written,
        "phases": blocks_of(axes, block) * over_phases(axes, lambda _, points: points > 0),
    }
    packed = packed_points(axes, block) * read
    if beside:
        sizes = read, -(-written // lanes), tile_rows(machine)
        boxes = 1 if all(map(within, axes)) else choose_boxes(one, block, sizes)
        if not widened(problem) and (boxes > 1 or all(map(within, axes))):
            packed = 0
        if reads_unpacked(problem, one, block, panels):
            packed = 0
        source = math.prod(axis.size_in for axis in axes)
        # Groups of one panel that are read in place take turns at what they share, but for those
        # at the end that would reach into others' channels.
        ends = min(1, (lanes - 1) // written / groups)
        turns = groups > 1 and panels == 1 and packed == 0 and ends < 1
        ends = ends if turns else 1
        near = last.step_in == 1 or groups * source * read * item <= NEAR * machine.l2
        touched = _touched(axes, read * item) if groups > 1 and not (turns and near) else 0
        shared = 0.0  # lines of the result that each group writes a part of, from afar
        large = groups * every * written * item > machine.l3 // LARGE
        if groups > 1 and not turns and written * item % LINE and large:
            shared = every * (1 + written * item / LINE)
        found |= {
            "copied": packed,
            "filled_points": every - points,
            "runs": found["runs"] * (not turns),
            "phases": found["phases"] * (boxes if turns else 1),
            "lines": touched if near else 0,
            "far_lines": shared + (0 if near else touched),
            "staged": points * ends if written < lanes or widened(problem) else 0,
        }
    else:
        found["turned" if read >= lanes else "scattered"] = packed
        found["stored" if last.size_out >= lanes else "stored_apart"] = points * written
    return {what: groups * count for what, count in found.items()}


def _woven(problem: Problem, machine: Machine) -> Counts:
    read, written = channels_of(problem)
    lanes, groups = machine.lanes(problem.dtype), problem.groups
    axes = all_phases(problem)[1:]
    item, one = machine.vector_bytes // lanes, [batch_phases(1), *axes]
    block = choose_block(one, groups * read * item, 2 * lanes * item, machine)
    vectors = -(-groups * written // lanes)
    points = over_phases(axes, lambda taps, points: points * (taps > 0))
    every = over_phases(axes, lambda _, points: points)
    boxes = choose_boxes(one, block, (groups * read, vectors, tile_rows(machine)))
    in_place = not widened(problem) and (boxes > 1 or all(map(within, axes)))
    # Channels of short groups are spread within quarters of a vector, if those are read so.
    even = written * item <= QUARTER and read & (read - 1) == 0
    spread = "spread" if even else "crossed"
    if written == lanes:
        spread = "pairs" if machine.doubled else "each"
    loaded = multiplied(axes) * vectors
    return {
        spread: loaded * read,
        "loaded": loaded,
        "points": points * -(-vectors // 2),
        "filled": (every - points) * groups * written,
        "copied": 0 if in_place else packed_points(axes, block) * groups * read,
        "staged": points * -(-vectors // 2) if widened(problem) else 0,
        "phases": blocks_of(axes, block) * over_phases(axes, lambda _, points: points > 0),
    }


def _dots(problem: Problem, machine: Machine) -> Counts:
    read, written = channels_of(problem)
    lanes, groups = machine.lanes(problem.dtype), problem.groups
    axes = all_phases(problem)[1:]
    *outer, last = axes
    item, one = machine.vector_bytes // lanes, [batch_phases(1), *axes]
    block = choose_block(one, read * item, 2 * lanes * item, machine)
    sizes = read, written / lanes, tile_rows(machine)
    boxes = 1 if all(map(within, axes)) else choose_boxes(one, block, sizes)
    in_place = not widened(problem) and (boxes > 1 or all(map(within, axes)))
    every = over_phases(axes, lambda _, points: points)
    source = math.prod(axis.size_in for axis in axes)
    far = groups * source * read * item > NEAR * machine.l2
    lines = over_phases(outer, lambda taps, points: taps * points)
    runs = vectors = 0
    for (low, high), offsets in zip(last.ranges, last.offsets, strict=True):
        count = len(offsets) if groups > 1 else _runs(offsets)
        some = max(0, high - low) * count
        runs += some
        vectors += some * -(-read * len(offsets) // max(1, count) // lanes)
    short = SHORT_LINES if read < lanes else 1
    found: Counts = {
        "multiplied": short * lines * vectors * max(written, LOADED),
        "runs": short * lines * runs,
        "points": every,
        "sums": every * written,
        "copied": 0 if in_place else packed_points(axes, block) * read,
        "far_lines" if far else "lines": _touched(axes, read * item) if groups > 1 else 0,
        "phases": blocks_of(axes, block) * boxes * over_phases(axes, lambda _, points: points > 0),
    }
    return {what: groups * count for what, count in found.items()}


def _grouped(problem: Problem, machine: Machine) -> Counts:
    read, written = channels_of(problem)
    lanes = machine.lanes(problem.dtype)
    *outer, last = axes = all_phases(problem)[1:]
    lengths = [max(0, high - low) for low, high in last.ranges]
    shared = {1, last.step_in}
    apart = any(len(some) > 1 and some[1] - some[0] not in shared for some in last.offsets)
    swept = over_phases(outer, lambda taps, points: taps * points)
    phases = sum(length > 0 for length in lengths)
    vectors = swept * read * written
    vectors *= sum(
        len(taps) * max(length, ROWS)
        for length, taps in zip(lengths, last.taps, strict=True)
        if length
    )
    source = math.prod(axis.size_in for axis in axes) * read
    found = {
        "vectors": vectors,
        "apart": vectors * apart,
        "sweeps": over_phases(outer, lambda _, points: points) * phases * written,
        "rows": swept * phases * written * read,
        "copied" if channels_last(problem) and read == 1 else "turned": source,
        "stored": math.prod(axis.size_out for axis in axes) * written,
    }
    whole = -(-problem.groups // lanes) * lanes
    return {what: whole * count for what, count in found.items()}


def _overlap(problem: Problem, machine: Machine) -> Counts:
    read, written = channels_of(problem)
    lanes = machine.lanes(problem.dtype)
    *outer, last = axes = even_phases(problem)[1:]
    points = math.prod(-(-axis.size_in // axis.step_in) for axis in axes)
    rows = products_of(problem) // points // problem.groups
    lines = math.prod(axis.size_out for axis in outer)
    # Taps of each residue of the strides have points and tiles of their own.
    taps = [math.prod(each) for each in product(*(r.values() for r in residues_of(problem)))]
    tiles = sum(whole_tiles(each * written, tile_rows(machine)) for each in taps)
    vectors = points / lanes
    residues = "_residues" if any(axis.step_in > 1 for axis in axes) else ""
    phases = "_phases" if last.step_out > 1 else ""
    beside = channels_last(problem)
    found = {
        "vectors": vectors * tiles * read,
        "tiles": vectors * tiles,
        ("copied" if beside else "turned") + residues: vectors * len(taps) * read,
        "folded": vectors * rows,
        "lines": lines * written * last.step_out,
        ("stored" if beside else "beside") + phases: lines * last.size_out * written,
    }
    if not beside and last.step_out not in {1, *MIXED}:
        found["crossed"] = lines * last.size_out * written
    length, image = -(-last.size_in // last.step_in), math.prod(axis.size_in for axis in axes)
    moved = vectors * len(taps) * read if residues and beside else 0
    found["short"] = moved * (length < lanes)
    source = problem.groups * image * read * machine.vector_bytes // lanes
    large = source > machine.l3 // LARGE
    found["far"] = moved * (large and length < FEW_VECTORS * lanes)
    return {what: problem.groups * count for what, count in found.items()} | {"stages": 1}


def _cells(problem: Problem, machine: Machine) -> Counts:
    read, written = channels_of(problem)
    lanes, beside = machine.lanes(problem.dtype), channels_last(problem)
    axes, columns = all_phases(problem)[1:], cell_columns(problem)
    panels, single = -(-columns // (2 * lanes)), 0 < columns % (2 * lanes) <= lanes
    points = math.prod(axis.end - axis.begin for axis in axes)
    vectors = points * neighbours_of(problem) * read
    stored = math.prod(axis.size_out for axis in axes) * written
    return {
        **_vectors(vectors, panels, machine, single=single),
        "points": points * panels,
        "runs": stored / (axes[-1].step_out * (written if beside else 1)),
        "stored" if beside else "stored_apart": stored,
        "begin": 1,
    }


COUNTS: Mapping[str, Callable[[Problem, Machine], Counts]] = {
    "gather": _gather,
    "dots": _dots,
    "woven": _woven,
    "planes": count_planes,
    "grouped": _grouped,
    "overlap": _overlap,
    "cells": _cells,
}
"""By algorithm: what is done for one image."""


def _vectors(products: float, panels: int, machine: Machine, *, single: bool) -> Counts:
    """Return how many vectors of panels are multiplied; a last panel may have a single one.

    One vector a row is too few sums to hide how long an addition takes; unless each takes twice as
    long.
    """
    if machine.doubled:
        return {"pairs": products * (2 * panels - single)}
    return {"pairs": products * 2 * (panels - single), "singles": products * single}


def _runs(offsets: Sequence[int]) -> int:
    """Return how many runs taps make that read at these offsets: one, where all are neighbours."""
    together = len(offsets) > 0 and offsets[-1] - offsets[0] < len(offsets)
    return 1 if together else len(offsets)


def _listed(axes: Sequence[AxisPhases], read: int, row: int, machine: Machine) -> bool:
    """Tell whether a tile has a list of all that its points read: runs do not begin there."""
    taps = math.prod(max(map(len, axis.taps)) for axis in axes)
    long = max(len(offsets) // max(1, _runs(offsets)) for offsets in axes[-1].offsets)
    return goes_together((taps * read, long * read, read), row, machine)


def _touched(axes: Sequence[AxisPhases], point: int) -> float:
    """Return how many cache lines of the source a group's points touch, of so many bytes each."""
    return math.prod(axis.size_in * needed_share(axis) for axis in axes) * (1 + point / LINE)
