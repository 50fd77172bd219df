"""The comparisons of tests/live can fail, and missing engines cannot go unnoticed."""

import ml_dtypes
import numpy as np
import pytest

from engines import require
from live.compare import Tally, check_equal, check_rounded

NUMBERS = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_equal_results_pass() -> None:
    """The same values in other strides are the same."""
    check_equal(NUMBERS, np.asfortranarray(NUMBERS))


def test_one_wrong_value_is_noticed() -> None:
    """The smallest possible difference is one, and so is a NaN."""
    for wrong, message in (
        (np.nextafter(np.float32(5), np.float32(6)), "Mismatched elements: 1 / 6"),
        (np.nan, "nan location mismatch"),
    ):
        other = NUMBERS.copy()
        other[-1, -1] = wrong
        with pytest.raises(AssertionError, match=message):
            check_equal(NUMBERS, other)


def test_another_shape_or_type_is_noticed() -> None:
    """Broadcasting or converting must not make results equal."""
    with pytest.raises(AssertionError, match=r"shapes .* mismatch"):
        check_equal(NUMBERS[:1], NUMBERS)
    with pytest.raises(AssertionError, match=r"shapes .* mismatch"):
        check_equal(np.ones((1, 1), np.float32), np.ones((1,), np.float32))
    with pytest.raises(AssertionError, match=r"dtypes .* mismatch"):
        check_equal(NUMBERS, NUMBERS.astype(np.float64))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_a_second_rounding_is_noticed(dtype: type[np.generic]) -> None:
    """A sum that was rounded at every step stops growing; a neighbour is one rounding off."""
    ones = 2 ** (11 if dtype is np.float16 else 8)
    exact = np.array([1.5 * ones])
    once, stuck = exact.astype(dtype), np.array([ones]).astype(dtype)
    neighbours = [np.array([1.5 * ones + step]).astype(dtype) for step in (2, -2)]
    check_rounded(once, exact, exact, terms=10)

    for wrong in (stuck, *neighbours, np.array([np.nan]).astype(dtype)):
        with pytest.raises(AssertionError, match="1 values are not rounded once"):
            check_rounded(wrong, exact, exact, terms=10)


def test_either_neighbour_passes_where_float32_cannot_tell() -> None:
    """Between two float16 the last bit of a float32 sum decides; elsewhere it does not."""
    exact = np.array([2049.0])  # half way from 2048 to 2050
    for value in (2048, 2050):
        check_rounded(np.array([value], np.float16), exact, exact, terms=1)
    with pytest.raises(AssertionError, match="not rounded once: 2052"):
        check_rounded(np.array([2052], np.float16), exact, exact, terms=1)


def test_another_shape_is_not_rounded_once() -> None:
    """Broadcasting must not hide it."""
    with pytest.raises(AssertionError, match=r"the shape is \(1,\), not \(2,\)"):
        check_rounded(np.ones(1, np.float16), np.ones(2), np.ones(2), terms=1)


def test_a_tally_of_refusals_fails() -> None:
    """An engine that refuses nearly everything agrees with nothing."""
    tally = Tally()
    with pytest.raises(AssertionError, match="only 0% of the cases"):
        tally.check_share(0.5)
    tally.note("computed")
    tally.check_share(1.0)
    for _ in range(3):
        tally.note("no implementation")
    tally.check_share(0.25)

    with pytest.raises(AssertionError, match=r"only 25% .*no implementation"):
        tally.check_share(0.5)


def test_a_missing_engine_is_a_skip_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests without an engine is told which one."""
    monkeypatch.delenv(require.VARIABLE, raising=False)

    with pytest.raises(pytest.skip.Exception, match="no_such_engine cannot be imported"):
        require.module("no_such_engine")
    with pytest.raises(pytest.skip.Exception, match="it does not load"):
        require.usable("it does not load")


def test_a_missing_engine_is_a_failure_where_engines_are_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Automatic checks set the variable, so that a broken installation cannot pass as a skip."""
    monkeypatch.setenv(require.VARIABLE, "1")

    with pytest.raises(pytest.fail.Exception, match=r"no_such_engine cannot be imported.* is 1"):
        require.module("no_such_engine")
    with pytest.raises(pytest.fail.Exception, match="it does not load"):
        require.usable("it does not load")


def test_an_engine_that_is_there_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether engines are required or not."""
    for required in ("0", "1"):
        monkeypatch.setenv(require.VARIABLE, required)
        require.usable(None)

        assert require.module("numpy") is np
