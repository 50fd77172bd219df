"""What a run of the benchmark found, as records, and the JSON file of them."""

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from tconv import engine
from tconv.errors import ProblemError
from tconv.version import __version__

OURS = "tconv"
DIRECT = "tconv direct"  # the same without transforms, where they are chosen
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one candidate did: seconds for a call, or a note that says why there are none."""

    name: str
    fastest: float | None = None
    median: float | None = None
    samples: int = 0
    error: float | None = None  # largest, as a share of the right answer's root mean square
    code: str = ""  # the engine's own name for what ran
    note: str = ""
    wrong: bool = False  # it computed something else, or broke


@dataclass(frozen=True, slots=True)
class Row:
    """One layer, one wanted array, one layout: a race of all candidates."""

    layer: str
    wanted: str
    layout: str
    flops: int
    bytes: int
    outcomes: tuple[Outcome, ...]

    @property
    def ours(self) -> Outcome:
        """The outcome of tconv."""
        return next(each for each in self.outcomes if each.name == OURS)

    @property
    def direct(self) -> Outcome | None:
        """The outcome of tconv without transforms, where that is something else."""
        return next((each for each in self.outcomes if each.name == DIRECT), None)

    @property
    def best_peer(self) -> Outcome | None:
        """The fastest peer whose result is right, if there is any."""
        own = (OURS, DIRECT)
        timed = [each for each in self.outcomes if each.name not in own and each.fastest]
        return min(timed, key=lambda each: each.fastest or 0.0, default=None)

    def speed(self, outcome: Outcome | None) -> float | None:
        """Return GFLOP/s in the fastest sample."""
        return self.flops / outcome.fastest / 1e9 if outcome and outcome.fastest else None

    @property
    def ratio(self) -> float | None:
        """How many times as fast as the best peer we are."""
        ours, theirs = self.speed(self.ours), self.speed(self.best_peer)
        return ours / theirs if ours and theirs else None


@dataclass(slots=True)
class Results:
    """A whole run: where, with what, how, and every row."""

    machine: dict[str, object]
    versions: dict[str, str]
    settings: dict[str, object]
    peak: float  # GFLOP/s of the machine in this element type
    copy: float  # GB/s, read and written
    rows: list[Row] = field(default_factory=list)
    complete: bool = False

    def share(self, row: Row) -> float | None:
        """Return which share of the machine's peak we reach."""
        speed = row.speed(row.ours)
        return speed / self.peak if speed and self.peak else None

    def copy_share(self, row: Row) -> float | None:
        """Return our speed as a share of a plain copy's: all arrays touched once."""
        seconds = row.ours.fastest
        return row.bytes / seconds / 1e9 / self.copy if seconds and self.copy else None


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe_machine() -> dict[str, object]:
    """Return what a reader needs to know about this machine, and nothing that names its owner."""
    return {
        "cpu": _cpu_name(),
        "cpus": processors(),
        "kernels": str(engine.machine()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def write_results(path: Path, results: Results) -> None:
    """Write everything to a JSON file."""
    write_record(path, {"format": FORMAT, "tconv": __version__, **asdict(results)})


def write_record(path: Path, record: object) -> None:
    """Write a JSON file whole or not at all."""
    text = json.dumps(record, indent=1)
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise _refuse(f"{path} cannot be written: {error.strerror}.") from error


def read_results(path: Path) -> Results:
    """Read what :func:`write_results` wrote."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["format"] != FORMAT:
            raise _refuse(f"{path} has format {record['format']}.")
        rows = [_row(each) for each in record.pop("rows")]
        known = {name: record[name] for name in Results.__dataclass_fields__ if name != "rows"}
        return Results(rows=rows, **known)
    except OSError as error:
        raise _refuse(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ProblemError):
            raise
        raise _refuse(f"{path} holds no results.") from error


def _row(record: Mapping[str, object]) -> Row:
    outcomes = record["outcomes"]
    assert isinstance(outcomes, list)  # noqa: S101 - tells mypy
    return Row(**{**record, "outcomes": tuple(Outcome(**each) for each in outcomes)})  # type: ignore[arg-type]


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _refuse(wrong: str) -> ProblemError:
    return ProblemError(
        "tconv bench",
        wrong,
        got={},
        rule=f"results are a JSON file of format {FORMAT}, as `tconv bench --json F` writes it",
        fix="choose another file",
    )
