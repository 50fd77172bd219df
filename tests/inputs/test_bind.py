"""A bound operator has its own weights and takes data of any size."""

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import tconv
from errors.callees import OPERATORS, Callee
from inputs.forms import FORMS, bits, definition

SEVEN = 7
WITH_WEIGHTS = [name for name in OPERATORS if "Weights" not in name]

each_operator = pytest.mark.parametrize("name", list(OPERATORS))
each_with_weights = pytest.mark.parametrize("name", WITH_WEIGHTS)


def sized(callee: Callee, batch: int, more: int) -> tuple[tuple[int, ...], Any]:
    """Return a shape of data with another batch and more points, and the sizes it asks for."""
    shape = list(callee.shapes[0])
    place = 1 if callee.name.startswith("onednn") else 2
    shape[0] = batch
    shape[place] += more
    third: Any = callee.third
    if third is not None:  # the gradients of Convolution: two points for each of the stride
        third = (batch, third[1] + 2 * more, *third[2:])
    return tuple(shape), third


@each_operator
def test_a_bound_operator_computes_what_the_operator_computes(name: str) -> None:
    """Bit by bit, on numbers that have to be rounded."""
    callee = OPERATORS[name]
    numbers = np.random.default_rng(1)
    first, second = (numbers.standard_normal(s).astype(np.float32) for s in callee.shapes)

    bound = callee.op().bind(second)

    assert bits(bound(first, callee.third)) == bits(callee.run(first, second))


@each_operator
def test_binding_copies(name: str) -> None:
    """Changing the array afterwards changes nothing, not even between two calls."""
    callee = OPERATORS[name]
    first, second = callee.arrays()
    expected = bits(callee.run(first, second))
    bound = callee.op().bind(second)

    second += 1
    early = bits(bound(first, callee.third))
    second += 1
    late = bits(bound(first, callee.third))

    assert (early, late) == (expected, expected)


@each_with_weights
@pytest.mark.parametrize(("batch", "more"), [(2, 0), (1, 0), (5, 0), (2, 4), (0, 0), (3, 10)])
def test_a_bound_operator_takes_any_batch_and_any_size(name: str, batch: int, more: int) -> None:
    """One object serves them all, in any order."""
    callee = OPERATORS[name]
    weights = callee.arrays()[1]
    bound = callee.op().bind(weights)
    for points in (more, 0, more):
        shape, third = sized(callee, batch, points)
        data = np.random.default_rng(2).integers(-4, 5, shape).astype(np.float32)

        np.testing.assert_array_equal(
            bound(data, third), definition(callee, (data, weights), third)
        )


@each_operator
def test_a_bound_operator_writes_into_out(name: str) -> None:
    """``out`` is returned, and refused when it does not fit."""
    callee = OPERATORS[name]
    first, second = callee.arrays()
    bound = callee.op().bind(second)
    out = np.full(callee.result, SEVEN, np.float32)
    wrong = np.full((*callee.result, 1), SEVEN, np.float32)

    assert bound(first, callee.third, out=out) is out
    assert bits(out) == bits(callee.run(first, second))
    with pytest.raises(tconv.ProblemError, match="out has shape"):
        bound(first, callee.third, out=wrong)
    assert (wrong == SEVEN).all()


@each_operator
def test_a_bias_can_be_bound_too(name: str) -> None:
    """It is copied as the weights are; without one, a call may still bring its own."""
    callee = OPERATORS[name]
    bias = callee.bias()
    if bias is None:
        return
    first, second = callee.arrays()
    expected = bits(definition(callee, (first, second), bias))
    bound = callee.op().bind(second, bias)
    bias += 1

    assert bits(bound(first)) == expected
    assert bits(callee.op().bind(second)(first, bias - 1)) == expected


@pytest.mark.parametrize(
    ("name", "stated"),
    [
        ("onednn.ConvolutionBackpropData", "output_shape"),
        ("onednn.ConvolutionBackwardData", "dst_shape"),
    ],
)
def test_a_stated_shape_needs_no_second_argument(name: str, stated: str) -> None:
    """The attribute holds for every bound call, and a tensor beats it."""
    callee = OPERATORS[name]
    first, second = callee.arrays()
    bound = callee.op(**{stated: (6, 4)}).bind(second)

    assert bound(first).shape == (2, 6, 4, 6)
    assert bound(first, [5, 4]).shape == (2, 5, 4, 6)


@pytest.mark.parametrize("kind", ["ConvolutionBackpropData", "GroupConvolutionBackpropData"])
def test_output_shape_is_the_second_argument_of_a_bound_call(kind: str) -> None:
    """OpenVINO's operators take it, or do without."""
    callee = OPERATORS[f"openvino.{kind}"]
    first, second = callee.arrays()
    bound = callee.op(reading="engine").bind(second)

    assert bound(first).shape == callee.result
    assert bound(first, (7, 4)).shape == (2, 6, 7, 4)
    assert bound(first, np.array([4, 9])).shape == (2, 6, 4, 9)


