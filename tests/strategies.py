"""Random problems: every axis, layout, group and dtype that the relation allows."""

import itertools

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tconv.problem import DTYPES, Axis, Layout, Operand, Problem, numpy_dtype

Array = npt.NDArray[np.generic]

DATA = tuple(" ".join(order) for order in itertools.permutations(("n", "gX", "x")))
WEIGHTS = tuple(
    " ".join(order)
    for words in (("gc", "f", "x"), ("c", "gf", "x"), ("g", "c", "f", "x"))
    for order in itertools.permutations(words)
)


# Around what tiles and vectors hold: few, one vector, two vectors, and one more or less.
CHANNELS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 24, 33)


@st.composite
def an_axis(draw: st.DrawFn, most: int = 5) -> Axis:
    """Draw one axis, sizes free of each other: the relation drops what does not meet."""
    return Axis(
        fine_size=draw(st.integers(1, 2 * most)),
        coarse_size=draw(st.integers(1, most)),
        taps=draw(st.integers(1, 4)),
        stride=draw(st.integers(1, 4)),
        dilation=draw(st.integers(1, 3)),
        pad_begin=draw(st.integers(-2, 6)),
    )


@st.composite
def a_problem(draw: st.DrawFn, ranks: int = 3, dtypes: tuple[str, ...] = DTYPES) -> Problem:
    """Draw a whole problem in any layout."""
    return Problem(
        wanted=draw(st.sampled_from(list(Operand))),
        batch=draw(st.integers(0, 3)),
        groups=draw(st.integers(1, 3)),
        coarse_channels=draw(st.sampled_from(CHANNELS)),
        fine_channels=draw(st.sampled_from(CHANNELS)),
        axes=tuple(draw(st.lists(an_axis(most=3), min_size=1, max_size=ranks))),
        dtype=draw(st.sampled_from(dtypes)),
        coarse_layout=Layout(draw(st.sampled_from(DATA)).replace("X", "c")),
        fine_layout=Layout(draw(st.sampled_from(DATA)).replace("X", "f")),
        weights_layout=Layout(draw(st.sampled_from(WEIGHTS))),
    )


def whole_numbers(shape: tuple[int, ...], dtype: str, seed: int, most: int = 3) -> Array:
    """Return small whole numbers, whose sums are exact in every type."""
    numbers = np.random.default_rng(seed).integers(-most, most + 1, shape)
    return numbers.astype(numpy_dtype(dtype))


def as_float64(array: Array) -> npt.NDArray[np.float64]:
    """Return an array in float64, from bfloat16 too."""
    return array.astype(np.float64)
