"""``tconv bench --models`` as a person meets it, on models of a few channels."""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from engines import require
from tconv.bench.command import add_bench_parser
from tconv.errors import InternalError, ProblemError
from tconv.threads import get_num_threads, set_num_threads

torch = require.module("torch")

from tconv.bench import measure, models  # noqa: E402 - without torch this file is skipped
from tconv.bench.models import race  # noqa: E402 - as above


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - a generator
    """Race two small models without waiting, and leave the threads as they were."""
    small = tuple(
        dataclasses.replace(model, width=model.small_width, shape=model.small_shape)
        for model in models.MODELS
        if model.name in ("dcgan", "pose-head")
    )
    monkeypatch.setattr(models, "MODELS", small)
    monkeypatch.setattr(measure, "PATIENCE", 0.0)
    ours, theirs = get_num_threads(), torch.get_num_threads()
    yield
    torch.set_num_threads(theirs)
    set_num_threads(ours)


def bench(*arguments: str) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser()
    add_bench_parser(parser.add_subparsers())
    options = parser.parse_args(["bench", "--models", "--seconds", "0", *arguments])
    options.command(options)


def rows(text: str) -> list[str]:
    """Return the rows of the table by model, type and step."""
    return [
        " ".join(line.split()[:3])
        for line in text.splitlines()
        if line.startswith(("dcgan", "pose-head"))
    ]


def test_every_model_is_raced_in_both_types_and_steps(capsys: pytest.CaptureFixture[str]) -> None:
    """With a mean for each type and step below."""
    bench()
    text = capsys.readouterr().out

    assert rows(text) == [
        f"{name} {dtype} {step}"
        for dtype in ("float32", "bfloat16")
        for name in ("dcgan", "pose-head")
        for step in ("inference", "training")
    ]
    assert text.count("mean ") == 4


def test_names_and_types_choose_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file has what the table has, and more digits."""
    file = tmp_path / "r.json"
    bench("dcgan", "--dtype", "float32", "--threads", "1", "--json", str(file))
    record = json.loads(file.read_text())

    assert rows(capsys.readouterr().out) == ["dcgan float32 inference", "dcgan float32 training"]
    assert record["threads"] == 1
    assert [(lap["model"], lap["step"]) for lap in record["laps"]] == [
        ("dcgan", "inference"),
        ("dcgan", "training"),
    ]
    assert all(lap["error"] < 1e-3 and lap["ratio"] > 0 for lap in record["laps"])


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        (["dcgans"], "did you mean dcgan"),
        (["--dtype", "float16"], "did you mean bfloat16"),
        (["--threads", "0"], "threads >= 1"),
        (["--json", "/nowhere/r.json"], "cannot be written"),
    ],
)
def test_a_wrong_word_is_refused(arguments: list[str], fix: str) -> None:
    """Before anything is measured."""
    with pytest.raises(ProblemError, match=fix):
        bench(*arguments)


def test_a_wrong_result_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After all rows were measured."""

    def spoil(model: Any) -> None:  # noqa: ANN401 - torch is not typed
        with torch.no_grad():
            for each in model.parameters():
                each.mul_(1.1)

    monkeypatch.setattr(race, "accelerate", spoil)
    with pytest.raises(InternalError, match="2 of 2 results are too far from torch's"):
        bench("dcgan", "--dtype", "float32")

    assert "! wrong: " in capsys.readouterr().out


def test_without_torch_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the command line works without it."""
    import sys  # noqa: PLC0415 - patched here

    monkeypatch.setitem(sys.modules, "tconv.bench.models", None)
    with pytest.raises(ProblemError, match="torch cannot be imported"):
        bench()
