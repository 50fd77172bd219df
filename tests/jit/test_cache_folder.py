"""Nothing that lies on a disk, or happens to it, can make a wrong kernel run."""

import errno
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NoReturn
from unittest import mock

import pytest

from jit.workshop import DAMAGES, IR, Workshop
from tconv.jit import KernelSource, cache_entries, clear_cache, host_machine, load_kernel


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Return a workshop over a folder that does not exist yet."""
    return Workshop(tmp_path / "made" / "here", monkeypatch)


def fail(number: int) -> Callable[..., NoReturn]:
    """Return a function that fails as the system does."""

    def failing(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return failing


def full_disk(step: str, number: int) -> Callable[..., AbstractContextManager[object]]:
    """Return an ``os.fdopen`` whose files fail when written to, or only when closed."""

    @contextmanager
    def opened(descriptor: int, _: str) -> Iterator[object]:
        os.close(descriptor)
        with tempfile.TemporaryFile() as file:
            yield mock.Mock(write=fail(number) if step == "write" else file.write)
        fail(number)()

    return opened


def test_the_folder_and_its_entries_are_private(workshop: Workshop) -> None:
    """Nobody else may put code there, and nothing half-written stays."""
    workshop.run()

    assert stat.S_IMODE(workshop.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(workshop.entry.stat().st_mode) == 0o600
    assert list(workshop.folder.iterdir()) == [workshop.entry]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_rebuilt(workshop: Workshop, damage: str) -> None:
    """It is never run, and it is sound again afterwards."""
    workshop.run()
    sound = workshop.entry.read_bytes()
    workshop.entry.write_bytes(DAMAGES[damage](sound))

    assert workshop.entry.read_bytes() != sound
    assert (workshop.run(), workshop.emitted) == (42, 2)
    assert workshop.entry.read_bytes() == sound
    assert (workshop.run(), workshop.emitted) == (42, 2)


def test_an_entry_of_another_key_is_rebuilt(workshop: Workshop) -> None:
    """A sound kernel under a wrong name would compute something else."""
    other = KernelSource("answer", "41", "1", lambda: IR.format(41))
    load_kernel(other, host_machine(), workshop.folder)
    (entry,) = cache_entries(workshop.folder)
    workshop.entry.write_bytes(entry.read_bytes())
    workshop.entry.chmod(0o600)

    assert (workshop.run(), workshop.emitted) == (42, 1)


def to_link(entry: Path) -> None:
    """Put a link to a sound entry in its place."""
    entry.rename(entry.with_suffix(".moved"))
    entry.symlink_to(entry.with_suffix(".moved"))


def to_folder(entry: Path) -> None:
    """Put a folder in the entry's place."""
    entry.unlink()
    entry.mkdir()


def to_pipe(entry: Path) -> None:
    """Put a pipe in the entry's place, at which a careless reader waits for ever."""
    entry.unlink()
    os.mkfifo(entry)


@pytest.mark.skipif(os.name == "nt", reason="no owners, modes or pipes there")
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(to_link, id="a link"),
        pytest.param(to_folder, id="a folder"),
        pytest.param(to_pipe, id="a pipe"),
        pytest.param(lambda entry: entry.chmod(0o620), id="writable by the group"),
        pytest.param(lambda entry: entry.chmod(0o602), id="writable by others"),
    ],
)
def test_an_entry_that_others_may_have_made_is_rebuilt(
    workshop: Workshop, change: Callable[[Path], None]
) -> None:
    """Its content is sound here, so only where it lies can give it away."""
    workshop.run()
    change(workshop.entry)

    assert (workshop.run(), workshop.emitted) == (42, 2)


@pytest.mark.skipif(os.name == "nt", reason="no owners there")
def test_an_entry_of_another_user_is_rebuilt(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even in a folder of ours."""
    workshop.run()

    def foreign(number: int) -> os.stat_result:
        info = list(os.stat(number))
        info[stat.ST_UID] += 1
        return os.stat_result(info)

    monkeypatch.setattr(os, "fstat", foreign)

    assert (workshop.run(), workshop.emitted) == (42, 2)


@pytest.mark.skipif(os.name == "nt", reason="no owners or modes there")
@pytest.mark.parametrize("wrong", ["writable by the group", "writable by others", "foreign"])
def test_a_folder_that_others_can_write_to_is_not_used(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """Nothing is read from it and nothing written to it."""
    workshop.run()
    if wrong == "foreign":
        user = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: user + 1)
    else:
        workshop.folder.chmod(0o770 if "group" in wrong else 0o702)

    assert (workshop.run(), workshop.emitted) == (42, 2)
    clear_cache(workshop.folder)
    assert (workshop.run(), workshop.emitted) == (42, 3)
    assert cache_entries(workshop.folder) == {}


@pytest.mark.parametrize("place", ["folder", "its parent"])
def test_a_file_in_place_of_a_folder_is_no_error(workshop: Workshop, place: str) -> None:
    """The kernel is made in memory."""
    file = workshop.folder if place == "folder" else workshop.folder.parent
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine")

    assert (workshop.run(), workshop.run()) == (42, 42)
    assert file.read_text() == "mine"
    assert cache_entries(workshop.folder) == {}
    assert clear_cache(workshop.folder) == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("step", ["mkdir", "stat", "mkstemp", "write", "close", "replace"])
def test_a_failing_disk_is_silent(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, step: str, number: int
) -> None:
    """At whatever step it fails, the kernel runs and no part of a file stays."""
    where: dict[str, object] = {"mkdir": Path, "stat": Path, "mkstemp": tempfile, "replace": Path}
    if step in where:
        monkeypatch.setattr(where[step], step, fail(number))
    else:
        monkeypatch.setattr(os, "fdopen", full_disk(step, number))
    answer = workshop.run()
    monkeypatch.undo()

    assert answer == 42
    assert not workshop.folder.exists() or list(workshop.folder.iterdir()) == []


def test_clearing_deletes_kernels_and_nothing_else(workshop: Workshop) -> None:
    """A user may have named a folder with files of their own."""
    workshop.run()
    load_kernel(replace(workshop.source, parameters="1"), host_machine(), workshop.folder)
    (workshop.folder / "partial-x1.tmp").write_text("left by a killed process")
    mine = [workshop.folder / name for name in ("notes.txt", "popcorn.kernel", "x.tmp")]
    for file in mine:
        file.write_text("mine")
    entries = cache_entries(workshop.folder)

    assert sum(entries.values()) == sum(path.stat().st_size for path in entries)
    assert clear_cache(workshop.folder) == len(entries) == 2
    assert sorted(workshop.folder.iterdir()) == mine
    assert clear_cache(workshop.folder / "missing") == 0
