"""Kernels run on torch's OpenMP threads, but never in a forked child."""

import sys

import pytest

from engines import require
from runtime.scripts import run_script

torch = require.module("torch")

from tconv.adapters.torch import team  # noqa: E402 - without torch this file is skipped

OPENMP = pytest.mark.skipif(
    sys.platform != "linux" or team.openmp() is None, reason="torch without OpenMP, or no forks"
)

# In a process of its own: whose threads work is a matter of the whole process.
START = """
import os, sys, threading
import torch
import tconv, tconv.adapters.torch as adapter
from runtime.pool_kernels import Tally, meet_and_check, run_and_check

def own_workers():
    return [each for each in threading.enumerate() if each.name.startswith("tconv worker")]

torch.set_num_threads(2)
data, weight = torch.randn(4, 16, 40, 40), torch.randn(16, 16, 3, 3)
right = adapter.conv2d(data, weight).numpy().copy()

def same():  # not by torch, whose own operators wait for ever in a forked child
    return (adapter.conv2d(data, weight).numpy() == right).all()
"""


@OPENMP
def test_torchs_threads_do_the_work() -> None:
    """As many as were asked for, each with scratch of its own, and none of ours beside them."""
    found, _ = run_script(
        START
        + """
for threads in (2, 3, 1, 2):
    meet_and_check(threads)
tconv.set_num_threads(1)
tconv.set_num_threads(4)
run_and_check(4)
print(len(own_workers()))
"""
    )

    assert found == "0\n"


@OPENMP
def test_several_callers_have_teams_of_their_own() -> None:
    """Each caller's items are run once, and torch's own operators run between them."""
    found, _ = run_script(
        START
        + """
def call(tally):
    for _ in range(50):
        tally.run()
        torch.relu(data)

tallies = [Tally(items=20, threads=2) for _ in range(6)]
callers = [threading.Thread(target=call, args=(tally,)) for tally in tallies]
for caller in callers:
    caller.start()
for caller in callers:
    caller.join()
for tally in tallies:
    tally.check()
print("good")
"""
    )

    assert found == "good\n"


@OPENMP
def test_a_forked_child_has_workers_of_its_own() -> None:
    """OpenMP's threads are not there, and waiting for them would never end."""
    found, _ = run_script(
        START
        + """
from tconv.adapters.torch import team
child = os.fork()
if child == 0:
    meet_and_check(2)
    assert same()
    assert own_workers() and team.forked()
    print("good")
    sys.stdout.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert not team.forked()
assert same()
"""
    )

    assert found == "good\n"


@OPENMP
def test_a_child_that_is_the_first_to_call_us_does_not_join() -> None:
    """Its parent may have used OpenMP through torch alone."""
    found, _ = run_script(
        START
        + """
from tconv.adapters.torch import kernels
from tconv.runtime import pool
kernels._seen_threads = 0  # as if nobody had called
pool.borrow(None)
child = os.fork()
if child == 0:
    assert same()
    print(len(own_workers()))
    sys.stdout.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    )

    assert found == "1\n"


def test_a_torch_without_openmp_gives_no_team(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such builds have a pool of their own, which nobody else can use."""
    monkeypatch.setattr(
        torch.__config__, "parallel_info", lambda: "ATen parallel backend: native thread pool"
    )

    assert team.openmp() is None
