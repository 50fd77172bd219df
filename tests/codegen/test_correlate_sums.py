"""Sums stored as weights, as machine code and as NumPy; and doubtful ones told."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from codegen.meanings import Code
from strategies import as_float64, whole_numbers
from tconv.codegen.correlate_sums import (
    emit_store_panels,
    emit_store_sums,
    emit_stream_run,
    store_sums_meaning,
)
from tconv.jit import host_machine
from tconv.problem import accumulator, numpy_dtype

DTYPES = ("float32", "float64", "float16", "bfloat16")
GUARD = 99

every_type = pytest.mark.parametrize("dtype", DTYPES)


@cache
def code(dtype: str) -> tuple[Code, str]:
    """Compile once."""
    made = Code()
    return made, made.add(emit_store_sums(made.module, dtype, host_machine().lanes(dtype)))


def layouts(taps: int, channels: int) -> list[tuple[int, int]]:
    """Return how weights may lie: taps or channels side by side, backwards, or neither."""
    return [(1, taps), (1, taps + 3), (channels, 1), (channels + 2, 1), (3, 3 * taps), (1, 1)]


@every_type
def test_stored_sums_equal_their_meaning(dtype: str) -> None:
    """Any taps and channels around the vector's width, in any order; nothing else is written."""
    made, name = code(dtype)
    lanes = host_machine().lanes(dtype)
    counts = (1, 2, 3, lanes - 1, lanes, lanes + 1, 2 * lanes + 5)
    for taps, channels in product(counts, (1, lanes - 1, lanes, lanes + 1, 2 * lanes)):
        pitch = 2 * lanes + 3
        sums = whole_numbers((taps * pitch,), accumulator(dtype).name, taps)
        flag = np.zeros(1, np.int64)
        for x_step, c_step in layouts(taps, channels):
            if (x_step, c_step) == (1, 1) and min(taps, channels) > 1:
                continue  # two sums in one place
            size = (taps - 1) * x_step + (channels - 1) * c_step + 1
            expected = np.full(size + 20, GUARD, numpy_dtype(dtype))
            computed = expected.copy()
            numbers = taps, channels, x_step, c_step, pitch
            store_sums_meaning(expected, sums, *numbers)
            made.call(name, computed, sums, flag, *numbers)

            np.testing.assert_array_equal(as_float64(computed), as_float64(expected), str(numbers))
        assert flag[0] == 0


@every_type
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_raises_the_flag_wherever_it_is(dtype: str, value: float) -> None:
    """Among the sums that are stored; those of channels that there are none for do not count."""
    made, name = code(dtype)
    lanes = host_machine().lanes(dtype)
    taps, channels, pitch = 5, lanes + 1, 2 * lanes
    for steps, tap, channel in product(((1, taps), (channels, 1)), range(taps), range(pitch)):
        sums = np.ones((taps, pitch), accumulator(dtype))
        sums[tap, channel] = value
        flag, target = np.zeros(1, np.int64), np.zeros(taps * channels, numpy_dtype(dtype))
        made.call(name, target, sums, flag, taps, channels, *steps, pitch)

        assert flag[0] == (channel < channels)


@every_type
@pytest.mark.parametrize("value", [7, np.nan, np.inf, -np.inf])
def test_stored_panels_lie_side_by_side(dtype: str, value: float) -> None:
    """None, one and some; what is no number raises the flag, behind the last it does not."""
    made, lanes = Code(), host_machine().lanes(dtype)
    columns = 2 * lanes
    name = made.add(emit_store_panels(made.module, dtype, lanes, columns))
    for panels, strange in product((0, 1, 3), range(3 * columns)):
        sums = whole_numbers((3, columns + 5), accumulator(dtype).name, panels)
        sums[strange // columns, strange % columns] = value
        flag, target = np.zeros(1, np.int64), np.full(4 * columns, GUARD, numpy_dtype(dtype))
        made.call(name, target, sums, flag, panels, columns + 5)

        expected = sums[:panels, :columns].astype(target.dtype).ravel()
        stored = as_float64(target[: panels * columns])
        np.testing.assert_array_equal(stored, as_float64(expected))
        assert (target[panels * columns :] == GUARD).all()
        assert flag[0] == (not np.isfinite(value) and strange < panels * columns)


@every_type
def test_a_streamed_run_is_a_copy_wherever_it_begins(dtype: str) -> None:
    """Some elements before the first line and behind the last, no line at all; nothing else."""
    made = Code()
    name = made.add(emit_stream_run(made.module, dtype))
    item = numpy_dtype(dtype).itemsize
    line = 64 // item
    counts = (0, 1, line - 1, line, line + 1, 2 * line, 5 * line + 3)
    for begin, count in product((0, 1, line // 2, line - 1, line), counts):
        run = whole_numbers((count,), dtype, count)
        memory = np.full(count + 4 * line, GUARD, numpy_dtype(dtype))
        first = (-memory.ctypes.data // item) % line + begin
        expected = memory.copy()
        expected[first : first + count] = run
        made.call(name, memory[first:], run, count)

        np.testing.assert_array_equal(as_float64(memory), as_float64(expected), f"{begin} {count}")
