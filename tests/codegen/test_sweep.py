"""Sweeps and tallies of grouped layers: machine code equals its meaning, for every kind."""

import re
from dataclasses import fields
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
from tconv.codegen.block import KernelShape, SweepShape
from tconv.codegen.sweep import emit_sweep, sweep_meaning
from tconv.codegen.sweep_record import SWEEP_NUMBERS, Sweep
from tconv.codegen.tally import emit_tally, tally_meaning
from tconv.jit import emit_assembly, host_machine
from tconv.plan.grouped import PAIRED
from tconv.plan.grouped_weights import KINDS
from tconv.plan.machine import AVX2
from tconv.plan.stretches import ANY, PIECES, ROWS, Kind
from tconv.problem import DTYPES, accumulator
from tconv.runtime.kernels import kernel_shape

Array = npt.NDArray[Any]
every_type = pytest.mark.parametrize("dtype", ["float32", "float64"])
every_stored_type = pytest.mark.parametrize("dtype", DTYPES)
every_kind = pytest.mark.parametrize("kind", range(len(KINDS)), ids=map(str, KINDS))
GUARD = 99

EXACT = [Kind(taps, ratio, cut=False) for ratio, pieces in PIECES.items() for taps in pieces]
CUT = [Kind(2, 1, cut=True), Kind(3, 2, cut=True)]
APART = [Kind(taps, 0, cut=cut) for taps, cut in ((1, False), (3, False), (2, True))]
SWEEPS = (ANY, *APART, *EXACT, *CUT)


@cache
def sweep(dtype: str, kind: Kind, lines: int) -> tuple[Code, str]:
    """Compile the sweep of a kind and type."""
    made = Code()
    shape = KernelShape(dtype, host_machine().lanes(dtype), 1, (ROWS,))
    return made, made.add(
        emit_sweep(
            made.module, SweepShape(shape, kind, lines, reads_stored=True, writes_stored=True)
        )
    )


@cache
def tallies(dtype: str) -> tuple[Code, str]:
    """Compile all tallies of a type, of points as arrays hold them."""
    made = Code()
    shape = KernelShape(dtype, host_machine().lanes(dtype), 1, (ROWS,))
    return made, made.add(emit_tally(made.module, shape, stored=True))


