"""How many threads to use."""

import os

from tconv.dialects.attributes import integer
from tconv.settings import SETTINGS

_count = SETTINGS.threads or (
    len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
)


def get_num_threads() -> int:
    """Return how many threads a call may use."""
    return _count


def set_num_threads(count: int) -> None:
    """Set how many threads a call may use.

    Results do not depend on it.  The NumPy engine leaves threads to NumPy's own
    matrix product, so there it changes nothing else.
    """
    global _count  # noqa: PLW0603 - one number for the process, as in torch
    _count = integer(1)("tconv set_num_threads", "count", count)  # type: ignore[assignment]
