"""How sweeps read points and store the sums of a tile: as arrays hold them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import KernelShape
from tconv.codegen.build import (
    BYTES,
    FLOATS,
    STORED,
    STORED_BYTES,
    load,
    number,
    place,
    shuffle,
    store,
    stream,
)
from tconv.codegen.stored import narrow_pair, rounded, widened, widened_pair
from tconv.codegen.sweep_record import Sweep
from tconv.plan.grouped import PAIRED
from tconv.plan.stretches import Kind


@dataclass(frozen=True, slots=True)
class SweepKind:
    """What is baked into one kernel."""

    shape: KernelShape
    kind: Kind
    lines: int  # rows of taps, all unrolled; 0 is any
    reads_stored: bool  # whether data is as arrays hold it, or as sums are kept
    writes_stored: bool  # and the result
    finish: ir.Function  # stores sums with an activation
    ask: ir.Function  # for what will be read soon
    room: ir.Value  # on the stack, for the sums of a tile

    @property
    def taps(self) -> int:
        """Of a row, that are taken at once."""
        return self.kind.taps

    @property
    def ratio(self) -> int:
        """How many taps lie between two points; 0 is any."""
        return self.kind.ratio

    @property
    def joined(self) -> bool:
        """Whether three panels are summed together, though the last may not lie beside others."""
        return not (self.kind.ratio or self.lines)

    @property
    def pairs(self) -> bool:
        """Whether two panels are the even and the odd ones of groups that lie side by side."""
        return self.reads_stored and self.shape.dtype == PAIRED

    @property
    def panel_bytes(self) -> int:
        """Of a point's panel, as it is read."""
        return self.shape.lanes * (STORED_BYTES if self.reads_stored else BYTES)[self.shape.dtype]

    @property
    def vector(self) -> ir.VectorType:
        """The type of a vector of sums."""
        return ir.VectorType(FLOATS[self.shape.dtype], self.shape.lanes)

    @property
    def rounds(self) -> bool:
        """Whether sums are rounded when they are stored."""
        return self.writes_stored and STORED[self.shape.dtype] != FLOATS[self.shape.dtype]

    def read(self, b: ir.IRBuilder, data: ir.Value, index: ir.Value, half: int | None) -> ir.Value:
        """Load a vector of data, or so many of a pair."""
        if half is not None:
            return widened_pair(b, data, index, self.shape.lanes)[half]
        if self.reads_stored:
            return widened(b, data, index, self.shape.dtype, self.shape.lanes)
        return load(b, data, index, self.vector)


def emit_tile_store(
    b: ir.IRBuilder,
    kind: SweepKind,
    s: Sweep,
    numbers: tuple[ir.Value, int, Sequence[ir.Value]],
    sums: Sequence[ir.Value],
) -> None:
    """Store the sums of a tile; with an activation it takes longer."""
    out, rows, places = numbers
    lanes = kind.shape.lanes
    slowly = b.icmp_signed("!=", s.activate, number(0))
    pairs = kind.pairs and len(places) > 1

    def write(how: Callable[..., None]) -> None:
        for r in range(rows):
            for where, value in _written(b, kind, places, sums[r::rows]):
                how(b, value, place(b, out, where), b.mul(number(r), s.out_step))

    def finish() -> None:
        for k, total in enumerate(_in_order(b, sums, rows) if pairs else sums):
            store(b, total, kind.room, k * lanes)
        sizes_of = [number(rows), number(len(places)), places[-1], s.out_step]
        b.call(kind.finish, [out, kind.room, *sizes_of, s.activate, s.slope, s.zeros])

    past = b.icmp_signed("!=", s.stream, number(0))
    # Most lines are neither finished nor streamed, and find out at once.
    unusual = slowly if kind.joined else b.or_(slowly, past)
    with b.if_else(unusual, likely=False) as (yes, no):
        with yes:
            if kind.joined:
                finish()
            else:
                with b.if_else(slowly) as (finished, streamed):
                    with finished:
                        finish()
                    with streamed:
                        write(stream)
        with no:
            write(store)


def _written(
    b: ir.IRBuilder, kind: SweepKind, places: Sequence[ir.Value], beside: Sequence[ir.Value]
) -> list[tuple[ir.Value, ir.Value]]:
    """Return where the sums of a point go, as arrays hold them."""
    dtype, lanes = kind.shape.dtype, kind.shape.lanes
    if kind.pairs and len(places) > 1:
        two = zip(beside[::2], beside[1::2], strict=True)
        return [*zip(places[::2], (narrow_pair(b, *each) for each in two), strict=True)]
    if kind.rounds and len(beside) > 1 and not kind.joined:
        # Together they take fewer steps.
        beside = [shuffle(b, beside[0], beside[1], range(2 * lanes))]
    if kind.rounds:
        beside = [rounded(b, total, dtype) for total in beside]
    return [*zip(places, beside, strict=False)]


def _in_order(b: ir.IRBuilder, sums: Sequence[ir.Value], rows: int) -> list[ir.Value]:
    """Return the sums of pairs, panel by panel, as those of groups that lie side by side."""
    lanes = sums[0].type.count
    picks = [lane // 2 + lanes * (lane % 2) for lane in range(2 * lanes)]
    found: list[ir.Value] = []
    for first in range(0, len(sums), 2 * rows):
        two = [*zip(sums[first : first + rows], sums[first + rows : first + 2 * rows], strict=True)]
        for half in (picks[:lanes], picks[lanes:]):
            found += [shuffle(b, even, odd, half) for even, odd in two]
    return found
