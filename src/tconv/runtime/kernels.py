"""The compiled kernels of this machine, loaded when first needed."""

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

from llvmlite import ir

from tconv import codegen, plan
from tconv.codegen.correlate import emit_correlate
from tconv.codegen.gather import KernelShape, emit_gather
from tconv.codegen.weights import emit_pack_weights
from tconv.jit import KernelSource, Machine, host_machine, load_kernel, source_version
from tconv.plan.choose import tile_rows
from tconv.settings import settings

WORD = ctypes.c_int64


@cache
def machine() -> Machine:
    """Return the machine that kernels are made for."""
    return host_machine(settings().cpu)


def kernel_shape(dtype: str, target: Machine) -> KernelShape:
    """Return the register tiles for a machine, from the largest to a single row."""
    return KernelShape(dtype, target.lanes(dtype), 2, (tile_rows(target), 4, 2, 1))


@cache
def gather_kernel(dtype: str) -> int:
    """Return the address of ``gather(record, scratch, item)``."""
    return _address("gather", dtype, lambda module, shape: emit_gather(module, shape))


@cache
def correlate_kernel(dtype: str) -> int:
    """Return the address of ``correlate(record, scratch, item)``."""
    return _address("correlate", dtype, lambda module, shape: emit_correlate(module, shape))


@cache
def pack_weights_kernel(dtype: str) -> Callable[..., int]:
    """Return ``pack_weights`` as a function of addresses and numbers."""
    address = _address("pack_weights", dtype, emit_pack_weights)
    return ctypes.CFUNCTYPE(WORD, *[WORD] * 10)(address)


def _address(name: str, dtype: str, emit: Callable[[ir.Module, KernelShape], object]) -> int:
    shape = kernel_shape(dtype, machine())

    def text() -> str:
        module = ir.Module(name)
        emit(module, shape)
        return str(module)

    source = KernelSource(name, repr(shape), _version(), text)
    return load_kernel(source, machine(), settings().cache_dir).address(f"{name}_{dtype}")


@cache
def _version() -> str:
    """Return what changes with any file that kernels are made from."""
    return "".join(source_version(Path(package.__path__[0])) for package in (codegen, plan))
