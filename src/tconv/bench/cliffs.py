"""``tconv bench --cliffs``: random layers by the clock, the slow ones of each family first."""

import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tconv.bench.families import Limits, draw_layers
from tconv.bench.measure import fastest_call
from tconv.bench.progress import Progress
from tconv.bench.results import describe_machine, write_record
from tconv.engine import executable
from tconv.plan.count import count_least
from tconv.problem import Operand, Problem, numpy_dtype

LIMITS = Limits(flops=(2_000_000, 500_000_000), bytes=64 << 20)
SHOWN = 20
ROW = "{:>6} {:>10} {:>8}  {:<19} {:<10} {}"
HEAD = ROW.format("times", "ms", "GFLOP/s", "family", "algorithm", "layer")


@dataclass(frozen=True, slots=True)
class Timed:
    """One layer and the fastest of its calls."""

    place: int  # among the layers of its seed
    family: str
    wanted: str
    layer: str
    algorithm: str
    flops: int
    work: int  # what no plan can do without, in multiplications
    seconds: float

    @property
    def pace(self) -> float:
        """Seconds for a unit of work."""
        return self.seconds / self.work


def run_cliffs(count: int, seed: int, seconds: float, file: Path | None) -> None:
    """Time so many random layers, and print those that are slowest for their family."""
    found: list[Timed] = []
    if file:
        _write(file, found, seed)  # refuse a bad name now, not after the run
    progress = Progress(sys.stderr, count)
    try:
        for place, (family, problem) in enumerate(draw_layers(seed, count, LIMITS)):
            progress.show(f"{family} {problem.wanted.name}")
            found.append(time_layer(place, family, problem, seconds))
            progress.step()
    finally:
        progress.clear()
        if file:
            _write(file, found, seed)
    for line in (f"{describe_machine()['cpu']}, seed {seed}", HEAD, *worst_lines(found)):
        sys.stdout.write(f"{line}\n")


def time_layer(place: int, family: str, problem: Problem, seconds: float) -> Timed:
    """Time a layer with its weights packed, for some seconds."""
    generator = np.random.default_rng(place)
    dtype = numpy_dtype(problem.dtype)
    first, second = (
        generator.uniform(-1, 1, problem.shape(operand)).astype(dtype) for operand in problem.given
    )
    run = executable(problem, bound=True)
    given = second if problem.wanted is Operand.WEIGHTS else run.pack(second)
    out = np.empty(problem.shape(problem.wanted), dtype)
    took = fastest_call(lambda: run.run(first, given, None, out), seconds)
    return Timed(
        place, family, problem.wanted.name, layer_text(problem), run.plan.algorithm,
        problem.flops(), count_least(problem).cost(), took,
    )  # fmt: skip


def layer_text(problem: Problem) -> str:
    """Return all numbers of a layer: its arrays, then the relation on each axis."""
    groups = f", {problem.groups} groups" if problem.groups > 1 else ""
    return f"{problem}{groups}; {', '.join(map(str, problem.axes))}"


def by_slowness(found: Sequence[Timed]) -> list[tuple[float, Timed]]:
    """Return layers with how many times their family's median they take, the slowest first."""
    families: dict[tuple[str, str], list[float]] = {}
    for each in found:
        families.setdefault((each.family, each.wanted), []).append(each.pace)
    usual = {family: statistics.median(paces) for family, paces in families.items()}
    times = ((each.pace / usual[each.family, each.wanted], each) for each in found)
    return sorted(times, key=lambda pair: -pair[0])


def worst_lines(found: Sequence[Timed]) -> Iterator[str]:
    """Yield a line for each of the slowest, then one for all."""
    ranked = by_slowness(found)
    for times, each in ranked[:SHOWN]:
        numbers = (
            f"{times:.1f}",
            f"{1e3 * each.seconds:.3f}",
            f"{each.flops / each.seconds / 1e9:.1f}",
        )
        yield ROW.format(*numbers, each.family, each.algorithm, f"#{each.place} {each.layer}")
    slow = sum(times > 3 for times, _ in ranked)
    yield f"{slow} of {len(ranked)} layers take more than 3 times their family's median"


def _write(file: Path, found: Sequence[Timed], seed: int) -> None:
    rows = [{**asdict(each), "times": times} for times, each in by_slowness(found)]
    write_record(file, {"machine": describe_machine(), "seed": seed, "layers": rows})
