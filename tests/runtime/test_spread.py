"""Spread results on real arrays: exact, and the same in any company."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plan.test_spread import LAYOUTS, a_layer
from strategies import a_problem, as_float64, whole_numbers
from tconv import engine, reference
from tconv.plan import Spread, spreading
from tconv.plan import choose as choose_module
from tconv.plan import spread as spread_module
from tconv.plan import spread_parts as parts_module
from tconv.plan.choose import spread_plan
from tconv.problem import DTYPES, Activation, Axis, Layout, Operand, Problem, numpy_dtype
from tconv.runtime.kernels import machine
from tconv.threads import get_num_threads, set_num_threads

Array = npt.NDArray[Any]


def executable(problem: Problem) -> engine.Executable:
    """Return what spreads a smaller result, whatever the planner would choose."""
    worth = spreading(problem, machine())
    assert worth is not None
    return engine.Executable(spread_plan(problem, machine(), worth, ()))


def spread(
    problem: Problem,
    data: Array,
    weights: Array,
    bias: Array | None = None,
    out: Array | None = None,
) -> Array:
    """Run the kernels into an array that holds something else."""
    run = executable(problem)
    if out is None:
        out = np.full(problem.shape(Operand.FINE), 77, numpy_dtype(problem.dtype))
    run.run(data, run.pack(weights), bias, out)
    return out


def numbers(problem: Problem) -> list[Array]:
    """Return small whole numbers for data, weights and bias."""
    shapes = [problem.shape(each) for each in problem.given]
    shapes.append((problem.groups * problem.fine_channels,))
    return [whole_numbers(shape, problem.dtype, seed) for seed, shape in enumerate(shapes)]


def is_exact(problem: Problem) -> None:
    """Hold whole numbers against the definition."""
    data, weights, bias = numbers(problem)
    found = spread(problem, data, weights, bias)
    expected = reference.answer(problem, data, weights, bias)
    np.testing.assert_array_equal(as_float64(found), expected)


@contextmanager
def small_parts(*, small: bool = True) -> Iterator[None]:
    """Cut results into parts of a few points, which large ones are cut into otherwise."""
    numbers = {"LEAST": 64, "WORTH": 1, "MOST_POINTS": 1, "LEAST_POINTS": 1} if small else {}
    with pytest.MonkeyPatch.context() as changes:
        for name, value in numbers.items():
            changes.setattr(parts_module, name, value)
        yield


@settings(deadline=None, max_examples=300)
@given(problem=a_problem(), layout=st.sampled_from(sorted(LAYOUTS)), small=st.booleans())
def test_any_problem_is_exact(problem: Problem, layout: str, small: bool) -> None:  # noqa: FBT001 - drawn
    """In every layout and type, with several groups, holes and crops; as parts of a few points."""
    written = Layout(LAYOUTS[layout].format("gf"))
    problem = replace(
        problem, wanted=Operand.FINE, batch=max(problem.batch, 1), fine_layout=written
    )
    with small_parts(small=small):
        if spreading(problem, machine()) is not None:
            is_exact(problem)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("crop", range(5))
@pytest.mark.parametrize("window", [(2, 2, 2), (3, 2, 2), (2, 4, 2), (3, 6, 4), (2, 6, 3)])
def test_slabs_share_their_weights(
    window: tuple[int, int, int], crop: int, groups: int, layout: str
) -> None:
    """Whatever is cut off, and whether windows overlap: which phase comes first, all taps meet."""
    taps, stride, dilation = window
    extent = dilation * (taps - 1) + 1
    axis = Axis(stride * 12 + extent - crop, 13, taps, stride, dilation, min(crop, extent))
    last = Axis(2 * 5 + 3, 6, 3, 2, 1, 0)
    problem = a_layer((axis, last), (6, 5), batch=1, groups=groups, layout=layout)
    with small_parts():
        worth = spreading(problem, machine())
        assert worth is not None
        assert len(worth.cut.parts) > 1
        is_exact(problem)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("taps", "stride"), [(1, 2), (2, 2), (2, 3), (1, 4), (3, 4), (2, 5)])
def test_lines_around_whole_vectors(taps: int, stride: int, dtype: str, layout: str) -> None:
    """Cells that fill vectors, one less and one more; channels that do, and do not."""
    for size in (1, 7, 8, 9, 15, 16, 17, 33):
        fine = stride * (size - 1) + taps + 1
        for written, pad in ((1, 0), (2, 1), (3, 0), (5, 0), (8, 1), (19, 0)):
            if fine > pad:
                axes = (Axis(7, 3, 2, 3, 1, 1), Axis(fine - pad, size, taps, stride, 1, pad))
                is_exact(a_layer(axes, (3, written), dtype=dtype, layout=layout))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("past", [False, True])
def test_chunks_and_parts_change_nothing(layout: str, past: bool) -> None:  # noqa: FBT001 - a case
    """Few points a chunk, and parts of any size, past the caches or not: the same bits."""
    for axes in (
        (Axis(70, 12, 2, 6, 1, 1), Axis(119, 40, 2, 3, 1, 0)),
        (Axis(401, 101, 1, 4, 1, 0),),
        (Axis(11, 3, 3, 4, 1, 0), Axis(7, 3, 1, 3, 1, 0), Axis(41, 20, 3, 2, 2, 2)),
    ):
        problem = a_layer(axes, (5, 3), batch=5, layout=layout)
        random = np.random.default_rng(1)
        data, weights = (
            random.standard_normal(problem.shape(each), np.float32) for each in problem.given
        )
        expected = spread(problem, data, weights)
        for chunk, parts, points in ((64, 100, 1), (300, 7, 16), (5000, 1, 64)):
            limits: dict[str, Any] = {"PARTS": parts, "LEAST": 1, "MOST_POINTS": points}
            limits["AFAR"] = 1 << 60 if past else 16
            with (
                patch.object(spread_module, "CHUNK", chunk),
                patch.multiple(parts_module, **limits),
                patch.object(choose_module, "STREAM", 1 << 60 if past else 2),
            ):
                np.testing.assert_array_equal(spread(problem, data, weights), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bits_do_not_depend_on_threads_or_company(layout: str) -> None:
    """One thread or three, alone or in a batch, in rows that lie apart."""
    axes = (Axis(46, 12, 2, 4, 1, 0), Axis(118, 40, 2, 3, 1, 1))
    problem = a_layer(axes, (40, 3), batch=4, layout=layout)
    random = np.random.default_rng(2)
    data, weights = (random.standard_normal(problem.shape(o), np.float32) for o in problem.given)
    before, found = get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            set_num_threads(threads)
            found.append(spread(problem, data, weights))
    finally:
        set_num_threads(before)
    rows = 2 if layout == "NCX" else 1
    wide = np.repeat(data, 2, axis=rows)
    found.append(spread(problem, wide[(slice(None),) * rows + (slice(None, None, 2),)], weights))
    alone = replace(problem, batch=1)
    found.append(np.concatenate([spread(alone, data[n : n + 1], weights) for n in range(4)]))
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_may_lie_apart(layout: str) -> None:
    """Views of data and result: rows, points and channels with gaps, or backwards."""
    axes = (Axis(11, 4, 2, 3, 1, 0), Axis(35, 12, 2, 3, 1, 0))
    problem = a_layer(axes, (5, 3), layout=layout)
    data, weights, bias = numbers(problem)
    expected = reference.answer(problem, data, weights, bias)
    shape = problem.shape(Operand.FINE)
    for place in range(4):
        sizes = [size * (2 if at == place else 1) for at, size in enumerate(shape)]
        cut = tuple(slice(None, None, 2 if at == place else 1) for at in range(4))
        wide = np.full(sizes, 55, np.float32)
        spread(problem, data, weights, bias, wide[cut])
        np.testing.assert_array_equal(wide[cut], expected)
        odd = tuple(slice(1, None, 2) if at == place else slice(None) for at in range(4))
        assert (wide[odd] == 55).all()
        back = np.full(shape, 55, np.float32)
        turned = np.flip(back, place)
        spread(problem, data, weights, bias, turned)
        np.testing.assert_array_equal(turned, expected)
        wide = np.repeat(data, 2, axis=place)
        found = spread(problem, wide[cut], weights, bias)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_activation_comes_after_the_bias(dtype: str, layout: str) -> None:
    """Once for each output, blank ones too."""
    axes = (Axis(9, 4, 2, 3, 1, 0), Axis(31, 11, 1, 3, 1, 0))
    plain = a_layer(axes, (6, 3), dtype=dtype, layout=layout)
    data, weights, _ = numbers(plain)
    bias = np.array([-2, 0, 3], numpy_dtype(dtype))
    expected = reference.answer(plain, data, weights, bias)
    for activation in (Activation("relu"), Activation("leaky_relu", 0.5)):
        problem = replace(plain, bias=True, activation=activation)
        found = spread(problem, data, weights, bias)
        slope = 0.0 if activation.name == "relu" else 0.5
        due = np.where(expected > 0, expected, slope * expected)
        np.testing.assert_array_equal(as_float64(found), due)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays_where_it_belongs(value: float) -> None:
    """Nothing is multiplied but what meets, and blanks stay blank."""
    axes = (Axis(11, 4, 2, 3, 1, 0), Axis(35, 12, 2, 3, 1, 0))
    problem = a_layer(axes, (5, 3), dtype="float64")
    for spoilt in (0, 1):
        given = numbers(problem)
        given[spoilt].flat[7] = value
        with np.errstate(invalid="ignore"):
            expected = reference.answer(problem, given[0], given[1])
        np.testing.assert_array_equal(spread(problem, given[0], given[1]), expected)


def test_weights_of_other_sizes_are_packed_alike() -> None:
    """What is bound once is good for every picture; other windows are others."""
    axes = (Axis(46, 12, 2, 4, 1, 0),) * 3
    first, second = (executable(a_layer(axes, (64, 3), batch=batch)) for batch in (1, 3))
    other = executable(a_layer((Axis(94, 24, 2, 4, 1, 0),) * 3, (64, 3)))
    assert first.packing == second.packing == other.packing
    flat = executable(a_layer((Axis(46, 12, 4, 4, 1, 0), *axes[:1] * 2), (64, 3)))
    assert flat.packing != first.packing


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.sampled_from((3, 7, 13, 28, 33)), min_size=1, max_size=3),
    taps=st.integers(1, 3),
    channels=st.tuples(st.sampled_from((3, 24)), st.sampled_from((1, 3, 7, 19))),
    layout=st.sampled_from(sorted(LAYOUTS)),
)
def test_all_parts_read_the_same_weights(
    sizes: list[int], taps: int, channels: tuple[int, int], layout: str
) -> None:
    """However few points a last slab has: its tiles are the others'."""
    axes = tuple(Axis(3 * size - 3 + taps, size, taps, 3, 1, 0) for size in sizes)
    problem = a_layer(axes, channels, layout=layout)
    worth = spreading(problem, machine())
    if worth is not None:
        parts = spread_plan(problem, machine(), worth, ()).recipe
        assert isinstance(parts, Spread)
        orders = [engine.Executable(variant.inner).packing for variant in parts.variants]
        assert len(set(orders)) == 1


