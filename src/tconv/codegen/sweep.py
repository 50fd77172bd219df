"""Sweeps: sums of neighbouring points, one vector of groups after the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv.codegen.block import KernelShape
from tconv.codegen.build import (
    FLOATS,
    I64,
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
from tconv.plan.grouped import KINDS, ROWS

PANELS = 2  # that are summed together: they share cache lines
MOST_PAIRED = 4  # taps of a segment, for two panels


@dataclass(frozen=True, slots=True)
class Sweep:
    """The arguments of a sweep, in order.

    ``out[i * out_step + p] = start[i * start_step + p] + sum of weights[p, s, k] *
    data[table[s] + i * in_step + k * tap_step + p]`` for every point i and panel p, over
    segments s and their taps k.
    """

    out: ir.Value
    data: ir.Value
    weights: ir.Value
    start: ir.Value  # what sums begin with
    table: ir.Value  # two for each segment: where from a point's data, where among the weights
    segments: ir.Value
    in_step: ir.Value
    tap_step: ir.Value
    out_step: ir.Value
    start_step: ir.Value
    start_panel: ir.Value  # from panel to panel
    weights_step: ir.Value  # from panel to panel
    ahead: ir.Value  # from a point's data: what the next line will read; 0 where it is near
    ahead_step: ir.Value  # to the row before it
    count: ir.Value  # of points
    panels: ir.Value

    def values(self) -> list[ir.Value]:
        """Return the arguments of a call."""
        return [getattr(self, field.name) for field in fields(self)]


def sweep_meaning(
    start: npt.NDArray[Any], data: npt.NDArray[Any], weights: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Compute in NumPy what a sweep computes.

    ``out[i, p, l] = start[i, p, l] + sum of weights[p, s, k, l] * data[i, p, s, k, l]`` over
    segments and taps, where ``data`` are the vectors that each point meets.
    """
    total: npt.NDArray[Any] = start + np.einsum("pskl,ipskl->ipl", weights, data)
    return total


