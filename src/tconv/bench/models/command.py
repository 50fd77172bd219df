"""``tconv bench --models``: race whole models, print rows as they come and their means."""

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

import tconv
from tconv.bench.models import Model
from tconv.bench.models.race import DTYPES, STEPS, Lap, geometric_mean, race_model
from tconv.bench.progress import Progress
from tconv.bench.results import describe_machine, write_record
from tconv.errors import InternalError

TITLE = "tconv bench --models"
ROW = "{:<10} {:<9} {:<10} {:>10} {:>10} {:>7}"
HEAD = ROW.format("model", "type", "step", "torch ms", "tconv ms", "ratio")


def run_models(
    models: Sequence[Model],
    dtypes: Sequence[str],
    threads: int,
    seconds: float,
    file: Path | None,
) -> None:
    """Race the models, print a table, and raise if a result of ours was wrong."""
    torch.set_num_threads(threads)
    _print([f"{describe_machine()['cpu']}, {threads} threads", f"torch {torch.__version__}", HEAD])
    laps: list[Lap] = []
    if file:
        _write(file, laps, threads)  # refuse a bad name now, not after the run
    progress = Progress(sys.stderr, len(models) * len(dtypes))
    try:
        for dtype in dtypes:
            for model in models:
                progress.show(f"{model.name} {dtype}")
                for lap in race_model(model, dtype, seconds):
                    laps.append(lap)
                    progress.clear()
                    _print(lap_lines(lap))
                progress.step()
    finally:
        progress.clear()
        if file:
            _write(file, laps, threads)
    _print(mean_lines(laps))
    wrong = [f"{lap.model} {lap.dtype} {lap.step}" for lap in laps if lap.wrong]
    if wrong:
        raise InternalError(
            TITLE,
            f"{len(wrong)} of {len(laps)} results are too far from torch's.",
            got={"rows": ", ".join(wrong)},
            rule="every result is within the tolerance of its element type",
            fix="please report this run",
        )


def lap_lines(lap: Lap) -> Iterator[str]:
    """Yield a row of the table, and a line below it when the result is wrong."""
    times = (f"{each * 1e3:.1f}" for each in (lap.theirs, lap.ours))
    yield ROW.format(lap.model, lap.dtype, lap.step, *times, f"{lap.ratio:.2f}")
    if lap.wrong:
        yield f"  ! wrong: {lap.error:.2g} of the result's size away from torch's"


def mean_lines(laps: Sequence[Lap]) -> Iterator[str]:
    """Yield the geometric mean of the ratios for each element type and step."""
    yield ""
    yield "tconv's speed as a multiple of torch's, in the median"
    for dtype in DTYPES:
        for step in STEPS:
            some = [lap for lap in laps if (lap.dtype, lap.step) == (dtype, step)]
            if some:
                least = min(some, key=lambda lap: lap.ratio)
                yield (
                    f"{dtype:<9} {step:<10} mean {geometric_mean(some):.2f}"
                    f"   least {least.ratio:.2f} ({least.model})"
                )


def _write(file: Path, laps: Sequence[Lap], threads: int) -> None:
    record = {
        "machine": describe_machine(),
        "versions": {"tconv": tconv.__version__, "torch": str(torch.__version__)},
        "threads": threads,
        "laps": [{**dataclasses.asdict(lap), "ratio": lap.ratio} for lap in laps],
    }
    write_record(file, record)


def _print(lines: Sequence[str] | Iterator[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
