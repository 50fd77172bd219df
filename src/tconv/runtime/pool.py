"""Share a kernel's items among threads that wait inside compiled code.

Workers are Python threads that enter ``pool_work`` without the interpreter's lock and stay
there, so handing them work costs a microsecond or two and no Python.
"""

import atexit
import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from llvmlite import ir

from tconv import codegen
from tconv.codegen.aside import MASK_WORDS, SHUNNED
from tconv.codegen.pool import (
    ASIDE,
    BRIEF,
    CAPACITY,
    CPUS,
    LINE,
    PATIENCE,
    POOL_BYTES,
    SLOTS,
    STOP,
    emit_pool,
)
from tconv.codegen.team import emit_team
from tconv.codegen.waiting import Host
from tconv.jit import KernelSource, host_machine, load_kernel, source_version
from tconv.settings import settings
from tconv.threads import available_cpus, watch

__all__ = ["BRIEF", "borrow", "run", "watch_way", "way"]

_EXIT_SECONDS = 1.0  # how long the end of the interpreter waits for a worker's last item
_BORROWED = 1 << 62  # threads that are there when OpenMP gives them
_WORD = ctypes.c_void_p  # converts whole numbers twice as fast as c_size_t


@dataclass(frozen=True, slots=True)
class _Native:
    """The compiled pool: functions of whole numbers and addresses."""

    run: Callable[[int, int, int, int, int, int, int], None]
    work: Callable[[int, int], None]
    stop: Callable[[int, int], None]
    team: Callable[[int, int, int, int, int, int, int], None]


