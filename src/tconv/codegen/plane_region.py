"""The region that a block of planes reads: packed, a plane for each channel and residue."""

from llvmlite import ir

from tconv.codegen.block import Block, Record, bit_of, emit_region_extents, region_lines
from tconv.codegen.build import I64, counted, larger, number, place, smaller

NEAR_CHANNELS = 8  # packed at a time where each lies in a page of its own


def pack_planes_region(  # noqa: PLR0913 - where from, where to, and by what
    b: ir.IRBuilder,
    r: Record,
    pack: ir.Function,
    block: Block,
    to: tuple[ir.Value, ir.Value],
    source: ir.Value,
) -> None:
    """Pack all that the block reads, a plane each channel, each residue of the step apart.

    To scratch, for so many groups.

    Where channels lie far apart only a few of them are read at a time, line after line.
    """
    scratch, groups = to
    lines = emit_region_extents(b, r, block)
    every = b.mul(groups, r.depth)
    first = b.add(b.mul(block.start, r.step_in), r.low_in)
    together = b.icmp_signed("==", r.source_c, number(1))
    at_once = b.select(together, every, number(NEAR_CHANNELS))
    turns = b.sdiv(b.add(every, b.sub(at_once, number(1))), at_once)
    # How many of origin, origin + step, ... come before 0, and how many before the end: one less
    # from some residue on.
    up = b.sub(r.step_in, number(1))
    early, late = (
        b.sdiv(b.add(larger(b, left, number(0)), up), r.step_in)
        for left in (b.neg(first), b.sub(r.size_in, first))
    )
    with (
        counted(b, turns) as turn,
        region_lines(b, r, block, lines, skips=True) as (to_line, from_line, valid, needed),
        b.if_then(needed, likely=True),
    ):
        channel = b.mul(turn.index, at_once)
        channels = smaller(b, b.sub(every, channel), at_once)
        target = b.add(to_line, b.mul(channel, r.row))
        read = b.add(from_line, b.mul(channel, r.source_c))
        with counted(b, r.step_in) as residue, b.if_then(bit_of(b, r.needed_last, residue.index)):
            origin = b.add(first, residue.index)
            before, until = (
                _clamp(b, r, b.sub(count, b.zext(_reached(b, r, origin, count, end), I64)))
                for count, end in ((early, number(0)), (late, r.size_in))
            )
            head = b.select(valid, before, r.residue)
            body = b.select(valid, larger(b, b.sub(until, before), number(0)), number(0))
            tail = b.sub(b.sub(r.residue, head), body)
            x = b.add(origin, b.mul(head, r.step_in))
            offset = b.select(valid, b.add(read, b.mul(x, r.source_x)), number(0))
            out = place(b, scratch, b.add(target, b.mul(residue.index, r.residue)))
            step = b.mul(r.source_x, r.step_in)
            b.call(
                pack,
                [out, place(b, source, offset), channels, r.row, head, body, tail, r.source_c,
                 step],
            )  # fmt: skip


def _reached(
    b: ir.IRBuilder, r: Record, origin: ir.Value, count: ir.Value, end: ir.Value
) -> ir.Value:
    """Tell whether one step less than ``count`` leads from the origin to the end already."""
    last = b.add(origin, b.mul(b.sub(count, number(1)), r.step_in))
    some = b.icmp_signed(">", count, number(0))
    return b.and_(some, b.icmp_signed(">=", last, end))


def _clamp(b: ir.IRBuilder, r: Record, count: ir.Value) -> ir.Value:
    return smaller(b, count, r.residue)
