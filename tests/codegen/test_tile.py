"""Register tiles as machine code and as NumPy: equal to the last bit on whole numbers."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

import strategies
from codegen.meanings import Array, Code, paired
from tconv.codegen.correlate_tile import (
    CORRELATE_VECTORS,
    correlate_tile_meaning,
    emit_correlate_tile,
)
from tconv.codegen.tile import UNROLL, Tile, emit_tile, tile_meaning
from tconv.jit import host_machine
from tconv.problem import accumulator, numpy_dtype

DTYPES = ("float32", "float64", "float16", "bfloat16")
ROWS, VECTORS = (1, 2, 4, 6), (1, 2)
DEPTHS = (0, 1, UNROLL - 1, UNROLL, UNROLL + 1, 2 * UNROLL, 2 * UNROLL + 1)
SEGMENTS = (0, 1, 3)
PITCHES = (0, ROWS[-1])  # rows in planes, or side by side
GUARD = 64  # elements around what a tile may write
NOTHING_SOON = (np.zeros(1), 0)  # what a tile may ask for


def behind(tile: Tile) -> tuple[Array, int, int]:
    """Return the last arguments of a tile: nothing to ask for, vectors side by side."""
    return *NOTHING_SOON, tile.lanes


def tiles(dtype: str) -> list[Tile]:
    """Return the tiles of one type, as wide as this machine's vectors."""
    lanes = host_machine().lanes(dtype)
    return [Tile(rows, vectors, lanes, dtype) for rows, vectors in product(ROWS, VECTORS)]


TILES = [tile for dtype in DTYPES for tile in tiles(dtype)]
FAR = [replace(tile, far=True) for tile in TILES if tile.rows == max(ROWS)]
ACROSS = [replace(tile, across=True) for tile in TILES]
every_tile = pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
every_size = pytest.mark.parametrize("depth", DEPTHS)


@cache
def code() -> tuple[Code, dict[Tile, str], dict[tuple[Tile, int], str]]:
    """Compile all tiles at once."""
    made = Code()
    gathers = {tile: made.add(emit_tile(made.module, tile)) for tile in (*TILES, *FAR)}
    correlates = {
        (tile, pitch): made.add(emit_correlate_tile(made.module, tile, pitch))
        for tile, pitch in [*product(TILES, PITCHES), *product(ACROSS, (0,))]
    }
    return made, gathers, correlates


def sums_type(tile: Tile) -> str:
    """Return what data and sums are kept in; weights are as they are stored."""
    return accumulator(tile.dtype).name


