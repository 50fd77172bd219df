"""How many threads to use."""

import os
from collections.abc import Callable
from pathlib import Path

from tconv.dialects.attributes import integer
from tconv.settings import settings

_count: int | None = None  # until it is asked for: reading the settings may raise
_watchers: list[Callable[[int], None]] = []


def get_num_threads() -> int:
    """Return how many threads a call may use."""
    global _count  # noqa: PLW0603 - one number for the process, as in torch
    if _count is None:
        _count = settings().threads or available_cpus()
    return _count


def set_num_threads(count: int) -> None:
    """Set how many threads a call may use.

    Results do not depend on it.  The NumPy engine leaves threads to NumPy's own
    matrix product, so there it changes nothing else.
    """
    global _count  # noqa: PLW0603 - see get_num_threads
    number: int = integer(1)("tconv set_num_threads", "count", count)  # type: ignore[assignment]
    _count = number
    for watcher in _watchers:
        watcher(number)


def watch(watcher: Callable[[int], None]) -> None:
    """Call ``watcher`` with every number that is set from now on."""
    _watchers.append(watcher)


def available_cpus(root: Path = Path("/")) -> int:
    """Return how many processors this process may keep busy.

    That is its CPU affinity, and in a container no more than its share of time: two
    processors' worth of time spent by sixty-four threads is spent waiting.
    """
    share = _cgroup_share(root)
    cpus = _affinity()
    return cpus if share is None else max(1, min(cpus, share))


def _affinity() -> int:
    # process_cpu_count (3.13) also heeds PYTHON_CPU_COUNT; older Pythons know the affinity.
    count = getattr(os, "process_cpu_count", None)
    if count is None and hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return (count or os.cpu_count)() or 1


def _cgroup_share(root: Path) -> int | None:
    """Return the least number of processors that any enclosing cgroup allows, rounded up."""
    shares = [
        share
        for folder in _cgroup_folders(root)
        for share in (_share_v2(folder), _share_v1(folder))
        if share is not None
    ]
    return min(shares, default=None)


def _cgroup_folders(root: Path) -> list[Path]:
    """List the folders whose limits hold for this process, its own cgroup first.

    Each line of /proc/self/cgroup is ``hierarchy:controllers:path``; version 2 has the
    hierarchy 0 and no controllers.  Inside a container the path may name a place that is
    only seen from outside; its limits then stand in the mounted root.
    """
    mount = root / "sys" / "fs" / "cgroup"
    folders = [mount, mount / "cpu"]
    for line in _text(root / "proc" / "self" / "cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = mount / controllers if controllers else mount
        parts = [part for part in path.split("/") if part and part != ".."]
        folders += [top.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]
    return folders


def _share_v2(folder: Path) -> int | None:
    quota, _, period = _text(folder / "cpu.max").strip().partition(" ")
    return _rounded_up(quota, period)


def _share_v1(folder: Path) -> int | None:
    quota, period = (_text(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    return _rounded_up(quota, period)


def _rounded_up(quota: str, period: str) -> int | None:
    """Return quota / period rounded up; None where either sets no limit ("max", "-1", "").

    >>> _rounded_up("150000", "100000"), _rounded_up("max", "100000"), _rounded_up("-1", "")
    (2, None, None)
    """
    numbers = [text.strip() for text in (quota, period)]
    if not all(text.isascii() and text.isdigit() and int(text) for text in numbers):
        return None
    return -(-int(numbers[0]) // int(numbers[1]))


def _text(path: Path) -> str:
    """Read a small file of the system; one that is missing or closed to us sets no limit."""
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
