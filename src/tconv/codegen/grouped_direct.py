"""Grouped layers in place: read from the source and written to the target, nothing packed.

Points of a line that meet the same taps are summed together, in all phases of the last axis:
what they share stays in the first cache, and lines are written from one end to the other.
What falls outside is left out.  At a line's ends few points meet the same taps, but those below
them in other lines do: columns of such points are summed together.
"""

from dataclasses import dataclass, replace

from llvmlite import ir

from tconv.codegen.block import Block, KernelShape, Record
from tconv.codegen.build import BYTES, I64, LINE, advancing, counted, larger, number, place, smaller
from tconv.codegen.meetings import Tables, fill_outer, like_lines
from tconv.codegen.panels import first_group
from tconv.codegen.sweep import sweep_arguments
from tconv.codegen.sweep_record import Sweep, find_sweep, whole_lines
from tconv.plan.stretches import ROWS

MOST_AHEAD, RUN_AHEAD = 8192, 512  # bytes


@dataclass(frozen=True, slots=True)
class Place:
    """Where a work item finds and puts things."""

    region: ir.Value
    sums: ir.Value
    tables: Tables
    common: ir.Value  # what sweeps have in common, of lines
    column: ir.Value  # and of columns
    done: ir.Value  # a number: the line up to which columns were summed
    first: ir.Value  # panel
    panels: ir.Value  # of this item
    source: ir.Value
    target: ir.Value
    weights: ir.Value
    bias: ir.Value


@dataclass(frozen=True, slots=True)
class Line:
    """One line of one phase of the outer axes."""

    phase: ir.Value
    index: ir.Value
    packed: ir.Value  # where in the packed region it begins to read
    target: ir.Value  # where it is stored


def run_direct(
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    block: Block,
    which: tuple[Place, Line],
) -> None:
    """Sum a line from the source to the target, where groups lie side by side in both."""
    where, line = which
    offsets = place(b, r.outer_offsets, r.at("outer_start", line.phase))
    numbers = line.index, offsets, r.at("outer_count", line.phase), r.source_steps
    rows = fill_outer(b, r, block, where.tables, numbers)
    lines = whole_lines(b, rows, b.mul(r.at("outer_count", line.phase), r.depth))
    column_lines = _column_lines(b, r, block, which, offsets)
    group = first_group(b, shape, r.groups, where.first)
    source = place(b, where.source, group)
    target = place(b, line.target, b.add(group, b.mul(r.shift_out, r.target_x)))
    with counted(b, r.columns) as column:
        written = place(b, target, b.mul(column.index, r.target_c))
        stream = b.select(_on_a_line(b, written), r.stream, number(0))
        common = _common(b, r, shape, which, (rows, column.index, stream))
        common.keep(b, where.common)
        ends = source, written, common.in_step, common.out_step
        with b.if_then(b.icmp_signed(">", column_lines, number(1))):
            _column(b, r, common).keep(b, where.column)
        with counted(b, r.stretches) as stretch:
            first, last = (r.at(f"stretch_{end}", stretch.index) for end in ("low", "high"))
            low, high = larger(b, block.start, first), smaller(b, block.stop, last)
            few = b.icmp_signed("<", b.sub(last, first), number(ROWS))
            alone = b.or_(b.not_(few), b.icmp_signed("==", column_lines, number(1)))
            # Of columns there is nothing left to do after their first line.
            some = b.or_(alone, b.icmp_signed(">", column_lines, number(1)))
            with b.if_then(b.and_(some, b.icmp_signed("<", low, high))):
                numbers = lines, stretch.index, low, high
                with b.if_else(alone) as (in_line, below):
                    with in_line:
                        _run_stretch(b, r, shape, where, ends, numbers)
                    with below:
                        _run_columns(b, r, shape, where, ends, (*numbers, column_lines))


def _column_lines(
    b: ir.IRBuilder, r: Record, block: Block, which: tuple[Place, Line], offsets: ir.Value
) -> ir.Value:
    """Return how many lines columns have that begin with this one; none if they began before."""
    where, line = which
    begins = b.icmp_signed(">=", line.index, b.load(where.done))
    numbers = line.index, offsets, r.at("outer_count", line.phase)
    # Images lie far apart.
    pictures = b.icmp_signed(">", r.outer, number(1))
    alike = b.select(pictures, like_lines(b, r, block, where.tables, numbers), number(1))
    lines = b.select(begins, alike, number(0))
    with b.if_then(begins):
        b.store(b.add(line.index, lines), where.done)
    return lines


def _column(b: ir.IRBuilder, r: Record, common: Sweep) -> Sweep:
    """Return what sums of columns have in common: the next point is one line below."""
    above = b.sub(r.outer, number(1))
    in_step, out_step = (
        b.mul(r.at(f"steps_{way}", above), r.at(f"{end}_steps", above))
        for way, end in (("in", "source"), ("out", "target"))
    )
    none = number(0)
    return replace(common, in_step=in_step, out_step=out_step, ahead_points=none, out_ahead=none)


