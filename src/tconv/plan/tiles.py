"""Register tiles: how many rows they have, and what is left at the end of some rows."""

from tconv.plan.machine import Machine

SMALL_TILE = 4  # rows of the tile for what is left


def tile_rows(machine: Machine) -> int:
    """Return the rows of the register tile.

    Twelve sums and three operands fill sixteen registers; with thirty-two, the addresses of
    the rows are what runs out first.
    """
    return 8 if machine.registers >= 32 else 6


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
