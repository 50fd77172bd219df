"""Gathers: blocks of points, every phase of them, panel by panel.

One work item packs the region that a block of points reads, then runs register tiles over
the block's points for each panel of channels, and stores the panel.  What a number means is
said in :mod:`tconv.plan.gather`, which fills the record in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.build import (
    FLOATS,
    I64,
    counted,
    function,
    larger,
    load,
    number,
    place,
    smaller,
    store,
)
from tconv.codegen.rows import emit_pack_row, emit_store_row
from tconv.codegen.tile import Tile, emit_tile
from tconv.plan.gather import ARRAYS, FIELDS

MOST_AXES = 16


@dataclass(frozen=True, slots=True)
class KernelShape:
    """What is baked: the type, and the shape of the register tile."""

    dtype: str
    lanes: int
    vectors: int
    rows: tuple[int, ...]  # of the tiles, largest first, ending with 1

    @property
    def columns(self) -> int:
        """Channels of a wide panel."""
        return self.lanes * self.vectors


class Record:
    """The plan's numbers, read by name."""

    def __init__(
        self, b: ir.IRBuilder, pointer: ir.Value, fields: Mapping[str, int], arrays: Sequence[str]
    ) -> None:
        self.b, self.pointer, self.fields, self.arrays = b, pointer, fields, arrays

    def __getattr__(self, name: str) -> ir.Value:
        """Emit the load of a number, or the address of an array."""
        value = load(self.b, self.pointer, self.fields[name])
        return place(self.b, self.pointer, value) if name in self.arrays else value

    def at(self, name: str, index: ir.Value) -> ir.Value:
        """Emit the load of one entry of an array."""
        return load(self.b, getattr(self, name), index)


