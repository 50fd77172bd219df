"""LLVM IR to machine code, and machine code into this process."""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import Any

from tconv.errors import InternalError, TconvError, UnsupportedError
from tconv.plan.machine import Machine

try:
    import llvmlite
    from llvmlite import binding as llvm
except (ImportError, OSError) as error:
    raise UnsupportedError(
        "tconv compiler",
        "llvmlite cannot be imported.",
        got={"reason": type(error).__name__},
        rule="kernels are compiled by llvmlite",
        fix="install llvmlite for this Python and platform",
    ) from None

__all__ = [
    "LLVMLITE_VERSION",
    "LLVM_LOCK",
    "Kernel",
    "compile_object",
    "emit_assembly",
    "llvm",
    "load_object",
    "process_triple",
]

LLVMLITE_VERSION: str = llvmlite.__version__
SYMBOL_TABLE, SYMBOL = 2, struct.Struct("<IBBHQQ")  # of an ELF file

# Emitters choose vectors, unrolling and what is called; of LLVM's own pipeline these passes are
# what makes kernels faster, in a fifth of its time.
PASSES = (
    "simplify_cfg", "sroa", "instruction_combine", "simplify_cfg", "loop_simplify", "lcssa",
    "loop_rotate", "instruction_combine", "simplify_cfg", "aggressive_dce",
)  # fmt: skip

# One thread at a time: LLVM is serialised by llvmlite anyway, and a fork must not happen
# between two of its calls, or the child inherits a lock that nobody will open.  llvmlite's
# own lock counts too: it is taken by calls and destructors outside ours.
LLVM_LOCK = RLock()
if hasattr(os, "register_at_fork"):
    library = getattr(getattr(llvm, "ffi", None), "lib", None)
    own = getattr(getattr(library, "_lock", None), "_lock", None)
    locks: list[Any] = [own, LLVM_LOCK] if hasattr(own, "acquire") else [LLVM_LOCK]
    for lock in locks:  # the last one registered is taken first
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )

# Machine code is never unmapped: a worker thread may be inside it until the process ends.
_ENGINES: list[llvm.ExecutionEngine] = []


class Kernel:
    """Machine code in this process; its functions stay callable for the process's life."""

    __slots__ = ("_engine",)

    def __init__(self, engine: llvm.ExecutionEngine) -> None:
        self._engine = engine

    def address(self, name: str) -> int:
        """Return where a public function begins."""
        with LLVM_LOCK:
            found = self._engine.get_function_address(name)
        if not found:
            raise _broken("the compiled code has no such function.", function=name)
        return found


def compile_object(ir_text: str, machine: Machine) -> bytes:
    """Compile a module for a machine into an object file."""
    with _reported(machine), _optimised(ir_text, machine) as (module, target):
        return target.emit_object(module)


def emit_assembly(ir_text: str, machine: Machine) -> str:
    """Compile a module for any machine into text, to see what the CPU would run."""
    with _reported(machine), _optimised(ir_text, machine) as (module, target):
        return target.emit_assembly(module)


def load_object(data: bytes) -> Kernel:
    """Link an object file into this process; what it calls must exist here."""
    with LLVM_LOCK:
        _check_jit()
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine("", "", ""))
        # LLVM would call address 0 later instead of refusing a missing symbol now.
        missing = [name for name in _undefined(data) if llvm.address_of_symbol(name) is None]
        if missing:
            raise _broken("the compiled code calls what does not exist.", missing=sorted(missing))
        file = llvm.ObjectFileRef.from_data(data)
        if not file:
            raise _broken("the compiled code is not an object file.", bytes=len(data))
        engine.add_object_file(file)
        engine.finalize_object()
        _ENGINES.append(engine)
        return Kernel(engine)


