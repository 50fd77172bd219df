"""Sweeps: sums of neighbouring points, one vector of groups after the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv.codegen.block import KernelShape, SweepShape
from tconv.codegen.build import (
    FLOATS,
    I64,
    LINE,
    STORED,
    counted,
    fma,
    function,
    larger,
    load,
    number,
    opaque,
    place,
    prefetch,
)
from tconv.codegen.squares import covered, sizes
from tconv.codegen.sweep_calls import emit_ask, emit_finish
from tconv.codegen.sweep_record import Sweep
from tconv.codegen.sweep_store import SweepKind, emit_tile_store
from tconv.plan.grouped import MEETING
from tconv.plan.stretches import ROWS

PANELS = (2, 1)  # that are summed together: they share cache lines
ANY_PANELS = {4: (2, 3, 1), 2: (2, 1), 1: (4, 2, 1)}
"""By points that are summed together: panels of kernels for any taps, as registers have room.

Three are taken where twos would leave one: it would read all data again.  Of pairs none is.
"""


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


def sweep_arguments(
    shape: KernelShape, *, reads_stored: bool = True, writes_stored: bool = True
) -> list[ir.Type]:
    """Return the types of ``(common, meetings, number, data, out, count)``."""
    moved = (
        (STORED if stored else FLOATS)[shape.dtype].as_pointer()
        for stored in (reads_stored, writes_stored)
    )
    return [I64.as_pointer(), I64.as_pointer(), I64, *moved, I64]


def emit_sweep(module: ir.Module, baked: SweepShape) -> ir.Function:
    """Emit ``sweep(common, meetings, number, data, out, count)``, public; there are points to sum.

    Any kind but the first sums at least ROWS points.  A meeting is the numbers of
    :data:`MEETING`.
    """
    shape = baked.shape
    stored = {"reads_stored": baked.reads_stored, "writes_stored": baked.writes_stored}
    arguments = sweep_arguments(shape, **stored)
    finish = emit_finish(module, shape, stored=baked.writes_stored)
    made, b = function(module, f"sweep_{shape.dtype}", arguments, public=True)
    most = max(rows * max(panels) for rows, panels in ANY_PANELS.items())
    room = b.alloca(FLOATS[shape.dtype], number(most * shape.lanes))
    ask = emit_ask(module, arguments[-3])
    kind = SweepKind(shape, baked.kind, baked.lines, **stored, finish=finish, ask=ask, room=room)
    common = Sweep.kept(b, made.args[0], FLOATS[shape.dtype].as_pointer())
    _emit_points(b, kind, common, made.args[1:])
    b.ret_void()
    return made


Piece = Callable[[Sequence[ir.Value], ir.Value, ir.Value, int | None], list[ir.Value]]


def _single(b: ir.IRBuilder, kind: SweepKind, s: Sweep) -> Piece:
    """Return what reads every point for itself."""

    def piece(
        totals: Sequence[ir.Value], data: ir.Value, weights: ir.Value, half: int | None
    ) -> list[ir.Value]:
        sums = list(totals)
        for k in range(kind.taps):
            weight = load(b, weights, k * kind.shape.lanes, kind.vector)
            tap = place(b, data, b.mul(number(k), s.tap_step))
            for r, total in enumerate(sums):
                value = kind.read(b, tap, b.mul(number(r), s.in_step), half)
                sums[r] = fma(b, weight, value, total)
        return sums

    return piece


def _shared(b: ir.IRBuilder, kind: SweepKind, s: Sweep) -> Piece:
    """Return what reads once what the points of a tile share."""
    taps, ratio = kind.taps, kind.ratio

    def piece(
        totals: Sequence[ir.Value], data: ir.Value, weights: ir.Value, half: int | None
    ) -> list[ir.Value]:
        kept = [load(b, weights, k * kind.shape.lanes, kind.vector) for k in range(taps)]
        sums = list(totals)
        for j in range(ratio * (ROWS - 1) + taps):
            users = [(r, j - ratio * r) for r in range(ROWS) if 0 <= j - ratio * r < taps]
            if not users:
                continue
            value = kind.read(b, data, b.mul(number(j), s.tap_step), half)
            for r, k in users:
                sums[r] = fma(b, kept[k], value, sums[r])
        return sums

    return piece


def _emit_points(b: ir.IRBuilder, kind: SweepKind, s: Sweep, arguments: Sequence[ir.Value]) -> None:
    """Sum all points, some at a time, by every meeting in turn."""
    single, shared = _single(b, kind, s), _shared(b, kind, s)
    meetings, several, data, out, count = arguments
    ends = meetings, several, data, out, count
    if kind.kind.spread:
        enough = b.icmp_signed(">=", count, b.mul(s.apart, number(ROWS)))
        with b.if_else(enough) as (far, near):
            with far, counted(b, s.apart) as turn:
                # One of so many points after the other, from every one of the first.
                rest = b.sub(b.add(count, b.sub(s.apart, number(1))), turn.index)
                data, out = (
                    place(b, pointer, b.mul(turn.index, step))
                    for pointer, step in ((data, s.in_step), (out, s.out_step))
                )
                wide = replace(s, in_step=s.tap_step, out_step=b.mul(s.apart, s.out_step))
                some = meetings, several, data, out, b.sdiv(rest, s.apart)
                _emit_tiles(b, kind, wide, some, [(ROWS, PANELS, shared)])
            with near:
                tiles = [(rows, PANELS, single) for rows in sizes(ROWS)]
                _emit_tiles(b, kind, s, ends, tiles)
        return
    if kind.joined:
        each = {rows: ANY_PANELS[rows] for rows in sizes(ROWS)}
        if kind.pairs:
            each = {rows: tuple(p for p in some if p != 3) for rows, some in each.items()}
        _emit_tiles(b, kind, s, ends, [(rows, some, single) for rows, some in each.items()])
    else:
        _emit_tiles(b, kind, s, ends, [(ROWS, PANELS, shared if kind.ratio else single)])


def _emit_tiles(
    b: ir.IRBuilder,
    kind: SweepKind,
    s: Sweep,
    ends: Sequence[ir.Value],
    tiles: Sequence[tuple[int, Sequence[int], Piece]],
) -> None:
    """Sum points by the largest tiles that fit, by every meeting in turn."""
    meetings, several, data, out, count = ends
    for rows, groups, piece in tiles:
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
            pointers = [place(b, data, read), place(b, out, written), weights, s.start]
            _emit_panels(b, kind, s, m, (pointers, rows, groups, piece))


def _emit_panels(
    b: ir.IRBuilder,
    kind: SweepKind,
    s: Sweep,
    m: _Meeting,
    numbers: tuple[list[ir.Value], int, Sequence[int], Piece],
) -> None:
    """Emit the loops over panels of some points: the most at once, then the rest."""
    carried, rows, groups, piece = numbers
    begin: ir.Value = number(0)
    moved = b.icmp_signed("!=", s.back, number(0))
    lanes = number(kind.shape.lanes)
    # What the next line reads behind this one's last row of taps, from its first panel on.
    entry = b.mul(b.sub(s.rows, number(1)), number(2))
    behind = place(b, carried[0], b.add(load(b, s.table, entry), s.ahead))
    if kind.lines:
        data, *others = carried
        reads = [place(b, data, load(b, s.table, 2 * line)) for line in range(kind.lines)]
        carried = [*reads, *others]
    for panels in groups:
        end = s.panels
        if panels > 1:
            left = b.sub(end, begin)
            apart = b.zext(moved, I64)
            if 3 in groups:
                odd = b.icmp_signed("==", b.and_(left, number(1)), number(1))
                apart = b.select(odd, number(3), b.mul(apart, number(2)))
            if panels != 3:  # the last panel may not lie beside the one before
                left = larger(b, b.sub(left, apart), number(0))
            end = b.add(begin, b.sub(left, b.srem(left, number(panels))))
        with counted(b, end, carried, first=begin, step=panels) as panel:
            here = list(panel.carried)
            last = b.icmp_signed("==", b.add(panel.index, number(panels)), s.panels)
            back: ir.Value = number(0)
            if panels in (1, 3):
                back = b.select(last, b.neg(s.back), back)
            soon = place(b, behind, b.mul(b.mul(panel.index, number(rows)), s.ahead_panel))
            _emit_ahead(b, kind, s, soon, (rows, panels))
            _emit_rows(b, kind, s, m, (here, rows, (panels, back), piece))
            for _ in range(panels):
                steps = *[lanes] * (len(here) - 2), s.weights_step, s.start_step
                panel.carried = [
                    place(b, pointer, step)
                    for pointer, step in zip(panel.carried, steps, strict=True)
                ]
        carried, begin = panel.carried, end


def _emit_ahead(
    b: ir.IRBuilder, kind: SweepKind, s: Sweep, soon: ir.Value, sizes_of: tuple[int, int]
) -> None:
    """Ask for the share that some panels of some points have of what the next line will read.

    All panels of all points together ask for all of it, from one end to the other: machines
    foresee more of that than of what points and panels read themselves.
    """
    rows, panels = sizes_of
    most = -(-panels * rows * kind.panel_bytes // LINE)
    line = number(LINE // (kind.panel_bytes // kind.shape.lanes))
    if not kind.ratio:
        lines = b.mul(s.ahead_points, number(most))
        # Loops that ask take longer than what they save, unless memory is far away.
        with b.if_then(b.icmp_signed(">", s.ahead_points, number(0))):
            b.call(kind.ask, [soon, s.ahead_rows, s.ahead_step, lines, line])
        return
    with counted(b, s.ahead_rows, [soon]) as row:
        here = opaque(b, row.carried[0])
        row.carried = [place(b, here, b.neg(s.ahead_step))]
        for j in range(most * kind.ratio):
            prefetch(b, place(b, here, b.mul(number(j), line)), near=2)


def _emit_rows(
    b: ir.IRBuilder,
    kind: SweepKind,
    s: Sweep,
    m: _Meeting,
    numbers: tuple[Sequence[ir.Value], int, tuple[int, ir.Value], Piece],
) -> None:
    """Sum some panels of some points over all rows of taps, and store them."""
    lanes, vector = kind.shape.lanes, kind.vector
    (*reads, out, weights, start), rows, (panels, back), piece = numbers
    data = reads[0]
    # Where from the first of them each panel lies.
    places: list[ir.Value] = [number(v * lanes) for v in range(panels)]
    places[-1] = b.add(places[-1], back)
    steps = [b.mul(number(v), s.weights_step) for v in range(panels)]
    halves: list[int | None] = [None] * panels
    reads_at = list(places)
    if kind.pairs and panels > 1:
        halves = [v % 2 for v in range(panels)]
        reads_at = [places[v - v % 2] for v in range(panels)]
    both = [*zip(reads_at, steps, halves, strict=True)]
    begun = []
    for v in range(panels):
        begun += [load(b, start, b.mul(number(v), s.start_step), vector)] * rows
    out = opaque(b, out)
    with b.if_then(b.icmp_signed("!=", s.out_ahead, number(0))):
        soon = opaque(b, place(b, out, s.out_ahead))
        for r in range(rows):
            prefetch(b, place(b, soon, b.mul(number(r), s.out_step)), write=True)
    if kind.lines:
        sums = begun
        for number_of, read in enumerate(reads):
            taken = place(b, weights, number_of * kind.taps * lanes)
            sums = _pieces(b, (sums, opaque(b, read), taken), both, piece)
        emit_tile_store(b, kind, s, (out, rows, places), sums)
        return
    with counted(b, s.rows, [s.table, *begun]) as row:
        entry, *totals = row.carried
        read, which = opaque(b, place(b, data, load(b, entry))), load(b, entry, 1)
        row.carried = [place(b, entry, 2)]
        taken = place(b, weights, b.mul(which, m.row_weights))
        if not kind.kind.cut:
            row.carried += _pieces(b, (totals, read, taken), both, piece)
        else:
            with counted(b, m.taps, [read, taken, *totals], step=kind.taps) as tap:
                read, taken, *totals = tap.carried
                moved = b.mul(number(kind.taps), s.tap_step)
                tap.carried = [place(b, read, moved), place(b, taken, kind.taps * lanes)]
                tap.carried += _pieces(b, (totals, read, taken), both, piece)
            row.carried += tap.carried[2:]
    emit_tile_store(b, kind, s, (out, rows, places), row.carried[1:])


def _pieces(
    b: ir.IRBuilder,
    ends: tuple[Sequence[ir.Value], ir.Value, ir.Value],
    panels: Sequence[tuple[ir.Value, ir.Value, int | None]],
    piece: Piece,
) -> list[ir.Value]:
    """Return sums with one piece of a row added, for each panel: of data and of weights."""
    totals, read, taken = ends
    rows = len(totals) // len(panels)
    sums = []
    for v, (where, step, half) in enumerate(panels):
        some = totals[v * rows : (v + 1) * rows]
        sums += piece(some, place(b, read, where), place(b, taken, step), half)
    return sums
