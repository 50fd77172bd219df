"""Lines packed for correlations, as machine code and as NumPy: planes and panels."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import pytest

from codegen.meanings import Array, Code
from strategies import whole_numbers
from tconv.codegen.side_lines import emit_pack_panels, emit_pack_planes, pack_line_meaning
from tconv.jit import host_machine
from tconv.problem import accumulator

DTYPES = ("float32", "float64", "float16", "bfloat16")
GUARD = 99
ROWS = 6  # of a tile: not a power of two
BEHIND = 1 << 40  # what a table has behind its end: far outside of any array

# How points and channels lie in memory: (x_step, c_step) for so many of each.
LAYOUTS: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "planes": lambda points, _: (1, points),
    "planes with borders": lambda points, _: (1, points + 2),
    "side by side": lambda _, channels: (channels, 1),
    "side by side, a group among others": lambda _, channels: (channels + 3, 1),
    "neither": lambda points, _: (3, 3 * points + 1),
    "both": lambda *_: (1, 1),
    "points backwards": lambda points, _: (-1, points),
    "points backwards, side by side": lambda _, channels: (-channels, 1),
    "channels backwards": lambda points, _: (1, -points),
    "channels backwards, side by side": lambda _, channels: (channels, -1),
}

# Where the point of a number is read and where it goes, for so many of them.
TABLES: dict[str, Callable[[Array, int], tuple[Array, Array]]] = {
    "one run": lambda i, _: (i, i),
    "one run, begun elsewhere": lambda i, _: (i + 3, i + 5),
    "by residue": lambda i, count: (i, i % 2 * (count // 2 + 4) + i // 2),
    "by three residues": lambda i, count: (i, i % 3 * (count // 3 + 4) + i // 3),
    "with gaps": lambda i, _: (i // 2 * 5 + i % 2, i * 3 + 1),
    "the wrong way round": lambda i, count: (i * 2, count - 1 - i),
}

every_type = pytest.mark.parametrize("dtype", DTYPES)
every_layout = pytest.mark.parametrize("layout", LAYOUTS)
every_table = pytest.mark.parametrize("table", TABLES)


@cache
def code(dtype: str) -> tuple[Code, dict[int, str]]:
    """Compile all functions at once: by how many channels lie side by side."""
    made, lanes = Code(), host_machine().lanes(dtype)
    names = {1: made.add(emit_pack_planes(made.module, dtype, lanes))}
    for columns in (ROWS, 2 * lanes):
        names[columns] = made.add(emit_pack_panels(made.module, dtype, lanes, columns))
    return made, names


@dataclass(frozen=True)
class Line:
    """A line to pack: tables, how many points there are before, in and behind it, channels."""

    reads: Array
    places: Array
    counts: tuple[int, int, int]
    channels: int

    def residues(self, columns: int) -> Iterator[tuple[int, int]]:
        """Yield what may be said of points that run on: that they do not is never wrong."""
        yield 0, 0
        count = len(self.reads)
        i = np.arange(count)
        if columns > 1 and (np.diff(self.reads) == 1).all():
            yield 1, 0
        if columns == 1 and np.array_equal(self.reads, i):
            for width in (1, 2, 3):
                plane = count // width + 4
                if np.array_equal(self.places, i // width + i % width * plane):
                    yield width, plane

    def read(self) -> Array:
        """Return the places that are read, in points."""
        head, body, _ = self.counts
        return self.reads[head : head + body]


def lines(table: str, lanes: int) -> Iterator[Line]:
    """Yield lines around the vector's width, with zeros before, behind, on both sides and none."""
    around = (lanes - 1, lanes, lanes + 1)
    bodies, depths = (0, lanes // 2, *around, 2 * lanes + 1), (1, *around, 2 * lanes + 1)
    zeros = ((0, 0), (2, 0), (0, 3), (lanes + 1, 2))
    for body, channels, (head, tail) in product(bodies, depths, zeros):
        count = head + body + tail
        reads, places = TABLES[table](np.arange(count), count)
        yield Line(reads, places, (head, body, tail), channels)


def compare(dtype: str, line: Line, layout: str, columns: int) -> None:
    """Pack a line both ways, into a target full of something else."""
    made, names = code(dtype)
    points = int(line.reads.max(initial=0)) + 1
    steps = LAYOUTS[layout](points, line.channels)
    corners = [
        int(x) * steps[0] + c * steps[1] for x in line.read() for c in (0, line.channels - 1)
    ] or [0]
    start = -min(*corners, 0)
    source = whole_numbers((start + max(*corners, 0) + 1,), dtype, points, most=100)
    pitch = (int(line.places.max(initial=0)) + 1) * columns + 3
    planes = -(-line.channels // columns)
    expected = np.full(planes * pitch + 20, GUARD, accumulator(dtype))
    _clear_spare(expected, line, pitch, columns)
    tables = [np.append(table, BEHIND) for table in (line.reads, line.places)]
    for residues in line.residues(columns):
        computed, wanted = expected.copy(), expected.copy()
        # Rolled, a negative index finds what lies before the first element.
        pack_line_meaning(
            wanted, np.roll(source, -start), (line.reads, line.places), line.counts,
            (line.channels, pitch), steps, columns,
        )  # fmt: skip
        numbers = *line.counts, line.channels, pitch, *steps, *residues, columns
        made.call(names[columns], computed, source[start:], *tables, *numbers)

        np.testing.assert_array_equal(computed, wanted, f"{line.counts}, {line.channels} channels")


def _clear_spare(target: Array, line: Line, pitch: int, columns: int) -> None:
    """Write zeros where a panel has zeros for channels that there are none for."""
    head, body, _ = line.counts
    used = line.channels % columns
    if used:
        panel = line.channels // columns * pitch
        for place in (*line.places[:head], *line.places[head + body :]):
            target[panel + place * columns + used : panel + (place + 1) * columns] = 0


@every_type
@every_layout
@every_table
def test_packed_planes_equal_their_meaning(dtype: str, layout: str, table: str) -> None:
    """Every point of every channel where the tables say, and nothing else is touched."""
    for line in lines(table, host_machine().lanes(dtype)):
        compare(dtype, line, layout, 1)


@every_type
@every_layout
@every_table
def test_packed_panels_equal_their_meaning(dtype: str, layout: str, table: str) -> None:
    """The same with channels side by side; behind the last one a point keeps what it had."""
    lanes = host_machine().lanes(dtype)
    for line, columns in product(lines(table, lanes), (ROWS, 2 * lanes)):
        compare(dtype, line, layout, columns)


@every_type
@every_layout
def test_lines_packed_as_they_lie_equal_their_meaning(dtype: str, layout: str) -> None:
    """All channels of a point side by side, however many; nobody reads the tables."""
    made, names = code(dtype)
    for line in lines("one run", host_machine().lanes(dtype)):
        if line.channels > 1:
            points = int(line.reads.max(initial=0)) + 1
            steps = LAYOUTS[layout](points, line.channels)
            corners = [x * s + c * t for x in (0, points) for c in (0, line.channels)
                       for s, t in [steps]]  # fmt: skip
            start = -min(corners)
            source = whole_numbers((start + max(corners) + 1,), dtype, points, most=100)
            wanted = np.full(len(line.reads) * line.channels + 20, GUARD, accumulator(dtype))
            computed = wanted.copy()
            pack_line_meaning(
                wanted, np.roll(source, -start), (line.reads, line.places), line.counts,
                (line.channels, 0), steps, line.channels,
            )  # fmt: skip
            numbers = *line.counts, line.channels, 0, *steps, 1, 0, line.channels
            made.call(names[1], computed, source[start:], 0, 0, *numbers)

            np.testing.assert_array_equal(computed, wanted, f"{line.counts}, {line.channels}")


@every_type
def test_zeros_of_a_panel_are_as_wide_as_the_panel(dtype: str) -> None:
    """Where there is nothing to read, channels that there are none for become zero too."""
    lanes = host_machine().lanes(dtype)
    made, names = code(dtype)
    for columns in (ROWS, 2 * lanes):
        points = np.full((4, columns), GUARD, accumulator(dtype))
        places = np.array([0, 2, BEHIND])
        nothing = np.zeros(1, points.dtype)
        made.call(
            names[columns], points, nothing, places, places, 1, 0, 1, 1, 0, 1, 1, 0, 0, columns
        )

        assert not points[[0, 2]].any()
        assert (points[[1, 3]] == GUARD).all()


@every_type
@every_layout
@pytest.mark.parametrize("columns", ["plane", "panel"])
def test_a_line_outside_the_picture_does_not_read_it(dtype: str, layout: str, columns: str) -> None:
    """With no points to read, the address of the source may be any."""
    lanes = host_machine().lanes(dtype)
    made, names = code(dtype)
    width = 1 if columns == "plane" else 2 * lanes
    count = 2 * lanes + 1
    table = np.append(np.arange(count), BEHIND)
    target = np.full(count * width + 20, GUARD, accumulator(dtype))
    numbers = count, 0, 0, 1, 0, *LAYOUTS[layout](count, 1), 1, 0, width
    made.call(names[width], target, 0, table, table, *numbers)

    assert not target[:-20].any()
    assert (target[-20:] == GUARD).all()


@pytest.mark.parametrize("columns", ["plane", "panel"])
def test_the_comparison_can_fail(columns: str) -> None:
    """A wrong entry of a table is seen, unless the table is promised to run on."""
    lanes = host_machine().lanes("float32")
    made, names = code("float32")
    width, count = 1 if columns == "plane" else 2 * lanes, 2 * lanes
    straight = np.append(np.arange(count), BEHIND)
    crooked = straight.copy()
    crooked[count - 1] = 0
    source = np.arange(lanes * count, dtype=np.float32)
    packed = np.zeros((3, lanes * count * width), np.float32)
    for target, reads, side in zip(packed, (straight, crooked, crooked), (1, 0, 1), strict=True):
        numbers = 0, count, 0, lanes, count, 1, count, side, 0, width
        made.call(names[width], target, source, reads, straight, *numbers)

    assert (packed[0] != packed[1]).sum() == lanes
    assert np.array_equal(packed[0], packed[2])
