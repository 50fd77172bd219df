"""``tconv bench --cliffs``: which random layers are slow for their family."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tconv.bench.cliffs import Timed, by_slowness, worst_lines
from tconv.bench.command import add_bench_parser
from tconv.errors import ProblemError
from tconv.threads import get_num_threads, set_num_threads


@pytest.fixture(autouse=True)
def _threads() -> object:
    """Leave the number of threads as it was."""
    before = get_num_threads()
    yield
    set_num_threads(before)


def bench(*arguments: str) -> None:
    """Run the command, every layer for a call or two."""
    parser = argparse.ArgumentParser()
    add_bench_parser(parser.add_subparsers())
    options = parser.parse_args(["bench", "--cliffs", "--seconds", "0", *arguments])
    options.command(options)


def test_a_handful_of_layers_is_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them are in the file, with what draws them again."""
    file = tmp_path / "c.json"
    bench("--count", "5", "--seed", "3", "--threads", "1", "--json", str(file))
    record = json.loads(file.read_text())
    printed = capsys.readouterr()

    assert sorted(layer["place"] for layer in record["layers"]) == [0, 1, 2, 3, 4]
    assert record["seed"] == 3
    assert all(layer["seconds"] > 0 for layer in record["layers"])
    assert len(printed.out.splitlines()) == 2 + 5 + 1
    assert printed.err == ""


def test_the_slow_one_of_a_family_comes_first() -> None:
    """By time for the same work, beside its own family only."""
    usual = Timed(0, "dense", "FINE", "layer", "phases", 2000, 1000, 1e-3)
    larger = replace(usual, place=1, flops=4000, work=2000, seconds=2e-3)
    cliff = replace(usual, place=2, seconds=8e-3)
    other = replace(usual, place=3, family="grouped", seconds=1.0)
    ranked = by_slowness([usual, larger, cliff, other])
    *lines, last = worst_lines([usual, larger, cliff, other])

    assert ranked[0][1] == cliff
    assert [times for times, _ in ranked] == pytest.approx([8, 1, 1, 1])
    assert "#2 layer" in lines[0]
    assert last.startswith("1 of 4 layers")


@pytest.mark.parametrize(
    "arguments", [["dcgan_2"], ["--models"], ["--peers"], ["--count", "0"], ["--threads", "0"]]
)
def test_what_makes_no_sense_beside_it_is_refused(arguments: list[str]) -> None:
    """Nothing is ignored."""
    with pytest.raises(ProblemError):
        bench(*arguments)
