"""The same numbers give the same bits, wherever and with whatever company they are computed."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tconv
from errors.callees import CALLEES, OPERATORS
from inputs.forms import FORMS, bits

# function, shapes of data and weights, arguments: around tiles, long, deep, grouped, 1-D to 3-D
PICTURES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "rows": ("conv", (7, 5, 33), (9, 5, 4), {"stride": 2, "padding": 1}),
    "planes": ("conv", (6, 16, 13, 11), (24, 16, 3, 3), {"padding": 1}),
    "deep": ("conv", (4, 130, 5, 6), (33, 130, 3, 3), {"padding": 1, "stride": 2}),
    "grouped": ("conv", (5, 12, 9, 9), (8, 3, 3, 2), {"groups": 4, "dilation": 2}),
    "depthwise": ("conv", (5, 17, 9, 9), (17, 1, 3, 3), {"groups": 17, "padding": 1}),
    "volumes": ("conv", (3, 4, 5, 6, 7), (6, 4, 2, 3, 2), {}),
    "pointwise": ("conv", (9, 31, 7, 7), (19, 31, 1, 1), {}),
    "upsampling": ("conv_transpose", (5, 20, 7, 6), (20, 9, 2, 2), {"stride": 2}),
    "overlapping": (
        "conv_transpose",
        (6, 18, 8, 7),
        (18, 10, 4, 4),
        {"stride": 2, "padding": 1},
    ),
    "long window": ("conv_transpose", (7, 6, 9), (6, 1, 64), {"stride": 16}),
    "sparse": ("conv_transpose", (4, 5, 6), (5, 7, 2), {"stride": 5, "output_padding": 3}),
    "grouped up": ("conv_transpose", (5, 8, 6, 6), (8, 3, 3, 3), {"groups": 4, "stride": 3}),
    "channels last": ("conv", (6, 13, 11, 16), (24, 16, 3, 3), {"layout": "NXC", "padding": 1}),
    "up, channels last": (
        "conv_transpose",
        (5, 7, 6, 20),
        (20, 9, 4, 4),
        {"layout": "NXC", "stride": 2},
    ),
}

each_picture = pytest.mark.parametrize("picture", list(PICTURES))


def drawn(picture: str, dtype: str = "float32") -> tuple[Any, Any, Any, dict[str, Any]]:
    """Return a function, two arrays of rounded numbers, and the arguments."""
    name, data, weights, words = PICTURES[picture]
    numbers = np.random.default_rng(5)
    arrays = (numbers.standard_normal(shape).astype(dtype) for shape in (data, weights))
    return getattr(tconv, name), *arrays, words


@each_picture
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_a_picture_does_not_see_its_neighbours(picture: str, dtype: str) -> None:
    """Alone, in a pair or in the whole batch, at any place, each bit is the same."""
    function, data, weights, words = drawn(picture, dtype)
    whole = function(data, weights, **words)
    last = len(data) - 1
    backwards = function(np.ascontiguousarray(data[::-1]), weights, **words)

    for i in range(len(data)):
        assert bits(function(data[i : i + 1], weights, **words)[0]) == bits(whole[i])
        assert bits(backwards[last - i]) == bits(whole[i])
    assert bits(function(data[1:3], weights, **words)) == bits(whole[1:3])


@each_picture
def test_threads_do_not_change_a_bit(picture: str) -> None:
    """One worker or several, the order of every sum is the same."""
    function, data, weights, words = drawn(picture)
    before = tconv.get_num_threads()
    results = set()
    try:
        for count in (1, 2, 3, before):
            tconv.set_num_threads(count)
            results.add(bits(function(data, weights, **words)))
    finally:
        tconv.set_num_threads(before)

    assert len(results) == 1


@each_picture
@pytest.mark.parametrize("form", list(FORMS))
def test_strides_do_not_change_a_bit(picture: str, form: str) -> None:
    """The order in memory is not the order of the sum; the second call is like the first."""
    function, data, weights, words = drawn(picture)
    expected = bits(function(data, weights, **words))
    other, heavy = FORMS[form](data), FORMS[form](weights)

    assert bits(function(other, weights, **words)) == expected
    assert bits(function(data, heavy, **words)) == expected
    assert bits(function(other, heavy, **words)) == expected
    assert bits(function(other, heavy, **words)) == expected


@each_picture
def test_a_function_and_its_bound_operator_agree(picture: str) -> None:
    """Packing once is packing each time."""
    function, data, weights, words = drawn(picture)
    expected = function(data, weights, **words)
    kind = {"conv": tconv.onnx.Conv, "conv_transpose": tconv.onnx.ConvTranspose}
    if words.get("layout") == "NXC":
        return  # ONNX knows one order only
    spatial = data.ndim - 2
    attributes: dict[str, Any] = {
        "group": words.get("groups", 1),
        "strides": [words.get("stride", 1)] * spatial,
        "dilations": [words.get("dilation", 1)] * spatial,
        "pads": [words.get("padding", 0)] * 2 * spatial,
    }
    if "output_padding" in words:
        attributes["output_padding"] = [words["output_padding"]] * spatial
    op = kind[function.__name__](**attributes)
    bound = op.bind(weights)

    assert bits(op(data, weights)) == bits(expected)
    assert bits(bound(data)) == bits(expected)
    assert bits(bound(data[:1])) == bits(expected[:1])
    assert bits(bound(data)) == bits(expected)


def test_many_threads_may_share_an_operator() -> None:
    """Calls at the same time, with shared and with separate arrays, do not disturb each other."""
    jobs = []
    for name, callee in CALLEES.items():
        arrays = callee.arrays()
        jobs.append((name, callee, arrays, bits(callee.run(*arrays))))

    def work(turn: int) -> bool:
        _, callee, arrays, expected = jobs[turn % len(jobs)]
        out = np.empty(callee.result, np.float32) if turn % 3 else None
        return bits(callee.run(*arrays, out=out)) == expected

    with ThreadPoolExecutor(8) as pool:
        good = list(pool.map(work, range(400)))

    assert all(good)


def test_many_threads_may_share_a_bound_operator() -> None:
    """Even its first calls, for which the weights are packed, may come at the same time."""
    callee = OPERATORS["onnx.ConvTranspose"]
    numbers = np.random.default_rng(6)
    weights = numbers.standard_normal(callee.shapes[1]).astype(np.float32)
    pictures = [
        numbers.standard_normal((batch, 4, 3 + batch, 4)).astype(np.float32)
        for batch in range(1, 6)
    ]
    expected = [bits(callee.run(picture, weights)) for picture in pictures]
    for _ in range(5):
        bound = callee.op().bind(weights)
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(lambda i: bits(bound(pictures[i % 5])), range(80)))  # noqa: B023 - used at once

        assert results == expected * 16


def test_the_number_of_threads_may_change_while_calls_run() -> None:
    """Workers come and go between two items of work, never in the middle of one."""
    function, data, weights, words = drawn("planes")
    expected = bits(function(data, weights, **words))
    before = tconv.get_num_threads()

    def work(turn: int) -> bool:
        if turn % 4 == 0:
            tconv.set_num_threads(1 + turn % 5)
        return bits(function(data, weights, **words)) == expected

    try:
        with ThreadPoolExecutor(4) as pool:
            good = list(pool.map(work, range(400)))
    finally:
        tconv.set_num_threads(before)

    assert all(good)


def test_lanes_that_sum_runs_do_not_see_the_batch() -> None:
    """Two groups, two written channels each: bound once, for one image and for eight."""
    numbers = np.random.default_rng(7)
    data = numbers.standard_normal((8, 28, 28, 56)).astype("float32")
    weights = numbers.standard_normal((4, 28, 3, 3)).astype("float32")
    words: dict[str, Any] = {"pads_begin": [1, 1], "pads_end": [1, 1], "groups": 2}
    op = tconv.onednn.Convolution(
        strides=[1, 1], dilations=[1, 1], data_format="NXC", weights_format="OIX", **words
    )
    bound = op.bind(weights)
    alone = bound(data[:1])

    np.testing.assert_array_equal(bound(data)[:1], alone)
    np.testing.assert_array_equal(op(data, weights)[:1], alone)


@pytest.mark.parametrize("shape", [(9, 24, 11, 35), (3, 3, 20, 40), (2, 6, 9, 7)])
def test_a_bias_is_added_in_the_same_place_everywhere(shape: tuple[int, ...]) -> None:
    """Few written channels: of any batch, and of results whose points lie apart."""
    numbers = np.random.default_rng(8)
    data = numbers.standard_normal(shape).astype("float32")
    weights = numbers.standard_normal((4, shape[1], 5, 3)).astype("float32")
    bias = numbers.standard_normal(4).astype("float32")
    whole = tconv.conv(data, weights, bias, padding=(2, 1))
    apart = np.zeros((*whole.shape[:-1], 2 * whole.shape[-1]), "float32")[..., ::2]
    tconv.conv(data, weights, bias, padding=(2, 1), out=apart)

    np.testing.assert_array_equal(apart, whole)
    np.testing.assert_array_equal(tconv.conv(data[:1], weights, bias, padding=(2, 1)), whole[:1])


@pytest.mark.parametrize("layout", ["NCX", "NXC"])
@pytest.mark.parametrize("written", [1, 4, 7, 24])
def test_a_part_of_a_picture_is_read_where_it_lies(written: int, layout: str) -> None:
    """Windows of one tap take whole pictures for lines; of a part they do not, and copy nothing."""
    numbers = np.random.default_rng(9)
    big = numbers.standard_normal((2, 33, 34, 35)).astype("float32")
    inner: tuple[slice, ...] = (slice(None), slice(None), slice(1, -1), slice(1, -1))
    if layout == "NXC":
        big, inner = np.ascontiguousarray(np.moveaxis(big, 1, -1)), (*inner[:1], *inner[2:])
    part = big[inner]
    weights = numbers.standard_normal((written, 33, 1, 1)).astype("float32")
    due = tconv.conv(np.ascontiguousarray(part), weights, layout=layout)
    room = np.zeros([size + 2 for size in due.shape], "float32")
    out = room[tuple(slice(1, -1) for _ in due.shape)]
    tconv.conv(part, weights, layout=layout, out=out)

    np.testing.assert_array_equal(tconv.conv(part, weights, layout=layout), due)
    np.testing.assert_array_equal(out, due)
    assert room.sum(dtype="float64") == out.sum(dtype="float64")


def test_one_point_may_stand_for_a_line() -> None:
    """Arrays whose points do not lie apart at all, and windows with gaps."""
    numbers = np.random.default_rng(10)
    column = numbers.standard_normal((1, 20, 1, 32)).astype("float32")
    weights = numbers.standard_normal((32, 1, 3, 3)).astype("float32")
    wide = np.broadcast_to(column, (1, 20, 24, 32))
    words: dict[str, Any] = {"padding": 2, "dilation": 2, "groups": 32, "layout": "NXC"}

    due = tconv.conv(np.ascontiguousarray(wide), weights, **words)
    np.testing.assert_array_equal(tconv.conv(wide, weights, **words), due)
