"""Tallies: products of coarse and fine points, added to the sums of weights in memory."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv.codegen.block import KernelShape
from tconv.codegen.build import (
    FLOATS,
    I64,
    STORED,
    Turn,
    counted,
    fma,
    function,
    load,
    number,
    place,
    prefetch,
    store,
)
from tconv.codegen.squares import sizes
from tconv.codegen.stored import widened
from tconv.plan.grouped_weights import KINDS
from tconv.plan.stretches import ROWS


@dataclass(frozen=True, slots=True)
class Tally:
    """The arguments of a tally, in order.

    ``sums[p, s, k] += coarse[i * coarse_step + p] * fine[table[s] + i * in_step + k * tap_step
    + p]`` over points i, for every panel p, segment s and tap k of it.
    """

    sums: ir.Value
    coarse: ir.Value
    fine: ir.Value
    table: ir.Value  # two for each segment: where from a point's data, where among the sums
    segments: ir.Value
    coarse_step: ir.Value
    in_step: ir.Value
    tap_step: ir.Value
    sums_step: ir.Value  # from panel to panel
    count: ir.Value  # of points
    panels: ir.Value
    asks: ir.Value  # whether data comes from memory, too many lines at once to be foreseen

    def values(self) -> list[ir.Value]:
        """Return the arguments of a call."""
        return [getattr(self, field.name) for field in fields(self)]


def tally_meaning(
    sums: npt.NDArray[Any], coarse: npt.NDArray[Any], fine: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Compute in NumPy what a tally computes.

    ``sums[p, s, k, l] + sum of coarse[i, p, l] * fine[i, p, s, k, l]`` over points, where
    ``fine`` are the vectors that each point meets.
    """
    total: npt.NDArray[Any] = sums + np.einsum("ipl,ipskl->pskl", coarse, fine)
    return total


def emit_tally(module: ir.Module, shape: KernelShape, *, stored: bool = False) -> ir.Function:
    """Emit ``tally(kind, ...)``, whose kind is an index of KINDS.

    Any but the first takes a multiple of ROWS points.  Points are as they are summed, or as
    arrays hold them.
    """
    pointer = FLOATS[shape.dtype].as_pointer()
    read = (STORED if stored else FLOATS)[shape.dtype].as_pointer()
    kinds = [pointer, read, read, I64.as_pointer(), *[I64] * 8]
    name = f"tally_{'stored_' * stored}{shape.dtype}"
    made, b = function(module, name, [I64, *kinds])
    s = Tally(*made.args[1:])
    after = b.append_basic_block("after")
    switch = b.switch(made.args[0], after)
    for index, (taps, ratio) in enumerate(KINDS):
        kernel, inside = function(module, f"{name}_{taps}_{ratio}", kinds)
        _emit_points(inside, shape, Tally(*kernel.args), (taps, ratio))
        inside.ret_void()
        case = b.append_basic_block(f"taps{taps}")
        switch.add_case(number(index), case)
        b.position_at_end(case)
        b.call(kernel, s.values())
        b.branch(after)
    b.position_at_end(after)
    b.ret_void()
    return made


def _emit_points(b: ir.IRBuilder, shape: KernelShape, s: Tally, kind: tuple[int, int]) -> None:
    """Take as many points at once as fit, then fewer; no point may be added twice."""
    done: ir.Value = number(0)
    for rows in sizes(ROWS) if kind[1] == 0 else [ROWS]:
        end = b.and_(s.count, number(-rows))
        with counted(b, end, first=done, step=rows) as point:
            coarse = place(b, s.coarse, b.mul(point.index, s.coarse_step))
            fine = place(b, s.fine, b.mul(point.index, s.in_step))
            with counted(b, s.panels, [coarse, fine, s.sums]) as panel:
                _ask_ahead(b, s, kind, panel, rows)
                _emit_segments(b, shape, s, kind, (panel.carried, rows))
                steps = number(shape.lanes), number(shape.lanes), s.sums_step
                panel.carried = [
                    place(b, pointer, step)
                    for pointer, step in zip(panel.carried, steps, strict=True)
                ]
        done = end


def _ask_ahead(b: ir.IRBuilder, s: Tally, kind: tuple[int, int], panel: Turn, rows: int) -> None:
    """Ask for what the next points of a panel will meet: a line has those of two panels."""
    taps, ratio = kind
    coarse, fine, _ = panel.carried
    even = b.icmp_signed("==", b.and_(panel.index, number(1)), number(0))
    with b.if_then(b.and_(even, b.icmp_signed("!=", s.asks, number(0)))):
        for r in range(rows):
            prefetch(b, place(b, coarse, b.mul(number(rows + r), s.coarse_step)))
        # What these points do not meet themselves.
        first = ratio * (rows - 1) + taps if ratio else rows
        step = s.tap_step if ratio else s.in_step
        with counted(b, s.segments, [s.table]) as turn:
            read = place(b, fine, load(b, turn.carried[0]))
            for j in range(first, first + (ratio or 1) * rows):
                prefetch(b, place(b, read, b.mul(number(j), step)))
            turn.carried = [place(b, turn.carried[0], 2)]


def _emit_segments(
    b: ir.IRBuilder,
    shape: KernelShape,
    s: Tally,
    kind: tuple[int, int],
    numbers: tuple[list[ir.Value], int],
) -> None:
    """Add the products of some points to all sums of a panel."""
    vector = ir.VectorType(FLOATS[shape.dtype], shape.lanes)
    (coarse, fine, sums), rows = numbers
    taps, ratio = kind

    def vector_of(data: ir.Value, index: ir.Value) -> ir.Value:
        if data.type == sums.type:
            return load(b, data, index, vector)
        return widened(b, data, index, shape.dtype, shape.lanes)

    kept = [vector_of(coarse, b.mul(number(r), s.coarse_step)) for r in range(rows)]
    with counted(b, s.segments, [s.table]) as turn:
        (entry,) = turn.carried
        read, target = place(b, fine, load(b, entry)), place(b, sums, load(b, entry, 1))
        totals = [load(b, target, k * shape.lanes, vector) for k in range(taps)]
        if ratio:
            for j in range(ratio * (rows - 1) + taps):
                users = [(r, j - ratio * r) for r in range(rows) if 0 <= j - ratio * r < taps]
                value = vector_of(read, b.mul(number(j), s.tap_step))
                for r, k in users:
                    totals[k] = fma(b, kept[r], value, totals[k])
        else:
            for r in range(rows):
                value = vector_of(read, b.mul(number(r), s.in_step))
                totals[0] = fma(b, kept[r], value, totals[0])
        for k, total in enumerate(totals):
            store(b, total, target, k * shape.lanes)
        turn.carried = [place(b, entry, 2)]
