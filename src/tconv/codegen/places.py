"""Where a work item of a gather finds and puts things."""

from dataclasses import dataclass, replace

from llvmlite import ir

from tconv.codegen.block import Block, KernelShape, Record, emit_origin
from tconv.codegen.build import FLOATS, I1, I64, LINE, STORED, number, place


@dataclass(frozen=True, slots=True)
class Data:
    """What tiles read: a packed region, or the source itself."""

    origin: ir.Value
    line_steps: ir.Value  # from line to line, by outer axis
    point_step: ir.Value
    segments: ir.Value
    far: ir.Value  # whether it may be in no cache


@dataclass(frozen=True, slots=True)
class Place:
    """Where a work item finds and puts things."""

    scratch: ir.Value
    data: Data
    sums: ir.Value
    rows: ir.Value  # tables, by phase of the last axis: where a point's region begins,
    places: ir.Value  # where its sums go,
    targets: ir.Value  # where it is stored in the end,
    counts: ir.Value  # and how many points there are
    target: ir.Value
    past: ir.Value  # whether sums go to the target past all caches
    weights: ir.Value
    bias: ir.Value


def read_in_place(b: ir.IRBuilder, r: Record, shape: KernelShape, block: Block) -> ir.Value:
    """Tell whether the source has all that a block reads as tiles read it."""
    if STORED[shape.dtype] != FLOATS[shape.dtype]:
        return ir.Constant(I1, 0)
    _, whole = emit_origin(b, r, block)
    return b.and_(whole, b.icmp_signed("!=", r.in_place, number(0)))


def find_place(  # noqa: PLR0913 - which item of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    scratch: ir.Value,
    group: ir.Value,
    data: Data,
) -> Place:
    """Return where a work item of a group finds and puts things."""
    pointer, stored = FLOATS[shape.dtype].as_pointer(), STORED[shape.dtype].as_pointer()
    rows, places, targets, counts = (
        b.bitcast(place(b, scratch, getattr(r, f"scratch_{name}")), I64.as_pointer())
        for name in ("rows", "places", "targets", "counts")
    )
    padded = b.mul(r.panels, number(shape.columns))
    target = place(b, r.pointer_to("target", stored), b.mul(group, r.target_g))
    return Place(
        scratch=scratch,
        data=data,
        sums=place(b, scratch, r.scratch_sums),
        rows=rows,
        places=places,
        targets=targets,
        counts=counts,
        target=target,
        past=_flows(b, r, shape, target),
        weights=place(b, r.pointer_to("weights", stored), b.mul(group, r.group_weights)),
        bias=place(b, r.pointer_to("bias", pointer), b.mul(group, padded)),
    )


def of_group(
    b: ir.IRBuilder, r: Record, shape: KernelShape, where: Place, group: ir.Value
) -> Place:
    """Return where things of a later group are, by how many later; data is read in place."""
    padded = b.mul(r.panels, number(shape.columns))
    target = place(b, where.target, b.mul(group, r.target_g))
    return replace(
        where,
        data=replace(where.data, origin=place(b, where.data.origin, b.mul(group, r.source_g))),
        target=target,
        past=_flows(b, r, shape, target),
        weights=place(b, where.weights, b.mul(group, r.group_weights)),
        bias=place(b, where.bias, b.mul(group, padded)),
    )


def _flows(b: ir.IRBuilder, r: Record, shape: KernelShape, target: ir.Value) -> ir.Value:
    """Tell whether results go past all caches: whole vectors that begin with a cache line."""
    askew = b.and_(b.ptrtoint(target, I64), number(LINE - 1))
    askew = b.or_(askew, b.srem(r.columns, number(shape.lanes)))
    return b.icmp_signed(">", r.stream, askew)  # 1 and 0
