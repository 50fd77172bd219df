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
LISTED_ROWS = 8  # addresses of a listed segment, as many as any tile has rows
ENTRY = LISTED_ROWS + 2  # and where its weights begin, and its depth


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
    listed: bool = False  # whether segments, and their weights, are read in a listed order

    @property
    def name(self) -> str:
        """Name of the emitted function."""
        kind = "_far" * self.far + "_across" * self.across + "_past" * self.past
        kind += "_listed" * self.listed
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

    A listed one takes one more, and its segments from there: of each the addresses of rows, how
    many steps of the depth have weights before it, and how many are its own.
    """
    scalar = FLOATS[tile.dtype]
    vector = ir.VectorType(scalar, tile.lanes)
    pointer, stored, table = scalar.as_pointer(), STORED[tile.dtype].as_pointer(), I64.as_pointer()
    kinds = [*[pointer] * 3, stored, *[table] * 4, I64, I64, stored, I64]
    kinds += [table] * tile.listed
    made, b = function(module, tile.name, kinds)
    sums, start, data, weights, places, start_places, rows, segments, count, depth = made.args[:10]
    soon, share = made.args[10:12]
    for argument in made.args[2:8]:  # sums may go back where they started
        argument.add_attribute("noalias")
    offsets = [load(b, rows, r) for r in range(tile.rows)]
    begun = []
    for r in range(tile.rows):
        origin = place(b, start, load(b, start_places, r))
        begun += [load(b, origin, v * tile.lanes, vector) for v in range(tile.vectors)]
    for r in range(0 if tile.past else tile.rows):
        target = place(b, sums, load(b, places, r))
        for element in (0, tile.columns - 1):
            prefetch(b, place(b, target, element), write=True)

    with counted(b, count, [weights, *begun]) as segment:
        before: ir.Value = b.mul(segment.index, depth)
        length: ir.Value = depth
        if tile.listed:
            entry = place(b, made.args[-1], b.mul(segment.index, number(ENTRY)))
            points = [b.inttoptr(load(b, entry, r), pointer) for r in range(tile.rows)]
            before, length = load(b, entry, LISTED_ROWS), load(b, entry, LISTED_ROWS + 1)
            segment.carried[0] = place(b, weights, b.mul(before, number(tile.columns)))
        else:
            origin = place(b, data, load(b, segments, segment.index))
            points = [place(b, origin, offset) for offset in offsets]
        whole = b.and_(length, number(-tile.unroll))
        fetched: ir.Value = number(0)
        begun = segment.carried
        ask = partial(_ask_spread if spread else _ask, b, tile, (soon, share, before))
        if tile.far:
            later = b.sub(load(b, rows, tile.rows), offsets[0])
            fetched, begun = _multiply_far(b, tile, points, begun, (length, later), ask)
        with counted(b, whole, begun, first=fetched, step=tile.unroll) as main:
            ask(main)
            for step in range(tile.unroll):
                main.carried[1:] = multiply_step(b, tile, points, main, step)
            main.carried[0] = place(b, main.carried[0], tile.unroll * tile.columns)
        with counted(b, length, main.carried, first=whole) as rest:
            rest.carried[1:] = multiply_step(b, tile, points, rest, 0)
