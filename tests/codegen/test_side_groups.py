"""Lines packed for correlations with groups in the lanes, as machine code and as NumPy."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from codegen.meanings import Code
from strategies import whole_numbers
from tconv.codegen.side_groups import emit_pack_groups, pack_groups_meaning
from tconv.jit import host_machine
from tconv.problem import accumulator

DTYPES = ("float32", "float64", "float16", "bfloat16")
COLUMNS = (1, 2)  # planes, panels
GUARD = 99
BEHIND = 1 << 40  # what a table has behind its end: far outside of any array


@cache
def code(dtype: str) -> tuple[Code, dict[int, str]]:
    """Compile both at once: by how many channels lie side by side."""
    made, lanes = Code(), host_machine().lanes(dtype)
    names = {
        columns: made.add(emit_pack_groups(made.module, dtype, lanes, columns))
        for columns in COLUMNS
    }
    return made, names


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("layout", ["channels beside", "points beside", "neither"])
@pytest.mark.parametrize("residues", [1, 2])
def test_packed_groups_equal_their_meaning(
    dtype: str, columns: int, layout: str, residues: int
) -> None:
    """Around the vector's width, with zeros before and behind, and with groups missing."""
    made, names = code(dtype)
    lanes = host_machine().lanes(dtype)
    sizes = (1, 2, lanes - 1, lanes, lanes + 1, 2 * lanes + 3)
    for body, channels, (head, tail), groups in product(
        (0, *sizes), sizes, ((0, 0), (3, 2)), (1, lanes - 1, lanes + 2)
    ):
        count = head + body + tail
        i = np.arange(count)
        places = i % residues * (count // residues + 4) + i // residues
        x_step, c_step, g_step = {
            "channels beside": (channels * groups, 1, channels),
            "points beside": (1, count, count * channels),
            "neither": (2, 2 * count + 1, (2 * count + 1) * channels),
        }[layout]
        length = count * x_step + channels * c_step + groups * g_step
        source = whole_numbers((length,), dtype, count, most=100)
        pitch = (int(places.max(initial=0)) + 1) * columns * lanes + 3
        computed = np.full(-(-channels // columns) * pitch + 20, GUARD, accumulator(dtype))
        wanted = computed.copy()
        numbers = (head, body, tail), (channels, pitch), (x_step, c_step)
        pack_groups_meaning(
            wanted, source, (i, places), *numbers, columns, (lanes, g_step, groups - 1)
        )
        tables = (np.append(table, BEHIND) for table in (i, places))
        flat = (*(each for numbers_ in numbers for each in numbers_), 1, 0, g_step, groups - 1)
        made.call(names[columns], computed, source, *tables, *flat)

        np.testing.assert_array_equal(computed, wanted, f"{numbers}, {groups} groups")
