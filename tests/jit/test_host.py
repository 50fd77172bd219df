"""This CPU's description, and what is believed about caches."""

from pathlib import Path

import pytest
from llvmlite import binding

from tconv.errors import ProblemError, UnsupportedError
from tconv.jit import compile_object, host_machine
from tconv.jit.host import LEVELS, USUAL, cache_sizes, describe
from tconv.plan.machine import AVX2, AVX512, KIB, NEON, SSE2, Machine

Row = tuple[str, str, str]  # level, type, size

INSTRUCTIONS: Row = ("1", "Instruction", "64K")


def sysfs(folder: Path, *rows: Row) -> Path:
    """Write the files in which Linux describes caches."""
    for index, row in enumerate(rows):
        entry = folder / f"index{index}"
        entry.mkdir()
        for name, text in zip(("level", "type", "size"), row, strict=True):
            (entry / name).write_text(f"{text}\n")
    return folder


@pytest.mark.parametrize("machine", [SSE2, AVX2, AVX512, NEON], ids=lambda m: m.cpu)
def test_vectors_and_registers_follow_from_features(machine: Machine) -> None:
    """The named machines are what the rule gives for their features."""
    caches = machine.l1, machine.l2, machine.l3

    assert describe(machine.cpu, machine.features, caches) == machine


@pytest.mark.parametrize("features", ["", "+avx", "+avx2", "-avx512f,+sse2", "-avx2,-fma"])
def test_wide_vectors_need_fused_multiplication(features: str) -> None:
    """Features with a minus, or half of a pair, give the baseline."""
    machine = describe("any", features, USUAL)

    assert (machine.vector_bytes, machine.registers) == (16, 16)


def test_lanes_count_sums() -> None:
    """Small floats are summed in float32, so a register holds as many of them as of it."""
    counts = [AVX2.lanes(dtype) for dtype in ("float64", "float32", "float16", "bfloat16")]

    assert counts == [4, 8, 8, 8]


def test_the_host_is_described_once() -> None:
    """The record names a CPU that LLVM knows and sizes that make sense."""
    machine = host_machine()

    assert host_machine() is machine
    assert machine.cpu == binding.get_host_cpu_name()
    assert machine.vector_bytes in {16, 32, 64}
    assert machine.l1 <= machine.l2 <= machine.l3
    assert str(machine).startswith(f"{machine.cpu}: {machine.registers} registers")


def test_an_arm_host_has_vectors_even_when_nobody_lists_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """NEON is part of the architecture."""
    monkeypatch.setattr(binding, "get_process_triple", lambda: "arm64-apple-darwin")
    monkeypatch.setattr(binding, "get_host_cpu_features", binding.FeatureMap)
    machine = host_machine.__wrapped__()

    assert machine.architecture == "aarch64"
    assert (machine.vector_bytes, machine.registers) == (16, 32)


def test_other_architectures_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the architecture and a way that works."""
    monkeypatch.setattr(binding, "get_process_triple", lambda: "riscv64-unknown-linux-gnu")
    with pytest.raises(UnsupportedError, match="not made for riscv64") as caught:
        host_machine.__wrapped__()

    assert "TCONV_ENGINE=numpy" in str(caught.value)


@pytest.mark.skipif(host_machine().architecture != "x86_64", reason="levels of x86-64")
@pytest.mark.parametrize("cpu", LEVELS)
def test_a_level_is_described_or_refused_by_what_the_host_has(cpu: str) -> None:
    """Code for a level that the host lacks would end the process."""
    host = host_machine()
    if all(host.has(name) for name in LEVELS[cpu]):
        machine = host_machine(cpu)

        assert machine.cpu == cpu
        assert machine.vector_bytes <= host.vector_bytes
        assert compile_object("define void @f() {\n  ret void\n}", machine)
    else:
        with pytest.raises(ProblemError, match="TCONV_CPU"):
            host_machine(cpu)


def test_a_level_above_the_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names what is missing."""
    monkeypatch.setattr(binding, "get_process_triple", lambda: "x86_64-unknown-linux-gnu")
    plain = binding.FeatureMap({"sse2": True, "avx2": False})
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: plain)
    with pytest.raises(ProblemError, match="TCONV_CPU is 'x86-64-v3'") as caught:
        host_machine.__wrapped__("x86-64-v3")

    assert "it lacks avx2" in str(caught.value)


def test_an_unknown_cpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM would ignore the name, or end the process for a CPU without 64 bits."""
    monkeypatch.setattr(binding, "get_process_triple", lambda: "x86_64-unknown-linux-gnu")
    monkeypatch.setattr(binding, "get_host_cpu_features", binding.FeatureMap)
    with pytest.raises(ProblemError, match="TCONV_CPU is 'pentium'") as caught:
        host_machine.__wrapped__("pentium")

    assert "x86-64-v3" in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [
        pytest.param(
            [
                ("1", "Data", "48K"),
                INSTRUCTIONS,
                ("2", "Unified", "2048K"),
                ("3", "Unified", "36M"),
            ],
            (48 * KIB, 2048 * KIB, 36 * KIB**2),
            id="a desktop",
        ),
        pytest.param(
            [("1", "Data", "32K"), ("2", "Unified", "1M")],
            (32 * KIB, KIB**2, KIB**2),
            id="two levels",
        ),
        pytest.param([], USUAL, id="silence"),
        pytest.param(
            [("1", "Data", "0K"), ("2", "Unified", "0K"), ("3", "Unified", "0K")],
            USUAL,
            id="zeros",
        ),
        pytest.param(
            [("1", "Data", "much"), ("two", "Unified", "1M"), ("3", "Unified", "")],
            USUAL,
            id="words",
        ),
        pytest.param([INSTRUCTIONS], USUAL, id="instructions only"),
        pytest.param(
            [("1", "Data", "32K"), ("2", "Unified", "4M"), ("3", "Unified", "1M")],
            (32 * KIB, 4 * KIB**2, 4 * KIB**2),
            id="a last cache that is not the largest",
        ),
        pytest.param(
            [("1", "Data", "64G"), ("2", "Unified", "1M"), ("3", "Unified", "8M")],
            (USUAL[0], KIB**2, 8 * KIB**2),
            id="one absurd level",
        ),
    ],
)
def test_cache_sizes_are_read_but_not_believed_blindly(
    tmp_path: Path, rows: list[Row], sizes: tuple[int, int, int]
) -> None:
    """Bytes of the data caches, rising from level to level."""
    assert cache_sizes(sysfs(tmp_path, *rows)) == sizes


def test_a_missing_folder_gives_the_usual_caches(tmp_path: Path) -> None:
    """Other systems than Linux have no such folder."""
    assert cache_sizes(tmp_path / "missing") == USUAL
