"""Both sides of a correlation, packed block by block: which lines there are, and where they go."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llvmlite import ir

from tconv.codegen.block import Block, KernelShape, Record, emit_block
from tconv.codegen.build import (
    FLOATS,
    I64,
    STORED,
    counted,
    function,
    larger,
    load,
    number,
    place,
    smaller,
    store,
)
from tconv.plan.correlate import ARRAYS, FIELDS

Packers = dict[int, ir.Function]  # by how many elements of a point lie side by side; 1 for planes

FAR_CHANNELS = 16  # packed at a time then
FAR = 1024  # elements from channel to channel that put each into a page of its own


def emit_pack_sides(module: ir.Module, shape: KernelShape, packers: Packers) -> None:
    """Emit ``pack_sides(record, scratch, item)``: some channels of a side, for all work items."""
    pointer = FLOATS[shape.dtype].as_pointer()
    made, b = function(
        module, f"pack_sides_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    block, _ = emit_block(b, r, number(0), begins=False)
    chunks = b.add(r.pack_a_chunks, r.pack_b_chunks)
    group, index = b.sdiv(item, chunks), b.srem(item, chunks)
    target = place(b, r.pointer_to("common", pointer), b.mul(group, r.shared))
    with b.if_else(b.icmp_signed("<", index, r.pack_a_chunks)) as (side_a, side_b):
        with side_a:
            first = b.mul(index, r.pack_a)
            into = place(b, target, b.mul(b.sdiv(first, height_of_a(b, r, shape)), r.a_plane))
            pack_a(b, r, shape, packers, block, (group, first, r.pack_a), (into, scratch))
        with side_b:
            first = b.mul(b.sub(index, r.pack_a_chunks), r.pack_b)
            panel = b.mul(b.sdiv(first, number(shape.panel)), r.b_plane)
            into = place(b, target, b.add(r.shared_b, panel))
            pack_b(b, r, shape, packers, block, (group, first, r.pack_b), (into, scratch))
    b.ret_void()


def pack_a(  # noqa: PLR0913 - which channels of which block, where to, and by what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    packers: Packers,
    block: Block,
    start: tuple[ir.Value, ir.Value, ir.Value],
    target: tuple[ir.Value, ir.Value],
) -> None:
    """Pack side A: planes where rows are taps and channels, or vectors; else tiles of channels.

    ``target`` is where, and this worker's scratch.
    """
    height = height_of_a(b, r, shape)
    pack: ir.Value = packers[shape.lanes if shape.groups > 1 else shape.rows[0]]
    if shape.groups == 1:
        pack = b.select(is_swapped(b, r), packers[1], pack)
    _pack_side(b, r, ("a", shape), block, pack, start, (*target, height))


def pack_b(  # noqa: PLR0913 - which channels of which block, where to, and by what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    packers: Packers,
    block: Block,
    start: tuple[ir.Value, ir.Value, ir.Value],
    target: tuple[ir.Value, ir.Value],
) -> None:
    """Pack side B: panels of channels; ``target`` is where, and this worker's scratch."""
    columns = number(shape.panel)
    _pack_side(b, r, ("b", shape), block, packers[shape.columns], start, (*target, columns))


def is_swapped(b: ir.IRBuilder, r: Record) -> ir.Value:
    """Tell whether the fine side is A."""
    return b.icmp_signed("!=", r.swapped, number(0))


def height_of_a(b: ir.IRBuilder, r: Record, shape: KernelShape) -> ir.Value:
    """Return how many channels of side A lie side by side."""
    if shape.groups > 1:
        return number(1)
    return b.select(is_swapped(b, r), r.a_beside, number(shape.rows[0]))


