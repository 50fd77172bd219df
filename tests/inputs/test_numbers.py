"""NaN, infinities, overflow, tiny numbers and rounding, as the definition has them."""

import warnings

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tconv
from errors.callees import CALLEES
from inputs.forms import Array, bits, definition

BF16 = np.dtype(ml_dtypes.bfloat16)
SPECIAL = {"nan": np.nan, "inf": np.inf, "minus inf": -np.inf}

each_callee = pytest.mark.parametrize("name", list(CALLEES))


def dot(
    left: list[float], right: list[float], dtype: npt.DTypeLike, bias: float | None = None
) -> Array:
    """Return one sum of products, asked as a convolution of one point."""
    data = np.array(left, np.float64).astype(dtype).reshape(1, -1, 1)
    weights = np.array(right, np.float64).astype(dtype).reshape(1, -1, 1)
    extra = None if bias is None else np.array([bias]).astype(dtype)
    forward = tconv.conv(data, weights, extra)
    backward = tconv.conv_transpose(data, weights.reshape(-1, 1, 1), extra)

    assert bits(forward) == bits(backward)
    return forward.ravel()


@each_callee
@pytest.mark.parametrize("special", list(SPECIAL))
@pytest.mark.parametrize("place", [0, 1], ids=["first", "second"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_special_values_go_where_the_definition_sends_them(
    name: str, special: str, place: int, dtype: str
) -> None:
    """And nowhere else: a point that never meets them stays finite."""
    callee = CALLEES[name]
    for seed in range(3):
        arrays = callee.arrays(dtype, seed)
        where = np.random.default_rng(seed).integers(arrays[place].size)
        arrays[place].reshape(-1)[where] = SPECIAL[special]
        expected = definition(callee, arrays)

        np.testing.assert_array_equal(
            callee.run(*arrays).astype("f8"), expected.astype("f8"), strict=True
        )


@each_callee
def test_special_values_in_both_inputs_meet_as_in_the_definition(name: str) -> None:
    """Infinity times zero is NaN where both are in range, and nothing at all in the padding."""
    callee = CALLEES[name]
    for seed in range(4):
        arrays = callee.arrays(seed=seed)
        numbers = np.random.default_rng(seed)
        for array in arrays:
            array.reshape(-1)[numbers.integers(array.size, size=2)] = np.inf
            array.reshape(-1)[numbers.integers(array.size, size=9)] = 0

        np.testing.assert_array_equal(callee.run(*arrays), definition(callee, arrays))


@each_callee
def test_infinite_weights_never_meet_the_padding(name: str) -> None:
    """A window that hangs over the edge reads no zeros there, or infinity would make them NaN."""
    callee = CALLEES[name]
    first, second = callee.arrays()
    ones = np.ones_like(first)
    full = np.full_like(second, np.inf)
    if "eight" in callee.name:
        full = np.ones_like(second)
        ones = np.full_like(first, np.inf)
    expected = definition(callee, (ones, full))

    result = callee.run(ones, full)

    np.testing.assert_array_equal(result, expected)
    assert not np.isnan(result).any()


def test_special_values_in_a_bias_pass_without_warning() -> None:
    """Infinity minus infinity is NaN, and that is an answer."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = [
            dot([np.inf], [1], np.float32, bias=-np.inf),
            dot([1], [np.inf], np.float32, bias=-np.inf),
            dot([np.inf, -np.inf], [1, 1], np.float32, bias=1),
        ]
        large = [
            dot([3e38], [1], np.float32, bias=3e38),
            dot([3e38, 1], [1, np.inf], np.float32, bias=3e38),
        ]

    assert np.isnan(results).all()
    assert np.isinf(large).all()


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [(np.float16, 65504.0), (BF16, 3.3895313892515355e38), (np.float32, 3.4028234663852886e38)],
)
def test_overflow_is_infinity(dtype: npt.DTypeLike, largest: float) -> None:
    """Beyond the largest number lies infinity, of either sign, without a warning."""
    assert dot([largest], [1], dtype)[0] == largest
    assert dot([largest, largest], [1, 1], dtype)[0] == np.inf
    assert dot([largest, largest], [-1, -1], dtype)[0] == -np.inf
    assert dot([1], [1], dtype, bias=np.inf)[0] == np.inf


def test_sums_may_pass_the_largest_number_on_their_way() -> None:
    """Half types are summed in float32, so only the result can overflow."""
    assert dot([65504, 65504, 65504], [1, 1, -1], np.float16)[0] == 65504


def test_overflow_begins_half_a_step_above_the_largest_number() -> None:
    """65519 still rounds down, 65520 is a tie and goes to infinity."""
    assert dot([65504, 15], [1, 1], np.float16)[0] == 65504
    assert dot([65504, 16], [1, 1], np.float16)[0] == np.inf


@pytest.mark.parametrize(
    ("dtype", "bits_below"), [(np.float16, 24), (BF16, 133), (np.float32, 149), (np.float64, 1074)]
)
def test_the_smallest_numbers_are_kept(dtype: npt.DTypeLike, bits_below: int) -> None:
    """Numbers below the normal range are neither read nor written as zero."""
    tiny = 2.0**-bits_below
    half = 2.0 ** -(bits_below // 2)
    other = 2.0 ** -(bits_below - bits_below // 2)

    assert dot([tiny], [1], dtype)[0] == tiny
    assert dot([tiny, tiny, tiny], [1, 1, 1], dtype)[0] == 3 * tiny
    assert dot([half], [other], dtype)[0] == tiny
    assert dot([1], [1], dtype, bias=tiny)[0] == 1


# sum of products, bias -> what one rounding to nearest even leaves; two roundings would not
ROUNDINGS: dict[str, list[tuple[list[float], float | None, float]]] = {
    "float16": [
        ([2048, 1], None, 2048),  # a tie, down to even
        ([2050, 1], None, 2052),  # a tie, up to even
        ([2048, 1, 1], None, 2050),  # rounding each step would stay at 2048
        ([2048, 1, 2**-12], None, 2050),  # just above the tie
        ([2050, 1, -(2**-12)], None, 2050),  # just below it
        ([-2048, -1], None, -2048),
        ([-2050, -1], None, -2052),
        ([2048, 1], 1, 2050),  # the bias comes before the rounding
        ([2050], 1, 2052),
    ],
    "bfloat16": [
        ([256, 1], None, 256),
        ([258, 1], None, 260),
        ([256, 1, 1], None, 258),
        ([256, 1, 2**-15], None, 258),
        ([258, 1, -(2**-15)], None, 258),
        ([-256, -1], None, -256),
        ([-258, -1], None, -260),
        ([256, 1], 1, 258),
        ([258], 1, 260),
    ],
    "float32": [
        ([2**24, 1], None, 2**24),
        ([2**24 + 2, 1], None, 2**24 + 4),
        ([2**24], 1, 2**24),
    ],
    "float64": [
        ([2**53, 1], None, 2**53),
        ([2**53 + 2, 1], None, 2**53 + 4),
        ([2**24, 1], None, 2**24 + 1),  # summed in its own type, not in float32
        ([1, 2**-52], None, 1 + 2**-52),
    ],
}
CASES = [(dtype, *case) for dtype, cases in ROUNDINGS.items() for case in cases]


@pytest.mark.parametrize(("dtype", "terms", "bias", "expected"), CASES)
def test_a_sum_is_rounded_once_to_nearest_even(
    dtype: str, terms: list[float], bias: float | None, expected: float
) -> None:
    """Whatever the type, one rounding at the very end, ties to even, bias included."""
    kind = BF16 if dtype == "bfloat16" else np.dtype(dtype)

    assert float(dot(terms, [1] * len(terms), kind, bias)[0]) == expected


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weight_gradients_are_rounded_once_too(dtype: str) -> None:
    """The sum over batch and points is one sum."""
    big = {"float16": 2048, "bfloat16": 256}[dtype]
    data = np.array([big, 1, 1], np.float64).astype(dtype)
    for shape in ((3, 1, 1), (1, 1, 3)):
        gradient = tconv.conv_grad_weight(
            data.reshape(shape), (1, 1, 1), np.ones(shape).astype(dtype)
        )

        assert float(gradient[0, 0, 0]) == big + 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_half_number_survives_a_copy(dtype: str) -> None:
    """All 65536 patterns times one are themselves, NaN staying NaN."""
    every = np.arange(2**16, dtype=np.uint16).view(np.dtype(dtype)).reshape(1, 1, -1)
    one = np.ones((1, 1, 1)).astype(dtype)

    for result in (tconv.conv(every, one), tconv.conv_transpose(every, one)):
        np.testing.assert_array_equal(result.astype("f4"), every.astype("f4"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rounding_of_every_pair_of_neighbours(dtype: str) -> None:
    """The mean of two neighbours is a tie and goes to the even one, everywhere."""
    whole = np.arange(1, 2**15 - 1, dtype=np.uint16).view(np.dtype(dtype))
    low = whole[:-1][np.isfinite(whole[1:].astype("f4"))].astype("f4")
    high = np.nextafter(low.astype(dtype), np.array(np.inf, dtype)).astype("f4")
    ties = (low.astype("f8") + high.astype("f8")) / 2
    data = np.stack([low, high]).astype(dtype).reshape(1, 2, -1)
    half = np.full((1, 2, 1), 0.5).astype(dtype)

    result = tconv.conv(data, half).ravel()

    even = np.where(low.astype(dtype).view(np.uint16) % 2 == 0, low, high)
    exact = ties.astype("f4") == ties  # what float32 can hold before the rounding
    np.testing.assert_array_equal(result.astype("f4")[exact], even[exact])
    assert exact.sum() > 30_000
