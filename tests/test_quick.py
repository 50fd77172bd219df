"""Functions called again and again with arrays of the same shapes take a short way."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tconv
from tconv import calls, ops
from tconv.runtime.compiled import MOST_KEPT
from tconv.runtime.scratch import LARGE, LINE

Array = npt.NDArray[Any]
SHAPE = (8, 8, 3, 3)


def whole(shape: tuple[int, ...], seed: int) -> Array:
    """Return small whole numbers: sums of their products are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def quick_ones() -> list[Any]:
    """Return what packs into memory that is used again, of all quick calls."""
    kept = [quick._repacking for quick in ops._CALLS]  # noqa: SLF001 - nobody else sees it
    return [each for each in kept if each is not None]


@pytest.fixture
def data() -> Array:
    """Return a picture; no quick call is known yet."""
    for known in (ops._CALLS, calls._CALLS):  # noqa: SLF001 - as above
        known.clear()
    return whole((1, 8, 5, 4), 1)


def expected(data: Array, weights: Array) -> Array:
    """Return what the long way finds: the first call of what is bound."""
    bound = tconv.onnx.ConvTranspose(pads=[1, 1, 1, 1]).bind(weights, algorithm="direct")
    return bound(data)


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


@pytest.mark.parametrize(
    ("shape", "given", "groups"),
    [
        ((1, 8, 5, 4), SHAPE, 1),
        ((2, 3, 16, 17), (3, 20, 3, 3), 1),  # sides change places
        ((2, 40, 9, 8), (40, 1, 3, 3), 40),  # lanes are groups
        ((1, 12, 9, 8), (12, 3, 3, 3), 4),
        ((8, 16, 20, 20), (16, 1, 3, 3), 16),  # more than one part
        ((2, 64, 12, 12), (64, 64, 3, 3), 1),  # in several steps
    ],
)
def test_gradients_of_weights_are_known_too(
    data: Array, shape: tuple[int, ...], given: tuple[int, ...], groups: int
) -> None:
    """Functions and operators, bound or not, from several threads at once."""
    words: Any = {"padding": 1, "groups": groups}
    asked: Any = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1],
             "groups": groups, "data_format": "NCX", "weights_format": "IOX"}  # fmt: skip
    fine = (shape[0], given[1] * groups, *shape[2:])
    op = tconv.onednn.ConvTransposeBackwardWeights(**asked)
    some = [(whole(shape, seed), whole(fine, seed + 9)) for seed in range(4)]
    due = [
        tconv.conv_transpose_grad_weight(first, given, second, **words) for first, second in some
    ]
    bound = [op.bind(second) for _, second in some]

    def call(number: int) -> bool:
        first, second = some[number]
        for _ in range(20):
            for result in (
                tconv.conv_transpose_grad_weight(first, given, second, **words),
                tconv.conv_grad_weight(second, given, first, **words),
                op(first, second, given),
                bound[number](first, given),
            ):
                assert np.array_equal(result, due[number])
        return True

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(call, range(4)))
    functions, operators = [*ops._CALLS], [*calls._CALLS]  # noqa: SLF001 - as above

    assert (len(functions), len(operators)) == (2, 3)
    assert all(len(each._quick) == 1 for each in bound)  # noqa: SLF001 - as above
    assert data.size


def test_a_bound_call_knows_the_sizes_that_are_asked_for(data: Array) -> None:
    """Each is a call of its own; True is no size."""
    weights = whole(SHAPE, 2)
    bound = tconv.openvino.ConvolutionBackpropData(
        strides=[2, 2], pads_begin=[0, 0], pads_end=[0, 0], dilations=[1, 1], reading="engine"
    ).bind(weights)
    for _ in range(2):
        for size in ((11, 9), (12, 10), [12, 9]):
            assert bound(data, size).shape == (1, 8, *size)
        assert bound(data).shape == (1, 8, 11, 9)
        with pytest.raises(tconv.ProblemError):
            bound(data, (True, 9))

    assert len(bound._quick) == 3  # noqa: SLF001 - as above


def test_memory_may_run_out_in_any_call(data: Array, monkeypatch: pytest.MonkeyPatch) -> None:
    """A known one says what for, too."""
    weights, made = whole(SHAPE, 2), np.empty
    bound = tconv.onnx.ConvTranspose(pads=[1, 1, 1, 1]).bind(weights)
    ways: list[Any] = [
        lambda: bound(data),
        lambda: tconv.conv_transpose(data, weights, padding=1),
        lambda: tconv.conv_transpose_grad_weight(data, SHAPE, data, padding=1),
    ]
    left = True

    def empty(shape: Any, *others: Any) -> Any:  # noqa: ANN401 - as NumPy's
        if shape in (data.shape, SHAPE) and not left:
            raise MemoryError
        return made(shape, *others)

    monkeypatch.setattr(np, "empty", empty)
    for call in ways * 3:
        call()
    left = False
    for call in ways:
        with pytest.raises(tconv.UnsupportedError, match="memory ran out"):
            call()


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


class Pair(tuple[Any, ...]):
    """A tuple of another type, like torch.Size."""

    __slots__ = ()


def test_tuples_of_other_types_are_looked_at_every_time(data: Array) -> None:
    """They would be found under the same key, whatever the types of their numbers."""
    weights = whole(SHAPE, 2)
    for _ in range(2):
        tconv.conv_transpose(data, weights, stride=Pair((1, 1)))

    for stride in (Pair((True, True)), Pair((1.0, 1.0))):
        with pytest.raises(tconv.ProblemError, match="not a list of whole numbers"):
            tconv.conv_transpose(data, weights, stride=stride)


