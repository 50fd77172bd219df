"""The thread pool survives forks, interrupts and the end of the interpreter."""

import os

import pytest

from runtime.scripts import run_script

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

START = """
import atexit, os, signal, sys, threading, time
atexit.register(lambda: late())  # handlers run last in, first out: this one is the last
def late():
    pass
from runtime.pool_kernels import Tally, meet_and_check, run_and_check

def call_for_ever():
    tally = Tally(items=5, threads=2)
    while True:
        tally.run()

def children_are_well(count):
    for _ in range(count):
        child = os.fork()
        if child == 0:
            meet_and_check(threads=2)
            meet_and_check(threads=3)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
"""


def test_importing_starts_no_thread() -> None:
    """Threads are made by the first call that wants more than one."""
    out, _ = run_script(
        START
        + """
print(threading.active_count())
run_and_check(threads=1)
print(threading.active_count())
run_and_check(threads=3)
print(threading.active_count())
"""
    )

    assert out.split() == ["1", "1", "3"]


@pytest.mark.parametrize("method", [pytest.param("fork", marks=FORKS), "spawn"])
def test_processes_of_multiprocessing_have_a_pool_of_their_own(method: str) -> None:
    """A child starts without workers, makes its own, and leaves its parent's alone."""
    out, _ = run_script(
        START
        + f"""
import multiprocessing
run_and_check(threads=3)
context = multiprocessing.get_context({method!r})
children = [context.Process(target=meet_and_check, args=(threads,)) for threads in (1, 2, 4)]
for child in children:
    child.start()
run_and_check(threads=3)
for child in children:
    child.join()
print(*(child.exitcode for child in children))
"""
    )

    assert out.split() == ["0", "0", "0"]


@FORKS
def test_a_child_forked_during_a_call_is_well() -> None:
    """The other thread is inside the pool, which is locked, when the child is made."""
    run_script(
        START
        + """
run_and_check(threads=2)
threading.Thread(target=call_for_ever, daemon=True).start()
children_are_well(40)
run_and_check(threads=2)
"""
    )


@FORKS
def test_a_child_forked_while_workers_come_and_go_is_well() -> None:
    """Starting and stopping workers is never cut in half by a fork."""
    run_script(
        START
        + """
import tconv
def change_for_ever():
    while True:
        for threads in (1, 2, 4):
            tconv.set_num_threads(threads)
            Tally(items=5, threads=threads).run()
run_and_check(threads=2)
threading.Thread(target=change_for_ever, daemon=True).start()
children_are_well(40)
"""
    )


@FORKS
def test_children_of_children_are_well_and_end_in_order() -> None:
    """Each generation has workers parked when it forks, and ends with atexit handlers."""
    out, _ = run_script(
        START
        + """
for generation in range(3):
    meet_and_check(threads=2)
    sys.stdout.flush()
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        break
print("end", flush=True)
"""
    )

    assert out.split() == ["end"] * 4


def test_the_interpreter_ends_at_once_with_parked_workers() -> None:
    """Exit code 0, nothing on standard error, and no waiting."""
    out, _ = run_script(
        START
        + """
def late():
    print(time.monotonic() - ended)
run_and_check(threads=4)
ended = time.monotonic()
"""
    )

    assert float(out) < 1


def test_the_interpreter_ends_while_daemon_threads_call() -> None:
    """Callers and workers may be anywhere inside the compiled code when it ends."""
    for _ in range(4):
        run_script(
            START
            + """
for _ in range(3):
    threading.Thread(target=call_for_ever, daemon=True).start()
time.sleep(0.05)
"""
        )


def test_a_call_during_shutdown_runs_alone() -> None:
    """A handler that runs after the workers have gone still gets its answer."""
    out, _ = run_script(
        START
        + """
def late():
    print(threading.active_count())
    run_and_check(threads=6)
    tally = Tally(items=50, threads=4)
    tally.run()
    print(tally.scratch[0, 0], threading.active_count())
run_and_check(threads=4)
print(threading.active_count())
"""
    )

    assert out.split() == ["4", "1", "50", "1"]


@pytest.mark.skipif(os.name == "nt", reason="signals are sent otherwise there")
def test_an_interrupt_waits_for_the_call_and_breaks_nothing() -> None:
    """KeyboardInterrupt comes out of a run that is complete, and the next one works."""
    out, _ = run_script(
        START
        + """
signal.signal(signal.SIGINT, signal.default_int_handler)  # what shells start behind them ignores it
# An interrupt inside of a destructor, of which a compiler has many, is printed and forgotten.
Tally(items=1, threads=4).run("nap")
interrupted = 0
for delay in range(10):
    tally = Tally(items=6, threads=1 + delay % 4)
    for _ in range(5):  # until one is not forgotten
        timer = threading.Timer(0.02 + 0.003 * delay, os.kill, (os.getpid(), signal.SIGINT))
        end = time.monotonic() + 2
        try:
            timer.start()
            while time.monotonic() < end:
                tally.run("nap")
        except KeyboardInterrupt:
            interrupted += 1
            break
    assert len(set(tally.record[:6].tolist())) == 1, tally.record
    run_and_check(threads=4)
print(interrupted)
"""
    )

    assert out.split() == ["10"]


def test_a_script_that_fails_is_noticed() -> None:
    """The runner of these tests refuses exit codes and anything on standard error."""
    with pytest.raises(AssertionError):
        run_script(START + "sys.exit(3)")
    with pytest.raises(AssertionError):
        run_script(START + "print('x', file=sys.stderr)")
