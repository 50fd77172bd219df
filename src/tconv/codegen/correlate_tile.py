"""The register tile of a correlation: both sides are data, and the depth runs along points."""

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv.codegen.build import (
    FLOATS,
    I64,
    Turn,
    counted,
    function,
    load,
    number,
    place,
    prefetch,
    store,
    zeros,
)
from tconv.codegen.tile import UNROLL, Tile, multiply_step

CORRELATE_VECTORS = 2  # of a point of a correlation's other side, however many a tile takes


def correlate_tile_meaning(  # noqa: PLR0913 - the emitted function's own arguments
    sums: npt.NDArray[np.floating],
    start: npt.NDArray[np.floating],
    data: npt.NDArray[np.floating],
    other: npt.NDArray[np.floating],
    rows: npt.NDArray[np.int64],
    segments: npt.NDArray[np.int64],
    other_segments: npt.NDArray[np.int64],
    depth: int,
    steps: tuple[int, int],
) -> None:
    """Compute in NumPy what the code from :func:`emit_correlate_tile` computes.

    ``sums[r, v] = start[r, v] + sum of data[segments[s] + rows[r] + k * steps[0]] *
    other[other_segments[s] + k * steps[1] + v]``
    """
    columns = sums.size // len(rows)
    points = np.arange(depth)
    left = data[segments[:, None, None] + rows[:, None] + points * steps[0]]
    right = other[(other_segments[:, None] + points * steps[1])[..., None] + np.arange(columns)]
    sums[...] = start + np.einsum("srk,skv->rv", left, right).reshape(sums.shape)


def emit_correlate_tile(module: ir.Module, tile: Tile, pitch: int = 0) -> ir.Function:
    """Emit ``tile(sums, start, data, other, rows, segments, other_segments, ...)``.

    Its meaning is :func:`correlate_tile_meaning`.  The numbers are: how many planes of segments
    there are, how far apart they lie in the tables, how many segments each has, and how many
    points those; for how many tiles, one after another, that is done, whose rows follow each
    other in the table; how far apart their sums lie, and where those start.

    Both sides are data here: the depth runs along points, and the vectors along the other side's
    channels, whose points lie two vectors apart.  With a ``pitch`` the rows lie side by side
    from where the first is, and points so far apart: one stream that needs one address.  Without
    one the next number tells how far apart points lie.  The last two are memory that will be
    read soon, and how much further every turn asks for it.  A tile ``across`` has groups in the
    lanes of both sides: a row's points lie one vector apart.

    Sums wait four cycles for the point before: of one vector, every other point has its own.
    """
    scalar = FLOATS[tile.dtype]
    vector = ir.VectorType(scalar, tile.lanes)
    pointer, table = scalar.as_pointer(), I64.as_pointer()
    made, b = function(
        module,
        f"correlate_{tile.name}_{pitch}",
        [*[pointer] * 4, *[table] * 3, *[I64] * 8, ir.IntType(8).as_pointer(), I64],
    )
    _, _, data, other, _, segments, other_segments, planes, plane_step, count, depth, *_ = made.args
    for argument in made.args[2:7]:  # sums may go back where they started
        argument.add_attribute("noalias")
    tiles, sums_step, start_step, row_step, soon, soon_step = made.args[11:]
    quarter = b.sdiv(soon_step, number(UNROLL))  # of a line, for each point that is no turn
    held = tile.rows * tile.vectors
    # More rows than these, each with its own address, would be too many pointers.
    twice = tile.vectors == 1 and not tile.across and (pitch > 0 or tile.rows <= UNROLL)
    with counted(b, tiles, [made.args[0], made.args[1], made.args[4], soon]) as turn:
        sums, start, rows, ahead = turn.carried
        offsets = [load(b, rows, r) for r in range(1 if pitch else tile.rows)]
        begun = [load(b, start, k * tile.lanes, vector) for k in range(tile.rows * tile.vectors)]
        begun += [zeros(vector)] * (twice * held)
        with counted(b, planes, [ahead, *begun]) as plane:
            first = b.mul(plane.index, plane_step)
            with counted(b, count, plane.carried) as segment:
                entry = b.add(first, segment.index)
                origin = place(b, data, load(b, segments, entry))
                line = place(b, other, load(b, other_segments, entry))
                if pitch or tile.across:
                    numbers = depth, offsets, soon_step
                    totals = _run_evenly(b, tile, pitch, (origin, line), segment.carried, numbers)
                else:
                    steps = depth, offsets, row_step, quarter
                    totals = _run_freely(b, tile, (origin, line), segment.carried, steps)
                segment.carried = totals
            plane.carried = segment.carried
        ahead, *totals = plane.carried
        for k, total in enumerate(totals[:held]):
            both = b.fadd(total, totals[held + k]) if twice else total
            store(b, both, sums, k * tile.lanes)
        ends = place(b, sums, sums_step), place(b, start, start_step), place(b, rows, tile.rows)
        turn.carried = [*ends, ahead]
    b.ret_void()
    return made


