"""Sweeps and tallies of grouped layers: machine code equals its meaning, for every kind."""

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from llvmlite import ir

from codegen.meanings import Code
from codegen.test_assembly import MACHINES, is_fused, loops, spills
from strategies import whole_numbers
from tconv.codegen.block import KernelShape
from tconv.codegen.sweep import emit_sweep, sweep_meaning
from tconv.codegen.tally import emit_tally, tally_meaning
from tconv.jit import emit_assembly, host_machine
from tconv.plan.grouped import KINDS, ROWS
from tconv.problem import DTYPES, accumulator
from tconv.runtime.kernels import kernel_shape

Array = npt.NDArray[Any]
every_type = pytest.mark.parametrize("dtype", ["float32", "float64"])
every_stored_type = pytest.mark.parametrize("dtype", DTYPES)
every_kind = pytest.mark.parametrize("kind", range(len(KINDS)), ids=map(str, KINDS))
GUARD = 99


@cache
def sweeps(dtype: str) -> tuple[Code, str]:
    """Compile all sweeps of a type."""
    made = Code()
    shape = KernelShape(dtype, host_machine().lanes(dtype), 1, (ROWS,))
    return made, made.add(emit_sweep(made.module, shape))


@cache
def tallies(dtype: str) -> tuple[Code, str]:
    """Compile all tallies of a type."""
    made = Code()
    shape = KernelShape(dtype, host_machine().lanes(dtype), 1, (ROWS,))
    return made, made.add(emit_tally(made.module, shape))


class Points:
    """Some points with panels of lanes, and what each of them meets by every segment."""

    def __init__(self, dtype: str, kind: int, numbers: tuple[int, int, int]) -> None:
        self.count, self.panels, self.segments = numbers
        self.lanes = host_machine().lanes(dtype)
        self.sums = accumulator(dtype).name
        self.taps, ratio = KINDS[kind]
        self.ratio = ratio or 3  # the kernel for any taps takes any step
        self.width = (self.panels + 1) * self.lanes  # room between points
        line = self.ratio * (self.count - 1) + self.taps
        self.data = whole_numbers((self.segments, line, self.width), dtype, kind)
        self.order = np.random.default_rng(kind).permutation(self.segments)
        places = [s * line * self.width for s in self.order]
        weights = [s * self.taps * self.lanes for s in range(self.segments)]
        self.table = np.array([*zip(places, weights, strict=True)], np.int64).ravel()

    def met(self, back: int = 0) -> Array:
        """Return the vectors that every point meets: by point, panel, segment, tap and lane.

        The last panel begins so many elements early.
        """
        points = np.arange(self.count)[:, None] * self.ratio + np.arange(self.taps)
        begins = np.arange(self.panels) * self.lanes
        begins[-1] -= back if self.panels > 1 else 0
        met = self.data[self.order][:, points][..., begins[:, None] + np.arange(self.lanes)]
        return met.astype(self.sums).transpose(1, 3, 0, 2, 4)


def cases(kind: int) -> list[tuple[int, int, int]]:
    """Return numbers of points, panels and segments; fast kernels take some points at least."""
    least = 1 if KINDS[kind][1] == 0 else ROWS
    counts = range(least, 2 * ROWS + 2)
    return [*product(counts, (1, 2, 3), (0, 1, 3))]


@every_stored_type
@every_kind
@pytest.mark.parametrize("back", [0, 3])
def test_a_sweep_equals_its_meaning(dtype: str, kind: int, back: int) -> None:
    """Points on, before and behind whole tiles; panels by twos and one more, the last moved."""
    made, name = sweeps(dtype)
    for numbers in cases(kind):
        p = Points(dtype, kind, numbers)
        if back and p.panels == 1:
            continue  # there is none before the last
        weights = whole_numbers((p.panels, p.segments, p.taps, p.lanes), p.sums, 1)
        start = whole_numbers((p.panels, p.lanes), p.sums, 2)
        out = np.full((p.count, p.width), GUARD, p.data.dtype)
        expected = out.copy()
        met = p.met(back)
        sums = sweep_meaning(np.broadcast_to(start, (p.count, *start.shape)), met, weights)
        for panel in range(p.panels):
            begin = panel * p.lanes - (back if panel == p.panels - 1 else 0)
            # What the last panel is moved onto is written by it, or the same.
            expected[:, begin : begin + p.lanes] = sums[:, panel]
        table = p.table.copy()
        table[1::2] //= p.taps * p.lanes
        panel = p.segments * p.taps * p.lanes
        steps = (
            p.ratio * p.width, p.width, p.width, p.lanes, panel, p.taps * p.lanes, back, 0, 0,
            p.count, p.panels, 0, 0,
        )  # fmt: skip
        ends = out, p.data, weights, start, table, p.segments, p.taps
        made.call(name, kind, *ends, *steps, np.zeros(p.lanes, p.sums))

        np.testing.assert_array_equal(out.astype(float), expected.astype(float), str(numbers))


@every_type
@every_kind
def test_a_tally_equals_its_meaning(dtype: str, kind: int) -> None:
    """Every point once, on top of what the sums were."""
    made, name = tallies(dtype)
    for numbers in cases(kind):
        count = numbers[0] if KINDS[kind][1] == 0 else numbers[0] // ROWS * ROWS
        p = Points(dtype, kind, (count, *numbers[1:]))
        coarse = whole_numbers((p.count, p.width), dtype, 1)
        sums = whole_numbers((p.panels, p.segments, p.taps, p.lanes), dtype, 2)
        used = coarse[:, : p.panels * p.lanes].reshape(p.count, p.panels, p.lanes)
        expected = tally_meaning(sums, used, p.met())
        panel = p.segments * p.taps * p.lanes
        steps = p.width, p.ratio * p.width, p.width, panel, p.count, p.panels
        made.call(name, kind, sums, coarse, p.data, p.table, p.segments, *steps)

        np.testing.assert_array_equal(sums, expected, str(numbers))


@pytest.mark.parametrize("emit", [emit_sweep, emit_tally])
@pytest.mark.parametrize("cpu", MACHINES)
def test_sums_stay_in_registers(
    emit: Callable[[ir.Module, KernelShape], ir.Function], cpu: str
) -> None:
    """Loops that multiply keep vectors off the stack, but for one operand in six."""
    module = ir.Module("test")
    emit(module, kernel_shape("float32", MACHINES[cpu])).linkage = ""
    text = emit_assembly(str(module), MACHINES[cpu])
    busy = [lines for lines in loops(text) if any(map(is_fused, lines))]
    worst = max(len(spills(text, lines)) / sum(map(is_fused, lines)) for lines in busy)

    assert len(busy) >= len(KINDS)
    assert worst <= 1 / 6
