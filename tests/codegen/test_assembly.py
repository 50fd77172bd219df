"""What CPUs would run, named ones, whatever this one is: speed without a clock."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import pytest
from llvmlite import ir

from tconv.codegen.block import KernelShape
from tconv.codegen.correlate import emit_correlate
from tconv.codegen.dots import emit_dot_line
from tconv.codegen.gather import emit_gather
from tconv.codegen.plane_tile import emit_plane_tile, unroll
from tconv.codegen.runs import NARROW_ROWS, rows_of
from tconv.codegen.strip_tile import TILES
from tconv.codegen.strips import emit_strips
from tconv.codegen.tile import UNROLL, Tile, emit_tile
from tconv.jit import emit_assembly
from tconv.plan.dots import ROWS
from tconv.plan.machine import AVX2, AVX512, NEON, Machine
from tconv.plan.planes import MOST_VECTORS, most_sums
from tconv.plan.strips import most_at_once
from tconv.plan.tiles import MORE_VECTORS, SMALL_TILE, tile_rows
from tconv.runtime.kernels import kernel_shape

EMITTERS: dict[str, Callable[[ir.Module, KernelShape], object]] = {
    "gather": emit_gather,
    "correlate": emit_correlate,
    "groups": lambda module, shape: emit_correlate(module, replace(shape, groups=shape.lanes)),
}
MACHINES = {"AVX2": AVX2, "AVX-512": AVX512, "NEON": NEON}
SHAPES = {"AVX2": (6, 2, 8), "AVX-512": (8, 2, 16), "NEON": (8, 2, 4)}

FUNCTION = re.compile(r"^[A-Za-z_][\w.$]*:", re.MULTILINE)
LABEL = re.compile(r"^(\.?L[\w.$]+):")
BRANCH = re.compile(r"\s(?:j[a-z]+|b(?:\.\w+)?|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,)\s+(\.?L[\w.$]+)")
FUSED = re.compile(r"\s(?:vfn?m(?:add|sub)\w+p[sd]|fml[as])\s")
ASKS = re.compile(r"\s(?:prefetch\w*|prfu?m)\s")
# A vector register, and an address relative to the stack or frame pointer.
X86_VECTOR, X86_STACK = re.compile(r"%[xyz]mm\d"), r"\(%(?:rsp{})[,)]"
ARM_VECTOR, ARM_STACK = re.compile(r"\s(?:\{ )?[qv]\d"), r"\[(?:sp{})[],]"


@cache
def assembly(name: str, dtype: str, cpu: str) -> str:
    """Return the whole module of a kernel as text."""
    module = ir.Module(name)
    EMITTERS[name](module, kernel_shape(dtype, MACHINES[cpu]))
    return emit_assembly(str(module), MACHINES[cpu])


def tile_assembly(tile: Tile, machine: Machine) -> str:
    """Return a tile alone as text."""
    module = ir.Module("tile")
    emit_tile(module, tile).linkage = ""
    return emit_assembly(str(module), machine)


def loops(text: str) -> Iterator[list[str]]:
    """Yield the lines of every innermost loop: from a label to a branch back to it."""
    label, lines = "", list[str]()
    for line in text.splitlines():
        found = LABEL.match(line)
        if found:
            label, lines = found[1], []
        lines.append(line)
        back = BRANCH.search(line)
        if back and label and back[1] == label:
            yield lines


def hot_loops(text: str, fused: int) -> list[list[str]]:
    """Return the innermost loops with so many fused multiply-adds."""
    return [lines for lines in loops(text) if sum(map(is_fused, lines)) == fused]


def is_fused(line: str) -> bool:
    """Tell whether a line multiplies and adds vectors with one rounding."""
    return FUSED.search(line) is not None


def function_of(text: str, lines: list[str]) -> str:
    """Return the function that a loop is in: only some need a frame pointer."""
    end = text.index("\n".join(lines))
    begins = [found.start() for found in FUNCTION.finditer(text, 0, end)]
    return text[begins[-1] if begins else 0 : end]


def stack(text: str, lines: list[str]) -> list[str]:
    """Return the lines of a function's loop that touch its stack."""
    function = function_of(text, lines)
    if "%rsp" in text:
        # With a frame pointer the stack is also reached from there, without one it is a number.
        framed = re.search(r"movq\s+%rsp, %rbp", function) is not None
        pattern = X86_STACK.format("|rbp" if framed else "")
    else:
        framed = re.search(r"(?:mov|add)\s+x29, sp", function) is not None
        pattern = ARM_STACK.format("|x29" if framed else "")
    return [line for line in lines if re.search(pattern, line)]


