"""One thread for small cases: more would only wait for each other."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _one_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave both libraries' numbers of threads as they were; models keep them all."""
    torch = sys.modules["torch"]
    tconv = sys.modules["tconv"]
    theirs, ours = torch.get_num_threads(), tconv.get_num_threads()
    if not request.module.__name__.endswith("test_models"):
        torch.set_num_threads(1)
    yield
    torch.set_num_threads(theirs)
    tconv.set_num_threads(ours)
