"""Sums of panels: register tiles over all points of a block, a part of the depth at a time."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from llvmlite import ir

from tconv.codegen.block import Block, KernelShape, Record, emit_origin, emit_pack_region
from tconv.codegen.build import (
    FLOATS,
    I1,
    I64,
    STORED,
    counted,
    larger,
    load,
    number,
    place,
    smaller,
    store,
)
from tconv.codegen.missed import Listing, Missed, missed_places
from tconv.codegen.parts import Parts
from tconv.codegen.places import Data, Place
from tconv.codegen.ragged import Ragged
from tconv.codegen.runs import Run, filled_before, run_tiles, run_wide
from tconv.codegen.woven import first_read


def find_data(  # noqa: PLR0913 - which block of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: Parts,
    block: Block,
    numbers: tuple[ir.Value, ir.Value, ir.Value],
) -> Data:
    """Return what the block reads: packed, unless the source has all of it as tiles read it.

    The numbers are the scratch, the group, and the block's own with the group in it.
    """
    scratch, group, index = numbers
    stored = STORED[shape.dtype].as_pointer()
    source = place(b, r.pointer_to("source", stored), b.mul(group, r.source_g))
    data = Data(scratch, r.pitches, r.depth, r.segments, ir.Constant(I1, 0))
    origin, whole = emit_origin(b, r, block)
    if parts.missed is not None:
        whole = b.or_(whole, b.icmp_signed("!=", r.unpacked, number(0)))
    in_place = b.and_(whole, b.icmp_signed("!=", r.in_place, number(0)))
    # Work items that differ only in their panels follow one another: what this worker has packed
    # for the last of them need not be packed again.
    tag = b.bitcast(place(b, scratch, r.scratch_tag), I64.as_pointer())
    same = b.and_(
        b.icmp_signed("==", load(b, tag, 0), r.call), b.icmp_signed("==", load(b, tag, 1), index)
    )
    with b.if_then(b.not_(b.or_(in_place, same))):
        emit_pack_region(b, r, parts.pack_row, block, scratch, source)
        store(b, r.call, tag, 0)
        store(b, index, tag, 1)
    if STORED[shape.dtype] != FLOATS[shape.dtype]:
        return data
    return Data(
        origin=b.select(in_place, place(b, source, origin), data.origin),
        line_steps=b.select(in_place, r.source_steps, data.line_steps),
        point_step=b.select(in_place, r.source_x, data.point_step),
        segments=b.select(in_place, r.segments_in_place, data.segments),
        far=in_place,
    )


def sums_direct(  # noqa: PLR0913 - which panel of what
    b: ir.IRBuilder, r: Record, shape: KernelShape, parts: Parts, phase: ir.Value, panel: ir.Value
) -> ir.Value:
    """Tell whether sums may lie in the target: whole vectors of channels side by side.

    In 16 bits they are final: no phase of the last axis is summed in parts, nor with another panel.
    """
    fits = b.icmp_signed(">=", r.columns, number(shape.lanes))
    plain = b.icmp_signed("==", r.activate, number(0))
    direct = b.and_(b.and_(fits, plain), b.icmp_signed("==", r.target_c, number(1)))
    if STORED[shape.dtype] == FLOATS[shape.dtype]:
        return direct
    if parts.joined:
        pair = b.add(panel, number(1))
        direct = b.and_(direct, b.icmp_signed("<", pair, r.wide_panels))
    with counted(b, r.phases, [b.zext(direct, I64)]) as x:
        both = b.add(b.mul(phase, r.phases), x.index)
        whole = b.and_(
            b.icmp_signed(">=", r.at("part_segments", both), r.at("segment_count", both)),
            b.icmp_signed(">=", r.at("part_depth", both), r.at("segment_depth", both)),
        )
        x.carried = [b.and_(x.carried[0], b.zext(whole, I64))]
    return b.icmp_signed("!=", x.carried[0], number(0))


def emit_sums(  # noqa: PLR0913 - which panels of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    parts: Parts,
    where: Place,
    phase: ir.Value,
    panels: tuple[ir.Value, ir.Value, ir.Value],
    ragged: Ragged,
    direct: Callable[[ir.Value], ir.Value] | None = None,
) -> None:
    """Sum some panels of channels for every phase of the last axis, a part of the depth at a time.

    A part of the data stays in the second cache while all panels go by it, and a part of a
    panel's weights in the first while all points go by that.  ``direct`` tells of a panel
    whether its sums lie in the target; the others' lie in scratch, the first panel's first.
    ``ragged`` tells how the last panel lies.
    The panels are from, to, and the first that reads this data at all.
    """
    first_panel, last_panel, fresh = panels
    fills = None if parts.rounded else direct  # points of 16 bits are not filled before

    def width_of(panel: ir.Value) -> ir.Value:
        wide = b.icmp_signed("<", panel, r.wide_panels)
        return b.select(wide, number(shape.columns), number(shape.lanes))

    # Those of groups that share vectors are as sums are kept.
    packed = b.bitcast(where.weights, where.bias.type) if parts.woven else where.weights

    def weights_of(panel: ir.Value, rows: ir.Value) -> ir.Value:
        begin = b.add(r.at("phase_weights", phase), b.mul(panel, r.at("panel_weights", phase)))
        return place(b, packed, b.add(begin, b.mul(rows, width_of(panel))))

    with counted(b, r.phases) as x:
        both = b.add(b.mul(phase, r.phases), x.index)
        count, depth = r.at("segment_count", both), r.at("segment_depth", both)
        at_once, length = r.at("part_segments", both), r.at("part_depth", both)
        turns, cuts = _times(b, count, at_once), _times(b, depth, length)
        entry = b.mul(x.index, r.points)
        points = load(b, where.counts, x.index)
        with (
            counted(b, turns) as turn,
            counted(b, cuts) as cut,
            counted(b, last_panel, first=first_panel) as panel,
        ):
            first = b.icmp_signed("==", b.or_(turn.index, cut.index), number(0))
            wide = b.icmp_signed("<", panel.index, r.wide_panels)
            segment, inside = b.mul(turn.index, at_once), b.mul(cut.index, length)
            skipped = b.add(b.mul(segment, depth), inside)
            rows, begin = (b.add(r.at("rows_before", both), each) for each in (skipped, inside))
            some = smaller(b, b.sub(count, segment), at_once)
            deep = smaller(b, b.sub(depth, inside), length)
            # Of a depth that is cut, every line is read for long: there is time to fetch it.
            whole = b.icmp_signed("==", b.mul(turns, cuts), number(1))
            after = b.add(panel.index, number(1))
            goes_on = b.icmp_signed("<", after, last_panel)
            pair = b.and_(goes_on, b.icmp_signed("==", after, r.wide_panels))
            filled = filled_before(b, count, fills, (panel.index, after, pair))
            left = b.select(filled, number(0), points)
            part = _Part(both, entry, (segment, some), (inside, deep), left, first)
            lister = b.select(whole, fresh, first_panel)
            known = b.and_(wide, b.icmp_signed("!=", panel.index, lister))
            if parts.joined:
                known = b.and_(known, b.not_(pair))  # tiles of fewer rows
            listing = _listing(b, r, parts.missed, where, part, known)
            soon = weights_of(
                b.select(goes_on, after, first_panel),
                b.select(goes_on, rows, b.add(rows, b.mul(some, deep))),
            )

            def run_of(panel: ir.Value) -> tuple[ir.Value, Run]:
                final = direct(panel) if direct else ir.Constant(I1, 0)
                begun = b.mul(b.sub(panel, first_panel), r.sums_panel)
                weights = weights_of(panel, begin if parts.missed else rows), width_of(panel), soon
                to = final, begun, ragged.channel(b, panel), ragged.last_of(b, panel)
                run = _run_of(b, r, where, part, to, weights, listing)
                return final, run if parts.woven is None else _of_groups(b, parts.woven, run)

            final, run = run_of(panel.index)
            far = b.and_(b.and_(where.data.far, whole), b.icmp_signed("==", panel.index, fresh))
            past = b.and_(b.and_(where.past, whole), final) if parts.past else None
            alone = b.icmp_signed("==", panel.index, first_panel)
            stored = _stored(b, where, run, (ragged.channel(b, panel.index), entry))
            runs = run, partial(run_of, after), stored
            _run_panel(b, shape, parts, (wide, pair, alone), (far, past, final), runs)


def _times(b: ir.IRBuilder, size: ir.Value, part: ir.Value) -> ir.Value:
    """Return how many parts there are, the last one shorter; one of nothing."""
    return larger(b, b.sdiv(b.add(size, b.sub(part, number(1))), part), number(1))


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the depth, for all points of a phase of the last axis."""

    both: ir.Value  # the phase of all axes
    entry: ir.Value  # where its points begin in tables
    segments: tuple[ir.Value, ir.Value]  # from, and how many
    depth: tuple[ir.Value, ir.Value]  # of each, likewise
    points: ir.Value
    first: ir.Value  # whether it begins the sums


