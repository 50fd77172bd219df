"""Results of a smaller problem, spread among blanks.

A worker computes a part of it into memory of its own, and spreads that from one end to the other,
which takes about as long as to write it.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tconv.plan.extent import channels_last
from tconv.plan.gather import Scratch, make_record
from tconv.plan.machine import Machine
from tconv.plan.smaller import Smaller, SpreadAxis
from tconv.problem import Problem, numpy_dtype

if TYPE_CHECKING:
    from tconv.plan.plan import Plan

SCALARS = (
    "target_g", "target_c", "target_x", "target_row",  # element steps, by each call
    "way",  # how chunks are written, by each call
    "compact_image", "compact_channel",  # element steps of the smaller result
    "outer",  # spatial axes but the last two
    "channels", "planes", "unit",  # written; those that lie apart, and those of a point
    "rows", "row_chunks", "row_chunk",  # lines that follow one another, so many at a time
    "size", "x_chunks", "x_chunk", "shift",  # points of a line; the first chunk is so much shorter
    "step", "cell",  # elements from cell to cell of the result, and of the smaller one
    "entries",  # runs of elements
    "mixed", "mixed_low", "mixed_high", "base",  # points of a cell; which cells, where they begin
    "blanks", "period",  # whether there are any; elements of them that vectors repeat
    "chunks",  # of all images of the part
    "scratch_stage", "scratch_pattern", "scratch_blank",
    "activate", "slope", "zeros",  # by each runner
)  # fmt: skip
"""The numbers of the record of a part, in order."""

ARRAYS = (
    "target_steps",  # of images and all spatial axes but the last, filled in by each call
    "sizes",  # of the outer ones
    "tables",  # by axis, of the lines' too: where its list begins in the next
    "places",  # by point: where the smaller result has it, -1 for nowhere
    "entry_read", "entry_write", "entry_count", "entry_length",
    "entry_cell",  # the first one's among those that are mixed
    "cell_reads",  # by point of a cell: where it is read, NOWHERE if it is blank
)  # fmt: skip
"""The arrays of a record; a number tells where in the record each begins."""

FIELDS = {name: place for place, name in enumerate((*SCALARS, *ARRAYS))}

HEAD_SCALARS = (
    "source", "target", "weights", "bias",  # addresses, filled in by each call
    "call",  # a number of its own, by each call
    "numbered",  # whether the smaller problem's kernel wants one
    "parts",  # of an image, or of all of them
    "source_image", "target_image",  # bytes from image to image
    "behind",  # bytes from the bias as the smaller problem reads it to the bias as it is
    "scratch_compact", "scratch_record", "scratch_spread",
)  # fmt: skip
"""The numbers of the record of all parts, in order."""

HEAD_ARRAYS = (
    "part_variant", "part_read", "part_write",  # by part: bytes
    # by variant: where the records of a part and of the smaller problem begin,
    "variant_record", "inner_record", "inner_words",
    "inner_kernel", "inner_items",  # and what runs that,
    "inner_bytes",  # and what of the source is touched in order before, from afar
    "records",
)  # fmt: skip
"""The arrays of that record."""

HEAD_FIELDS = {name: place for place, name in enumerate((*HEAD_SCALARS, *HEAD_ARRAYS))}

MOST_PARTS = 1 << 20  # numbers of their own of each call

IN_PLACE, PAST, APART = range(3)  # ways: into the target, past the caches, element by element

NONE = -1
NOWHERE = -1 << 62
MIXED = (2, 3, 4)  # points of a cell that are mixed by whole vectors, not one by one
CHUNK = 16 << 10  # bytes that are put together before they are written
LINE = 64  # bytes
SHORT_PATTERN, LONG_PATTERN = 64, 256  # elements of blanks: made for each chunk, or once for all
CELL = 64  # points of a line that is copied as it is


@dataclass(frozen=True, slots=True)
class Variant:
    """All that a part needs to know, but addresses; parts of one variant are alike."""

    problem: Problem
    record: tuple[int, ...]
    inner: "Plan"
    compact: int  # elements of the smaller result
    scratch: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Parts of a spread result."""

    lanes: int
    variants: tuple[Variant, ...]
    parts: tuple[tuple[int, int, int], ...]  # variant, and where it reads and writes: images,
    axis: int | None  # or points of an axis
    taps: tuple[int, ...]  # that are channels of the smaller problem
    touched: bool  # whether a part's images are touched in order before they are read
    items: int


@dataclass(frozen=True, slots=True)
class _Reads:
    """How far apart the smaller result has things, in elements."""

    image: int
    channel: int  # where they lie apart
    cells: tuple[int, ...]  # by axis
    taps: tuple[int, ...]


