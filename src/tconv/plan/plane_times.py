"""What planes do for one image, counted by what costs time."""

import math
from collections.abc import Sequence
from dataclasses import replace

from tconv.plan.boxes import within
from tconv.plan.extent import (
    blocks_of,
    channels_last,
    needed_share,
    over_phases,
    packed_points,
    widened,
)
from tconv.plan.gather_blocks import AFAR
from tconv.plan.machine import Machine
from tconv.plan.overlap import channels_of
from tconv.plan.phases import AxisPhases, batch_phases, even_phases
from tconv.plan.planes import (
    MOST_ROWS,
    cache_keeps,
    choose_tile,
    longest,
    may_be_unpacked,
    most_rows,
    planes_block,
    taps_beside,
    tile_of,
)
from tconv.problem import Problem, numpy_dtype

FAR = 16  # planes larger than such a part of the last cache come from there, line by line
MANY_PASSES = 8  # over a result: one for each phase of the last axis, or for those that are merged
LINE, PAGE, FORESEEN = 64, 4096, 1024  # bytes: fetched at once; where foresight ends, and begins
JUMPED = 8  # times less than a page that elements lie apart, if each of them is a jump


def count_planes(problem: Problem, machine: Machine) -> dict[str, float]:
    """Return how much planes do of what has a price."""
    read, written = channels_of(problem)
    lanes, beside = machine.lanes(problem.dtype), channels_last(problem)
    axes = even_phases(problem)[1:]
    *outer, last = axes
    item, one = machine.vector_bytes // lanes, [batch_phases(1), *axes]
    rows, merged = choose_tile(written, last, machine, lanes, beside=beside)
    tiles = -(-written // rows)
    chunk = min(problem.groups, -(-2 * lanes // min(read, written)))
    block = planes_block(one, chunk * read * item, merged * chunk * written * item, machine)
    parts = max(1, -(-(last.end - last.begin) // block[-1]))

    def vectors(points: int) -> int:
        return parts * -(-points // (parts * lanes))

    lengths = [max(0, high - low) for low, high in last.ranges]
    met = zip(lengths, last.taps, strict=True)
    loaded = sum(len(taps) * vectors(length) for length, taps in met)
    loaded *= over_phases(outer, lambda taps, points: taps * points) * read * tiles
    # Points that no tap reaches are filled, unless phases are merged.
    least = 0 if merged > 1 else 1
    lines = over_phases(outer, lambda taps, points: points * (taps >= least))
    some = zip(lengths, last.taps, strict=True)
    begun = lines / merged * tiles * max(1, rows * merged / MOST_ROWS)
    begun *= sum(vectors(length) for length, taps in some if len(taps) >= least)
    packed = packed_points(axes, block, last=True) * read
    length = min(block[-1], last.size_out // last.step_out)
    every = math.prod(axis.size_out for axis in axes) * written
    stored = min(every, over_phases(axes, lambda taps, points: points * (taps >= least)) * written)
    regions = (
        packed_points(outer, block[:-1], last=True) * parts * last.step_in * needed_share(last)
    )
    share = loaded * rows / min(rows * merged, MOST_ROWS)
    afar = beside and problem.groups * every * item > machine.l3 // AFAR
    filled = "filled_afar" if afar else "filled"
    found: dict[str, float] = {"rows": loaded * rows, "vectors": share, filled: every - stored}
    if rows < written:  # tiles of fewer rows take more vectors at a time
        slower = loaded * rows * tile_of(rows, longest(last), lanes, most_rows(machine))[1]
        found |= {"rows": slower, "vectors": slower / MOST_ROWS}
    if beside:
        square = "turned" if last.step_in == 1 else "turned_residues"
        packing = square if chunk * read >= lanes and length >= lanes else "scattered"
        begun *= _squares(chunk * written, lanes)
        found |= {"staged": begun, "lines": regions, packing: packed}
    else:
        there = min(lengths) >= lanes and _in_place(problem, machine, axes, (read, tiles), merged)
        found |= {"tiles": begun, "lines": 0 if there else regions * read}
        found["residues"] = packed if last.step_in > 2 else 0  # two are shuffled
        source = problem.groups * read * item * math.prod(axis.size_in for axis in axes)
        found["far"] = packed if source > machine.l3 // FAR else 0
    few = chunk * written < lanes or length < lanes if beside else length < lanes
    found[_storing(last, merged, beside=beside, few=few)] = stored
    if last.step_out // merged >= MANY_PASSES:
        found |= _jumps(problem, machine, last, every)
    phases = math.prod(len(axis.ranges) for axis in axes) / merged
    found = {what: problem.groups * count for what, count in found.items()}
    return found | {"phases": blocks_of(axes, block) * phases}


def _jumps(problem: Problem, machine: Machine, last: AxisPhases, every: int) -> dict[str, float]:
    """Return what many passes over so many elements of a group fetch anew, jump by jump.

    That is every element, or whole lines where channels lie side by side.  Few of those are
    neighbours of each other, and many are foreseen.
    """
    item = numpy_dtype(problem.dtype).itemsize
    if problem.groups * every * item <= machine.l2:
        return {}
    if not channels_last(problem):
        return {"jumps": every * min(1, JUMPED * last.step_out * item / PAGE)}
    point = problem.groups * channels_of(problem)[1] * item
    far = point < FORESEEN
    return {"jumps_beside": far * every * item / LINE * min(1, last.step_out * point / PAGE)}


def _storing(last: AxisPhases, merged: int, *, beside: bool, few: bool) -> str:
    """Return how elements are stored: by whole vectors, or how else."""
    if merged > 1:
        return "merged_beside" if beside else "merged"
    if beside:
        return "each_beside" if few else "stored"
    return "each" if last.step_out > 1 else "short" if few else "stored"


def _squares(channels: int, lanes: int) -> float:
    """Return how much more is turned than there is, by whole squares; fewer go one by one."""
    return -(-channels // lanes) * lanes / channels if channels > lanes else 1


def _in_place(
    problem: Problem,
    machine: Machine,
    axes: Sequence[AxisPhases],
    sizes: tuple[int, int],
    merged: int,
) -> bool:
    """Tell whether planes are read where they lie; sizes are channels read, panels written.

    Those of a single image: what a batch does must not choose the algorithm, and so the bits.
    """
    problem = replace(problem, batch=1)
    apart = math.prod(axis.size_in for axis in axes) * numpy_dtype(problem.dtype).itemsize
    plain = all(map(within, axes)) and not widened(problem)
    tiles = sizes[1] * axes[-1].step_out // merged
    unpacked = plain and may_be_unpacked(problem, machine, axes[-1], tiles)
    return unpacked and cache_keeps(*sizes, taps_beside(axes[-1]), apart)
