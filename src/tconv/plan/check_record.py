"""What all checks of plans share: a record read as kernels read it, its blocks and its scratch."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, product
from operator import add, mul, sub

import numpy as np
import numpy.typing as npt

from tconv.errors import InternalError
from tconv.plan.phases import EVERY
from tconv.plan.planes import Planes
from tconv.plan.strips import Strips
from tconv.problem import Axis, Operand, Problem, accumulator

RULE = "a plan writes every output once, as the relation says, and keeps to its arrays"
FIX = "please report this problem; TCONV_ENGINE=numpy works until then"

Point = tuple[int, ...]
Table = npt.NDArray[np.int64]
Terms = set[tuple[Point, Point]]  # taps, and the points that they are multiplied by
Region = dict[int, Point | None]  # where a packed point begins: which it is, None for zeros
Reads = list[tuple[Point, int]]  # a tap, and where the point lies that it reads


def demand(holds: object, wrong: str, found: object) -> None:
    """Refuse the plan unless something holds."""
    if not holds:
        raise InternalError("tconv plan", f"{wrong}.", got={"found": found}, rule=RULE, fix=FIX)


def apart(stretches: Iterable[tuple[int, int]], end: int) -> bool:
    """Tell whether stretches lie between 0 and an end, none on another."""
    ordered = [(0, 0), *sorted(stretches), (end, end)]
    return all(stop <= start for (_, stop), (start, _) in pairwise(ordered))


def inside(point: Sequence[int], sizes: Sequence[int]) -> bool:
    """Tell whether an array of these sizes has a point."""
    return all(0 <= p < size for p, size in zip(point, sizes, strict=True))


def digits_of(number: int, sizes: Sequence[int]) -> list[int]:
    """Return the digits of a running number, the last varying fastest."""
    digits = []
    for size in reversed(sizes):
        number, digit = divmod(number, size)
        digits.append(digit)
    return digits[::-1]


class Record:
    """A record as kernels read it, but never behind the end of an array."""

    def __init__(
        self, numbers: tuple[int, ...], scalars: tuple[str, ...], arrays: tuple[str, ...]
    ) -> None:
        head = len(scalars) + len(arrays)
        borders = [*numbers[len(scalars) : head], len(numbers)]
        ordered = borders == sorted(borders) and borders[0] >= head
        demand(ordered, "an array of the record begins inside another", borders)
        self.scalars = dict(zip(scalars, numbers, strict=False))
        self.arrays = {
            name: numbers[begin:end]
            for name, (begin, end) in zip(arrays, pairwise(borders), strict=True)
        }

    def __getattr__(self, name: str) -> int:
        """Return a number of the record."""
        return self.scalars[name]

    def positive(self, *names: str) -> None:
        """Refuse numbers that kernels divide by, or count with, and that are none."""
        for name in names:
            demand(self.scalars[name] > 0, f"the number {name} is not positive", self.scalars[name])

    def at(self, name: str, index: int) -> int:
        """Return one entry of an array."""
        size = len(self.arrays[name])
        demand(0 <= index < size, f"an index leaves the table {name}", (index, size))
        return self.arrays[name][index]

    def part(self, name: str, first: int, count: int) -> Table:
        """Return entries of an array that lie side by side."""
        size = len(self.arrays[name])
        whole = first >= 0 and first + count <= size
        demand(whole, f"an index leaves the table {name}", (first + count, size))
        return np.array(self.arrays[name][first : first + count], np.int64)

    def outer_of(self, name: str) -> list[int]:
        """Return the entries of an array for the axes but the last."""
        return [self.at(name, d) for d in range(self.outer)]

    def room(self, sizes: dict[str, int]) -> None:
        """Refuse arrays that calls fill in if they have not the room for it."""
        for name, due in sizes.items():
            found = len(self.arrays[name])
            demand(found == due, f"calls fill in another number of {name}", (found, due))


class Scratch:
    """The parts of one worker's scratch: where each begins, and how far it is used."""

    def __init__(self, r: Record, size: int, dtype: str) -> None:
        self.size, self.item = size, accumulator(dtype).itemsize
        parts = {name[8:]: r.scalars[name] for name in r.scalars if name.startswith("scratch_")}
        self.begins = {"region": 0, **parts}
        self.used = dict.fromkeys(self.begins, 0)

    def touch(self, part: str, end: int) -> None:
        """Note that the elements of a part before ``end`` are read or written."""
        self.used[part] = max(self.used[part], end)

    def touch_table(self, part: str, entries: int) -> None:
        """Note that a part is a table of 64-bit entries."""
        demand(self.begins[part] * self.item % 8 == 0, "a table is not aligned", part)
        self.touch(part, -(-entries * 8 // self.item))

    def check(self) -> None:
        """Refuse parts that overlap or leave the scratch."""
        parts = [
            (begin, begin + self.used[part])
            for part, begin in self.begins.items()
            if self.used[part]
        ]
        demand(apart(parts, self.size), "parts of the scratch overlap", (parts, self.size))


class Block:
    """The points of one block: from and to, and how many, on each axis."""

    def __init__(self, starts: list[int], stops: list[int]) -> None:
        self.starts, self.stops = starts, stops
        self.counts = [*map(sub, stops, starts)]
        demand(min(self.counts) > 0, "a block is empty", (starts, stops))


def all_blocks(r: Record, begins: list[int]) -> Iterator[Block]:
    """Yield every block in the order of work items."""
    counts = [*r.outer_of("outer_blocks"), r.blocks]
    sizes = [*r.outer_of("outer_block"), r.block]
    ends = [*r.outer_of("ends"), r.end]
    demand(min(counts) > 0, "an axis has no blocks", counts)
    for index in range(math.prod(counts)):
        digits = digits_of(index, counts)
        starts = [d * size + b for d, size, b in zip(digits, sizes, begins, strict=True)]
        stops = [min(a + size, end) for a, size, end in zip(starts, sizes, ends, strict=True)]
        yield Block(starts, stops)


def pack_region(r: Record, block: Block, sizes: Sequence[int], pitch: int) -> tuple[Region, int]:
    """Return what a block reads of an array of these sizes, points a pitch apart, and its end."""
    steps = [*r.outer_of("steps_in"), r.step_in]
    spans = [*r.outer_of("spans"), r.span]
    lows = [*r.outer_of("lows_in"), r.low_in]
    limits = [*r.outer_of("sizes_in"), r.size_in]
    pitches = [*r.outer_of("pitches"), pitch]
    extents = [(n - 1) * step + s for n, step, s in zip(block.counts, steps, spans, strict=True)]
    firsts = [a * step + low for a, step, low in zip(block.starts, steps, lows, strict=True)]
    region: Region = {}
    for here in product(*map(range, extents)):
        if "needed" in r.arrays and not needs_line(r, here):
            continue
        point = tuple(map(add, firsts, here))
        where = sum(map(mul, here, pitches))
        demand(where not in region, "two points are packed in one place", point)
        exists = inside(point, limits)
        demand(not exists or inside(point, sizes), "packing reads outside the source", point)
        region[where] = point if exists else None
    stretches = [(where, where + pitch) for where in region]
    end = max(region, default=0) + pitch
    demand(apart(stretches, end), "packed points overlap", extents)
    return region, end


def needs_line(r: Record, here: Sequence[int]) -> bool:
    """Tell whether a line of the region is packed, by its place on outer axes."""
    steps = r.outer_of("steps_in")
    demand(min(steps) > 0, "an axis has no step", steps)
    numbers = zip(r.outer_of("needed"), steps, here, strict=False)
    return all(is_needed(bits, place % step) for bits, step, place in numbers)


def is_needed(bits: int, residue: int) -> bool:
    """Tell whether a residue is packed."""
    return bits == EVERY or bits >> residue & 1 == 1


def phase_lines(r: Record, block: Block, phase: int) -> tuple[list[int], list[Point], list[int]]:
    """Return a phase of each outer axis, its lines in a block, and where each reads."""
    counts = r.outer_of("axis_phases")
    demand(min(counts) > 0, "an axis has no phases", counts)
    digits = digits_of(phase, counts)
    entries = [d * r.most_phases + digit for d, digit in enumerate(digits)]
    outer = [*zip(block.starts, block.stops, entries, strict=False)]
    lows = [max(start, r.at("phase_low", entry)) for start, _, entry in outer]
    highs = [min(stop, r.at("phase_high", entry)) for _, stop, entry in outer]
    lines = [*product(*map(range, lows, highs))]
    steps = [*map(mul, r.outer_of("steps_in"), r.outer_of("pitches"))]
    offsets = [
        sum((p - first) * step for p, first, step in zip(line, block.starts, steps, strict=False))
        for line in lines
    ]
    return digits, lines, offsets


def target_line(r: Record, line: Point, digits: list[int]) -> Point:
    """Return where a line of a phase is written, on all axes but the last."""
    outer = zip(line, r.outer_of("steps_out"), r.outer_of("shifts_out"), digits, strict=True)
    return tuple(point * step + shift + digit for point, step, shift, digit in outer)


def sum_terms(region: Region, row: int, reads: Reads) -> Terms:
    """Return what one sum is made of; zeros add nothing."""
    wrong = [row + place for _, place in reads if row + place not in region]
    demand(not wrong, "a tile reads what was not packed", wrong)
    terms = [(tap, point) for tap, place in reads if (point := region[row + place]) is not None]
    demand(len(set(terms)) == len(terms), "a term is added twice", terms)
    return set(terms)


class Outputs:
    """The points of FINE or COARSE: which are written, and what each is the sum of."""

    def __init__(self, sizes: Point, axes: tuple[Axis, ...], wanted: Operand) -> None:
        self.sizes = sizes
        self.met = [met_by(axis, wanted) for axis in axes]
        self.written: set[Point] = set()

    def store(self, point: Point, terms: Terms) -> None:
        """Note that a point is written with a sum."""
        demand(inside(point, self.sizes), "a store leaves the target", point)
        demand(point not in self.written, "an output is written twice", point)
        self.written.add(point)
        met = product(*(met[p] for met, p in zip(self.met, point[1:], strict=True)))
        due = {(tuple(t for t, _ in m), (point[0], *(i for _, i in m))) for m in met}
        demand(terms == due, f"the sum of {point} is not the relation's", due)

    def check(self) -> None:
        """Refuse outputs that were left out."""
        missing = math.prod(self.sizes) - len(self.written)
        demand(missing == 0, "outputs are never written", missing)


def met_by(axis: Axis, wanted: Operand) -> list[list[tuple[int, int]]]:
    """Return by output the taps of one axis that meet it, each with the point that it reads."""
    outputs = axis.fine_size if wanted is Operand.FINE else axis.coarse_size
    met: list[list[tuple[int, int]]] = [[] for _ in range(outputs)]
    for coarse, tap in product(range(axis.coarse_size), range(axis.taps)):
        fine = axis.fine(coarse, tap)
        if fine is not None:
            output, read = (fine, coarse) if wanted is Operand.FINE else (coarse, fine)
            met[output].append((tap, read))
    return met


class DataRun:
    """What runs of FINE or COARSE by chunks of groups share: record, scratch, source, outputs."""

    def __init__(
        self,
        problem: Problem,
        recipe: Planes | Strips,
        names: tuple[tuple[str, ...], tuple[str, ...]],
    ) -> None:
        self.problem = problem
        self.r = Record(recipe.record, *names)
        self.scratch = Scratch(self.r, recipe.scratch, problem.dtype)
        source = Operand.COARSE if problem.wanted is Operand.FINE else Operand.FINE
        self.source: Point = problem.batch, *problem.spatial(source)
        target = problem.batch, *problem.spatial(problem.wanted)
        self.outputs = Outputs(target, problem.axes, problem.wanted)

    def check_sizes(self, items: int) -> list[int]:
        """Refuse sizes that are not the problem's; return how many groups chunks have."""
        r, problem = self.r, self.problem
        channels = problem.coarse_channels, problem.fine_channels
        sizes = channels if problem.wanted is Operand.FINE else channels[::-1]
        found = (r.outer, r.groups, r.depth, r.columns)
        due = (len(problem.axes), problem.groups, *sizes)
        demand(found == due, "sizes are not the problem's", found)
        r.room(dict.fromkeys(("source_steps", "target_steps"), r.outer))
        r.positive("chunk", "chunks", "step_in", "phases", "outer_phases")
        chunks = [min(r.groups - chunk * r.chunk, r.chunk) for chunk in range(r.chunks)]
        whole = min(chunks) > 0 and sum(chunks) == r.groups
        demand(whole, "chunks do not take every group once", chunks)
        every = r.chunks * r.blocks * math.prod(r.outer_of("outer_blocks"))
        demand(items == every, "work items are not all blocks", items)
        return chunks
