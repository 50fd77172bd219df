"""The tables of grouped layers, run as kernels run them and held against the relation.

The same as :mod:`tconv.plan.check` does for gathers: every index that a kernel would compute is
computed again and refused if it is not what :meth:`Axis.fine` says.
"""

import math
from collections.abc import Sequence
from itertools import pairwise, product
from operator import add, mul

from tconv.plan import grouped, grouped_weights
from tconv.plan.check_record import (
    Block,
    Point,
    Terms,
    apart,
    demand,
    digits_of,
    inside,
    met_by,
    pack_region,
)
from tconv.plan.check_record import Record as PlanRecord
from tconv.plan.check_record import Scratch as ScratchParts
from tconv.plan.check_record import all_blocks as blocks_of
from tconv.plan.grouped import MEETING, MOST_LINES, Grouped
from tconv.plan.grouped_weights import KINDS, GroupedWeights
from tconv.plan.stretches import ANY, ROWS, Meeting
from tconv.problem import Axis, Operand, Problem


def check_grouped(problem: Problem, recipe: Grouped) -> None:
    """Refuse a plan that would make kernels of FINE or COARSE go wrong."""
    _GroupedRun(problem, recipe).check()


def _check_panels(r: PlanRecord, problem: Problem, lanes: int) -> None:
    """Refuse panels that leave out groups, or chunks that leave out panels."""
    demand(problem.groups == r.groups, "groups are not the problem's", r.groups)
    demand(r.panels == -(-r.groups // lanes), "panels do not take every group", r.panels)
    taken = range(0, r.panels, r.panels_a_chunk)
    demand(r.chunks == len(taken), "chunks do not take every panel once", r.chunks)
    halves = problem.dtype == grouped.PAIRED and r.chunks > 1 and r.panels_a_chunk % 2
    demand(not halves, "a chunk ends between two panels that are a pair", r.panels_a_chunk)
    demand(r.width >= r.panels_a_chunk * lanes, "packed panels overlap", r.width)


class _GroupedRun:
    """All blocks of one chunk, packed and in place; a point's image comes first."""

    def __init__(self, problem: Problem, recipe: Grouped) -> None:
        self.problem, self.recipe, self.wanted = problem, recipe, problem.wanted
        self.r = PlanRecord(recipe.record, grouped.SCALARS, grouped.ARRAYS)
        self.scratch = ScratchParts(self.r, recipe.scratch, problem.dtype)
        source = Operand.COARSE if self.wanted is Operand.FINE else Operand.FINE
        self.source = problem.batch, *problem.spatial(source)
        self.target = problem.batch, *problem.spatial(self.wanted)
        self.met = [met_by(axis, self.wanted) for axis in problem.axes]
        self.written: set[Point] = set()
        self.all_taps: list[Meeting] = []  # by phase of the last axis
        self.in_place: dict[tuple[int, int], Meeting] = {}  # by point and phase of it

    def check(self) -> None:
        """Run every block, then look whether anything was left out."""
        r, problem, lanes = self.r, self.problem, self.recipe.lanes
        _check_panels(r, problem, lanes)
        channels = problem.coarse_channels, problem.fine_channels
        sizes = channels if self.wanted is Operand.FINE else channels[::-1]
        found = (r.outer, r.depth, r.columns)
        demand(found == (len(problem.axes), *sizes), "sizes are not the problem's", found)
        items = r.chunks * r.blocks * math.prod(r.outer_of("outer_blocks"))
        demand(self.recipe.items == items, "work items are not all blocks", self.recipe.items)
        self._check_meetings()
        phases = range(r.outer_phases * r.phases)
        stretches = [self._weights(both) for both in phases]
        demand(apart(stretches, r.panel_weights), "packed weights overlap", stretches)
        demand(r.together > 0, "no points are summed together", r.together)
        demand(r.panel_weights == self.recipe.panel_weights, "weights are packed for another", 0)
        for block in blocks_of(r, [*r.outer_of("begins"), r.begin]):
            self._check_straight(block)
            region, end = pack_region(r, block, self.source, r.depth * r.width)
            more = (ROWS - 1) * r.step_in * r.depth * r.width  # fast kernels read a tile at least
            self.scratch.touch("region", end + more)
            for phase in range(r.outer_phases):
                self._run_phase(block, region, phase)
        missing = math.prod(self.target) - len(self.written)
        demand(missing == 0, "outputs are never written", missing)
        self.scratch.check()

    def _check_straight(self, block: Block) -> None:
        """Refuse sums that would be written where they belong, and others beside them."""
        r = self.r
        if not r.straight:
            return
        whole = r.groups % self.recipe.lanes == 0 and r.columns == 1
        demand(whole, "sums written straight are no whole vectors", (r.groups, r.columns))
        for x in range(r.phases):
            low, high = r.at("last_low", x), r.at("last_high", x)
            count = min(block.stops[-1], high) - max(block.starts[-1], low)
            demand(count >= ROWS, "a line written straight is shorter than a tile", count)

    def _weights(self, both: int) -> tuple[int, int]:
        """Return where the packed weights of a phase lie."""
        r, run = self.r, self.recipe.runs[both]
        taps = sum(map(len, run))
        counts = r.at("outer_count", both // r.phases), self.all_taps[both % r.phases].taps
        demand(taps == math.prod(counts), "taps are counted wrong", (taps, counts))
        begin = r.at("phase_weights", both)
        return begin, begin + taps * r.depth * r.columns * self.recipe.lanes

    def _meeting(self, name: str, place: int, kind: int) -> Meeting:
        """Read a meeting; refuse one that its kernel cannot take."""
        r, lanes = self.r, self.recipe.lanes
        offset, phase, taps, weights, row = (r.at(name, place + i) for i in range(len(MEETING)))
        demand(0 <= phase < r.phases and taps >= 0, "there is no such phase", phase)
        demand(0 <= kind < len(self.recipe.kinds), "there is no such kernel", kind)
        chosen = self.recipe.kinds[kind]
        fits = taps % chosen.taps == 0 if chosen.cut else taps == chosen.taps
        demand(fits, "a kernel takes other taps at once", (taps, chosen))
        known = chosen.ratio == 0 or r.step_in == chosen.ratio * r.apart
        if chosen.spread:  # as many points lie between two that share taps
            known = chosen.ratio == 1 and r.apart > r.step_in and r.apart % r.step_in == 0
        demand(known, "a kernel's step is another", (r.step_in, r.apart))
        skipped, between = divmod(weights, lanes)
        demand(between == 0 <= skipped, "a weight is read between vectors", weights)
        widths = [len(run[0]) for run in self.recipe.runs[phase :: r.phases] if run] or [0]
        demand(row == widths[0] * lanes, "rows of weights lie elsewhere", row)
        demand(skipped + taps <= widths[0], "a weight is read that was not packed", weights)
        return Meeting(offset, phase, taps, skipped)

    def _check_meetings(self) -> None:
        """Read what points meet, packed and in place, where every point has all its phases."""
        r = self.r
        demand(self.recipe.kinds[0] == ANY, "the first kernel does not take anything", 0)
        r.room({"kernels": len(self.recipe.kinds) * (MOST_LINES + 1)})
        for x in range(r.phases):
            found = self._meeting("packed_meetings", x * len(MEETING), r.at("last_kind", x))
            demand(found.phase == x and found.skipped == 0, "a phase is another's", found)
            self.all_taps.append(found)
        for stretch in range(r.stretches):
            points = range(r.at("stretch_low", stretch), r.at("stretch_high", stretch))
            first = r.at("stretch_start", stretch)
            for kind in range(first, first + r.at("stretch_count", stretch)):
                start = r.at("kind_start", kind)
                for i in range(r.at("kind_count", kind)):
                    found = self._meeting("meetings", start + i * len(MEETING), r.at("kind", kind))
                    places = {(q, found.phase) for q in points}
                    again = places & self.in_place.keys()
                    demand(not again, "points are summed twice in place", again)
                    self.in_place |= dict.fromkeys(places, found)
        due = {
            (q, x)
            for x in range(r.phases)
            for q in range(r.at("last_low", x), r.at("last_high", x))
        }
        whole = r.stretches == 0 or due == self.in_place.keys()
        demand(whole, "points in place are not all points", due ^ self.in_place.keys())

    def _run_phase(self, block: Block, region: dict[int, Point | None], phase: int) -> None:
        """Sum and store every point of one phase of the outer axes."""
        r = self.r
        digits = digits_of(phase, r.outer_of("axis_phases"))
        entries = [d * r.most_phases + digit for d, digit in enumerate(digits)]
        outer = [*zip(block.starts, block.stops, entries, strict=False)]
        lows = [max(start, r.at("phase_low", entry)) for start, _, entry in outer]
        highs = [min(stop, r.at("phase_high", entry)) for _, stop, entry in outer]
        for line, x in product(product(*map(range, lows, highs)), range(r.phases)):
            low = max(block.starts[-1], r.at("last_low", x))
            high = min(block.stops[-1], r.at("last_high", x))
            both = phase * r.phases + x
            for q in range(low, high):
                here = [q - start for q, start in zip((*line, q), block.starts, strict=True)]
                steps = [*r.outer_of("steps_out"), r.step_out]
                shifts = [*r.outer_of("shifts_out"), r.shift_out]
                moved = map(add, map(mul, (*line, q), steps), shifts)
                point = tuple(map(add, moved, (*digits, x)))
                self._store(point, here[-1] * r.step_out + x)
                due = self._due(point)
                found = self._packed(region, both, here)
                demand(found == due, f"the packed sum of {point} is not the relation's", due)
                if r.stretches:
                    found = self._direct(both, (*line, q))
                    demand(found == due, f"the sum of {point} in place is not the relation's", due)

    def _store(self, point: Point, place: int) -> None:
        """Note that an output is written, from its place in a line of sums."""
        r = self.r
        demand(inside(point, self.target), "a store leaves the target", point)
        demand(point not in self.written, "an output is written twice", point)
        self.written.add(point)
        most = max(1, r.stage) * self.recipe.lanes * r.columns
        rest = (ROWS - 1) * r.step_out
        self.scratch.touch("sums", (place + rest + 1) * most)

    def _due(self, point: Point) -> Terms:
        met = product(*(met[p] for met, p in zip(self.met, point[1:], strict=True)))
        return {(tuple(t for t, _ in m), (point[0], *(i for _, i in m))) for m in met}

    def _tap(self, both: int, weight: int) -> tuple[Point, int]:
        """Return the tap and the channel whose weight lies there."""
        run, lanes = self.recipe.runs[both], self.recipe.lanes
        demand(weight % lanes == 0 and weight >= 0, "a weight is read between vectors", weight)
        last = len(run[0]) if run else 1
        rest, tap = divmod(weight // lanes, last)
        outer, channel = divmod(rest, self.r.depth)
        demand(outer < len(run), "a weight is read that was not packed", weight)
        return run[outer][tap], channel

    def _packed(self, region: dict[int, Point | None], both: int, here: Sequence[int]) -> Terms:
        """Return what the sum of a packed point is made of; zeros add nothing."""
        r = self.r
        phase, x = divmod(both, r.phases)
        point, meeting = r.depth * r.width, self.all_taps[x]
        taps = meeting.taps
        steps = [*map(mul, r.outer_of("steps_in"), r.outer_of("pitches")), r.step_in * point]
        origin = sum(map(mul, here, steps)) + meeting.offset * point
        terms: list[tuple[tuple[Point, Point], int]] = []
        rows = r.at("outer_count", phase) * r.depth
        for row, t in product(range(rows), range(taps)):
            entry = r.at("row_start", phase) + 2 * row
            place = origin + r.at("table", entry) + t * r.apart * point
            channel, where = place % point // r.width, place // point * point
            known = where in region and place % r.width == 0
            demand(known, "a kernel reads what was not packed", place)
            weight = r.at("table", entry + 1) * taps + t
            tap, due = self._tap(both, weight * self.recipe.lanes)
            demand(channel == due, "a weight meets another channel", (channel, due))
            read = region[where]
            if read is not None:
                terms.append(((tap, read), channel))
        demand(len(set(terms)) == len(terms), "a term is added twice", terms)
        found = {term for term, _ in terms}
        demand(len(terms) == len(found) * r.depth, "a channel is left out", terms)
        return found

    def _direct(self, both: int, point: Point) -> Terms:
        """Return what the sum of a point is made of where nothing is packed."""
        r = self.r
        phase, x = divmod(both, r.phases)
        sizes = [*r.outer_of("sizes_in"), r.size_in]
        demand(sizes == [*self.source], "sizes of the source are not the problem's", sizes)
        begins = [*map(mul, point, [*r.outer_of("steps_in"), r.step_in])]
        meeting = self.in_place[point[-1], x]
        terms = set()
        for outer, t in product(range(r.at("outer_count", phase)), range(meeting.taps)):
            start = r.at("outer_start", phase) + outer * r.outer
            offsets = [r.at("outer_offsets", start + d) for d in range(r.outer)]
            offsets.append(meeting.offset + t * r.apart)
            read = tuple(map(add, begins, offsets))
            demand(0 <= read[-1] < r.size_in, "a kernel reads past a line's end", read)
            if inside(read, sizes):
                terms.add((self.recipe.runs[both][outer][meeting.skipped + t], read))
        entries = r.at("outer_count", phase)
        self.scratch.touch_table("outer", 2 * entries)
        return terms


def check_grouped_weights(problem: Problem, recipe: GroupedWeights) -> None:
    """Refuse a plan that would make kernels of WEIGHTS go wrong."""
    r = PlanRecord(recipe.record, grouped_weights.SCALARS, grouped_weights.ARRAYS)
    scratch = ScratchParts(r, recipe.scratch, problem.dtype)
    _check_panels(r, problem, recipe.lanes)
    found = (r.outer, r.rows, r.depth)
    due = (len(problem.axes), problem.coarse_channels, problem.fine_channels)
    demand(found == due, "sizes are not the problem's", found)
    demand(recipe.items == r.chunks * r.parts, "items are not all parts", recipe.items)
    demand(recipe.parts == r.parts, "parts are added that are not there", recipe.parts)
    demand(recipe.stores == (r.panels if r.parts > 1 else 0), "sums are not stored", recipe.stores)
    sums = r.parts * r.panels * r.rows * r.depth * r.taps * recipe.lanes
    demand(recipe.common == sums, "there is no room for all sums", recipe.common)
    blocks = [*blocks_of(r, [0] * (r.outer + 1))]
    demand(r.all_blocks == len(blocks), "not every block is visited", r.all_blocks)
    borders = [r.all_blocks * part // r.parts for part in range(r.parts + 1)]
    demand(all(a < b for a, b in pairwise(borders)), "a part has no blocks", borders)
    taps = _weights_taps(r, problem)
    demand(recipe.taps == tuple(taps), "taps are not all stored once", recipe.taps)
    coarse, fine = (
        (problem.batch, *problem.spatial(operand)) for operand in (Operand.COARSE, Operand.FINE)
    )
    seen: set[Point] = set()
    for block in blocks:
        region, end = pack_region(r, block, fine, r.depth * r.width)
        scratch.touch("region", end)
        pitches = [*r.outer_of("coarse_pitches"), r.rows * r.width]
        for here in product(*map(range, block.counts)):
            point = tuple(map(add, block.starts, here))
            demand(inside(point, coarse), "a point is read outside the coarse array", point)
            demand(point not in seen, "a point is summed twice", point)
            seen.add(point)
            scratch.touch("coarse", sum(map(mul, here, pitches)) + pitches[-1])
            packed = set(region.values())
            for tap, offsets in taps.items():
                steps = [*r.outer_of("steps_in"), r.step_in]
                read = tuple(map(add, map(mul, point, steps), offsets))
                met = [*map(Axis.fine, problem.axes, point[1:], tap)]
                wanted = None if None in met else (point[0], *met)
                sizes = [*r.outer_of("sizes_in"), r.size_in]
                mine = read if inside(read, sizes) else None
                demand(mine == wanted, f"{point} meets another point by {tap}", wanted)
                demand(mine is None or mine in packed, "a point is read that is not packed", mine)
    demand(len(seen) == math.prod(coarse), "points are never summed", len(seen))
    scratch.touch_table("outer", 2 * r.outer_count)
    scratch.touch_table("table", 2 * len(taps))
    scratch.check()


def _weights_taps(r: PlanRecord, problem: Problem) -> dict[Point, Point]:
    """Return the offsets of every tap on every axis, the batch's first, in the order of sums."""
    outer = [*product(*(range(axis.taps) for axis in problem.axes[:-1]))]
    counts = len(outer), problem.axes[-1].taps
    demand(counts == (r.outer_count, r.last_count), "taps are counted wrong", counts)
    demand(r.taps == math.prod(counts), "sums are not for all taps", r.taps)
    piece, ratio = KINDS[r.last_kind]
    apart_by = r.at("last_offsets", min(1, r.last_count - 1)) - r.at("last_offsets", 0)
    fits = piece == r.last_piece and r.last_count % piece == 0
    demand(
        fits and ratio in (0, r.step_in // max(1, apart_by)), "a kernel's taps are others", piece
    )
    return {
        (*tap, t): (
            *(r.at("outer_offsets", number * r.outer + d) for d in range(r.outer)),
            r.at("last_offsets", t),
        )
        for number, tap in enumerate(outer)
        for t in range(r.last_count)
    }
