"""Kernels are compiled once, and again only when something they depend on changes."""

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from jit.workshop import DAMAGES, IR, Workshop, start_child
from tconv.errors import InternalError
from tconv.jit import (
    Kernel,
    KernelSource,
    cache,
    clear_cache,
    host_machine,
    load_kernel,
    source_version,
)
from tconv.plan.machine import AVX2

FORK = """
import ctypes, os, sys, threading, time
from tconv.jit import KernelSource, host_machine, load_kernel
def source(number, wait):
    def emit():
        started.set()
        time.sleep(wait)
        return "define i64 @answer() {\\n  ret i64 %d\\n}" % number
    return KernelSource("answer", str(number), "", emit)
started, machine = threading.Event(), host_machine()
other = threading.Thread(target=load_kernel, args=(source(1, 0.3), machine, None))
other.start()
started.wait()
child = os.fork()
for number in (1, 2):
    kernel = load_kernel(source(number, 0), machine, None)
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(kernel.address("answer"))() == number
if not child:
    os._exit(0)
other.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Return a workshop over a folder that does not exist yet."""
    return Workshop(tmp_path / "made" / "here", monkeypatch)


def test_a_kernel_on_disk_is_neither_emitted_nor_compiled(workshop: Workshop) -> None:
    """Emitting alone takes longer than loading."""
    answers = [workshop.run() for _ in range(3)]

    assert answers == [42, 42, 42]
    assert (workshop.emitted, workshop.compiled) == (1, 1)


def test_a_kernel_in_memory_is_the_same_object(workshop: Workshop) -> None:
    """Without touching the disk."""
    workshop.run()
    first = load_kernel(workshop.source, host_machine(), workshop.folder)
    clear_cache(workshop.folder)

    assert load_kernel(workshop.source, host_machine(), workshop.folder) is first
    assert workshop.emitted == 1


def test_without_a_folder_kernels_are_compiled(workshop: Workshop) -> None:
    """None, and a source without version, keep off the disk."""
    workshop.source = replace(workshop.source, version="")
    workshop.run()
    workshop.run()

    assert workshop.emitted == 2
    assert not workshop.folder.exists()
    assert load_kernel(replace(workshop.source, parameters="1"), host_machine(), None)


def test_a_warm_fresh_process_neither_emits_nor_compiles(workshop: Workshop) -> None:
    """The first process does both, the next one neither."""
    said = []
    for _ in range(2):
        with start_child(workshop.folder) as child:
            said.append(child.communicate("\n", timeout=120)[0].splitlines()[-1])

    assert said == ["42 emitted compiled", "42"]


def test_eight_processes_may_start_on_a_cold_cache(workshop: Workshop) -> None:
    """All get the kernel, and one sound entry stays."""
    children = [start_child(workshop.folder) for _ in range(8)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    said = [child.communicate(timeout=120)[0].split()[0] for child in children]

    assert said == ["42"] * 8
    assert [child.returncode for child in children] == [0] * 8
    assert list(workshop.folder.iterdir()) == [workshop.entry]
    assert (workshop.run(), workshop.emitted) == (42, 0)


def test_eight_threads_compile_once(workshop: Workshop) -> None:
    """Whoever comes second waits for the first and shares its kernel."""
    barrier = threading.Barrier(8)
    kernels: list[Kernel] = []
    emitted: list[int] = []

    def emit() -> str:
        emitted.append(1)
        time.sleep(0.05)
        return IR.format(42)

    source = KernelSource("threads", "42", "1", emit)

    def work() -> None:
        barrier.wait()
        kernels.append(load_kernel(source, host_machine(), workshop.folder))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(emitted) == workshop.compiled == 1
    assert len(kernels) == 8
    assert len({id(kernel) for kernel in kernels}) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork there")
def test_a_fork_during_a_compilation_leaves_a_working_child() -> None:
    """The child must not inherit a lock that no thread of its own can open."""
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-W", "ignore", "-c", FORK],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (done.stdout.strip(), done.returncode) == ("0", 0), done.stderr


def test_the_key_changes_with_everything_that_the_code_depends_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Names, versions, the CPU, the compiler and the platform."""
    source = KernelSource("name", "parameters", "version", str)
    keys = [
        source.key(AVX2),
        replace(source, name="other").key(AVX2),
        replace(source, parameters="other").key(AVX2),
        replace(source, version="other").key(AVX2),
        replace(source, name="namep", parameters="arameters").key(AVX2),
        source.key(replace(AVX2, cpu="znver4")),
        source.key(replace(AVX2, features="+avx2,+fma")),
    ]
    for name, value in {
        "FORMAT": 0,
        "LLVMLITE_VERSION": "0",
        "process_triple": lambda: "elsewhere",
        "_own_version": lambda: "other",
    }.items():
        with monkeypatch.context() as patch:
            patch.setattr(cache, name, value)
            keys.append(source.key(AVX2))

    assert len(set(keys)) == len(keys) == 11
    assert source.key(AVX2) == keys[0]


def test_the_key_does_not_change_with_caches_or_the_emitter() -> None:
    """What is baked is named by the parameters, and two objects may emit the same."""
    source = KernelSource("name", "parameters", "version", str)

    assert source.key(AVX2) == replace(source, emit="".lower).key(replace(AVX2, l1=1, l3=1))


def test_the_version_changes_with_any_source_file(tmp_path: Path) -> None:
    """Content, name and number of the files count; other files do not."""
    (tmp_path / "inner").mkdir()
    versions = [source_version(tmp_path)]
    (tmp_path / "a.py").write_text("1")
    versions.append(source_version(tmp_path))
    (tmp_path / "a.py").write_text("2")
    versions.append(source_version(tmp_path))
    (tmp_path / "inner" / "b.py").write_text("")
    versions.append(source_version(tmp_path))
    (tmp_path / "inner" / "b.py").rename(tmp_path / "c.py")
    versions.append(source_version(tmp_path))
    (tmp_path / "a.pyc").write_text("3")

    assert versions[0] == ""
    assert len(set(versions)) == 5
    assert source_version(tmp_path) == versions[-1]


def test_two_meanings_of_one_key_are_our_fault(workshop: Workshop) -> None:
    """Parameters that do not name everything would run the wrong kernel one day."""
    workshop.run()
    workshop.entry.write_bytes(DAMAGES["one byte short"](workshop.entry.read_bytes()))
    workshop.source = replace(workshop.source, emit=lambda: IR.format(43))
    with pytest.raises(InternalError, match="two meanings"):
        workshop.run()
