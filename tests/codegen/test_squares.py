"""Rows turned into vectors across them, and back, as machine code and as NumPy."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from codegen.meanings import Code
from strategies import whole_numbers
from tconv.codegen.squares import emit_turn_in, emit_turn_out, sizes
from tconv.jit import host_machine

GUARD = 99
every_type = pytest.mark.parametrize("dtype", ["float32", "float64"])


@cache
def code(dtype: str) -> tuple[Code, str, str]:
    """Compile both functions at once."""
    made = Code()
    lanes = host_machine().lanes(dtype)
    turn_in = made.add(emit_turn_in(made.module, dtype, lanes))
    return made, turn_in, made.add(emit_turn_out(made.module, dtype, lanes))


@every_type
@pytest.mark.parametrize("times", [0, 1, 3])
def test_rows_become_vectors_across_them(dtype: str, times: int) -> None:
    """For any count, and nothing is read or written past the ends."""
    made, name, _ = code(dtype)
    lanes = host_machine().lanes(dtype)
    for count, rows in product(range(1, 2 * lanes + 3), (1, lanes - 1, lanes)):
        source = whole_numbers((rows, times, count), dtype, count, most=1000)
        expected = np.full((times, count, lanes + 1), GUARD, dtype)
        computed = expected.copy()
        expected[..., :rows] = source.transpose(1, 2, 0)
        expected[..., rows:lanes] = expected[..., rows - 1 : rows]  # the last one more often
        steps = times * count, count, times, count * (lanes + 1), count
        made.call(name, computed, source, rows, lanes + 1, *steps)

        np.testing.assert_array_equal(computed, expected, f"{count} elements a row")


@every_type
@pytest.mark.parametrize("times", [0, 1, 3])
def test_vectors_become_rows_again(dtype: str, times: int) -> None:
    """The other way round, rows with room between them that stays as it was."""
    made, _, name = code(dtype)
    lanes = host_machine().lanes(dtype)
    for count, rows in product(range(1, 2 * lanes + 3), (1, lanes - 1, lanes)):
        source = whole_numbers((times, count, lanes), dtype, count, most=1000)
        expected = np.full((rows, times, count + 1), GUARD, dtype)
        computed = expected.copy()
        expected[..., :count] = source[..., :rows].transpose(2, 0, 1)
        steps = times * (count + 1), lanes, count, times, count + 1, count * lanes
        made.call(name, computed, source, rows, *steps)

        np.testing.assert_array_equal(computed, expected, f"{count} elements a row")


def test_sizes_end_with_one() -> None:
    """So that every count is covered."""
    assert [sizes(n) for n in (1, 2, 8)] == [[1], [2, 1], [8, 4, 2, 1]]