def _reads(problem: Problem, smaller: Smaller) -> _Reads:
    """Return where the smaller result has its cells and taps."""
    beside = channels_last(problem)
    channels = problem.groups * problem.fine_channels
    sizes = [axis.axis.fine_size for axis in smaller.axes]
    every = math.prod(sizes)
    unit = channels if beside else 1
    if not smaller.taps:
        points = [unit * math.prod(sizes[place + 1 :]) for place in range(len(sizes))]
        cells = [
            point * len(axis.offsets) for point, axis in zip(points, smaller.axes, strict=True)
        ]
        image = every * channels
        return _Reads(image, 0 if beside else every, tuple(cells), tuple(points))
    taps = smaller.taps
    whole = math.prod(taps)
    point, plane = (whole * channels, 1) if beside else (1, every)
    return _Reads(
        image=every * whole * channels,
        channel=0 if beside else every,
        cells=tuple(point * math.prod(sizes[place + 1 :]) for place in range(len(sizes))),
        taps=tuple(channels * plane * math.prod(taps[place + 1 :]) for place in range(len(sizes))),
    )


@dataclass(frozen=True, slots=True)
class Chunks:
    """Parts of a result that are put together before they are written."""

    plain: bool  # whether lines are copied as they are
    step: int  # points from cell to cell
    shift: int  # points that the first one is shorter by
    rows: int
    row_chunk: int  # lines of a chunk
    row_chunks: int
    x_chunk: int  # points of a line
    x_chunks: int
    count: int  # of an image


