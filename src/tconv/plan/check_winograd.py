"""The tables of Winograd's algorithm, run as kernels run them and held against the relation.

A form multiplies the data at spot ``output + tap`` of a patch by each tap: that the matrices
do so is proved with them.  Here it is proved that the spots are the points they should be.
"""

import math
from itertools import product
from operator import mul

from tconv.plan import winograd

# What a record is, and what a block packs, is the same for every algorithm.
from tconv.plan.check_record import (
    Block,
    Point,
    Record,
    Region,
    Scratch,
    Terms,
    all_blocks,
    apart,
    demand,
    digits_of,
    inside,
    met_by,
    pack_region,
)
from tconv.plan.winograd import Winograd
from tconv.problem import Operand, Problem


def check_winograd(problem: Problem, recipe: Winograd, *, tile_rows: int = 1) -> None:
    """Refuse a plan that would make kernels go wrong; their tiles have ``tile_rows`` rows."""
    _Run(problem, recipe).check(tile_rows)


class _Run:
    """One group, block after block, as the kernel does it; a point's image comes first."""

    def __init__(self, problem: Problem, recipe: Winograd) -> None:
        self.problem, self.recipe = problem, recipe
        self.r = Record(recipe.record, winograd.SCALARS, winograd.ARRAYS)
        self.scratch = Scratch(self.r, recipe.scratch, problem.dtype)
        self.columns = recipe.lanes * recipe.vectors
        source = Operand.COARSE if problem.wanted is Operand.FINE else Operand.FINE
        self.source = problem.batch, *problem.spatial(source)
        self.target = problem.batch, *problem.spatial(problem.wanted)
        self.met = [met_by(axis, problem.wanted) for axis in problem.axes]
        self.outputs = [*product(*(range(form.outputs) for form in recipe.forms))]
        self.taps = [*product(*(range(form.taps) for form in recipe.forms))]
        self.points = math.prod(form.points for form in recipe.forms)
        self.written: set[Point] = set()

    def check(self, tile_rows: int) -> None:
        """Run every block, then look whether anything was left out."""
        r = self.r
        demand(r.spare >= tile_rows - 1, "a last tile reads past its table", r.spare)
        demand(max(tile_rows, self.columns) <= winograd.ZEROS, "sums start from no zeros", 0)
        boxes = r.groups * r.blocks * math.prod(r.outer_of("outer_blocks"))
        demand(self.recipe.items == boxes * r.chunks, "work items are not all blocks", boxes)
        self._check_stages(boxes)
        taken = min(r.chunks * r.panels_a_chunk, r.panels) * self.columns
        demand(taken >= r.columns, "panels do not take every channel", taken)
        size = self.recipe.slice
        whole = size >= r.panels or (size > 0 and size % r.panels_a_chunk == 0)
        demand(whole and r.first_panel == 0, "a slice ends inside a chunk", size)
        demand(size >= r.panels or self.recipe.staged, "slices transform data again", size)
        self._check_weights()
        for block in all_blocks(r, [*r.outer_of("begins"), r.begin]):
            region, end = pack_region(r, block, self.source, r.slab)
            self.scratch.touch("region", end)
            patches = self._patches(block)
            for phase in range(r.outer_phases):
                self._run_phase(block, region, patches, phase)
        missing = math.prod(self.target) - len(self.written)
        demand(missing == 0, "outputs are never written", missing)
        self.scratch.check()

    def _check_stages(self, boxes: int) -> None:
        """See that rounds are all boxes, slabs all channels, and parts the whole depth."""
        r, recipe = self.r, self.recipe
        found = (recipe.boxes, recipe.chunks, recipe.slabs, r.boxes, r.first_box, r.stage)
        due = (boxes, r.chunks, r.slabs, boxes, 0, winograd.WHOLE)
        demand(found == due, "stages have other numbers than the record", found)
        demand(r.slabs * r.slab >= r.depth, "slabs do not take every channel", r.slab)
        demand(r.slab % recipe.lanes == 0, "a slab ends inside a vector", r.slab)
        for part in range(r.parts):
            places = [r.at("part_places", part * (r.outer + 1) + d) for d in range(r.outer + 1)]
            steps = [*r.outer_of("pitches"), r.slab]
            begin = r.at("part_reads", part)
            demand(sum(map(mul, places, steps)) == begin, "a part begins elsewhere", places)
        demand(min(r.part_segments, r.part_depth) > 0, "a part is empty", r.part_depth)
        whole = r.part_segments == 1 or r.part_depth >= r.depth
        demand(whole, "a part of a segment is taken for all of it", r.part_segments)
        demand(self.points * r.point_pitch <= r.slot, "boxes share data", r.slot)
        if recipe.staged:
            demand(recipe.round > 0, "a round has no boxes", recipe.round)
            demand(recipe.round * r.slot <= recipe.shared, "boxes leave shared memory", r.slot)

    def _check_weights(self) -> None:
        """See that the rows of each matrix are those that segments read, in their order."""
        r, recipe = self.r, self.recipe
        demand(
            recipe.group_weights == r.group_weights, "weights have another size", r.group_weights
        )
        matrices = []
        for both, phase in enumerate(recipe.phase_weights):
            for point in range(self.points):
                rows = {entry.rows[point]: part for part, entry in enumerate(phase)}
                rows.pop(None, None)
                entry = both * self.points + point
                start = r.at("segment_start", entry)
                count = r.at("segment_count", entry)
                read = [r.at("segments", start + s) for s in range(count)]
                packed = [rows.get(row, -1) * r.part_pitch for row in range(len(rows))]
                demand(read == packed, "a product reads other parts than its weights", entry)
                begin = r.at("matrix_start", entry)
                matrices.append((begin, begin + count * recipe.slice * r.depth * self.columns))
                demand(
                    r.at("matrix_next", entry) in range(len(recipe.phase_weights) * self.points),
                    "what comes next is no product", entry,
                )  # fmt: skip
        used = [(begin, end) for begin, end in matrices if begin < end]
        demand(apart(used, r.group_weights), "weights overlap", used)

    def _patches(self, block: Block) -> list[tuple[int, int]]:
        """Return where each patch reads and writes; look whether its rows have room."""
        r = self.r
        axes = range(r.outer + 1)
        sizes = [r.at("patch_points", d) for d in axes]
        demand(
            all(n % size == 0 for n, size in zip(block.counts, sizes, strict=True)),
            "a block ends inside a patch", block.counts,
        )  # fmt: skip
        counts = [n // size for n, size in zip(block.counts, sizes, strict=True)]
        made = []
        for index in range(math.prod(counts)):
            read = write = 0
            for d, here in zip(axes, digits_of(index, counts), strict=True):
                apart = r.at("aparts", d)
                point = here + here // apart * apart * (sizes[d] - 1)
                read += point * r.at("read_steps", d)
                write += point * r.at("write_steps", d)
            made.append((read, write))
        count = len(made)
        demand(count * r.row_pitch <= r.point_pitch, "points share rows", count)
        demand(r.parts * r.part_pitch <= r.row_pitch, "parts share a row", r.row_pitch)
        demand(r.nowhere >= count * self.columns, "what belongs nowhere is a product", count)
        demand(r.nowhere + self.columns <= r.product_pitch, "points share products", count)
        demand(self.points * r.product_pitch <= r.panel_pitch, "panels share products", count)
        if not self.recipe.staged:
            self.scratch.touch("data", self.points * r.point_pitch)
        self.scratch.touch("products", r.phases * r.panels_a_pass * r.panel_pitch)
        for part, entries in (
            ("rows", count + r.spare), ("places", count + r.spare), ("reads", count),
            ("writes", count), ("images", count), ("zeros", winograd.ZEROS),
            ("points", count * len(axes)), ("targets", count * r.phases),
            ("lists", winograd.LISTS * self.points),
        ):  # fmt: skip
            self.scratch.touch_table(part, entries)
        self.scratch.touch("nothing", r.part_pitch)
        self.scratch.touch("nowhere", self.columns)
        return made

    def _run_phase(
        self, block: Block, region: Region, patches: list[tuple[int, int]], phase: int
    ) -> None:
        """Sum and store one phase of the outer axes, every phase of the last one."""
        r = self.r
        digits = digits_of(phase, r.outer_of("axis_phases"))
        entries = [d * r.most_phases + digit for d, digit in enumerate(digits)]
        outer = [*zip(block.starts, block.stops, entries, strict=False)]
        lows = [max(start, r.at("phase_low", entry)) for start, _, entry in outer]
        highs = [min(stop, r.at("phase_high", entry)) for _, stop, entry in outer]
        lines = [*product(*map(range, lows, highs))]
        sums: dict[int, Terms] = {}
        if not lines:
            return
        steps = [r.at("patch_writes", d) for d in range(r.outer)]
        for x in range(r.phases):
            shift = x * (r.at("write_steps", r.outer) // r.step_out)
            for read, write in patches:
                for output in self.outputs:
                    place = write + shift + sum(map(mul, output, steps))
                    demand(place not in sums, "two outputs are summed in one place", place)
                    sums[place] = self._terms(region, read, output, phase * r.phases + x)
                    self.scratch.touch("sums", place + self.columns)
        self._store(block, lines, digits, sums)

    def _terms(self, region: Region, read: int, output: Point, both: int) -> Terms:
        """Return what one output is made of; zeros add nothing."""
        steps = [self.r.at("patch_reads", d) for d in range(self.r.outer)]
        terms: Terms = set()
        for part, entry in enumerate(self.recipe.phase_weights[both]):
            begin = read + self.r.at("part_reads", part)
            for spot, tap in zip(self.taps, entry.taps, strict=True):
                place = begin + sum((o + s) * step for o, s, step in zip(output, spot, steps))  # noqa: B905 - as many as axes
                demand(place in region, "a patch reads what was not packed", place)
                point = region[place]
                if tap is not None and point is not None:
                    terms.add((tap, point))
        return terms

    def _store(
        self, block: Block, lines: list[Point], digits: list[int], sums: dict[int, Terms]
    ) -> None:
        """Write lines out, all phases of the last axis side by side."""
        r = self.r
        origin = block.starts[-1] * r.step_out + r.shift_out
        begin = max(-origin, 0)
        length = min(block.counts[-1] * r.step_out, r.size_out - origin) - begin
        steps, shifts = r.outer_of("steps_out"), r.outer_of("shifts_out")
        for line in lines:
            outer = zip(line, steps, shifts, digits, strict=True)
            target = [point * step + shift + digit for point, step, shift, digit in outer]
            read = sum(
                (point - start) * r.at("write_steps", d)
                for d, (point, start) in enumerate(zip(line, block.starts, strict=False))
            )
            for x in range(begin, begin + length):
                point = (*target, origin + x)
                demand(inside(point, self.target), "a store leaves the target", point)
                demand(point not in self.written, "an output is written twice", point)
                self.written.add(point)
                place = read + x * self.columns
                demand(place in sums, "an output is stored that was not summed", point)
                met = product(*(met[p] for met, p in zip(self.met, point[1:], strict=True)))
                due = {(tuple(t for t, _ in m), (point[0], *(i for _, i in m))) for m in met}
                demand(sums[place] == due, f"the sum of {point} is not the relation's", due)
