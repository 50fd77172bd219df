"""Rows packed and stored in either layout, as machine code and as NumPy."""

from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
import pytest

from codegen.meanings import Array, Code, pack_row_meaning, store_row_meaning
from strategies import whole_numbers
from tconv.codegen.rows import LONG_LINE, MANY_VECTORS, emit_pack_row, emit_store_row
from tconv.jit import host_machine
from tconv.problem import accumulator, numpy_dtype

DTYPES = ("float32", "float64", "float16", "bfloat16")
GUARD = 99

# How points and channels lie in memory: (x_step, c_step) for so many of each.
LAYOUTS: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "side by side": lambda _, depth: (depth, 1),
    "side by side, a group among others": lambda _, depth: (depth + 3, 1),
    "planes": lambda count, _: (1, count),
    "planes with borders": lambda count, _: (1, count + 2),
    "anything": lambda count, _: (3, 3 * count + 1),
    "channels far, points farther": lambda _, depth: (5 * depth + 2, 5),
    "points backwards": lambda _, depth: (-depth, 1),
    "points backwards in planes": lambda count, _: (-1, count),
    "channels backwards": lambda count, _: (1, -count),
    "channels backwards, side by side": lambda _, depth: (depth, -1),
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS)
every_type = pytest.mark.parametrize("dtype", DTYPES)


def around(lanes: int) -> tuple[int, ...]:
    """Return sizes on, before and behind whole vectors."""
    return (1, lanes - 1, lanes, lanes + 1, 2 * lanes, 2 * lanes + 1)


def lines(lanes: int) -> tuple[int, ...]:
    """Return such sizes, and those of smaller squares."""
    short = {size + more for size in (4, lanes // 2) for more in (0, 1)}
    return (*(size for size in sorted(short) if size < lanes - 1), *around(lanes))


@cache
def code(dtype: str) -> tuple[Code, str, str]:
    """Compile both functions at once."""
    made = Code()
    lanes = host_machine().lanes(dtype)
    packing = made.add(emit_pack_row(made.module, dtype, lanes))
    return made, packing, made.add(emit_store_row(made.module, dtype, lanes))


def room(count: int, depth: int, steps: tuple[int, int]) -> tuple[int, int]:
    """Return how many elements such an array spans, and where its first one lies."""
    ends = [(size - 1) * step for size, step in zip((count, depth), steps, strict=True)]
    first = -sum(min(end, 0) for end in ends)
    return first + sum(max(end, 0) for end in ends) + 1, first


@every_type
@every_layout
def test_a_packed_row_equals_its_meaning(dtype: str, layout: str) -> None:
    """Zeros, then points a pitch apart, then zeros; nothing between them and nothing behind."""
    made, name, _ = code(dtype)
    sizes = around(host_machine().lanes(dtype))
    places = [(0, 0, 0), (2, 0, 0), (1, 3, 0), (0, 0, 3), (1, 2, 5)]
    counts = *lines(host_machine().lanes(dtype)), LONG_LINE, LONG_LINE + 3
    for count, depth, (before, after, between) in product(counts, sizes, places):
        pitch = depth + between
        steps = LAYOUTS[layout](count, depth)
        span, start = room(count, depth, steps)
        source = whole_numbers((span,), dtype, count, most=1000)
        expected = np.full((before + count + after) * pitch + 20, GUARD, accumulator(dtype))
        computed = expected.copy()
        numbers = before, count, after, depth, pitch
        pack_row_meaning(expected, source, start, numbers, steps)
        made.call(name, computed, source[start:], *numbers, *steps)

        np.testing.assert_array_equal(computed, expected, f"{count} points, {depth} channels")


@every_type
@every_layout
def test_a_row_outside_the_picture_is_zeros(dtype: str, layout: str) -> None:
    """With no points to read, the source is not read either."""
    made, name, _ = code(dtype)
    depth = host_machine().lanes(dtype) + 1
    target = np.full(5 * (depth + 2) + 20, GUARD, accumulator(dtype))
    made.call(name, target, 0, 5, 0, 0, depth, depth + 2, *LAYOUTS[layout](4, depth))

    rows = target[:-20].reshape(5, depth + 2)
    assert not rows[:, :depth].any()
    assert (rows[:, depth:] == GUARD).all()
    assert (target[-20:] == GUARD).all()


def some_sums(count: int, pitch: int, columns: int, dtype: str) -> tuple[Array, Array]:
    """Return sums as tiles leave them, whole panels, and a bias for all columns."""
    kind = accumulator(dtype).name
    sums = whole_numbers((count * pitch + columns,), kind, count, most=1000)
    return sums, whole_numbers((columns,), kind, pitch, most=1000)


@every_type
@every_layout
def test_a_stored_row_equals_its_meaning(dtype: str, layout: str) -> None:
    """The used channels of every point with their bias, and no element more."""
    made, _, name = code(dtype)
    lanes = host_machine().lanes(dtype)
    columns = 2 * lanes
    counts = 0, *lines(lanes), MANY_VECTORS * lanes + 3
    for count, used, pitch in product(counts, around(lanes)[:-1], (columns, 50)):
        steps = LAYOUTS[layout](max(count, 1), used)
        span, start = room(max(count, 1), used, steps)
        span, start = span + 3, start + 3  # no cache line begins there
        sums, bias = some_sums(count, pitch, columns, dtype)
        expected = np.full(span + 20, GUARD, numpy_dtype(dtype))
        computed = expected.copy()
        store_row_meaning(expected, start, sums, bias, (count, used), (*steps, pitch))
        made.call(name, computed[start:], sums, bias, count, used, *steps, pitch)

        np.testing.assert_array_equal(computed, expected, f"{count} points, {used} channels")


@every_type
def test_taps_far_apart_are_stored_as_points(dtype: str) -> None:
    """A correlation's points are taps, whole tiles of sums apart, and its bias is zero."""
    made, _, name = code(dtype)
    lanes = host_machine().lanes(dtype)
    sums, bias = some_sums(9, 12 * lanes, 2 * lanes, dtype)
    bias[:] = 0
    expected = np.full(9 * 40, GUARD, numpy_dtype(dtype))
    computed = expected.copy()
    for steps in ((1, 9, 12 * lanes), (40, 1, 12 * lanes), (2, 20, 12 * lanes)):
        store_row_meaning(expected, 0, sums, bias, (9, lanes + 1), steps)
        made.call(name, computed, sums, bias, 9, lanes + 1, *steps)

        np.testing.assert_array_equal(computed, expected)


def test_the_comparison_can_fail() -> None:
    """A step that is one off is seen."""
    made, name, _ = code("float32")
    source = np.arange(400, dtype=np.float32)
    expected, computed = np.zeros((2, 100), np.float32)
    pack_row_meaning(expected, source, 0, (0, 9, 0, 9, 9), (1, 10))
    made.call(name, computed, source, 0, 9, 0, 9, 9, 1, 11)

    assert (expected != computed).sum() == 72