def test_an_argument_that_changes_is_looked_at_every_time(data: Array) -> None:
    """A list that is a good key because nobody compares what it holds."""

    class Known(list[int]):
        __hash__ = object.__hash__  # type: ignore[assignment]

    weights, stride = whole(SHAPE, 2), Known([1, 1])
    for _ in range(2):
        tconv.conv_transpose(data, weights, stride=stride)
    stride[:] = [2, 2]

    assert tconv.conv_transpose(data, weights, stride=stride).shape == (1, 8, 11, 9)


def test_a_result_on_top_of_the_weights_is_refused_every_time(data: Array) -> None:
    """Also when the call is known."""
    weights = whole((8, 8, 3, 3), 2)
    out = weights.reshape(-1)[: 1 * 8 * 3 * 2].reshape(1, 8, 3, 2)
    tconv.conv(data, weights)
    for _ in range(2):
        with pytest.raises(tconv.ProblemError):
            tconv.conv(data, weights, out=out)


def test_another_bias_is_added_every_time(data: Array) -> None:
    """By functions and by operators; one that is infinite reaches its channel alone."""
    weights = whole(SHAPE, 2)
    plain = expected(data, weights)
    op = tconv.onnx.ConvTranspose(pads=[1, 1, 1, 1])
    for seed in range(4):
        bias = whole((8,), seed)
        bias[seed] = np.inf
        due = plain + bias[:, None, None]

        np.testing.assert_array_equal(tconv.conv_transpose(data, weights, bias, padding=1), due)
        np.testing.assert_array_equal(op(data, weights, bias), due)
        np.testing.assert_array_equal(op(data, weights, bias=bias), due)
        np.testing.assert_array_equal(op(data, weights), plain)
        np.testing.assert_array_equal(tconv.conv_transpose(data, weights, padding=1), plain)


def test_a_bias_of_another_kind_is_looked_at_every_time(data: Array) -> None:
    """Its type, its length, and whether the result lies on top of it."""
    weights, bias = whole(SHAPE, 2), whole((8,), 3)
    out = np.empty((1, 8, 5, 4), np.float32)
    for _ in range(3):
        tconv.conv_transpose(data, weights, bias, padding=1, out=out)
        with pytest.raises(tconv.ProblemError):
            tconv.conv_transpose(data, weights, bias.astype(np.float64), padding=1)
        with pytest.raises(tconv.ProblemError):
            tconv.conv_transpose(data, weights, bias[:7], padding=1)
        with pytest.raises(tconv.ProblemError):
            tconv.conv_transpose(data, weights, out[0, :, 0, 0], padding=1, out=out)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize(
    ("shape", "given", "settings"),
    [
        ((2, 3, 16, 17), (16, 3, 3, 3), {"padding": 1}),  # planes
        ((1, 8, 8, 8), (8, 3, 2, 2), {"stride": 2}),
        ((1, 56, 20, 20), (56, 1, 9, 9), {"stride": 3, "padding": 4}),  # overlap
        ((1, 1, 256), (8, 1, 16), {"stride": 8}),
        ((1, 32, 9, 8), (32, 1, 4, 4), {"stride": 2, "padding": 1, "groups": 32}),  # grouped
        ((2, 7, 9), (7, 40, 3), {}),
    ],
)
def test_few_channels_are_packed_again_too(
    data: Array,
    shape: tuple[int, ...],
    given: tuple[int, ...],
    settings: dict[str, Any],
    dtype: str,
) -> None:
    """Call after call, from weights that lie anyhow; infinite ones are noticed."""
    first = whole(shape, 1).astype(dtype)
    transposed = given[0] == shape[1]
    call, kind = (
        (tconv.conv_transpose, ops._ConvTranspose)  # noqa: SLF001 - the operator behind it
        if transposed
        else (tconv.conv, ops._Conv)  # noqa: SLF001
    )
    room = whole((*given[::-1], 2), 0).astype(dtype)
    lying = [np.empty(given, dtype), room[..., 1].T]
    for seed in range(3):
        for weights in lying:
            weights[:] = whole(given, seed)
            if seed == 1:
                weights.reshape(-1)[0:1] = np.inf
                weights[0, 0, ..., 0] = np.inf
            due = kind(**settings).bind(weights, algorithm="direct")(first)

            np.testing.assert_array_equal(call(first, weights, **settings), due)
    assert data.size


def test_an_operator_knows_its_calls_by_all_that_they_ask(data: Array) -> None:
    """Other attributes, and sizes that are asked for, are other calls."""
    weights = whole(SHAPE, 2)
    one, two = (
        tconv.openvino.ConvolutionBackpropData(
            strides=[2, 2], pads_begin=[0, 0], pads_end=[0, 0], dilations=[step, step],
            reading="engine",
        )
        for step in (1, 2)
    )  # fmt: skip
    for _ in range(3):
        shapes = [each(data, weights).shape for each in (one, two)]
        asked = [one(data, weights, size).shape for size in ((11, 9), (12, 10), [11, 9])]

        assert shapes == [(1, 8, 11, 9), (1, 8, 13, 11)]
        assert asked == [(1, 8, 11, 9), (1, 8, 12, 10), (1, 8, 11, 9)]
    with pytest.raises(tconv.ProblemError):
        one(data, weights, (True, 9))


def test_large_results_begin_with_a_cache_line() -> None:
    """In a first call, in a second one, and through the door: what goes past caches needs it."""
    op = tconv.onnx.Conv()
    bound = op.bind(np.ones((8, 2, 1, 1), np.float32))
    data = np.ones((1, 2, 200, 200), np.float32)
    results = [bound(data) for _ in range(5)]

    assert all(result.nbytes > LARGE for result in results)
    assert [result.__array_interface__["data"][0] % LINE for result in results] == [0] * 5
    assert all((result == 2).all() and result.flags.writeable for result in results)