def _run_panel(  # noqa: PLR0913 - which tiles for what
    b: ir.IRBuilder,
    shape: KernelShape,
    parts: Parts,
    flags: tuple[ir.Value, ir.Value, ir.Value],
    kinds: tuple[ir.Value, ir.Value | None, ir.Value],
    runs: tuple[Run, Callable[[], tuple[ir.Value, Run]], Run],
) -> None:
    """Run tiles of one panel, or of it and the next, if that is narrow and the last.

    The flags are whether it is wide, whether there is such a next one, and that there is none
    before it; the kinds whether data is far, sums go past the caches, and results of another type
    are final.
    """
    wide, pair, alone = flags
    run, other, stored = runs
    far, past, final = kinds
    with ExitStack() as stack:
        if parts.rounded:
            now, later = stack.enter_context(b.if_else(final))
            with now, b.if_else(wide) as (full, narrow):
                with full:
                    run_tiles(b, parts.rounded[shape.vectors], shape, shape.vectors, stored)
                with narrow:
                    run_tiles(b, parts.rounded[1], shape, 1, stored)
            stack.enter_context(later)
        if parts.joined:
            two, one = stack.enter_context(b.if_else(pair))
            with two:
                tiles = tuple([tile, tile] for tile in parts.joined)
                _, behind = other()
                pairs = replace(run, joined=behind, last=b.sub(behind.channel, run.channel))
                run_wide(b, shape, (tiles, ()), (far, None), pairs)
            stack.enter_context(one)
        kept = parts.tiles[shape.vectors], parts.far
        if 1 not in parts.tiles:
            run_wide(b, shape, (kept, parts.past), (far, past), run)
            return
        with b.if_else(wide) as (full, narrow):
            with full:
                run_wide(b, shape, (kept, parts.past), (far, past), run)
            with narrow, b.if_then(alone if parts.joined else ir.Constant(I1, 1)):
                run_tiles(b, parts.tiles[1], shape, 1, run)


