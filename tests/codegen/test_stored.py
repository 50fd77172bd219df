"""16-bit elements widened and rounded, as machine code and as NumPy; what the code may call."""

import re
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from llvmlite import ir

from codegen.meanings import Array, Code
from tconv.codegen.block import KernelShape
from tconv.codegen.build import FLOATS, I64, STORED, counted, function, load, number, store
from tconv.codegen.correlate import emit_correlate
from tconv.codegen.gather import emit_gather
from tconv.codegen.planes import emit_planes
from tconv.codegen.stored import narrow_pair, rounded, widened
from tconv.codegen.weights import emit_pack_weights
from tconv.jit import emit_assembly, host_machine
from tconv.plan.machine import AVX2, AVX512, NEON, SSE2, Machine
from tconv.problem import numpy_dtype
from tconv.runtime.kernels import kernel_shape

HALVES = ("float16", "bfloat16")
every_half = pytest.mark.parametrize("dtype", HALVES)
either_way = pytest.mark.parametrize("lanes", [0, host_machine().lanes("float32")])


@cache
def code(dtype: str, lanes: int) -> tuple[Code, str, str]:
    """Compile ``widen(target, source, count)`` and ``narrow`` by vectors, or one by one."""
    made = Code()
    floats, stored = FLOATS[dtype].as_pointer(), STORED[dtype].as_pointer()
    widen, b = function(made.module, "widen", [floats, stored, I64])
    target, source, count = widen.args
    with counted(b, count, step=max(lanes, 1)) as k:
        store(b, widened(b, source, k.index, dtype, lanes), target, k.index)
    b.ret_void()
    narrow, b = function(made.module, "narrow", [stored, floats, I64])
    target, source, count = narrow.args
    vector = ir.VectorType(FLOATS[dtype], lanes) if lanes else None
    with counted(b, count, step=max(lanes, 1)) as k:
        store(b, rounded(b, load(b, source, k.index, vector), dtype), target, k.index)
    b.ret_void()
    return made, made.add(widen), made.add(narrow)


def narrowed(dtype: str, lanes: int, values: Array) -> Array:
    """Round float32 by machine code."""
    made, _, name = code(dtype, lanes)
    result = np.zeros(values.size, numpy_dtype(dtype))
    made.call(name, result, values, values.size)
    return result


def as_bits(array: Array) -> npt.NDArray[np.unsignedinteger]:
    """Return the bits of elements as whole numbers."""
    return array.view(f"u{array.itemsize}")


def every_number(dtype: str) -> Array:
    """Return all 65536 numbers of a type, in the order of their bits."""
    return np.arange(1 << 16, dtype=np.uint16).view(numpy_dtype(dtype))


def check_rounding(dtype: str, lanes: int, values: Array) -> None:
    """Compare with NumPy's own rounding: to the bit, but for the payload of a NaN."""
    with np.errstate(all="ignore"):
        expected = values.astype(numpy_dtype(dtype))
    computed = narrowed(dtype, lanes, values)
    usual = ~np.isnan(values)

    np.testing.assert_array_equal(as_bits(computed)[usual], as_bits(expected)[usual])
    assert np.isnan(computed.astype(np.float32)[~usual]).all()


@every_half
@either_way
def test_every_number_is_widened_exactly(dtype: str, lanes: int) -> None:
    """Denormals, infinities and both zeros included; a NaN stays a NaN."""
    made, name, _ = code(dtype, lanes)
    numbers = every_number(dtype)
    result = np.zeros(numbers.size, np.float32)
    made.call(name, result, numbers, numbers.size)
    with np.errstate(all="ignore"):
        expected = numbers.astype(np.float32)
    usual = ~np.isnan(expected)

    np.testing.assert_array_equal(as_bits(result)[usual], as_bits(expected)[usual])
    assert np.isnan(result[~usual]).all()


@every_half
@either_way
def test_every_number_comes_back_as_it_was(dtype: str, lanes: int) -> None:
    """What a type can hold is not rounded."""
    with np.errstate(all="ignore"):
        check_rounding(dtype, lanes, every_number(dtype).astype(np.float32))


@every_half
@either_way
def test_ties_and_their_neighbours_are_rounded_to_nearest_even(dtype: str, lanes: int) -> None:
    """Half way between any two numbers, and one float32 to either side of it."""
    with np.errstate(all="ignore"):
        numbers = every_number(dtype).astype(np.float64)
        ties = ((numbers[:-1] + numbers[1:]) / 2).astype(np.float32)
    ties = np.append(ties, np.float32(0))
    for values in (ties, np.nextafter(ties, np.float32(9e9)), np.nextafter(ties, np.float32(-9e9))):
        check_rounding(dtype, lanes, values)