def emit_sweep(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``sweep(kind, ...)``, whose kind is an index of KINDS; there are points to sum.

    Any but the first sums at least ROWS points.
    """
    pointer = FLOATS[shape.dtype].as_pointer()
    kinds = [*[pointer] * 4, I64.as_pointer(), *[I64] * 11]
    made, b = function(module, f"sweep_{shape.dtype}", [I64, *kinds])
    s = Sweep(*made.args[1:])
    after = b.append_basic_block("after")
    switch = b.switch(made.args[0], after)
    for index, (taps, ratio) in enumerate(KINDS):
        kernel, inside = function(module, f"sweep_{shape.dtype}_{taps}_{ratio}", kinds)
        inner = Sweep(*kernel.args)
        if ratio:
            _emit_shared(inside, shape, inner, taps, ratio)
        else:
            _emit_any(inside, shape, inner)
        inside.ret_void()
        case = b.append_basic_block(f"taps{taps}")
        switch.add_case(number(index), case)
        b.position_at_end(case)
        b.call(kernel, s.values())
        b.branch(after)
    b.position_at_end(after)
    b.ret_void()
    return made


def _emit_any(b: ir.IRBuilder, shape: KernelShape, s: Sweep) -> None:
    """Sum segments of one tap, any number of points."""
    vector = ir.VectorType(FLOATS[shape.dtype], shape.lanes)

    def segment(totals: Sequence[ir.Value], data: ir.Value, weights: ir.Value) -> list[ir.Value]:
        weight = load(b, weights, 0, vector)
        return [
            fma(b, weight, load(b, data, b.mul(number(r), s.in_step), vector), total)
            for r, total in enumerate(totals)
        ]

    for rows in sizes(ROWS):
        with covered(b, s.count, rows, ROWS) as first:
            _emit_panels(b, shape, s, (first, rows, PANELS, 0), segment)


def _emit_shared(b: ir.IRBuilder, shape: KernelShape, s: Sweep, taps: int, ratio: int) -> None:
    """Sum segments of some taps; what neighbouring points share is read once."""
    vector = ir.VectorType(FLOATS[shape.dtype], shape.lanes)

    def segment(totals: Sequence[ir.Value], data: ir.Value, weights: ir.Value) -> list[ir.Value]:
        kept = [load(b, weights, k * shape.lanes, vector) for k in range(taps)]
        sums = list(totals)
        for j in range(ratio * (ROWS - 1) + taps):
            users = [(r, j - ratio * r) for r in range(ROWS) if 0 <= j - ratio * r < taps]
            value = load(b, data, b.mul(number(j), s.tap_step), vector)
            for r, k in users:
                sums[r] = fma(b, kept[k], value, sums[r])
        return sums

    # Two panels of more taps would not fit sixteen registers.
    panels = PANELS if taps <= MOST_PAIRED else 1
    with covered(b, s.count, ROWS, ROWS) as first:
        _emit_panels(b, shape, s, (first, ROWS, panels, ratio), segment)


Segment = Callable[[Sequence[ir.Value], ir.Value, ir.Value], list[ir.Value]]


def _emit_panels(
    b: ir.IRBuilder,
    shape: KernelShape,
    s: Sweep,
    numbers: tuple[ir.Value, int, int, int],
    segment: Segment,
) -> None:
    """Emit the loops over panels and segments of some points: the most at once, then the rest."""
    first, rows, most, ratio = numbers
    data, out = place(b, s.data, b.mul(first, s.in_step)), place(b, s.out, b.mul(first, s.out_step))
    start = place(b, s.start, b.mul(first, s.start_step))
    carried = [data, out, s.weights, start]
    begin: ir.Value = number(0)
    for panels in sizes(most):
        end = b.and_(s.panels, number(-panels))
        with counted(b, end, carried, first=begin, step=panels) as panel:
            _emit_segments(b, shape, s, (panel.carried, rows, panels, ratio), segment)
            steps = number(shape.lanes), number(shape.lanes), s.weights_step, s.start_panel
            for _ in range(panels):
                panel.carried = [
                    place(b, pointer, step)
                    for pointer, step in zip(panel.carried, steps, strict=True)
                ]
        carried, begin = panel.carried, end


def _emit_segments(
    b: ir.IRBuilder,
    shape: KernelShape,
    s: Sweep,
    numbers: tuple[Sequence[ir.Value], int, int, int],
    segment: Segment,
) -> None:
    """Sum some panels of some points over all segments."""
    vector = ir.VectorType(FLOATS[shape.dtype], shape.lanes)
    (data, out, weights, begun), rows, panels, ratio = numbers
    steps = [b.mul(number(v), s.weights_step) for v in range(panels)]
    start = []
    for v in range(panels):
        mine = place(b, begun, b.mul(number(v), s.start_panel))
        start += [load(b, mine, b.mul(number(r), s.start_step), vector) for r in range(rows)]
    if ratio:
        with b.if_then(b.icmp_signed("!=", s.ahead, number(0))):
            for row in range(2):
                soon = place(b, data, b.sub(s.ahead, b.mul(number(row), s.ahead_step)))
                for j in range(ratio * rows):
                    prefetch(b, place(b, soon, b.mul(number(j), s.tap_step)))
    with counted(b, s.segments, [s.table, *start]) as turn:
        entry, *totals = turn.carried
        read, taken = place(b, data, load(b, entry)), place(b, weights, load(b, entry, 1))
        turn.carried = [place(b, entry, 2)]
        for v, step in enumerate(steps):
            some = totals[v * rows : (v + 1) * rows]
            turn.carried += segment(some, place(b, read, v * shape.lanes), place(b, taken, step))
    for k, total in enumerate(turn.carried[1:]):
        v, r = divmod(k, rows)
        store(b, total, place(b, out, v * shape.lanes), b.mul(number(r), s.out_step))
