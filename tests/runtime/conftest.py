"""Our own workers, whatever tests before these made of them."""

import pytest

from tconv.runtime import pool


@pytest.fixture(autouse=True)
def _own_workers() -> None:
    """Leave torch's threads, which the adapter for torch works on in the whole process."""
    pool.borrow(None)
