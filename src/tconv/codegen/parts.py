"""The functions that a gather calls: register tiles of its kinds, and what moves rows."""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import KernelShape
from tconv.codegen.build import FLOATS, STORED
from tconv.codegen.missed import Missed, emit_missed
from tconv.codegen.rows import emit_pack_row, emit_store_row
from tconv.codegen.runs import panel_kinds, rows_of
from tconv.codegen.tile import Tile, emit_tile


@dataclass(frozen=True, slots=True)
class Kinds:
    """Which tiles a gather has beside those that all have."""

    few: bool = True  # for few channels
    past: bool = True  # for results that no cache should keep
    missed: bool = False  # such that leave out taps that points miss
    joined: bool = False  # for a wide panel and the narrow one behind it
    rounds: bool = True  # to results of 16 bits
    dots: int = 0  # no tiles but those for so many channels, whose weights are lines of the depth
    woven: tuple[int, int] | None = None  # channels of groups, read and written, that lanes share


@dataclass(frozen=True, slots=True)
class Parts:
    """The functions that a gather calls, by what they do."""

    tiles: dict[int, list[ir.Function]]  # by vectors
    far: list[ir.Function]  # the same for wide panels, where data is not in any cache
    past: tuple[list[ir.Function], ...]  # both again, for results that no cache should keep
    rounded: dict[int, list[ir.Function]]  # by vectors: to results that have another type
    joined: tuple[ir.Function, ...]  # near and far, of a wide panel and the narrow one behind it
    missed: Missed | None  # what leaves out segments that points miss
    woven: tuple[int, int] | None  # channels of groups, read and written, that lanes share
    pack_row: ir.Function
    store_row: ir.Function


def emit_parts(module: ir.Module, shape: KernelShape, kinds: Kinds) -> Parts:
    """Emit the functions that a gather calls."""
    missed = kinds.missed
    large, _ = shape.rows
    rows = emit_pack_row, emit_store_row
    moving = [emit(module, shape.dtype, shape.lanes) for emit in rows]
    if kinds.dots:
        return Parts({}, [], (), {}, (), None, None, *moving)
    whole = STORED[shape.dtype] == FLOATS[shape.dtype]
    emitted: dict[Tile, ir.Function] = {}

    def tile_of(rows: int, vectors: int, *, far: bool = False, **flags: bool) -> ir.Function:
        far = far and whole and kinds.woven is None  # those ask for no data; 16 bits are packed
        tile = Tile(
            rows, vectors, shape.lanes, shape.dtype,
            far=far, listed=missed, woven=kinds.woven, **flags,
        )  # fmt: skip
        if tile not in emitted:
            emitted[tile] = emit_tile(module, tile)
        return emitted[tile]

    def of_both(*, rounds: bool) -> dict[int, list[ir.Function]]:
        return {
            vectors: [tile_of(rows, vectors, rounds=rounds) for rows in rows_of(shape, vectors)]
            for vectors in panel_kinds(shape)
        }

    tiles = of_both(rounds=False)
    wide, small = shape.vectors, tiles[shape.vectors][1]
    every = (rows for vectors in (*tiles, wide + 1) for rows in rows_of(shape, vectors))
    two = rows_of(shape, wide + 1)[0]
    both, past = (False, True), kinds.past and whole
    return Parts(
        tiles,
        [tile_of(large, wide, far=True), small],
        tuple([tile_of(large, wide, far=far, past=True), small] for far in both if past),
        {} if whole or not kinds.rounds else of_both(rounds=True),
        tuple(tile_of(two, wide + 1, far=far, joined=True) for far in both if kinds.joined),
        emit_missed(module, shape.dtype, every) if missed else None,
        kinds.woven,
        *moving,
    )
