"""Weights packed into panels, in the order that tiles read them."""

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
from tconv.codegen.lines import Found, Lines, column_place, copy_line, pack_lines
from tconv.codegen.ragged import find_ragged
from tconv.codegen.stored import lies_in_pairs, widened
from tconv.plan.weights import (
    ARRAYS,
    CELL_ARRAYS,
    CELL_FIELDS,
    FIELDS,
    NOWHERE,
    PICK_ARRAYS,
    PICK_FIELDS,
)

AHEAD = 2  # sets of lines, until weights come from memory


def emit_pack_weights(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``pack_weights(record, scratch, item)``, public.

    An item is a block of the depth of one panel of one group: for each tap and channel of the
    depth a line, the panel's channels side by side.  A panel of at most one vector's channels is
    narrow.  The last vector ends with the last channel; behind fewer than it has lanes are zeros.
    The flag is raised if any weight is not finite.
    """
    pointer = STORED[shape.dtype].as_pointer()
    made, b = function(
        module, f"pack_weights_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    r = Record(b, made.args[0], FIELDS, ARRAYS)
    block, rest = b.srem(made.args[2], r.blocks), b.sdiv(made.args[2], r.blocks)
    panel, group = b.srem(rest, r.panels), b.sdiv(rest, r.panels)
    ragged = find_ragged(b, shape, r.columns)
    channel = ragged.channel(b, panel)
    left = b.sub(r.columns, b.mul(panel, number(shape.columns)))
    narrow = b.icmp_signed("<=", left, number(shape.lanes))
    width = b.select(narrow, number(shape.lanes), number(shape.columns))
    origin = b.add(b.mul(group, r.group_step), b.mul(channel, r.column_step))
    source = place(b, r.pointer_to("source", pointer), origin)
    target = place(b, r.pointer_to("target", pointer), b.mul(group, r.group_weights))
    first = b.mul(block, r.block)
    last = smaller(b, r.depth, b.add(first, r.block))
    units = b.sdiv(b.add(b.sub(last, first), b.sub(r.unit, number(1))), r.unit)
    found = Found(b, shape)
    places = _places(b, r, made.args[1], panel, b.select(narrow, r.narrow, r.wide))
    ahead = b.mul(b.mul(number(AHEAD), r.unit), r.depth_step)
    with counted(b, units) as turn:
        k = b.add(first, b.mul(turn.index, r.unit))
        count = b.mul(smaller(b, r.unit, b.sub(last, k)), r.entries)
        with counted(b, r.sets) as each:
            begin = b.mul(each.index, b.mul(r.unit, r.entries))
            lines = Lines(
                source=place(b, source, b.mul(k, r.depth_step)),
                offsets=place(b, r.offsets, begin),
                target=place(b, target, b.mul(k, width)),
                places=place(b, places, begin),
                column_step=r.column_step,
                ahead=ahead,
                filled=b.select(ragged.fits, width, left),
                last=ragged.last_of(b, panel),
                narrow=narrow,
                pairs=lies_in_pairs(shape.dtype, shape.vectors),
            )
            pack_lines(b, shape, lines, (count, r.straight), found)
    found.raise_flag(b, r.pointer_to("flag", I64.as_pointer()))
    b.ret_void()
    return made


def _places(
    b: ir.IRBuilder, r: Record, scratch: ir.Value, panel: ir.Value, first: ir.Value
) -> ir.Value:
    """Note where the lines of a panel go, given where those of the first one do."""
    places = b.bitcast(scratch, I64.as_pointer())
    with counted(b, b.mul(r.sets, b.mul(r.unit, r.entries))) as line:
        further = b.mul(panel, load(b, r.panel_steps, line.index))
        store(b, b.add(load(b, first, line.index), further), places, line.index)
    return places


def emit_pack_cells(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``pack_cells(record, scratch, item)``, public.

    An item is one panel for one neighbour of one group: for each channel of the depth the
    panel's columns side by side, each from where the table says.
    """
    kind = STORED[shape.dtype]
    pointer = kind.as_pointer()
    made, b = function(
        module, f"pack_cells_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    r = Record(b, made.args[0], CELL_FIELDS, CELL_ARRAYS)
    panel, rest = b.srem(made.args[2], r.panels), b.sdiv(made.args[2], r.panels)
    neighbour, group = b.srem(rest, r.neighbours), b.sdiv(rest, r.neighbours)
    wide = b.icmp_signed("<", panel, r.wide_panels)
    width = b.select(wide, number(shape.columns), number(shape.lanes))
    rows = b.mul(r.neighbours, r.depth)
    behind = b.add(
        b.mul(b.mul(panel, rows), number(shape.columns)),
        b.mul(b.mul(neighbour, r.depth), width),
    )
    begin = b.add(b.mul(group, r.group_weights), behind)
    target = place(b, r.pointer_to("target", pointer), begin)
    source = place(b, r.pointer_to("source", pointer), b.mul(group, r.group_step))
    columns = b.mul(b.add(b.mul(neighbour, r.panels), panel), number(shape.columns))
    offsets = place(b, r.offsets, columns)
    found = Found(b, shape)
    begin = load(b, offsets)
    start = b.icmp_signed("!=", begin, number(NOWHERE))
    with counted(b, width, [b.and_(wide, start)]) as column:
        next_one = b.icmp_signed("==", load(b, offsets, column.index), b.add(begin, column.index))
        column.carried = [b.and_(column.carried[0], next_one)]
    with b.if_else(column.carried[0]) as (side_by_side, scattered):
        with side_by_side, counted(b, r.depth) as k:
            read = place(b, source, b.add(begin, b.mul(k.index, r.depth_step)))
            line = place(b, target, b.mul(k.index, width))
            behind = number((shape.vectors - 1) * shape.lanes)
            pairs = lies_in_pairs(shape.dtype, shape.vectors)
            copy_line(b, shape, (read, behind), line, (found, pairs))
        with scattered, counted(b, width) as column:
            offset = load(b, offsets, column.index)
            here = column_place(b, shape, column.index, b.not_(wide))
            there = b.icmp_signed("!=", offset, number(NOWHERE))
            line = place(b, source, b.select(there, offset, number(0)))
            with counted(b, r.depth) as k:
                read = load(b, line, b.mul(k.index, r.depth_step))
                value = b.select(there, read, ir.Constant(kind, 0))
                store(b, value, target, b.add(b.mul(k.index, width), here))
                found.look(b, value)
    found.raise_flag(b, r.pointer_to("flag", I64.as_pointer()))
    b.ret_void()
    return made


def emit_pick_weights(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``pick_weights(record, scratch, item)``, public.

    The only item is all of them: each is taken from where the table says, and kept in the type
    of sums.
    """
    stored, sums = STORED[shape.dtype].as_pointer(), FLOATS[shape.dtype].as_pointer()
    made, b = function(
        module, f"pick_weights_{shape.dtype}", [I64.as_pointer(), stored, I64], public=True
    )
    r = Record(b, made.args[0], PICK_FIELDS, PICK_ARRAYS)
    source, target = r.pointer_to("source", stored), r.pointer_to("target", sums)
    found = Found(b, shape)
    with counted(b, r.count) as each:
        offset = load(b, r.offsets, each.index)
        found.look(b, load(b, source, offset))
        store(b, widened(b, source, offset, shape.dtype), target, each.index)
    found.raise_flag(b, r.pointer_to("flag", I64.as_pointer()))
    b.ret_void()
    return made
