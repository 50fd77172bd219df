"""The helpers of the conformance tests reject wrong answers and lose no case."""

from collections import Counter

import ml_dtypes
import numpy as np
import pytest

import vectors

X = np.array([[[1.0, 2.0, 3.0, -4.0]]])
W = np.array([[[2.0, -1.0]]])
Y = np.array([[[2.0, 3.0, 4.0, -11.0, 4.0]]])
UNEVEN = X / 3
"""Values that no float type holds, so that only a tolerance is left."""

needs_vectors = pytest.mark.skipif(
    vectors.folder() is None, reason="the test vectors beside the repository are not here"
)


@pytest.mark.parametrize("dtype", vectors.DTYPES)
def test_the_right_answer_is_accepted(dtype: str) -> None:
    """An exact answer passes, and so does one within the tolerance of its type."""
    answer = Y.astype(vectors.DTYPES[dtype])

    vectors.check_answer(answer, Y, X, W)
    vectors.check_answer((Y / 3).astype(vectors.DTYPES[dtype]), Y / 3, UNEVEN, W)


@pytest.mark.parametrize("dtype", vectors.DTYPES)
@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(np.zeros_like(Y), id="zeros"),
        pytest.param(Y[..., ::-1], id="reversed"),
        pytest.param(np.roll(Y, 1), id="shifted"),
        pytest.param(-Y, id="negated"),
        pytest.param(np.full_like(Y, np.nan), id="never written"),
        pytest.param(Y[..., :-1], id="short"),
        pytest.param(Y[0], id="of another rank"),
        pytest.param(np.where(np.arange(5) == 3, np.inf, Y), id="infinite in one place"),
    ],
)
def test_a_wrong_answer_is_rejected(wrong: vectors.Array, dtype: str) -> None:
    """Neither the exact comparison nor the tolerant one lets it by."""
    answer = wrong.astype(vectors.DTYPES[dtype])

    with pytest.raises(AssertionError):
        vectors.check_answer(answer, Y, X, W)
    with pytest.raises(AssertionError):
        vectors.check_answer((answer / 3).astype(answer.dtype), Y / 3, UNEVEN, W)


@pytest.mark.parametrize("dtype", vectors.DTYPES)
def test_exact_sums_leave_no_room_for_one_unit_in_the_last_place(dtype: str) -> None:
    """Whole numbers are compared bit for bit."""
    answer = Y.astype(vectors.DTYPES[dtype])
    answer[0, 0, 1] = np.nextafter(answer[0, 0, 1], answer.dtype.type(9))

    assert vectors.sums_are_exact(answer.dtype, X, W)
    with pytest.raises(AssertionError):
        vectors.check_answer(answer, Y, X, W)


def test_an_answer_that_was_rounded_twice_is_rejected() -> None:
    """767 is 768 in bfloat16; sums rounded one by one stay at 256."""
    x, w = np.array([[[256.0] + [1.0] * 511]]), np.ones((512, 1, 1))
    y = np.array([[[767.0]]])

    vectors.check_answer(np.array([[[768]]], ml_dtypes.bfloat16), y, x, w)
    for wrong in (256, 764, 772):
        with pytest.raises(AssertionError):
            vectors.check_answer(np.array([[[wrong]]], ml_dtypes.bfloat16), y, x, w)


def test_sums_are_not_called_exact_beyond_what_float32_can_count() -> None:
    """Thirds, values that a type must round, and long sums get a tolerance."""
    half, single = vectors.DTYPES["f16"], vectors.DTYPES["f32"]
    many = np.full(2**18, 8.0)

    assert not vectors.sums_are_exact(single, UNEVEN, W)
    assert not vectors.sums_are_exact(half, np.array([2049.0]), W)
    assert not vectors.sums_are_exact(single, many, many)
    assert not vectors.sums_are_exact(single, X, W, UNEVEN)


def test_relaid_weights_keep_every_value_under_its_own_letters() -> None:
    """Weights that count their own places say where each axis went."""
    weights = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)

    for wanted in vectors.FORMATS:
        there = vectors.relaid(weights, "IOX", wanted)
        place = {"X": (3, 4), "O": (2,), "I": (1,)}
        assert there[tuple(i for letter in wanted for i in place[letter])] == weights[1, 2, 3, 4]
        assert np.array_equal(vectors.relaid(there, wanted, "IOX"), weights)


@needs_vectors
def test_every_case_of_every_file_belongs_to_one_specification() -> None:
    """What the four conformance modules ask for is what the files have, each case once."""
    place = vectors.folder()
    assert place is not None
    files = {each.name: vectors.read(each) for each in sorted(place.glob("*.json"))}
    loaded = Counter(str(case) for name in vectors.SPECIFICATIONS for case in vectors.cases(name))
    written = Counter(str(case) for _, cases in files.values() for case in cases)

    assert loaded == written
    for meta, cases in files.values():
        assert meta["count"] == len(cases)
