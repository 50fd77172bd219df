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
    store,
)
from tconv.codegen.plane_rows import emit_pack_planes
from tconv.codegen.rows import zero_fill
from tconv.codegen.stored import covered, if_enough, widened

SHORT = 4  # lanes of shorter vectors, for lines that fill no whole one
STEPS = (1, 2, 3, 4)  # whose residues are parted by whole vectors


@dataclass(frozen=True, slots=True)
class _Part:
    """What the source has of the points that an axis reads: from which one on, and how many."""

    first: ir.Value
    count: ir.Value


@dataclass(frozen=True, slots=True)
class Packers:
    """What copies lines."""

    steps: dict[int, ir.Function]  # by the step between points packed side by side; 0 is any
    apart: ir.Function  # whose points lie apart, but are packed side by side


def emit_packers(module: ir.Module, shape: KernelShape) -> Packers:
    """Emit what copies lines."""
    steps = {step: _emit_pack_lines(module, shape, step) for step in (*STEPS, 0)}
    return Packers(steps, emit_pack_planes(module, shape))


def _emit_pack_lines(module: ir.Module, shape: KernelShape, step: int) -> ir.Function:
    """Emit ``pack_lines(target, source, first, count, lines, pitch, down, x_step, apart, any)``.

    ``target[l * pitch + (first + j) % step * apart + (first + j) // step] = source[l * down
    + j * x_step]`` for ``count`` points j of each line; nothing else is written, nor read.
    Steps that are baked need an ``x_step`` of 1; without one it is ``any``.
    """
    dtype, lanes = shape.dtype, shape.lanes
    pointers = [FLOATS[dtype].as_pointer(), STORED[dtype].as_pointer()]
    made, b = function(module, f"pack_lines_{step}_{dtype}", [*pointers, *[I64] * 8])
    target, source, first, count, lines, pitch, down, x_step, apart, any_step = made.args
    target.add_attribute("noalias")
    source.add_attribute("noalias")
    parts = number(step) if step else any_step

    def begin(j: ir.Value) -> ir.Value:
        """Return where a point goes."""
        here = b.add(first, j)
        return b.add(b.mul(b.urem(here, parts), apart), b.udiv(here, parts))

    if not step:
        with counted(b, lines, [target, source]) as line:
            into, read = line.carried
            line.carried = [place(b, into, pitch), place(b, read, down)]
            with counted(b, count) as j:
                value = widened(b, read, b.mul(j.index, x_step), dtype)
                store(b, value, into, begin(j.index))
        b.ret_void()
        return made
    begins = [begin(number(residue)) for residue in range(step)]
    whole, left = b.udiv(count, number(step)), lines
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
    beside = b.icmp_signed("==", r.source_x, number(1))
    step = b.mul(row_step, r.at("source_steps", above))
    with counted(b, b.sdiv(lines, rows)) as far, counted(b, row_step) as residue:
        target, read, valid = emit_region_line(b, r, block, far.index, above)
        # The first line of this residue, from the first one on that the source has.
        behind = b.srem(
            b.sub(b.add(residue.index, row_step), b.srem(down.first, row_step)), row_step
        )
        line = b.add(down.first, behind)
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
            numbers = [
                place(b, scratch, b.add(target, b.mul(plane, r.plane))),
                place(b, source, b.add(read, moved)),
                *(along.first, along.count, count, r.line, step),
                *(r.source_x, r.column_residue, r.step_in),
            ]
            with b.if_else(beside) as (lie, others):
                with lie:
                    _call_packer(b, r, packers, numbers)
                with others:
                    _call_apart(b, r, packers, numbers)


def _call_apart(b: ir.IRBuilder, r: Record, packers: Packers, numbers: list[ir.Value]) -> None:
    """Call what takes points that lie apart."""
    target, source, first, count, lines, pitch, down, x_step, *_ = numbers
    none = number(0)
    with b.if_else(b.icmp_signed("==", r.step_in, number(1))) as (one, any_step):
        with one:
            into = place(b, target, first)
            b.call(packers.apart, [into, source, lines, pitch, none, count, none, down, x_step])
        with any_step:
            b.call(packers.steps[0], numbers)


def _call_packer(b: ir.IRBuilder, r: Record, packers: Packers, numbers: list[ir.Value]) -> None:
    """Call what is made for the step."""
    every, after = b.append_basic_block("every"), b.append_basic_block("after")
    switch = b.switch(r.step_in, every)
    for step, packer in packers.steps.items():
        b.position_at_end(every if step == 0 else b.append_basic_block("step"))
        if step:
            switch.add_case(number(step), b.block)
        b.call(packer, numbers)
        b.branch(after)
    b.position_at_end(after)


def _part(
    b: ir.IRBuilder, start: ir.Value, extent: ir.Value, axis: tuple[ir.Value, ir.Value, ir.Value]
) -> _Part:
    """Return what the source has of so many points, from a block's first one on."""
    step, low, size = axis
    origin = b.add(b.mul(start, step), low)
    first = smaller(b, larger(b, b.neg(origin), number(0)), extent)
    until = smaller(b, larger(b, b.sub(size, origin), number(0)), extent)
    return _Part(first, larger(b, b.sub(until, first), number(0)))
