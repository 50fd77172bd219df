"""How results are compared with an engine's: to the last bit, or to one rounding."""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def check_equal(ours: Array, theirs: Array) -> None:
    """Fail unless two results have the same type, shape and values."""
    np.testing.assert_array_equal(ours, theirs, strict=True)


def check_rounded(ours: Array, exact: Array, magnitude: Array, terms: int) -> None:
    """Fail unless ``ours`` is the exact sum, added up in float32 and rounded once to its type.

    ``exact`` is the result in float64, ``magnitude`` the same of all absolute values.  However
    ``terms`` products are added up in float32, the sum is off by less than ``terms`` roundings
    of ``magnitude``; and rounding once more cannot change the order of numbers.
    """
    if ours.shape != exact.shape:
        raise AssertionError(f"the shape is {ours.shape}, not {exact.shape}")
    off = magnitude * (terms * 2.0**-24)
    low, high = ((exact + end).astype(ours.dtype).astype(np.float64) for end in (-off, off))
    values = ours.astype(np.float64)
    wrong = np.argwhere(~((low <= values) & (values <= high)))  # so that NaN is wrong
    if len(wrong):
        first = tuple(wrong[0])
        raise AssertionError(
            f"{len(wrong)} values are not rounded once: {values[first]} at {first} should be "
            f"between {low[first]} and {high[first]}"
        )


class Tally:
    """Counts what an engine made of random cases, to see that it did not just refuse them."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    def note(self, outcome: str) -> None:
        """Count one case as "computed", or as something else."""
        self.count[outcome] += 1

    def check_share(self, least: float) -> None:
        """Fail unless this share of all cases was computed."""
        share = self.count["computed"] / max(self.count.total(), 1)
        if share < least:
            raise AssertionError(f"only {share:.0%} of the cases were computed: {self.count}")
