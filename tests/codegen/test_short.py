"""Tiles of gathers that read few channels, as machine code and as NumPy; and all that runs them."""

from functools import cache
from itertools import product

import numpy as np
import pytest

import strategies
from codegen.meanings import Array, Code, paired
from tconv import reference
from tconv.codegen.short import UNROLL, emit_short_line, emit_short_tile, short_tile_meaning
from tconv.codegen.short_runs import LONG, PART
from tconv.codegen.tile import Tile
from tconv.jit import host_machine
from tconv.plan.gather import FIELDS, plan_gather
from tconv.plan.gather_blocks import FEW_CHANNELS, SOME_CHANNELS, SOME_STEPS
from tconv.plan.machine import AVX2
from tconv.problem import (
    DTYPES,
    Axis,
    Layout,
    Operand,
    Problem,
    accumulator,
    numpy_dtype,
)
from tconv.runtime.kernels import machine
from tconv.runtime.panels import GatherRunner

JOINED = [Tile(4, 3, host_machine().lanes(dtype), dtype, joined=True) for dtype in DTYPES]
GUARD = 64  # elements around what a tile may write
TILES = [
    Tile(rows, vectors, host_machine().lanes(dtype), dtype)
    for dtype, rows, vectors in product(DTYPES, (4, 6), (1, 2))
]


@cache
def code() -> tuple[Code, dict[Tile, str]]:
    """Compile all tiles at once."""
    made = Code()
    return made, {tile: made.add(emit_short_tile(made.module, tile)) for tile in TILES + JOINED}


@cache
def line_code() -> tuple[Code, dict[Tile, str]]:
    """Compile all tiles along lines at once."""
    made = Code()
    return made, {tile: made.add(emit_short_line(made.module, tile)) for tile in TILES}


