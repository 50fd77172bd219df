"""What a work item of a correlation has summed, written as weights."""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import KernelShape, Record
from tconv.codegen.build import I64, STORED, counted, larger, number, place, smaller
from tconv.codegen.correlate_parts import Here, Part, find_panel
from tconv.codegen.sides import is_swapped


@dataclass(frozen=True, slots=True)
class Stores:
    """What writes sums as weights, and what copies such weights past the caches."""

    sums: ir.Function
    panels: ir.Function
    run: ir.Function


def store_sums(  # noqa: PLR0913 - which sums of what
    b: ir.IRBuilder,
    r: Record,
    stores: Stores,
    shape: KernelShape,
    part: Part,
    here: Here,
    scratch: ir.Value,
) -> None:
    """Write the sums as weights, in whatever order those lie: taps are its points."""
    stored = STORED[shape.dtype].as_pointer()
    group = b.mul(part.group, number(shape.groups))
    offset = b.add(b.mul(group, r.target_g), b.mul(part.rows[0], r.target_row))
    target = place(b, r.pointer_to("target", stored), offset)
    flag = r.pointer_to("flag", I64.as_pointer())
    swapped = is_swapped(b, r)
    streams = b.icmp_signed("!=", r.stream, number(0))
    line = b.bitcast(place(b, scratch, r.scratch_run), stored)
    tap_run = smaller(b, r.tap_run, part.taps[1])
    runs = b.sdiv(part.taps[1], tap_run)
    # Where rows are taps and channels, all of them are here.
    begin = b.select(swapped, number(0), b.mul(here.first, number(shape.rows[0])))
    most = b.select(swapped, part.rows[1], b.mul(here.tiles, number(shape.rows[0])))
    rows = smaller(b, b.sub(part.rows[1], begin), most)
    first = b.mul(b.add(part.panels[0], here.panel), number(shape.panel))
    with counted(b, rows) as row:
        moved = b.mul(b.add(begin, row.index), r.target_row)
        whole = place(b, target, b.add(moved, b.mul(first, r.target_column)))
        into = b.select(streams, line, whole)
        done: ir.Value = number(0)
        if shape.groups == 1:
            done = _store_panels(b, r, stores, shape, part, here, (into, row.index, flag))
        with counted(b, here.panels, first=done) as index, counted(b, runs) as run:
            panel = find_panel(b, r, shape, part, here, index.index)
            channel = b.mul(panel.number, number(shape.panel))
            used = smaller(b, b.sub(r.columns, channel), number(shape.panel))
            pitch = b.select(swapped, b.mul(r.rows, panel.width), here.shift_step)
            tap = b.mul(run.index, tap_run)
            sums = place(b, panel.sums, b.add(b.mul(tap, pitch), b.mul(row.index, panel.width)))
            moved = b.mul(b.sub(channel, first), r.target_column)
            write = b.add(r.at("target_taps", b.add(part.taps[0], tap)), moved)
            if shape.groups == 1:
                arguments = [place(b, into, write), sums, flag, tap_run, used]
                b.call(stores.sums, [*arguments, r.target_x, r.target_column, pitch])
            else:
                # Its lanes are written where vectors of channels would have theirs.
                lanes = smaller(b, b.sub(r.groups, group), number(shape.groups))
                with counted(b, used) as vector:
                    begin = b.add(write, b.mul(vector.index, r.target_column))
                    summed = place(b, sums, b.mul(vector.index, number(shape.lanes)))
                    arguments = [place(b, into, begin), summed, flag, tap_run, lanes]
                    b.call(stores.sums, [*arguments, r.target_x, r.target_g, pitch])
        with b.if_then(streams):
            channels = b.mul(here.panels, number(shape.panel))
            channels = smaller(b, b.sub(r.columns, first), channels)
            b.call(stores.run, [whole, line, b.mul(channels, r.target_column)])
    with b.if_then(streams):
        b.fence("seq_cst")  # other threads may read them when this work item is done


def _store_panels(  # noqa: PLR0913 - which panels of what
    b: ir.IRBuilder,
    r: Record,
    stores: Stores,
    shape: KernelShape,
    part: Part,
    here: Here,
    where: tuple[ir.Value, ir.Value, ir.Value],
) -> ir.Value:
    """Write the full panels of a row where they lie side by side; return how many."""
    into, row, flag = where
    single = b.icmp_signed("==", part.taps[1], number(1))
    plain = b.and_(single, b.icmp_signed("==", r.target_column, number(1)))
    panel = find_panel(b, r, shape, part, here, number(0))
    left = b.sdiv(r.columns, number(shape.columns))
    full = smaller(b, larger(b, b.sub(left, panel.number), number(0)), here.panels)
    full = b.select(plain, full, number(0))
    with b.if_then(b.icmp_signed(">", full, number(0))):
        into = place(b, into, r.at("target_taps", part.taps[0]))
        sums = place(b, panel.sums, b.mul(row, number(shape.columns)))
        b.call(stores.panels, [into, sums, flag, full, r.panel_sums])
    return full
