"""The region that a block of strips reads: packed, a plane for each channel and residue."""

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import Block, KernelShape, Record, emit_region_extents, emit_region_line
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
    shuffle,
    smaller,
    splat,
    store,
    zeros,
)
from tconv.codegen.plane_rows import emit_pack_planes
from tconv.codegen.rows import zero_fill
from tconv.codegen.stored import covered, if_enough, widened
from tconv.plan.strips import STEPS

SHORT = 4  # lanes of shorter vectors, for lines that fill no whole one


@dataclass(frozen=True, slots=True)
class _Part:
    """What the source has of the points that an axis reads: from which one on, and how many."""

    first: ir.Value
    count: ir.Value


@dataclass(frozen=True, slots=True)
class Packers:
    """What copies lines."""

    steps: dict[int, ir.Function]  # of neighbours, by the step between points of a residue
    apart: ir.Function  # of points that lie apart, but are packed side by side


def emit_packers(module: ir.Module, shape: KernelShape) -> Packers:
    """Emit what copies lines."""
    steps = {step: _emit_pack_lines(module, shape, step) for step in range(1, STEPS + 1)}
    return Packers(steps, emit_pack_planes(module, shape))


def _emit_pack_lines(module: ir.Module, shape: KernelShape, step: int) -> ir.Function:
    """Emit ``pack_lines(target, source, first, count, lines, pitch, down, apart)``.

    ``target[l * pitch + (first + j) % step * apart + (first + j) // step] = source[l * down + j]``
    for ``count`` points j of each line; nothing else is written, nor read.
    """
    dtype, lanes = shape.dtype, shape.lanes
    pointers = [FLOATS[dtype].as_pointer(), STORED[dtype].as_pointer()]
    made, b = function(module, f"pack_lines_{step}_{dtype}", [*pointers, *[I64] * 6])
    first, count, lines, pitch, down, apart = made.args[2:]
    target: ir.Value = made.args[0]
    source: ir.Value = made.args[1]
    for argument in made.args[:2]:
        argument.add_attribute("noalias")

    def begin(j: ir.Value) -> ir.Value:
        """Return where a point goes."""
        here = b.add(first, j)
        return b.add(b.mul(b.urem(here, number(step)), apart), b.udiv(here, number(step)))

    begins = [begin(number(residue)) for residue in range(step)]
    whole = b.udiv(count, number(step))
    left: ir.Value = lines
    if step == 1:
        target, source, left = _pack_short(
            b, shape, (target, source), (first, count), made.args[4:7]
        )
    for some in dict.fromkeys((lanes, SHORT, 0)):
        turns = b.select(b.icmp_signed(">=", whole, number(some)), left, number(0))
        with counted(b, turns, [target, source]) as line:
            into, read = line.carried
            line.carried = [place(b, into, pitch), place(b, read, down)]
            done = if_enough(b, whole, some) if some else number(0)
            if some:
                with covered(b, done, some) as x:
                    origin = place(b, read, b.mul(x, number(step)))
                    loaded = [widened(b, origin, v * some, dtype, some) for v in range(step)]
                    for where, values in zip(begins, parted(b, loaded), strict=True):
                        store(b, values, place(b, into, where), x)
            with counted(b, count, first=b.mul(done, number(step))) as j:
                store(b, widened(b, read, j.index, dtype), into, begin(j.index))
        left = b.sub(left, turns)
    b.ret_void()
    return made