def whole_numbers(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Return small whole numbers."""
    return strategies.whole_numbers(shape, dtype, seed)


def places(count: int, most: int, seed: int) -> Array:
    """Return places to read from, in any order and not all different."""
    return np.random.default_rng(seed).integers(0, most, count)


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
@pytest.mark.parametrize("steps", [0, 1, UNROLL, UNROLL + 1, 27])
def test_a_tile_equals_its_meaning(tile: Tile, steps: int) -> None:
    """Any offsets and panels; the steps fall on, before and behind the unrolling."""
    made, names = code()
    for panels in (0, 1, 3):
        pitch = panels * tile.columns + 3
        sums = accumulator(tile.dtype).name
        data = whole_numbers((200,), sums, steps)
        weights = whole_numbers((panels, steps, tile.columns), tile.dtype, panels)
        bias = whole_numbers((panels * tile.columns + 1,), sums, 4)
        rows, offsets = places(tile.rows, 90, 1), places(steps + 1, 90, 2)
        targets = GUARD + np.random.default_rng(3).permutation(tile.rows) * pitch
        expected = np.full(2 * GUARD + tile.rows * pitch, 99, sums)
        computed = expected.astype(numpy_dtype(tile.dtype))
        wide = weights.astype(sums)
        apart = tile.columns, tile.columns, 0
        short_tile_meaning(expected, bias, data, wide, targets, rows, offsets[:steps], apart)
        # Behind a tile's places stand those of the next one.
        tables = np.concatenate([targets, targets]), rows, offsets
        numbers = steps, panels, steps * tile.columns, *apart, tile.lanes
        made.call(names[tile], computed, bias, data, paired(weights, tile.lanes), *tables, *numbers)

        np.testing.assert_array_equal(computed.astype(sums), expected, f"{panels} panels")


@pytest.mark.parametrize("tile", JOINED, ids=lambda tile: tile.name)
@pytest.mark.parametrize("steps", [0, 1, UNROLL, UNROLL + 1, 27])
def test_a_joined_tile_takes_the_panel_behind_with_it(tile: Tile, steps: int) -> None:
    """One vector more, from weights of its own; it may sum channels again that others have."""
    made, names = code()
    for again in (0, 3):
        columns = tile.columns - again
        sums = accumulator(tile.dtype).name
        data = whole_numbers((200,), sums, steps)
        weights = whole_numbers((1, steps, columns), tile.dtype, 1)
        bias = whole_numbers((columns,), sums, 2)
        rows, offsets = places(tile.rows, 90, 3), places(steps + 1, 90, 4)
        targets = GUARD + np.arange(tile.rows) * (columns + 2)
        expected = np.full(2 * GUARD + tile.rows * (columns + 2), 99, sums)
        computed = expected.astype(numpy_dtype(tile.dtype))
        wide = weights.astype(sums)
        short_tile_meaning(expected, bias, data, wide, targets, rows, offsets[:steps], (0, 0, 0))
        tables = np.concatenate([targets, targets]), rows, offsets
        panels = (
            paired(np.ascontiguousarray(weights[..., : 2 * tile.lanes]), tile.lanes),
            np.ascontiguousarray(weights[..., -tile.lanes :]),
        )
        numbers = steps, 1, 0, 0, 0, 0, columns - tile.lanes
        made.call(names[tile], computed, bias, data, panels[0], *tables, *numbers, panels[1])

        np.testing.assert_array_equal(computed.astype(sums), expected, f"{again} channels again")


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
@pytest.mark.parametrize(("more", "soon"), [(0, 0), (1, 0), (3, 90), (4, 0), (6, 0), (11, 144)])
def test_tiles_along_a_line_equal_their_meaning(tile: Tile, more: int, soon: int) -> None:
    """As many points as a tile has and more, whole tiles or not, at steps of their own."""
    made, names = line_code()
    length, panels, steps, apart = tile.rows + more, 2, 5, 3
    pitch = panels * tile.columns + 2
    sums = accumulator(tile.dtype).name
    data = whole_numbers((100 + length * apart,), sums, 1)
    weights = whole_numbers((panels, steps, tile.columns), tile.dtype, 2)
    bias = whole_numbers((panels * tile.columns,), sums, 3)
    offsets = places(steps, 90, 4)
    targets = GUARD + np.arange(length) * pitch
    expected = np.full(2 * GUARD + length * pitch, 99, sums)
    computed = expected.astype(numpy_dtype(tile.dtype))
    between = tile.columns, tile.columns, 0
    rows, wide = np.arange(length) * apart, weights.astype(sums)
    short_tile_meaning(expected, bias, data, wide, targets, rows, offsets, between)
    numbers = length, apart, pitch, steps, panels, steps * tile.columns, *between, tile.lanes, soon
    packed = paired(weights, tile.lanes)
    made.call(names[tile], computed[GUARD:], bias, data, packed, offsets, *numbers)

    np.testing.assert_array_equal(computed.astype(sums), expected)


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
def test_panels_of_groups_reach_into_those_behind(tile: Tile) -> None:
    """Panels with data and places of their own are written in order, so the later ones stay."""
    made, names = code()
    panels, steps, apart = 5, 7, (tile.columns - 3, tile.columns + 1, 6)
    pitch = panels * tile.columns
    sums = accumulator(tile.dtype).name
    data = whole_numbers((250,), sums, 1)
    weights = whole_numbers((panels, steps, tile.columns), tile.dtype, 2)
    bias = whole_numbers((panels * (tile.columns + 1),), sums, 3)
    rows, offsets = places(tile.rows, 90, 4), places(steps, 90, 5)
    targets = GUARD + np.arange(tile.rows) * pitch
    expected = np.full(2 * GUARD + tile.rows * pitch, 99, sums)
    computed = expected.astype(numpy_dtype(tile.dtype))
    short_tile_meaning(expected, bias, data, weights.astype(sums), targets, rows, offsets, apart)
    tables = np.concatenate([targets, targets]), rows, offsets
    numbers = steps, panels, steps * tile.columns, *apart, tile.lanes
    made.call(names[tile], computed, bias, data, paired(weights, tile.lanes), *tables, *numbers)

    np.testing.assert_array_equal(computed.astype(sums), expected)


LANES = host_machine().lanes("float32")
LINES = LONG - 1, LONG, LONG + 5, 2 * PART - 1, 2 * PART + 2  # points that borders are taken from
WRITTEN = sorted({
    LANES - 1, LANES, LANES + 1, 2 * LANES - 1, 2 * LANES, 2 * LANES + 1, 3 * LANES - 1, 3 * LANES,
    3 * LANES + 1, 4 * LANES, 100,
})  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("wanted", [Operand.COARSE, Operand.FINE])
@pytest.mark.parametrize("read", [1, 3, FEW_CHANNELS, FEW_CHANNELS + 1, SOME_CHANNELS])
def test_layers_that_read_few_channels_are_right(
    read: int, wanted: Operand, written: int, dtype: str
) -> None:
    """Panels of whole vectors and others, points that fill tiles and do not, a bias."""
    sizes = (1, 5), (3, 13), (5, 7), (SOME_STEPS // 2, 6), *((3, size) for size in LINES)
    for taps, size in sizes:
        axes = tuple(Axis(2 * n, n, k, 2, 1, k // 2) for n, k in ((3, min(taps, 5)), (size, taps)))
        coarse, fine = (written, read) if wanted is Operand.COARSE else (read, written)
        layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
        problem = Problem(wanted, 2, 1, coarse, fine, axes, dtype, *layouts, bias=True)
        operands = [
            whole_numbers(problem.shape(operand), dtype, seed)
            for seed, operand in enumerate(problem.given)
        ]
        bias = whole_numbers((written,), dtype, 3)
        runner = GatherRunner(problem, plan_gather(problem, machine()))
        out = np.full(problem.shape(wanted), 99, numpy_dtype(dtype))
        runner.run(operands[0], runner.pack(operands[1]), bias, out)

        expected = reference.answer(problem, *operands) + bias.astype("float64")
        exact = expected.astype(out.dtype).astype("float64")
        np.testing.assert_array_equal(out.astype("float64"), exact)


@pytest.mark.parametrize("wanted", [Operand.COARSE, Operand.FINE])
@pytest.mark.parametrize(
    "written", [1, 3, LANES - 1, LANES, LANES + 1, 2 * LANES - 1, 2 * LANES, 2 * LANES + 1]
)
def test_groups_that_lie_side_by_side_take_turns(written: int, wanted: Operand) -> None:
    """Read in place and packed at borders, in vectors that reach into other groups or do not."""
    for groups, read, pad in product((2, 3, 17), (1, 5), (0, 1)):
        axes = tuple(Axis(n + 2 - 2 * pad, n, 3, 1, 1, pad) for n in (4, LONG + 7))
        coarse, fine = (written, read) if wanted is Operand.COARSE else (read, written)
        layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
        problem = Problem(wanted, 2, groups, coarse, fine, axes, "float32", *layouts, bias=True)
        operands = [
            whole_numbers(problem.shape(operand), "float32", seed)
            for seed, operand in enumerate(problem.given)
        ]
        bias = whole_numbers((groups * written,), "float32", 3)
        runner = GatherRunner(problem, plan_gather(problem, machine()))
        out = np.full(problem.shape(wanted), 99, "float32")
        runner.run(operands[0], runner.pack(operands[1]), bias, out)

        np.testing.assert_array_equal(out, reference.answer(problem, *operands) + bias)


@pytest.mark.parametrize(
    ("read", "written", "taps", "together"),
    [
        (FEW_CHANNELS, 4096, 5, True),  # whatever the weights are
        (FEW_CHANNELS, 16, 6, False),  # more elements than can be listed
        (32, 64, 2, True),
        (32, 80, 2, False),  # weights that would drive data out of the first cache
        (SOME_CHANNELS, 64, 1, True),
        (SOME_CHANNELS + 1, 16, 1, False),  # of so many channels the next points are asked for
    ],
)
def test_small_panels_of_a_point_go_together(
    read: int, written: int, taps: int, *, together: bool
) -> None:
    """Where data and weights of a tile stay in the first cache."""
    axes = (Axis(20, 20 - taps + 1, taps, 1, 1, 0),) * 2
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    problem = Problem(Operand.COARSE, 1, 1, written, read, axes, "float32", *layouts)
    assert plan_gather(problem, AVX2).record[FIELDS["together"]] == together


@pytest.mark.parametrize(("written", "together"), [(16, True), (80, False)])
def test_many_short_runs_are_listed(written: int, *, together: bool) -> None:
    """Runs of few channels that taps apart make, while their weights stay near."""
    axes = (Axis(30, 20, 6, 1, 2, 0),) * 2
    layouts = Layout("n x gc"), Layout("n x gf"), Layout("gc f x")
    problem = Problem(Operand.COARSE, 1, 1, written, FEW_CHANNELS, axes, "float32", *layouts)
    recipe = plan_gather(problem, AVX2)
    assert recipe.record[FIELDS["together"]] == together
    operands = [
        whole_numbers(problem.shape(operand), "float32", seed)
        for seed, operand in enumerate(problem.given)
    ]
    runner = GatherRunner(problem, plan_gather(problem, machine()))
    out = np.full(problem.shape(problem.wanted), 99, "float32")
    runner.run(operands[0], runner.pack(operands[1]), None, out)
    np.testing.assert_array_equal(out, reference.answer(problem, *operands))