def spills(text: str, lines: list[str]) -> list[str]:
    """Return the lines of a loop that keep vectors on the stack, or fetch them from there."""
    vector = X86_VECTOR if "%rsp" in text else ARM_VECTOR
    return [line for line in stack(text, lines) if vector.search(line)]


every_kernel = pytest.mark.parametrize("name", EMITTERS)
every_machine = pytest.mark.parametrize("cpu", MACHINES)


@every_machine
def test_the_main_tile_is_the_one_that_was_measured(cpu: str) -> None:
    """Twelve sums of sixteen registers, sixteen of thirty-two."""
    shape = kernel_shape("float32", MACHINES[cpu])

    assert (shape.rows[0], shape.vectors, shape.lanes) == SHAPES[cpu]


@every_kernel
@pytest.mark.parametrize(
    ("cpu", "dtype"), [*product(MACHINES, ("float32", "float16", "bfloat16")), ("AVX2", "float64")]
)
def test_the_hot_loop_keeps_its_sums_in_registers(name: str, cpu: str, dtype: str) -> None:
    """One fused multiply-add a sum and step, and no vector ever goes to the stack."""
    shape = kernel_shape(dtype, MACHINES[cpu])
    text = assembly(name, dtype, cpu)
    found = hot_loops(text, shape.rows[0] * shape.vectors * UNROLL)

    assert len(found) >= 1
    assert [spills(text, lines) for lines in found] == [[]] * len(found)


@every_machine
@pytest.mark.parametrize("phases", [1, 2, 4])
def test_strips_keep_lines_and_weights_in_registers(cpu: str, phases: int) -> None:
    """All lines by every column of taps; sums of other phases wait outside of the loops."""
    module = ir.Module("strips")
    emit_strips(module, replace(kernel_shape("float32", MACHINES[cpu]), rows=(1, phases)))
    text = emit_assembly(str(module), MACHINES[cpu])
    busy = [lines for lines in loops(text) if any(map(is_fused, lines))]
    fused = {sum(map(is_fused, lines)) for lines in busy}
    sizes = range(1, most_at_once(phases) + 1)

    assert fused >= {TILES[phases][0][0] * taps for taps in sizes}
    assert [spills(text, lines) for lines in busy] == [[]] * len(busy)


@every_kernel
@every_machine
def test_no_loop_of_any_tile_keeps_vectors_on_the_stack(name: str, cpu: str) -> None:
    """Narrow tiles, low ones and rests of the depth stay in registers as well."""
    text = assembly(name, "float32", cpu)
    busy = [lines for lines in loops(text) if any(map(is_fused, lines))]

    assert len(busy) >= 4
    assert [spills(text, lines) for lines in busy] == [[]] * len(busy)


def test_the_hot_loop_of_avx2_keeps_all_addresses_in_registers() -> None:
    """Six rows leave room for them; that for far data may keep its loop's end in memory."""
    text = assembly("gather", "float32", "AVX2")
    found = hot_loops(text, 6 * 2 * UNROLL)
    touched = [[line.split()[0] for line in stack(text, lines)] for lines in found]

    assert len(found) >= 3
    assert [] in touched
    assert all(set(each) <= {"cmpq", "movq"} and len(each) <= 2 for each in touched)


