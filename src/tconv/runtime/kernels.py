"""The compiled kernels of this machine, loaded when first needed."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from llvmlite import ir

from tconv import codegen, plan
from tconv.codegen.block import KernelShape
from tconv.codegen.correlate import emit_correlate
from tconv.codegen.gather import emit_gather
from tconv.codegen.planes import emit_planes
from tconv.codegen.weights import emit_pack_weights
from tconv.codegen.winograd import emit_winograd
from tconv.codegen.winograd_weights import emit_transform_weights
from tconv.jit import KernelSource, Machine, host_machine, load_kernel, source_version
from tconv.plan.choose import tile_rows
from tconv.plan.transforms import Form
from tconv.settings import settings


@cache
def machine() -> Machine:
    """Return the machine that kernels are made for."""
    return host_machine(settings().cpu)


def kernel_shape(dtype: str, target: Machine) -> KernelShape:
    """Return the register tiles for a machine: a large one, and one for what is left."""
    return KernelShape(dtype, target.lanes(dtype), 2, (tile_rows(target), 4))


@cache
def gather_kernel(dtype: str) -> int:
    """Return the address of ``gather(record, scratch, item)``."""
    return _address("gather", dtype, emit_gather)


@cache
def correlate_kernel(dtype: str) -> int:
    """Return the address of ``correlate(record, scratch, item)``."""
    return _address("correlate", dtype, emit_correlate)


@cache
def planes_kernel(dtype: str, rows: int) -> int:
    """Return the address of ``planes(record, scratch, item)`` for so many channels a group."""
    shape = KernelShape(dtype, machine().lanes(dtype), 1, (rows,))
    return _compiled("planes", shape, emit_planes)


@cache
def pack_weights_kernel(dtype: str) -> int:
    """Return the address of ``pack_weights(record, scratch, item)``."""
    return _address("pack_weights", dtype, emit_pack_weights)


@cache
def winograd_kernel(dtype: str, forms: tuple[Form, ...]) -> int:
    """Return the address of ``winograd(record, scratch, item)`` for forms of the axes."""
    return _address("winograd", dtype, partial(emit_winograd, forms=forms), str(forms))


@cache
def transform_weights_kernel(dtype: str, forms: tuple[Form, ...]) -> int:
    """Return the address of ``transform_weights(record, scratch, item)``, likewise."""
    emit = partial(emit_transform_weights, forms=forms)
    return _address("transform_weights", dtype, emit, str(forms))


def _address(
    name: str, dtype: str, emit: Callable[[ir.Module, KernelShape], object], more: str = ""
) -> int:
    return _compiled(name, kernel_shape(dtype, machine()), emit, more)


def _compiled(
    name: str,
    shape: KernelShape,
    emit: Callable[[ir.Module, KernelShape], object],
    more: str = "",
) -> int:
    """Return a kernel's address; ``more`` is what it is baked for besides the shape."""

    def text() -> str:
        module = ir.Module(name)
        emit(module, shape)
        return str(module)

    source = KernelSource(name, f"{shape!r}{more}", _version(), text)
    return load_kernel(source, machine(), settings().cache_dir).address(f"{name}_{shape.dtype}")


@cache
def _version() -> str:
    """Return what changes with any file that kernels are made from."""
    return "".join(source_version(Path(package.__path__[0])) for package in (codegen, plan))
