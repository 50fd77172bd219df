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
    """Return how many rows the tiles for some rows have: large ones, then one for the rest.

    >>> [whole_tiles(rows, 6) for rows in (1, 4, 5, 6, 7, 11)]
    [4, 4, 6, 6, 10, 12]
    """
    whole, rest = divmod(rows, tile_rows)
    small = 0 < rest <= SMALL_TILE
    return (whole + (rest > 0 and not small)) * tile_rows + small * SMALL_TILE