@every_kernel
@pytest.mark.parametrize(("cpu", "register"), [("AVX-512", "%zmm"), ("AVX2", "%ymm")])
def test_sums_are_as_wide_as_the_machine(name: str, cpu: str, register: str) -> None:
    """Every fused multiply-add of the hot loop works on whole registers."""
    shape = kernel_shape("float32", MACHINES[cpu])
    found = hot_loops(assembly(name, "float32", cpu), shape.rows[0] * shape.vectors * UNROLL)
    fused = [line for lines in found for line in lines if is_fused(line)]

    assert len(fused) > 0
    assert all(line.count(register) >= 2 for line in fused)


def test_a_step_reads_every_weight_vector_once() -> None:
    """Two vectors and six broadcasts for twelve multiply-adds: the loads keep up."""
    text = assembly("gather", "float32", "AVX2")
    for lines in hot_loops(text, 6 * 2 * UNROLL):
        reads = [line for line in lines if re.search(r"\(%r", line) and "ymm" in line]

        assert len(reads) == (6 + 2) * UNROLL


@every_machine
@pytest.mark.parametrize("far", [False, True])
def test_a_tile_asks_for_the_next_weights_and_spills_nothing(cpu: str, *, far: bool) -> None:
    """They are on their way while these are multiplied: a line of them for every step.

    When all are asked for, another loop goes on, which does nothing else.
    """
    rows, vectors, lanes = SHAPES[cpu]
    text = tile_assembly(Tile(rows, vectors, lanes, "float32", far=far), MACHINES[cpu])
    found = hot_loops(text, rows * vectors * UNROLL)
    asked = [sum(ASKS.search(line) is not None for line in lines) for lines in found]

    assert [spills(text, lines) for lines in found] == [[]] * len(found)
    assert asked == [UNROLL * vectors * lanes * 4 // 64, *[0] * (1 + far)]


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("vectors", MORE_VECTORS)
def test_long_vectors_fill_the_registers_with_sums(vectors: int, *, far: bool) -> None:
    """Tiles of three and four vectors, where thirty-two registers are that long."""
    rows = tile_rows(AVX512, vectors)
    text = tile_assembly(Tile(rows, vectors, 16, "float32", far=far), AVX512)
    found = hot_loops(text, rows * vectors * UNROLL)

    assert rows * vectors == 24
    assert len(found) == 2 + far
    assert [spills(text, lines) for lines in found] == [[]] * len(found)


@pytest.mark.parametrize("far", [False, True])
def test_a_tile_past_the_caches_streams_all_its_sums(*, far: bool) -> None:
    """And does not ask for the lines that they go to."""
    text = tile_assembly(Tile(6, 2, 8, "float32", far=far, past=True), AVX2)

    assert text.count("vmovntps") == 6 * 2
    assert "prefetchw" not in text
    for lines in hot_loops(text, 6 * 2 * UNROLL):
        assert spills(text, lines) == []


def test_a_tile_of_one_vector_keeps_eight_sums_and_their_rows() -> None:
    """Eight rows have eight addresses, which must not be read from the stack either."""
    tile = Tile(NARROW_ROWS, 1, 8, "float32")
    text = tile_assembly(tile, AVX2)
    found = hot_loops(text, NARROW_ROWS * tile.unroll)

    assert len(found) >= 1
    assert [spills(text, lines) for lines in found] == [[]] * len(found)


@every_machine
@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        *product(["float32", "float64", "float16", "bfloat16"], [{}, {"listed": True}]),
        *product(["float32", "float64"], [{"far": True}]),  # others are packed before
    ],
)
def test_a_tile_of_two_panels_fills_the_registers(
    cpu: str, dtype: str, kind: dict[str, Any]
) -> None:
    """Three vectors of weights, one of data, and twelve sums on AVX2: none left for the stack."""
    shape = kernel_shape(dtype, MACHINES[cpu])
    vectors = shape.vectors + 1
    rows, _ = rows_of(shape, vectors)
    tile = Tile(rows, vectors, shape.lanes, dtype, joined=True, **kind)
    text = tile_assembly(tile, MACHINES[cpu])
    found = hot_loops(text, rows * vectors * tile.unroll)

    assert rows * vectors >= 12
    assert len(found) >= 1
    assert [spills(text, lines) for lines in found] == [[]] * len(found)


