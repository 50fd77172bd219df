"""Planes as machine code: tiles of channels and phases, lines of any length, both layouts."""

from itertools import product

import numpy as np
import pytest
from llvmlite import ir

import strategies
from codegen.meanings import Code
from tconv import reference
from tconv.codegen.build import STORED, function, load, store
from tconv.codegen.plane_rows import interleaved
from tconv.codegen.plane_tile import lines_together, vector_runs
from tconv.jit import host_machine
from tconv.plan.planes import FIELDS, MANY_ROWS, MOST_VECTORS, plan_planes
from tconv.problem import Axis, Layout, Operand, Problem
from tconv.runtime.kernels import machine
from tconv.runtime.planes import PlanesRunner

LANES = host_machine().lanes("float32")


@pytest.mark.parametrize("rows", range(1, 2 * MANY_ROWS + 1))
def test_rows_are_interleaved(rows: int) -> None:
    """The first lanes of all rows, then the second ones and so on."""
    made = Code()
    pointer = STORED["float32"].as_pointer()
    emitted, b = function(made.module, f"interleave_{rows}", [pointer, pointer])
    target, source = emitted.args
    vector = ir.VectorType(STORED["float32"], LANES)
    given = [load(b, source, i * LANES, vector) for i in range(rows)]
    for i, mixed in enumerate(interleaved(b, given)):
        store(b, mixed, target, i * LANES)
    b.ret_void()
    numbers = np.arange(rows * LANES, dtype="float32").reshape(rows, LANES)
    found = np.empty(rows * LANES, "float32")
    made.call(made.add(emitted), found, numbers)

    np.testing.assert_array_equal(found, numbers.T.ravel())


def layer(  # noqa: PLR0913 - what differs between layers
    wanted: Operand, layout: str, channels: tuple[int, int], size: int, window: tuple[int, ...],
    dtype: str = "float32", groups: int = 1, lines: int = 2,
) -> Problem:  # fmt: skip
    """Return a layer with so many points in a line of what is written."""
    taps, stride, dilation, pad = window
    read, written = channels
    coarse, fine = (read, written) if wanted is Operand.FINE else (written, read)
    points = -(-size // stride) if wanted is Operand.FINE else size
    fine_size = size if wanted is Operand.FINE else stride * size
    axes = (
        Axis(stride * lines, lines, taps, stride, dilation, pad),
        Axis(fine_size, points, taps, stride, dilation, pad),
    )
    order = "n {} x" if layout == "NCX" else "n x {}"
    layouts = Layout(order.format("gc")), Layout(order.format("gf")), Layout("gc f x")
    return Problem(wanted, 2, groups, coarse, fine, axes, dtype, *layouts, bias=True)


def check(problem: Problem) -> None:
    """Hold a layer of whole numbers against the definition."""
    operands = [
        strategies.whole_numbers(problem.shape(operand), problem.dtype, seed)
        for seed, operand in enumerate(problem.given)
    ]
    written = problem.fine_channels if problem.wanted is Operand.FINE else problem.coarse_channels
    bias = strategies.whole_numbers((problem.groups * written,), problem.dtype, 3)
    runner = PlanesRunner(problem, plan_planes(problem, machine()))
    out = np.full(problem.shape(problem.wanted), 99, problem.dtype)
    runner.run(operands[0], runner.pack(operands[1]), bias, out)
    shape = [1] * out.ndim
    shape[1 if problem.layout(problem.wanted).axes.endswith("x") else -1] = -1

    expected = reference.answer(problem, *operands) + bias.astype("float64").reshape(shape)
    np.testing.assert_array_equal(out.astype("float64"), expected, str(problem))


WINDOWS = [(3, 2, 1, 1), (4, 2, 1, 1), (2, 2, 1, 0), (3, 3, 2, 1), (9, 3, 1, 4), (5, 4, 1, 0),
           (2, 5, 1, 0), (3, 1, 1, 1), (3, 7, 1, 1),
           (3, 3, 1, 0), (5, 5, 1, 0), (1, 1, 1, 0)]  # fmt: skip


@pytest.mark.parametrize("layout", ["NXC", "NCX"])
@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
@pytest.mark.parametrize("written", [1, 2, 3, 4, 5, 6, 7, 13, 25])
def test_every_window_is_right(written: int, wanted: Operand, layout: str) -> None:
    """Merged phases and others, several panels, channels that are listed and that are not."""
    for window, read in product(WINDOWS, (1, 3, 5)):
        check(layer(wanted, layout, (read, written), 21, window))


@pytest.mark.parametrize("layout", ["NXC", "NCX"])
@pytest.mark.parametrize("written", [1, 3, 7])
def test_lines_of_every_length_are_right(written: int, layout: str) -> None:
    """One point less, as many as and one more than tiles have; the last tile overlaps."""
    ends = {vectors * LANES for vectors in vector_runs(MOST_VECTORS)}
    sizes = sorted({1, *(max(end + by, 1) for end in ends for by in (-1, 0, 1))})
    for size in sizes:
        check(layer(Operand.COARSE, layout, (3, written), size, (3, 1, 1, 1)))
        check(layer(Operand.FINE, layout, (3, written), 2 * size - 1, (3, 2, 1, 1)))


@pytest.mark.parametrize("layout", ["NXC", "NCX"])
@pytest.mark.parametrize("written", [1, 2, 3, 6])
def test_tiles_of_several_lines_are_right(written: int, layout: str) -> None:
    """One line less, as many as and one more than tiles have; the last tile overlaps."""
    together = {lines_together(written, vectors) for vectors in vector_runs(MOST_VECTORS)} - {1}
    several = sorted({lines + by for lines in together for by in (-1, 0, 1)})
    for lines, size in product(several, (LANES - 1, 2 * LANES - 2, 3 * LANES + 4, 6 * LANES)):
        check(layer(Operand.COARSE, layout, (2, written), size, (3, 1, 1, 1), lines=lines))
        check(layer(Operand.FINE, layout, (5, written), size, (3, 1, 1, 1), lines=lines))
        check(layer(Operand.FINE, layout, (1, 1), 2 * size, (4, 2, 1, 1), lines=lines))
    if written == 1:
        for dtype in ("float16", "bfloat16"):
            check(layer(Operand.COARSE, layout, (2, 1), 28, (3, 1, 1, 1), dtype, 3, lines=9))


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["NXC", "NCX"])
def test_other_types_and_groups_are_right(layout: str, dtype: str) -> None:
    """Groups lie beside each other in what is packed, summed and stored."""
    for wanted, groups, window in product(
        (Operand.FINE, Operand.COARSE), (1, 3), ((3, 2, 1, 1), (3, 1, 1, 1))
    ):
        for written in (1, 2, 7):
            check(layer(wanted, layout, (2, written), 19, window, dtype, groups))


