"""Kernels by what they were made from: in memory, then on disk, then compiled.

An entry on disk is code that this process will run, so it is read only when nobody else can
have written it, and only when it is whole.  Anything wrong with the disk means: compile.
"""

import json
import os
import re
import stat
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path

from tconv.errors import InternalError
from tconv.jit.compiler import (
    LLVM_LOCK,
    LLVMLITE_VERSION,
    Kernel,
    compile_object,
    load_object,
    process_triple,
)
from tconv.plan.machine import Machine

FORMAT = 1
MAGIC = b"tconv/jit"
HEADER = struct.Struct("<9sI32s32s32s")  # magic, format, key, hash of the IR, of the code
PREFIX = HEADER.size + 32  # the header and its own hash
MOST_BYTES = 64 * 1024**2
ENTRY = re.compile(r"[0-9a-f]{64}\.kernel")
PARTIAL = re.compile(r"partial-\w+\.tmp")

_LOADED: dict[str, Kernel] = {}


@dataclass(frozen=True, slots=True)
class KernelSource:
    """Where a kernel comes from: its IR, and names that change whenever the IR would.

    ``parameters`` spells out all that ``emit`` bakes; ``version`` is what
    :func:`source_version` says of the emitting package, and "" keeps the kernel off the disk.
    """

    name: str
    parameters: str
    version: str
    emit: Callable[[], str] = field(compare=False, repr=False)

    def key(self, machine: Machine) -> str:
        """Return the name under which this kernel's code for a machine is kept."""
        parts = [
            FORMAT,
            self.name,
            self.parameters,
            self.version,
            machine.cpu,
            machine.features,
            process_triple(),
            LLVMLITE_VERSION,
            _own_version(),
        ]
        return sha256(json.dumps(parts).encode()).hexdigest()


def source_version(package: Path) -> str:
    """Return a text that changes with any source file of a package; "" when there is none."""
    files = sorted(package.rglob("*.py"))
    parts = [
        (file.relative_to(package).as_posix(), sha256(file.read_bytes()).hexdigest())
        for file in files
    ]
    return sha256(json.dumps(parts).encode()).hexdigest() if parts else ""


def load_kernel(source: KernelSource, machine: Machine, folder: Path | None) -> Kernel:
    """Return a kernel, compiled at most once in this process and seldom on this computer.

    ``folder`` is the cache on disk, made when it is missing; None keeps off the disk.
    """
    key = source.key(machine)
    found = _LOADED.get(key)
    if found is not None:
        return found
    with LLVM_LOCK:  # whoever waits here finds the kernel of the thread that was first
        if key not in _LOADED:
            disk = folder if source.version and folder and _private_folder(folder) else None
            _LOADED[key] = load_object(_code(source, key, machine, disk))
        return _LOADED[key]


def cache_entries(folder: Path) -> dict[Path, int]:
    """Return the bytes of every kernel in a folder."""
    found = {}
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            if ENTRY.fullmatch(path.name):
                with suppress(OSError):
                    found[path] = path.lstat().st_size
    return found


def clear_cache(folder: Path) -> int:
    """Delete every kernel in a folder, and nothing else; return how many there were."""
    removed = 0
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            if ENTRY.fullmatch(path.name) or PARTIAL.fullmatch(path.name):
                with suppress(OSError):
                    path.unlink()
                    removed += path.suffix == ".kernel"
    return removed


def _code(source: KernelSource, key: str, machine: Machine, folder: Path | None) -> bytes:
    """Return a kernel's object file, from the disk if it is sound there."""
    known, code = _read(folder, key) if folder else (None, None)
    if code is not None:
        return code
    text = source.emit()
    made = sha256(text.encode()).digest()
    if known not in {None, made}:
        raise InternalError(
            "tconv cache",
            f"the kernel {source.name} has two meanings under one key.",
            got={"kernel": source.name, "parameters": source.parameters},
            rule="the parameters of a kernel name everything that its code depends on",
            fix="report this; until then clear the cache with: tconv cache --clear",
        )
    code = compile_object(text, machine)
    if folder:
        _write(folder, key, made, code)
    return code


def _read(folder: Path, key: str) -> tuple[bytes | None, bytes | None]:
    """Return the IR hash and the code of an entry, each None unless it can be trusted."""
    data = _read_private(folder / f"{key}.kernel")
    header, code = data[: HEADER.size], data[PREFIX:]
    if len(data) < PREFIX or sha256(header).digest() != data[HEADER.size : PREFIX]:
        return None, None
    magic, number, owner, ir_hash, code_hash = HEADER.unpack(header)
    if (magic, number, owner) != (MAGIC, FORMAT, bytes.fromhex(key)):
        return None, None
    return ir_hash, code if sha256(code).digest() == code_hash else None


def _read_private(path: Path) -> bytes:
    """Return a file that only this user can have written, else nothing."""
    # Without O_NONBLOCK a named pipe in place of the entry would wait for ever.
    flags = os.O_RDONLY | _flag("O_NOFOLLOW") | _flag("O_NONBLOCK") | _flag("O_BINARY")
    with suppress(OSError):
        number = os.open(path, flags)
        try:
            info = os.fstat(number)  # of the opened file: a name may change hands meanwhile
            if stat.S_ISREG(info.st_mode) and _is_ours(info):
                with os.fdopen(number, "rb", closefd=False) as file:
                    return file.read(MOST_BYTES)
        finally:
            os.close(number)
    return b""


def _write(folder: Path, key: str, ir_hash: bytes, code: bytes) -> None:
    """Put an entry in place at once, or not at all: a full or failing disk is no error."""
    header = HEADER.pack(MAGIC, FORMAT, bytes.fromhex(key), ir_hash, sha256(code).digest())
    with suppress(OSError):
        number, name = tempfile.mkstemp(prefix="partial-", suffix=".tmp", dir=folder)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(header + sha256(header).digest() + code)
            Path(name).replace(folder / f"{key}.kernel")
        finally:
            with suppress(OSError):
                Path(name).unlink()


def _private_folder(folder: Path) -> bool:
    """Make the folder if it is missing; tell whether only this user can write to it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = folder.stat()
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and _is_ours(info)


def _is_ours(info: os.stat_result) -> bool:
    if os.name == "nt":  # no owners or modes there; the user's profile is private
        return True
    return info.st_uid == os.getuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _flag(name: str) -> int:
    """Return a flag of ``os.open`` that only some platforms have."""
    return int(getattr(os, name, 0))


@cache
def _own_version() -> str:
    """Code depends on how this package compiles, too."""
    return source_version(Path(__file__).parent)
