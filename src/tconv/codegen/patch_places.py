"""Where patches are read and written, spot by spot: in arrays as they lie, or in scratch.

Spots of all patches that lie inside the picture are as far from their first one.  A patch at a
border has a list of its own: what lies outside is a line of zeros to read, or is written where
nobody reads.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

from llvmlite import ir

from tconv.codegen.block import Block, Record
from tconv.codegen.build import FLOATS, I1, I64, load, number, place, store
from tconv.plan.transforms import Form
from tconv.plan.winograd import LISTS


@dataclass(frozen=True, slots=True)
class Along:
    """A patch on one axis: where its first spot is, how far others are apart, and what is there."""

    first: ir.Value
    step: ir.Value
    spots: int
    low: ir.Value  # spots outside of these bounds do not exist
    high: ir.Value

    def exists(self, b: ir.IRBuilder, spot: ir.Value) -> ir.Value:
        """Tell whether a spot is inside."""
        return b.and_(b.icmp_signed(">=", spot, self.low), b.icmp_signed("<", spot, self.high))

    def spot(self, b: ir.IRBuilder, index: int) -> ir.Value:
        """Return where one of the spots is."""
        return b.add(self.first, b.mul(number(index), self.step))


@dataclass(frozen=True, slots=True)
class Lists:
    """Places of the spots of a patch, from its first one on: as many as a transform has points."""

    read: ir.Value
    written: ir.Value
    summed: ir.Value
    border: ir.Value  # of one at a border, which is read or written at the time


def fill_steps(
    b: ir.IRBuilder, table: ir.Value, sizes: Sequence[int], steps: Sequence[ir.Value]
) -> None:
    """Note how far each spot of a box is from the first, by the steps of its axes."""
    for index, spot in enumerate(product(*map(range, sizes))):
        moved = (b.mul(number(n), step) for n, step in zip(spot, steps, strict=True))
        store(b, reduce(b.add, moved), table, index)


def first_place(
    b: ir.IRBuilder, axes: Sequence[Along], steps: Sequence[ir.Value]
) -> tuple[ir.Value, ir.Value]:
    """Return where the first spot of a patch lies, and whether all are inside."""
    inside: ir.Value = ir.Constant(I1, 1)
    begin: ir.Value = number(0)
    for axis, step in zip(axes, steps, strict=True):
        begin = b.add(begin, b.mul(axis.first, step))
        for index in sorted({0, axis.spots - 1}):
            inside = b.and_(inside, axis.exists(b, axis.spot(b, index)))
    return begin, inside


def list_places(
    b: ir.IRBuilder,
    table: ir.Value,
    axes: Sequence[Along],
    steps: Sequence[ir.Value],
    outside: ir.Value,
) -> None:
    """Note the place of each spot of a patch, or another one for those outside."""
    spots = [[axis.spot(b, index) for index in range(axis.spots)] for axis in axes]
    known = [
        [(b.mul(spot, step), axis.exists(b, spot)) for spot in line]
        for axis, step, line in zip(axes, steps, spots, strict=True)
    ]
    for index, each in enumerate(product(*known)):
        where = reduce(b.add, (offset for offset, _ in each))
        exists = reduce(b.and_, (there for _, there in each))
        store(b, b.select(exists, where, outside), table, index)


def elements_between(b: ir.IRBuilder, origin: ir.Value, other: ir.Value) -> ir.Value:
    """Return how many elements behind one place another lies, wherever that is."""
    item = {FLOATS["float32"]: 4, FLOATS["float64"]: 8}[origin.type.pointee]
    between = b.sub(b.ptrtoint(other, I64), b.ptrtoint(origin, I64))
    return b.sdiv(between, number(item))


class Patches:
    """The patches of a block, by the numbers of a record; axes begin with the batch."""

    def __init__(
        self,
        b: ir.IRBuilder,
        r: Record,
        forms: Sequence[Form],
        block: Block,
        table: tuple[ir.Value, ir.Value],
    ) -> None:
        self.b, self.r, self.block = b, r, block
        self.points, self.count = table  # the first of each patch and axis; how many patches
        self.rank = len(forms)
        self.boxes_read = [1, *(form.points for form in forms)]
        self.boxes_written = [1, *(form.outputs for form in forms)]
        self.outputs = math.prod(self.boxes_written)
        self.shared = math.prod(self.boxes_read) / self.outputs  # patches that read a point

    def lists(self, begin: ir.Value) -> Lists:
        """Return the lists in a table that begins there."""
        points = math.prod(self.boxes_read)
        return Lists(*(place(self.b, begin, index * points) for index in range(LISTS)))

    def of_record(self, name: str) -> list[ir.Value]:
        """Return the first numbers of a table: of spatial axes, or of all axes but the last."""
        return [self.r.at(name, number(d)) for d in range(self.rank)]

    def _of(self, outer: str, last: str) -> list[ir.Value]:
        """Return a number of each axis: those of the last one are not in tables."""
        return [*self.of_record(outer), getattr(self.r, last)]

    @property
    def source_steps(self) -> list[ir.Value]:
        """Elements from a point of the source to the next, by axis."""
        return self._of("source_steps", "source_x")

    @property
    def target_steps(self) -> list[ir.Value]:
        """Elements from a point of the target to the next, by axis."""
        return self._of("target_steps", "target_x")

    @property
    def steps_read(self) -> list[ir.Value]:
        """Points of the source from spot to spot, by axis."""
        return self._apart(self._of("steps_in", "step_in"))

    @property
    def steps_written(self) -> list[ir.Value]:
        """Points of the target from spot to spot, by axis."""
        return self._apart(self._of("steps_out", "step_out"))

    def _apart(self, steps: Sequence[ir.Value]) -> list[ir.Value]:
        aparts = (self.r.at("aparts", number(d)) for d in range(self.rank + 1))
        return [self.b.mul(*each) for each in zip(aparts, steps, strict=True)]

    def _entries(self, table: ir.Value, row: ir.Value) -> list[ir.Value]:
        """Return a row of a table with a column for each axis."""
        begin = place(self.b, table, self.b.mul(row, number(self.rank + 1)))
        return [load(self.b, begin, d) for d in range(self.rank + 1)]

    def read(self, patch: ir.Value, part: ir.Value) -> list[Along]:
        """Return which points of the source one part of a patch reads, by axis."""
        b, none = self.b, number(0)
        numbers = zip(
            self._entries(self.points, patch), self._of("steps_in", "step_in"),
            self._of("lows_in", "low_in"), self._entries(self.r.part_places, part),
            self.steps_read, self.boxes_read, self._of("sizes_in", "size_in"), strict=True,
        )  # fmt: skip
        return [
            Along(b.add(b.mul(point, by), b.add(low, begin)), step, spots, none, size)
            for point, by, low, begin, step, spots, size in numbers
        ]

    def written(self, patch: ir.Value, phases: Sequence[ir.Value]) -> list[Along]:
        """Return which points of the target a phase of a patch writes, by axis."""
        b = self.b
        numbers = zip(
            self._entries(self.points, patch), self._of("steps_out", "step_out"),
            self._of("shifts_out", "shift_out"), phases, self.steps_written, self.boxes_written,
            strict=True,
        )  # fmt: skip
        made = []
        for d, (point, by, shift, phase, step, spots) in enumerate(numbers):
            low: ir.Value = number(0)
            high, begin = self.r.size_out, b.add(shift, phase)
            if d < self.rank:  # points that the phase has in the block
                first, extent = (load(b, t, d) for t in (self.block.lows, self.block.extents))
                low, high = (b.add(b.mul(p, by), begin) for p in (first, b.add(first, extent)))
            made.append(Along(b.add(b.mul(point, by), begin), step, spots, low, high))
        return made

    def phases(self, phase: ir.Value) -> list[ir.Value]:
        """Return which phase each outer axis has in one of all of them together."""
        b, found, rest = self.b, [], phase
        for d in reversed(range(self.rank)):
            count = self.r.at("axis_phases", number(d))
            found.append(b.srem(rest, count))
            rest = b.sdiv(rest, count)
        return found[::-1]