def emit_gather(module: ir.Module, source: KernelShape) -> ir.Function:
    """Emit ``gather(record, scratch, item)``, public."""
    scalar = FLOATS[source.dtype]
    pointer = scalar.as_pointer()
    tiles = {
        vectors: [
            emit_tile(module, Tile(rows, vectors, source.lanes, source.dtype))
            for rows in source.rows
        ]
        for vectors in sorted({1, source.vectors})
    }
    pack_row = emit_pack_row(module, source.dtype, source.lanes)
    store_row = emit_store_row(module, source.dtype, source.lanes)
    made, b = function(
        module, f"gather_{source.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    starts = b.alloca(I64, MOST_AXES)  # of this block, by outer axis
    stops = b.alloca(I64, MOST_AXES)
    lows = b.alloca(I64, MOST_AXES)  # of this phase in this block
    extents = b.alloca(I64, MOST_AXES)

    chunk, rest = b.srem(item, r.chunks), b.sdiv(item, r.chunks)
    start_x = b.add(r.begin, b.mul(b.srem(rest, r.blocks), r.block))
    stop_x = smaller(b, b.add(start_x, r.block), r.end)
    rest = b.sdiv(rest, r.blocks)
    with counted(b, r.outer, [rest]) as axis:
        d = b.sub(b.sub(r.outer, number(1)), axis.index)
        blocks, size = r.at("outer_blocks", d), r.at("outer_block", d)
        start = b.add(r.at("begins", d), b.mul(b.srem(axis.carried[0], blocks), size))
        store(b, start, starts, d)
        store(b, smaller(b, b.add(start, size), r.at("ends", d)), stops, d)
        axis.carried = [b.sdiv(axis.carried[0], blocks)]
    group, image = b.srem(axis.carried[0], r.groups), b.sdiv(axis.carried[0], r.groups)

    source_base = place(
        b,
        b.inttoptr(r.source, pointer),
        b.add(b.mul(image, r.source_n), b.mul(group, r.source_g)),
    )
    pack_region(b, r, pack_row, scratch, source_base, (starts, stops, extents), (start_x, stop_x))

    target_base = place(
        b,
        b.inttoptr(r.target, pointer),
        b.add(b.mul(image, r.target_n), b.mul(group, r.target_g)),
    )
    weights_base = place(b, b.inttoptr(r.weights, pointer), b.mul(group, r.group_weights))
    bias_base = place(
        b,
        b.inttoptr(r.bias, pointer),
        b.mul(group, b.mul(r.panels, number(source.columns))),
    )
    tables = I64.as_pointer()
    rows = b.bitcast(place(b, scratch, r.scratch_rows), tables)
    places = b.bitcast(place(b, scratch, r.scratch_places), tables)
    counts = b.bitcast(place(b, scratch, r.scratch_counts), tables)
    sums = place(b, scratch, r.scratch_sums)
    first_panel = b.mul(chunk, r.panels_a_chunk)
    last_panel = smaller(b, b.add(first_panel, r.panels_a_chunk), r.panels)

    with counted(b, r.outer_phases) as phase:
        lines = _phase_ranges(b, r, phase.index, starts, stops, lows, extents)
        with b.if_then(b.icmp_signed(">", lines, number(0)), likely=True):
            _fill_tables(
                b,
                r,
                (rows, places, counts),
                lines,
                (starts, lows, extents),
                (start_x, stop_x),
                source.columns,
            )
            with counted(b, last_panel, first=first_panel) as panel:
                wide = b.icmp_signed("<", panel.index, r.wide_panels)
                width = b.select(wide, number(source.columns), number(source.lanes))
                panel_base = place(
                    b,
                    weights_base,
                    b.add(
                        r.at("phase_weights", phase.index),
                        b.mul(panel.index, r.at("panel_weights", phase.index)),
                    ),
                )
                with counted(b, r.phases) as x:
                    both = b.add(b.mul(phase.index, r.phases), x.index)
                    arguments = (
                        sums,
                        scratch,
                        place(b, panel_base, b.mul(r.at("rows_before", both), width)),
                        place(b, places, b.mul(x.index, r.points)),
                        place(b, rows, b.mul(x.index, r.points)),
                        place(b, r.segments, r.at("segment_start", both)),
                        r.at("segment_count", both),
                        r.at("segment_depth", both),
                    )
                    count = load(b, counts, x.index)
                    with b.if_else(wide) as (full, narrow):
                        with full:
                            _run_tiles(b, tiles[source.vectors], source.rows, count, arguments)
                        with narrow:
                            _run_tiles(b, tiles[1], source.rows, count, arguments)
                _store_panel(
                    b,
                    r,
                    store_row,
                    (target_base, sums, bias_base),
                    lines,
                    (lows, extents, phase.index),
                    (start_x, stop_x),
                    panel.index,
                    source.columns,
                )
    b.ret_void()
    return made


def pack_region(b, r, pack_row, scratch, source, axes, last):
    starts, stops, extents = axes
    start_x, stop_x = last
    with counted(b, r.outer, [number(1)]) as axis:
        d = axis.index
        count = b.sub(load(b, stops, d), load(b, starts, d))
        extent = b.add(b.mul(b.sub(count, number(1)), r.at("steps_in", d)), r.at("spans", d))
        store(b, extent, extents, d)
        axis.carried = [b.mul(axis.carried[0], extent)]
    lines = axis.carried[0]
    first = b.add(b.mul(start_x, r.step_in), r.low_in)
    length = b.add(b.mul(b.sub(b.sub(stop_x, start_x), number(1)), r.step_in), r.span)
    before = smaller(b, larger(b, b.neg(first), number(0)), length)
    inside = larger(
        b, smaller(b, b.sub(b.sub(r.size_in, first), before), b.sub(length, before)), number(0)
    )
    with counted(b, lines) as line:
        with counted(b, r.outer, [line.index, number(0), number(0), number(1)]) as axis:
            d = b.sub(b.sub(r.outer, number(1)), axis.index)
            rest, target, read, valid = axis.carried
            extent = load(b, extents, d)
            here = b.srem(rest, extent)
            coordinate = b.add(
                b.add(b.mul(load(b, starts, d), r.at("steps_in", d)), r.at("lows_in", d)), here
            )
            good = b.and_(
                b.icmp_signed(">=", coordinate, number(0)),
                b.icmp_signed("<", coordinate, r.at("sizes_in", d)),
            )
            axis.carried = [
                b.sdiv(rest, extent),
                b.add(target, b.mul(here, r.at("pitches", d))),
                b.add(read, b.mul(coordinate, r.at("source_steps", d))),
                b.and_(valid, b.zext(good, I64)),
            ]
        _, target, read, valid = axis.carried
        real = b.icmp_signed("!=", valid, number(0))
        head = b.select(real, before, length)
        body = b.select(real, inside, number(0))
        tail = b.sub(b.sub(length, head), body)
        offset = b.select(real, b.add(read, b.mul(b.add(first, head), r.source_x)), number(0))
        b.call(
            pack_row,
            [
                place(b, scratch, target),
                place(b, source, offset),
                head,
                body,
                tail,
                r.depth,
                r.source_x,
                r.source_c,
            ],
        )


def _phase_ranges(b, r, phase, starts, stops, lows, extents):
    """Settle which points of the block this phase has; return how many lines of them."""
    with counted(b, r.outer, [phase, number(1)]) as axis:
        d = b.sub(b.sub(r.outer, number(1)), axis.index)
        rest, lines = axis.carried
        count = r.at("axis_phases", d)
        mine = b.srem(rest, count)
        entry = b.add(b.mul(d, r.most_phases), mine)
        low = larger(b, load(b, starts, d), r.at("phase_low", entry))
        high = smaller(b, load(b, stops, d), r.at("phase_high", entry))
        store(b, low, lows, d)
        extent = larger(b, b.sub(high, low), number(0))
        store(b, extent, extents, d)
        axis.carried = [b.sdiv(rest, count), b.mul(lines, extent)]
    return axis.carried[1]


def _fill_tables(b, r, tables, lines, axes, last, columns):
    rows, places, counts = tables
    starts, lows, extents = axes
    start_x, stop_x = last
    with counted(b, r.phases) as x:
        low = larger(b, start_x, r.at("last_low", x.index))
        high = smaller(b, stop_x, r.at("last_high", x.index))
        length = larger(b, b.sub(high, low), number(0))
        store(b, b.mul(length, lines), counts, x.index)
        base = b.mul(x.index, r.points)
        shift = b.sub(low, start_x)
        with counted(b, lines) as line:
            with counted(b, r.outer, [line.index, number(0)]) as axis:
                d = b.sub(b.sub(r.outer, number(1)), axis.index)
                rest, offset = axis.carried
                extent = load(b, extents, d)
                here = b.add(b.srem(rest, extent), b.sub(load(b, lows, d), load(b, starts, d)))
                step = b.mul(r.at("steps_in", d), r.at("pitches", d))
                axis.carried = [b.sdiv(rest, extent), b.add(offset, b.mul(here, step))]
            offset = axis.carried[1]
            with counted(b, length) as point:
                here = b.add(point.index, shift)
                index = b.add(base, b.add(b.mul(line.index, length), point.index))
                row = b.add(offset, b.mul(here, b.mul(r.step_in, r.depth)))
                store(b, row, rows, index)
                position = b.add(b.mul(here, r.step_out), x.index)
                position = b.add(b.mul(line.index, r.sums_pitch), position)
                store(b, b.mul(position, number(columns)), places, index)


def _run_tiles(b, tiles, sizes, count, arguments):
    sums, data, weights, places, rows, segments, many, depth = arguments
    done = number(0)
    for tile, size in zip(tiles, sizes, strict=True):
        left = b.sub(count, done)
        runs = b.sdiv(left, number(size))
        with counted(b, runs) as run:
            here = b.add(done, b.mul(run.index, number(size)))
            b.call(
                tile,
                [
                    sums,
                    data,
                    weights,
                    place(b, places, here),
                    place(b, rows, here),
                    segments,
                    many,
                    depth,
                ],
            )
        done = b.add(done, b.mul(runs, number(size)))


def _store_panel(b, r, store_row, bases, lines, axes, last, panel, columns):
    target, sums, bias = bases
    lows, extents, phase = axes
    start_x, stop_x = last
    channel = b.mul(panel, number(columns))
    used = smaller(b, b.sub(r.columns, channel), number(columns))
    added = place(b, bias, channel)
    origin = b.add(b.mul(start_x, r.step_out), r.shift_out)
    begin = larger(b, b.neg(origin), number(0))
    end = smaller(b, b.mul(b.sub(stop_x, start_x), r.step_out), b.sub(r.size_out, origin))
    length = b.sub(end, begin)
    with counted(b, lines) as line:
        start = b.add(b.mul(b.add(origin, begin), r.target_x), b.mul(channel, r.target_c))
        with counted(b, r.outer, [line.index, phase, start]) as axis:
            d = b.sub(b.sub(r.outer, number(1)), axis.index)
            rest, phases, offset = axis.carried
            extent, count = load(b, extents, d), r.at("axis_phases", d)
            point = b.add(b.srem(rest, extent), load(b, lows, d))
            coordinate = b.add(
                b.add(b.mul(point, r.at("steps_out", d)), r.at("shifts_out", d)),
                b.srem(phases, count),
            )
            axis.carried = [
                b.sdiv(rest, extent),
                b.sdiv(phases, count),
                b.add(offset, b.mul(coordinate, r.at("target_steps", d))),
            ]
        read = b.mul(b.add(b.mul(line.index, r.sums_pitch), begin), number(columns))
        b.call(
            store_row,
            [
                place(b, target, axis.carried[2]),
                place(b, sums, read),
                added,
                length,
                used,
                r.target_x,
                r.target_c,
                number(columns),
            ],
        )
