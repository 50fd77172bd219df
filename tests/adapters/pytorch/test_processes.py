"""Threads and processes: torch's number of threads counts, and forked workers work."""

import subprocess
import sys
import threading

import pytest

import tconv
from engines import require

torch = require.module("torch")

import tconv.adapters.torch as adapter  # noqa: E402 - without torch this file is skipped

# In a process of its own: a fork must not copy the threads of other tests.
LOADER = """
import torch
import tconv, tconv.adapters.torch as adapter

layer = adapter.ConvTranspose1d(4, 4, 4, stride=2).eval()
data = torch.randn(8, 4, 2000)
with torch.no_grad():
    right = layer(data)  # the parent's threads and packed weights are there now

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return len(data)

    def __getitem__(self, index):
        with torch.no_grad():
            return layer(data[index]), tconv.get_num_threads()

workers = {"num_workers": 2, "multiprocessing_context": "fork"}
found = list(torch.utils.data.DataLoader(Data(), batch_size=2, **workers))
assert torch.equal(torch.cat([batch for batch, _ in found]), right)
assert {int(number) for _, numbers in found for number in numbers} == {1}
with torch.no_grad():
    assert torch.equal(layer(data), right)
print("good")
"""


def test_torchs_number_of_threads_is_followed() -> None:
    """From the moment that it changes; tconv's own can be set after that."""
    data, weight = torch.randn(1, 8, 64, 64), torch.randn(8, 8, 3, 3)
    results = []
    for number in (1, 2, 3, 1):
        torch.set_num_threads(number)
        results.append(adapter.conv2d(data, weight))

        assert tconv.get_num_threads() == number
    tconv.set_num_threads(2)
    results.append(adapter.conv2d(data, weight))

    assert tconv.get_num_threads() == 2
    assert all(torch.equal(result, results[0]) for result in results)


def test_calls_from_several_threads() -> None:
    """Each has its result, also while packed weights are made and changed."""
    layer = adapter.Conv2d(8, 8, 3).eval()
    data = [torch.randn(1, 8, 20, 20 + index) for index in range(4)]
    with torch.no_grad():
        right = [torch.nn.functional.conv2d(each, layer.weight, layer.bias) for each in data]
    wrong: list[int] = []

    def work(index: int) -> None:
        with torch.no_grad():
            results = [layer(data[index]) for _ in range(20)]
        if not all(torch.allclose(result, right[index], atol=1e-5) for result in results):
            wrong.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(data))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_forked_workers_of_a_data_loader() -> None:
    """Torch gives each one thread, and so do we."""
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-W", "ignore", "-c", LOADER],
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip

    assert done.stdout == "good\n", done.stderr
