"""``tconv bench`` as a person meets it."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from bench.layers import ONE, TWO
from tconv.bench import command, measure
from tconv.bench.command import add_bench_parser
from tconv.bench.measure import race
from tconv.bench.peers import OURS, Peer
from tconv.bench.peers.peer import Ready, Task
from tconv.bench.results import read_results
from tconv.errors import InternalError, ProblemError
from tconv.threads import get_num_threads, set_num_threads


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Race tiny layers, and do not measure the machine for long."""
    monkeypatch.setattr(command, "load_suite", lambda: (ONE, TWO))
    monkeypatch.setattr(command, "fma_peak", lambda threads: 100.0 * threads)
    monkeypatch.setattr(command, "copy_bandwidth", lambda: 10.0)
    monkeypatch.setattr(measure, "PATIENCE", 0.0)


@pytest.fixture(autouse=True)
def _threads() -> object:
    """Leave the number of threads as it was."""
    before = get_num_threads()
    yield
    set_num_threads(before)


def bench(*arguments: str) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser()
    add_bench_parser(parser.add_subparsers())
    options = parser.parse_args(["bench", "--seconds", "0", *arguments])
    options.command(options)


def layers_of(lines: Sequence[str]) -> list[str]:
    """Return the rows of the table by layer, wanted array and layout."""
    names = (ONE.name, TWO.name)
    return [" ".join(line.split()[:3]) for line in lines if line.startswith(names)]


def test_without_arguments_everything_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """Every layer, every wanted array, both layouts, in the suite's order."""
    bench()
    printed = capsys.readouterr()

    assert layers_of(printed.out.splitlines()) == [
        f"{name} {wanted} {layout}"
        for name in ("1-D", "2-D")
        for wanted in ("fine", "coarse", "weights")
        for layout in ("NXC", "NCX")
    ]
    assert printed.err == ""


@pytest.mark.parametrize("more", [[], ["--eager"]])
def test_options_choose_rows(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Names, wanted arrays and layouts, in any case and order."""
    bench("2-D", "--wanted", "COARSE", "--layout", "ncx", "--threads", "1", *more)

    assert layers_of(capsys.readouterr().out.splitlines()) == ["2-D coarse NCX"]


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_types_are_measured(dtype: str, tmp_path: Path) -> None:
    """The peak of float64 is half of float32's."""
    file = tmp_path / "r.json"
    bench("1-D", "--dtype", dtype, "--threads", "2", "--json", str(file))
    results = read_results(file)

    assert len(results.rows) == 6
    assert results.peak == (100.0 if dtype == "float64" else 200.0)


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        (["1-d"], "did you mean 1-D"),
        (["--wanted", "fin"], "did you mean fine"),
        (["--layout", "NHWC"], "NXC"),
        (["--dtype", "int8"], "choose from"),
        (["--threads", "0"], "threads >= 1"),
        (["--seconds", "nan"], "threads >= 1"),
    ],
)
def test_a_wrong_word_is_refused_with_the_right_one(arguments: list[str], fix: str) -> None:
    """Before anything is measured."""
    with pytest.raises(ProblemError, match=fix):
        bench(*arguments)


def test_a_file_that_cannot_be_written_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not after half an hour."""
    with pytest.raises(ProblemError, match="cannot be written"):
        bench("--json", str(tmp_path / "none" / "r.json"))
    assert layers_of(capsys.readouterr().out.splitlines()) == []


def test_the_file_holds_every_candidate(tmp_path: Path) -> None:
    """Fastest and median, and the settings that they were measured with."""
    file = tmp_path / "r.json"
    bench("1-D", "--wanted", "fine", "--threads", "2", "--json", str(file))
    record = json.loads(file.read_text())
    outcome = record["rows"][0]["outcomes"][0]

    assert record["complete"] is True
    assert record["settings"] == {
        "dtype": "float32", "threads": 2, "calls": "bound", "seconds": 0.0,
    }  # fmt: skip
    assert outcome["name"] == "tconv"
    assert 0 < outcome["fastest"] <= outcome["median"]


def test_what_was_measured_before_an_interruption_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in a long run loses the row it is in, and no other."""
    calls = iter([False, False, True])

    def interrupted(*arguments: object) -> object:
        if next(calls):
            raise KeyboardInterrupt
        return race(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(command, "race", interrupted)
    file = tmp_path / "r.json"
    with pytest.raises(KeyboardInterrupt):
        bench("1-D", "--json", str(file))
    results = read_results(file)

    assert not results.complete
    assert [(row.wanted, row.layout) for row in results.rows] == [("fine", "NXC"), ("fine", "NCX")]


def test_a_missing_engine_is_named_once_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The race goes on without it."""
    absent = Peer("absent", "absent", "nothing", OURS["bound"].races)
    monkeypatch.setattr(command, "PEERS", (absent,))
    bench("1-D", "--peers")
    text = capsys.readouterr().out

    assert text.count("absent missing (cannot be imported") == 1


def test_a_wrong_result_of_ours_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After all rows were measured, so that the report is whole."""

    class Garbage(Peer):
        def prepare(self, task: Task) -> Ready:
            return Ready(lambda: None, lambda: np.zeros(task.layer.shape(task.wanted)))

    ours = OURS["bound"]
    wrong = Garbage(ours.name, ours.module, ours.function, ours.races)
    monkeypatch.setattr(command, "OURS", {"bound": wrong})
    with pytest.raises(InternalError, match="no right result in 2 of 2 rows"):
        bench("1-D", "--wanted", "fine")

    assert "! tconv wrong: off by" in capsys.readouterr().out