def chunks_of(problem: Problem, smaller: Smaller) -> Chunks:
    """Return the chunks of an image: some lines, or a part of one."""
    item, beside = numpy_dtype(problem.dtype).itemsize, channels_last(problem)
    channels = problem.groups * problem.fine_channels
    planes, unit = (1, channels) if beside else (channels, 1)
    last = smaller.axes[-1]
    *above, size = (axis.fine_size for axis in problem.axes)
    rows = above[-1] if above else 1
    line = size * unit * item
    row_chunk = max(1, min(rows, CHUNK // line))
    # A line that is copied as it is may be cut anywhere, others where a cell begins.
    whole = last.step == 1 and last.range_of(0) == range(size)
    plain = whole and _reads(problem, smaller).cells[-1] == unit
    step = CELL if plain else last.step
    shift = -last.offsets[0] % step
    cells = -(-(size + shift) // step)
    if line > CHUNK:
        cells = max(1, min(cells, CHUNK // (unit * item * step)))
    x_chunk = cells * step
    x_chunks = -(-(size + shift) // x_chunk)
    row_chunks = -(-rows // row_chunk)
    count = planes * math.prod(above[:-1]) * row_chunks * x_chunks
    return Chunks(plain, step, shift, rows, row_chunk, row_chunks, x_chunk, x_chunks, count)


def plan_variant(
    problem: Problem, machine: Machine, smaller: Smaller, inner: "Plan", *, past: bool
) -> Variant:
    """Lay out chunks and tables for a part of FINE, which may go past the caches."""
    lanes, beside = machine.lanes(problem.dtype), channels_last(problem)
    item = numpy_dtype(problem.dtype).itemsize
    channels = problem.groups * problem.fine_channels
    planes, unit = (1, channels) if beside else (channels, 1)
    reads = _reads(problem, smaller)
    *outer, last = smaller.axes
    *above, size = (axis.fine_size for axis in problem.axes)
    chunks = chunks_of(problem, smaller)
    plain, step, shift = chunks.plain, chunks.step, chunks.shift
    ends = reads.cells[-1], reads.taps[-1]
    entries = _copied(size, unit) if plain else _entries(last, ends, unit)
    mix = _Mix(0, range(0), 0, ())
    if step in MIXED and reads.cells[-1] == 1 and not (beside or plain):
        mix = _mixed(last, ends)
    repeated = math.lcm(unit, lanes)
    repeated *= -(-(LONG_PATTERN if beside else SHORT_PATTERN) // repeated)
    scratch = Scratch(machine.vector_bytes // lanes)
    lists = [
        _places(axis, reads.cells[place], reads.taps[place]) for place, axis in enumerate(outer)
    ] or [[0]]
    numbers = {
        "way": PAST if past else IN_PLACE,
        "compact_image": reads.image,
        "compact_channel": reads.channel,
        "outer": max(0, len(outer) - 1),
        "channels": channels,
        "planes": planes,
        "unit": unit,
        "rows": chunks.rows,
        "row_chunks": chunks.row_chunks,
        "row_chunk": chunks.row_chunk,
        "size": size,
        "x_chunks": chunks.x_chunks,
        "x_chunk": chunks.x_chunk,
        "shift": shift,
        "step": step * unit,
        "cell": CELL * unit if plain else reads.cells[-1],
        "entries": len(entries),
        "mixed": mix.points,
        "mixed_low": mix.cells.start,
        "mixed_high": mix.cells.stop,
        "base": mix.base,
        "blanks": int(smaller.blanks),
        "period": repeated,
        "chunks": problem.batch * chunks.count,
        "scratch_stage": scratch.take(
            chunks.row_chunk * min(chunks.x_chunk, size) * unit + 2 * LINE // item
        ),
        "scratch_pattern": scratch.take(repeated + LINE // item + unit),
        "scratch_blank": scratch.take(channels + lanes),
    }
    arrays = {
        "target_steps": [0] * len(smaller.axes),
        "sizes": above[:-1],
        "tables": [sum(map(len, lists[:at])) for at in range(len(lists))],
        "places": [place for some in lists for place in some],
        **{f"entry_{name}": [getattr(entry, name) for entry in entries] for name in ENTRY},
        "cell_reads": list(mix.reads),
    }
    return Variant(
        problem=problem,
        record=make_record(SCALARS, ARRAYS, numbers, arrays),
        inner=inner,
        compact=problem.batch * reads.image,
        scratch=scratch.size,
    )


def _places(axis: SpreadAxis, cell: int, tap: int) -> list[int]:
    """Return where the smaller result has each point of an axis, if it does.

    So far apart are its cells and taps.
    """
    found = [NONE] * axis.size
    for which, offset in enumerate(axis.offsets):
        for each in axis.range_of(which):
            found[axis.step * each + offset] = cell * each + tap * (which - axis.first)
    return found


ENTRY = "read", "write", "count", "length", "cell"


@dataclass(frozen=True, slots=True)
class Entry:
    """Runs of elements, each a cell further than the one before."""

    read: int
    write: int
    count: int
    length: int
    cell: int = 0  # of the first one, among those that are mixed


def _entries(axis: SpreadAxis, steps: tuple[int, int], unit: int) -> list[Entry]:
    """Return the runs of a line.

    Taps that follow one another, in the smaller result and in this one, are one run.
    """
    cell, tap = steps
    ranges = [axis.range_of(which) for which in range(len(axis.offsets))]
    low, high = max(each.start for each in ranges), min(each.stop for each in ranges)
    begin = axis.offsets[0]
    follow = tap == unit and axis.offsets == tuple(range(begin, begin + len(ranges)))

    def entry(which: int, cells: range, taps: int = 1) -> Entry:
        read = cell * cells.start + tap * (which - axis.first)
        write = axis.step * cells.start + axis.offsets[which]
        later = (axis.offsets[which] - begin) // axis.step
        return Entry(read, write * unit, len(cells), taps * unit, cells.start + later)

    if not follow or len(ranges) == 1 or low >= high:
        return [entry(which, each) for which, each in enumerate(ranges) if each]
    found = [entry(0, range(low, high), len(ranges))]
    for which, each in enumerate(ranges):
        for cells in (range(each.start, low), range(high, each.stop)):
            found += [entry(which, cells)] if cells else []
    return found


def _copied(size: int, unit: int) -> list[Entry]:
    """Return the runs of a line that is copied as it is."""
    whole, rest = divmod(size, CELL)
    found = [Entry(0, 0, whole, CELL * unit)] if whole else []
    behind = whole * CELL * unit
    return found + ([Entry(behind, behind, 1, rest * unit)] if rest else [])


@dataclass(frozen=True, slots=True)
class _Mix:
    """Cells whose points come from one line for each tap, or are blank."""

    points: int
    cells: range
    base: int  # where the first of all cells begins
    reads: tuple[int, ...]


def _mixed(axis: SpreadAxis, steps: tuple[int, int]) -> _Mix:
    """Return which cells of a line have all their taps, and what goes where in them."""
    cell, tap = steps
    base, step = axis.offsets[0], axis.step
    low, high = max(0, -(base // step)), (axis.size - base) // step
    reads = [NOWHERE] * step
    for which, offset in enumerate(axis.offsets):
        later, inside = divmod(offset - base, step)
        reads[inside] = tap * (which - axis.first) - cell * later
        met = axis.range_of(which)
        low, high = max(low, met.start + later), min(high, met.stop + later)
    return _Mix(step, range(low, max(low, high)), base, tuple(reads))
