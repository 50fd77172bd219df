"""The thread pool runs every item once, whoever calls it and however it waits."""

import faulthandler
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import tconv
from runtime.pool_kernels import BarePool, Tally, bare_pool, kernel, meeting
from tconv.codegen.pool import ASLEEP, CAPACITY, IDLE
from tconv.codegen.waiting import X86, Host
from tconv.runtime import pool
from tconv.threads import available_cpus

WAYS = {
    "spinning and sleeping": (Host(), Host().patience),
    "sleeping at once": (Host(), 0),
    "hardly spinning": (Host(), 300),
    "napping": (Host(system="elsewhere"), 300),
    "counting turns": (Host(system="elsewhere", cpu="unknown"), 3_000),
}


@pytest.fixture(autouse=True)
def _no_traces() -> Iterator[None]:
    """Leave the number of threads as it was; turn a hang into the end of this process."""
    faulthandler.dump_traceback_later(120, exit=True, file=2)
    count = tconv.get_num_threads()
    yield
    tconv.set_num_threads(count)
    faulthandler.cancel_dump_traceback_later()


def workers() -> list[threading.Thread]:
    """Return the parked workers of the package's pool."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("tconv worker")]


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("items", [0, 1, 2, 3, 4, 5, 17, 1000])
def test_every_item_runs_exactly_once(items: int, threads: int) -> None:
    """Fewer, as many and more items than threads; and no items at all."""
    tally = Tally(items, threads)
    for _ in range(30):
        tally.run()

    tally.check()


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_waiting_runs_every_item_once(way: str) -> None:
    """What a platform lacks only costs time, and an offer may come at any moment of a wait."""
    host, patience = WAYS[way]
    with bare_pool(host, patience, workers=3) as bare:
        tallies = [Tally(items, threads=4) for items in (2, 3, 5, 64)]
        for call in range(600):
            # A worker late from one call must not serve the next, brief or not.
            bare.run(tallies[call % 4], brief=call % 3 == 0)
            if call % 30 == 0:
                time.sleep(0.001)  # long enough for all to fall asleep

    for tally in tallies:
        tally.check()


@pytest.mark.parametrize("way", WAYS)
def test_every_worker_comes_when_it_is_called(way: str) -> None:
    """All threads meet inside the kernel, whether they were spinning or asleep."""
    host, patience = WAYS[way]
    with bare_pool(host, patience, workers=3) as bare:
        for rest in (0, 0, 0.001, 0, 0.01):
            time.sleep(rest)
            tally = meeting(4)
            bare.run(tally, "meet")

            assert tally.record.tolist() == [4, 4, 0, 0, 0]


@pytest.mark.parametrize("way", WAYS)
def test_the_caller_waits_for_the_last_item_of_a_worker(way: str) -> None:
    """A run returns after its longest item, also when the caller must sleep until then."""
    host, patience = WAYS[way]
    with bare_pool(host, patience, workers=2) as bare:
        tally = Tally(items=6, threads=3)
        for _ in range(5):
            bare.run(tally, "nap")
            tally.check()


def least_burned(act: Callable[[], None]) -> float:
    """Return the processor time that acting takes, at the best of three: tests share a process."""
    spent = []
    for _ in range(3):
        start = time.process_time()
        act()
        spent.append(time.process_time() - start)
    return min(spent)


def test_a_waiting_caller_does_not_burn_the_processor() -> None:
    """The caller sleeps while a worker's last item takes its time."""
    with bare_pool(Host(), Host().patience, workers=1) as bare:
        tally = Tally(items=2, threads=2)

        def wait() -> None:
            for _ in range(20):
                bare.run(tally, "nap")

        spent = least_burned(wait)

    assert spent < 0.1, f"{spent:.3f} s of processor time in 0.2 s of sleep"


