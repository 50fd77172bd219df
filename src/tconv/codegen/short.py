"""Gathers of few terms: one offset for each step, all panels of a tile's points in turn.

Runs of one to three channels end before they pay for their beginning.  Here every element that a
point reads has an entry in a table, and a tile goes on with the next panel before other points:
its data are in the first cache, and what it stores lies side by side.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv.codegen.block import KernelShape, Record
from tconv.codegen.build import (
    FLOATS,
    I64,
    STORED,
    counted,
    fma,
    function,
    larger,
    load,
    number,
    place,
    prefetch,
    smaller,
    splat,
    store,
)
from tconv.codegen.places import Place
from tconv.codegen.runs import rows_of
from tconv.codegen.stored import rounded, widened_line
from tconv.codegen.tile import Tile
from tconv.plan.gather import MOST_STEPS

UNROLL = 2


def short_tile_meaning(  # noqa: PLR0913 - the emitted function's own arguments
    target: npt.NDArray[np.floating],
    bias: npt.NDArray[np.floating],
    data: npt.NDArray[np.floating],
    weights: npt.NDArray[np.floating],
    places: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    steps: tuple[int, int, int],
) -> None:
    """Compute in NumPy what the code from :func:`emit_short_tile` computes.

    ``target[places[r] + p * steps[0] + v] = bias[p * steps[1] + v] +
    sum of data[rows[r] + p * steps[2] + offsets[k]] * weights[p, k, v]``,
    one panel p after the other.
    """
    columns = np.arange(weights.shape[-1])
    written, added, read = steps
    for p, panel in enumerate(weights):
        sums = data[rows[:, None] + offsets + p * read] @ panel
        target[places[:, None] + p * written + columns] = bias[p * added + columns] + sums


def emit_short_tile(module: ir.Module, tile: Tile) -> ir.Function:
    """Emit ``tile``: its arguments are those of its meaning, then how many offsets and panels.

    The last arguments are how far apart the weights of panels lie, then the steps.  Behind the
    tile's places the table has those of the next tile, or anything.
    """
    scalar = FLOATS[tile.dtype]
    vector = ir.VectorType(scalar, tile.lanes)
    pointer, table = scalar.as_pointer(), I64.as_pointer()
    stored = STORED[tile.dtype].as_pointer()
    operands = [stored, pointer, pointer, stored]
    made, b = function(module, f"short_{tile.name}", [*operands, *[table] * 3, *[I64] * 6])
    target, bias, data, weights, places, rows, offsets, count, panels, step = made.args[:10]
    written, added, read = made.args[10:]
    for argument in made.args[:7]:
        argument.add_attribute("noalias")
    points = [place(b, data, load(b, rows, r)) for r in range(tile.rows)]
    unroll = UNROLL if tile.vectors > 1 else 1
    whole = b.and_(count, number(-unroll))
    with counted(b, panels, points) as panel:
        points = panel.carried
        channel = b.mul(panel.index, written)
        first = place(b, bias, b.mul(panel.index, added))
        begun = [load(b, first, v * tile.lanes, vector) for v in range(tile.vectors)]
        line = place(b, weights, b.mul(panel.index, step))
        # In large results what the next tile will write is far away; its places stand behind
        # this one's in the table.
        for r in range(tile.rows):
            out = place(b, target, b.add(load(b, places, tile.rows + r), channel))
            for element in (0, tile.columns - 1):
                prefetch(b, place(b, out, element), write=True)
        with counted(b, whole, [line, *begun * tile.rows], step=unroll) as main:
            for step_ in range(unroll):
                offset = load(b, place(b, offsets, main.index), step_)
                main.carried = _multiply(b, tile, points, offset, main.carried)
        with counted(b, count, main.carried, first=whole) as rest:
            offset = load(b, offsets, rest.index)
            rest.carried = _multiply(b, tile, points, offset, rest.carried)
        for r in range(tile.rows):
            out = place(b, target, b.add(load(b, places, r), channel))
            for v in range(tile.vectors):
                total = rest.carried[1 + r * tile.vectors + v]
                store(b, rounded(b, total, tile.dtype), out, v * tile.lanes)
        panel.carried = [place(b, point, read) for point in points]
    b.ret_void()
    return made


def _multiply(
    b: ir.IRBuilder,
    tile: Tile,
    points: list[ir.Value],
    offset: ir.Value,
    carried: list[ir.Value],
) -> list[ir.Value]:
    """Add one element of every row, times one line of vectors."""
    line, *totals = carried
    weights = widened_line(b, line, 0, tile.dtype, (tile.vectors, tile.lanes))
    for r, point in enumerate(points):
        row = splat(b, load(b, point, offset), tile.lanes)
        for v in range(tile.vectors):
            k = r * tile.vectors + v
            totals[k] = fma(b, row, weights[v], totals[k])
    return [place(b, line, tile.columns), *totals]


def emit_short_tiles(module: ir.Module, shape: KernelShape) -> dict[int, list[ir.Function]]:
    """Emit tiles by vectors."""
    return {
        vectors: [
            emit_short_tile(module, Tile(rows, vectors, shape.lanes, shape.dtype))
            for rows in rows_of(shape, vectors)
        ]
        for vectors in sorted({1, shape.vectors})
    }


def run_short(  # noqa: PLR0913 - which panels of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    tiles: dict[int, list[ir.Function]],
    where: Place,
    phase: ir.Value,
    panels: tuple[ir.Value, ir.Value],
    groups: ir.Value,
) -> tuple[ir.Value, ir.Value]:
    """Sum and store panels to the target if they go together; return the first not done, twice.

    Their channels must lie side by side in the target.  Of one group these are panels of whole
    vectors.  Of several groups, which have one panel each, it is as many as a whole vector may
    write: what reaches into groups behind is written again by those.
    """
    first, last = panels
    if not tiles:
        return number(0), first
    full = b.sdiv(r.columns, number(shape.columns))
    wide = larger(b, b.sub(smaller(b, full, last), first), number(0))
    left = b.sub(r.columns, b.mul(full, number(shape.columns)))
    narrow = b.icmp_signed("==", left, number(shape.lanes))
    narrow = b.zext(b.and_(narrow, b.icmp_signed("<", full, last)), I64)
    several = _is(b, ">", groups, 1)
    alike = _is(b, "<=", r.columns, shape.lanes)  # one vector of each
    width = b.select(alike, number(shape.lanes), number(shape.columns))
    reached = b.sdiv(b.sub(width, number(1)), r.columns)
    whole = larger(b, b.sub(groups, reached), number(0))
    plain = b.and_(_is(b, "==", r.activate, 0), _is(b, "==", r.target_c, 1))
    short = b.and_(_is(b, "!=", r.together, 0), plain)
    with b.if_then(short):
        none = number(0)
        counts = (
            b.select(several, b.select(alike, none, whole), wide),
            b.select(several, b.select(alike, whole, none), narrow),
        )
        starts = first, b.select(several, none, full)
        columns = number(shape.columns)
        steps = [
            b.select(several, mine, other)
            for mine, other in (
                (r.group_weights, r.at("panel_weights", phase)),
                (r.target_g, columns),
                (columns, columns),
                (r.source_g, none),
            )
        ]
        ends = [
            (vectors, start, count, place(b, where.target, b.mul(start, columns)), where.targets)
            for vectors, start, count in zip((shape.vectors, 1), starts, counts, strict=True)
        ]
        _run_panels(b, r, shape, tiles, where, phase, (ends, steps))
    done = b.add(b.add(first, wide), narrow)
    return (
        b.select(b.and_(short, several), whole, number(0)),
        b.select(b.and_(short, b.not_(several)), done, first),
    )


def sum_short(  # noqa: PLR0913 - which panel of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    tiles: dict[int, list[ir.Function]],
    where: Place,
    phase: ir.Value,
    panel: ir.Value,
) -> None:
    """Sum one panel to scratch: one that is not full, or whose channels do not lie side by side."""
    wide = b.zext(b.icmp_signed("<", panel, r.wide_panels), I64)
    counts = (shape.vectors, wide), (1, b.sub(number(1), wide))
    ends = [(vectors, panel, count, where.sums, where.places) for vectors, count in counts]
    _run_panels(b, r, shape, tiles, where, phase, (ends, [number(0)] * 4))


def _run_panels(  # noqa: PLR0913 - which panels of what
    b: ir.IRBuilder,
    r: Record,
    shape: KernelShape,
    tiles: dict[int, list[ir.Function]],
    where: Place,
    phase: ir.Value,
    numbers: tuple[
        Sequence[tuple[int, ir.Value, ir.Value, ir.Value, ir.Value]], Sequence[ir.Value]
    ],
) -> None:
    """Run tiles of some vectors, from a panel on, so many of them, to where and to which places.

    Steps from one of them to the next are of weights, target, bias and data.
    """
    kinds, panel_steps = numbers
    with b.goto_entry_block():
        offsets = b.alloca(I64, number(MOST_STEPS))
    with counted(b, r.phases) as x:
        both = b.add(b.mul(phase, r.phases), x.index)
        steps = _list_offsets(b, r, both, (where.data.segments, offsets))
        before = r.at("rows_before", both)
        entry = b.mul(x.index, r.points)
        for vectors, panel, count, into, places in kinds:
            skipped = b.mul(before, number(vectors * shape.lanes))
            begin = b.mul(panel, r.at("panel_weights", phase))
            begin = b.add(r.at("phase_weights", phase), begin)
            operands = [
                into,
                place(b, where.bias, b.mul(panel, number(shape.columns))),
                where.data.origin,
                place(b, where.weights, b.add(begin, skipped)),
            ]
            tables = place(b, places, entry), place(b, where.rows, entry)
            sizes = [offsets, steps, count, *panel_steps]
            with b.if_then(_is(b, ">", count, 0)):
                rows = load(b, where.counts, x.index)
                _run_tiles(
                    b, (tiles[vectors], rows_of(shape, vectors)), rows, tables, (operands, sizes)
                )


def _is(b: ir.IRBuilder, relation: str, left: ir.Value, right: int) -> ir.Value:
    return b.icmp_signed(relation, left, number(right))


def _list_offsets(
    b: ir.IRBuilder, r: Record, both: ir.Value, lists: tuple[ir.Value, ir.Value]
) -> ir.Value:
    """Note where every element lies that a point of a phase reads; return how many there are."""
    segments, offsets = lists
    depth, start = r.at("segment_depth", both), r.at("segment_start", both)
    count = r.at("segment_count", both)
    with counted(b, count) as segment:
        begin = load(b, segments, b.add(start, segment.index))
        entry = b.mul(segment.index, depth)
        with counted(b, depth) as k:
            store(b, b.add(begin, k.index), offsets, b.add(entry, k.index))
    return b.mul(count, depth)


def _run_tiles(
    b: ir.IRBuilder,
    tiles: tuple[list[ir.Function], tuple[int, ...]],
    points: ir.Value,
    tables: tuple[ir.Value, ir.Value],
    arguments: tuple[list[ir.Value], list[ir.Value]],
) -> None:
    """Run the large tile as often as it fits, then the one that what is left fits into."""
    made, rows = tiles
    large, small = (number(size) for size in rows)
    rest = b.srem(points, large)
    whole = b.sub(points, rest)
    with counted(b, b.add(whole, b.select(b.icmp_signed(">", rest, small), large, number(0))),
                 step=rows[0]) as turn:  # fmt: skip
        here = [place(b, table, turn.index) for table in tables]
        b.call(made[0], [*arguments[0], *here, *arguments[1]])
    fits = b.and_(_is(b, ">", rest, 0), b.icmp_signed("<=", rest, small))
    with b.if_then(fits):
        here = [place(b, table, whole) for table in tables]
        b.call(made[1], [*arguments[0], *here, *arguments[1]])
