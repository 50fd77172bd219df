"""Tiny kernels that tell how the pool ran them, and a check of what they tell."""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
from llvmlite import ir

from tconv.codegen.pool import BRIEF, LINE, PATIENCE, POOL_BYTES, SLOTS, STATE, emit_pool
from tconv.codegen.waiting import Host
from tconv.jit import Kernel, compile_object, host_machine, load_object
from tconv.runtime import pool

SCRATCH_WORDS = 16  # a worker's: items it ran, whether somebody is in it, collisions

# `count` counts each item in the record and in its worker's scratch, and looks whether
# another thread is in that scratch.  `skip` forgets item 3.  `meet` waits until as many
# threads as record[1] are in it; record[2] says that it gave up after some seconds.  `nap`
# counts, and sleeps if the item is odd.
KERNELS = """
declare i32 @usleep(i32)

define void @nothing(ptr %record, ptr %scratch, i64 %item) { ret void }

define void @count(ptr %record, ptr %scratch, i64 %item) {
  %inside = getelementptr i64, ptr %scratch, i64 1
  %before = atomicrmw add ptr %inside, i64 1 seq_cst
  %collisions = getelementptr i64, ptr %scratch, i64 2
  atomicrmw add ptr %collisions, i64 %before seq_cst
  %counter = getelementptr i64, ptr %record, i64 %item
  atomicrmw add ptr %counter, i64 1 seq_cst
  %old = load i64, ptr %scratch
  %new = add i64 %old, 1
  store i64 %new, ptr %scratch
  atomicrmw sub ptr %inside, i64 1 seq_cst
  ret void
}

define void @skip(ptr %record, ptr %scratch, i64 %item) {
  %third = icmp eq i64 %item, 3
  br i1 %third, label %end, label %work
work:
  call void @count(ptr %record, ptr %scratch, i64 %item)
  ret void
end:
  ret void
}

define void @nap(ptr %record, ptr %scratch, i64 %item) {
  %low = trunc i64 %item to i1
  br i1 %low, label %sleep, label %work
sleep:
  call i32 @usleep(i32 10000)
  br label %work
work:
  call void @count(ptr %record, ptr %scratch, i64 %item)
  ret void
}

define void @meet(ptr %record, ptr %scratch, i64 %item) {
  atomicrmw add ptr %record, i64 1 seq_cst
  %place = getelementptr i64, ptr %record, i64 1
  %wanted = load i64, ptr %place
  br label %look
look:
  %turn = phi i64 [ 0, %0 ], [ %next, %stay ]
  %come = load atomic i64, ptr %record seq_cst, align 8
  %all = icmp sge i64 %come, %wanted
  br i1 %all, label %end, label %stay
stay:
  %next = add i64 %turn, 1
  %late = icmp sgt i64 %next, 8000000000
  br i1 %late, label %quit, label %look
quit:
  %failed = getelementptr i64, ptr %record, i64 2
  store i64 1, ptr %failed
  br label %end
end:
  ret void
}
"""


@cache
def kernel(name: str) -> int:
    """Return the address of one of the kernels."""
    return _loaded().address(name)


class Tally:
    """Memory for kernels that count, and the check of the counts."""

    def __init__(self, items: int, threads: int) -> None:
        self.items, self.threads = items, threads
        self.record = np.zeros(items + 1, np.int64)  # one more, to catch an item too many
        self.scratch = np.zeros((threads + 1, SCRATCH_WORDS), np.int64)
        self.calls = 0

    @property
    def arguments(self) -> tuple[int, int, int, int, int]:
        """Return what a run takes after the kernel."""
        places = self.record.ctypes.data, self.scratch.ctypes.data
        return *places, self.scratch.strides[0], self.items, self.threads

    def run(self, name: str = "count") -> None:
        """Run a kernel in the package's own pool."""
        pool.run(kernel(name), *self.arguments)
        self.calls += 1

    def check(self) -> None:
        """Refuse unless every call ran every item once, with every worker in its own scratch."""
        assert self.record[: self.items].tolist() == [self.calls] * self.items
        assert self.record[self.items] == 0
        assert self.scratch[: self.threads, 0].sum() == self.calls * self.items
        assert not self.scratch[:, 1:].any(), "two workers in one scratch"
        assert not self.scratch[self.threads].any(), "a worker that was not asked for"


def run_and_check(threads: int) -> None:
    """Call the package's pool some times."""
    tally = Tally(items=20, threads=threads)
    for _ in range(20):
        tally.run()
    tally.check()


def meet_and_check(threads: int) -> None:
    """Do the same, and see all the workers at once; for processes with a single caller."""
    run_and_check(threads)
    tally = meeting(threads)
    tally.run("meet")
    run_and_check(threads)

    assert tally.record[:3].tolist() == [threads, threads, 0]


def meeting(threads: int) -> Tally:
    """Return memory for a meeting of threads."""
    tally = Tally(max(threads, 2), threads)
    tally.items = threads
    tally.record[1] = threads
    return tally


class BarePool:
    """The compiled pool without the package's management of it, for any way of waiting."""

    def __init__(self, host: Host, patience: int, workers: int) -> None:
        self.memory = np.zeros(POOL_BYTES // 8 + LINE, np.int64)
        spare = -(self.memory.ctypes.data // 8) % LINE
        self.address = self.memory.ctypes.data + 8 * spare
        self.memory[spare + PATIENCE] = patience
        code = _compiled_pool(host)
        self.native_run, self.work, self.stop = (
            ctypes.CFUNCTYPE(None, *[ctypes.c_size_t] * arguments)(code.address(name))
            for name, arguments in (("pool_run", 7), ("pool_work", 2), ("pool_stop", 2))
        )
        self.threads = [
            threading.Thread(target=self.work, args=(self.address, index), daemon=True)
            for index in range(1, workers + 1)
        ]

    def run(self, tally: Tally, name: str = "count", *, brief: bool = False) -> None:
        """Run a kernel."""
        *places, items, threads = tally.arguments
        self.native_run(self.address, kernel(name), *places, items + BRIEF * brief, threads)
        tally.calls += 1

    def states(self) -> list[int]:
        """Return what the words of the first four workers say."""
        first = (self.address - self.memory.ctypes.data) // 8 + SLOTS + STATE
        found: list[int] = self.memory[first::LINE][:4].tolist()
        return found

    def park(self) -> None:
        """Start the workers."""
        for thread in self.threads:
            thread.start()

    def dismiss(self) -> None:
        """Let them go; a worker that does not leave is a failure."""
        for index in range(1, len(self.threads) + 1):
            self.stop(self.address, index)
        for thread in self.threads:
            thread.join(10)

        assert not any(thread.is_alive() for thread in self.threads)


@contextmanager
def bare_pool(host: Host, patience: int, workers: int) -> Iterator[BarePool]:
    """Yield a pool with parked workers, which must all leave afterwards."""
    bare = BarePool(host, patience, workers)
    bare.park()
    try:
        yield bare
    finally:
        bare.dismiss()


@cache
def _loaded() -> Kernel:
    return load_object(compile_object(KERNELS, host_machine()))


@cache
def _compiled_pool(host: Host) -> Kernel:
    module = ir.Module("pool")
    emit_pool(module, host)
    return load_object(compile_object(str(module), host_machine()))