@pytest.mark.skipif(Host().cpu not in X86, reason="programs may not read cycles here")
def test_a_worker_waits_longer_after_a_long_run() -> None:
    """Back-to-back runs end with one item's difference: sleeping in between costs more."""

    def awake(bare: BarePool, name: str) -> int:
        """Count the runs after which the worker still spins when its patience is over."""
        found = 0
        for _ in range(20):
            bare.run(meeting(2), "meet")  # now the worker is surely there
            bare.run(Tally(items=2, threads=2), name)
            time.sleep(0.002)
            found += bare.states()[1] == IDLE
        return found

    with bare_pool(Host(), 1_000_000, workers=1) as bare:
        for _ in range(5):  # tests share processors: a worker may not come to fall asleep
            short, long = awake(bare, "count"), awake(bare, "nap")
            if long > short:
                return

    pytest.fail(f"awake after {long} long and {short} short runs of 20")


@pytest.mark.skipif(Host().cpu not in X86, reason="programs may not read cycles here")
def test_a_brief_run_wakes_nobody_unless_another_just_ended() -> None:
    """Waking takes about as long as the run; but where runs follow each other, all come."""
    with bare_pool(Host(), 1 << 28, workers=1) as bare:  # some tenths of a second
        bare.run(meeting(2), "meet")  # now the worker is surely there
        while bare.states()[1] != ASLEEP:
            time.sleep(0.001)
        time.sleep(0.5)
        tally, met = Tally(items=8, threads=2), meeting(2)
        bare.run(tally, "nap", brief=True)
        bare.run(met, "meet", brief=True)

    tally.check()
    assert tally.scratch[:2, 0].tolist() == [8, 0]
    assert met.record[:3].tolist() == [2, 2, 0]


def test_absent_workers_are_not_waited_for() -> None:
    """An offer that nobody answers is taken back: the caller does everything."""
    with bare_pool(Host(), Host().patience, workers=0) as bare:
        tally = Tally(items=9, threads=4)
        for _ in range(100):
            bare.run(tally)
        left = bare.states()

    tally.check()
    assert tally.scratch[0, 0] == 900
    assert left == [IDLE] * 4


def test_a_second_thread_in_a_slot_goes_home() -> None:
    """Two workers of one number would share scratch."""
    with bare_pool(Host(), Host().patience, workers=1) as bare:
        bare.run(meeting(2), "meet")  # now the worker is surely there
        second = threading.Thread(target=bare.work, args=(bare.address, 1))
        second.start()
        second.join(10)

        assert not second.is_alive()


def test_a_busy_pool_lets_a_second_caller_work_alone() -> None:
    """While one caller is inside, another finishes first, and only with its own scratch."""
    with bare_pool(Host(), Host().patience, workers=1) as bare:
        held = meeting(2)
        held.record[1] = 3  # two threads come, and stay until the test is the third
        holder = threading.Thread(target=bare.run, args=(held, "meet"))
        holder.start()
        while held.record[0] < 2:
            time.sleep(0.001)
        tally = Tally(items=50, threads=2)
        bare.run(tally)
        held.record[0] = 3
        holder.join(10)

    tally.check()
    assert tally.scratch[0, 0] == 50


def test_eight_callers_at_once_get_what_they_asked_for() -> None:
    """Thousands of calls from eight Python threads, all with workers to share."""
    tallies = [Tally(items, threads=2 + items % 2) for items in range(2, 10)]

    with ThreadPoolExecutor(8) as callers:
        list(callers.map(lambda tally: [tally.run() for _ in range(1500)], tallies))

    for tally in tallies:
        tally.check()


def test_callers_of_long_items_get_them_finished() -> None:
    """A caller that waits for its workers' last items still has the pool to itself."""

    def call(tally: Tally) -> None:
        for _ in range(12):
            tally.run("nap")
            tally.check()

    with ThreadPoolExecutor(3) as callers:
        list(callers.map(call, [Tally(items=items, threads=3) for items in (2, 4, 5)]))


def test_workers_come_when_needed_and_go_when_not_wanted() -> None:
    """The number of workers follows 1 -> 2 -> 4 -> 1, and each number computes."""
    tconv.set_num_threads(1)
    counts = []
    for threads in (1, 2, 4, 1, 3):
        tconv.set_num_threads(threads)
        tally = Tally(items=100, threads=threads)
        tally.run()
        tally.check()
        counts.append(len(workers()))

    assert counts == [0, 1, 3, 0, 2]