class Points:
    """Some points with panels of lanes, and what each of them meets by every segment."""

    def __init__(self, dtype: str, kind: tuple[int, int], numbers: tuple[int, int, int]) -> None:
        self.count, self.panels, self.segments = numbers
        self.lanes = host_machine().lanes(dtype)
        self.sums = accumulator(dtype).name
        self.taps, ratio = kind
        self.ratio = ratio or 3  # the kernel for any taps takes any step
        self.width = -(-(self.panels + 1) * self.lanes // 32) * 32  # whole cache lines, and room
        line = self.ratio * (self.count - 1) + self.taps
        self.data = whole_numbers((self.segments, line, self.width), dtype, self.taps)
        self.order = np.random.default_rng(self.taps).permutation(self.segments)
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


def cases(*, any_points: bool) -> list[tuple[int, int, int]]:
    """Return numbers of points, panels and segments; fast kernels take some points at least."""
    least = 1 if any_points else ROWS
    counts = range(least, 2 * ROWS + 2)
    return [*product(counts, (1, 2, 3, 5), (0, 1, 3))]


def in_pairs(panels: Array, back: int) -> Array:
    """Return panels of lanes where each two are the even and the odd lanes of both."""
    found = panels.copy()
    for first in range(0, len(panels) - (back > 0) - 1, 2):
        both = np.concatenate([*panels[first : first + 2]], axis=-1)
        found[first], found[first + 1] = both[..., ::2], both[..., 1::2]
    return found


def on_a_line(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array full of GUARD that begins a cache line."""
    room = np.full(np.prod(shape) + 64, GUARD, dtype)
    begin = -room.ctypes.data % 64 // dtype.itemsize
    return room[begin : begin + np.prod(shape)].reshape(shape)


def common_of(**numbers: int | Array) -> Array:
    """Return what sweeps have in common, as they read it."""
    found = dict.fromkeys((field.name for field in fields(Sweep)), 0)
    for name, value in numbers.items():
        found[name] = value.ctypes.data if isinstance(value, np.ndarray) else value
    assert len(found) == SWEEP_NUMBERS
    return np.array([*found.values()], np.int64)


@every_stored_type
@pytest.mark.parametrize("kind", SWEEPS, ids=str)
@pytest.mark.parametrize("back", [0, 3])
def test_a_sweep_equals_its_meaning(dtype: str, kind: Kind, back: int) -> None:
    """Points on, before and behind whole tiles; panels by twos and one more, the last moved.

    Two phases of the same taps: the second reads a point further, with weights of its own.
    Whole panels are written past the caches; nothing changes by asking for what follows.
    """
    taps = kind.taps * (1 + kind.cut)
    for (count, panels, segments), lines in product(cases(any_points=kind == ANY), (0, 1)):
        p = Points(dtype, (taps, kind.ratio), (count + 1, panels, segments))
        if (back and panels == 1) or (lines and (kind.cut or not segments)):
            continue  # there is none before the last; unrolled kernels take whole windows
        weights = whole_numbers((2, panels, segments, taps, p.lanes), p.sums, 1)
        start = whole_numbers((panels, p.lanes), p.sums, 2)
        out = on_a_line((count, 2, p.width), p.data.dtype)
        expected = out.copy()
        met, step = p.met(back), p.ratio * p.width
        for phase in range(2):
            points = slice(phase, phase + count)
            begun = np.broadcast_to(start, (count, *start.shape))
            sums = sweep_meaning(begun, met[points], weights[phase])
            for panel in range(panels):
                begin = panel * p.lanes - (back if panel == panels - 1 else 0)
                # What the last panel is moved onto is written by it, or the same.
                expected[:, phase, begin : begin + p.lanes] = sums[:, panel]
        table = p.table.copy()
        table[1::2] //= taps * p.lanes
        row = taps * p.lanes
        shifts = np.array([0, weights[0].size], np.int64)
        if dtype == PAIRED:
            weights = in_pairs(weights.swapaxes(0, 1), back).swapaxes(0, 1).copy()
            start = in_pairs(start, back)
        common = common_of(
            weights=weights, shifts=shifts, start=start, table=table, rows=segments,
            in_x=step, out_x=p.width, in_step=step,
            out_step=2 * p.width, tap_step=p.width, start_step=p.lanes,
            weights_step=segments * row, back=back, panels=panels,
            zeros=np.zeros(p.lanes, p.sums), stream=int(back == 0),
            ahead=step, ahead_step=step, ahead_rows=2, ahead_points=p.ratio,
            ahead_panel=p.ratio * p.lanes,
        )  # fmt: skip
        meetings = np.array([[phase, phase, taps, 0, row] for phase in range(2)], np.int64)
        made, name = sweep(dtype, kind, segments * lines)
        made.call(name, common, meetings, 2, p.data, out, count)

        numbers = str((count, panels, segments, lines))
        np.testing.assert_array_equal(out.astype(float), expected.astype(float), numbers)


@every_stored_type
@every_kind
def test_a_tally_equals_its_meaning(dtype: str, kind: int) -> None:
    """Every point once, on top of what the sums were."""
    made, name = tallies(dtype)
    for numbers in cases(any_points=KINDS[kind][1] == 0):
        count = numbers[0] if KINDS[kind][1] == 0 else numbers[0] // ROWS * ROWS
        p = Points(dtype, KINDS[kind], (count, *numbers[1:]))
        coarse = whole_numbers((p.count, p.width), dtype, 1)
        sums = whole_numbers((p.panels, p.segments, p.taps, p.lanes), p.sums, 2)
        used = coarse[:, : p.panels * p.lanes].reshape(p.count, p.panels, p.lanes).astype(p.sums)
        expected = tally_meaning(sums, used, p.met())
        panel = p.segments * p.taps * p.lanes
        steps = p.width, p.ratio * p.width, p.width, panel, p.count, p.panels
        for asks in (0, 1):  # for what comes next: no result depends on it
            mine = sums.copy()
            made.call(name, kind, mine, coarse, p.data, p.table, p.segments, *steps, asks)

            np.testing.assert_array_equal(mine, expected, str(numbers))


@pytest.mark.parametrize("cpu", MACHINES)
@pytest.mark.parametrize("kind", SWEEPS, ids=str)
def test_sums_of_a_sweep_stay_in_registers(kind: Kind, cpu: str) -> None:
    """Loops that multiply keep vectors off the stack, but for one operand in six."""
    module = ir.Module("test")
    shape = kernel_shape("float32", MACHINES[cpu])
    emit_sweep(module, SweepShape(shape, kind, 0, reads_stored=True, writes_stored=True))
    text = emit_assembly(str(module), MACHINES[cpu])

    assert worst_spills(text) <= 1 / 6


@pytest.mark.parametrize(("taps", "ratio", "lines"), [(2, 1, 2), (3, 1, 3), (3, 2, 3), (4, 2, 4)])
def test_sums_of_a_window_stay_in_registers(taps: int, ratio: int, lines: int) -> None:
    """Unrolled kernels are whole functions: these load few vectors from the stack."""
    module = ir.Module("test")
    kind, shape = Kind(taps, ratio, cut=False), kernel_shape("float32", AVX2)
    emit_sweep(module, SweepShape(shape, kind, lines, reads_stored=True, writes_stored=True))
    text = emit_assembly(str(module), AVX2).splitlines()
    again = [line for line in text if re.search(r"\(%rsp\), %ymm", line)]

    assert len(again) <= sum(map(is_fused, text)) / 24


def worst_spills(text: str) -> float:
    """Return the largest share of operands on the stack of loops that multiply."""
    busy = [lines for lines in loops(text) if any(map(is_fused, lines))]
    assert busy
    return max(len(spills(text, lines)) / sum(map(is_fused, lines)) for lines in busy)


@pytest.mark.parametrize("cpu", MACHINES)
def test_sums_of_a_tally_stay_in_registers(cpu: str) -> None:
    """The same for tallies of every kind."""
    module = ir.Module("test")
    emit_tally(module, kernel_shape("float32", MACHINES[cpu])).linkage = ""

    assert worst_spills(emit_assembly(str(module), MACHINES[cpu])) <= 1 / 6
