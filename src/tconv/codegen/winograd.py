"""Winograd's algorithm: blocks of patches transformed, multiplied point by point, transformed back.

What a number means is said in :mod:`tconv.plan.winograd`.
"""

import math
from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.activation import activated
from tconv.codegen.block import (
    Block,
    KernelShape,
    Record,
    TransformShape,
    emit_block,
    emit_pack_region,
)
from tconv.codegen.block_lines import each_line, from_start, line_ends, stores
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
from tconv.codegen.patches import emit_transform_data, emit_transform_result
from tconv.codegen.points import settle_phase
from tconv.codegen.rows import emit_pack_row, emit_store_row
from tconv.codegen.tile import Tile, emit_tile
from tconv.codegen.winograd_products import Place, emit_products
from tconv.plan.winograd import ARRAYS, FIELDS, MULTIPLY, TRANSFORM, WHOLE, ZEROS


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
    patches = _fill_tables(b, r, block, where, shape.columns)
    _emit_data(b, r, shape, parts, block, where, patches, task.slabs)
    points = math.prod(form.points for form in forms)
    first = b.add(r.first_panel, b.mul(task.chunk, r.panels_a_chunk))
    last = smaller(b, b.add(first, r.panels_a_chunk), r.panels)
    passes = b.sdiv(b.add(b.sub(last, first), b.sub(r.panels_a_pass, number(1))), r.panels_a_pass)
    with counted(b, task.outer_phases) as phase:
        lines = settle_phase(b, r, block, phase.index)
        needed = b.select(b.icmp_signed(">", lines, number(0)), passes, number(0))
        with counted(b, needed) as turn:
            start = b.add(first, b.mul(turn.index, r.panels_a_pass))
            count = smaller(b, b.sub(last, start), r.panels_a_pass)
            emit_products(b, r, shape, parts.tiles, where, points,
                      (phase.index, start, count, patches))  # fmt: skip
            with counted(b, count) as panel:
                _transform_back(b, r, parts.transform_result, where, panel.index, patches)
                _store_panel(b, r, parts.store_row, block, where, lines,
                             (phase.index, b.add(start, panel.index), shape.columns))  # fmt: skip
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
        for name in ("data", "products", "sums")
    }
    shared = place(b, r.pointer_to("shared", pointer), b.mul(box, r.slot))
    alone = b.icmp_signed("==", r.stage, number(WHOLE))
    floats["data"] = b.select(alone, floats["data"], shared)
    tables = {
        name: b.bitcast(place(b, scratch, getattr(r, f"scratch_{name}")), I64.as_pointer())
        for name in ("rows", "places", "reads", "writes", "images", "zeros")
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


def _fill_tables(b: ir.IRBuilder, r: Record, block: Block, where: Place, columns: int) -> ir.Value:
    """Note for every patch of the block what it reads and writes; return how many there are."""
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


def _emit_data(  # noqa: PLR0913 - what of which block
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    block: Block,
    where: Place,
    patches: ir.Value,
    slabs: tuple[ir.Value, ir.Value],
) -> None:
    """Pack and transform what the block reads, slab of channels by slab."""
    with counted(b, slabs[1], first=slabs[0]) as slab:
        first = b.mul(slab.index, r.slab)
        channels = smaller(b, b.sub(r.depth, first), r.slab)
        source = place(b, where.source, b.mul(first, r.source_c))
        emit_pack_region(b, r, parts.pack_row, block, where.scratch, source, (channels, r.slab))
        vectors = b.sdiv(b.add(channels, number(shape.lanes - 1)), number(shape.lanes))
        with counted(b, patches) as patch:
            region = place(b, where.scratch, load(b, where.reads, patch.index))
            row = place(b, where.data, b.add(load(b, where.rows, patch.index), first))
            with counted(b, r.parts) as part:
                read = place(b, region, r.at("part_reads", part.index))
                target = place(b, row, b.mul(part.index, r.part_pitch))
                b.call(parts.transform_data, [target, read, r.patch_reads, r.point_pitch, vectors])


def _transform_back(  # noqa: PLR0913 - what of which panel
    b: ir.IRBuilder,
    r: Record,
    transform_result: ir.Function,
    where: Place,
    panel: ir.Value,
    patches: ir.Value,
) -> None:
    """Turn a panel's products into sums, phases of the last axis side by side."""
    flags = r.pointer_to("flags", I64.as_pointer())
    with counted(b, r.phases) as x, counted(b, patches) as patch:
        index = b.add(b.mul(x.index, r.panels_a_pass), panel)
        begin = b.add(b.mul(index, r.panel_pitch), load(b, where.places, patch.index))
        shift = b.mul(x.index, b.sdiv(r.at("write_steps", r.outer), r.step_out))
        target = place(b, where.sums, b.add(load(b, where.writes, patch.index), shift))
        flag = place(b, flags, load(b, where.images, patch.index))
        read = place(b, where.products, begin)
        b.call(transform_result, [target, read, r.patch_writes, r.product_pitch, flag])


def _store_panel(  # noqa: PLR0913 - which panel of what
    b: ir.IRBuilder,
    r: Record,
    store_row: ir.Function,
    block: Block,
    where: Place,
    lines: ir.Value,
    numbers: tuple[ir.Value, ir.Value, int],
) -> None:
    """Store the panel's lines, all phases of the last axis side by side."""
    phase, panel, columns = numbers
    channel = b.mul(panel, number(columns))
    used = smaller(b, b.sub(r.columns, channel), number(columns))
    begin, point, length = line_ends(b, r, block)
    start = b.add(b.mul(point, r.target_x), b.mul(channel, r.target_c))
    walks = (
        from_start(b, r, block, lambda d: r.at("write_steps", d)),
        stores(b, r, block, phase, start),
    )
    with each_line(b, r, block, lines, *walks) as (_, (read, offset)):
        sums = place(b, where.sums, b.add(read, b.mul(begin, number(columns))))
        left = activated(b, r, sums, place(b, where.bias, channel), (length, used, number(columns)))
        steps = [r.target_x, r.target_c, number(columns)]
        b.call(store_row, [place(b, where.target, offset), sums, left, length, used, *steps])
