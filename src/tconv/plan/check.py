"""A plan's tables, run as kernels run them and held against the relation.

Kernels trust a plan blindly.  Here every index that they would compute is computed again, one
output point after the other, and refused if it leaves its array, if an output is written
twice or never, or if other points meet than :meth:`Axis.fine` says.  Tests run this.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, product
from operator import add, mul, sub

from tconv.errors import InternalError
from tconv.plan import correlate, gather
from tconv.plan.correlate import Correlate
from tconv.plan.gather import Gather
from tconv.plan.plan import Plan
from tconv.problem import Axis, Operand, Problem, accumulator

RULE = "a plan writes every output once, as the relation says, and keeps to its arrays"
FIX = "please report this problem; TCONV_ENGINE=numpy works until then"

Point = tuple[int, ...]
Terms = set[tuple[Point, Point]]  # taps, and the points that they are multiplied by
Region = dict[int, Point | None]  # where a packed point begins: which it is, None for zeros
Panels = list[tuple[int, dict[int, Point]]]  # width, and where the weights of each tap begin
Reads = list[tuple[Point, int]]  # a tap, and where the point lies that it reads


def check_plan(plan: Plan, *, tile_rows: int = 1) -> None:
    """Refuse a plan that would make kernels go wrong; their tiles have ``tile_rows`` rows.

    NumPy's tap products have no tables to check, and those of planes are not checked yet.
    """
    if isinstance(plan.recipe, Gather):
        _GatherRun(plan.problem, plan.recipe).check(tile_rows)
    elif isinstance(plan.recipe, Correlate):
        _CorrelateRun(plan.problem, plan.recipe).check(tile_rows)


def _demand(holds: object, wrong: str, found: object) -> None:
    if not holds:
        raise InternalError("tconv plan", f"{wrong}.", got={"found": found}, rule=RULE, fix=FIX)


def _apart(stretches: Iterable[tuple[int, int]], end: int) -> bool:
    """Tell whether stretches lie between 0 and an end, none on another."""
    ordered = [(0, 0), *sorted(stretches), (end, end)]
    return all(stop <= start for (_, stop), (start, _) in pairwise(ordered))


def _inside(point: Sequence[int], sizes: Sequence[int]) -> bool:
    """Tell whether an array of these sizes has a point."""
    return all(0 <= p < size for p, size in zip(point, sizes, strict=True))


def _split(number: int, sizes: Sequence[int]) -> list[int]:
    """Return the digits of a running number, the last varying fastest."""
    digits = []
    for size in reversed(sizes):
        number, digit = divmod(number, size)
        digits.append(digit)
    return digits[::-1]


class _Record:
    """A record as kernels read it, but never behind the end of an array."""

    def __init__(
        self, numbers: tuple[int, ...], scalars: tuple[str, ...], arrays: tuple[str, ...]
    ) -> None:
        head = len(scalars) + len(arrays)
        borders = [*numbers[len(scalars) : head], len(numbers)]
        ordered = borders == sorted(borders) and borders[0] >= head
        _demand(ordered, "an array of the record begins inside another", borders)
        self.scalars = dict(zip(scalars, numbers, strict=False))
        self.arrays = {
            name: numbers[begin:end]
            for name, (begin, end) in zip(arrays, pairwise(borders), strict=True)
        }

    def __getattr__(self, name: str) -> int:
        """Return a number of the record."""
        return self.scalars[name]

    def at(self, name: str, index: int) -> int:
        """Return one entry of an array."""
        size = len(self.arrays[name])
        _demand(0 <= index < size, f"an index leaves the table {name}", (index, size))
        return self.arrays[name][index]

    def outer_of(self, name: str) -> list[int]:
        """Return the entries of an array for the axes but the last."""
        return [self.at(name, d) for d in range(self.outer)]


class _Scratch:
    """The parts of one worker's scratch: where each begins, and how far it is used."""

    def __init__(self, r: _Record, size: int, dtype: str) -> None:
        self.size, self.item = size, accumulator(dtype).itemsize
        parts = {name[8:]: r.scalars[name] for name in r.scalars if name.startswith("scratch_")}
        self.begins = {"region": 0, **parts}
        self.used = dict.fromkeys(self.begins, 0)

    def touch(self, part: str, end: int) -> None:
        """Note that the elements of a part before ``end`` are read or written."""
        self.used[part] = max(self.used[part], end)

    def touch_table(self, part: str, entries: int) -> None:
        """Note that a part is a table of 64-bit entries."""
        _demand(self.begins[part] * self.item % 8 == 0, "a table is not aligned", part)
        self.touch(part, -(-entries * 8 // self.item))

    def check(self) -> None:
        """Refuse parts that overlap or leave the scratch."""
        parts = [(begin, begin + self.used[part]) for part, begin in self.begins.items()]
        _demand(_apart(parts, self.size), "parts of the scratch overlap", (parts, self.size))


class _Block:
    """The points of one block: from and to, and how many, on each axis."""

    def __init__(self, starts: list[int], stops: list[int]) -> None:
        self.starts, self.stops = starts, stops
        self.counts = [*map(sub, stops, starts)]
        _demand(min(self.counts) > 0, "a block is empty", (starts, stops))


def _blocks(r: _Record, begins: list[int]) -> Iterator[_Block]:
    """Yield every block in the order of work items."""
    counts = [*r.outer_of("outer_blocks"), r.blocks]
    sizes = [*r.outer_of("outer_block"), r.block]
    ends = [*r.outer_of("ends"), r.end]
    for index in range(math.prod(counts)):
        digits = _split(index, counts)
        starts = [d * size + b for d, size, b in zip(digits, sizes, begins, strict=True)]
        stops = [min(a + size, end) for a, size, end in zip(starts, sizes, ends, strict=True)]
        yield _Block(starts, stops)


def _pack(r: _Record, block: _Block, sizes: Sequence[int], pitch: int) -> tuple[Region, int]:
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
        point = tuple(map(add, firsts, here))
        where = sum(map(mul, here, pitches))
        _demand(where not in region, "two points are packed in one place", point)
        exists = _inside(point, limits)
        _demand(not exists or _inside(point, sizes), "packing reads outside the source", point)
        region[where] = point if exists else None
    stretches = [(where, where + pitch) for where in region]
    end = max(region, default=0) + pitch
    _demand(_apart(stretches, end), "packed points overlap", extents)
    return region, end


class _GatherRun:
    """One group, block after block, as a compiled gather does it; a point's image comes first."""

    def __init__(self, problem: Problem, recipe: Gather) -> None:
        self.problem, self.recipe, self.wanted = problem, recipe, problem.wanted
        self.r = _Record(recipe.record, gather.SCALARS, gather.ARRAYS)
        self.scratch = _Scratch(self.r, recipe.scratch, problem.dtype)
        self.columns = recipe.lanes * recipe.vectors
        source = Operand.COARSE if self.wanted is Operand.FINE else Operand.FINE
        self.source = problem.batch, *problem.spatial(source)
        self.target = problem.batch, *problem.spatial(self.wanted)
        self.met = [_met(axis, self.wanted) for axis in problem.axes]
        self.written: set[Point] = set()

    def check(self, tile_rows: int) -> None:
        """Run every block, then look whether anything was left out."""
        r, problem = self.r, self.problem
        _demand(r.spare >= tile_rows - 1, "a last tile reads past its table", r.spare)
        channels = problem.coarse_channels, problem.fine_channels
        sizes = channels if self.wanted is Operand.FINE else channels[::-1]
        found = (r.outer, r.groups, r.depth, r.columns)
        due = (len(problem.axes), problem.groups, *sizes)
        _demand(found == due, "sizes are not the problem's", found)
        items = r.groups * r.chunks * r.blocks * math.prod(r.outer_of("outer_blocks"))
        _demand(self.recipe.items == items, "work items are not all blocks", self.recipe.items)
        panels = self._panels()
        reads = [self._reads(panels, both) for both in range(r.outer_phases * r.phases)]
        for block in _blocks(r, [*r.outer_of("begins"), r.begin]):
            region, end = _pack(r, block, self.source, r.depth)
            self.scratch.touch("region", end)
            for phase in range(r.outer_phases):
                self._run_phase(block, region, phase, reads[phase * r.phases :])
        missing = math.prod(self.target) - len(self.written)
        _demand(missing == 0, "outputs are never written", missing)
        self.scratch.check()

    def _panels(self) -> Panels:
        """Return how weights are packed."""
        r, recipe = self.r, self.recipe
        size, needed = r.panels_a_chunk, [*range(-(-r.columns // self.columns))]
        chunks = [range(c * size, min((c + 1) * size, r.panels)) for c in range(r.chunks)]
        taken = [panel for chunk in chunks for panel in chunk]
        _demand(taken == needed, "work items do not take every panel once", taken)
        agreed = (recipe.panels, recipe.group_weights) == (r.panels, r.group_weights)
        _demand(agreed, "weights are packed for another record", recipe.group_weights)
        panels, stretches = [], []
        for panel in taken:
            narrow = r.columns - panel * self.columns <= recipe.lanes
            _demand(narrow == (panel >= r.wide_panels), "a panel is read wider than packed", panel)
            width = recipe.lanes if narrow else self.columns
            packed = {}
            for run in recipe.runs:
                begin = run.start + panel * run.panel_step + run.first_row * width
                for tap in run.taps:
                    packed[begin] = tap
                    stretches.append((begin, begin + r.depth * width))
                    begin += r.depth * width
            panels.append((width, packed))
        _demand(_apart(stretches, r.group_weights), "packed weights overlap", r.group_weights)
        return panels

    def _reads(self, panels: Panels, both: int) -> Reads:
        """Return all that an output of a phase reads."""
        r = self.r
        depth, phase = r.at("segment_depth", both), both // r.phases
        _demand(depth % r.depth == 0, "a segment ends inside a point", depth)
        places = [
            r.at("segments", r.at("segment_start", both) + s) + start
            for s in range(r.at("segment_count", both))
            for start in range(0, depth, r.depth)
        ]
        taps: list[Point] = []
        for panel, (width, packed) in enumerate(panels):
            begin = r.at("phase_weights", phase) + panel * r.at("panel_weights", phase)
            begin += r.at("rows_before", both) * width
            lines = [begin + k * r.depth * width for k in range(len(places))]
            read = [packed[line] for line in lines if line in packed]
            _demand(len(read) == len(lines), "a tile reads weights that were not packed", both)
            _demand(panel == 0 or read == taps, "panels disagree about their taps", both)
            taps = read
        return list(zip(taps, places, strict=True))

    def _run_phase(self, block: _Block, region: Region, phase: int, reads: list[Reads]) -> None:
        """Fill tables, run tiles and store, for one phase of the outer axes."""
        r = self.r
        digits = _split(phase, r.outer_of("axis_phases"))
        entries = [d * r.most_phases + digit for d, digit in enumerate(digits)]
        outer = [*zip(block.starts, block.stops, entries, strict=False)]
        lows = [max(start, r.at("phase_low", entry)) for start, _, entry in outer]
        highs = [min(stop, r.at("phase_high", entry)) for _, stop, entry in outer]
        lines = [*product(*map(range, lows, highs))]
        sums: dict[int, Terms] = {}
        for table, terms in zip(self._tables(block, lines), reads, strict=False):
            _sum(region, 0, terms)  # what the rows of a last tile past its points read
            for row, place in table:
                _demand(place not in sums, "two outputs are summed in one place", place)
                sums[place] = _sum(region, row, terms)
                self.scratch.touch("sums", place + self.columns)
        _demand(r.nowhere not in sums, "what belongs nowhere is summed over an output", r.nowhere)
        self.scratch.touch("sums", r.nowhere + self.columns)
        if lines:
            self._store(block, lines, digits, sums)

    def _tables(self, block: _Block, lines: list[Point]) -> list[list[tuple[int, int]]]:
        """Return rows and places, by phase of the last axis and point of it."""
        r = self.r
        start, stop = block.starts[-1], block.stops[-1]
        steps = [*map(mul, r.outer_of("steps_in"), r.outer_of("pitches"))]
        table: dict[int, tuple[int, int]] = {}
        counts = []
        for x in range(r.phases):
            low, high = max(start, r.at("last_low", x)), min(stop, r.at("last_high", x))
            entries = []
            for number, line in enumerate(lines):
                outer = zip(line, block.starts, steps, strict=False)
                offset = sum((point - first) * step for point, first, step in outer)
                for here in range(low - start, high - start):
                    place = number * r.sums_pitch + x + here * r.step_out
                    entries.append((offset + here * r.step_in * r.depth, place * self.columns))
            counts.append(len(entries))
            entries += [(0, r.nowhere)] * r.spare
            for index, entry in enumerate(entries, x * r.points):
                _demand(index not in table, "two phases share an entry of the tables", index)
                table[index] = entry
        for part in ("rows", "places"):
            self.scratch.touch_table(part, max(table, default=-1) + 1)
        self.scratch.touch_table("counts", r.phases)
        return [[table[x * r.points + k] for k in range(n)] for x, n in enumerate(counts)]

    def _store(
        self, block: _Block, lines: list[Point], digits: list[int], sums: dict[int, Terms]
    ) -> None:
        """Write lines out, all phases of the last axis side by side."""
        r = self.r
        origin = block.starts[-1] * r.step_out + r.shift_out
        begin = max(-origin, 0)
        length = min(block.counts[-1] * r.step_out, r.size_out - origin) - begin
        steps, shifts = r.outer_of("steps_out"), r.outer_of("shifts_out")
        for number, line in enumerate(lines):
            outer = zip(line, steps, shifts, digits, strict=True)
            target = [point * step + shift + digit for point, step, shift, digit in outer]
            for x in range(begin, begin + length):
                point = (*target, origin + x)
                _demand(_inside(point, self.target), "a store leaves the target", point)
                _demand(point not in self.written, "an output is written twice", point)
                self.written.add(point)
                place = (number * r.sums_pitch + x) * self.columns
                _demand(place in sums, "an output is stored that was not summed", point)
                met = product(*(met[p] for met, p in zip(self.met, point[1:], strict=True)))
                due = {(tuple(t for t, _ in m), (point[0], *(i for _, i in m))) for m in met}
                _demand(sums[place] == due, f"the sum of {point} is not the relation's", due)


def _met(axis: Axis, wanted: Operand) -> list[list[tuple[int, int]]]:
    """Return by output the taps of one axis that meet it, each with the point that it reads."""
    outputs = axis.fine_size if wanted is Operand.FINE else axis.coarse_size
    met: list[list[tuple[int, int]]] = [[] for _ in range(outputs)]
    for coarse, tap in product(range(axis.coarse_size), range(axis.taps)):
        fine = axis.fine(coarse, tap)
        if fine is not None:
            output, read = (fine, coarse) if wanted is Operand.FINE else (coarse, fine)
            met[output].append((tap, read))
    return met


def _sum(region: Region, row: int, reads: Reads) -> Terms:
    """Return what one sum is made of; zeros add nothing."""
    wrong = [row + place for _, place in reads if row + place not in region]
    _demand(not wrong, "a tile reads what was not packed", wrong)
    terms = [(tap, point) for tap, place in reads if (point := region[row + place]) is not None]
    _demand(len(set(terms)) == len(terms), "a term is added twice", terms)
    return set(terms)


class _CorrelateRun:
    """One group, block after block, as a compiled correlation does it; the same order."""

    def __init__(self, problem: Problem, recipe: Correlate) -> None:
        self.problem, self.recipe, self.columns = problem, recipe, recipe.lanes * recipe.vectors
        self.r = _Record(recipe.record, correlate.SCALARS, correlate.ARRAYS)
        self.scratch = _Scratch(self.r, recipe.scratch, problem.dtype)
        self.coarse = problem.batch, *problem.spatial(Operand.COARSE)
        self.fine = problem.batch, *problem.spatial(Operand.FINE)
        self.seen: set[Point] = set()

    def check(self, tile_rows: int) -> None:
        """Run every block for all taps, then look whether anything was left out."""
        r, problem, recipe = self.r, self.problem, self.recipe
        taps = (*product(*(range(axis.taps) for axis in problem.axes)),)
        _demand(recipe.taps == taps and r.taps == len(taps), "taps are not all stored once", r.taps)
        found = (r.outer, r.rows, r.depth)
        due = (len(problem.axes), problem.coarse_channels, problem.fine_channels)
        _demand(found == due, "sizes are not the problem's", found)
        _demand(recipe.items == problem.groups * r.chunks, "items are not all chunks", recipe.items)
        whole = r.chunks == -(-r.rows // r.chunk_rows)
        _demand(whole, "chunks do not take every row once", (r.chunks, r.chunk_rows, r.rows))
        _demand(r.chunk_rows % tile_rows == 0, "a chunk ends inside a tile", r.chunk_rows)
        left = r.depth - (r.panels - 1) * self.columns
        _demand(0 < left <= self.columns, "panels do not take every channel once", r.panels)
        wide = r.panels - (left <= recipe.lanes)
        _demand(r.wide_panels == wide, "a panel is read wider than packed", r.wide_panels)
        blocks = [*_blocks(r, [0] * (r.outer + 1))]
        _demand(r.all_blocks == len(blocks), "not every block is visited", r.all_blocks)
        for block in blocks:
            self._run_block(block, taps)
        missing = math.prod(self.coarse) - len(self.seen)
        _demand(missing == 0, "points are never summed", missing)
        self.scratch.touch("sums", r.taps * r.chunk_rows * r.panels * self.columns)
        self.scratch.touch_table("rows", r.chunk_rows)
        self.scratch.check()

    def _run_block(self, block: _Block, taps: tuple[Point, ...]) -> None:
        """Multiply the coarse points of a block by what every tap reads."""
        r = self.r
        region, end = _pack(r, block, self.fine, self.columns)
        _demand(end <= r.region, "panels of the region overlap", (end, r.region))
        self.scratch.touch("region", (r.panels - 1) * r.region + end)
        steps = [*map(mul, r.outer_of("steps_in"), r.outer_of("pitches"))]
        steps.append(r.step_in * self.columns)
        self.scratch.touch("planes", math.prod(block.counts) * min(r.rows, r.chunk_rows))
        for part in ("lines", "other"):
            self.scratch.touch_table(part, math.prod(block.counts[:-1]))
        for here in product(*map(range, block.counts)):
            point = tuple(map(add, block.starts, here))
            _demand(_inside(point, self.coarse), "packing reads outside the coarse array", point)
            _demand(point not in self.seen, "a point is summed twice", point)
            self.seen.add(point)
            offset = sum(map(mul, here, steps))
            for number, tap in enumerate(taps):
                place = offset + r.at("tap_offsets", number)
                _demand(place in region, "a tile reads what was not packed", (point, tap))
                met = [*map(Axis.fine, self.problem.axes, point[1:], tap)]
                due = None if None in met else (point[0], *met)
                _demand(region[place] == due, f"{point} meets another point by {tap}", due)
