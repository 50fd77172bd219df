"""Channels that do not fill the last vector of their panels.

That vector ends with the last channel: it sums some again that the one before it has, and tiles
write whole vectors wherever channels lie side by side.  Fewer channels than one vector has lanes
are one that begins with them, zeros behind.
"""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import KernelShape
from tconv.codegen.build import number


@dataclass(frozen=True, slots=True)
class Ragged:
    """The last panel: where it begins, and its last vector in it."""

    fits: ir.Value  # whether there are as many channels as a vector has lanes
    panels: ir.Value  # that are wide and full: the number of the next one
    rest: ir.Value  # channels behind those
    narrow: ir.Value  # whether they are one vector's, or none
    moved: ir.Value  # how much earlier a narrow panel begins
    last: ir.Value  # where the last vector of a wide one lies
    columns: int
    lanes: int

    def channel(self, b: ir.IRBuilder, panel: ir.Value) -> ir.Value:
        """Return the first channel of a panel."""
        return b.sub(b.mul(panel, number(self.columns)), self.moved_of(b, panel))

    def moved_of(self, b: ir.IRBuilder, panel: ir.Value) -> ir.Value:
        """Return how much earlier a panel begins than all before it end."""
        return b.select(b.icmp_signed("==", panel, self.panels), self.moved, number(0))

    def last_of(self, b: ir.IRBuilder, panel: ir.Value) -> ir.Value:
        """Return where the last vector of a wide panel lies in it."""
        ends = b.icmp_signed("==", panel, self.panels)
        return b.select(ends, self.last, number(self.columns - self.lanes))


def find_ragged(b: ir.IRBuilder, shape: KernelShape, channels: ir.Value) -> Ragged:
    """Return how the last panel of so many channels lies."""
    columns, lanes = number(shape.columns), number(shape.lanes)
    panels = b.sdiv(channels, columns)
    rest = b.sub(channels, b.mul(panels, columns))
    fits = b.icmp_signed(">=", channels, lanes)
    narrow = b.icmp_signed("<=", rest, lanes)
    moved = b.select(b.and_(fits, narrow), b.sub(lanes, rest), number(0))
    last = b.select(narrow, b.sub(columns, lanes), b.sub(rest, lanes))
    return Ragged(fits, panels, rest, narrow, moved, last, shape.columns, shape.lanes)
