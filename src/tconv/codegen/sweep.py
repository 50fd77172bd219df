"""Sweeps: sums of neighbouring points, one vector of groups after the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv.codegen.block import KernelShape, SweepShape
from tconv.codegen.build import (
    FLOATS,
    I64,
    STORED,
    VOID,
    counted,
    fma,
    function,
    load,
    number,
    opaque,
    place,
    prefetch,
    shuffle,
    store,
)
from tconv.codegen.squares import covered, sizes
from tconv.codegen.stored import any_nan, narrow_numbers, rounded, widened
from tconv.codegen.sweep_record import Sweep
from tconv.plan.grouped import MEETING
from tconv.plan.stretches import ROWS, Kind

PANELS = 2  # that are summed together: they share cache lines
MOST_PAIRED = 4  # taps of a piece, for two panels


def sweep_meaning(
    start: npt.NDArray[Any], data: npt.NDArray[Any], weights: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Compute in NumPy what a sweep computes.

    ``out[i, p, l] = start[i, p, l] + sum of weights[p, s, k, l] * data[i, p, s, k, l]`` over
    rows and taps, where ``data`` are the vectors that each point meets.
    """
    total: npt.NDArray[Any] = start + np.einsum("pskl,ipskl->ipl", weights, data)
    return total


@dataclass(frozen=True, slots=True)
class _Meeting:
    """The numbers of MEETING."""

    offset: ir.Value
    phase: ir.Value
    taps: ir.Value
    weights: ir.Value
    row_weights: ir.Value


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is baked into one kernel."""

    shape: KernelShape
    kind: Kind
    lines: int  # rows of taps, all unrolled; 0 is any
    stored: bool  # whether data and result are as arrays hold them, or as sums are kept
    finish: ir.Function  # stores sums with an activation
    room: ir.Value  # on the stack, for the sums of a tile

    @property
    def taps(self) -> int:
        return self.kind.taps

    @property
    def ratio(self) -> int:
        return self.kind.ratio

    @property
    def vector(self) -> ir.VectorType:
        return ir.VectorType(FLOATS[self.shape.dtype], self.shape.lanes)

    @property
    def rounds(self) -> bool:
        return self.stored and STORED[self.shape.dtype] != FLOATS[self.shape.dtype]

    def read(self, b: ir.IRBuilder, data: ir.Value, index: ir.Value) -> ir.Value:
        """Load a vector of data."""
        if self.stored:
            return widened(b, data, index, self.shape.dtype, self.shape.lanes)
        return load(b, data, index, self.vector)


def sweep_arguments(shape: KernelShape, *, stored: bool) -> list[ir.Type]:
    """Return the types of ``(common, meetings, number, data, out, count)``."""
    moved = (STORED if stored else FLOATS)[shape.dtype].as_pointer()
    return [I64.as_pointer(), I64.as_pointer(), I64, moved, moved, I64]


def emit_sweep(module: ir.Module, baked: SweepShape) -> ir.Function:
    """Emit ``sweep(common, meetings, number, data, out, count)``, public; there are points to sum.

    Any kind but the first sums at least ROWS points.  A meeting is the numbers of
    :data:`MEETING`.
    """
    shape = baked.shape
    arguments = sweep_arguments(shape, stored=baked.stored)
    finish = _emit_finish(module, shape, stored=baked.stored)
    made, b = function(module, f"sweep_{shape.dtype}", arguments, public=True)
    room = b.alloca(FLOATS[shape.dtype], number(PANELS * ROWS * shape.lanes))
    kind = _Kind(shape, baked.kind, baked.lines, baked.stored, finish, room)
    common = Sweep.kept(b, made.args[0], FLOATS[shape.dtype].as_pointer())
    _emit_points(b, kind, common, made.args[1:])
    b.ret_void()
    return made


Piece = Callable[[Sequence[ir.Value], ir.Value, ir.Value], list[ir.Value]]


def _emit_points(b: ir.IRBuilder, kind: _Kind, s: Sweep, arguments: Sequence[ir.Value]) -> None:
    """Sum all points, some at a time, by every meeting in turn."""
    meetings, several, data, out, count = arguments
    shape, vector = kind.shape, kind.vector

    def single(totals: Sequence[ir.Value], data: ir.Value, weights: ir.Value) -> list[ir.Value]:
        weight = load(b, weights, 0, vector)
        return [
            fma(b, weight, kind.read(b, data, b.mul(number(r), s.in_step)), total)
            for r, total in enumerate(totals)
        ]

    def shared(totals: Sequence[ir.Value], data: ir.Value, weights: ir.Value) -> list[ir.Value]:
        """Read once what neighbouring points share."""
        taps, ratio = kind.taps, kind.ratio
        kept = [load(b, weights, k * shape.lanes, vector) for k in range(taps)]
        sums = list(totals)
        for j in range(ratio * (ROWS - 1) + taps):
            users = [(r, j - ratio * r) for r in range(ROWS) if 0 <= j - ratio * r < taps]
            if not users:
                continue
            value = kind.read(b, data, b.mul(number(j), s.tap_step))
            for r, k in users:
                sums[r] = fma(b, kept[k], value, sums[r])
        return sums

    if kind.ratio or kind.lines:
        # Two panels of more taps would not fit sixteen registers.
        panels = PANELS if kind.taps <= MOST_PAIRED else 1
        tiles = [(ROWS, panels, shared if kind.ratio else single)]
    else:
        tiles = [(rows, PANELS, single) for rows in sizes(ROWS)]
    for rows, most, piece in tiles:
        with (
            covered(b, count, rows, ROWS) as first,
            counted(b, several, [meetings]) as turn,
        ):
            m = _Meeting(*(load(b, turn.carried[0], index) for index in range(len(MEETING))))
            turn.carried = [place(b, turn.carried[0], len(MEETING))]
            read = b.add(b.mul(first, s.in_step), b.mul(m.offset, s.in_x))
            written = b.add(b.mul(first, s.out_step), b.mul(m.phase, s.out_x))
            taken = b.add(load(b, s.shifts, m.phase), b.mul(m.row_weights, s.rows_before))
            weights = place(b, s.weights, b.add(taken, m.weights))
            ends = [place(b, data, read), place(b, out, written), weights, s.start]
            _emit_panels(b, kind, s, m, (ends, rows, most, piece))


def _emit_panels(
    b: ir.IRBuilder,
    kind: _Kind,
    s: Sweep,
    m: _Meeting,
    numbers: tuple[list[ir.Value], int, int, Piece],
) -> None:
    """Emit the loops over panels of some points: the most at once, then the rest."""
    carried, rows, most, piece = numbers
    begin: ir.Value = number(0)
    moved = b.icmp_signed("!=", s.back, number(0))
    lanes = number(kind.shape.lanes)
    if kind.lines:
        data, *others = carried
        reads = [place(b, data, load(b, s.table, 2 * line)) for line in range(kind.lines)]
        carried = [*reads, *others]
    for panels in sizes(most):
        end = s.panels
        if panels > 1:  # the last panel may not lie beside the one before
            end = b.and_(b.sub(s.panels, b.zext(moved, I64)), number(-panels))
        with counted(b, end, carried, first=begin, step=panels) as panel:
            here = list(panel.carried)
            if panels == 1:
                last = b.icmp_signed("==", b.add(panel.index, number(1)), s.panels)
                back = b.select(last, b.neg(s.back), number(0))
                here[:-2] = [place(b, pointer, back) for pointer in here[:-2]]
            _emit_rows(b, kind, s, m, (here, rows, panels, piece))
            for _ in range(panels):
                steps = *[lanes] * (len(here) - 2), s.weights_step, s.start_step
                panel.carried = [
                    place(b, pointer, step)
                    for pointer, step in zip(panel.carried, steps, strict=True)
                ]
        carried, begin = panel.carried, end


def _emit_rows(
    b: ir.IRBuilder,
    kind: _Kind,
    s: Sweep,
    m: _Meeting,
    numbers: tuple[Sequence[ir.Value], int, int, Piece],
) -> None:
    """Sum some panels of some points over all rows of taps, and store them."""
    lanes, vector = kind.shape.lanes, kind.vector
    (*reads, out, weights, start), rows, panels, piece = numbers
    data = reads[0]
    steps = [b.mul(number(v), s.weights_step) for v in range(panels)]
    begun = []
    for v in range(panels):
        begun += [load(b, start, b.mul(number(v), s.start_step), vector)] * rows
    if kind.ratio:
        with b.if_then(b.icmp_signed("!=", s.ahead, number(0))):
            last = reads[-1]
            if not kind.lines:
                entry = b.mul(b.sub(s.rows, number(1)), number(2))
                last = place(b, data, load(b, s.table, entry))
            soon = opaque(b, place(b, last, s.ahead))
            before = opaque(b, place(b, soon, b.neg(s.ahead_step)))
            near = 3 if kind.ratio == 1 else 2  # more than one line is too much for the first cache
            for line, j in product((soon, before), range(kind.ratio * rows)):
                prefetch(b, place(b, line, b.mul(number(j), s.tap_step)), near=near)
    out = opaque(b, out)
    with b.if_then(b.icmp_signed("!=", s.out_ahead, number(0))):
        soon = opaque(b, place(b, out, s.out_ahead))
        for r in range(rows):
            prefetch(b, place(b, soon, b.mul(number(r), s.out_step)), write=True)
    if kind.lines:
        sums = begun
        for number_of, read in enumerate(reads):
            taken = place(b, weights, number_of * kind.taps * lanes)
            sums = _pieces(b, kind, (sums, opaque(b, read), taken), steps, piece)
        _emit_store(b, kind, s, (out, rows, panels), sums)
        return
    with counted(b, s.rows, [s.table, *begun]) as row:
        entry, *totals = row.carried
        read, which = opaque(b, place(b, data, load(b, entry))), load(b, entry, 1)
        row.carried = [place(b, entry, 2)]
        taken = place(b, weights, b.mul(which, m.row_weights))
        if not kind.kind.cut:
            row.carried += _pieces(b, kind, (totals, read, taken), steps, piece)
        else:
            with counted(b, m.taps, [read, taken, *totals], step=kind.taps) as tap:
                read, taken, *totals = tap.carried
                moved = b.mul(number(kind.taps), s.tap_step)
                tap.carried = [place(b, read, moved), place(b, taken, kind.taps * lanes)]
                tap.carried += _pieces(b, kind, (totals, read, taken), steps, piece)
            row.carried += tap.carried[2:]
    _emit_store(b, kind, s, (out, rows, panels), row.carried[1:])


def _emit_store(
    b: ir.IRBuilder,
    kind: _Kind,
    s: Sweep,
    numbers: tuple[ir.Value, int, int],
    sums: Sequence[ir.Value],
) -> None:
    """Store the sums of a tile; with an activation or a NaN it takes longer."""
    out, rows, panels = numbers
    lanes = kind.shape.lanes
    slowly = b.icmp_signed("!=", s.activate, number(0))
    if kind.rounds:
        slowly = b.or_(slowly, any_nan(b, sums, kind.shape.dtype))
    with b.if_else(slowly, likely=False) as (yes, no):
        with yes:
            for k, total in enumerate(sums):
                store(b, total, kind.room, k * lanes)
            steps = [number(rows), number(panels), s.out_step]
            b.call(kind.finish, [out, kind.room, *steps, s.activate, s.slope, s.zeros])
        with no:
            for r in range(rows):
                beside = sums[r::rows]
                if kind.rounds and len(beside) > 1:  # together they take fewer steps
                    beside = [shuffle(b, beside[0], beside[1], range(panels * lanes))]
                for v, total in enumerate(beside):
                    value = total
                    if kind.rounds:
                        value = narrow_numbers(b, total, kind.shape.dtype)
                    store(b, value, place(b, out, v * lanes), b.mul(number(r), s.out_step))


def _pieces(
    b: ir.IRBuilder,
    kind: _Kind,
    ends: tuple[Sequence[ir.Value], ir.Value, ir.Value],
    steps: Sequence[ir.Value],
    piece: Piece,
) -> list[ir.Value]:
    """Return sums with one piece of a row added, for each panel."""
    totals, read, taken = ends
    rows, lanes = len(totals) // len(steps), kind.shape.lanes
    sums = []
    for v, step in enumerate(steps):
        some = totals[v * rows : (v + 1) * rows]
        sums += piece(some, place(b, read, v * lanes), place(b, taken, step))
    return sums


def _emit_finish(module: ir.Module, shape: KernelShape, *, stored: bool) -> ir.Function:
    """Emit ``finish(out, sums, rows, panels, out_step, activate, slope, zeros)``.

    Applies the activation, if there is one, to the sums of a tile and stores them.  Inside of
    a tile the call would cost registers where there is none.
    """
    pointer = FLOATS[shape.dtype].as_pointer()
    moved = STORED[shape.dtype].as_pointer() if stored else pointer
    made, b = function(module, f"finish_{shape.dtype}", [moved, pointer, *[I64] * 5, pointer])
    made.attributes.add("noinline")
    out, sums, rows, panels, out_step, activate, slope, zeros = made.args
    lanes, vector = number(shape.lanes), ir.VectorType(FLOATS[shape.dtype], shape.lanes)
    action = ir.FunctionType(VOID, [pointer, pointer, *[I64] * 4]).as_pointer()
    sizes_of = [b.mul(rows, panels), lanes, lanes]
    with b.if_then(b.icmp_signed("!=", activate, number(0))):
        b.call(b.inttoptr(activate, action), [sums, zeros, *sizes_of, slope])
    with counted(b, panels) as panel, counted(b, rows) as row:
        k = b.add(b.mul(panel.index, rows), row.index)
        total = load(b, sums, b.mul(k, lanes), vector)
        value = rounded(b, total, shape.dtype) if stored else total
        where = b.add(b.mul(row.index, out_step), b.mul(panel.index, lanes))
        store(b, value, out, where)
    b.ret_void()
    return made
