"""One fair race: all candidates in one process, taking turns, so that noise hits all alike."""

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tconv.bench.judge import TOLERANCE, Floats, error_of, right_answer
from tconv.bench.peers.peer import Ready, Refused, Task
from tconv.bench.results import Outcome

SAMPLE = 2e-3  # seconds that one sample of the fastest candidate takes at least
LONGEST = 2e-2  # seconds that more than one call may take
ROUNDS = 5  # samples of each candidate at least
WARM = 1e-2  # seconds of untimed calls before each sample
TOO_SLOW = 1.0  # seconds a call from which on a candidate runs for its check only
PATIENCE = 5e-2  # seconds to wait at most for threads that spin
SLICE = 1e-2  # seconds between looks at them: the clock of a running thread may stand for a tick


class Candidate(Protocol):
    """What a race needs of a peer."""

    @property
    def name(self) -> str:
        """Its name in the report."""

    def prepare(self, task: Task) -> Ready:
        """Get ready, or raise Refused."""


@dataclass
class Runner:
    """A candidate that passed the check, and its samples in seconds a call."""

    name: str
    ready: Ready
    error: float
    estimate: float
    samples: list[float] = field(default_factory=list)

    def sample(self, calls: int) -> None:
        """Take one sample of some calls, of fewer if they take too long."""
        run = self.ready.run
        calls = max(1, min(calls, int(LONGEST / self.estimate)))
        # Its threads were asleep and its data out of the caches; and for some milliseconds after
        # a pause processors run at a fraction of their speed, whoever asks them.
        for _ in range(int(WARM / self.estimate)):
            run()
        self.samples.append(_seconds(run, calls))

    def outcome(self) -> Outcome:
        """Return the record of what was measured."""
        return Outcome(
            self.name,
            fastest=min(self.samples),
            median=statistics.median(self.samples),
            samples=len(self.samples),
            error=self.error,
            code=self.ready.code,
        )


def answer_of(task: Task) -> Floats:
    """Return the right answer of a task in NCX order; it does not depend on the layout."""
    problem = task.layer.problem(task.wanted, "NCX", task.dtype)
    return right_answer(problem, *(task.given[operand] for operand in problem.given))


def race(
    task: Task, right: Floats, candidates: Sequence[Candidate], seconds: float
) -> tuple[Outcome, ...]:
    """Check every candidate, then time those that are right, in turns, for some seconds.

    Each round starts with another candidate: whoever follows a long one finds other caches.
    """
    entered = [_enter(task, right, candidate) for candidate in candidates]
    runners = [each for each in entered if isinstance(each, Runner)]
    limit = max(seconds, TOO_SLOW)
    fast = [each for each in runners if each.estimate <= limit]
    for each in runners:
        if each.estimate > limit:
            each.samples.append(each.estimate)
    # As many calls of each as make the fastest one's sample long enough for the clock: weights
    # that come from memory in the first calls come from the last cache in later ones.
    calls = max((round(SAMPLE / each.estimate) for each in fast), default=1)
    with _without_garbage_collection():
        start, turn = time.perf_counter(), 0
        while fast and (turn < ROUNDS or time.perf_counter() - start < seconds):
            for place in range(len(fast)):
                settle()
                fast[(place + turn) % len(fast)].sample(calls)
            turn += 1
    return tuple(each.outcome() if isinstance(each, Runner) else each for each in entered)


def settle() -> None:
    """Wait until the threads of whoever ran last stop spinning.

    OpenMP and others keep threads busy for some milliseconds after a call, which would take a
    processor from the next candidate.  The process's own CPU time shows them.
    """
    deadline = time.perf_counter() + PATIENCE
    while time.perf_counter() < deadline:
        busy = time.process_time()
        time.sleep(SLICE)
        if time.process_time() - busy < SLICE / 4:
            return


def copy_bandwidth(seconds: float = 0.3) -> float:
    """Return the GB/s, read and written together, of a plain copy of 64 MB."""
    source = np.ones(2**24, np.float32)
    target = np.zeros_like(source)
    best = fastest_call(lambda: np.copyto(target, source), seconds)
    return 2 * source.nbytes / best / 1e9


def _enter(task: Task, right: Floats, candidate: Candidate) -> Runner | Outcome:
    """Prepare, warm up and check one candidate."""
    name = candidate.name
    try:
        ready = candidate.prepare(task)
        estimate = min(_seconds(ready.run, 1) for _ in range(2))
        error = error_of(ready.result(), right)
    except Refused as refusal:
        return Outcome(name, note=f"refused: {refusal}")
    except Exception as failure:  # noqa: BLE001 - an engine that breaks must not end the run
        text = (str(failure).splitlines() or [""])[0]
        return Outcome(name, note=f"failed: {type(failure).__name__}: {text}", wrong=True)
    limit = TOLERANCE[task.dtype]
    if not error <= limit:
        note = f"wrong: off by {error:.2g} of the right answer's rms, {limit:.0e} is allowed"
        number = error if math.isfinite(error) else None  # JSON has no infinity
        return Outcome(name, error=number, code=ready.code, note=note, wrong=True)
    return Runner(name, ready, error, estimate)


def _seconds(run: Callable[[], object], calls: int) -> float:
    """Return the seconds that one of some calls takes."""
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def fastest_call(run: Callable[[], object], seconds: float) -> float:
    """Return the seconds of the fastest call within some time, the first one not counted."""
    run()
    times, start = [_seconds(run, 1)], time.perf_counter()
    while time.perf_counter() - start < seconds:
        times.append(_seconds(run, 1))
    return min(times)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    was = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
