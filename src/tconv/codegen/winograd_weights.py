"""Weights transformed for Winograd's algorithm, in the order that tiles read them."""

import math
from itertools import product

from llvmlite import ir

from tconv.codegen.block import KernelShape, Record, TransformShape
from tconv.codegen.build import (
    F64,
    FLOATS,
    I1,
    I64,
    STORED,
    counted,
    function,
    load,
    number,
    place,
    smaller,
    store,
)
from tconv.codegen.linear import emit_map_axes
from tconv.codegen.lines import Found, Lines, pack_lines
from tconv.codegen.stored import widened
from tconv.plan.transforms import transforms
from tconv.plan.winograd_weights import ARRAYS, BLOCK, FIELDS


def emit_transform_weights(module: ir.Module, baked: TransformShape) -> ir.Function:
    """Emit ``transform_weights(record, scratch, item)``, public.

    An item is a block of the depth of one panel of one group: for each phase, part and channel
    of the depth, the panel's channels side by side at every point, zeros past the last channel.
    Sums are made in float64 and rounded once.  The flag is raised if any weight is not finite.
    """
    shape, forms = baked.shape, baked.forms
    pointer, stored = FLOATS[shape.dtype].as_pointer(), STORED[shape.dtype].as_pointer()
    made, b = function(
        module, f"transform_weights_{shape.dtype}", [I64.as_pointer(), stored, I64], public=True
    )
    r = Record(b, made.args[0], FIELDS, ARRAYS)
    block, rest = b.srem(made.args[2], r.blocks), b.sdiv(made.args[2], r.blocks)
    panel, group = b.srem(rest, r.panels), b.sdiv(rest, r.panels)
    first = b.mul(block, number(BLOCK))
    count = smaller(b, b.sub(r.depth, first), number(BLOCK))
    _fetch(b, r, shape, made.args[1], (group, b.add(panel, r.first_panel), first, count))
    spots = math.prod(form.taps for form in forms)
    points = math.prod(form.points for form in forms)
    matrices = b.alloca(I64, points)
    target = place(b, r.pointer_to("target", pointer), b.mul(group, r.group_weights))
    with counted(b, r.phases) as phase, counted(b, r.parts) as part:
        entry = b.add(b.mul(phase.index, r.parts), part.index)
        taps = place(b, r.taps, b.mul(entry, number(spots)))
        rows = place(b, r.rows, b.mul(entry, number(points)))
        for index in range(points):
            begin = _matrix(b, r, shape, target, (phase.index, panel, rows, index, points))
            store(b, begin, matrices, index)
        with counted(b, count) as k:
            lines = place(b, made.args[1], b.mul(k.index, _pitch(b, r, shape)))
            line = b.mul(b.add(first, k.index), number(shape.columns))
            _transform(b, baked, (lines, taps), (matrices, line))
    b.ret_void()
    return made


def _pitch(b: ir.IRBuilder, r: Record, shape: KernelShape) -> ir.Value:
    """Return the elements of one channel in the working memory: its taps, and a line of zeros."""
    return b.mul(b.add(r.entries, number(1)), number(shape.columns))


def _fetch(
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    working: ir.Value,
    item: tuple[ir.Value, ir.Value, ir.Value, ir.Value],
) -> None:
    """Pack all taps of the item's channels into lines, each channel's followed by zeros."""
    group, panel, first, count = item
    channel = b.mul(panel, number(shape.columns))
    origin = b.add(b.mul(group, r.group_step), b.mul(channel, r.column_step))
    origin = b.add(origin, b.mul(first, r.depth_step))
    source = place(b, r.pointer_to("source", STORED[shape.dtype].as_pointer()), origin)
    vector = ir.VectorType(STORED[shape.dtype], shape.columns)
    found = Found(b, shape)
    with counted(b, count) as k:
        target = place(b, working, b.mul(k.index, _pitch(b, r, shape)))
        lines = Lines(
            source=place(b, source, b.mul(k.index, r.depth_step)),
            offsets=r.offsets,
            target=target,
            places=r.places,
            column_step=r.column_step,
            ahead=r.depth_step,
            filled=smaller(b, b.sub(r.columns, channel), number(shape.columns)),
            last=number((shape.vectors - 1) * shape.lanes),
            narrow=ir.Constant(I1, 0),
            pairs=False,
        )
        pack_lines(b, shape, lines, (r.entries, r.straight), found)
        nothing = ir.Constant(vector, [0] * shape.columns)
        store(b, nothing, target, b.mul(r.entries, number(shape.columns)))
    found.raise_flag(b, r.pointer_to("flag", I64.as_pointer()))


def _matrix(
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    target: ir.Value,
    numbers: tuple[ir.Value, ir.Value, ir.Value, int, int],
) -> ir.Value:
    """Return where a part's rows of a point's matrix begin, 0 if it vanishes."""
    phase, panel, rows, index, points = numbers
    row = load(b, rows, index)
    entry = b.add(b.mul(phase, number(points)), number(index))
    before = b.add(b.mul(panel, r.at("counts", entry)), row)  # of as many channels each
    begin = b.mul(b.mul(before, r.depth), number(shape.columns))
    begin = b.add(begin, r.at("starts", entry))
    there = b.icmp_signed(">=", row, number(0))
    return b.select(there, b.ptrtoint(place(b, target, begin), I64), number(0))


def _transform(
    b: ir.IRBuilder,
    baked: TransformShape,
    given: tuple[ir.Value, ir.Value],
    wanted: tuple[ir.Value, ir.Value],
) -> None:
    """Transform one channel's taps and store the points that do not vanish."""
    shape, forms = baked.shape, baked.forms
    (lines, taps), (matrices, line) = given, wanted
    scalar = FLOATS[shape.dtype]
    wide, narrow = ir.VectorType(F64, shape.lanes), ir.VectorType(scalar, shape.lanes)
    spots = list(product(*(range(form.taps) for form in forms)))
    box = list(product(*(range(form.points) for form in forms)))
    with counted(b, number(shape.columns), step=wide.count) as column:
        values = {}
        for index, spot in enumerate(spots):
            tap = b.mul(load(b, taps, index), number(shape.columns))
            read = widened(b, lines, b.add(tap, column.index), shape.dtype, wide.count)
            values[spot] = read if read.type == wide else b.fpext(read, wide)
        mapped = emit_map_axes(b, [transforms(form).weights for form in forms], values)
        for index, spot in enumerate(box):
            matrix = load(b, matrices, index)
            with b.if_then(b.icmp_signed("!=", matrix, number(0)), likely=True):
                value = mapped[spot]
                rounded = value if scalar == F64 else b.fptrunc(value, narrow)
                target = b.inttoptr(matrix, scalar.as_pointer())
                store(b, rounded, target, b.add(line, column.index))
