"""Weights transformed for Winograd's algorithm, in the order that tiles read them."""

import math
from collections.abc import Sequence
from itertools import product

from llvmlite import ir

from tconv.codegen.block import KernelShape, Record, TransformShape
from tconv.codegen.build import (
    F64,
    FLOATS,
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
from tconv.codegen.stored import widened
from tconv.plan.transforms import Form, transforms
from tconv.plan.winograd_weights import ARRAYS, FIELDS, MISSING


def emit_transform_weights(module: ir.Module, baked: TransformShape) -> ir.Function:
    """Emit ``transform_weights(record, scratch, item)``, public.

    An item is one panel of one phase of one group: for each part and channel of the depth, the
    panel's channels side by side at every point, zeros past the last channel.  Sums are made
    in float64 and rounded once.  The flag is raised if any weight is not finite.
    """
    shape, forms = baked.shape, baked.forms
    pointer = FLOATS[shape.dtype].as_pointer()
    made, b = function(
        module, f"transform_weights_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    r = Record(b, made.args[0], FIELDS, ARRAYS)
    panel, rest = b.srem(made.args[2], r.panels), b.sdiv(made.args[2], r.panels)
    phase, group = b.srem(rest, r.phases), b.sdiv(rest, r.phases)
    taps = math.prod(form.taps for form in forms)
    points = math.prod(form.points for form in forms)
    buffer = b.alloca(F64, number(taps * shape.columns))
    channel = b.mul(panel, number(shape.columns))
    filled = smaller(b, b.sub(r.columns, channel), number(shape.columns))
    origin = b.add(b.mul(group, r.group_step), b.mul(channel, r.column_step))
    source = place(b, r.pointer_to("source", STORED[shape.dtype].as_pointer()), origin)
    outer, x = b.sdiv(phase, r.last_phases), b.srem(phase, r.last_phases)
    begin = b.mul(b.add(b.mul(outer, r.panels), panel), r.panel_weights)
    begin = b.add(begin, b.add(b.mul(group, r.group_weights), b.mul(x, r.product_weights)))
    target = place(b, r.pointer_to("target", pointer), begin)
    zero = ir.Constant(F64, 0.0)
    with counted(b, number(taps * shape.columns)) as spot:
        store(b, zero, buffer, spot.index)
    with counted(b, r.parts, [zero]) as part:
        entry = b.add(b.mul(phase, r.parts), part.index)
        offsets = place(b, r.taps, b.mul(entry, number(taps)))
        rows = place(b, r.rows, b.mul(entry, number(points)))
        with counted(b, r.depth, part.carried) as k:
            line = place(b, source, b.mul(k.index, r.depth_step))
            k.carried = [_fetch(b, r, buffer, line, offsets, filled, shape, taps, k.carried[0])]
            _transform(b, r, shape, forms, buffer, target, rows, k.index)
        part.carried = k.carried
    total = part.carried[0]
    with b.if_then(b.fcmp_unordered("uno", total, total), likely=False):
        store(b, number(1), r.pointer_to("flag", I64.as_pointer()))
    b.ret_void()
    return made


def _fetch(  # noqa: PLR0913 - from where to where
    b: ir.IRBuilder,
    r: Record,
    buffer: ir.Value,
    line: ir.Value,
    offsets: ir.Value,
    filled: ir.Value,
    shape: KernelShape,
    taps: int,
    doubt: ir.Value,
) -> ir.Value:
    """Copy one channel's taps, zeros for missing ones; return doubt, NaN if any is not finite."""
    zero = ir.Constant(F64, 0.0)
    with counted(b, number(taps), [doubt]) as tap:
        offset = load(b, offsets, tap.index)
        row = place(b, buffer, b.mul(tap.index, number(shape.columns)))
        missing = b.icmp_signed("==", offset, number(MISSING))
        start = b.select(missing, number(0), offset)
        with counted(b, filled, tap.carried) as column:
            where = b.add(start, b.mul(column.index, r.column_step))
            read = widened(b, line, where, shape.dtype)
            wide = read if read.type == F64 else b.fpext(read, F64)
            value = b.select(missing, zero, wide)
            store(b, value, row, column.index)
            column.carried = [b.fadd(column.carried[0], b.fmul(value, zero))]
        tap.carried = column.carried
    return tap.carried[0]


def _transform(  # noqa: PLR0913 - from where to where
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    forms: Sequence[Form],
    buffer: ir.Value,
    target: ir.Value,
    rows: ir.Value,
    k: ir.Value,
) -> None:
    """Transform one channel's taps and store the points that do not vanish."""
    scalar = FLOATS[shape.dtype]
    wide = ir.VectorType(F64, shape.lanes // 2)
    narrow = ir.VectorType(scalar, shape.lanes // 2)
    spots = list(product(*(range(form.taps) for form in forms)))
    box = list(product(*(range(form.points) for form in forms)))
    with counted(b, number(shape.columns), step=wide.count) as column:
        values = {
            spot: load(b, buffer, b.add(number(index * shape.columns), column.index), wide)
            for index, spot in enumerate(spots)
        }
        mapped = emit_map_axes(b, [transforms(form).weights for form in forms], values)
        for index, spot in enumerate(box):
            row = load(b, rows, index)
            with b.if_then(b.icmp_signed(">=", row, number(0)), likely=True):
                where = b.add(b.mul(row, r.depth), k)
                begin = b.add(b.mul(where, number(shape.columns)), column.index)
                begin = b.add(begin, b.mul(number(index), r.point_weights))
                value = mapped[spot]
                store(b, value if scalar == F64 else b.fptrunc(value, narrow), target, begin)
