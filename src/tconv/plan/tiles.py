"""Register tiles: how many rows they have, and what is left at the end of some rows."""

from tconv.plan.machine import Machine
from tconv.problem import accumulator, numpy_dtype

SMALL_TILE = 4  # rows of the tile for what is left
VECTORS, MORE_VECTORS = 2, (4, 3)  # of a panel; of one that is full, if registers are many


def tile_rows(machine: Machine, vectors: int = VECTORS) -> int:
    """Return the rows of the register tile for panels of so many vectors.

    Twelve sums and three operands fill sixteen registers; with thirty-two, the addresses of
    the rows are what runs out first, unless rows are of four vectors.
    """
    return 8 if machine.registers >= 32 and vectors < MORE_VECTORS[0] else 6


def panel_vectors(machine: Machine, dtype: str, channels: int) -> int:
    """Return how many vectors the panels of so many channels have.

    More of them are fewer loads for each multiplication.  What is loaded is not what long vectors
    wait for, but a processor that shares its core with another has half of its instructions: a
    third of all that tiles of two vectors have.  Panels that are not full would waste more.
    """
    needed, plain = -(-channels // machine.lanes(dtype)), accumulator(dtype) == numpy_dtype(dtype)
    full = (vectors for vectors in MORE_VECTORS if needed % vectors == 0)
    return next(full, VECTORS) if machine.long and plain else VECTORS


def whole_tiles(rows: int, tile_rows: int) -> int:
    """Return how many rows the tiles for some rows have: large ones, and small ones for the rest.

    Two small ones may leave less empty than a large one and a small one do.

    >>> [whole_tiles(rows, 6) for rows in (1, 4, 5, 6, 7, 8, 9, 11, 14)]
    [4, 4, 6, 6, 8, 8, 10, 12, 14]
    """
    whole, rest = divmod(rows, tile_rows)
    if whole and 0 < rest <= 2 * SMALL_TILE - tile_rows:
        return (whole - 1) * tile_rows + 2 * SMALL_TILE
    small = 0 < rest <= SMALL_TILE
    return (whole + (rest > 0 and not small)) * tile_rows + small * SMALL_TILE