def _pack_side(  # noqa: PLR0913 - which side, where from, where to, and by what
    b: ir.IRBuilder,
    r: Record,
    kind: tuple[str, KernelShape],
    block: Block,
    pack: ir.Value,
    start: tuple[ir.Value, ir.Value, ir.Value],
    target: tuple[ir.Value, ir.Value, ir.Value],
) -> None:
    """Pack all that the block needs of a side.

    ``start`` is a group, a channel of it, and how many from there.  ``target`` is where, this
    worker's scratch, and how many channels of a point lie side by side.  Where channels lie far
    apart, only a few of them are read at a time, line after line.
    """
    side, shape = kind

    def field(name: str) -> ir.Value:
        value: ir.Value = getattr(r, f"{side}_{name}")
        return value

    group, channel, most = start
    into, scratch, columns = target
    stored = STORED[shape.dtype].as_pointer()
    first_group = b.mul(group, number(shape.groups))
    offset = b.add(b.mul(first_group, field("g")), b.mul(channel, field("c")))
    source = place(b, r.pointer_to(f"side_{side}", stored), offset)
    channels = smaller(b, b.sub(field("channels"), channel), most)
    with counted(b, r.outer, [number(1), number(1)]) as axis:
        d = axis.index
        count = b.sub(load(b, block.stops, d), load(b, block.starts, d))
        extent = b.add(count, r.at(f"{side}_halos", d))
        store(b, extent, block.extents, d)
        store(b, number(0), block.lows, d)
        axis.carried = [b.mul(axis.carried[0], axis.carried[1]), extent]
    planes, lines = axis.carried
    first = b.add(b.mul(block.start, field("step")), field("low"))
    limit = smaller(b, field("size"), b.add(b.mul(block.stop, field("step")), field("slack")))
    points = b.mul(b.sub(block.stop, block.start), field("scale"))
    points = b.add(points, field("halo"))
    points = b.mul(points, field("width"))
    elements = b.mul(columns, number(shape.groups))
    tables = _fill_points(b, r, side, points, scratch)
    head, body = _count_inside(b, field, tables[0], points, (b.neg(first), b.sub(limit, first)))
    tail = b.sub(b.sub(points, head), body)
    far = b.icmp_signed(">=", field("c"), number(FAR))
    some = number(FAR_CHANNELS // shape.groups - 1)
    few = b.mul(b.sdiv(b.add(columns, some), columns), columns)
    at_once = b.select(far, few, channels)
    turns = b.sdiv(b.add(channels, b.sub(at_once, number(1))), at_once)
    with (
        counted(b, turns) as turn,
        counted(b, field("combinations")) as combination,
        counted(b, planes),
        _lines_of(b, r, side, block, (combination.index, lines)) as (line, begin, valid),
    ):
        read = b.select(valid, b.add(begin, b.mul(first, field("x"))), number(0))
        done = b.mul(turn.index, at_once)
        panel = b.mul(b.sdiv(done, columns), field("plane"))
        arguments = [
            place(b, into, b.add(panel, b.mul(line, elements))),
            place(b, source, b.add(read, b.mul(done, field("c")))),
            *tables,
            b.select(valid, head, points),
            b.select(valid, body, number(0)),
            b.select(valid, tail, number(0)),
            smaller(b, b.sub(channels, done), at_once),
            *(field(name) for name in ("plane", "x", "c", "contiguous")),
            r.plane,
        ]
        if shape.groups > 1:
            last = b.sub(b.sub(r.groups, number(1)), first_group)
            arguments += [field("g"), last]
        else:
            arguments.append(columns)
        b.call(pack, arguments)


def _fill_points(
    b: ir.IRBuilder, r: Record, side: str, points: ir.Value, scratch: ir.Value
) -> list[ir.Value]:
    """Note where each point of a line is read, and where it goes: to the plane of its residue.

    Planes of points that are read one after another need no notes.
    """
    reads, places = (
        b.bitcast(place(b, scratch, where), I64.as_pointer())
        for where in (r.scratch_reads, r.scratch_places)
    )
    width, step = getattr(r, f"{side}_width"), getattr(r, f"{side}_step")
    quotients = b.sdiv(points, width)
    if side == "a":
        runs_on = b.icmp_signed(">", r.a_contiguous, number(0))
        planes = b.and_(is_swapped(b, r), runs_on)
        quotients = b.select(planes, number(0), quotients)
    with counted(b, width) as residue:
        j = residue.index
        read, here = r.at(f"{side}_last_residues", j), b.mul(j, r.plane)
        with counted(b, quotients, [read, j]) as q:
            read, point = q.carried
            store(b, read, reads, point)
            store(b, b.add(here, q.index), places, point)
            q.carried = [b.add(read, step), b.add(point, width)]
    return [reads, places]


def _count_inside(
    b: ir.IRBuilder,
    field: Callable[[str], ir.Value],
    reads: ir.Value,
    points: ir.Value,
    limits: tuple[ir.Value, ir.Value],
) -> tuple[ir.Value, ir.Value]:
    """Return how many points lie before the picture, and how many in it."""
    low, high = limits
    runs_on = b.icmp_signed(">", field("contiguous"), number(0))
    counted_points = b.select(runs_on, number(0), points)
    with counted(b, counted_points, [number(0), number(0)]) as i:
        before, inside = i.carried
        read = load(b, reads, i.index)
        early = b.icmp_signed("<", read, low)
        good = b.and_(b.not_(early), b.icmp_signed("<", read, high))
        i.carried = [b.add(before, b.zext(early, I64)), b.add(inside, b.zext(good, I64))]
    before, inside = i.carried
    # What runs on is its own number.
    first, last = (smaller(b, larger(b, limit, number(0)), points) for limit in limits)
    last = larger(b, last, first)
    return b.select(runs_on, first, before), b.select(runs_on, b.sub(last, first), inside)


@contextmanager
def _lines_of(
    b: ir.IRBuilder, r: Record, side: str, block: Block, numbers: tuple[ir.Value, ir.Value]
) -> Iterator[tuple[ir.Value, ir.Value, ir.Value]]:
    """Emit a loop over the lines of the next plane.

    Yields where each goes, in points, where it comes from, and whether it exists.  The numbers
    are a combination of residues and how many lines there are.
    """
    combination, lines = numbers
    d = b.sub(r.outer, number(1))
    width = getattr(r, f"{side}_width")
    into = b.mul(b.mul(combination, width), r.plane)
    residues = b.mul(combination, r.outer)
    into, read, valid = _next_plane(b, r, side, block, (into, residues))
    step, source_step = r.at(f"{side}_steps", d), r.at(f"{side}_source_steps", d)
    first, limit = _axis_of(b, r, side, block, (residues, d))
    first = b.add(b.mul(load(b, block.starts, d), step), first)
    read = b.add(read, b.mul(first, source_step))
    with counted(b, lines, [first, into, read]) as line:
        coordinate, into, read = line.carried
        yield into, read, b.and_(valid, _inside(b, coordinate, limit))

        line.carried = [
            b.add(coordinate, step),
            b.add(into, r.at(f"{side}_pitches", d)),
            b.add(read, b.mul(step, source_step)),
        ]


def _next_plane(
    b: ir.IRBuilder, r: Record, side: str, block: Block, begins: tuple[ir.Value, ir.Value]
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return where the first line of a plane goes, where from, and whether the plane exists.

    The block's lows are the plane's own place, which is counted up: dividing takes longer than
    packing a short line.
    """
    into, residues = begins
    outer = b.sub(r.outer, number(1))
    with counted(b, outer, [into, number(0), number(1), number(1)]) as axis:
        d = b.sub(b.sub(outer, number(1)), axis.index)
        into, read, valid, carry = axis.carried
        here = load(b, block.lows, d)
        shifted, limit = _axis_of(b, r, side, block, (residues, d))
        point = b.add(load(b, block.starts, d), here)
        coordinate = b.add(b.mul(point, r.at(f"{side}_steps", d)), shifted)
        following = b.add(here, carry)
        full = b.icmp_signed("==", following, load(b, block.extents, d))
        store(b, b.select(full, number(0), following), block.lows, d)
        axis.carried = [
            b.add(into, b.mul(here, r.at(f"{side}_pitches", d))),
            b.add(read, b.mul(coordinate, r.at(f"{side}_source_steps", d))),
            b.and_(valid, b.zext(_inside(b, coordinate, limit), I64)),
            b.zext(full, I64),
        ]
    into, read, valid, _ = axis.carried
    return into, read, b.icmp_signed("!=", valid, number(0))


def _axis_of(
    b: ir.IRBuilder, r: Record, side: str, block: Block, where: tuple[ir.Value, ir.Value]
) -> tuple[ir.Value, ir.Value]:
    """Return where point 0 of an outer axis would be read, and the point behind the last."""
    residues, d = where
    far = b.mul(load(b, block.stops, d), r.at(f"{side}_steps", d))
    limit = smaller(b, r.at(f"{side}_sizes", d), b.add(far, getattr(r, f"{side}_slack")))
    return b.add(r.at(f"{side}_lows", d), r.at(f"{side}_residues", b.add(residues, d))), limit


def _inside(b: ir.IRBuilder, coordinate: ir.Value, limit: ir.Value) -> ir.Value:
    return b.and_(b.icmp_signed(">=", coordinate, number(0)), b.icmp_signed("<", coordinate, limit))
