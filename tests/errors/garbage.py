"""Values that people and programs pass by mistake, for hypothesis to combine."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from errors.attribute_cases import ATTRIBUTES
from errors.callees import Callee

# Nothing between: a result of some gigabytes would be computed, not refused.
HUGE = (2**62, 2**63 - 1, 2**63, -(2**63), 2**64, 10**20)

small = st.integers(-2, 6)
# Python itself refuses to print numbers of so many digits, and so would a list of them here.
unprintable = st.just(5000).map(lambda digits: 10**digits)
number = st.one_of(small, small, small, st.sampled_from(HUGE), unprintable)

scalar: st.SearchStrategy[Any] = st.one_of(
    number,
    st.none(),
    st.booleans(),
    st.floats(width=16),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.sampled_from(
        [
            np.int8(2),
            np.uint64(2**63),
            np.bool_(True),  # noqa: FBT003 - a value like any other
            np.float32(2),
            np.array(2),
            np.array([1, 2]),
            np.array([1.5]),
            np.array(["a"]),
            np.array([None]),
            np.ones((1, 2, 3), np.float32),
            np.str_("valid"),
            Fraction(1, 2),
            1j,
            math.nan,
            object(),
            type,
            Ellipsis,
            NotImplemented,
            b"1",
            {},
            {1: 2},
            frozenset({1}),
            range(2),
            range(0),
            memoryview(b"12"),
        ]
    ),
)
anything: st.SearchStrategy[Any] = st.one_of(
    scalar,
    st.lists(number, max_size=4),
    st.lists(number, max_size=4).map(tuple),
    st.lists(scalar, max_size=3),
    st.lists(number, max_size=4).map(lambda sizes: np.array(sizes, object)),
    st.lists(small, max_size=4).map(lambda sizes: np.array(sizes, np.int64)),
    st.recursive(st.lists(small, max_size=2), lambda inner: st.lists(inner, max_size=2)),
    st.sampled_from(
        ["same_upper", "SAME_LOWER", "valid", "none", "NXC", "NCX", "XIO", "IOX", "same"]
    ),
)
size = st.one_of(small, small, st.none(), st.sampled_from(HUGE), unprintable)


@st.composite
def changed_shape(
    draw: st.DrawFn, shape: tuple[int, ...], sizes: st.SearchStrategy[Any] = size
) -> tuple[Any, ...]:
    """Change, drop or add some sizes of a sound shape."""
    changed: list[Any] = list(shape)
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(changed)))
        new = [draw(sizes)] * draw(st.integers(0, 1))
        changed[place : place + draw(st.integers(0, 1))] = new
    return tuple(changed)


@st.composite
def changed_array(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:  # noqa: ANN401 - any dtype
    """Return an array of zeros, its shape or its element type changed now and then."""
    sizes = draw(changed_shape(shape, st.integers(0, 8)))
    dtypes = ["f4"] * 6 + ["f2", "f8", "i4", ">f4", "?", "O", "U3"]
    return np.zeros(sizes, draw(st.sampled_from(dtypes)))


@st.composite
def changed_attributes(draw: st.DrawFn, callee: Callee) -> Mapping[str, Any]:
    """Change some attributes of a sound call, and now and then add unknown ones."""
    known = st.sampled_from(ATTRIBUTES[callee.name])
    unknown = st.text("abcgnoprst", min_size=1, max_size=6)
    names = draw(st.lists(st.one_of(known, known, known, known, unknown), max_size=3))
    near = st.one_of(small, st.lists(small, min_size=2, max_size=2))
    return {name: draw(st.one_of(near, near, anything)) for name in names}
