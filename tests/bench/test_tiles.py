"""Engines are kept from AMX where a virtual machine announces it without tiles."""

import os

import pytest

from tconv.bench import tiles
from tconv.jit import host_machine
from tconv.plan.machine import AVX512

ANNOUNCED = "+avx512f,+amx-tile,+amx-bf16"
PALETTE = [0x4002000, 0x80040, 0x10, 0]  # as CPUs with tiles answer


def limit_on(
    monkeypatch: pytest.MonkeyPatch, features: str, answer: list[int], before: str | None = None
) -> str | None:
    """Return what oneDNN is told on a CPU with these features and this answer of CPUID."""
    monkeypatch.setattr(tiles, "host_machine", lambda: described(features))
    monkeypatch.setattr(tiles, "_cpuid", lambda *_: answer)
    monkeypatch.setenv(tiles.VARIABLE, before or "")
    if before is None:
        monkeypatch.delenv(tiles.VARIABLE)
    tiles.keep_from_missing_tiles()
    return os.environ.get(tiles.VARIABLE)


def described(features: str) -> object:
    """Return a machine with these features."""
    return type(AVX512)("emeraldrapids", features, 64, 32, AVX512.l1, AVX512.l2, AVX512.l3)


def test_only_tiles_without_a_size_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sound tiles are raced; a CPU without any is told nothing."""
    limits = [
        limit_on(monkeypatch, ANNOUNCED, [0] * 4),
        limit_on(monkeypatch, ANNOUNCED, PALETTE),
        limit_on(monkeypatch, "+avx512f", [0] * 4),
    ]

    assert limits == [tiles.WITHOUT_TILES, None, None]


def test_a_user_who_has_decided_is_not_overruled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in the environment stays."""
    assert limit_on(monkeypatch, ANNOUNCED, [0] * 4, before="AVX2") == "AVX2"


@pytest.mark.skipif(host_machine().architecture != "x86_64", reason="CPUID is x86's")
def test_cpuid_names_its_maker() -> None:
    """Leaf 0 is the greatest leaf, then twelve letters."""
    greatest, b, c, d = tiles._cpuid(0, 0)  # noqa: SLF001 - the instruction itself
    maker = b"".join(word.to_bytes(4, "little") for word in (b, d, c))

    assert greatest > 0
    assert maker.isascii()
    assert len(maker.strip()) > 3
