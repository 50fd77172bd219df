"""Planes: gathers with few channels a group, vectors running along points."""

from collections.abc import Iterable
from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.activation import activated
from tconv.codegen.blank import emit_fill_lines, fill_whole_lines
from tconv.codegen.block import (
    Block,
    KernelShape,
    Record,
    emit_block,
    emit_origin,
)
from tconv.codegen.block_lines import each_line, reads, stores
from tconv.codegen.build import (
    FLOATS,
    I1,
    I64,
    STORED,
    counted,
    function,
    load,
    number,
    place,
    smaller,
    store,
)
from tconv.codegen.plane_region import pack_planes_region
from tconv.codegen.plane_rows import emit_pack_planes, emit_store_phases, emit_store_planes
from tconv.codegen.plane_tile import FULL, HIDDEN, emit_plane_tile, lines_together, vector_runs
from tconv.codegen.points import points_of, settle_phase
from tconv.codegen.stored import covered
from tconv.plan.planes import ARRAYS, FIELDS

# Times that a sum takes in a tile of one line, full or not, and of several.
ONE, FEWER, SEVERAL = 16, 17, 20


@dataclass(frozen=True, slots=True)
class _Parts:
    tiles: dict[tuple[int, int], ir.Function]  # by vectors and lines
    direct: dict[tuple[int, int], ir.Function]  # those that write to the target
    pack: ir.Function
    store: ir.Function
    store_phases: ir.Function
    fill: ir.Function | None  # where phases of the last axis are stored one by one


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a work item finds and puts things."""

    in_place: ir.Value
    data: ir.Value  # packed in scratch, or the source itself
    row: ir.Value  # from channel to channel there,
    group: ir.Value  # and from group to group
    segments: ir.Value
    line_steps: ir.Value
    sums: ir.Value
    lines: ir.Value  # tables: where a line's region begins,
    targets: ir.Value  # and where its first place is written
    first: ir.Value  # group
    groups: ir.Value  # of this item
    target: ir.Value
    weights: ir.Value
    bias: ir.Value


@dataclass(frozen=True, slots=True)
class _Phase:
    """Points of one phase of the outer axes, and of one or all of the last."""

    outer: ir.Value
    x: ir.Value
    both: ir.Value
    lines: ir.Value
    low: ir.Value  # the first point of a line
    begin: ir.Value  # where in the block that is
    length: ir.Value
    direct: ir.Value  # whether tiles write to the target


def emit_planes(module: ir.Module, shape: KernelShape) -> ir.Function:
    """Emit ``planes(record, scratch, item)``, public.

    The shape's rows are the channels of a tile, and the phases of the last axis that it merges;
    its vectors the most that a tile takes of a line.
    """
    pointer, stored = FLOATS[shape.dtype].as_pointer(), STORED[shape.dtype].as_pointer()
    channels, merged = shape.rows
    rows = channels * merged
    sizes = {(v, some) for v in vector_runs(shape.vectors) for some in (1, lines_together(rows, v))}
    tiles = {size: emit_plane_tile(module, shape, size) for size in sorted(sizes, reverse=True)}
    direct = tiles
    if stored != pointer and merged == 1:
        direct = {size: emit_plane_tile(module, shape, size, rounds=True) for size in tiles}
    parts = _Parts(
        tiles,
        direct,
        emit_pack_planes(module, shape),
        emit_store_planes(module, shape),
        emit_store_phases(module, shape),
        emit_fill_lines(module, shape) if merged == 1 else None,
    )
    made, b = function(
        module, f"planes_{shape.dtype}", [I64.as_pointer(), pointer, I64], public=True
    )
    record, scratch, item = made.args
    r = Record(b, record, FIELDS, ARRAYS)
    block, chunk = emit_block(b, r, item, begins=True)
    first = b.mul(chunk, r.chunk)
    read, written = b.mul(first, r.source_g), b.mul(first, r.target_g)
    source = place(b, r.pointer_to("source", stored), read)
    origin, in_place = emit_origin(b, r, block)
    wanted = b.icmp_signed("!=", r.in_place, number(0))
    in_place = b.and_(b.and_(in_place, wanted), _whole_vectors(b, r, shape, block))
    data: ir.Value = scratch
    row, group = r.row, b.mul(r.depth, r.row)
    if stored == pointer:
        data = b.select(in_place, place(b, source, origin), scratch)
        row, group = b.select(in_place, r.source_c, row), b.select(in_place, r.source_g, group)
    where = _Place(
        in_place=in_place,
        data=data,
        row=row,
        group=group,
        segments=b.select(in_place, r.segments_in_place, r.segments),
        line_steps=b.select(in_place, r.source_steps, r.pitches),
        sums=place(b, scratch, r.scratch_sums),
        lines=b.bitcast(place(b, scratch, r.scratch_lines), I64.as_pointer()),
        targets=b.bitcast(place(b, scratch, r.scratch_targets), I64.as_pointer()),
        first=first,
        groups=smaller(b, b.sub(r.groups, first), r.chunk),
        target=place(b, r.pointer_to("target", stored), written),
        weights=place(b, r.pointer_to("weights", pointer), b.mul(first, r.group_weights)),
        bias=place(b, r.pointer_to("bias", pointer), b.mul(first, r.columns)),
    )
    with b.if_then(b.not_(in_place)):
        pack_planes_region(b, r, parts.pack, block, (scratch, where.groups), source)
    with counted(b, r.outer_phases) as outer:
        lines = settle_phase(b, r, block, outer.index)
        _fill_lines(b, r, block, where, (outer.index, lines))
        filled = _fill_blank(b, r, parts.fill, block, where, lines)
        with counted(b, r.phases) as x:
            points = points_of(b, r, block, x.index)
            low, length = points.low, points.length
            phase = _Phase(
                outer=outer.index,
                x=x.index,
                both=b.add(b.mul(outer.index, r.phases), x.index),
                lines=lines,
                low=low,
                begin=b.sub(low, block.start),
                length=length,
                direct=_stores_direct(b, r, shape, length),
            )
            some = b.icmp_signed(">", b.mul(lines, length), number(0))
            if merged == 1:
                none = b.icmp_signed("==", r.at("segment_counts", phase.both), number(0))
                some = b.and_(some, b.not_(b.and_(filled, none)))
            with b.if_then(some, likely=True):
                _run_phase(b, r, shape, parts, where, phase)
                with b.if_then(b.not_(phase.direct)):
                    _store_phase(b, r, shape, parts, where, phase)
    b.ret_void()
    return made


def _fill_blank(  # noqa: PLR0913 - which lines of what
    b: ir.IRBuilder,
    r: Record,
    fill: ir.Function | None,
    block: Block,
    where: _Place,
    lines: ir.Value,
) -> ir.Value:
    """Fill lines with the bias, if some of their points have no taps; tell whether that was so."""
    if fill is None:
        return ir.Constant(I1, 0)
    plain = b.icmp_signed("==", r.activate, number(0))
    wanted = b.and_(plain, b.icmp_signed("!=", r.blank_phases, number(0)))
    with b.if_then(b.and_(wanted, b.icmp_signed(">", lines, number(0)))):
        ends = where.target, where.bias, where.targets
        fill_whole_lines(b, r, fill, block, ends, (lines, b.mul(where.groups, r.columns)))
    return wanted


def _whole_vectors(b: ir.IRBuilder, r: Record, shape: KernelShape, block: Block) -> ir.Value:
    """Tell whether lines of all phases have a vector of points, if any: none is read behind them.

    Of others more points are summed than there are.
    """
    with counted(b, r.phases, [ir.Constant(I1, 1)]) as x:
        length = points_of(b, r, block, x.index).length
        enough = b.icmp_signed(">=", length, number(shape.lanes))
        none = b.icmp_signed("<=", length, number(0))
        x.carried = [b.and_(x.carried[0], b.or_(enough, none))]
    whole: ir.Value = x.carried[0]
    return whole


def _stores_direct(b: ir.IRBuilder, r: Record, shape: KernelShape, length: ir.Value) -> ir.Value:
    """Tell whether tiles may write to the target: whole vectors of points side by side."""
    if shape.rows[1] > 1:
        return ir.Constant(I1, 0)
    step = b.mul(r.target_x, r.step_out)
    plain = b.icmp_signed("==", r.activate, number(0))
    beside = b.icmp_signed("==", step, number(1))
    return b.and_(b.and_(plain, beside), b.icmp_signed(">=", length, number(shape.lanes)))


def _fill_lines(
    b: ir.IRBuilder,
    r: Record,
    block: Block,
    where: _Place,
    phase_lines: tuple[ir.Value, ir.Value],
) -> None:
    """Note for every line of the phase where its region begins, and where it is written."""
    phase, lines = phase_lines
    walks = reads(b, r, block, where.line_steps), stores(b, r, block, phase)
    with each_line(b, r, block, lines, *walks) as (line, places):
        for table, place_ in zip((where.lines, where.targets), places, strict=True):
            store(b, place_, table, line)


def _run_phase(  # noqa: PLR0913 - which phase of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    where: _Place,
    phase: _Phase,
) -> None:
    """Sum one phase: for every group and pass over its channels, some lines at a time.

    All tiles are alike: the last one of a line begins where it ends with the line, and does some
    of the sums again; so do the last lines.
    """
    lanes, direct = number(shape.lanes), phase.direct
    exact = b.or_(direct, where.in_place)
    up = b.select(exact, number(0), number(shape.lanes - 1))
    vectors = b.sdiv(b.add(phase.length, up), lanes)
    end = b.select(exact, phase.length, b.mul(vectors, lanes))
    every = b.sdiv(b.add(end, number(shape.lanes - 1)), lanes)
    chosen, turns = _choose_tile(b, parts.tiles, (vectors, every), phase.lines, shape)
    summed = b.mul(r.lines, r.sums_pitch)
    pitch = b.select(direct, r.target_c, summed)
    apart = b.mul(b.mul(where.groups, r.columns), summed)
    along = b.select(direct, number(0), r.sums_pitch)
    segments = place(b, where.segments, r.at("segment_start", phase.both))
    kinds = 1 if shape.rows[1] == 1 else 1 + shape.rows[1]
    counts = place(b, r.segment_counts, b.mul(phase.both, number(kinds)))
    start = b.mul(_first_place(b, r, phase), r.target_x)
    with counted(b, where.groups) as group, counted(b, r.passes) as each:
        behind = b.add(b.mul(group.index, r.group_weights), b.mul(each.index, r.panel_weights))
        weights = place(b, where.weights, b.add(behind, r.at("phase_weights", phase.both)))
        plane = b.add(b.mul(group.index, where.group), phase.begin)
        first = b.mul(each.index, r.pass_columns)
        first = smaller(b, first, b.sub(r.columns, r.pass_columns))
        channel = b.add(b.mul(group.index, r.columns), first)
        bias = place(b, where.bias, channel)
        target = place(b, where.target, b.add(start, b.mul(channel, r.target_c)))
        sums = place(b, where.sums, b.mul(channel, summed))
        for which, (size, lines) in enumerate(parts.tiles):
            alike = b.icmp_signed("==", chosen, number(which))
            limit = b.sub(end, number(size * shape.lanes))
            with (
                b.if_then(alike),
                covered(b, phase.lines, lines) as line,
                counted(b, turns) as turn,
            ):
                here = smaller(b, b.mul(turn.index, number(size * shape.lanes)), limit)
                into = place(b, sums, b.add(b.mul(line, r.sums_pitch), here))
                tables = [place(b, each, line) for each in (where.lines, where.targets)]
                read = place(b, where.data, b.add(plane, here))
                places = place(b, target, here), into
                arguments = [bias, read, weights, segments, counts, *tables]
                arguments += [
                    r.run,
                    where.row,
                    pitch,
                    apart,
                    along,
                    r.pass_columns,
                    r.panel_weights,
                ]
                _call_tile(b, parts, (size, lines), direct, places, arguments)


def _call_tile(  # noqa: PLR0913 - which tile, and what it takes
    b: ir.IRBuilder,
    parts: _Parts,
    size: tuple[int, int],
    direct: ir.Value,
    places: tuple[ir.Value, ir.Value],
    arguments: list[ir.Value],
) -> None:
    """Let a tile write to the target, or to the sums."""
    target, sums = places
    if target.type == sums.type:
        b.call(parts.tiles[size], [b.select(direct, target, sums), *arguments])
    elif parts.direct is parts.tiles:
        b.call(parts.tiles[size], [sums, *arguments])
    else:
        with b.if_else(direct) as (final, kept):
            with final:
                b.call(parts.direct[size], [target, *arguments])
            with kept:
                b.call(parts.tiles[size], [sums, *arguments])


def _choose_tile(
    b: ir.IRBuilder,
    sizes: Iterable[tuple[int, int]],
    counts: tuple[ir.Value, ir.Value],
    lines: ir.Value,
    shape: KernelShape,
) -> tuple[ir.Value, ir.Value]:
    """Return which tile covers lines soonest, and how many do for each.

    The counts are the most vectors that a tile may have, and those of a line.
    """
    most, vectors = counts
    best: ir.Value = number(1 << 60)
    chosen: ir.Value = number(0)
    turns = vectors
    for which, (size, together) in enumerate(sizes):
        needed = b.sdiv(b.add(vectors, number(size - 1)), number(size))
        cost = shape.rows[0] * shape.rows[1] * size
        pace = ONE if cost >= FULL else FEWER
        cost = SEVERAL * cost if together > 1 else pace * max(cost, HIDDEN)
        better = b.icmp_signed("<", b.mul(needed, number(cost)), best)
        for limit, need in ((most, size), (lines, together)):
            better = b.and_(better, b.icmp_signed(">=", limit, number(need)))
        best = b.select(better, b.mul(needed, number(cost)), best)
        chosen = b.select(better, number(which), chosen)
        turns = b.select(better, needed, turns)
    return chosen, turns


def _first_place(b: ir.IRBuilder, r: Record, phase: _Phase) -> ir.Value:
    """Return where on the last axis the first point of a line is written."""
    return b.add(b.add(b.mul(phase.low, r.step_out), r.shift_out), phase.x)


def _store_phase(  # noqa: PLR0913 - which phase of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: _Parts,
    where: _Place,
    phase: _Phase,
) -> None:
    """Store one phase of the last axis or all, every line with all its channels."""
    merged = shape.rows[1]
    coordinate = _first_place(b, r, phase)
    start = b.mul(coordinate, r.target_x)
    channels = b.mul(where.groups, r.columns)
    pitch = b.mul(r.lines, r.sums_pitch)
    apart = b.mul(channels, pitch)
    with counted(b, phase.lines) as line:
        offset = b.add(load(b, where.targets, line.index), start)
        sums = place(b, where.sums, b.mul(line.index, r.sums_pitch))
        target = place(b, where.target, offset)
        # Sums begin with the bias, wherever they go.
        left = r.pointer_to("zeros", where.bias.type)
        for p in range(merged):
            mine = place(b, sums, b.mul(number(p), apart))
            activated(b, r, mine, left, (channels, phase.length, pitch))
        steps = r.target_c, r.target_x
        # One phase alone lies side by side with nothing, but channels may.
        together: ir.Value = ir.Constant(I1, merged > 1)
        if merged == 1 and shape.rows[0] > 1:
            alone = b.icmp_signed("==", channels, number(shape.rows[0]))
            beside = b.icmp_signed("==", b.mul(r.target_x, r.target_c), channels)
            single = b.icmp_signed("==", b.mul(r.step_out, r.target_c), number(1))
            together = b.and_(b.and_(alone, beside), single)
        with b.if_else(together) as (all_of_them, one):
            with all_of_them:
                whole = b.mul(phase.length, number(merged))
                count = whole
                if merged > 1:
                    count = smaller(b, whole, b.sub(r.size_out, coordinate))
                b.call(
                    parts.store_phases,
                    [target, sums, left, where.groups, pitch, apart, count, *steps],
                )
            with one:
                step = b.mul(r.target_x, r.step_out)
                b.call(
                    parts.store, [target, sums, left, channels, pitch, phase.length, steps[0], step]
                )
