"""Our own workers, whatever tests before these made of them, and as many as before."""

from collections.abc import Iterator

import pytest

import tconv
from tconv.runtime import pool


@pytest.fixture(autouse=True)
def _own_workers() -> None:
    """Leave torch's threads, which the adapter for torch works on in the whole process."""
    pool.borrow(None)


@pytest.fixture(autouse=True)
def _as_many_threads() -> Iterator[None]:
    """Leave the number of threads as it was."""
    before = tconv.get_num_threads()
    yield
    tconv.set_num_threads(before)