@every_machine
@pytest.mark.parametrize("channels", ROWS)
def test_lines_of_few_channels_keep_their_sums_in_registers(channels: int, cpu: str) -> None:
    """One multiply-add a sum; a vector of data is read once for all channels."""
    module = ir.Module("dots")
    emit_dot_line(module, kernel_shape("float32", MACHINES[cpu]), channels).linkage = ""
    text = emit_assembly(str(module), MACHINES[cpu])
    found = hot_loops(text, ROWS[channels] * channels)

    assert len(found) >= 1
    assert [spills(text, lines) for lines in found] == [[]] * len(found)


@every_machine
def test_planes_keep_their_sums_in_registers(cpu: str) -> None:
    """From many channels and one vector of points to one channel and many vectors."""
    machine = MACHINES[cpu]
    sums = most_sums(machine)
    for rows in (rows for rows in range(1, sums + 1) if sums % rows == 0):
        vectors = min(MOST_VECTORS, sums // rows)
        module = ir.Module("planes")
        shape = KernelShape("float32", machine.lanes("float32"), vectors, (rows, 1))
        emit_plane_tile(module, shape, (vectors, 1)).linkage = ""
        text = emit_assembly(str(module), machine)
        found = hot_loops(text, rows * vectors * unroll(rows, vectors))

        assert found, (rows, vectors)
        assert [spills(text, lines) for lines in found] == [[]] * len(found), (rows, vectors)


# With sixteen registers, two of those of four channels are on the stack.
WOVEN = [(1, 2), (2, 2), (1, 4), (4, 4), (4, 8), (8, 8), (16, 16)]
SHARED = [
    (cpu, woven)
    for cpu, woven in product(MACHINES, WOVEN)
    if MACHINES[cpu].lanes("float32") % woven[1] == 0 and (cpu, woven) != ("AVX2", (4, 4))
]


@pytest.mark.parametrize(("cpu", "woven"), SHARED)
def test_groups_that_share_vectors_keep_their_sums(cpu: str, woven: tuple[int, int]) -> None:
    """Each row has data of its own for every vector, so tiles have fewer rows than others."""
    lanes = MACHINES[cpu].lanes("float32")
    tile = Tile(SMALL_TILE, 2, lanes, "float32", woven=woven)
    text = tile_assembly(tile, MACHINES[cpu])
    each = math.gcd(woven[0], 4) if woven[1] == lanes else woven[0]
    (lines,) = hot_loops(text, tile.rows * tile.vectors * each)

    assert spills(text, lines) == []


def test_the_check_for_spills_can_fail() -> None:
    """Eighteen sums cannot stay in sixteen registers, and the check says so."""
    text = tile_assembly(Tile(9, 2, 8, "float32"), AVX2)
    found = hot_loops(text, 9 * 2 * UNROLL)

    assert len(found) >= 1
    assert all(len(spills(text, lines)) > UNROLL for lines in found)


def test_the_check_for_spills_can_fail_on_arm() -> None:
    """Nor can forty sums in thirty-two."""
    text = tile_assembly(Tile(20, 2, 4, "float32"), NEON)
    found = hot_loops(text, 20 * 2 * UNROLL)

    assert len(found) >= 1
    assert all(len(spills(text, lines)) > UNROLL for lines in found)


def test_the_check_for_fused_multiply_adds_can_fail() -> None:
    """Without the feature LLVM calls a function for each, and no loop is found."""
    plain = Machine("x86-64", "+sse2", 16, 16, AVX2.l1, AVX2.l2, AVX2.l3)
    text = tile_assembly(Tile(6, 2, 4, "float32"), plain)

    assert hot_loops(text, 6 * 2 * UNROLL) == []
