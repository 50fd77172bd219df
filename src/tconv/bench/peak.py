"""The most that this CPU's fused multiply-adds can do: a loop of nothing else."""

import time
from array import array
from functools import cache

from llvmlite import ir

from tconv.codegen.build import FLOATS, I64, counted, fma, function, load, store, zeros
from tconv.jit import KernelSource, load_kernel
from tconv.runtime import pool
from tconv.runtime.kernels import machine
from tconv.runtime.scratch import scratch_address

SUMS = 12  # enough to hide the latency of an addition, few enough to stay in registers
TURNS = 1 << 18


def emit_peak(module: ir.Module, lanes: int) -> ir.Function:
    """Emit ``peak(record, scratch, item)``: ``record[0]`` turns of independent additions."""
    vector = ir.VectorType(FLOATS["float32"], lanes)
    pointer = FLOATS["float32"].as_pointer()
    made, b = function(module, "peak", [I64.as_pointer(), pointer, I64], public=True)
    record, scratch, _ = made.args
    factor = ir.Constant(vector, [0.5] * lanes)
    with counted(b, load(b, record), [zeros(vector)] * SUMS) as turn:
        turn.carried = [fma(b, total, factor, factor) for total in turn.carried]
    for place, total in enumerate(turn.carried):
        store(b, total, scratch, place * lanes)
    b.ret_void()
    return made


def fma_peak(threads: int, seconds: float = 0.5) -> float:
    """Return the GFLOP/s that so many threads reach at most in float32."""
    lanes = machine().lanes("float32")
    record = array("q", [TURNS])
    size = 64 * SUMS * lanes
    workers = min(threads, 64)
    scratch = scratch_address(size * workers)
    best, begin = float("inf"), time.perf_counter()
    while time.perf_counter() - begin < seconds or best == float("inf"):
        start = time.perf_counter()
        pool.run(_kernel(lanes), record.buffer_info()[0], scratch, size, workers, workers)
        best = min(best, time.perf_counter() - start)
    return 2 * SUMS * lanes * TURNS * workers / best / 1e9


@cache
def _kernel(lanes: int) -> int:
    def text() -> str:
        module = ir.Module("peak")
        emit_peak(module, lanes)
        return str(module)

    return load_kernel(KernelSource("peak", str(lanes), "", text), machine(), None).address("peak")
