"""Gathers of few terms: one offset for each step, all panels of a tile's points in turn.

Runs of one to three channels end before they pay for their beginning.  Here every element that a
point reads has an entry in a table, and a tile goes on with the next panel before other points:
its data are in the first cache, and what it stores lies side by side.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv.codegen.build import (
    BYTES,
    FLOATS,
    I64,
    LINE,
    STORED,
    STORED_BYTES,
    counted,
    fma,
    function,
    load,
    number,
    place,
    prefetch,
    prefetch_lines,
    smaller,
    splat,
    store,
    stream,
)
from tconv.codegen.stored import rounded, widened_line
from tconv.codegen.tile import Tile, places_of

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
    one panel p after the other.  Of the code's own numbers the last tells where the last of
    several vectors lies, in target and bias.
    """
    columns = np.arange(weights.shape[-1])
    written, added, read = steps
    for p, panel in enumerate(weights):
        sums = data[rows[:, None] + offsets + p * read] @ panel
        target[places[:, None] + p * written + columns] = bias[p * added + columns] + sums


def emit_short_tile(module: ir.Module, tile: Tile) -> ir.Function:
    """Emit ``tile``: its arguments are those of its meaning, then how many offsets and panels.

    The last arguments are how far apart the weights of panels lie, then the steps, and where the
    last of several vectors lies.  Behind the tile's places the table has those of the next tile,
    or anything.  A joined one takes the weights of its last vector, which is a panel of its own,
    as the last argument.
    """
    pointer, table = FLOATS[tile.dtype].as_pointer(), I64.as_pointer()
    stored = STORED[tile.dtype].as_pointer()
    kinds = [stored, pointer, pointer, stored, *[table] * 3, *[I64] * 7, *[stored] * tile.joined]
    made, b = function(module, f"short_{tile.name}", kinds)
    target, bias, data, weights, places, rows, offsets = made.args[:7]
    for argument in made.args[:7]:
        argument.add_attribute("noalias")
    points = [place(b, data, load(b, rows, r)) for r in range(tile.rows)]

    def out(r: int) -> ir.Value:
        return place(b, target, load(b, places, r))

    def ahead(r: int) -> ir.Value:
        return out(tile.rows + r)

    lines = weights, *made.args[14:]
    _sum_panels(b, tile, points, (out, ahead), (bias, lines, offsets), made.args[7:14])
    b.ret_void()
    return made


def emit_short_line(module: ir.Module, tile: Tile) -> ir.Function:
    """Emit tiles over a line of points, which lie at equal steps; at least as many as a tile has.

    Its arguments are those of :func:`short_tile_meaning` without tables of points; then come how
    many points there are, how far apart they are read and written, and what a tile has last.
    Then comes how far behind its points a tile asks for as many that are read soon, or 0.
    What the last tile has too much, it sums again.  One that goes ``past`` the caches writes whole
    vectors to where lines of them begin.  A joined one takes the weights of its last vector as
    the last argument, too.
    """
    pointer, table = FLOATS[tile.dtype].as_pointer(), I64.as_pointer()
    stored = STORED[tile.dtype].as_pointer()
    kinds = [stored, pointer, pointer, stored, table, *[I64] * 11, *[stored] * tile.joined]
    made, b = function(module, f"short_line_{tile.name}", kinds)
    target, bias, data, weights, offsets, length, apart, between = made.args[:8]
    soon = made.args[15]
    for argument in made.args[:5]:
        argument.add_attribute("noalias")
    rows = number(tile.rows)
    tiles = b.sdiv(b.add(length, number(tile.rows - 1)), rows)
    last = b.sub(length, rows)
    with counted(b, tiles) as turn:
        first = smaller(b, b.mul(turn.index, rows), last)
        read, written = place(b, data, b.mul(first, apart)), place(b, target, b.mul(first, between))
        points = [place(b, read, b.mul(number(r), apart)) for r in range(tile.rows)]

        def out(r: int, begin: ir.Value = written) -> ir.Value:
            return place(b, begin, b.mul(number(r), between))

        def ahead(r: int) -> ir.Value:
            return out(tile.rows + r)

        asked = b.select(b.icmp_signed("!=", soon, number(0)), b.mul(rows, apart), number(0))
        with counted(b, asked, step=LINE // BYTES[tile.dtype]) as k:
            prefetch(b, place(b, read, b.add(soon, k.index)), near=2)
        lines = weights, *made.args[16:]
        _sum_panels(b, tile, points, (out, ahead), (bias, lines, offsets), made.args[8:15])
    b.ret_void()
    return made


def _sum_panels(  # noqa: PLR0913 - the emitted functions' own arguments
    b: ir.IRBuilder,
    tile: Tile,
    points: list[ir.Value],
    places: tuple[Callable[[int], ir.Value], Callable[[int], ir.Value]],
    operands: tuple[ir.Value, Sequence[ir.Value], ir.Value],
    sizes: Sequence[ir.Value],
) -> None:
    """Sum and store all panels of a tile's points: to those places; others are written next.

    The operands are the bias, the weights of each panel of a tile, and offsets.
    """
    bias, weights, offsets = operands
    count, panels, step, written, added, read, last = sizes
    vector_places = places_of(tile, tile.vectors, last)
    vector = ir.VectorType(FLOATS[tile.dtype], tile.lanes)
    unroll = UNROLL if tile.vectors > 1 else 1
    whole = b.and_(count, number(-unroll))
    place_of, ahead_of = places
    with counted(b, panels, points) as panel:
        points = panel.carried
        channel = b.mul(panel.index, written)
        first = place(b, bias, b.mul(panel.index, added))
        begun = [load(b, first, here, vector) for here in vector_places]
        lines = [place(b, line, b.mul(panel.index, step)) for line in weights]
        # In large results what the next tile will write is far away.
        for r in range(0 if tile.past else tile.rows):
            line = place(b, ahead_of(r), channel)
            prefetch_lines(b, line, tile.columns, STORED_BYTES[tile.dtype], write=True)
        with counted(b, whole, [*lines, *begun * tile.rows], step=unroll) as main:
            for step_ in range(unroll):
                offset = load(b, place(b, offsets, main.index), step_)
                main.carried = _multiply(b, tile, points, offset, main.carried)
        with counted(b, count, main.carried, first=whole) as rest:
            offset = load(b, offsets, rest.index)
            rest.carried = _multiply(b, tile, points, offset, rest.carried)
        for r in range(tile.rows):
            out = place(b, place_of(r), channel)
            for v, here in enumerate(vector_places):
                total = rest.carried[len(lines) + r * tile.vectors + v]
                write = stream if tile.past else store
                write(b, rounded(b, total, tile.dtype), out, here)
        panel.carried = [place(b, point, read) for point in points]


def _multiply(
    b: ir.IRBuilder,
    tile: Tile,
    points: list[ir.Value],
    offset: ir.Value,
    carried: list[ir.Value],
) -> list[ir.Value]:
    """Add one element of every row, times one line of vectors of each panel."""
    lines, totals = carried[: len(tile.panels)], carried[len(tile.panels) :]
    weights: list[ir.Value] = []
    for line, vectors in zip(lines, tile.panels, strict=True):
        weights += widened_line(b, line, 0, tile.dtype, (vectors, tile.lanes))
    for r, point in enumerate(points):
        row = splat(b, load(b, point, offset), tile.lanes)
        for v in range(tile.vectors):
            k = r * tile.vectors + v
            totals[k] = fma(b, row, weights[v], totals[k])
    following = (
        place(b, line, vectors * tile.lanes)
        for line, vectors in zip(lines, tile.panels, strict=True)
    )
    return [*following, *totals]
