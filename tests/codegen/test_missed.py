"""Taps that are left out: bits, sorted points and lists as machine code and as NumPy."""

from functools import cache

import numpy as np
import pytest

from codegen.meanings import Code
from strategies import whole_numbers
from tconv.codegen.missed import emit_list, emit_note, emit_sort
from tconv.codegen.tile import Tile, emit_tile
from tconv.jit import host_machine
from tconv.plan.missed import ENTRY, LISTED_ROWS

ROWS = (4, 6, 8)
LANES = host_machine().lanes("float32")


@cache
def code() -> tuple[Code, dict[str, str]]:
    """Compile all functions at once."""
    made = Code()
    names = {"note": made.add(emit_note(made.module)), "sort": made.add(emit_sort(made.module))}
    for rows in ROWS:
        names[f"list {rows}"] = made.add(emit_list(made.module, "float32", rows))
        tile = Tile(rows, 1, LANES, "float32", listed=True)
        names[f"tile {rows}"] = made.add(emit_tile(made.module, tile))
    return made, names


@pytest.mark.parametrize("words", [1, 3])
def test_bits_of_taps_that_are_met_are_kept(words: int) -> None:
    """Those whose points lie in the picture; without taps all are kept."""
    made, names = code()
    rng = np.random.default_rng(words)
    offsets, bits = [-3, 0, 4], rng.integers(-(2**62), 2**62, (3, words))
    taps = np.concatenate([[3], np.column_stack([offsets, bits]).ravel()]).astype(np.int64)
    start = rng.integers(-(2**62), 2**62, words)
    for coordinate in range(-5, 12):
        noted, unchanged = start.copy(), start.copy()
        made.call(names["note"], noted, taps, coordinate, 7, words)
        made.call(names["note"], unchanged, np.zeros(1, np.int64), coordinate, 7, words)
        met = [b for o, b in zip(offsets, bits, strict=True) if 0 <= coordinate + o < 7]
        expected = np.bitwise_or.reduce(met, axis=0) if met else np.zeros(words, np.int64)

        np.testing.assert_array_equal(noted, start & expected)
        np.testing.assert_array_equal(unchanged, start)


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("count", [0, 1, 2, 17])
def test_equal_bits_are_sorted_together(count: int, words: int) -> None:
    """Every number once; those of equal bits stand side by side, and their end is noted."""
    made, names = code()
    bits = np.random.default_rng(count).integers(0, 2, (count, words))
    order, ends = np.full(count + 1, -1), np.full(count + 1, -1)
    made.call(names["sort"], order, ends, bits, count, words)

    assert sorted(order[:count]) == list(range(count))
    assert (order[count], ends[count]) == (-1, -1)
    start = 0
    seen: set[tuple[int, ...]] = set()
    while start < count:
        kinds = {tuple(bits[place]) for place in order[start : ends[start]]}
        assert len(kinds) == 1
        assert not kinds & seen
        seen |= kinds
        start = int(ends[start])


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("apart", [0, 1])
@pytest.mark.parametrize(("segments", "part"), [(5, (0, 5)), (70, (0, 70)), (70, (60, 9))])
def test_a_tile_sums_the_segments_that_its_rows_meet(
    rows: int, apart: int, segments: int, part: tuple[int, int]
) -> None:
    """Those of a part, in one word of bits and in two; others add nothing."""
    made, names = code()
    rng = np.random.default_rng(rows)
    depth, points, words = 5, 11, -(-segments // 64)
    met = rng.random((points, segments)) < rng.choice([0.2, 0.9], segments)
    bits = np.zeros((words, points + LISTED_ROWS), np.int64)
    for point, segment in np.argwhere(met):
        bits[segment // 64, point] |= np.int64(np.uint64(1 << int(segment % 64)).astype(np.int64))
    data = whole_numbers((1000,), "float32", 1)
    places = np.sort(rng.choice(120, segments, replace=False)) * depth  # some follow one another
    table = rng.integers(0, 90, points + LISTED_ROWS)
    if not apart:  # zeros lie where the data is
        met[:] = met.any(axis=0)
        bits[:] = np.bitwise_or.reduce(bits[:, :points], axis=1)[:, None]
    zeros = np.zeros(2 * depth, np.float32)
    listed = np.full(1 + ENTRY * part[1] + 1, 77)
    first = points - rows
    numbers = words, bits.shape[1], *part, depth, depth, len(zeros), apart
    made.call(
        names[f"list {rows}"], listed, bits.ravel()[first:], table[first:], data, zeros, places,
        *numbers,
    )  # fmt: skip
    weights = whole_numbers((segments, depth, LANES), "float32", 2)
    sums = np.zeros((rows, LANES), np.float32)
    own = np.arange(rows) * LANES
    made.call(
        names[f"tile {rows}"], sums, sums.copy(), data, weights, own, own, table[first:],
        places, int(listed[0]), depth, weights, 0, LANES, listed[1:],
    )  # fmt: skip
    expected = np.zeros((rows, LANES), np.float32)
    for row in range(rows):
        for segment in range(part[0], sum(part)):
            if met[first + row, segment]:
                run = data[table[first + row] + places[segment] :][:depth]
                expected[row] += run @ weights[segment]

    np.testing.assert_array_equal(sums, expected)
    assert listed[-1] == 77