def _pack_short(
    b: ir.IRBuilder,
    shape: KernelShape,
    ends: tuple[ir.Value, ir.Value],
    points: tuple[ir.Value, ir.Value],
    numbers: Sequence[ir.Value],
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Copy lines that fill most of a vector, all but the last; return what is left to do.

    The vector reads on into the next line, and writes zeros behind this one: where those belong,
    or where the next line is written after it.
    """
    dtype, lanes = shape.dtype, shape.lanes
    first, count = points
    lines, pitch, down = numbers
    behind = b.sub(number(lanes), count)
    short = b.icmp_signed(">", behind, number(0))
    short = b.and_(short, b.icmp_signed("<=", behind, smaller(b, count, down)))
    turns = b.select(short, b.sub(lines, number(1)), number(0))
    kind = ir.VectorType(I64, lanes)
    which = ir.Constant(kind, list(range(lanes)))
    real = b.icmp_signed("<", which, splat(b, count, lanes))
    with counted(b, turns, ends) as line:
        into, read = line.carried
        line.carried = [place(b, into, pitch), place(b, read, down)]
        value = widened(b, read, 0, dtype, lanes)
        store(b, b.select(real, value, zeros(value.type)), into, first)
    target, source = line.carried
    return target, source, b.sub(lines, turns)


def parted(b: ir.IRBuilder, vectors: Sequence[ir.Value]) -> list[ir.Value]:
    """Return every element whose place is a multiple of so many, those behind them and so on."""
    step, lanes = len(vectors), vectors[0].type.count
    if step == 1:
        return list(vectors)
    found = []
    for residue in range(step):
        places = [divmod(step * lane + residue, lanes) for lane in range(lanes)]
        kept = vectors[0]
        for which in range(1, step):
            # Lanes of earlier vectors are where they belong once the second one has come.
            picks = []
            for lane, (of, at) in enumerate(places):
                stays = at if which == 1 and of == 0 else lane
                picks.append(lanes + at if of == which else stays)
            kept = shuffle(b, kept, vectors[which], picks)
        found.append(kept)
    return found


def clear_region(b: ir.IRBuilder, r: Record, dtype: str, scratch: ir.Value) -> None:
    """Fill the region with zeros: those around what blocks read are never written again."""
    zero_fill(b, scratch, b.mul(b.mul(r.at_once, r.depth), r.plane), dtype)


def pack_strips_region(
    b: ir.IRBuilder,
    r: Record,
    packers: Packers,
    block: Block,
    ends: tuple[ir.Value, ir.Value, ir.Value],
) -> None:
    """Pack what the source has of all that the block reads of so many groups.

    The ends are scratch, the source's first group and how many groups there are.
    """
    scratch, source, groups = ends
    lines = emit_region_extents(b, r, block)
    above = b.sub(r.outer, number(1))
    rows, start = load(b, block.extents, above), load(b, block.starts, above)
    points = b.sub(b.sub(block.stop, block.start), number(1))
    row_step = r.at("steps_in", above)
    down = _part(b, start, rows, (row_step, r.at("lows_in", above), r.at("sizes_in", above)))
    extent = b.add(b.mul(points, r.step_in), r.span)
    along = _part(b, block.start, extent, (r.step_in, r.low_in, r.size_in))
    origin_y = b.add(b.mul(start, row_step), r.at("lows_in", above))
    origin_x = b.add(b.mul(block.start, r.step_in), r.low_in)
    reached = smaller(b, row_step, r.at("spans", above))
    step = b.mul(row_step, r.at("source_steps", above))
    with counted(b, b.sdiv(lines, rows)) as far, counted(b, reached) as residue:
        target, read, valid = emit_region_line(b, r, block, far.index, above)
        behind, line = _behind(b, down.first, residue.index, row_step)
        up = b.sub(row_step, number(1))
        count = b.sdiv(b.add(b.sub(down.count, behind), up), row_step)
        target = b.add(target, b.mul(residue.index, r.line_residue))
        target = b.add(target, b.mul(b.sdiv(line, row_step), r.line))
        read = b.add(read, b.mul(b.add(origin_y, line), r.at("source_steps", above)))
        read = b.add(read, b.mul(b.add(origin_x, along.first), r.source_x))
        some = b.icmp_signed(">", b.sub(down.count, behind), number(0))
        some = b.and_(some, b.icmp_signed(">", along.count, number(0)))
        with (
            b.if_then(b.and_(valid, some)),
            counted(b, groups) as group,
            counted(b, r.depth) as channel,
        ):
            plane = b.add(b.mul(group.index, r.depth), channel.index)
            moved = b.add(b.mul(group.index, r.source_g), b.mul(channel.index, r.source_c))
            into = place(b, scratch, b.add(target, b.mul(plane, r.plane)))
            data = place(b, source, b.add(read, moved))
            _pack_plane(b, r, packers, (into, data), (along, count, step))


def _pack_plane(
    b: ir.IRBuilder,
    r: Record,
    packers: Packers,
    ends: tuple[ir.Value, ir.Value],
    numbers: tuple[_Part, ir.Value, ir.Value],
) -> None:
    """Pack lines of one channel and residue, by what is made for the step if points lie beside."""
    target, source = ends
    along, lines, down = numbers
    every, after = b.append_basic_block("every"), b.append_basic_block("after")
    beside = b.icmp_signed("==", r.source_x, number(1))
    switch = b.switch(b.select(beside, r.step_in, number(0)), every)
    for step, packer in packers.steps.items():
        b.position_at_end(b.append_basic_block("step"))
        switch.add_case(number(step), b.block)
        sizes = [along.first, along.count, lines, r.line, down, r.column_residue]
        b.call(packer, [target, source, *sizes])
        b.branch(after)
    b.position_at_end(every)
    # Nothing reads residues that the window does not reach.
    with counted(b, smaller(b, r.step_in, r.span)) as residue:
        behind, line = _behind(b, along.first, residue.index, r.step_in)
        count = b.sdiv(b.add(b.sub(along.count, behind), b.sub(r.step_in, number(1))), r.step_in)
        into = b.add(b.mul(residue.index, r.column_residue), b.sdiv(line, r.step_in))
        steps = [down, b.mul(r.source_x, r.step_in)]
        none = number(0)
        with b.if_then(b.icmp_signed(">", count, none)):
            read = place(b, source, b.mul(behind, r.source_x))
            sizes = [lines, r.line, none, count, none]
            b.call(packers.apart, [place(b, target, into), read, *sizes, *steps])
    b.branch(after)
    b.position_at_end(after)


def _behind(
    b: ir.IRBuilder, first: ir.Value, residue: ir.Value, step: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return how far behind the first point a residue's first one lies, and which that is."""
    behind = b.srem(b.sub(b.add(residue, step), b.srem(first, step)), step)
    return behind, b.add(first, behind)


def _part(
    b: ir.IRBuilder, start: ir.Value, extent: ir.Value, axis: tuple[ir.Value, ir.Value, ir.Value]
) -> _Part:
    """Return what the source has of so many points, from a block's first one on."""
    step, low, size = axis
    origin = b.add(b.mul(start, step), low)
    first = smaller(b, larger(b, b.neg(origin), number(0)), extent)
    until = smaller(b, larger(b, b.sub(size, origin), number(0)), extent)
    return _Part(first, larger(b, b.sub(until, first), number(0)))
