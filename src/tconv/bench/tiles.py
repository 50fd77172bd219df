"""AMX that a virtual machine announces without saying how large its tiles are.

oneDNN, which torch computes bfloat16 with, then sets up no tiles and dies of the first one it uses.
"""

import ctypes
import os
from array import array

from llvmlite import ir

from tconv.codegen.build import I64, function, load, store
from tconv.jit import KernelSource, host_machine, load_kernel

TILES, PALETTE = 0x1D, 1  # the leaf of CPUID about tiles, and its part about the only palette
VARIABLE, WITHOUT_TILES = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16"
I32 = ir.IntType(32)


def keep_from_missing_tiles() -> None:
    """Tell every oneDNN of this process and its children to leave such tiles alone.

    It looks when it is first used; a user who has decided is not overruled.
    """
    if host_machine().has("amx-tile") and not any(_cpuid(TILES, PALETTE)):
        os.environ.setdefault(VARIABLE, WITHOUT_TILES)


def emit_cpuid(module: ir.Module) -> ir.Function:
    """Emit ``cpuid(words)``: a leaf and its part in, the four registers out."""
    made, b = function(module, "cpuid", [I64.as_pointer()], public=True)
    (words,) = made.args
    asked = [b.trunc(load(b, words, place), I32) for place in range(2)]
    answer = ir.FunctionType(ir.LiteralStructType([I32] * 4), [I32] * 2)
    registers = "={eax},={ebx},={ecx},={edx},0,2"
    told = b.asm(answer, "cpuid", registers, asked, side_effect=True)
    for place in range(4):
        store(b, b.zext(b.extract_value(told, place), I64), words, place)
    b.ret_void()
    return made


def _cpuid(leaf: int, part: int) -> list[int]:
    def text() -> str:
        module = ir.Module("cpuid")
        emit_cpuid(module)
        return str(module)

    kernel = load_kernel(KernelSource("cpuid", "", "", text), host_machine(), None)
    words = array("q", [leaf, part, 0, 0])
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address("cpuid"))(words.buffer_info()[0])
    return words.tolist()
