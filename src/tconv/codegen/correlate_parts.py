"""Which part of the weights a work item of a correlation computes, and where its sums are kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.block import KernelShape, Record
from tconv.codegen.build import counted, number, place, smaller
from tconv.codegen.sides import is_swapped


@dataclass(frozen=True, slots=True)
class Part:
    """What of the weights a work item computes; each is a first number and a count."""

    group: ir.Value
    taps: tuple[ir.Value, ir.Value]
    rows: tuple[ir.Value, ir.Value]
    panels: tuple[ir.Value, ir.Value]
    row_entry: ir.Value  # of the first row in the table of rows
    tile_rows: ir.Value  # rows of all tiles: of the panel, or one for each tap as well
    tiles: ir.Value
    shifts: ir.Value
    sums: ir.Value


def find_part(
    b: ir.IRBuilder, r: Record, shape: KernelShape, index: ir.Value, sums: ir.Value
) -> Part:
    """Return what a work item computes, whose sums are kept where it is said."""
    found = []
    for name, whole in (("panel", r.panels), ("row", r.rows), ("tap", r.taps)):
        chunks, size = getattr(r, f"{name}_chunks"), getattr(r, f"chunk_{name}s")
        first = b.mul(b.srem(index, chunks), size)
        found.append((first, smaller(b, b.sub(whole, first), size)))
        index = b.sdiv(index, chunks)
    panels, rows, taps = found
    swapped = is_swapped(b, r)
    tile_rows = b.select(swapped, b.mul(taps[1], r.rows), rows[1])
    height = shape.rows[0]
    return Part(
        group=index,
        taps=taps,
        rows=rows,
        panels=panels,
        row_entry=b.select(swapped, b.mul(taps[0], r.rows), rows[0]),
        tile_rows=tile_rows,
        tiles=b.sdiv(b.add(tile_rows, number(height - 1)), number(height)),
        shifts=b.select(swapped, number(1), taps[1]),
        sums=sums,
    )


@dataclass(frozen=True, slots=True)
class Here:
    """Some panels and tiles of rows of a part, and where their sums are kept."""

    panel: ir.Value
    panels: ir.Value
    first: ir.Value  # tile
    tiles: ir.Value
    sums: ir.Value
    shift_step: ir.Value  # from one shift's sums to the next


@dataclass(frozen=True, slots=True)
class Panel:
    """One of these panels: its number among all, how wide its sums are, and where."""

    number: ir.Value
    wide: ir.Value
    width: ir.Value
    sums: ir.Value


@contextmanager
def sum_blocks(b: ir.IRBuilder, r: Record, shape: KernelShape, part: Part) -> Iterator[Here]:
    """Emit a loop over as many panels and rows as have sums that stay in the cache.

    Several panels make longer runs of weights to write.
    """
    blocks = b.sdiv(b.add(part.tiles, b.sub(r.block_tiles, number(1))), r.block_tiles)
    turns = b.add(part.panels[1], b.sub(r.block_panels, number(1)))
    turns = b.sdiv(turns, r.block_panels)
    with counted(b, turns) as turn, counted(b, blocks) as rows:
        panel = b.mul(turn.index, r.block_panels)
        first = b.mul(rows.index, r.block_tiles)
        place_of = b.add(b.mul(turn.index, blocks), rows.index)
        yield Here(
            panel=panel,
            panels=smaller(b, b.sub(part.panels[1], panel), r.block_panels),
            first=first,
            tiles=smaller(b, b.sub(part.tiles, first), r.block_tiles),
            sums=place(b, part.sums, b.mul(place_of, r.sums_step)),
            shift_step=b.mul(r.block_tiles, tile_size(shape)),
        )


def find_panel(  # noqa: PLR0913 - which panel of what
    b: ir.IRBuilder, r: Record, shape: KernelShape, part: Part, here: Here, index: ir.Value
) -> Panel:
    """Return one of the panels that are here."""
    panel = b.add(b.add(part.panels[0], here.panel), index)
    wide = b.icmp_signed("<", panel, r.wide_panels)
    return Panel(
        number=panel,
        wide=wide,
        width=b.select(wide, number(shape.columns), number(shape.lanes)),
        sums=place(b, here.sums, b.mul(index, r.panel_sums)),
    )


def tile_size(shape: KernelShape) -> ir.Value:
    """Return how many sums a large tile has."""
    return number(shape.rows[0] * shape.columns)
