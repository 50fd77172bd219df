"""Strips as machine code: the tile of lines, and lines that are packed."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from codegen.meanings import Code
from tconv.codegen.block import KernelShape
from tconv.codegen.build import FLOATS, I64, function, load
from tconv.codegen.strip_region import emit_packers
from tconv.codegen.strip_tile import TILES, emit_strip, strip_meaning
from tconv.jit import host_machine
from tconv.plan.strips import SIZES, STEPS, most_at_once

LANES = host_machine().lanes("float32")
SHAPE = KernelShape("float32", LANES, 1, (1, 1))
COLUMNS = ((5, 1), (4, 2), (2, 3), (1, 1))  # taps, and how many columns have so many
GUARD = 99.0


class Strip:
    """A strip that takes what its sums begin with from memory: calls hand over whole numbers."""

    def __init__(self, size: tuple[int, int], phases: int) -> None:
        self.code, self.phases = Code(), phases
        strip = emit_strip(self.code.module, replace(SHAPE, rows=(1, phases)), size, phases)
        pointer, table = FLOATS["float32"].as_pointer(), I64.as_pointer()
        kinds = [*[pointer] * 4, table, table, *[I64] * 4]
        made, b = function(self.code.module, "begin_strip", kinds)
        out, start, *others = made.args
        b.call(strip, [out, load(b, start), *others])
        b.ret_void()
        self.name = self.code.add(made)


@pytest.mark.parametrize(
    ("size", "phases"), [(size, phases) for phases, sizes in TILES.items() for size in sizes]
)
def test_a_strip_is_its_meaning(size: tuple[int, int], phases: int) -> None:
    """Lines of every length that tiles may have, and nothing beside them is written."""
    strip = Strip(size, phases)
    lines, vectors = size
    tile = LANES * vectors
    draw = np.random.default_rng(1)
    lengths = [*range(tile - LANES // 2, tile)] if size[1] == 1 else []
    for length, lacking in product((*lengths, tile, tile + 1, 2 * tile - 1), (0, 1)):
        places = length * phases - min(lacking, phases - 1)
        padded = max(length, tile)
        if phases * padded - places > (LANES if phases > 1 else LANES // 2):
            continue
        in_line = padded + 7
        data = draw.integers(-4, 5, in_line * (lines + SIZES[0]) + 4 * LANES).astype("float32")
        columns = [
            [
                (int(draw.integers(0, 5)), draw.integers(-4, 5, taps).astype("float32"))
                for taps, count in COLUMNS
                if taps <= most_at_once(phases)
                for _ in range(count + (phase == 0))
            ]
            for phase in range(phases)
        ]
        weights = np.concatenate([w for mine in columns for _, w in mine])
        segments = np.array([begin for mine in columns for begin, _ in mine], np.int64)
        counts = np.array(
            [sum(len(w) == taps for _, w in mine) for mine in columns for taps in SIZES], np.int64
        )
        due = [strip_meaning(3.0, data, mine, lines, in_line)[:, :length] for mine in columns]
        expected = np.stack(due, axis=-1).reshape(lines, -1)[:, :places]
        # Lines that follow one another, and lines with something between them.
        for out_line in (places, places + 3):
            out = np.full((lines - 1) * out_line + places + LANES, GUARD, "float32")
            start = np.array([3.0], "float32")
            numbers = in_line, out_line, length, places
            strip.code.call(strip.name, out, start, data, weights, segments, counts, *numbers)
            every = np.full_like(out, GUARD)
            for line in range(lines):
                every[line * out_line : line * out_line + places] = expected[line]

            np.testing.assert_array_equal(out, every, f"{length} points, {places} places")


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_lines_are_parted_by_residue(step: int) -> None:
    """Each residue side by side, from any of them on; nothing else is written."""
    code = Code()
    pack = code.add(emit_packers(code.module, SHAPE).steps[step])
    source = np.arange(1, 400, dtype="float32")
    for first, count in product(range(2 * step), (1, 2, 3, LANES - 1, LANES, 3 * LANES + 2)):
        lines, down = 3, count + 1
        apart = (first + count) // step + 2
        pitch = apart * step
        target = np.full((lines + 1) * pitch + LANES, GUARD, "float32")
        due = target.copy()
        behind = LANES - count
        for line in range(lines):
            begin = line * pitch
            for j in range(count):
                place = (first + j) % step * apart + (first + j) // step
                due[begin + place] = source[line * down + j]
            # Lines that fill most of a vector write all of it, where the next one comes after.
            if step == 1 and 0 < behind <= count and line < lines - 1:
                due[begin + first + count : begin + first + LANES] = 0
        code.call(pack, target, source, first, count, lines, pitch, down, apart)

        np.testing.assert_array_equal(target, due, f"{first} {count}")
