"""The data of Winograd's algorithm: what patches read, transformed into rows of products."""

from llvmlite import ir

from tconv.codegen.block import Block, KernelShape, Record, emit_pack_region
from tconv.codegen.build import FLOATS, STORED, counted, load, number, place, smaller
from tconv.codegen.patch_places import (
    Patches,
    elements_between,
    fill_steps,
    first_place,
    list_places,
)
from tconv.codegen.rows import zero_fill
from tconv.codegen.winograd_products import Place

MOST_SHARED = 1.25  # times that patches read each point in the mean, where they lie


def emit_data(  # noqa: PLR0913 - what of which block
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    functions: tuple[ir.Function, ir.Function],
    block: Block,
    where: Place,
    patches: Patches,
    slabs: tuple[ir.Value, ir.Value],
) -> None:
    """Transform some slabs of what the block reads: where it lies, or packed.

    The functions pack a row, and transform the data of a patch.  Patches of several axes share
    much of what they read: that is soon packed, and near then.
    """
    pack_row, transform = functions
    lists = patches.lists(where.lists)
    plain = STORED[shape.dtype] == FLOATS[shape.dtype]
    if not plain or patches.shared > MOST_SHARED:
        _transform_packed(b, r, (pack_row, transform), block, where, patches, slabs)
        return
    fits = b.icmp_signed(">=", r.depth, number(shape.lanes))
    beside = b.and_(fits, b.icmp_signed("==", r.source_c, number(1)))
    with b.if_then(b.icmp_signed("<", *slabs)), b.if_else(beside) as (near, packed):
        with near:
            zero_fill(b, where.nothing, r.part_pitch, shape.dtype)
            steps = patches.source_steps
            apart = [b.mul(*each) for each in zip(patches.steps_read, steps, strict=True)]
            fill_steps(b, lists.read, patches.boxes_read, apart)
            nothing = elements_between(b, where.source, where.nothing)
            begin, end = (smaller(b, b.mul(slab, r.slab), r.depth) for slab in slabs)
            last = b.sub(r.depth, number(shape.lanes))
            with counted(b, patches.count) as patch, counted(b, r.parts) as part:
                axes = patches.read(patch.index, part.index)
                first, inside = first_place(b, axes, steps)
                with b.if_then(b.not_(inside), likely=False):
                    list_places(b, lists.border, axes, steps, nothing)
                source = place(b, where.source, b.select(inside, first, number(0)))
                row = place(b, where.data, load(b, where.rows, patch.index))
                target = place(b, row, b.mul(part.index, r.part_pitch))
                places = b.select(inside, lists.read, lists.border)
                numbers = r.point_pitch, begin, end, last
                b.call(transform, [target, source, places, *numbers])
        with packed:
            _transform_packed(b, r, (pack_row, transform), block, where, patches, slabs)


def _transform_packed(  # noqa: PLR0913 - as above
    b: ir.IRBuilder,
    r: Record,
    functions: tuple[ir.Function, ir.Function],
    block: Block,
    where: Place,
    patches: Patches,
    slabs: tuple[ir.Value, ir.Value],
) -> None:
    """Pack and transform what the block reads, slab of channels by slab."""
    pack_row, transform = functions
    places = patches.lists(where.lists).read
    fill_steps(b, places, patches.boxes_read[1:], patches.of_record("patch_reads"))
    with counted(b, slabs[1], first=slabs[0]) as slab:
        first = b.mul(slab.index, r.slab)
        channels = smaller(b, b.sub(r.depth, first), r.slab)
        source = place(b, where.source, b.mul(first, r.source_c))
        emit_pack_region(b, r, pack_row, block, where.scratch, source, (channels, r.slab))
        with counted(b, patches.count) as patch:
            region = place(b, where.scratch, load(b, where.reads, patch.index))
            row = place(b, where.data, b.add(load(b, where.rows, patch.index), first))
            with counted(b, r.parts) as part:
                read = place(b, region, r.at("part_reads", part.index))
                target = place(b, row, b.mul(part.index, r.part_pitch))
                numbers = r.point_pitch, number(0), channels, channels
                b.call(transform, [target, read, places, *numbers])
