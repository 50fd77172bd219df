"""What the calls of sweeps for one line have in common, handed over in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from llvmlite import ir

from tconv.codegen.block import Record
from tconv.codegen.build import I64, VOID, load, number, store
from tconv.plan.grouped import MOST_LINES


@dataclass(frozen=True, slots=True)
class Sweep:
    """What all calls of sweeps for a line have in common: 64 bits each, in order, in memory.

    ``out[i * out_step + p] = activation(start[p] + sum of weights[p, w, k] * data[d + i * in_step
    + k * tap_step + p])`` for every point i and panel p, over rows (d, w) of taps k; the same
    for every meeting, each with data, out and weights of its own.
    """

    weights: ir.Value
    shifts: ir.Value  # by phase: where from there its weights lie
    start: ir.Value  # what sums begin with
    table: ir.Value  # two for each row of taps: where from a point's data, which of the weights
    rows: ir.Value
    in_x: ir.Value  # from one place that is read to the next
    out_x: ir.Value  # from one place that is written to the next
    in_step: ir.Value  # from point to point
    out_step: ir.Value
    tap_step: ir.Value
    apart: ir.Value  # points from one to the next that shares taps with it, if not neighbours do
    start_step: ir.Value  # from panel to panel
    weights_step: ir.Value  # from panel to panel
    rows_before: ir.Value  # of weights, of other written channels
    back: ir.Value  # how far the last panel begins before the end of the one before
    ahead: ir.Value  # from the last row of taps to the last row that the next line will read
    ahead_step: ir.Value  # from row to row
    ahead_rows: ir.Value  # that it will read as the first; 0 where they are near
    ahead_points: ir.Value  # from point to point; 0 where only those who know them should ask
    ahead_panel: ir.Value  # what one panel of a point takes of such a row
    stream: ir.Value  # whether results are written past the caches
    out_ahead: ir.Value  # from what is written now to what will be soon; 0 where few is
    panels: ir.Value
    activate: ir.Value  # address of the activation, or 0
    slope: ir.Value
    zeros: ir.Value  # as many as a panel has lanes

    def keep(self, b: ir.IRBuilder, where: ir.Value) -> None:
        """Store everything where sweeps find it."""
        for index, field in enumerate(fields(self)):
            value = getattr(self, field.name)
            if isinstance(value.type, ir.PointerType):
                value = b.ptrtoint(value, I64)
            store(b, value, where, index)

    @classmethod
    def kept(cls, b: ir.IRBuilder, where: ir.Value, sums: ir.Type) -> "Sweep":
        """Load everything again."""
        values = [load(b, where, index) for index in range(len(fields(cls)))]
        pointers = {
            "weights": sums,
            "start": sums,
            "zeros": sums,
            "table": I64.as_pointer(),
            "shifts": I64.as_pointer(),
        }
        return cls(
            *(
                b.inttoptr(value, pointers[field.name]) if field.name in pointers else value
                for field, value in zip(fields(cls), values, strict=True)
            )
        )


SWEEP_NUMBERS = len(fields(Sweep))


def whole_lines(b: ir.IRBuilder, rows: ir.Value, all_rows: ir.Value) -> ir.Value:
    """Return how many rows of taps a line meets, if it meets all and few; or 0."""
    whole = b.and_(
        b.icmp_signed("==", rows, all_rows), b.icmp_signed("<=", rows, number(MOST_LINES))
    )
    return b.select(whole, rows, number(0))


def find_sweep(
    b: ir.IRBuilder, r: Record, kind: ir.Value, lines: ir.Value, arguments: Sequence[ir.Type]
) -> ir.Value:
    """Return the kernel of a kind for so many rows of taps."""
    address = r.at("kernels", b.add(b.mul(kind, number(MOST_LINES + 1)), lines))
    return b.inttoptr(address, ir.FunctionType(VOID, arguments).as_pointer())