def test_the_warning_of_two_readings_comes_from_bound_calls_too() -> None:
    """It stands at the caller's line."""
    callee = OPERATORS["onednn.ConvolutionBackpropData"]
    first, second = callee.arrays()
    bound = callee.op(auto_pad="same_upper").bind(second)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bound(first, (6, 4))

    assert [each.category for each in caught] == [tconv.AmbiguousSpecWarning]
    assert caught[0].filename == __file__


@each_operator
@pytest.mark.parametrize("form", list(FORMS))
def test_weights_of_any_form_can_be_bound(name: str, form: str) -> None:
    """Strides, order, byte order and class of the weights change nothing."""
    callee = OPERATORS[name]
    first, second = callee.arrays()
    bound = callee.op().bind(FORMS[form](second))

    assert bits(bound(FORMS[form](first), callee.third)) == bits(callee.run(first, second))


@each_with_weights
def test_data_of_another_type_is_refused(name: str) -> None:
    """The bound weights decide the element type."""
    callee = OPERATORS[name]
    first, second = callee.arrays()
    bound = callee.op().bind(second)

    with pytest.raises(tconv.ProblemError, match=r"is float32, but .* is float64"):
        bound(first.astype("f8"), callee.third)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_weights_of_every_element_type_can_be_bound(dtype: str) -> None:
    """And round as the operator itself does."""
    callee = OPERATORS["onnx.ConvTranspose"]
    numbers = np.random.default_rng(3)
    first, second = (numbers.standard_normal(shape).astype(dtype) for shape in callee.shapes)
    bound = callee.op().bind(second)

    assert bits(bound(first)) == bits(callee.run(first, second))


def test_both_printed_shapes_of_grouped_weights_can_be_bound() -> None:
    """The v3 pages print (in_channels / groups, out_channels); the engine has it the other way."""
    callee = OPERATORS["onednn.ConvTranspose"]
    first, second = callee.arrays()
    words = {"weights_format": "IOX"}
    engine = np.ascontiguousarray(second.transpose(3, 2, 0, 1))  # I, O / groups, K
    printed = np.concatenate(np.split(engine, 2), axis=1)  # I / groups, O, K
    op = callee.op(**words)

    assert bits(op.bind(engine)(first)) == bits(callee.run(first, second))
    assert bits(op.bind(printed)(first)) == bits(callee.run(first, second))


@each_operator
def test_a_bound_operator_prints_what_is_bound(name: str) -> None:
    """Its text names the operator and the shape of the weights."""
    callee = OPERATORS[name]
    bound = callee.op().bind(callee.arrays()[1])

    assert name in repr(bound)
    assert str(callee.shapes[1]) in repr(bound)


@pytest.mark.parametrize("uses", [0, 1, 3])
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
def test_a_bound_operator_can_cross_to_another_process(uses: int, *, biased: bool) -> None:
    """Pools pickle what they call, whether it was called before or not."""
    callee = OPERATORS["onnx.Conv"]
    first, second = callee.arrays()
    bias = callee.bias() if biased else None
    expected = bits(callee.run(first, second, bias))
    bound = callee.op().bind(second, bias)
    for _ in range(uses):
        bound(first)

    copies = [
        pickle.loads(pickle.dumps(bound)),  # noqa: S301 - our own bytes
        copy.copy(bound),
        copy.deepcopy(bound),
    ]

    assert [bits(each(first)) for each in copies] == [expected] * 3


SIZES: dict[int, list[tuple[int, ...]]] = {1: [(60,), (64,), (72,), (200,), (17,)],
         2: [(12, 64), (12, 72), (18, 27), (27, 18), (12, 24), (12, 16), (7, 7), (4, 4), (33, 9)],
         3: [(5, 6, 24), (5, 6, 16), (4, 9, 7), (8, 8, 8)]}  # fmt: skip
LAYERS = [  # read and written channels, groups, taps and strides
    (4, 64, 1, (3, 3), (1, 1)), (64, 64, 1, (3, 3), (1, 1)), (96, 64, 1, (4, 4), (2, 2)),
    (3, 7, 1, (5, 3), (1, 2)), (5, 1, 1, (4, 4), (2, 2)), (12, 12, 12, (3, 3), (1, 1)),
    (16, 40, 2, (3, 3), (2, 1)), (64, 64, 1, (3,), (1,)), (8, 13, 1, (4,), (2,)),
    (32, 32, 1, (2, 3, 3), (2, 1, 1)), (100, 3, 1, (1, 1), (1, 1)),
]  # fmt: skip


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_one_bound_call_takes_data_of_many_sizes(kind: str, layer: tuple[Any, ...]) -> None:
    """Other sizes may be computed in another way, with weights in another order."""
    read, written, groups, taps, strides = layer
    forward = kind == "Conv"
    ends = (written, read // groups) if forward else (read, written // groups)
    numbers = np.random.default_rng(0)
    weights = numbers.integers(-3, 4, (*ends, *taps)).astype(np.float32)
    pads = [tap // 2 for tap in taps] * 2
    op = getattr(tconv.onnx, kind)(strides=strides, pads=pads, group=groups)
    bound = op.bind(weights)
    for size in SIZES[len(taps)] * 2:
        data = numbers.integers(-3, 4, (1, read, *size)).astype(np.float32)

        assert bits(bound(data)) == bits(op.bind(weights)(data)), size
