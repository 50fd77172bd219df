"""How many threads to use."""

import os

from tconv.dialects.attributes import integer
from tconv.settings import settings

_chosen: int | None = None


def get_num_threads() -> int:
    """Return how many threads a call may use."""
    return _chosen or settings().threads or _available()


def set_num_threads(count: int) -> None:
    """Set how many threads a call may use; results do not depend on it."""
    global _chosen  # noqa: PLW0603 - one number for the process, as in torch
    _chosen = integer(1)("tconv set_num_threads", "count", count)  # type: ignore[assignment]


def _available() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
