"""The register tile: the one place where multiplications happen."""

from collections.abc import Sequence
from dataclasses import dataclass

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
    larger,
    load,
    number,
    place,
    prefetch,
    smaller,
    splat,
    store,
    stream,
    zeros,
)
from tconv.codegen.stored import rounded, widened_line
from tconv.codegen.woven import multiply_woven
from tconv.plan.missed import ENTRY, LISTED_ROWS

UNROLL, FEW_SUMS = 4, 8
TOGETHER = 64  # steps that ask if one shall: another loop takes longer to begin than they ask
FLAGS = ("far", "across", "past", "listed", "joined", "rounds")


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
    joined: bool = False  # whether the last vector is a panel of its own
    rounds: bool = False  # whether sums are written as arrays hold them
    woven: tuple[int, int] | None = None  # channels of groups, read and written, that lanes share

    @property
    def name(self) -> str:
        """Name of the emitted function."""
        flags = (name for name in FLAGS if getattr(self, name))
        size = f"{self.rows}x{self.vectors}x{self.lanes}"
        of_groups = ("woven{}x{}".format(*self.woven),) if self.woven else ()
        return "_".join(("tile", self.dtype, size, *flags, *of_groups))

    @property
    def columns(self) -> int:
        """Channels of one tile."""
        return self.vectors * self.lanes

    @property
    def panels(self) -> list[int]:
        """Vectors of the panels that it sums."""
        return [self.vectors - 1, 1] if self.joined else [self.vectors]

    @property
    def unroll(self) -> int:
        """Steps of the depth in one turn of the loop.

        Tiles for what is left are shorter code; two panels leave no register for a load that
        is done a step earlier.
        """
        return UNROLL // 2 if self.joined or self.rows * self.vectors <= FEW_SUMS else UNROLL


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

    Then come three more: weights that will be read soon, and for how many steps of the depth it
    asks for them in its own, for the second cache.  The first one has no room for what comes
    early: ``spread`` over all steps, it is the elements that each asks for.  The third tells where
    the last vector lies from the first, in the sums and what they begin with.

    It keeps ``rows * vectors`` sums live across both loops and reads each weight vector once, so
    ``rows`` pays for weight loads and ``vectors`` for data loads.  It asks for lines that it writes
    before it begins, unless it writes ``past`` the caches; a far one for the data of the next tile
    too, whose first row stands behind this one's last.
    A joined one takes sums, start, weights, places and start's places of its last vector too.  A
    listed one has segments in the last argument: addresses of rows, steps before it, its own.
    A woven one sums every channel with those of its own group: see :mod:`tconv.codegen.woven`.
    """
    scalar = FLOATS[tile.dtype]
    pointer, stored, table = scalar.as_pointer(), STORED[tile.dtype].as_pointer(), I64.as_pointer()
    written = stored if tile.rounds else pointer
    panel = pointer if tile.woven else stored
    kinds = [written, *[pointer] * 2, panel, *[table] * 4, I64, I64, panel, I64, I64]
    kinds += [pointer, pointer, panel, table, table] * tile.joined + [table] * tile.listed
    made, b = function(module, tile.name, kinds)
    sums, start, data, weights, places, start_places, rows, segments, count, depth = made.args[:10]
    soon, share, last = made.args[10:13]
    for argument in made.args[2:8]:  # sums may go back where they started
        argument.add_attribute("noalias")
    offsets = [load(b, rows, r) for r in range(tile.rows)]
    panels = [(sums, start, weights, places, start_places), made.args[13:18]][: len(tile.panels)]
    begun, targets = _begin(b, tile, panels, last)
    with counted(b, count, [*(panel[2] for panel in panels), *begun]) as segment:
        before: ir.Value = b.mul(segment.index, depth)
        length: ir.Value = depth
        if tile.listed:
            entry = place(b, made.args[-1], b.mul(segment.index, number(ENTRY)))
            points = [b.inttoptr(load(b, entry, r), pointer) for r in range(tile.rows)]
            before, length = load(b, entry, LISTED_ROWS), load(b, entry, LISTED_ROWS + 1)
            for n, vectors in enumerate(tile.panels):
                skipped = b.mul(before, number(vectors * tile.lanes))
                segment.carried[n] = place(b, panels[n][2], skipped)
        else:
            origin = place(b, data, load(b, segments, segment.index))
            points = [place(b, origin, offset) for offset in offsets]
        if tile.woven is not None:
            channels = places_of(tile, tile.vectors, last)
            groups = tile.woven, points, segment.carried, tile.panels, channels
            segment.carried = multiply_woven(b, *groups)
        else:
            asked = _Asked(soon, share, before, spread=spread)
            ahead = b.sub(load(b, rows, tile.rows), offsets[0]) if tile.far else number(0)
            segment.carried = _multiply_segment(
                b, tile, points, segment.carried, (length, ahead), asked
            )

    totals = iter(segment.carried[len(panels) :])
    write = stream if tile.past else store
    for target, vector_places in targets:
        for here in vector_places:
            total = next(totals)
            # Which rows add zeros depends on their neighbours, and those that are stored by way
            # of sums add one: no sum is -0.
            if tile.listed or tile.rounds:
                total = b.fadd(total, zeros(total.type))
            total = rounded(b, total, tile.dtype) if tile.rounds else total
            write(b, total, target, here)
    b.ret_void()
    return made


@dataclass(frozen=True, slots=True)
class _Asked:
    """What steps of a run ask for: weights that are read soon."""

    soon: ir.Value
    share: ir.Value  # how many steps of the tile do
    before: ir.Value  # steps before the run
    spread: bool  # over all of them: then the share are elements that each asks for

    def end(self, b: ir.IRBuilder, whole: ir.Value) -> ir.Value:
        """Return how many steps of a run ask; the others are a loop that does not."""
        if self.spread:
            return whole
        left = b.add(b.sub(self.share, self.before), number(TOGETHER - 1))
        return smaller(b, larger(b, b.and_(left, number(-TOGETHER)), number(0)), whole)


def _multiply_segment(  # noqa: PLR0913 - what a segment reads
    b: ir.IRBuilder,
    tile: Tile,
    points: list[ir.Value],
    begun: list[ir.Value],
    sizes: tuple[ir.Value, ir.Value],
    asked: _Asked,
) -> list[ir.Value]:
    """Add a run of elements of every row; the sizes are its length, and how far ahead to ask."""
    length, ahead = sizes
    unit = LINE // BYTES[tile.dtype] if tile.far else tile.unroll
    whole, steps = (b.and_(length, number(-each)) for each in (unit, tile.unroll))
    done: ir.Value = number(0)
    for end, who in ((asked.end(b, whole), asked), (whole, None)):
        if tile.far:
            begun = _multiply_far(b, tile, points, begun, (done, end, ahead), who)
        else:
            begun = _multiply_loop(b, tile, points, begun, (done, end), who)
        done = end
        if asked.spread:
            break
    if tile.far:
        begun = _multiply_loop(b, tile, points, begun, (done, steps), None)
    with counted(b, length, begun, first=steps) as rest:
        _multiply_steps(b, tile, points, rest, 1)
    return list(rest.carried)


def _begin(
    b: ir.IRBuilder, tile: Tile, panels: Sequence[Sequence[ir.Value]], last: ir.Value
) -> tuple[list[ir.Value], list[tuple[ir.Value, list[ir.Value]]]]:
    """Return the sums so far, and where rows of panels go; ask for those lines."""
    vector, begun, targets = ir.VectorType(FLOATS[tile.dtype], tile.lanes), [], []
    for r in range(tile.rows):
        for (sums, start, _, places, starts), vectors in zip(panels, tile.panels, strict=True):
            vector_places = places_of(tile, vectors, last)
            first = place(b, start, load(b, starts, r))
            begun += [load(b, first, here, vector) for here in vector_places]
            targets.append((place(b, sums, load(b, places, r)), vector_places))
    for target, (*_, end) in () if tile.past else targets:
        for element in (number(0), b.add(end, number(tile.lanes - 1))):
            prefetch(b, place(b, target, element), write=True)
    return begun, targets


def places_of(tile: Tile, vectors: int, last: ir.Value) -> list[ir.Value]:
    """Return where vectors of a panel lie in it: side by side, but the last one of several."""
    moved = vectors > 1 and (not tile.joined or vectors == tile.vectors)
    beside: list[ir.Value] = [number(v * tile.lanes) for v in range(vectors)]
    return [*beside[:-1], last] if moved else beside


def _ask(b: ir.IRBuilder, tile: Tile, asked: _Asked, turn: Turn) -> None:
    """Ask for the lines that the steps of a turn shall, or for one line."""
    done = b.add(asked.before, turn.index)
    if asked.spread:
        prefetch(b, place(b, asked.soon, b.mul(done, asked.share)))
        return
    columns = tile.panels[0] * tile.lanes
    line = place(b, asked.soon, b.mul(done, number(columns)))
    item = 2 if STORED[tile.dtype] != FLOATS[tile.dtype] else BYTES[tile.dtype]
    for element in range(0, tile.unroll * columns, LINE // item):
        prefetch(b, place(b, line, element), near=2)


def _multiply_loop(  # noqa: PLR0913 - what a loop reads
    b: ir.IRBuilder,
    tile: Tile,
    points: list[ir.Value],
    begun: list[ir.Value],
    ends: tuple[ir.Value, ir.Value],
    asked: _Asked | None,
) -> list[ir.Value]:
    """Multiply several steps a turn, from one to another, and ask for weights if they shall."""
    first, end = ends
    with counted(b, end, begun, first=first, step=tile.unroll) as main:
        if asked is not None:
            _ask(b, tile, asked, main)
        _multiply_steps(b, tile, points, main, tile.unroll)
    return list(main.carried)


def _multiply_far(  # noqa: PLR0913 - what a loop reads
    b: ir.IRBuilder,
    tile: Tile,
    points: list[ir.Value],
    begun: list[ir.Value],
    numbers: tuple[ir.Value, ir.Value, ir.Value],
    asked: _Asked | None,
) -> list[ir.Value]:
    """Multiply whole cache lines of every row, asking for those of the next tile.

    The numbers are from where to where, and how far ahead the next tile's data lies.
    """
    first, end, ahead = numbers
    line = LINE // BYTES[tile.dtype]
    with counted(b, end, begun, first=first, step=line) as turn:
        here = b.add(turn.index, ahead)
        for point in points:
            prefetch(b, place(b, point, here), near=2)
        inner = turn.index, b.add(turn.index, number(line))
        turn.carried = _multiply_loop(b, tile, points, turn.carried, inner, asked)
    return list(turn.carried)


def _multiply_steps(
    b: ir.IRBuilder, tile: Tile, points: list[ir.Value], turn: Turn, steps: int
) -> None:
    """Add some elements of every row, and go on to the weights behind theirs."""
    count = len(tile.panels)
    for step in range(steps):
        turn.carried[count:] = multiply_step(b, tile, points, turn, step)
    for panel, vectors in enumerate(tile.panels):
        turn.carried[panel] = place(b, turn.carried[panel], steps * vectors * tile.lanes)


def multiply_step(  # noqa: PLR0913 - what one step of the innermost loop reads
    b: ir.IRBuilder,
    tile: Tile,
    points: list[ir.Value],
    turn: Turn,
    step: int | None,
    of_line: int | None = None,
) -> list[ir.Value]:
    """Add one element of every row, times one line of vectors; without step, points are those."""
    lines, totals = turn.carried[: len(tile.panels)], turn.carried[len(tile.panels) :]
    vector = totals[0].type
    weights: list[ir.Value] = []
    for line, vectors in zip(lines, tile.panels, strict=True):
        start = (step or 0) * vectors * tile.lanes if of_line is None else of_line
        if line.type.pointee == vector.element:
            weights += [load(b, line, start + v * tile.lanes, vector) for v in range(vectors)]
        else:
            weights += widened_line(b, line, start, tile.dtype, (vectors, tile.lanes))
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