@pytest.mark.parametrize("wanted", [Operand.FINE, Operand.COARSE])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_few_panels_read_data_where_it_lies(wanted: Operand, dtype: str) -> None:
    """Of a larger array full of NaN: windows inside the picture, at its borders, and one tap."""
    axes_of = {
        "inside": lambda n: Axis(n + 2, n, 3, 1, 1, 0),
        "dilated": lambda n: Axis(n + 6, n, 3, 1, 3, 0),
        "borders": lambda n: Axis(n, n, 3, 1, 1, 1),
        "one tap": lambda n: Axis(n, n, 1, 1, 1, 0),
    }
    channels = product((1, 3, 5, 9), (1, 6, 12, 13), (1, 3))
    for (name, axis), (read, written, groups) in product(axes_of.items(), channels):
        coarse, fine = (written, read) if wanted is Operand.COARSE else (read, written)
        layouts = Layout("n gc x"), Layout("n gf x"), Layout("gc f x")
        for size in (LANES - 1, LANES, 3 * LANES + 2):
            axes = axis(3), axis(size)
            problem = Problem(wanted, 2, groups, coarse, fine, axes, dtype, *layouts)
            first, second = problem.given
            data = strategies.whole_numbers(problem.shape(first), dtype, 1)
            weights = strategies.whole_numbers(problem.shape(second), dtype, 2)
            around = np.full([n + 2 for n in data.shape], np.nan, data.dtype)
            around[1:-1, 1:-1, 1:-1, 1:-1] = data
            runner = PlanesRunner(problem, plan_planes(problem, machine()))
            out = np.full(problem.shape(wanted), 99, data.dtype)
            runner.run(around[1:-1, 1:-1, 1:-1, 1:-1], runner.pack(weights), None, out)

            due = reference.answer(problem, data, weights)
            np.testing.assert_array_equal(out.astype("float64"), due, f"{name} {problem}")


@pytest.mark.parametrize(
    ("taps", "size", "due"),
    [(3, 64, 1), (9, 64, 0), (9, 60, 1)],  # of 64 x 64 points channels lie 16 KB apart
)
def test_taps_do_not_read_channels_that_drive_each_other_out(
    taps: int, size: int, due: int
) -> None:
    """Where those compete for places of the cache, many taps of a line read them packed."""
    axis = Axis(size, size, taps, 1, 1, taps // 2)
    layouts = Layout("n gc x"), Layout("n gf x"), Layout("gc f x")
    problem = Problem(Operand.FINE, 1, 1, 32, 3, (axis, axis), "float32", *layouts)
    runner = PlanesRunner(problem, plan_planes(problem, machine()))
    source, target = (
        np.empty(problem.shape(operand), "float32") for operand in (Operand.COARSE, Operand.FINE)
    )
    assert runner.strided(source.strides, target.strides)[FIELDS["in_place"]] == due
