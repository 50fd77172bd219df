"""Rows turned into vectors across them, and back, as machine code and as NumPy."""

from functools import cache

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
    for count in range(1, 2 * lanes + 3):
        source = whole_numbers((lanes, times, count), dtype, count, most=1000)
        expected = np.full((times, count, lanes + 1), GUARD, dtype)
        computed = expected.copy()
        expected[..., :lanes] = source.transpose(1, 2, 0)
        steps = times * count, count, times, count * (lanes + 1), count
        made.call(name, computed, source, lanes + 1, *steps)

        np.testing.assert_array_equal(computed, expected, f"{count} elements a row")


@every_type
@pytest.mark.parametrize("times", [0, 1, 3])
def test_vectors_become_rows_again(dtype: str, times: int) -> None:
    """The other way round, rows with room between them that stays as it was."""
    made, _, name = code(dtype)
    lanes = host_machine().lanes(dtype)
    for count in range(1, 2 * lanes + 3):
        source = whole_numbers((times, count, lanes), dtype, count, most=1000)
        expected = np.full((lanes, times, count + 1), GUARD, dtype)
        computed = expected.copy()
        expected[..., :count] = source.transpose(2, 0, 1)
        steps = times * (count + 1), lanes, count, times, count + 1, count * lanes
        made.call(name, computed, source, *steps)

        np.testing.assert_array_equal(computed, expected, f"{count} elements a row")


def test_sizes_end_with_one() -> None:
    """So that every count is covered."""
    assert [sizes(n) for n in (1, 2, 8)] == [[1], [2, 1], [8, 4, 2, 1]]