class _Crew:
    """A pool in memory and the threads parked in it; a forked child begins another."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.threads: list[threading.Thread] = []
        self.closed = False
        # Never freed: a worker may look at it until the process ends.
        memory = ctypes.create_string_buffer(POOL_BYTES + 8 * LINE)
        _keep_for_ever(memory)
        self.pool = -(-ctypes.addressof(memory) // (8 * LINE)) * (8 * LINE)


# What run() reads; globals are the cheapest place for it.
_crew: _Crew
_ready: int  # threads that have been arranged for
# How to run and the pool to run on: one thing, as another thread may look while it changes.
_way: tuple[Callable[[int, int, int, int, int, int, int], None], int]
_watchers: list[Callable[[], None]] = []


def run(  # noqa: PLR0913 - runs once a step: a record would cost more than the hand-off
    kernel: int, record: int, scratch: int, scratch_step: int, items: int, threads: int
) -> None:
    """Call ``kernel(record, scratch + worker * scratch_step, item)`` once for every item.

    ``kernel``, ``record`` and ``scratch`` are addresses, ``scratch_step`` is in bytes, and
    the caller is worker 0 of ``threads``, at least one.  Returns when all items are done and
    no worker touches the memory any more.  While another thread is in here the caller does
    its items alone, so callers never wait for each other.  With BRIEF added to the items, no
    worker is woken for a run that is over before, unless runs follow each other.
    """
    if threads > _ready:
        _grow(threads)
    native, pool = _way
    native(pool, kernel, record, scratch, scratch_step, items, threads)


def way(threads: int) -> tuple[int, int]:
    """Return the address of what runs so many threads, and what it takes for a pool."""
    if threads > _ready:
        _grow(threads)
    native, pool = _way
    return ctypes.cast(native, ctypes.c_void_p).value or 0, pool  # type: ignore[arg-type]


def watch_way(watcher: Callable[[], None]) -> None:
    """Call ``watcher`` whenever there is another way to run."""
    _watchers.append(watcher)


def borrow(team: tuple[int, int] | None) -> None:
    """Run on the threads of an OpenMP library from now on; None: on our own again.

    Takes the addresses of its ``GOMP_parallel`` and ``omp_get_thread_num``.  Where another
    library keeps threads busy waiting for work, workers of our own would share processors
    with them.  A forked child begins with workers of its own: OpenMP's are not there.
    """
    global _ready, _way  # noqa: PLW0603 - see there
    crew = _crew
    with crew.lock:
        if team is not None:
            _dismiss(crew, 0, None)
            _way = _native().team, _team(*team)
            _ready = _BORROWED
        elif _ready == _BORROWED:
            _ready = 0  # the next call finds its way and hires workers
        for watcher in _watchers:
            watcher()


def _team(parallel: int, thread_number: int) -> int:
    """Return the address of what ``team_run`` takes for a pool."""
    words = (ctypes.c_size_t * 2)(parallel, thread_number)
    _keep_for_ever(words)
    return ctypes.addressof(words)


def _grow(threads: int) -> None:
    """Start workers until there are ``threads`` threads, the caller among them."""
    global _ready, _way  # noqa: PLW0603 - see there
    crew = _crew
    with crew.lock:
        if threads <= _ready:
            return  # another thread was faster
        native = _native()
        _way = native.run, crew.pool
        _set_patience(crew, threads)
        wanted = 0 if crew.closed else min(threads, CAPACITY) - 1
        while len(crew.threads) < wanted and _hire(native, crew):
            pass
        # Even when there are fewer: asking again at every call would not help.
        _ready = threads


def _shrink(threads: int) -> None:
    """Let the workers go that ``threads`` threads do not need."""
    global _ready  # noqa: PLW0603 - see there
    crew = _crew
    with crew.lock:
        if threads >= _ready or _ready == _BORROWED:
            return
        _ready = threads
        _dismiss(crew, threads - 1, None)
        _set_patience(crew, threads)


def _hire(native: _Native, crew: _Crew) -> bool:
    """Park one more worker; False where the system gives no more threads."""
    index = len(crew.threads) + 1
    _number_at(crew.pool + 8 * (SLOTS + index * LINE + STOP)).value = 0
    worker = threading.Thread(
        target=native.work, args=(crew.pool, index), name=f"tconv worker {index}", daemon=True
    )
    try:
        worker.start()
    except RuntimeError:  # no more threads, or the interpreter is ending
        return False
    crew.threads.append(worker)
    return True


def _dismiss(crew: _Crew, kept: int, seconds: float | None) -> None:
    """Tell all workers but the first ``kept`` to leave, and wait until they are gone."""
    leaving: Sequence[threading.Thread] = crew.threads[kept:]
    del crew.threads[kept:]
    for index in range(kept + 1, kept + len(leaving) + 1):
        _native().stop(crew.pool, index)
    for worker in leaving:
        worker.join(seconds)


def _set_patience(crew: _Crew, threads: int) -> None:
    """Spin only with a processor for every thread; else it keeps the others from working."""
    patience = Host().patience if threads <= available_cpus() else 0
    _number_at(crew.pool + 8 * PATIENCE).value = patience
    # With a processor for every thread, workers keep away from their caller's.
    processors = _processors()
    mask = sum(1 << cpu for cpu in processors if cpu < 64 * MASK_WORDS) if patience else 0
    for word in range(MASK_WORDS):
        part = mask >> 64 * word & (1 << 64) - 1
        ctypes.c_uint64.from_address(crew.pool + 8 * (CPUS + word)).value = part
    if not patience and processors:
        for index, worker in enumerate(crew.threads, 1):
            _number_at(crew.pool + 8 * (SLOTS + index * LINE + ASIDE + SHUNNED)).value = 0
            with suppress(OSError):  # it may be gone
                os.sched_setaffinity(worker.native_id or 0, processors)


def _processors() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


@cache
def _native() -> _Native:
    """Compile the pool, or load it from the cache."""
    host = Host()

    def emit() -> str:
        module = ir.Module("pool")
        emit_team(module, emit_pool(module, host))
        return str(module)

    version = source_version(Path(codegen.__path__[0]))
    source = KernelSource("pool", repr(host), version, emit)
    code = load_kernel(source, host_machine(settings().cpu), settings().cache_dir)
    _keep_for_ever(code)

    def prototype(name: str, arguments: int) -> Callable[..., None]:
        return ctypes.CFUNCTYPE(None, *[_WORD] * arguments)(code.address(name))

    arguments = {"pool_run": 7, "pool_work": 2, "pool_stop": 2, "team_run": 7}
    return _Native(*(prototype(name, count) for name, count in arguments.items()))


def _keep_for_ever(thing: object) -> None:
    """Keep an object past the end of the interpreter, which empties all modules."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _number_at(address: int) -> ctypes.c_int64:
    return ctypes.c_int64.from_address(address)


def _begin() -> None:
    """Begin without workers: at import, and in a forked child, where all of them are gone."""
    global _crew, _ready
    _crew, _ready = _Crew(), 0


def _close() -> None:
    """Let all workers go before the interpreter ends; later calls run alone."""
    crew = _crew
    crew.closed = True
    if crew.lock.acquire(timeout=_EXIT_SECONDS):
        try:
            _dismiss(crew, 0, _EXIT_SECONDS)
        finally:
            crew.lock.release()


_begin()
watch(_shrink)
atexit.register(_close)
if hasattr(os, "register_at_fork"):
    # A fork waits until no other thread is starting or stopping workers, so that the child
    # cannot inherit half of that.
    os.register_at_fork(
        before=lambda: _crew.lock.acquire(),  # noqa: PLW0108 - a child has another crew
        after_in_parent=lambda: _crew.lock.release(),  # noqa: PLW0108 - the same
        after_in_child=_begin,
    )
