"""Runs of tiles: all points of a phase by one panel, as far as its depth goes at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import KernelShape
from tconv.codegen.build import I1, I64, counted, larger, number, place
from tconv.codegen.missed import Listing
from tconv.plan.tiles import VECTORS

AHEAD = 128  # steps of the depth, until weights come from the last cache or from memory
NARROW_ROWS = 8  # of one vector: additions take four cycles, and two begin in each


@dataclass(frozen=True, slots=True)
class Run:
    """What tiles take, for all points of a phase."""

    sums: ir.Value
    start: ir.Value
    data: ir.Value
    weights: ir.Value
    places: ir.Value
    start_places: ir.Value
    start_step: ir.Value  # a mask: whether the table of starts goes on with the points
    rows: ir.Value
    segments: ir.Value
    count: ir.Value
    depth: ir.Value
    points: ir.Value
    width: ir.Value  # of the panel
    soon: ir.Value  # the weights that are read afterwards
    channel: ir.Value  # the first one of the panel
    last: ir.Value  # where the last vector lies from there, also of a panel that is summed with it
    listing: Listing | None  # of segments that a tile's rows meet
    joined: "Run | None" = None  # the last panel, if tiles sum it together with this one


def panel_kinds(shape: KernelShape) -> list[int]:
    """Return the vectors of panels: of more than two they all are full, and none is narrow."""
    return sorted({1, shape.vectors}) if shape.vectors <= VECTORS else [shape.vectors]


def rows_of(shape: KernelShape, vectors: int) -> tuple[int, int]:
    """Return how many rows the tiles of so many vectors have: of the large one and the small."""
    large, small = shape.rows
    if vectors > shape.vectors:  # as many sums, one vector of weights more: all registers
        return (large * shape.vectors // vectors,) * 2
    return (large if vectors > 1 else max(large, NARROW_ROWS)), small


def run_wide(
    b: ir.IRBuilder,
    shape: KernelShape,
    tiles: tuple[tuple[list[ir.Function], ...], tuple[list[ir.Function], ...]],
    kinds: tuple[ir.Value, ir.Value | None],
    run: Run,
) -> None:
    """Run tiles of a wide panel: for data that is far away or near, for sums that stay or not."""
    (near, far), past_tiles = tiles
    distant, past = kinds
    if past is not None:
        with b.if_else(past) as (leaves, stays):
            with leaves:
                run_wide(b, shape, (past_tiles, ()), (distant, None), run)
            with stays:
                run_wide(b, shape, ((near, far), ()), (distant, None), run)
        return
    vectors = shape.vectors + (run.joined is not None)
    with b.if_else(distant) as (apart, beside):
        with apart:
            run_tiles(b, far, shape, vectors, run)
        with beside:
            run_tiles(b, near, shape, vectors, run)


def run_tiles(
    b: ir.IRBuilder, tiles: list[ir.Function], shape: KernelShape, vectors: int, run: Run
) -> None:
    """Run large tiles, then small ones for what is left.

    Additions take four cycles, so a tile of one row is no quicker than one of four.  Every tile
    asks for a share of the weights that are read next, which are far away where panels are large;
    a single one for its own, a little ahead.
    """
    sizes = rows_of(shape, vectors)
    large, small = map(number, sizes)
    whole, others = split_rows(b, run.points, sizes)
    calls = b.add(whole, others)
    steps = b.mul(run.count, run.depth)
    share = b.sdiv(b.add(steps, b.sub(calls, number(1))), larger(b, calls, number(1)))
    single = b.icmp_signed("<=", calls, number(1))
    soon = b.select(single, place(b, run.weights, AHEAD * shape.columns), run.soon)

    def call(tile: ir.Function, turn: ir.Value, here: ir.Value, rows: int) -> None:
        tables = [
            place(b, run.places, here),
            place(b, run.start_places, b.and_(here, run.start_step)),
            place(b, run.rows, here),
        ]
        sums = [run.sums, run.start, run.data, run.weights]
        ahead = place(b, soon, b.mul(turn, b.mul(share, run.width)))
        count, more = run.count, list[ir.Value]()
        if run.joined is not None:
            other = run.joined
            starts = place(b, other.start_places, b.and_(here, other.start_step))
            more = [other.sums, other.start, other.weights, place(b, other.places, here), starts]
        if run.listing is not None:
            count, listed = run.listing.of_tile(b, turn, here, tables[-1], rows)
            more.append(listed)
        b.call(
            tile, [*sums, *tables, run.segments, count, run.depth, ahead, share, run.last, *more]
        )

    with counted(b, whole) as turn:
        call(tiles[0], turn.index, b.mul(turn.index, large), sizes[0])
    with counted(b, others) as turn:
        here = b.add(b.mul(whole, large), b.mul(turn.index, small))
        call(tiles[1], b.add(whole, turn.index), here, sizes[1])


def split_rows(b: ir.IRBuilder, count: ir.Value, sizes: Sequence[int]) -> tuple[ir.Value, ir.Value]:
    """Return how many large tiles and how many small ones take some rows.

    The last rows go into a small tile if they fit, or into two of them, if those leave less empty
    than a large one and a small one would.
    """
    large, small = sizes
    whole = b.sdiv(b.add(count, number(large - 1 - small)), number(large))
    rest = b.sub(count, b.mul(whole, number(large)))
    some = b.icmp_signed(">", rest, number(0))
    others = b.zext(some, I64)
    spared = 2 * small - large
    if 0 < spared < small:
        few = b.and_(some, b.icmp_signed("<=", rest, number(spared)))
        even = b.zext(b.and_(few, b.icmp_signed(">", whole, number(0))), I64)
        whole, others = b.sub(whole, even), b.add(others, even)
    return whole, others


def filled_before(
    b: ir.IRBuilder,
    count: ir.Value,
    direct: Callable[[ir.Value], ir.Value] | None,
    panels: tuple[ir.Value, ir.Value, ir.Value],
) -> ir.Value:
    """Tell whether points of a panel, and of the next if they are a pair, are written already.

    Those that nothing is added to are, where sums lie in the target.
    """
    if direct is None:
        return ir.Constant(I1, 0)
    panel, after, pair = panels
    done = b.and_(b.icmp_signed("==", count, number(0)), direct(panel))
    return b.and_(done, b.or_(b.not_(pair), direct(after)))
