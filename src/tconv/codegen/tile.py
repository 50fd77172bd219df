"""The register tile: the one place where multiplications happen."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv.codegen.build import (
    BYTES,
    FLOATS,
    I64,
    LINE,
    STORED,
    Turn,
    counted,
    fma,
    function,
    load,
    number,
    place,
    prefetch,
    splat,
    store,
    stream,
)
from tconv.codegen.stored import widened_line

UNROLL = 4
FEW_SUMS = 8


@dataclass(frozen=True, slots=True)
class Tile:
    """Sums held in registers: ``rows`` points by ``vectors * lanes`` channels."""

    rows: int
    vectors: int
    lanes: int
    dtype: str
    far: bool = False  # whether the data is not in any cache yet
    across: bool = False  # whether rows are vectors of groups, like columns
    past: bool = False  # whether sums go past the caches, to whole vectors of the target

    @property
    def name(self) -> str:
        """Name of the emitted function."""
        kind = "_far" * self.far + "_across" * self.across + "_past" * self.past
        return f"tile_{self.dtype}_{self.rows}x{self.vectors}x{self.lanes}{kind}"

    @property
    def columns(self) -> int:
        """Channels of one tile."""
        return self.vectors * self.lanes

    @property
    def unroll(self) -> int:
        """Steps of the depth in one turn of the loop; tiles for what is left are shorter code."""
        return UNROLL if self.rows * self.vectors > FEW_SUMS else UNROLL // 2


def tile_meaning(  # noqa: PLR0913 - the emitted function's own arguments
    sums: npt.NDArray[np.floating],
    start: npt.NDArray[np.floating],
    data: npt.NDArray[np.floating],
    weights: npt.NDArray[np.floating],
    places: npt.NDArray[np.int64],
    start_places: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    segments: npt.NDArray[np.int64],
    depth: int,
) -> None:
    """Compute in NumPy what the code from :func:`emit_tile` computes.

    ``sums[places[r] + v] = start[start_places[r] + v] +
    sum of data[segments[s] + rows[r] + k] * weights[s, k, v]``
    """
    runs = data[segments[:, None, None] + rows[:, None] + np.arange(depth)]
    columns = np.arange(weights.shape[-1])
    panel = weights.reshape(len(segments), depth, len(columns)).astype(sums.dtype)
    begun = start[start_places[:, None] + columns]
    sums[places[:, None] + columns] = begun + np.einsum("srk,skv->rv", runs, panel)


def emit_tile(module: ir.Module, tile: Tile, *, spread: bool = False) -> ir.Function:
    """Emit ``tile``: its arguments are those of its meaning, with a count before the depth.

    Then come two more: weights that will be read soon, and for how many steps of the depth it
    asks for them in its own, for the second cache.  The first one has no room for what comes
    early: ``spread`` over all steps, the last argument is the elements that each asks for.

    The meaning is :func:`tile_meaning`.  It keeps ``rows * vectors`` sums live across both
    loops and reads each weight vector once, so ``rows`` pays for weight loads and
    ``vectors`` for data loads.  It asks for what it writes before it begins: in large
    results those lines are far away, unless it writes ``past`` the caches.  A far one asks for
    the data of the next tile too, line by line; its first row stands behind this one's last in
    the table.
    """
    scalar = FLOATS[tile.dtype]
    vector = ir.VectorType(scalar, tile.lanes)
    pointer, stored, table = scalar.as_pointer(), STORED[tile.dtype].as_pointer(), I64.as_pointer()
    kinds = [*[pointer] * 3, stored, *[table] * 4, I64, I64, stored, I64]
    made, b = function(module, tile.name, kinds)
    sums, start, data, weights, places, start_places, rows, segments, count, depth = made.args[:10]
    soon, share = made.args[10:]
    for argument in made.args[2:8]:  # sums may go back where they started
        argument.add_attribute("noalias")
    offsets = [load(b, rows, r) for r in range(tile.rows)]
    begun = []
    for r in range(tile.rows):
        origin = place(b, start, load(b, start_places, r))
        begun += [load(b, origin, v * tile.lanes, vector) for v in range(tile.vectors)]
    whole = b.and_(depth, number(-tile.unroll))
    for r in range(0 if tile.past else tile.rows):
        target = place(b, sums, load(b, places, r))
        for element in (0, tile.columns - 1):
            prefetch(b, place(b, target, element), write=True)

    with counted(b, count, [weights, *begun]) as segment:
        origin = place(b, data, load(b, segments, segment.index))
        points = [place(b, origin, offset) for offset in offsets]
        fetched: ir.Value = number(0)
        begun = segment.carried
        done = b.mul(segment.index, depth)
        ask = partial(_ask_spread if spread else _ask, b, tile, (soon, share, done))
        if tile.far:
            later = b.sub(load(b, rows, tile.rows), offsets[0])
            fetched, begun = _multiply_far(b, tile, points, begun, (depth, later), ask)
        with counted(b, whole, begun, first=fetched, step=tile.unroll) as main:
            ask(main)
            for step in range(tile.unroll):
                main.carried[1:] = multiply_step(b, tile, points, main, step)
            main.carried[0] = place(b, main.carried[0], tile.unroll * tile.columns)
        with counted(b, depth, main.carried, first=whole) as rest:
            rest.carried[1:] = multiply_step(b, tile, points, rest, 0)
            rest.carried[0] = place(b, rest.carried[0], tile.columns)
        segment.carried = rest.carried

    totals = segment.carried[1:]
    write = stream if tile.past else store
    for r in range(tile.rows):
        target = place(b, sums, load(b, places, r))
        for v in range(tile.vectors):
            write(b, totals[r * tile.vectors + v], target, number(v * tile.lanes))
    b.ret_void()
    return made


def _ask(
    b: ir.IRBuilder, tile: Tile, share: tuple[ir.Value, ir.Value, ir.Value], turn: Turn
) -> None:
    """Ask for the lines that the steps of a turn shall; past the share for those it reads anyway.

    The share is where it begins, for how many steps, and how many came before the loop.
    """
    soon, steps, before = share
    done = b.add(before, turn.index)
    here = place(b, soon, b.mul(done, number(tile.columns)))
    line = b.select(b.icmp_signed("<", done, steps), here, turn.carried[0])
    item = 2 if STORED[tile.dtype] != FLOATS[tile.dtype] else BYTES[tile.dtype]
    for element in range(0, tile.unroll * tile.columns, LINE // item):
        prefetch(b, place(b, line, element), near=2)


def _ask_spread(
    b: ir.IRBuilder, _: Tile, share: tuple[ir.Value, ir.Value, ir.Value], turn: Turn
) -> None:
    """Ask for one line: where the share begins, elements a step, and steps before the loop."""
    soon, each, before = share
    prefetch(b, place(b, soon, b.mul(b.add(before, turn.index), each)))


def _multiply_far(  # noqa: PLR0913 - what a turn of the loop reads
    b: ir.IRBuilder,
    tile: Tile,
    points: list[ir.Value],
    begun: list[ir.Value],
    numbers: tuple[ir.Value, ir.Value],
    ask: Callable[[Turn], None],
) -> tuple[ir.Value, list[ir.Value]]:
    """Multiply whole cache lines of every row, asking for those of the next tile.

    The numbers are the depth and how far ahead that lies.  Returns how much of the depth is
    done, and the values carried.
    """
    depth, ahead = numbers
    line = LINE // BYTES[tile.dtype]
    done = b.and_(depth, number(-line))
    with counted(b, done, begun, step=line) as turn:
        here = b.add(turn.index, ahead)
        for point in points:
            prefetch(b, place(b, point, here), near=2)
        end = b.add(turn.index, number(line))
        with counted(b, end, turn.carried, first=turn.index, step=tile.unroll) as main:
            ask(main)
            for step in range(tile.unroll):
                main.carried[1:] = multiply_step(b, tile, points, main, step)
            main.carried[0] = place(b, main.carried[0], tile.unroll * tile.columns)
        turn.carried = main.carried
    return done, turn.carried


def multiply_step(  # noqa: PLR0913 - what one step of the innermost loop reads
    b: ir.IRBuilder,
    tile: Tile,
    points: list[ir.Value],
    turn: Turn,
    step: int | None,
    of_line: int | None = None,
) -> list[ir.Value]:
    """Add one element of every row, times one line of vectors.

    Without a ``step`` the points are the elements themselves.
    """
    line, *totals = turn.carried
    vector = totals[0].type
    start = (step or 0) * tile.columns if of_line is None else of_line
    if line.type.pointee == vector.element:
        weights = [load(b, line, start + v * tile.lanes, vector) for v in range(tile.vectors)]
    else:
        weights = widened_line(b, line, start, tile.dtype, (tile.vectors, tile.lanes))
    for r, point in enumerate(points):
        if tile.across:
            row = load(
                b,
                place(b, point, b.mul(turn.index, number(tile.lanes))),
                (step or 0) * tile.lanes,
                vector,
            )
        else:
            datum = load(b, point) if step is None else load(b, place(b, point, turn.index), step)
            row = splat(b, datum, tile.lanes)
        for v in range(tile.vectors):
            k = r * tile.vectors + v
            totals[k] = fma(b, row, weights[v], totals[k])
    return totals
