"""IR to machine code, this CPU's description, and a cache in memory and on disk."""

from tconv.jit.cache import (
    KernelSource,
    cache_entries,
    clear_cache,
    load_kernel,
    source_version,
)
from tconv.jit.compiler import Kernel, compile_object, emit_assembly, load_object
from tconv.jit.host import host_machine
from tconv.plan.machine import Machine

__all__ = [
    "Kernel",
    "KernelSource",
    "Machine",
    "cache_entries",
    "clear_cache",
    "compile_object",
    "emit_assembly",
    "host_machine",
    "load_kernel",
    "load_object",
    "source_version",
]
