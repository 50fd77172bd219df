"""Race a model against itself: once as torch computes it, once with tconv's layers."""

import copy
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from tconv.adapters.torch import accelerate
from tconv.bench.measure import settle
from tconv.bench.models import Model

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
STEPS = ("inference", "training")
ROUNDS = 3  # samples of each side at least,
LONG = 20.0  # but none after so many seconds: torch takes minutes for short types on some CPUs
# Of the difference to torch's result, as a share of its size: models have dozens of layers.
TOLERANCE = {"float32": 1e-3, "bfloat16": 1e-1}
RATE = 1e-3  # of learning


@dataclass(frozen=True, slots=True)
class Lap:
    """Both sides' seconds for one step of one model."""

    model: str
    dtype: str
    step: str
    theirs: float
    ours: float
    error: float  # of our result, as a share of the size of theirs

    @property
    def ratio(self) -> float:
        """How many times as fast as torch we are."""
        return self.theirs / self.ours

    @property
    def wrong(self) -> bool:
        """Whether our result is too far from torch's."""
        return not self.error <= TOLERANCE[self.dtype]


def race_model(model: Model, dtype: str, seconds: float, *, small: bool = False) -> Iterator[Lap]:
    """Yield the laps of a model in one element type."""
    network, given = model.make(small=small)
    theirs = network.to(DTYPES[dtype])
    ours = copy.deepcopy(theirs)
    accelerate(ours)
    given = given.to(DTYPES[dtype])
    for step in STEPS:
        runs = [_run(each, given, step) for each in (theirs, ours)]
        error = _distance(runs[1](), runs[0]())
        theirs_took, ours_took = (statistics.median(each) for each in _race(runs, seconds))
        yield Lap(model.name, dtype, step, theirs_took, ours_took, error)


def geometric_mean(laps: list[Lap]) -> float:
    """Return the mean of ratios.

    >>> lap = Lap("m", "float32", "training", 8.0, 2.0, 0.0)
    >>> geometric_mean([lap, Lap("n", "float32", "training", 1.0, 1.0, 0.0)])
    2.0
    """
    return math.exp(statistics.fmean(math.log(lap.ratio) for lap in laps))


def _run(network: Any, given: Any, step: str) -> Callable[[], Any]:  # noqa: ANN401 - torch is not typed
    if step == "inference":
        return lambda: _infer(network, given)
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    return lambda: _train(network, given, optimizer)


def _infer(network: Any, given: Any) -> Any:  # noqa: ANN401 - torch is not typed
    network.eval()
    with torch.inference_mode():
        return network(given)


def _train(network: Any, given: Any, optimizer: Any) -> Any:  # noqa: ANN401 - torch is not typed
    """Make one step towards silence or darkness, which serves as well as any other target."""
    network.train()
    optimizer.zero_grad()
    result = network(given)
    result.square().mean().backward()
    optimizer.step()
    return result.detach()


def _distance(result: Any, right: Any) -> float:  # noqa: ANN401 - torch is not typed
    """Return the size of the difference as a share of the size of what is right."""
    result, right = result.double(), right.double()
    return float((result - right).norm() / right.norm())


def _race(runs: list[Callable[[], Any]], seconds: float) -> list[list[float]]:
    """Time both sides in turns, so that noise hits both alike."""
    times: list[list[float]] = [[] for _ in runs]
    start, turn, passed = time.perf_counter(), 0, 0.0
    while turn == 0 or passed < min(seconds, LONG) or (turn < ROUNDS and passed < LONG):
        for place in range(len(runs)):
            index = (place + turn) % len(runs)
            settle()
            before = time.perf_counter()
            runs[index]()
            times[index].append(time.perf_counter() - before)
        turn += 1
        passed = time.perf_counter() - start
    return times
