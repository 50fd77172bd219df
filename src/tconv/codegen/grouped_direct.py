"""Grouped layers in place: read from the source and written to the target, nothing packed.

Points that meet all taps of the last axis are summed by fast kernels, some at a time; those
at the ends of a line by the one that takes any taps.  What falls outside is left out.
"""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import Block, KernelShape, Record
from tconv.codegen.build import advancing, counted, larger, load, number, place, smaller, store
from tconv.codegen.meetings import Tables, fill_outer, tap_step, taps_met
from tconv.codegen.panels import first_group
from tconv.codegen.sweep import Sweep
from tconv.plan.grouped import ROWS


@dataclass(frozen=True, slots=True)
class Place:
    """Where a work item finds and puts things."""

    region: ir.Value
    sums: ir.Value
    tables: Tables
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
    target: ir.Value  # where it is stored


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of the last axis: its kernel and its weights."""

    kind: ir.Value
    pieces: ir.Value  # of a row of taps
    taps: ir.Value  # of the last axis
    offsets: ir.Value
    x: ir.Value  # its number
    weights: ir.Value
    column_weights: ir.Value  # elements from one written channel to the next

    def table(self, b: ir.IRBuilder, r: Record, tables: Tables, rows: ir.Value) -> ir.Value:
        """Return the table for its kernel: of rows, or of the pieces that they were cut into."""
        cut = b.icmp_signed(">", self.pieces, number(1))
        return b.select(cut, place(b, tables.segments, r.at("cut_start", self.x)), rows)

    def rows(self, b: ir.IRBuilder, rows: ir.Value) -> ir.Value:
        """Return how many entries that table has."""
        return b.mul(rows, larger(b, self.pieces, number(1)))

    def first_offset(self, b: ir.IRBuilder) -> ir.Value:
        """Return what the first tap adds to the place read; any number if there is none."""
        return load(b, self.offsets)


def find_phase(
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    where: Place,
    numbers: tuple[ir.Value, ir.Value],
) -> Phase:
    """Look up a phase of the outer axes and one of the last axis."""
    phase, x = numbers
    both = b.add(b.mul(phase, r.phases), x)
    taps = r.at("last_count", x)
    weights = b.mul(b.mul(r.at("outer_count", phase), taps), r.depth)
    return Phase(
        r.at("last_kind", x),
        r.at("last_pieces", x),
        taps,
        place(b, r.last_offsets, r.at("last_start", x)),
        x,
        place(b, where.weights, r.at("phase_weights", both)),
        b.mul(weights, number(shape.lanes)),
    )


def cut_rows(
    b: ir.IRBuilder,
    r: Record,
    tables: Tables,
    rows: ir.Value,
    numbers: tuple[ir.Value, ir.Value],
) -> None:
    """Cut rows of more taps than a kernel takes at once into pieces, for each phase.

    The numbers are how many rows there are, and how far apart points lie.
    """
    count, point = numbers
    with counted(b, r.phases) as x:
        pieces = r.at("last_pieces", x.index)
        with b.if_then(b.icmp_signed(">", pieces, number(1)), likely=False):
            taps = r.at("last_count", x.index)
            offsets = place(b, r.last_offsets, r.at("last_start", x.index))
            apart = b.mul(tap_step(b, offsets, taps, point), b.sdiv(taps, pieces))
            entry = place(b, tables.segments, r.at("cut_start", x.index))
            with counted(b, count, [rows, entry]) as row:
                mine, entry = row.carried
                with counted(b, pieces, [entry]) as piece:
                    (into,) = piece.carried
                    store(b, b.add(load(b, mine), b.mul(piece.index, apart)), into)
                    store(b, b.add(b.mul(load(b, mine, 1), pieces), piece.index), into, 1)
                    piece.carried = [place(b, into, 2)]
                row.carried = [place(b, mine, 2), *piece.carried]


def run_direct(  # noqa: PLR0913 - which line of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    sweep: ir.Function,
    block: Block,
    which: tuple[Place, Line],
) -> None:
    """Sum a line from the source to the target, where groups lie side by side in both.

    Some points at a time, all phases of the last axis: what they share stays in the first
    cache, and so do the cache lines that phases write to in turns.
    """
    where, line = which
    offsets = place(b, r.outer_offsets, r.at("outer_start", line.phase))
    numbers = line.index, offsets, r.at("outer_count", line.phase), r.source_steps
    rows = fill_outer(b, r, block, where.tables, numbers)
    cut_rows(b, r, where.tables, where.tables.outer, (rows, r.source_x))
    with advancing(b, block.start, block.stop) as some:
        end = smaller(b, b.add(some.index, r.together), block.stop)
        with counted(b, r.phases) as x:
            phase = find_phase(b, r, shape, where, (line.phase, x.index))
            low = larger(b, some.index, r.at("last_low", x.index))
            high = smaller(b, end, r.at("last_high", x.index))
            inner = larger(b, block.start, r.at("inner_low", x.index))
            behind = smaller(b, high, r.at("inner_high", x.index))
            first = larger(b, low, inner)
            any_taps = b.icmp_signed("==", phase.kind, number(0))
            # A tile may begin among points of the block that are done already.
            least = b.select(any_taps, number(1), number(ROWS))
            begin = smaller(b, first, b.sub(behind, least))
            fits = b.and_(b.icmp_signed("<", first, behind), b.icmp_signed(">=", begin, inner))
            first = b.select(fits, first, high)
            with advancing(b, low, high) as run:
                fast = b.icmp_signed("==", run.index, first)
                point = b.select(fast, begin, run.index)
                limit = b.select(b.icmp_signed("<", run.index, first), first, high)
                limit = b.select(fast, behind, limit)
                some_points = fast, point, limit, rows
                run.following = _run_points(b, r, shape, sweep, which, phase, some_points)
        some.following = end


def _run_points(  # noqa: PLR0913 - which points of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    sweep: ir.Function,
    which: tuple[Place, Line],
    phase: Phase,
    numbers: tuple[ir.Value, ir.Value, ir.Value, ir.Value],
) -> ir.Value:
    """Sum the next points that meet the same taps, for every panel; return the point behind."""
    where, line = which
    fast, point, limit, rows = numbers
    lanes = number(shape.lanes)
    begin = b.mul(point, r.step_in)
    looked = b.select(fast, number(0), phase.taps)  # those that meet all taps are known
    skipped, met, same = taps_met(b, r, phase.offsets, looked, begin)
    count = smaller(b, same, b.sub(limit, point))
    taps = b.select(fast, phase.taps, met)
    table = b.select(fast, phase.table(b, r, where.tables, where.tables.outer), where.tables.outer)
    rows = b.select(fast, phase.rows(b, rows), rows)
    read = b.mul(b.add(begin, load(b, phase.offsets, skipped)), r.source_x)
    coordinate = b.add(b.add(b.mul(point, r.step_out), r.shift_out), phase.x)
    group = first_group(b, shape, r.groups, where.first)
    written = b.add(b.mul(coordinate, r.target_x), group)
    biases = b.mul(r.columns, lanes)
    # The last panel may begin among the groups of the one before.
    ends = b.icmp_signed("==", b.add(where.first, where.panels), r.panels)
    several = b.icmp_signed(">", where.panels, number(1))
    over = b.sub(b.mul(r.panels, lanes), r.groups)
    # What the next line reads behind this one's last row of taps; where more is written than
    # read asking for it costs more than it saves.
    above = b.sub(r.outer, number(1))
    row = r.at("source_steps", above)
    last = b.mul(larger(b, b.sub(rows, number(1)), number(0)), number(2))
    ahead = b.add(load(b, table, last), b.mul(r.at("steps_in", above), row))
    ahead = b.select(b.icmp_signed("==", r.step_out, number(1)), ahead, number(0))
    with counted(b, r.columns) as column:
        weights = b.add(b.mul(column.index, phase.column_weights), b.mul(skipped, lanes))
        arguments = Sweep(
            out=place(b, line.target, b.add(written, b.mul(column.index, r.target_c))),
            data=place(b, where.source, b.add(read, group)),
            weights=place(b, phase.weights, weights),
            start=place(b, where.bias, b.mul(column.index, lanes)),
            table=table,
            rows=b.select(b.icmp_signed("==", taps, number(0)), number(0), rows),
            taps=taps,
            in_step=b.mul(r.step_in, r.source_x),
            tap_step=tap_step(b, phase.offsets, phase.taps, r.source_x),
            out_step=b.mul(r.step_out, r.target_x),
            start_step=biases,
            weights_step=r.panel_weights,
            row_weights=b.mul(phase.taps, lanes),
            back=b.select(b.and_(ends, several), over, number(0)),
            ahead=ahead,
            ahead_step=row,
            count=count,
            panels=where.panels,
            activate=r.activate,
            slope=r.slope,
            zeros=r.pointer_to("zeros", where.bias.type),
        )
        b.call(sweep, [b.select(fast, phase.kind, number(0)), *arguments.values()])
    return b.add(point, count)