def test_a_call_that_wants_fewer_threads_keeps_the_workers() -> None:
    """A small step between two large ones must not stop and start threads."""
    tconv.set_num_threads(4)
    Tally(items=8, threads=4).run()
    before = workers()
    small = Tally(items=8, threads=2)
    small.run()

    small.check()
    assert workers() == before


def test_threads_may_come_and_go_while_others_call() -> None:
    """Changing the number between calls of another thread loses and doubles nothing."""
    tally = Tally(items=5, threads=4)
    done = threading.Event()

    def call() -> None:
        while not done.is_set():
            tally.run()

    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    for round_ in range(60):
        tconv.set_num_threads((1, 4, 2)[round_ % 3])
    done.set()
    caller.join(30)

    assert not caller.is_alive()
    tally.check()


def test_more_threads_than_there_is_room_for_still_compute() -> None:
    """The pool has a fixed size; the rest of the threads are simply not there."""
    with bare_pool(Host(), 0, workers=2) as bare:
        tally = Tally(items=2 * CAPACITY, threads=2 * CAPACITY)
        bare.run(tally)

    tally.check()


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or available_cpus() < 2,
    reason="one processor, or a system that does not tell them apart",
)
def test_a_worker_is_woken_away_from_its_caller() -> None:
    """Where each thread has a processor; with more threads than that they may be anywhere."""
    every = os.sched_getaffinity(0)
    places = []
    for threads in (2, len(every) + 1, 2):
        tconv.set_num_threads(threads)
        tally = Tally(items=100, threads=threads)
        for _ in range(3):
            time.sleep(0.02)  # the worker sleeps
            tally.run()
        tally.check()
        (worker,) = (each for each in workers() if each.name.endswith(" 1"))
        places.append(os.sched_getaffinity(worker.native_id or 0))

    assert [len(every - each) for each in places] == [1, 0, 1]


def test_idle_workers_burn_no_processor_time() -> None:
    """After some microseconds of spinning a worker sleeps until it is called."""
    Tally(items=8, threads=4).run()
    time.sleep(0.01)
    spent = least_burned(lambda: time.sleep(0.5))

    assert len(workers()) >= 3
    assert spent < 0.02, f"{1e3 * spent:.1f} ms in 0.5 s"


def test_handing_over_is_quick(capsys: pytest.CaptureFixture[str]) -> None:
    """Bounds are generous: the machine may be busy.  The printed medians are the news."""
    tally = meeting(2)
    tally.run("meet")

    def measured(name: str, rest: float) -> list[float]:
        times = []
        for _ in range(300):
            if rest:  # even sleep(0) lasts longer than a worker spins
                time.sleep(rest)
            tally.record[0] = 0
            arguments = kernel(name), *tally.arguments
            start = time.perf_counter()
            pool.run(*arguments)
            times.append(1e6 * (time.perf_counter() - start))
        return times

    runs = measured("nothing", 0), measured("meet", 0), measured("meet", 0.0005)
    empty, awake, asleep = map(statistics.median, runs)
    with capsys.disabled():
        print(  # noqa: T201 - a measurement is for reading
            f"\n[pool] empty run {empty:.1f} us, both threads met after {awake:.1f} us "
            f"(spinning), {asleep:.1f} us (asleep)"
        )

    assert tally.record[2] == 0
    assert empty < 200
    # On a busy machine a worker may have to wait for its turn, but not every time.
    assert min(runs[1]) < 5_000
    assert min(runs[2]) < 10_000


def test_the_check_notices_a_forgotten_item() -> None:
    """A kernel that skips item 3 is caught."""
    tally = Tally(items=6, threads=2)
    tally.run("skip")

    with pytest.raises(AssertionError):
        tally.check()


@pytest.mark.parametrize(
    ("row", "word"), [(1, 2), (3, 0)], ids=["two in one scratch", "a worker too many"]
)
def test_the_check_notices_wrong_scratch(row: int, word: int) -> None:
    """A collision and a stray worker are caught."""
    tally = Tally(items=6, threads=3)
    tally.run()
    tally.check()
    tally.scratch[row, word] += 1

    with pytest.raises(AssertionError):
        tally.check()
