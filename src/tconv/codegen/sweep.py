"""Sweeps: sums of neighbouring points, one vector of groups after the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv.codegen.block import KernelShape
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
    place,
    prefetch,
    store,
)
from tconv.codegen.squares import covered, sizes
from tconv.codegen.stored import rounded, widened
from tconv.plan.grouped import KINDS, ROWS

PANELS = 2  # that are summed together: they share cache lines
MOST_PAIRED = 4  # taps of a piece, for two panels


@dataclass(frozen=True, slots=True)
class Sweep:
    """The arguments of a sweep, in order.

    ``out[i * out_step + p] = activation(start[p] + sum of weights[p, w, k] * data[d + i * in_step
    + k * tap_step + p])`` for every point i and panel p, over rows (d, w) of taps k.  The first
    kind takes any number of taps a row, the others their own.
    """

    out: ir.Value
    data: ir.Value
    weights: ir.Value
    start: ir.Value  # what sums begin with
    table: ir.Value  # two for each row of taps: where from a point's data, which of the weights
    rows: ir.Value
    taps: ir.Value  # of a row, for the first kind
    in_step: ir.Value
    tap_step: ir.Value
    out_step: ir.Value
    start_step: ir.Value  # from panel to panel
    weights_step: ir.Value  # from panel to panel
    row_weights: ir.Value  # from row to row, for the first kind
    back: ir.Value  # how far the last panel begins before the end of the one before
    ahead: ir.Value  # from a point's data: what the next line will read; 0 where it is near
    ahead_step: ir.Value  # to the row before it
    count: ir.Value  # of points
    panels: ir.Value
    activate: ir.Value  # address of the activation, or 0
    slope: ir.Value
    zeros: ir.Value  # as many as a panel has lanes

    def values(self) -> list[ir.Value]:
        """Return the arguments of a call."""
        return [getattr(self, field.name) for field in fields(self)]


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
class _Kind:
    """What is baked into one kernel."""

    shape: KernelShape
    taps: int
    ratio: int  # of the steps of points and taps; 0 is any
    stored: bool  # whether data and result are as arrays hold them, or as sums are kept
    finish: ir.Function  # stores sums with an activation
    room: ir.Value  # on the stack, for the sums of a tile

    @property
    def vector(self) -> ir.VectorType:
        return ir.VectorType(FLOATS[self.shape.dtype], self.shape.lanes)

    def read(self, b: ir.IRBuilder, data: ir.Value, index: ir.Value) -> ir.Value:
        """Load a vector of data."""
        if self.stored:
            return widened(b, data, index, self.shape.dtype, self.shape.lanes)
        return load(b, data, index, self.vector)


def emit_sweep(module: ir.Module, shape: KernelShape, *, stored: bool = True) -> ir.Function:
    """Emit ``sweep(kind, ...)``, whose kind is an index of KINDS; there are points to sum.

    Any but the first sums at least ROWS points.  ``stored`` tells whether data and result are
    as arrays hold them.
    """
    pointer = FLOATS[shape.dtype].as_pointer()
    moved = STORED[shape.dtype].as_pointer() if stored else pointer
    arguments = [*[moved] * 2, *[pointer] * 2, I64.as_pointer(), *[I64] * 15, pointer]
    title = f"sweep_{'stored_' if moved != pointer else ''}{shape.dtype}"
    made, b = function(module, title, [I64, *arguments])
    s = Sweep(*made.args[1:])
    after = b.append_basic_block("after")
    switch = b.switch(made.args[0], after)
    finish = _emit_finish(module, shape, title, stored=stored)
    for index, (taps, ratio) in enumerate(KINDS):
        kernel, inside = function(module, f"{title}_{taps}_{ratio}", arguments)
        room = inside.alloca(FLOATS[shape.dtype], number(PANELS * ROWS * shape.lanes))
        kind = _Kind(shape, taps, ratio, stored, finish, room)
        _emit_points(inside, kind, Sweep(*kernel.args))
        inside.ret_void()
        case = b.append_basic_block(f"taps{taps}")
        switch.add_case(number(index), case)
        b.position_at_end(case)
        b.call(kernel, s.values())
        b.branch(after)
    b.position_at_end(after)
    b.ret_void()
    return made


Piece = Callable[[Sequence[ir.Value], ir.Value, ir.Value], list[ir.Value]]


def _emit_points(b: ir.IRBuilder, kind: _Kind, s: Sweep) -> None:
    """Sum all points, some at a time."""
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

    if kind.ratio:
        # Two panels of more taps would not fit sixteen registers.
        panels = PANELS if kind.taps <= MOST_PAIRED else 1
        with covered(b, s.count, ROWS, ROWS) as first:
            _emit_panels(b, kind, s, (first, ROWS, panels), shared)
    else:
        for rows in sizes(ROWS):
            with covered(b, s.count, rows, ROWS) as first:
                _emit_panels(b, kind, s, (first, rows, PANELS), single)


def _emit_panels(
    b: ir.IRBuilder, kind: _Kind, s: Sweep, numbers: tuple[ir.Value, int, int], piece: Piece
) -> None:
    """Emit the loops over panels of some points: the most at once, then the rest."""
    first, rows, most = numbers
    data = place(b, s.data, b.mul(first, s.in_step))
    out = place(b, s.out, b.mul(first, s.out_step))
    carried = [data, out, s.weights, s.start]
    begin: ir.Value = number(0)
    moved = b.icmp_signed("!=", s.back, number(0))
    lanes = number(kind.shape.lanes)
    for panels in sizes(most):
        end = s.panels
        if panels > 1:  # the last panel may not lie beside the one before
            end = b.and_(b.sub(s.panels, b.zext(moved, I64)), number(-panels))
        with counted(b, end, carried, first=begin, step=panels) as panel:
            here = list(panel.carried)
            if panels == 1:
                last = b.icmp_signed("==", b.add(panel.index, number(1)), s.panels)
                back = b.select(last, b.neg(s.back), number(0))
                here[:2] = [place(b, pointer, back) for pointer in here[:2]]
            _emit_rows(b, kind, s, (here, rows, panels), piece)
            for _ in range(panels):
                steps = lanes, lanes, s.weights_step, s.start_step
                panel.carried = [
                    place(b, pointer, step)
                    for pointer, step in zip(panel.carried, steps, strict=True)
                ]
        carried, begin = panel.carried, end


def _emit_rows(
    b: ir.IRBuilder,
    kind: _Kind,
    s: Sweep,
    numbers: tuple[Sequence[ir.Value], int, int],
    piece: Piece,
) -> None:
    """Sum some panels of some points over all rows of taps, and store them."""
    lanes, vector = kind.shape.lanes, kind.vector
    (data, out, weights, start), rows, panels = numbers
    steps = [b.mul(number(v), s.weights_step) for v in range(panels)]
    begun = []
    for v in range(panels):
        begun += [load(b, start, b.mul(number(v), s.start_step), vector)] * rows
    if kind.ratio:
        with b.if_then(b.icmp_signed("!=", s.ahead, number(0))):
            for line, j in product(range(2), range(kind.ratio * rows)):
                soon = place(b, data, b.sub(s.ahead, b.mul(number(line), s.ahead_step)))
                prefetch(b, place(b, soon, b.mul(number(j), s.tap_step)))
    with counted(b, s.rows, [s.table, *begun]) as row:
        entry, *totals = row.carried
        read, which = place(b, data, load(b, entry)), load(b, entry, 1)
        row.carried = [place(b, entry, 2)]
        if kind.ratio:
            taken = place(b, weights, b.mul(which, number(kind.taps * lanes)))
            row.carried += _pieces(b, kind, (totals, read, taken), steps, piece)
        else:
            taken = place(b, weights, b.mul(which, s.row_weights))
            with counted(b, s.taps, [read, taken, *totals]) as tap:
                read, taken, *totals = tap.carried
                tap.carried = [place(b, read, s.tap_step), place(b, taken, lanes)]
                tap.carried += _pieces(b, kind, (totals, read, taken), steps, piece)
            row.carried += tap.carried[2:]
    sums = row.carried[1:]
    with b.if_else(b.icmp_signed("!=", s.activate, number(0)), likely=False) as (yes, no):
        with yes:
            for k, total in enumerate(sums):
                store(b, total, kind.room, k * lanes)
            steps = [number(rows), number(panels), s.out_step]
            b.call(kind.finish, [out, kind.room, *steps, s.activate, s.slope, s.zeros])
        with no:
            for k, total in enumerate(sums):
                v, r = divmod(k, rows)
                value = rounded(b, total, kind.shape.dtype) if kind.stored else total
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


def _emit_finish(module: ir.Module, shape: KernelShape, title: str, *, stored: bool) -> ir.Function:
    """Emit ``finish(out, sums, rows, panels, out_step, activate, slope, zeros)``.

    Applies the activation to the sums of a tile and stores them.  Inside of a tile the call
    would cost registers where there is no activation.
    """
    pointer = FLOATS[shape.dtype].as_pointer()
    moved = STORED[shape.dtype].as_pointer() if stored else pointer
    made, b = function(module, f"{title}_finish", [moved, pointer, *[I64] * 5, pointer])
    made.attributes.add("noinline")
    out, sums, rows, panels, out_step, activate, slope, zeros = made.args
    lanes, vector = number(shape.lanes), ir.VectorType(FLOATS[shape.dtype], shape.lanes)
    action = ir.FunctionType(VOID, [pointer, pointer, *[I64] * 4]).as_pointer()
    sizes_of = [b.mul(rows, panels), lanes, lanes]
    b.call(b.inttoptr(activate, action), [sums, zeros, *sizes_of, slope])
    with counted(b, panels) as panel, counted(b, rows) as row:
        k = b.add(b.mul(panel.index, rows), row.index)
        total = load(b, sums, b.mul(k, lanes), vector)
        value = rounded(b, total, shape.dtype) if stored else total
        where = b.add(b.mul(row.index, out_step), b.mul(panel.index, lanes))
        store(b, value, out, where)
    b.ret_void()
    return made
