"""Work on the threads that torch has already.

After an operator of torch's its OpenMP threads stay awake for a while, each on a processor of
its own, looking for the next one.  Workers of ours would have to share those processors.
"""

import ctypes
import sys
from pathlib import Path

import torch

from tconv.runtime import pool

FORKED = 0x40  # PF_FORKNOEXEC of Linux: this process is the copy of another


def join() -> None:
    """Have kernels run by torch's OpenMP threads, where that is safe; else by our own."""
    team = openmp()
    # A forked child has the parent's OpenMP without its threads: using it would wait for ever.
    if team is not None and not forked():
        pool.borrow(team)


def openmp() -> tuple[int, int] | None:
    """Return the addresses of the two functions that a team needs, None where there are none."""
    if "ATen parallel backend: OpenMP" not in torch.__config__.parallel_info():
        return None
    suffix = {"darwin": "dylib"}.get(sys.platform, "so")
    try:
        # A library finds the functions of those it was linked with: torch's own OpenMP, also
        # where there are several in the process.
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / f"libtorch_cpu.{suffix}"))
        functions = library.GOMP_parallel, library.omp_get_thread_num
    except (OSError, AttributeError):
        return None
    parallel, number = (ctypes.cast(each, ctypes.c_void_p).value for each in functions)
    return (parallel, number) if parallel and number else None


def forked() -> bool:
    """Tell whether this process may be a copy of one that had threads."""
    try:
        status = Path("/proc/self/stat").read_text()
    except OSError:
        return True  # cannot tell
    # The name, which may hold anything, ends with the last bracket; the flags come seventh.
    return bool(int(status.rpartition(")")[2].split()[6]) & FORKED)
