"""How the work of a gather is split: blocks of points, groups together, and chunks of panels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tconv.plan.blocks import choose_block, divide, phase_chunks
from tconv.plan.boxes import choose_boxes, within
from tconv.plan.machine import Machine
from tconv.plan.missed import met_share, packing_matters, sorted_axes
from tconv.plan.phases import EVERY, AxisPhases, needed_residues
from tconv.plan.tiles import VECTORS, panel_vectors, tile_rows
from tconv.problem import Operand, Problem, accumulator, numpy_dtype

MOST_STEPS = 1024  # elements that a point reads, if its tile has a list of them
SOME_STEPS = 256  # likewise, if runs of them are long
FEW_CHANNELS, SOME_CHANNELS = 8, 64  # of such a point: with any panels, and if they are small
SHARED = 128  # bytes of a group's point: less, and cache lines are mostly other groups'
ENOUGH_ITEMS = 8  # of blocks and groups, where groups could go together
LINE = 64  # bytes that memory is written by
AFAR = 4  # a problem larger than such a part of the last cache is read from there, or further


@dataclass(frozen=True, slots=True)
class Split:
    """Panels, blocks and groups of a gather, and how a block is read."""

    vectors: int  # of a panel
    panels: int
    wide: int  # panels of several vectors
    joined: bool  # whether a narrow panel goes with the last wide one
    block: list[int]
    blocks: list[int]  # how many, by axis
    chunks: int
    phase_chunks: int  # likewise, of phases of all axes but the last
    boxes: int  # that a block is split into to be read in place
    apart: bool  # whether neighbours do not lie side by side, or may be left out one by one
    at_once: int  # groups of a work item
    in_turn: int  # how many work items in a row share a block
    chosen: tuple[bool, ...]  # axes whose taps are left out where points miss them
    unpacked: bool  # whether blocks at the border are read in place too
    afar: bool  # whether what is read in place is touched in order first


def split_gather(
    problem: Problem,
    axes: list[AxisPhases],
    machine: Machine,
    *,
    whole: bool = False,
    summed: int | None = None,
) -> Split:
    """Return how the work of a gather is split.

    Of a ``whole`` one no taps are left out, and vectors run along what is read.  ``summed`` are the
    channels that a written one sums of each tap, if not all: then no tap is left out either.
    """
    lanes = machine.lanes(problem.dtype)
    depth, wanted = problem.coarse_channels, problem.fine_channels
    if problem.wanted is Operand.COARSE:
        depth, wanted = wanted, depth
    panel = VECTORS if whole or summed else panel_vectors(machine, problem.dtype, wanted)
    columns, item = panel * lanes, machine.vector_bytes // lanes
    panels = -(-wanted // columns)
    wide = panels - (0 < wanted % columns <= lanes)
    joined = 0 < wide < panels
    every = whole or summed is not None
    chosen = (False,) * len(axes) if every else tuple(sorted_axes(axes, depth, panels))
    taps = math.prod(sum(map(len, axis.taps)) for axis in axes)
    weights = taps * (summed or depth) * panels * columns * item
    first = choose_block(axes, depth * item, columns * item, machine, weights=weights)
    unpacked = not every and reads_unpacked(problem, axes, first, panels)

    def lay(groups: int) -> tuple[list[int], list[int], int, int, bool]:
        """Return a block of so many groups, how many there are, chunks, and how it is read."""
        block, point = list(first), groups * depth * item
        if unpacked or groups > 1:
            sizes_of = point, columns * item, machine
            block = choose_block(axes, *sizes_of, in_place=unpacked, weights=groups * weights)
        sizes = wide * columns if joined else wanted, columns, problem.groups // groups
        blocks, chunks = divide(block, axes, problem, sizes, machine.l3)
        if any(chosen):
            return block, blocks, chunks, 1, False
        vectors = wanted / lanes if whole else -(-wanted // lanes)
        boxes = choose_boxes(axes, block, (depth, vectors, tile_rows(machine, panel)))
        return block, blocks, chunks, boxes, boxes > 1 or all(map(within, axes))

    block, blocks, chunks, boxes, in_place = lay(1)
    # Where groups lie side by side, neighbours do not; but packed they do.
    # Lanes that sum runs of neighbours in turn must not see how a block is read, though: bits
    # of an image would depend on its company.
    apart = (in_place or whole) and problem.groups > 1 and beside(problem)
    at_once = in_turn = 1
    # Groups that share cache lines go together, or each would fetch the same from afar.
    if apart and min(depth, wanted) * item < SHARED:
        if (smaller := lay(problem.groups))[-1]:
            block, blocks, chunks, boxes, _ = smaller
        at_once = _groups_at_once(problem.groups, wanted * item, math.prod(blocks) * chunks)
        in_turn = -(-problem.groups // at_once)
    apart = apart or chosen[-1] or summed is not None
    items = -(-problem.groups // at_once) * math.prod(blocks) * chunks
    return Split(
        panel, panels, wide, joined, block, blocks, chunks, phase_chunks(problem, axes, items),
        boxes, apart, at_once, in_turn, chosen, unpacked,
        _waits(problem, axes[-1], summed) and problem.bytes() > machine.l3 // AFAR,
    )  # fmt: skip


def _waits(problem: Problem, last: AxisPhases, summed: int | None) -> bool:
    """Tell whether machines do not foresee what points read: groups in turns, or with gaps."""
    if problem.groups > 1 or summed is not None:
        return True
    return last.step_in > 1 and needed_residues(last) != EVERY


def _groups_at_once(groups: int, point: int, blocks: int) -> int:
    """Return how many groups a work item takes: all, or some that write whole cache lines."""
    few = -(-LINE // point)
    parts = max(1, min(-(-groups // few), -(-ENOUGH_ITEMS // blocks)))
    size = -(-groups // parts)
    return min(groups, -(-size // few) * few)


def goes_together(runs: tuple[int, int, int], row: int, machine: Machine) -> bool:
    """Tell whether all panels of a tile's points should be summed before other points are.

    What it stores lies side by side then, and its data stays in the first cache, if the weights
    do not drive it out.  The runs are the elements that a point reads, those of the longest run
    of neighbours, and the channels of one; then come the bytes of all panels for each element.
    """
    steps, longest, depth = runs
    few, fits = depth <= FEW_CHANNELS, steps * row <= machine.l1
    if longest <= FEW_CHANNELS and steps * row <= 2 * machine.l1:
        return steps <= MOST_STEPS  # runs end before they pay for their beginning
    return steps <= SOME_STEPS and (few or (depth <= SOME_CHANNELS and fits))


def beside(problem: Problem) -> bool:
    """Tell whether the channels that are read lie side by side."""
    return not str(problem.layout(problem.given[0])).endswith("x")


def reads_unpacked(
    problem: Problem, axes: Sequence[AxisPhases], block: Sequence[int], panels: int
) -> bool:
    """Tell whether blocks at borders are most likely read where they lie, taps left out.

    Channels lie side by side, as they are summed, and packing would take long.
    """
    depth = problem.coarse_channels
    if problem.wanted is Operand.COARSE:
        depth = problem.fine_channels
    plain = accumulator(problem.dtype) == numpy_dtype(problem.dtype)
    if not plain or not beside(problem) or not packing_matters(axes, block, panels):
        return False
    chosen = sorted_axes(axes, depth, panels)
    if any(met_share(axis) < 1 and not sorts for axis, sorts in zip(axes, chosen, strict=True)):
        return False  # taps of an axis that are not left out read zeros around the picture
    return any(chosen) and (problem.groups == 1 or chosen[-1])
