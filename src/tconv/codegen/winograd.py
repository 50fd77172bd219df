"""Winograd's algorithm: blocks of patches transformed, multiplied point by point, transformed back.

What a number means is said in :mod:`tconv.plan.winograd`.
"""

import math
from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import Block, KernelShape, Record, TransformShape, emit_block
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
from tconv.codegen.patch_places import Patches
from tconv.codegen.patches import emit_transform_data, emit_transform_result
from tconv.codegen.points import settle_phase
from tconv.codegen.rows import emit_pack_row, emit_store_row
from tconv.codegen.tile import Tile, emit_tile
from tconv.codegen.winograd_data import emit_data
from tconv.codegen.winograd_products import Place, emit_products
from tconv.codegen.winograd_results import Panel, begin_results, emit_results, find_targets
from tconv.plan.winograd import ARRAYS, FIELDS, MULTIPLY, TRANSFORM, WHOLE, ZEROS

TABLES = ("rows", "places", "reads", "writes", "images", "zeros", "points", "targets", "lists")


@dataclass(frozen=True, slots=True)
class _Parts:
    """The functions that the kernel calls, by what they do."""

    tiles: list[ir.Function]  # by rows
    pack_row: ir.Function
    store_row: ir.Function
    transform_data: ir.Function
    transform_result: ir.Function


def emit_winograd(module: ir.Module, baked: TransformShape) -> ir.Function:
    """Emit ``winograd(record, scratch, item)``, public."""
    shape, forms = baked.shape, baked.forms
    pointer = FLOATS[shape.dtype].as_pointer()
    # What is transformed is kept in the type of sums.
    dtype = {FLOATS[name]: name for name in ("float32", "float64")}[FLOATS[shape.dtype]]
    parts = _Parts(
        [
            emit_tile(module, Tile(rows, shape.vectors, shape.lanes, dtype), spread=True)
            for rows in shape.rows
        ],
        emit_pack_row(module, shape.dtype, shape.lanes),
        emit_store_row(module, shape.dtype, shape.lanes),
        emit_transform_data(module, shape, forms),
        emit_transform_result(module, shape, forms),
    )
    kinds = [I64.as_pointer(), pointer, I64]
    made, b = function(module, f"winograd_{shape.dtype}", kinds, public=True)
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    task = _task(b, r, item)
    block, group = emit_block(b, r, b.add(r.first_box, task.box), begins=True)
    where = _find(b, r, shape, scratch, (group, task.box))
    count = _fill_tables(b, r, block, where, (shape.columns, len(forms) + 1))
    patches = Patches(b, r, forms, block, (where.points, count))
    emit_data(
        b, r, shape, (parts.pack_row, parts.transform_data), block, where, patches, task.slabs
    )
    points = math.prod(form.points for form in forms)
    first = b.add(r.first_panel, b.mul(task.chunk, r.panels_a_chunk))
    last = smaller(b, b.add(first, r.panels_a_chunk), r.panels)
    passes = b.sdiv(b.add(b.sub(last, first), b.sub(r.panels_a_pass, number(1))), r.panels_a_pass)
    written = begin_results(b, r, shape, where, patches)
    in_place = b.icmp_signed(">", written.outputs, number(0))
    with counted(b, task.outer_phases) as phase:
        lines = settle_phase(b, r, block, phase.index)
        needed = b.select(b.icmp_signed(">", lines, number(0)), passes, number(0))
        with b.if_then(in_place):
            find_targets(b, r, where, patches, phase.index)
        with counted(b, needed) as turn:
            start = b.add(first, b.mul(turn.index, r.panels_a_pass))
            some = smaller(b, b.sub(last, start), r.panels_a_pass)
            emit_products(b, r, shape, parts.tiles, where, points,
                          (phase.index, start, some, count), written)  # fmt: skip
            with counted(b, some) as panel:
                channel = b.mul(b.add(start, panel.index), number(shape.columns))
                used = smaller(b, b.sub(r.columns, channel), number(shape.columns))
                these = Panel(phase.index, panel.index, channel, used), written, lines
                functions = parts.transform_result, parts.store_row
                emit_results(b, r, shape, functions, block, where, patches, these)
    b.ret_void()
    return made


@dataclass(frozen=True, slots=True)
class _Task:
    """What a work item does."""

    box: ir.Value  # counted from the round's first one
    slabs: tuple[ir.Value, ir.Value]  # of channels, to transform: from and to
    chunk: ir.Value  # of panels, to multiply
    outer_phases: ir.Value  # to multiply: all or none