def _stored(b: ir.IRBuilder, where: Place, run: Run, numbers: tuple[ir.Value, ir.Value]) -> Run:
    """Return a run that writes to the target, from a channel on, the points of a phase."""
    channel, entry = numbers
    target, places = place(b, where.target, channel), place(b, where.targets, entry)
    return replace(run, sums=target, places=places)


def _run_of(  # noqa: PLR0913 - which panel of what
    b: ir.IRBuilder,
    r: Record,
    where: Place,
    part: _Part,
    to: tuple[ir.Value, ir.Value, ir.Value, ir.Value],
    weights: tuple[ir.Value, ir.Value, ir.Value],
    listing: Listing | None,
) -> Run:
    """Return what tiles of one panel take.

    It goes to the target, or to other sums that begin somewhere; then come its first channel, and
    where in it the last vector lies.
    Of weights we are told where, how wide, and what comes next.
    """
    final, begun, channel, last = to
    panel, width, soon = weights
    sums, places = place(b, where.sums, begun), where.places
    if where.target.type == sums.type:
        sums = b.select(final, place(b, where.target, channel), sums)
        places = b.select(final, where.targets, places)
    places = place(b, places, part.entry)
    segments = b.add(r.at("segment_start", part.both), part.segments[0])
    return Run(
        sums=sums,
        start=b.select(part.first, place(b, where.bias, channel), sums),
        data=place(b, where.data.origin, part.depth[0]),
        weights=panel,
        soon=soon,
        channel=channel,
        last=last,
        width=width,
        places=places,
        start_places=b.select(part.first, r.blank, places),
        start_step=b.select(part.first, number(0), number(-1)),
        rows=place(b, where.rows, part.entry),
        segments=place(b, where.data.segments, segments),
        count=part.segments[1],
        depth=part.depth[1],
        points=part.points,
        listing=listing,
    )


def _of_groups(b: ir.IRBuilder, woven: tuple[int, int], run: Run) -> Run:
    """Return a run that reads what the groups of its panel do."""
    return replace(run, data=place(b, run.data, first_read(b, woven, run.channel)))


def _listing(  # noqa: PLR0913 - which part of what
    b: ir.IRBuilder,
    r: Record,
    functions: Missed | None,
    where: Place,
    part: _Part,
    known: ir.Value,
) -> Listing | None:
    """Return what lists the segments of tiles that leave some out.

    Panels that are ``known`` find lists that another made, if those are kept.
    """
    if functions is None:
        return None
    both, (inside, deep) = part.both, part.depth
    _, bits, listed = missed_places(b, r, where.scratch)
    nothing = place(b, where.scratch, r.scratch_nothing)
    segments = place(b, where.data.segments, r.at("segment_start", both))
    apart = b.zext(where.data.far, I64)  # what is packed has zeros
    kept = b.icmp_signed(">", r.listed_pitch, number(0))
    kept = b.and_(kept, b.icmp_signed("==", r.phases, number(1)))
    points, depth = b.mul(r.points, r.phases), r.at("segment_depth", both)
    return Listing(
        functions=functions,
        listed=listed,
        bits=place(b, bits, part.entry),
        operands=[place(b, where.data.origin, inside), nothing, segments],
        numbers=[r.words, points, *part.segments, depth, deep, r.most_depth, apart],
        pitch=r.listed_pitch,
        known=b.and_(known, kept),
    )