def _run_evenly(  # noqa: PLR0913 - which points of what
    b: ir.IRBuilder,
    tile: Tile,
    pitch: int,
    ends: tuple[ir.Value, ir.Value],
    begun: list[ir.Value],
    numbers: tuple[ir.Value, list[ir.Value], ir.Value],
) -> list[ir.Value]:
    """Multiply points that lie a pitch apart, or vectors of groups one after another."""
    depth, offsets, soon_step = numbers
    origin, line = ends
    points = [place(b, origin, offset) for offset in offsets]
    step, held = CORRELATE_VECTORS * tile.lanes, tile.rows * tile.vectors
    sets = (len(begun) - 1) // held
    whole = b.and_(depth, number(-tile.unroll))

    def multiply(turn: Turn, totals: list[ir.Value], unrolled: int) -> list[ir.Value]:
        point = Turn(turn.index, [turn.carried[0], *totals], turn.following)
        if not pitch:
            return multiply_step(b, tile, points, point, unrolled, of_line=unrolled * step)
        at = place(b, points[0], b.mul(point.index, number(pitch)))
        each = [place(b, at, unrolled * pitch + r) for r in range(tile.rows)]
        return multiply_step(b, tile, each, point, None, of_line=unrolled * step)

    with counted(b, whole, [begun[0], line, *begun[1:]], step=tile.unroll) as main:
        ahead, line, *totals = main.carried
        prefetch(b, ahead, near=2)
        turn = Turn(main.index, [line], main.following)
        for unrolled in range(tile.unroll):
            first = unrolled % sets * held
            totals[first : first + held] = multiply(turn, totals[first : first + held], unrolled)
        ahead = place(b, ahead, soon_step)
        main.carried = [ahead, place(b, line, tile.unroll * step), *totals]
    ahead, *each = main.carried
    with counted(b, depth, each, first=whole) as rest:
        totals = multiply(rest, rest.carried[1 : 1 + held], 0)
        line = place(b, rest.carried[0], step)
        rest.carried = [line, *totals, *rest.carried[1 + held :]]
    return [ahead, *rest.carried[1:]]


def _run_freely(
    b: ir.IRBuilder,
    tile: Tile,
    ends: tuple[ir.Value, ir.Value],
    begun: list[ir.Value],
    numbers: tuple[ir.Value, list[ir.Value], ir.Value, ir.Value],
) -> list[ir.Value]:
    """Multiply points that lie any step apart: unrolled, every row of each would be a pointer."""
    depth, offsets, row_step, soon_step = numbers
    held = tile.rows * tile.vectors
    sets = (len(begun) - 1) // held

    def multiply(ends: list[ir.Value], totals: list[ir.Value]) -> list[ir.Value]:
        """Return where the next point lies on both sides, and the sums."""
        at, line = ends
        elements = [place(b, at, offset) for offset in offsets]
        totals = multiply_step(
            b, tile, elements, Turn(depth, [line, *totals], depth), None, of_line=0
        )
        return [place(b, at, row_step), place(b, line, CORRELATE_VECTORS * tile.lanes), *totals]

    whole = b.and_(depth, number(-sets))
    with counted(b, whole, [*begun[:1], *ends, *begun[1:]], step=sets) as point:
        ahead, at, line, *totals = point.carried
        prefetch(b, ahead, near=2)
        for first in range(0, len(totals), held):
            at, line, *some = multiply([at, line], totals[first : first + held])
            totals[first : first + held] = some
        ahead = place(b, ahead, b.mul(soon_step, number(sets)))
        point.carried = [ahead, at, line, *totals]
    ahead, *state = point.carried
    if sets > 1:
        with b.if_else(b.icmp_signed("<", whole, depth)) as (last, none):
            with last:
                after = multiply(state[:2], state[2 : 2 + held])[2:]
                end = b.block
            with none:
                other = b.block
        for k, total in enumerate(after):
            merged = b.phi(total.type)
            merged.add_incoming(total, end)
            merged.add_incoming(state[2 + k], other)
            state[2 + k] = merged
    return [ahead, *state[2:]]