def _task(b: ir.IRBuilder, r: Record, item: ir.Value) -> _Task:
    """Find what the record's stage makes of a running number.

    A chunk's weights are read for all boxes, one after the other, before those of the next.
    """
    transforms, multiplies = (
        b.icmp_signed("==", r.stage, number(stage)) for stage in (TRANSFORM, MULTIPLY)
    )
    divisor = b.select(transforms, r.slabs, b.select(multiplies, r.boxes, r.chunks))
    quotient, remainder = b.sdiv(item, divisor), b.srem(item, divisor)
    inner = b.select(multiplies, quotient, remainder)
    none = number(0)
    whole = b.select(multiplies, none, r.slabs)
    return _Task(
        box=b.select(multiplies, remainder, quotient),
        slabs=(
            b.select(transforms, inner, none),
            b.select(transforms, b.add(inner, number(1)), whole),
        ),
        chunk=inner,
        outer_phases=b.select(transforms, none, r.outer_phases),
    )


def _find(
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    scratch: ir.Value,
    numbers: tuple[ir.Value, ir.Value],
) -> Place:
    group, box = numbers
    pointer = FLOATS[shape.dtype].as_pointer()
    floats = {
        name: place(b, scratch, getattr(r, f"scratch_{name}"))
        for name in ("data", "products", "sums", "nothing", "nowhere")
    }
    shared = place(b, r.pointer_to("shared", pointer), b.mul(box, r.slot))
    alone = b.icmp_signed("==", r.stage, number(WHOLE))
    floats["data"] = b.select(alone, floats["data"], shared)
    tables = {
        name: b.bitcast(place(b, scratch, getattr(r, f"scratch_{name}")), I64.as_pointer())
        for name in TABLES
    }
    stored = STORED[shape.dtype].as_pointer()
    padded = b.mul(r.panels, number(shape.columns))
    return Place(
        scratch=scratch,
        **floats,
        **tables,
        source=place(b, r.pointer_to("source", stored), b.mul(group, r.source_g)),
        target=place(b, r.pointer_to("target", stored), b.mul(group, r.target_g)),
        weights=place(b, r.pointer_to("weights", pointer), b.mul(group, r.group_weights)),
        bias=place(b, r.pointer_to("bias", pointer), b.mul(group, padded)),
    )


def _fill_tables(
    b: ir.IRBuilder, r: Record, block: Block, where: Place, sizes: tuple[int, int]
) -> ir.Value:
    """Note for every patch of the block what it reads and writes; return how many there are.

    The sizes are the columns of a panel, and axes with the batch.
    """
    columns, rank = sizes
    store(b, block.start, block.starts, r.outer)
    store(b, block.stop, block.stops, r.outer)
    axes = b.add(r.outer, number(1))
    with counted(b, axes, [number(1)]) as axis:
        points = b.sub(load(b, block.stops, axis.index), load(b, block.starts, axis.index))
        count = b.sdiv(points, r.at("patch_points", axis.index))
        store(b, count, block.extents, axis.index)
        axis.carried = [b.mul(axis.carried[0], count)]
    patches = axis.carried[0]
    with counted(b, patches) as patch:
        with counted(b, axes, [patch.index, number(0), number(0), number(0)]) as axis:
            d = b.sub(r.outer, axis.index)
            rest, read, write, _ = axis.carried
            count = load(b, block.extents, d)
            here, apart = b.srem(rest, count), r.at("aparts", d)
            # Tiles of points that lie apart stand between each other.
            behind = b.mul(
                b.mul(b.sdiv(here, apart), apart), b.sub(r.at("patch_points", d), number(1))
            )
            point = b.add(here, behind)
            column = b.add(b.mul(patch.index, number(rank)), d)
            store(b, b.add(load(b, block.starts, d), point), where.points, column)
            axis.carried = [
                b.sdiv(rest, count),
                b.add(read, b.mul(point, r.at("read_steps", d))),
                b.add(write, b.mul(point, r.at("write_steps", d))),
                point,
            ]
        _, read, write, image = axis.carried
        store(b, read, where.reads, patch.index)
        store(b, write, where.writes, patch.index)
        store(b, b.add(image, load(b, block.starts)), where.images, patch.index)
        store(b, b.mul(patch.index, r.row_pitch), where.rows, patch.index)
        store(b, b.mul(patch.index, number(columns)), where.places, patch.index)
    with counted(b, number(ZEROS)) as entry:
        store(b, number(0), where.zeros, entry.index)
    # The last tile's rows past the last one read the first one, and sum to nowhere.
    with counted(b, r.spare) as more:
        index = b.add(patches, more.index)
        store(b, number(0), where.rows, index)
        store(b, r.nowhere, where.places, index)
    return patches
