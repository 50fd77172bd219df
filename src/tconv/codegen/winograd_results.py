"""The results of Winograd's algorithm: products of patches, transformed and stored."""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.activation import activated
from tconv.codegen.block import Block, KernelShape, Record
from tconv.codegen.block_lines import each_line, from_start, line_ends, stores
from tconv.codegen.build import (
    FLOATS,
    I1,
    I64,
    STORED,
    counted,
    load,
    number,
    place,
    store,
)
from tconv.codegen.patch_places import (
    Patches,
    elements_between,
    fill_steps,
    first_place,
    list_places,
)
from tconv.codegen.winograd_products import Place, Written


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of channels, of a phase of the outer axes."""

    phase: ir.Value
    index: ir.Value  # among those whose products are there
    channel: ir.Value  # its first one
    used: ir.Value  # how many it has


def begin_results(
    b: ir.IRBuilder, r: Record, shape: KernelShape, where: Place, patches: Patches
) -> Written:
    """Note how far the outputs of a patch are from its first; return what is written in place."""
    lists = patches.lists(where.lists)
    fill_steps(b, lists.summed, patches.boxes_written[1:], patches.of_record("patch_writes"))
    none = Written(where.target, where.targets, lists.written, number(0))
    if STORED[shape.dtype] != FLOATS[shape.dtype]:
        return none
    both = zip(patches.steps_written, patches.target_steps, strict=True)
    fill_steps(b, lists.written, patches.boxes_written, [b.mul(*each) for each in both])
    plain = b.icmp_signed("==", r.activate, number(0))
    direct = b.and_(plain, b.icmp_signed("==", r.target_c, number(1)))
    outputs = b.select(direct, number(patches.outputs), number(0))
    return Written(where.target, where.targets, lists.written, outputs)


def find_targets(
    b: ir.IRBuilder, r: Record, where: Place, patches: Patches, phase: ir.Value
) -> None:
    """Note where all patches of a phase are written, in every phase of the last axis.

    Twice that, and one more for those at a border.
    """
    outer = patches.phases(phase)
    with counted(b, r.phases) as x, counted(b, patches.count) as patch:
        axes = patches.written(patch.index, [*outer, x.index])
        first, inside = first_place(b, axes, patches.target_steps)
        found = b.or_(b.shl(first, number(1)), b.zext(b.not_(inside), I64))
        store(b, found, where.targets, b.add(b.mul(x.index, patches.count), patch.index))


def emit_results(  # noqa: PLR0913 - which panel of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    functions: tuple[ir.Function, ir.Function],
    block: Block,
    where: Place,
    patches: Patches,
    these: tuple[Panel, Written, ir.Value],
) -> None:
    """Transform a panel's products to the target, or to sums that are stored there.

    The functions transform a patch's products, and store a row.  Last come the phase's lines.
    """
    transform, store_row = functions
    panel, written, lines = these
    full = b.icmp_signed("==", panel.used, number(shape.columns))
    direct = b.and_(full, b.icmp_signed(">", written.outputs, number(0)))
    with b.if_else(direct) as (there, by_way_of_sums):
        with there:
            if STORED[shape.dtype] == FLOATS[shape.dtype]:
                _transform_there(b, r, transform, where, patches, panel)
        with by_way_of_sums:
            _transform_back(b, r, transform, where, patches, panel)
            _store_panel(b, r, store_row, block, where, (lines, shape.columns), panel)


def _transform_there(  # noqa: PLR0913 - what of which panel
    b: ir.IRBuilder,
    r: Record,
    transform: ir.Function,
    where: Place,
    patches: Patches,
    panel: Panel,
) -> None:
    """Turn a panel's products into results, where the target has them."""
    lists, outer = patches.lists(where.lists), patches.phases(panel.phase)
    target = place(b, where.target, panel.channel)
    nowhere = elements_between(b, target, where.nowhere)
    with counted(b, r.phases) as x, counted(b, patches.count) as patch:
        found = load(b, where.targets, b.add(b.mul(x.index, patches.count), patch.index))
        at_border = b.trunc(found, I1)
        with b.if_then(at_border, likely=False):
            axes = patches.written(patch.index, [*outer, x.index])
            list_places(b, lists.border, axes, patches.target_steps, nowhere)
        first = b.select(at_border, number(0), b.ashr(found, number(1)))
        ends = place(b, target, first), b.select(at_border, lists.border, lists.written)
        _transform_patch(b, r, transform, where, panel, (x.index, patch.index), ends)


def _transform_back(  # noqa: PLR0913 - what of which panel
    b: ir.IRBuilder,
    r: Record,
    transform: ir.Function,
    where: Place,
    patches: Patches,
    panel: Panel,
) -> None:
    """Turn a panel's products into sums, phases of the last axis side by side."""
    places = patches.lists(where.lists).summed
    with counted(b, r.phases) as x, counted(b, patches.count) as patch:
        shift = b.mul(x.index, b.sdiv(r.at("write_steps", r.outer), r.step_out))
        target = place(b, where.sums, b.add(load(b, where.writes, patch.index), shift))
        both = x.index, patch.index
        _transform_patch(b, r, transform, where, panel, both, (target, places))


def _transform_patch(  # noqa: PLR0913 - which products of what
    b: ir.IRBuilder,
    r: Record,
    transform: ir.Function,
    where: Place,
    panel: Panel,
    which: tuple[ir.Value, ir.Value],
    ends: tuple[ir.Value, ir.Value],
) -> None:
    """Transform the products of one phase of the last axis and patch to where they go."""
    x, patch = which
    target, places = ends
    flags = r.pointer_to("flags", I64.as_pointer())
    begin = b.add(b.mul(x, r.panels_a_pass), panel.index)
    begin = b.add(b.mul(begin, r.panel_pitch), load(b, where.places, patch))
    flag, bias = place(b, flags, load(b, where.images, patch)), place(b, where.bias, panel.channel)
    read = place(b, where.products, begin)
    b.call(transform, [target, read, places, r.product_pitch, bias, flag])


def _store_panel(  # noqa: PLR0913 - which panel of what
    b: ir.IRBuilder,
    r: Record,
    store_row: ir.Function,
    block: Block,
    where: Place,
    sizes: tuple[ir.Value, int],
    panel: Panel,
) -> None:
    """Store the panel's lines, all phases of the last axis side by side.

    Sums have the bias already.
    """
    lines, columns = sizes
    added = b.bitcast(where.zeros, where.bias.type)
    begin, point, length = line_ends(b, r, block)
    start = b.add(b.mul(point, r.target_x), b.mul(panel.channel, r.target_c))
    walks = (
        from_start(b, r, block, lambda d: r.at("write_steps", d)),
        stores(b, r, block, panel.phase, start),
    )
    with each_line(b, r, block, lines, *walks) as (_, (read, offset)):
        sums = place(b, where.sums, b.add(read, b.mul(begin, number(columns))))
        left = activated(b, r, sums, added, (length, panel.used, number(columns)))
        steps = [r.target_x, r.target_c, number(columns)]
        b.call(store_row, [place(b, where.target, offset), sums, left, length, panel.used, *steps])
