"""Overlap: products of every tap with every point, then added up where they overlap.

What a number means is said in :mod:`tconv.plan.overlap`, which fills the record in.
"""

from collections.abc import Callable

from llvmlite import ir

from tconv.codegen.block import KernelShape, Record
from tconv.codegen.build import (
    BYTES,
    FLOATS,
    I64,
    LINE,
    STORED,
    STORED_BYTES,
    advancing,
    counted,
    function,
    larger,
    load,
    number,
    place,
    prefetch,
    smaller,
    touch,
)
from tconv.codegen.fold import emit_fold
from tconv.codegen.plane_rows import emit_pack_planes
from tconv.codegen.runs import split_rows
from tconv.codegen.tile import Tile, emit_tile
from tconv.plan.overlap import ARRAYS, FIELDS, MULTIPLY

FAR_CHANNELS = 16  # packed at a time where each lies in a page of its own


def emit_overlap(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``overlap(record, scratch, item)``, public: one item of the record's stage."""
    pointer = FLOATS[shape.dtype].as_pointer()
    kinds = [I64.as_pointer(), pointer, I64]
    multiply = _emit_multiply(module, shape, kinds)
    fold = emit_fold(module, shape, kinds)
    made, b = function(module, f"overlap_{shape.dtype}", kinds, public=True)
    r = Record(b, made.args[0], FIELDS, ARRAYS)
    with b.if_else(b.icmp_signed("==", r.stage, number(MULTIPLY))) as (first, second):
        with first:
            b.call(multiply, made.args)
        with second:
            b.call(fold, made.args)
    b.ret_void()
    return made


def _emit_multiply(module: ir.Module, shape: KernelShape, kinds: list[ir.Type]) -> ir.Function:
    """Emit ``multiply(record, scratch, item)``: some rows times some panels of points."""
    # Points are packed as sums are kept, whatever arrays hold.
    dtype = "float64" if BYTES[shape.dtype] == BYTES["float64"] else "float32"
    tiles = [
        emit_tile(module, Tile(rows, shape.vectors, shape.lanes, dtype)) for rows in shape.rows
    ]
    pack = emit_pack_planes(module, shape)
    pointer, stored = FLOATS[shape.dtype].as_pointer(), STORED[shape.dtype].as_pointer()
    made, b = function(module, f"multiply_{shape.dtype}", kinds)
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    chunk, rest = b.srem(item, r.chunks), b.sdiv(item, r.chunks)
    group, some = b.srem(rest, r.groups), b.sdiv(rest, r.groups)
    width = number(shape.columns)
    every = b.mul(r.images, r.points)
    begin = b.mul(some, b.mul(r.panels, width))
    end = smaller(b, b.add(begin, b.mul(r.panels, width)), every)
    panels = b.sdiv(b.add(b.sub(end, begin), number(shape.columns - 1)), width)
    source = place(b, r.pointer_to("source", stored), b.mul(group, r.source_g))
    source = place(b, source, b.mul(r.first, r.at("source_steps", number(0))))
    axes = b.mul(chunk, b.add(r.outer, number(1)))
    residues, limits = (place(b, getattr(r, f"chunk_{x}"), axes) for x in ("residues", "limits"))
    with counted(b, r.outer, [b.mul(load(b, residues, r.outer), r.source_x)]) as axis:
        step = b.mul(load(b, residues, axis.index), r.at("source_steps", axis.index))
        axis.carried = [b.add(axis.carried[0], step)]
    source = place(b, source, axis.carried[0])
    _pack_points(b, r, pack, (scratch, source, limits), (begin, end, panels), shape)
    first, rows = r.at("chunk_start", chunk), r.at("chunk_rows", chunk)
    products = place(b, r.pointer_to("products", pointer), b.mul(group, b.mul(r.rows, r.pitch)))
    weights = place(b, r.pointer_to("weights", pointer), b.mul(group, b.mul(r.rows, r.depth)))
    zeros = b.bitcast(r.blank, pointer)
    large, small = (number(size) for size in shape.rows)
    whole, others = split_rows(b, rows, shape.rows)
    calls = b.mul(b.add(whole, others), panels)
    ask = _ahead_of(b, r, shape, (source, limits), (end, every), calls)

    def call(tile: ir.Function, row: ir.Value, turn: ir.Value) -> None:
        """Multiply some rows by every panel, while their weights are near."""
        with counted(b, panels) as panel:
            ask(b.add(b.mul(turn, panels), panel.index))
            data = place(b, scratch, b.mul(panel.index, b.mul(r.depth, width)))
            target = place(b, products, b.add(begin, b.mul(panel.index, width)))
            tables = place(b, r.row_places, row), r.blank, place(b, r.row_reads, row), r.blank
            sizes = [number(1), r.depth, data, number(0), number(shape.lanes)]
            b.call(tile, [target, zeros, weights, data, *tables, *sizes])

    with counted(b, whole) as turn:
        call(tiles[0], b.add(first, b.mul(turn.index, large)), turn.index)
    done = b.add(first, b.mul(whole, large))
    with counted(b, others) as turn:
        call(tiles[1], b.add(done, b.mul(turn.index, small)), b.add(whole, turn.index))
    b.ret_void()
    return made


def _ahead_of(  # noqa: PLR0913 - which points of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    places: tuple[ir.Value, ir.Value],
    ends: tuple[ir.Value, ir.Value],
    calls: ir.Value,
) -> Callable[[ir.Value], None]:
    """Return what asks for a share of the points that the next work item packs, at each call.

    They come while tiles multiply, a few at a time: all at once would be waited for.  The ends are
    where those points begin, and where all end.
    """
    (source, limits), (begin, every) = places, ends
    item = STORED_BYTES[shape.dtype]
    points = smaller(b, b.sub(every, begin), b.mul(r.panels, number(shape.columns)))
    points = larger(b, points, number(0))
    together = b.icmp_signed("==", r.source_c, number(1))
    runs = b.select(together, points, r.depth)
    runs = b.select(b.icmp_signed("!=", r.ahead, number(0)), runs, number(0))
    length = b.select(together, r.depth, b.mul(points, r.run_step))
    step = b.select(together, r.run_step, r.source_c)
    first = place(b, source, _find_point(b, r, limits, begin)[1])
    share = b.sdiv(b.add(runs, b.sub(calls, number(1))), calls)

    def ask(call: ir.Value) -> None:
        done = b.mul(call, share)
        with (
            counted(b, smaller(b, b.add(done, share), runs), first=done) as run,
            counted(b, length, step=LINE // item) as k,
        ):
            prefetch(b, place(b, first, b.add(b.mul(run.index, step), k.index)), near=2)

    return ask


def _pack_points(  # noqa: PLR0913 - which points of what
    b: ir.IRBuilder,
    r: Record,
    pack: ir.Function,
    places: tuple[ir.Value, ir.Value, ir.Value],
    numbers: tuple[ir.Value, ir.Value, ir.Value],
    shape: KernelShape,
) -> None:
    """Pack points as panels, channel by channel; behind the last point there are zeros.

    Points of one run lie evenly apart; a panel may have points of several.  Those that are behind
    the limits of their axes are zeros too.
    """
    (scratch, source, limits), (begin, end, panels) = places, numbers
    columns = shape.columns
    together = b.icmp_signed("==", r.source_c, number(1))
    at_once = b.select(together, r.depth, number(FAR_CHANNELS))
    turns = b.sdiv(b.add(r.depth, b.sub(at_once, number(1))), at_once)
    with counted(b, turns) as turn, counted(b, panels) as panel:
        channel = b.mul(turn.index, at_once)
        channels = smaller(b, b.sub(r.depth, channel), at_once)
        start = b.add(begin, b.mul(panel.index, number(columns)))
        stop = smaller(b, b.add(start, number(columns)), end)
        line = b.mul(b.add(b.mul(panel.index, r.depth), channel), number(columns))
        target = place(b, scratch, line)
        with advancing(b, start, stop) as point:
            inside, moved, there = _find_point(b, r, limits, point.index)
            count = smaller(b, b.sub(r.run, inside), b.sub(stop, point.index))
            point.following = b.add(point.index, count)
            offset = b.add(moved, b.mul(channel, r.source_c))
            real = larger(b, smaller(b, count, there), number(0))
            lane = b.sub(point.index, start)
            ends = b.icmp_signed("==", point.following, stop)
            behind = b.sub(number(columns), b.add(lane, count))
            after = b.select(ends, larger(b, behind, number(0)), number(0))
            after = b.add(after, b.sub(count, real))
            offset = b.select(b.icmp_signed(">", real, number(0)), offset, number(0))
            if STORED[shape.dtype] == FLOATS[shape.dtype]:  # words are no longer than elements
                _touch_run(b, r, shape, place(b, source, offset), real)
            arguments = [place(b, target, lane), place(b, source, offset), channels]
            sizes = [number(columns), number(0), real, after]
            b.call(pack, [*arguments, *sizes, r.source_c, r.run_step])


def _find_point(
    b: ir.IRBuilder, r: Record, limits: ir.Value, point: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return where in its run a point lies, where in the source, and how many are left there.

    Those are to the limits of its axes; behind them there are none.
    """
    index, inside = b.sdiv(point, r.run), b.srem(point, r.run)
    whole = b.icmp_signed("==", r.run_axes, r.outer)
    longest = b.select(whole, load(b, limits, r.outer), r.run)
    begun = [index, b.mul(inside, r.run_step), b.sub(longest, inside)]
    with counted(b, r.run_axes, begun) as axis:
        d = b.sub(b.sub(r.run_axes, number(1)), axis.index)
        left, offset, there = axis.carried
        size = r.at("run_sizes", d)
        digit = b.srem(left, size)
        good = b.icmp_signed("<", digit, load(b, limits, d))
        axis.carried = [
            b.sdiv(left, size),
            b.add(offset, b.mul(digit, r.at("run_steps", d))),
            b.select(good, there, number(0)),
        ]
    return inside, axis.carried[1], axis.carried[2]


def _touch_run(
    b: ir.IRBuilder, r: Record, shape: KernelShape, source: ir.Value, points: ir.Value
) -> None:
    """Read words of a run of points from afar, a cache line apart.

    A panel reads a little of each point after the other, which no machine foresees.
    """
    some = b.and_(b.icmp_signed("!=", r.afar, number(0)), b.icmp_signed(">", points, number(0)))
    length = b.add(b.mul(b.sub(points, number(1)), r.run_step), r.depth)
    length = b.select(some, length, number(0))
    with counted(b, length, step=LINE // STORED_BYTES[shape.dtype]) as k:
        touch(b, place(b, source, k.index))