def whole_numbers(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Return small whole numbers."""
    return strategies.whole_numbers(shape, dtype, seed)


def offsets(count: int, most: int, seed: int) -> Array:
    """Return places to read from, in any order and not all different."""
    return np.random.default_rng(seed).integers(0, most, count)


@every_tile
@every_size
def test_a_tile_equals_its_meaning(tile: Tile, depth: int) -> None:
    """Any rows, segments and places; the depth falls on, before and behind the unrolling."""
    made, names, _ = code()
    for segments in SEGMENTS:
        if segments * depth == 0:
            continue  # see below
        data = whole_numbers((200,), sums_type(tile), depth)
        weights = whole_numbers((segments, depth, tile.columns), tile.dtype, segments)
        rows, starts = offsets(tile.rows, 90, 1), offsets(segments, 90, 2)
        order = np.random.default_rng(3).permutation(tile.rows)
        places = GUARD + order * (tile.columns + 3)
        expected = np.full(2 * GUARD + tile.rows * (tile.columns + 3), 99, sums_type(tile))
        computed = expected.copy()
        begun = whole_numbers((90 + tile.columns,), sums_type(tile), 5)
        begins = offsets(tile.rows, 90, 6)
        tile_meaning(expected, begun, data, weights, places, begins, rows, starts, depth)
        tables = places, begins, rows, starts
        panel = paired(weights, tile.lanes)
        made.call(
            names[tile], computed, begun, data, panel, *tables, segments, depth, *behind(tile)
        )

        np.testing.assert_array_equal(computed, expected, f"{segments} segments")


@pytest.mark.parametrize("tile", [tile for tile in TILES if tile.vectors > 1], ids=str)
def test_the_last_vector_may_lie_among_those_before(tile: Tile) -> None:
    """It sums some of the same channels, and begins with what was there for them."""
    made, names, _ = code()
    depth = UNROLL + 1
    for last in (1, tile.lanes - 1):
        width = last + tile.lanes
        columns = np.concatenate([np.arange(tile.lanes), last + np.arange(tile.lanes)])
        data = whole_numbers((200,), sums_type(tile), 1)
        weights = whole_numbers((2, depth, width), tile.dtype, 2)
        rows, starts = offsets(tile.rows, 90, 3), offsets(2, 90, 4)
        places = GUARD + np.arange(tile.rows) * (width + 3)
        expected = whole_numbers((2 * GUARD + tile.rows * (width + 3),), sums_type(tile), 5)
        computed = expected.copy()
        begun = expected.copy()
        tile_meaning(expected, begun, data, weights, places, places, rows, starts, depth)
        panel = paired(np.ascontiguousarray(weights[..., columns]), tile.lanes)
        numbers = 2, depth, *NOTHING_SOON, last
        tables = places, places, rows, starts
        made.call(names[tile], computed, computed, data, panel, *tables, *numbers)

        np.testing.assert_array_equal(computed, expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("rows", [4, 6, 8])
@pytest.mark.parametrize("vectors", VECTORS)
def test_a_tile_that_rounds_writes_what_arrays_hold(dtype: str, rows: int, vectors: int) -> None:
    """Once, at the end, to nearest; what rounds to zero keeps its sign, a sum of -0 does not."""
    tile = Tile(rows, vectors, host_machine().lanes(dtype), dtype, rounds=True)
    made, depth = Code(), UNROLL + 1
    name = made.add(emit_tile(made.module, tile))
    numbers = np.random.default_rng(rows)
    data = numbers.standard_normal(200).astype(np.float32)
    weights = numbers.standard_normal((2, depth, tile.columns)).astype(numpy_dtype(dtype))
    places = GUARD + np.arange(rows) * (tile.columns + 3)
    sums = np.full(2 * GUARD + rows * (tile.columns + 3), 99, np.float32)
    computed = sums.astype(numpy_dtype(dtype))
    tables = places, np.zeros(rows, np.int64), offsets(rows, 90, 1), offsets(2, 90, 2)
    start = np.zeros(tile.columns, np.float32)
    plain = replace(tile, rounds=False)
    other = Code()
    exact = other.add(emit_tile(other.module, plain))
    panel = paired(weights, tile.lanes)
    other.call(exact, sums, start, data, panel, *tables, 2, depth, *behind(tile))
    made.call(name, computed, start, data, panel, *tables, 2, depth, *behind(tile))

    np.testing.assert_array_equal(
        computed.view(np.uint16), sums.astype(computed.dtype).view(np.uint16)
    )
    start[:] = -0.0
    made.call(name, computed, start, data, panel, *tables, 0, depth, *behind(tile))
    written = computed[places[:, None] + np.arange(tile.columns)]
    np.testing.assert_array_equal(written.view(np.uint16), 0)


@pytest.mark.parametrize("dtype", DTYPES)
@every_size
def test_a_joined_tile_sums_two_panels(dtype: str, depth: int) -> None:
    """Each with weights and places of its own, the same as two tiles do."""
    lanes, rows, segments = host_machine().lanes(dtype), 3, 2
    joined = Code()
    tile = Tile(rows, 3, lanes, dtype, joined=True)
    name = joined.add(emit_tile(joined.module, tile))
    data = whole_numbers((200,), sums_type(tile), depth)
    tables = offsets(rows, 90, 1), offsets(segments, 90, 2)
    panels, arguments = [], []
    for vectors in (2, 1):
        columns = vectors * lanes
        weights = whole_numbers((segments, max(depth, 1), columns), dtype, vectors)[:, :depth]
        places = GUARD + np.random.default_rng(vectors).permutation(rows) * (columns + 3)
        expected = np.full(2 * GUARD + rows * (columns + 3), 99, sums_type(tile))
        begun = whole_numbers((90 + columns,), sums_type(tile), 5 + vectors)
        begins = offsets(rows, 90, 6 + vectors)
        computed = expected.copy()
        tile_meaning(expected, begun, data, weights, places, begins, *tables, depth)
        panels.append((computed, expected))
        arguments.append((computed, begun, paired(weights, lanes), places, begins))
    (sums, begun, panel, places, begins), more = arguments
    joined.call(
        name, sums, begun, data, panel, places, begins, *tables, segments, depth,
        *behind(tile), *more,
    )  # fmt: skip

    for computed, expected in panels:
        np.testing.assert_array_equal(computed, expected)


@every_size
@pytest.mark.parametrize("spread", [False, True])
def test_looking_ahead_changes_nothing(depth: int, *, spread: bool) -> None:
    """The sums are the same, with whatever steps memory is asked for."""
    tile = Tile(6, 2, host_machine().lanes("float32"), "float32")
    made, names, _ = code()
    ahead = Code()
    name = ahead.add(emit_tile(ahead.module, tile, spread=spread))
    data = whole_numbers((200,), "float32", depth)
    weights = whole_numbers((2, max(depth, 1), tile.columns), "float32", 1)
    places = np.arange(6) * tile.columns
    tables = [places, places, offsets(6, 90, 3), offsets(2, 90, 4)]
    sums = [np.zeros(6 * tile.columns, np.float32) for _ in range(2)]
    begun = whole_numbers((6 * tile.columns,), "float32", 2)
    made.call(names[tile], sums[0], begun, data, weights, *tables, 2, depth, *behind(tile))
    for share in (0, 1, 16):
        ahead.call(
            name, sums[1], begun, data, weights, *tables, 2, depth, weights, share, tile.lanes
        )

        np.testing.assert_array_equal(sums[1], sums[0])


@pytest.mark.parametrize("tile", FAR, ids=lambda tile: tile.name)
def test_a_far_tile_equals_its_meaning(tile: Tile) -> None:
    """It asks for more than it reads; whole lines of the depth, and what is left, are all of it."""
    made, names, _ = code()
    line = 64 // np.dtype(sums_type(tile)).itemsize
    for depth in (1, line - 1, line, line + 1, 2 * line, 2 * line + UNROLL + 1):
        data = whole_numbers((200,), sums_type(tile), depth)
        weights = whole_numbers((2, depth, tile.columns), tile.dtype, 2)
        rows, starts = offsets(tile.rows + 1, 90, 1), offsets(2, 90, 2)
        places = np.arange(tile.rows) * tile.columns
        expected = np.full(tile.rows * tile.columns, 99, sums_type(tile))
        computed = expected.copy()
        begun, begins = np.zeros(tile.columns, sums_type(tile)), np.zeros(tile.rows, np.int64)
        own = rows[: tile.rows]
        tile_meaning(expected, begun, data, weights, places, begins, own, starts, depth)
        tables = places, begins, rows, starts
        panel = paired(weights, tile.lanes)
        made.call(names[tile], computed, begun, data, panel, *tables, 2, depth, *behind(tile))

        np.testing.assert_array_equal(computed, expected, f"depth {depth}")


@every_tile
@pytest.mark.parametrize(("segments", "depth"), [(0, 0), (0, 5), (3, 0)])
def test_a_tile_of_nothing_is_what_it_began_with(tile: Tile, segments: int, depth: int) -> None:
    """An output that no tap meets is written all the same."""
    nothing = np.zeros(tile.columns, sums_type(tile))
    table = np.zeros(max(tile.rows, segments), np.int64)
    places = np.arange(tile.rows) * tile.columns
    sums = np.full(tile.rows * tile.columns + GUARD, 99, sums_type(tile))
    made, names, _ = code()
    tables = places, table, table, table
    made.call(names[tile], sums, nothing, nothing, nothing, *tables, segments, depth, *behind(tile))

    assert not sums[:-GUARD].any()
    assert (sums[-GUARD:] == 99).all()


@pytest.mark.parametrize(("segments", "depth"), [(0, 0), (0, 5), (3, 0)])
def test_the_meaning_of_nothing_is_zero_too(segments: int, depth: int) -> None:
    """What NumPy says must not leave old sums where the machine writes zeros."""
    sums, data = np.full(16, 99.0), np.zeros(8)
    places, rows, starts = np.array([0, 8]), np.zeros(2, np.int64), np.zeros(segments, np.int64)
    weights = np.zeros((segments, depth, 8))
    tile_meaning(sums, data, data, weights, places, rows, rows, starts, depth)

    assert not sums.any()


@every_tile
def test_sums_may_go_back_where_they_began(tile: Tile) -> None:
    """Long sums are made in parts: each part goes on with the one before."""
    made, names, _ = code()
    data = whole_numbers((100,), sums_type(tile), 1)
    weights = whole_numbers((1, 9, tile.columns), tile.dtype, 2)
    rows, places = offsets(tile.rows, 80, 3), np.arange(tile.rows) * tile.columns
    start = np.zeros(1, np.int64)
    expected = whole_numbers((tile.rows * tile.columns,), sums_type(tile), 4)
    computed = expected.copy()
    tile_meaning(expected, expected.copy(), data, weights, places, places, rows, start, 9)
    tables = places, places, rows, start
    panel = paired(weights, tile.lanes)
    made.call(names[tile], computed, computed, data, panel, *tables, 1, 9, *behind(tile))

    np.testing.assert_array_equal(computed, expected)


@every_tile
@every_size
@pytest.mark.parametrize("pitch", PITCHES)
def test_a_correlate_tile_equals_its_meaning(tile: Tile, depth: int, pitch: int) -> None:
    """It goes on from what is there or begins elsewhere; rows lie in planes, or side by side."""
    made, _, names = code()
    for segments, fresh, count, apart in product(SEGMENTS, (False, True), (0, 1, 3), (1, 3)):
        steps = pitch or apart, CORRELATE_VECTORS * tile.lanes
        data = whole_numbers((300,), sums_type(tile), depth)
        other = whole_numbers((90 + steps[1] * (DEPTHS[-1] + 1),), sums_type(tile), segments)
        rows = offsets(count * tile.rows, 90, 1).reshape(count, tile.rows)
        if pitch:
            rows = rows[:, :1] + np.arange(tile.rows)
        starts, others = offsets(segments, 90, 2), offsets(segments, 90, 3)
        shape = (count + 1, tile.rows, tile.columns)
        expected = whole_numbers(shape, sums_type(tile), segments)
        begun = whole_numbers(shape[1:], sums_type(tile), 4)
        before = expected.copy()
        for sums, table in zip(expected, rows, strict=False):
            start = begun if fresh else sums.copy()
            tables = table, starts, others
            correlate_tile_meaning(sums, start, data, other, *tables, depth, steps)
        size = tile.rows * tile.columns
        # As they are, or every other of so many planes.
        twice = [np.repeat(table, 2) for table in (starts, others)]
        for some, planes in (((starts, others), (1, 99, segments)), (twice, (segments, 2, 1))):
            numbers = *planes, depth, count, size, 0 if fresh else size, apart, 0, 64
            computed = before.copy()
            start = begun if fresh else computed
            made.call(names[tile, pitch], computed, start, data, other, rows, *some, *numbers)

            np.testing.assert_array_equal(computed, expected, f"{planes}, fresh {fresh}")


def test_the_comparison_can_fail() -> None:
    """One weight off by one, in the last turn behind the unrolled ones, is seen."""
    tile = tiles("float32")[-1]
    data = np.ones(100, np.float32)
    weights = np.ones((1, UNROLL + 1, tile.columns), np.float32)
    rows, places = np.arange(tile.rows), np.arange(tile.rows) * tile.columns
    expected = np.zeros(tile.rows * tile.columns, np.float32)
    computed = expected.copy()
    start = np.zeros(1, np.int64)
    begun = np.zeros(tile.columns, np.float32)
    begins = np.zeros(tile.rows, np.int64)
    tile_meaning(expected, begun, data, weights, places, begins, rows, start, UNROLL + 1)
    weights[0, -1, -1] += 1
    made, names, _ = code()
    tables = places, begins, rows, start
    made.call(names[tile], computed, begun, data, weights, *tables, 1, UNROLL + 1, *behind(tile))

    assert (computed != expected).sum() == tile.rows


@pytest.mark.parametrize("tile", ACROSS, ids=lambda tile: tile.name)
@every_size
def test_a_tile_across_groups_equals_that_of_each(tile: Tile, depth: int) -> None:
    """Both sides have groups in their lanes."""
    made, _, names = code()
    lanes, kind = tile.lanes, sums_type(tile)
    step = CORRELATE_VECTORS
    data = whole_numbers((120, lanes), kind, depth)
    other = whole_numbers((60 + step * DEPTHS[-1], lanes), kind, 1)
    rows, segments, others = offsets(tile.rows, 90, 1), offsets(3, 12, 2), offsets(3, 50, 3)
    expected = whole_numbers((tile.rows, tile.vectors, lanes), kind, 4)
    computed = expected.copy()
    for lane in range(lanes):
        sums = expected[..., lane].copy()
        tables = rows, segments, others
        sides = np.ascontiguousarray(data[:, lane]), np.ascontiguousarray(other[:, lane])
        correlate_tile_meaning(sums, sums.copy(), *sides, *tables, depth, (1, step))
        expected[..., lane] = sums
    tables = rows * lanes, segments * lanes, others * lanes
    numbers = 1, 99, 3, depth, 1, 0, 0, 0, 0, 64
    made.call(names[tile, 0], computed, computed, data, other, *tables, *numbers)

    np.testing.assert_array_equal(computed, expected)