def _run_columns(  # noqa: PLR0913 - which points of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    where: Place,
    ends: tuple[ir.Value, ir.Value, ir.Value, ir.Value],
    numbers: tuple[ir.Value, ir.Value, ir.Value, ir.Value, ir.Value],
) -> None:
    """Sum points of a stretch in all lines that meet the same taps, one column after the other."""
    source, target, in_step, out_step = ends
    lines, stretch, low, high, count = numbers
    sweep = find_sweep(b, r, number(0), lines, sweep_arguments(shape))
    first, several = r.at("stretch_start", stretch), r.at("stretch_count", stretch)
    with counted(b, high, first=low) as point, counted(b, several) as turn:
        data = place(b, source, b.mul(point.index, in_step))
        out = place(b, target, b.mul(point.index, out_step))
        kind = b.add(first, turn.index)
        meetings = place(b, r.meetings, r.at("kind_start", kind))
        b.call(sweep, [where.column, meetings, r.at("kind_count", kind), data, out, count])


def _run_stretch(  # noqa: PLR0913 - which points of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    where: Place,
    ends: tuple[ir.Value, ir.Value, ir.Value, ir.Value],
    numbers: tuple[ir.Value, ir.Value, ir.Value, ir.Value],
) -> None:
    """Sum points that meet the same taps; some at a time, if by several kernels."""
    source, target, in_step, out_step = ends
    lines, stretch, low, high = numbers
    arguments = sweep_arguments(shape)
    first, several = r.at("stretch_start", stretch), r.at("stretch_count", stretch)
    few = b.icmp_signed("<", b.sub(high, low), number(ROWS))
    together = b.select(b.icmp_signed("==", several, number(1)), b.sub(high, low), r.together)
    # A tile may begin among points that are done already.
    latest = b.select(few, low, b.sub(high, number(ROWS)))
    with advancing(b, low, high) as some:
        begin = smaller(b, some.index, latest)
        end = smaller(b, b.add(some.index, together), high)
        data = place(b, source, b.mul(begin, in_step))
        out = place(b, target, b.mul(begin, out_step))
        with counted(b, several) as turn:
            kind = b.add(first, turn.index)
            chosen = b.select(few, number(0), r.at("kind", kind))
            sweep = find_sweep(b, r, chosen, lines, arguments)
            meetings = place(b, r.meetings, r.at("kind_start", kind))
            count = r.at("kind_count", kind)
            b.call(sweep, [where.common, meetings, count, data, out, b.sub(end, begin)])
        some.following = end


def _common(
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    which: tuple[Place, Line],
    numbers: tuple[ir.Value, ir.Value, ir.Value],
) -> Sweep:
    """Return what all sums of a line have in common.

    The numbers are its rows of taps, its channel, and whether it is written past the caches.
    """
    where, line = which
    rows, column, stream = numbers
    lanes = number(shape.lanes)
    all_rows = b.mul(r.at("outer_count", line.phase), r.depth)
    # The last panel may begin among the groups of the one before.
    ends = b.icmp_signed("==", b.add(where.first, where.panels), r.panels)
    several = b.icmp_signed(">", where.panels, number(1))
    over = b.sub(b.mul(r.panels, lanes), r.groups)
    # What the next line reads behind this one's last row of taps; where more is written than
    # read asking for it costs more than it saves.
    above = b.sub(r.outer, number(1))
    row = r.at("source_steps", above)
    step = r.at("steps_in", above)
    near = b.or_(b.icmp_signed(">", r.step_out, number(1)), b.icmp_signed("==", above, number(0)))
    # What is written past the caches must not be in one.
    out_ahead = _out_ahead(b, r, shape)
    return Sweep(
        weights=where.weights,
        shifts=place(b, r.phase_weights, b.mul(line.phase, r.phases)),
        start=place(b, where.bias, b.mul(column, lanes)),
        table=where.tables.outer,
        rows=rows,
        in_x=r.source_x,
        out_x=r.target_x,
        in_step=b.mul(r.step_in, r.source_x),
        out_step=b.mul(r.step_out, r.target_x),
        tap_step=b.mul(r.apart, r.source_x),
        apart=b.sdiv(r.apart, r.step_in),
        start_step=b.mul(r.columns, lanes),
        weights_step=r.panel_weights,
        rows_before=b.mul(column, all_rows),
        back=b.select(b.and_(ends, several), over, number(0)),
        ahead=b.mul(step, row),
        ahead_step=row,
        ahead_rows=b.select(near, number(0), step),
        ahead_points=b.mul(b.select(near, number(0), r.far), r.step_in),
        ahead_panel=b.mul(r.step_in, lanes),
        stream=stream,
        out_ahead=b.select(b.icmp_signed("!=", stream, number(0)), number(0), out_ahead),
        panels=where.panels,
        activate=r.activate,
        slope=r.slope,
        zeros=r.pointer_to("zeros", where.bias.type),
    )


def _on_a_line(b: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    """Tell whether an address is the begin of a cache line."""
    rest = b.and_(b.ptrtoint(pointer, I64), number(LINE - 1))
    return b.icmp_signed("==", rest, number(0))


def _out_ahead(b: ir.IRBuilder, r: Record, shape: KernelShape) -> ir.Value:
    """Return how far before they are written cache lines are asked for, if there are phases.

    They are written in turns, which no machine foresees: two tiles ahead, or one, while that
    stays in the first cache.  Of larger ones whole runs of lines are written.
    """
    item = BYTES[shape.dtype]
    tile = b.mul(b.mul(number(ROWS), r.step_out), r.target_x)
    ahead: ir.Value = number(RUN_AHEAD // item)
    for tiles in (1, 2):
        far = b.mul(number(tiles), tile)
        near = b.icmp_signed("<=", far, number(MOST_AHEAD // item))
        ahead = b.select(near, far, ahead)
    return b.select(b.icmp_signed("==", r.step_out, number(1)), number(0), ahead)
