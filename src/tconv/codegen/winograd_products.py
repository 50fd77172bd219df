"""The products of Winograd's algorithm: one matrix product for each point of the transform."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import KernelShape, Record
from tconv.codegen.build import I1, I64, advancing, counted, load, number, place, prefetch, smaller
from tconv.codegen.rows import zero_fill
from tconv.codegen.runs import split_rows


@dataclass(frozen=True, slots=True)
class Place:
    """Where a work item finds and puts things."""

    scratch: ir.Value
    data: ir.Value
    products: ir.Value
    sums: ir.Value
    rows: ir.Value  # tables, by patch: where its data begins,
    places: ir.Value  # and its products;
    reads: ir.Value  # what it reads of the packed region,
    writes: ir.Value  # where its sums go,
    images: ir.Value  # and of which image it is
    zeros: ir.Value  # where every sum starts
    points: ir.Value  # its first point on each axis, by patch,
    targets: ir.Value  # and where the target has it
    lists: ir.Value  # of spots
    nothing: ir.Value  # zeros to read, and what nobody reads
    nowhere: ir.Value
    source: ir.Value
    target: ir.Value
    weights: ir.Value
    bias: ir.Value


@dataclass(frozen=True, slots=True)
class Written:
    """What is written in place: where the target begins, and its patches; their outputs."""

    target: ir.Value
    targets: ir.Value
    places: ir.Value  # of outputs, from the first one
    outputs: ir.Value  # how many are asked for


def emit_products(  # noqa: PLR0913 - which panels of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    tiles: Sequence[ir.Function],
    where: Place,
    points: int,
    numbers: tuple[ir.Value, ir.Value, ir.Value, ir.Value],
    lines: Written,
) -> None:
    """Multiply at every point of the transform, for some panels of a phase.

    Meanwhile lines that will be written are asked for: at a point an output of each patch.
    """
    phase, start, panels, count = numbers
    columns, large = number(shape.columns), number(shape.rows[0])
    last = b.sub(panels, number(1))
    # Divisions take longer than all else that comes before a small product.
    calls = b.sdiv(b.add(count, b.sub(large, number(1))), large)
    each = b.sdiv(b.add(columns, b.sub(calls, number(1))), calls)

    def matrix(entry: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Return the first of these panels' weights of a product, and how many each has."""
        size = b.mul(b.mul(r.at("segment_count", entry), r.depth), columns)
        behind = b.mul(b.sub(start, r.first_panel), size)
        return place(b, where.weights, b.add(r.at("matrix_start", entry), behind)), size

    # What panels have in common is found before them: they may be soon done.
    with counted(b, number(points)) as point, counted(b, r.phases) as x:
        both = b.add(b.mul(phase, r.phases), x.index)
        entry = b.add(b.mul(both, number(points)), point.index)
        weights, size = matrix(entry)
        following, _ = matrix(r.at("matrix_next", entry))
        written = place(b, lines.target, load(b, lines.places, point.index))
        begin = b.mul(b.mul(x.index, r.panels_a_pass), r.panel_pitch)
        begin = b.add(begin, b.mul(point.index, r.product_pitch))
        products, pitch = place(b, where.products, begin), r.panel_pitch
        segments = r.at("segment_count", entry)
        product = _Product(
            data=place(b, where.data, b.mul(point.index, r.point_pitch)),
            segments=place(b, r.segments, r.at("segment_start", entry)),
            count=segments,
            each=each,
            targets=place(b, lines.targets, b.mul(x.index, count)),
            asked=b.icmp_signed("<", point.index, lines.outputs),
        )
        with b.if_else(b.icmp_signed(">", segments, number(0)), likely=True) as (some, none):
            with some:
                carried = [weights, products, place(b, written, b.mul(start, columns))]
                with counted(b, panels, carried) as panel:
                    mine, target, asked = panel.carried
                    after = place(b, mine, size)
                    # What is read next: the next panel, or the first of the next product.
                    goes_on = b.icmp_signed("<", panel.index, last)
                    soon = b.select(goes_on, after, following)
                    run = _Run(target, mine, soon, asked)
                    _run_parts(b, r, tiles, shape, where, (product, run), count)
                    panel.carried = [after, place(b, target, pitch), place(b, asked, columns)]
            with none, counted(b, panels) as panel:
                target = place(b, products, b.mul(panel.index, pitch))
                zero_fill(b, target, b.mul(count, columns), shape.dtype)


