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
from tconv.runtime.kernels import kernel_shape

Array = npt.NDArray[Any]
every_type = pytest.mark.parametrize("dtype", ["float32", "float64"])
every_kind = pytest.mark.parametrize("kind", range(len(KINDS)), ids=map(str, KINDS))
GUARD = 99


@cache
def code(dtype: str) -> tuple[Code, str, str]:
    """Compile both functions at once."""
    made = Code()
    shape = KernelShape(dtype, host_machine().lanes(dtype), 1, (ROWS,))
    sweep = made.add(emit_sweep(made.module, shape))
    return made, sweep, made.add(emit_tally(made.module, shape))


class Points:
    """Some points with panels of lanes, and what each of them meets by every segment."""

    def __init__(self, dtype: str, kind: int, numbers: tuple[int, int, int]) -> None:
        self.count, self.panels, self.segments = numbers
        self.lanes = host_machine().lanes(dtype)
        self.taps, ratio = KINDS[kind]
        self.ratio = ratio or 3  # the kernel for any taps takes any step
        self.width = (self.panels + 1) * self.lanes  # room between points
        line = self.ratio * (self.count - 1) + self.taps
        self.data = whole_numbers((self.segments, line, self.width), dtype, kind)
        self.order = np.random.default_rng(kind).permutation(self.segments)
        places = [s * line * self.width for s in self.order]
        weights = [s * self.taps * self.lanes for s in range(self.segments)]
        self.table = np.array([*zip(places, weights, strict=True)], np.int64).ravel()

    def met(self) -> Array:
        """Return the vectors that every point meets: by point, panel, segment, tap and lane."""
        points = np.arange(self.count)[:, None] * self.ratio + np.arange(self.taps)
        met = self.data[self.order][:, points, : self.panels * self.lanes]
        split = met.reshape(*met.shape[:3], self.panels, self.lanes)
        return split.transpose(1, 3, 0, 2, 4)


def cases(kind: int) -> list[tuple[int, int, int]]:
    """Return numbers of points, panels and segments; fast kernels take some points at least."""
    least = 1 if KINDS[kind][1] == 0 else ROWS
    counts = range(least, 2 * ROWS + 2)
    return [*product(counts, (1, 2, 3), (0, 1, 3))]


@every_type
@every_kind
def test_a_sweep_equals_its_meaning(dtype: str, kind: int) -> None:
    """Points on, before and behind whole tiles; panels by twos and one more."""
    made, name, _ = code(dtype)
    for numbers in cases(kind):
        p = Points(dtype, kind, numbers)
        weights = whole_numbers((p.panels, p.segments, p.taps, p.lanes), dtype, 1)
        start = whole_numbers((p.panels, p.lanes), dtype, 2)
        out = np.full((p.count, p.width), GUARD, dtype)
        expected = out.copy()
        sums = sweep_meaning(np.broadcast_to(start, (p.count, *start.shape)), p.met(), weights)
        expected[:, : p.panels * p.lanes] = sums.reshape(p.count, -1)
        panel = p.segments * p.taps * p.lanes
        steps = p.ratio * p.width, p.width, p.width, 0, p.lanes, panel, 0, 0, p.count, p.panels
        made.call(name, kind, out, p.data, weights, start, p.table, p.segments, *steps)

        np.testing.assert_array_equal(out, expected, str(numbers))


@every_type
@every_kind
def test_a_tally_equals_its_meaning(dtype: str, kind: int) -> None:
    """Every point once, on top of what the sums were."""
    made, _, name = code(dtype)
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