@contextmanager
def _optimised(
    ir_text: str, machine: Machine
) -> Iterator[tuple[llvm.ModuleRef, llvm.TargetMachine]]:
    """Yield a module after the middle end, and the target that can write it down."""
    with LLVM_LOCK:
        target = _target_machine(machine.architecture, machine.cpu, machine.features)
        module = llvm.parse_assembly(ir_text)
        module.triple, module.data_layout = target.triple, str(target.target_data)
        module.verify()
        passes = llvm.create_new_module_pass_manager()
        for name in PASSES:
            getattr(passes, f"add_{name}_pass")()
        passes.run(module, llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options()))
        yield module, target


@contextmanager
def _reported(machine: Machine) -> Iterator[None]:
    """Turn LLVM's complaints into ours."""
    try:
        yield
    except TconvError:
        raise
    except RuntimeError as error:
        reason = str(error).strip().partition("\n")
        raise _broken(
            "LLVM refuses the code of a kernel.",
            machine=machine.cpu,
            reason=reason[2].partition("\n")[0] or reason[0],
        ) from None


def process_triple() -> str:
    """Return what LLVM calls the platform of this process."""
    return llvm.get_process_triple()


def _target_machine(architecture: str, cpu: str, features: str) -> llvm.TargetMachine:
    """Return LLVM's generator for a CPU; no names mean this process's own architecture."""
    triple = process_triple()
    own = triple.partition("-")[0].replace("arm64", "aarch64")  # Apple's word for it
    if architecture and architecture != own:
        _prepare_all()
        triple = f"{architecture}-unknown-linux-gnu"
    else:
        _prepare_native()
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError:
        raise UnsupportedError(
            "tconv compiler",
            "this llvmlite cannot generate code for the machine.",
            got={"machine": cpu or "this computer", "llvmlite": LLVMLITE_VERSION},
            rule="llvmlite must have been built with the machine's architecture",
            fix="install llvmlite from PyPI or conda-forge",
        ) from None
    return target.create_target_machine(
        cpu=cpu,
        features=features,
        opt=2,
        # Position-independent x86 code reads constants through a table that it does not need.
        reloc="static" if triple.startswith("x86_64") else "default",
        codemodel="jitdefault",
        jit=True,
    )


@cache
def _prepare_native() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # of instructions that code names itself


@cache
def _prepare_all() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@cache
def _check_jit() -> None:
    """Refuse where the system does not let a process write code."""
    try:
        llvm.check_jit_execution()
    except OSError as error:
        raise UnsupportedError(
            "tconv compiler",
            "this system does not let a process run code that it has written.",
            got={"reason": os.strerror(error.errno) if error.errno else "unknown"},
            rule="kernels are compiled in memory",
            fix="allow executable memory for this process (SELinux: execmem)",
        ) from None


def _undefined(data: bytes) -> set[str]:
    """Return what an ELF file needs from elsewhere; other formats name nothing."""
    if not data.startswith(b"\x7fELF\x02\x01"):
        return set()
    try:
        (begin,) = struct.unpack_from("<Q", data, 0x28)
        size, count = struct.unpack_from("<HH", data, 0x3A)
        sections = [
            struct.unpack_from("<IIQQQQII", data, begin + index * size) for index in range(count)
        ]
        found = set()
        for _, kind, _, _, offset, length, link, _ in sections:
            if kind != SYMBOL_TABLE:
                continue
            names = sections[link][4]
            for name, _, _, section, _, _ in SYMBOL.iter_unpack(data[offset : offset + length]):
                if name and not section:
                    end = data.index(b"\0", names + name)
                    found.add(data[names + name : end].decode("ascii"))
    except (struct.error, IndexError, ValueError):
        raise _broken("the compiled code is damaged.", bytes=len(data)) from None
    return found - {"_GLOBAL_OFFSET_TABLE_"}  # the loader's own


def _broken(wrong: str, **got: object) -> InternalError:
    return InternalError(
        "tconv compiler",
        wrong,
        got=got,
        rule="every kernel compiles, links and has its functions",
        fix="report this with the machine's name and the versions of tconv and llvmlite",
    )
