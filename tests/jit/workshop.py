"""A kernel whose making is counted, in this process and in others."""

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tconv.jit import KernelSource, cache, compile_object, host_machine, load_kernel
from tconv.plan.machine import Machine

IR = "define i64 @answer() {{\n  ret i64 {}\n}}"

# A fresh process that loads the kernel 42 from a folder when told, and says what it did.
CHILD = """
import ctypes, sys
from pathlib import Path
from tconv.jit import KernelSource, cache, host_machine, load_kernel
done = []
compile_object = cache.compile_object
cache.compile_object = lambda *a: done.append("compiled") or compile_object(*a)
def emit():
    done.append("emitted")
    return "define i64 @answer() {\\n  ret i64 42\\n}"
machine = host_machine()
print("ready", flush=True)
sys.stdin.readline()
kernel = load_kernel(KernelSource("answer", "42", "1", emit), machine, Path(sys.argv[1]))
print(ctypes.CFUNCTYPE(ctypes.c_int64)(kernel.address("answer"))(), *done)
"""

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "half a header": lambda data: data[:40],
    "a header alone": lambda data: data[: cache.PREFIX],
    "one byte short": lambda data: data[:-1],
    "one byte long": lambda data: data + b"\0",
    "another magic": lambda data: b"X" + data[1:],
    "another format": lambda data: data[:9] + b"\xff" + data[10:],
    "a bit of the key": lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],
    "a bit of the code": lambda data: data[:-200] + bytes([data[-200] ^ 1]) + data[-199:],
    "a bit of the IR hash, and half the code": lambda data: (
        data[:50] + bytes([data[50] ^ 1]) + data[51:-200]
    ),
    "zeros": lambda data: bytes(len(data)),
}


class Workshop:
    """Loads the kernel 42 as a fresh process would, and counts the work."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.emitted, self.compiled = folder, 0, 0
        self.source = KernelSource("answer", "42", "1", self._emit)
        self._patch = monkeypatch
        monkeypatch.setattr(cache, "compile_object", self._compile)

    @property
    def entry(self) -> Path:
        """Where the kernel is kept."""
        return self.folder / f"{self.source.key(host_machine())}.kernel"

    def run(self) -> int:
        """Forget what is in memory, load the kernel and call it."""
        self._patch.setattr(cache, "_LOADED", {})
        kernel = load_kernel(self.source, host_machine(), self.folder)
        return int(ctypes.CFUNCTYPE(ctypes.c_int64)(kernel.address("answer"))())

    def _emit(self) -> str:
        self.emitted += 1
        return IR.format(42)

    def _compile(self, text: str, machine: Machine) -> bytes:
        self.compiled += 1
        return compile_object(text, machine)


def start_child(folder: Path) -> subprocess.Popen[str]:
    """Start a process that waits for :func:`finish_child`."""
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", CHILD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