@dataclass(frozen=True, slots=True)
class _Product:
    """A point of the transform, in a phase of the last axis: what all panels have in common."""

    data: ir.Value
    segments: ir.Value
    count: ir.Value  # of segments
    each: ir.Value  # elements of what comes soon that a tile asks for in each step
    targets: ir.Value  # where patches are written, in the target
    asked: ir.Value  # whether to ask for an output of each


@dataclass(frozen=True, slots=True)
class _Run:
    """One matrix product: a panel at a point."""

    products: ir.Value
    weights: ir.Value
    soon: ir.Value  # the weights of the next product
    written: ir.Value  # where the target has the output that is asked for, of a patch at its begin


def _run_parts(  # noqa: PLR0913 - what of which panel
    b: ir.IRBuilder,
    r: Record,
    tiles: Sequence[ir.Function],
    shape: KernelShape,
    where: Place,
    which: tuple[_Product, _Run],
    rows: ir.Value,
) -> None:
    """Multiply all rows by a part of the panel that stays in the nearer caches, part after part.

    Meanwhile the next part is fetched, each tile asking for its share.
    """
    product, run = which
    columns, none = number(shape.columns), number(0)
    with ExitStack() as stack:
        turn = stack.enter_context(advancing(b, none, product.count))
        segment, turn.following = turn.index, b.add(turn.index, r.part_segments)
        cut = stack.enter_context(advancing(b, none, r.depth))
        inside, cut.following = cut.index, b.add(cut.index, r.part_depth)
        count = smaller(b, b.sub(product.count, segment), r.part_segments)
        depth = smaller(b, b.sub(r.depth, inside), r.part_depth)
        skipped = b.mul(b.add(b.mul(segment, r.depth), inside), columns)
        weights = place(b, run.weights, skipped)
        ends = b.and_(
            b.icmp_signed(">=", turn.following, product.count),
            b.icmp_signed(">=", cut.following, r.depth),
        )
        taken = b.mul(b.mul(count, depth), columns)
        soon = b.select(ends, run.soon, place(b, weights, taken))
        begun = b.icmp_signed("!=", b.or_(segment, inside), none)
        zero = b.bitcast(where.zeros, product.data.type)
        start = b.select(begun, run.products, zero)
        mask = b.sext(begun, I64)
        start_places = b.select(begun, where.places, where.zeros)
        data = place(b, product.data, inside)
        segments = place(b, product.segments, segment)
        share = b.mul(product.each, b.mul(count, depth))
        asked = b.and_(product.asked, b.not_(begun))

        def call(tile: ir.Function, size: int, here: ir.Value, turn: ir.Value) -> None:
            tables = [
                place(b, where.places, here),
                place(b, start_places, b.and_(here, mask)),
                place(b, where.rows, here),
            ]
            ahead = place(b, soon, b.mul(turn, share))
            with b.if_then(asked), counted(b, number(size)) as row:
                patch = smaller(b, b.add(here, row.index), b.sub(rows, number(1)))
                found = load(b, product.targets, patch)
                there = place(b, run.written, b.ashr(found, number(1)))
                # What lies outside may not exist: to find that out takes long.
                nowhere = b.bitcast(where.nowhere, there.type)
                there = b.select(b.trunc(found, I1), nowhere, there)
                prefetch(b, there, write=True)
            b.call(
                tile,
                [
                    run.products,
                    start,
                    data,
                    weights,
                    *tables,
                    segments,
                    count,
                    depth,
                    ahead,
                    product.each,
                    number(shape.columns - shape.lanes),
                ],
            )

        _run_tiles(b, call, tiles, shape.rows, rows)


def _run_tiles(
    b: ir.IRBuilder,
    call: Callable[[ir.Function, int, ir.Value, ir.Value], None],
    tiles: Sequence[ir.Function],
    sizes: Sequence[int],
    count: ir.Value,
) -> None:
    """Run large register tiles, then small ones for the rest."""
    large, small = (number(size) for size in sizes)
    whole, others = split_rows(b, count, sizes)
    with counted(b, whole) as run:
        call(tiles[0], sizes[0], b.mul(run.index, large), run.index)
    done = b.mul(whole, large)
    with counted(b, others) as run:
        here = b.add(done, b.mul(run.index, small))
        call(tiles[1], sizes[1], here, b.add(whole, run.index))
