"""Functions called again and again with arrays of the same shapes take a short way."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tconv
from tconv import ops
from tconv.runtime.compiled import MOST_KEPT

Array = npt.NDArray[Any]
SHAPE = (8, 8, 3, 3)


def whole(shape: tuple[int, ...], seed: int) -> Array:
    """Return small whole numbers: sums of their products are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def quick_ones() -> list[Any]:
    """Return what packs into memory that is used again, of all quick calls."""
    kept = [quick._repacking for quick in ops._QUICK.values()]  # noqa: SLF001 - nobody else sees it
    return [each for each in kept if each is not None]


@pytest.fixture
def data() -> Array:
    """Return a picture; no quick call is known yet."""
    ops._QUICK.clear()  # noqa: SLF001 - as above
    return whole((1, 8, 5, 4), 1)


def expected(data: Array, weights: Array) -> Array:
    """Return what the long way finds: a list is no key."""
    return tconv.conv_transpose(data, weights, padding=[1, 1])


def test_other_weights_are_packed_again(data: Array) -> None:
    """Into the same memory, call after call, changed in place or not."""
    weights = whole(SHAPE, 2)
    for seed in range(5):
        weights[:] = whole(SHAPE, seed)

        np.testing.assert_array_equal(
            tconv.conv_transpose(data, weights, padding=1), expected(data, weights)
        )
    (kept,) = quick_ones()

    assert len(kept.spare) == 1


def test_infinite_weights_are_noticed_and_forgotten(data: Array) -> None:
    """An infinity meets no zeros around the picture, and the next call is quick again."""
    weights, wild = whole(SHAPE, 2), whole(SHAPE, 2)
    wild[0, 0, 0, 0] = np.inf
    for _ in range(3):
        for each in (weights, wild):
            np.testing.assert_array_equal(
                tconv.conv_transpose(data, each, padding=1), expected(data, each)
            )


def test_weights_that_lie_askew_take_the_long_way(data: Array) -> None:
    """Elements at odd addresses cannot be read by kernels."""
    weights = whole(SHAPE, 2)
    due = tconv.conv_transpose(data, weights, padding=1)
    askew = np.frombuffer(b"?" + weights.tobytes(), np.uint8)[1:].view(np.float32).reshape(SHAPE)

    for _ in range(3):
        np.testing.assert_array_equal(tconv.conv_transpose(data, askew, padding=1), due)


def test_every_thread_has_memory_of_its_own(data: Array) -> None:
    """Two calls at once do not pack into the same place."""
    many = [whole(SHAPE, seed) for seed in range(8)]
    due = [expected(data, weights) for weights in many]
    tconv.conv_transpose(data, many[0], padding=1)

    def call(number: int) -> bool:
        return all(
            np.array_equal(tconv.conv_transpose(data, many[number], padding=1), due[number])
            for _ in range(300)
        )

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(call, range(8)))
    (kept,) = quick_ones()

    assert len({room.address for room in kept.spare}) == len(kept.spare) <= 8


def test_large_weights_keep_no_memory(data: Array) -> None:
    """What a call does not need any more is let go."""
    weights = whole((8, 64, 9, 9), 2)
    for _ in range(2):
        np.testing.assert_array_equal(
            tconv.conv_transpose(data, weights, padding=1), expected(data, weights)
        )

    assert weights.nbytes > MOST_KEPT
    assert not quick_ones()


def test_true_is_not_one(data: Array) -> None:
    """Equal keys of different types are different calls."""
    weights = whole(SHAPE, 2)
    tconv.conv_transpose(data, weights, stride=1)

    with pytest.raises(tconv.ProblemError):
        tconv.conv_transpose(data, weights, stride=True)


def test_a_result_on_top_of_the_weights_is_refused_every_time(data: Array) -> None:
    """Also when the call is known."""
    weights = whole((8, 8, 3, 3), 2)
    out = weights.reshape(-1)[: 1 * 8 * 3 * 2].reshape(1, 8, 3, 2)
    tconv.conv(data, weights)
    for _ in range(2):
        with pytest.raises(tconv.ProblemError):
            tconv.conv(data, weights, out=out)