@every_half
def test_any_float32_is_rounded_as_numpy_does(dtype: str) -> None:
    """A million patterns of bits, every kind of number among them; NaNs as sums can have them."""
    patterns = np.random.default_rng(0).integers(0, 1 << 32, 1 << 20, dtype=np.uint32)
    if dtype == "bfloat16":
        patterns = np.where(
            np.isnan(patterns.view(np.float32)), patterns & np.uint32(0xFFFF0000), patterns
        )

    check_rounding(dtype, host_machine().lanes("float32"), patterns.view(np.float32))


@every_half
@either_way
def test_no_nan_becomes_an_infinity(dtype: str, lanes: int) -> None:
    """Rounding must not carry a NaN of either sign away, whatever 16 bits it came from."""
    numbers = every_number(dtype)
    nans = numbers[np.isnan(numbers.astype(np.float32))].astype(np.float32)

    assert len(nans) > 100
    assert np.isnan(narrowed(dtype, lanes, nans).astype(np.float32)).all()


@cache
def pair_code() -> tuple[Code, str]:
    """Compile ``pairs(target, even, odd, count)``, of vectors that are rounded together."""
    made, lanes = Code(), host_machine().lanes("float32")
    floats, stored = FLOATS["bfloat16"].as_pointer(), STORED["bfloat16"].as_pointer()
    pairs, b = function(made.module, "pairs", [stored, floats, floats, I64])
    target, *sources, count = pairs.args
    vector = ir.VectorType(FLOATS["bfloat16"], lanes)
    with counted(b, count, step=lanes) as k:
        two = [load(b, source, k.index, vector) for source in sources]
        store(b, narrow_pair(b, *two), target, b.mul(k.index, number(2)))
    b.ret_void()
    return made, made.add(pairs)


def test_pairs_are_rounded_as_each_of_them() -> None:
    """Ties, and a million patterns; of NaNs those that sums of widened elements can be."""
    made, name = pair_code()
    patterns = np.random.default_rng(0).integers(0, 1 << 32, 1 << 20, dtype=np.uint32)
    patterns[::3] &= np.uint32(0xFFFF8000)  # ties, and numbers that are not rounded
    values = patterns.view(np.float32)
    patterns[np.isnan(values)] &= np.uint32(0xFFFF0000)
    patterns[np.isnan(values) | np.isinf(values)] |= np.uint32(0x400000)
    result = np.zeros(values.size, numpy_dtype("bfloat16"))
    made.call(name, result, values[::2].copy(), values[1::2].copy(), values.size // 2)
    with np.errstate(all="ignore"):
        expected = values.astype(result.dtype)
    usual = ~np.isnan(values)

    np.testing.assert_array_equal(as_bits(result)[usual], as_bits(expected)[usual])
    assert np.isnan(result.astype(np.float32)[~usual]).all()
    assert not usual.all()


def test_the_comparison_can_fail() -> None:
    """Cutting bits off instead of rounding is seen."""
    values = np.array([1 + 2**-8 + 2**-9] * 8, np.float32)
    cut = (values.view(np.uint32) >> 16).astype(np.uint16)

    assert (as_bits(narrowed("bfloat16", 8, values)) != cut).all()


EMITTERS: dict[str, Callable[[ir.Module, KernelShape], object]] = {
    "gather": emit_gather,
    "correlate": emit_correlate,
    "planes": emit_planes,
    "pack_weights": emit_pack_weights,
}
MACHINES = {"SSE2": SSE2, "AVX2": AVX2, "AVX-512": AVX512, "NEON": NEON}
# Where code may lie far away, an address is loaded first and then called.
CALL = re.compile(
    r"^\s+(?:(?:callq?|bl|b|jmp)\s+|movabsq\s+\$|mov[zk]\s+\w+, #:abs_g\d\w*:)([A-Za-z_]\w*)\b",
    re.MULTILINE,
)
KNOWN = {"memset", "memcpy", "fmaf"}  # what every C library has; fmaf where nothing is fused


def called(text: str) -> set[str]:
    """Return what a module calls from elsewhere."""
    own = set(re.findall(r"^(\w+):", text, re.MULTILINE))
    return set(CALL.findall(text)) - own


def assembly(name: str, dtype: str, machine: Machine) -> str:
    """Return a kernel as text."""
    module = ir.Module(name)
    shape = kernel_shape(dtype, machine)
    if name == "planes":
        shape = KernelShape(dtype, shape.lanes, 1, (2, 3))
    EMITTERS[name](module, shape)
    return emit_assembly(str(module), machine)


@pytest.mark.parametrize("name", EMITTERS)
@pytest.mark.parametrize("cpu", MACHINES)
@every_half
def test_no_conversion_is_a_call(name: str, cpu: str, dtype: str) -> None:
    """A function for one float16 may not exist, and would cost more than the layer."""
    machine = MACHINES[cpu]
    if dtype == "float16" and not machine.converts_halves:
        return  # plans refuse it there: see tests/test_engine.py

    assert called(assembly(name, dtype, machine)) <= KNOWN


def test_the_check_for_calls_can_fail() -> None:
    """Without the instruction LLVM calls a function for each float16."""
    assert called(assembly("gather", "float16", SSE2)) - KNOWN
