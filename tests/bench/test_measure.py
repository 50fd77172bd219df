"""The race is fair, and nobody wins it with a wrong result."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from bench.layers import ONE
from tconv.bench import measure
from tconv.bench.judge import error_of
from tconv.bench.measure import answer_of, copy_bandwidth, race, settle
from tconv.bench.peak import fma_peak
from tconv.bench.peers.peer import Array, Ready, Refused, Task, aligned_empty
from tconv.bench.results import Outcome
from tconv.problem import Operand

TASK = Task(ONE, Operand.FINE, "NXC", "float32", 1, ONE.arrays(Operand.FINE))
RIGHT = answer_of(TASK)


def right() -> Array:
    """Compute what the definition says."""
    return RIGHT.astype(np.float32)


@dataclass
class Fake:
    """A candidate that only pretends, and writes down when it ran."""

    name: str
    compute: Callable[[], Array] = right
    work: Callable[[], object] = lambda: None
    diary: list[str] = field(default_factory=list)

    def prepare(self, task: Task) -> Ready:
        """Get ready at once."""
        assert task is TASK
        return Ready(self.run, self.compute, code="fake")

    def run(self) -> None:
        """Work, and note it."""
        self.diary.append(self.name)
        self.work()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fakes leave no threads behind that one would have to wait for."""
    monkeypatch.setattr(measure, "PATIENCE", 0.0)


def run(*candidates: Fake, seconds: float = 0.0) -> tuple[Outcome, ...]:
    """Race fakes."""
    return race(TASK, RIGHT, candidates, seconds)


def test_every_candidate_gets_as_many_samples() -> None:
    """At least five, however short the time is."""
    outcomes = run(Fake("a"), Fake("b"))

    assert [each.samples for each in outcomes] == [measure.ROUNDS] * 2
    assert all(0 < (each.fastest or 0) <= (each.median or 0) for each in outcomes)
    assert [each.code for each in outcomes] == ["fake", "fake"]


def test_candidates_take_turns_and_each_goes_first_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody always runs after the same neighbour's traces in the caches."""
    monkeypatch.setattr(measure, "SAMPLE", 0.0)
    monkeypatch.setattr(measure, "WARM", 0.0)
    diary: list[str] = []
    run(*(Fake(name, diary=diary) for name in "abc"))

    assert "".join(diary) == "aabbcc" + "abc" + "bca" + "cab" + "abc" + "bca"


def test_more_time_means_more_rounds() -> None:
    """A run can be made as long as it has to be."""
    (outcome,) = run(Fake("a"), seconds=0.2)

    assert outcome.samples > measure.ROUNDS


def test_a_short_call_is_repeated_until_the_clock_can_tell() -> None:
    """One call of a microsecond cannot be timed."""
    fake = Fake("quick")
    run(fake)

    assert len(fake.diary) > 20 * measure.ROUNDS


def test_a_slow_candidate_runs_only_for_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """One engine without a fast path must not hold up all the others."""
    monkeypatch.setattr(measure, "TOO_SLOW", 0.01)
    slow = Fake("slow", work=lambda: time.sleep(0.02))
    quick, outcome = run(Fake("quick"), slow)

    assert len(slow.diary) == 2
    assert outcome.samples == 1
    assert (outcome.fastest or 0) > 0.01
    assert quick.samples == measure.ROUNDS


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(lambda: np.zeros(RIGHT.shape, np.float32), id="zeros"),
        pytest.param(lambda: np.full(RIGHT.shape, np.nan, np.float32), id="nan"),
        pytest.param(lambda: right()[..., ::-1], id="mirrored"),
        pytest.param(lambda: right().swapaxes(0, 1), id="another shape"),
        pytest.param(lambda: (1.001 * RIGHT).astype(np.float32), id="a little off"),
    ],
)
def test_garbage_is_reported_and_never_timed(garbage: Callable[[], Array]) -> None:
    """However fast it is, a wrong result is no speed."""
    good, bad = run(Fake("good"), Fake("bad", compute=garbage))

    assert good.fastest
    assert not good.wrong
    assert bad.wrong
    assert bad.fastest is None
    assert bad.note.startswith("wrong: off by ")


def test_a_refusal_is_a_note_and_no_fault() -> None:
    """An engine need not have everything."""

    class Refuses(Fake):
        def prepare(self, task: Task) -> Ready:
            raise Refused(f"no {task.dtype}")

    good, other = run(Fake("good"), Refuses("other"))

    assert good.fastest
    assert other == Outcome("other", note="refused: no float32")


def test_an_engine_that_breaks_does_not_end_the_run() -> None:
    """It is reported as broken, in its own words."""

    class Breaks(Fake):
        def run(self) -> None:
            raise RuntimeError("out of cheese\nredo from start")

    good, other = run(Fake("good"), Breaks("other"))

    assert good.fastest
    assert other == Outcome("other", note="failed: RuntimeError: out of cheese", wrong=True)


def test_garbage_collection_is_off_while_the_clock_runs_and_on_again_after() -> None:
    """A collection in the middle of a sample would hit one candidate only."""
    states: list[bool] = []
    run(Fake("a", work=lambda: states.append(gc.isenabled())))

    assert states[-1] is False
    assert gc.isenabled()


def test_errors_are_shares_of_the_right_answers_size() -> None:
    """So one tolerance fits all layers."""
    assert error_of(2 * RIGHT, 2 * RIGHT + 2) == pytest.approx(error_of(RIGHT, RIGHT + 1), rel=0.5)
    assert error_of(RIGHT, RIGHT) == 0


def test_the_machine_can_be_measured() -> None:
    """Both numbers are positive, and fewer threads have no more."""
    assert fma_peak(1, seconds=0.01) > 0
    assert fma_peak(8, seconds=0.01) > 0
    assert copy_bandwidth(seconds=0.01) > 0


def test_settling_ends_when_nothing_runs() -> None:
    """The patience is a limit, not a price."""
    settle()


@pytest.mark.parametrize("shape", [(1,), (3, 5, 7)])
def test_memory_starts_on_a_cache_line(shape: tuple[int, ...]) -> None:
    """No candidate is luckier than another."""
    array = aligned_empty(shape, "float64")

    assert array.ctypes.data % 64 == 0
    assert array.shape == shape
    assert array.flags.c_contiguous