def test_weights_are_packed_again_and_again() -> None:
    """In an eager call: the same result as with weights that were packed once."""
    problem = a_layer((Axis(46, 12, 2, 4, 1, 0),) * 2, (16, 3))
    run = executable(problem)
    data, weights, _ = numbers(problem)
    expected = spread(problem, data, weights)
    again = run.repacking(weights.strides)
    assert again is not None
    for factor in (1, 2):
        packed = again(weights * np.float32(factor))
        out = np.zeros_like(expected)
        launch = run.launch(data.strides, out.strides, weights.strides)
        assert launch is not None
        bias = run.padded_bias(None)
        launch(data.ctypes.data, out.ctypes.data, packed.address, bias.ctypes.data)
        again.spare.append(packed)
        np.testing.assert_array_equal(out, factor * expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("channels", "groups", "sizes", "window"),
    [
        ((8, 2), 4, (33, 48), (2, 4, 1, 1)),
        ((2, 2), 4, (60, 60), (2, 6, 3, 1)),
        ((6, 3), 2, (20, 12, 12), (3, 4, 2, 2)),
        ((40, 7), 1, (10, 10, 7), (2, 2, 2, 0)),
    ],
)
def test_large_images_of_several_slabs_are_exact(
    channels: tuple[int, int],
    groups: int,
    sizes: tuple[int, ...],
    window: tuple[int, int, int, int],
    layout: str,
) -> None:
    """As they are cut in earnest: the first slab's padding is not what others have before them."""
    taps, stride, dilation, pad = window
    extent = dilation * (taps - 1) + 1 - 2 * pad
    axes = tuple(Axis(stride * (n - 1) + extent, n, taps, stride, dilation, pad) for n in sizes)
    is_exact(a_layer(axes, channels, batch=1, groups=groups, layout=layout))
