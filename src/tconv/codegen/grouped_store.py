"""The sums of grouped layers, written as weights: every lane of a vector is a group."""

from llvmlite import ir

from tconv.codegen.block import KernelShape, Record
from tconv.codegen.build import (
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
from tconv.codegen.panels import first_group
from tconv.plan.grouped_weights import ARRAYS, FIELDS


def emit_add_parts(module: ir.Module, shape: KernelShape, stores: ir.Function) -> ir.Function:
    """Emit ``add_parts(record, scratch, item)``, public: all parts of one panel, in order."""
    dtype = shape.dtype
    pointer, vector = FLOATS[dtype].as_pointer(), ir.VectorType(FLOATS[dtype], shape.lanes)
    made, b = function(module, f"add_parts_{dtype}", [I64.as_pointer(), pointer, I64], public=True)
    record, _, panel = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    size = panel_size(b, r, shape)
    part = b.mul(r.panels, size)
    sums = place(b, r.pointer_to("common", pointer), b.mul(panel, size))
    with counted(b, size, step=shape.lanes) as k:
        with counted(b, r.parts, [load(b, sums, k.index, vector)], first=number(1)) as other:
            more = load(b, place(b, sums, b.mul(other.index, part)), k.index, vector)
            other.carried = [b.fadd(other.carried[0], more)]
        store(b, other.carried[0], sums, k.index)
    store_panels(b, r, shape, stores, (panel, number(1), sums))
    b.ret_void()
    return made


def panel_size(b: ir.IRBuilder, r: Record, shape: KernelShape) -> ir.Value:
    """Return how many sums a panel has."""
    return b.mul(b.mul(b.mul(r.rows, r.depth), r.taps), number(shape.lanes))


def store_panels(
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    stores: ir.Function,
    which: tuple[ir.Value, ir.Value, ir.Value],
) -> None:
    """Write the sums of some panels as weights: the first of them, how many, and their sums.

    Groups that the last panel shares with the one before are written twice, the same.
    """
    first, panels, sums = which
    lanes = number(shape.lanes)
    with b.goto_entry_block():
        unseen = b.alloca(I64)  # what falls outside was never multiplied: nothing is in doubt
    target = r.pointer_to("target", STORED[shape.dtype].as_pointer())
    used = smaller(b, r.groups, lanes)
    lines = b.mul(r.rows, r.depth)
    runs = b.sdiv(r.taps, r.tap_run)
    with counted(b, panels) as panel, counted(b, lines) as line, counted(b, runs) as run:
        group = first_group(b, shape, r.groups, b.add(first, panel.index))
        c, f = b.sdiv(line.index, r.depth), b.srem(line.index, r.depth)
        tap = b.mul(run.index, r.tap_run)
        before = b.add(b.mul(b.add(b.mul(panel.index, lines), line.index), r.taps), tap)
        into = r.at("target_taps", tap)
        for index, step in ((group, r.target_g), (c, r.target_row), (f, r.target_column)):
            into = b.add(into, b.mul(index, step))
        ends = [place(b, target, into), place(b, sums, b.mul(before, lanes)), unseen]
        b.call(stores, [*ends, r.tap_run, used, r.target_x, r.target_g, lanes])
