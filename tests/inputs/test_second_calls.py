"""A call that is like an earlier one is checked and computed like the first."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tconv
from errors.callees import CALLEES, Callee
from errors.out_cases import wrong_outs
from inputs.forms import FORMS, WRITABLE, Array, bits, definition, unaligned

SEVEN = 7
FUNCTIONS = ("tconv.conv", "tconv.conv_transpose")
BOUND = ("onnx.Conv", "onnx.ConvTranspose", "onednn.ConvTranspose", "openvino.GroupConvolution")
GRADIENTS = (
    "tconv.conv_grad_input",
    "tconv.conv_grad_weight",
    "tconv.conv_transpose_grad_input",
    "tconv.conv_transpose_grad_weight",
    "onednn.ConvolutionBackwardWeights",
    "onednn.ConvTransposeBackwardWeights",
)
BOUND_SIDES = (
    "bound onednn.ConvolutionBackwardWeights",
    "bound onednn.ConvTransposeBackwardWeights",
)

Caller = Callable[..., Any]


class Shape(tuple[Any, ...]):
    """A tuple of another type, like torch.Size."""

    __slots__ = ()


def warmed(name: str) -> tuple[Callee, Caller]:
    """Return a way to call that has already been used, with and without ``out``."""
    callee = CALLEES[name.removeprefix("bound ")]
    first, second = callee.arrays()
    call: Caller = callee.run
    if name in BOUND + BOUND_SIDES:
        bound = callee.op().bind(second)

        def call(data: Any, _: Any, *, out: Any = None) -> Any:  # noqa: ANN401 - any input
            return bound(data, callee.third, out=out)

    for _ in range(3):
        call(first, second)
        call(first, second, out=np.empty(callee.result, np.float32))
    return callee, call


each_call = pytest.mark.parametrize("name", [*FUNCTIONS, *GRADIENTS, *BOUND, *BOUND_SIDES])
each_name = pytest.mark.parametrize("name", [*FUNCTIONS, *BOUND])
each_function = pytest.mark.parametrize("name", FUNCTIONS)
each_unbound = pytest.mark.parametrize("name", [*FUNCTIONS, *GRADIENTS])


@each_call
def test_a_second_call_gives_the_same_bits(name: str) -> None:
    """Fresh, and not the array of the call before."""
    callee, call = warmed(name)
    arrays = callee.arrays()

    one, two = call(*arrays), call(*arrays)

    assert bits(one) == bits(two) == bits(definition(callee, arrays))
    assert not np.shares_memory(one, two)


@each_call
def test_other_numbers_of_the_same_shape_give_their_own_result(name: str) -> None:
    """Shapes are remembered, numbers are not."""
    callee, call = warmed(name)
    first = callee.arrays(seed=8)[0]
    second = callee.arrays()[1]

    assert bits(call(first, second)) == bits(definition(callee, (first, second)))


@each_unbound
def test_weights_are_read_anew(name: str) -> None:
    """Only bind fixes them; here a change between two calls shows."""
    callee, call = warmed(name)
    first, second = callee.arrays()
    call(first, second)
    second += 1

    assert bits(call(first, second)) == bits(definition(callee, (first, second)))


@each_call
@pytest.mark.parametrize("note", list(wrong_outs(CALLEES["tconv.conv"])))
def test_a_wrong_out_is_refused_the_second_time_too(name: str, note: str) -> None:
    """Nothing is written, least of all into an input."""
    callee, call = warmed(name)
    words = {"input": callee.inputs[0], "weight": callee.inputs[1]}
    for mine, theirs in words.items():
        note = note.replace(f"overlaps {mine} ", f"overlaps {theirs} ")
    wrong = wrong_outs(callee)[note]
    if name in BOUND + BOUND_SIDES and f"overlaps {callee.inputs[1]} " in note:
        return  # the bound weights are a copy
    before = [bits(array) for array in wrong.inputs]

    with pytest.raises(tconv.ProblemError, match="out "):
        call(*wrong.inputs, out=wrong.out)

    assert [bits(array) for array in wrong.inputs] == before


@each_call
@pytest.mark.parametrize("form", list(WRITABLE))
def test_another_form_of_out_is_written_the_second_time_too(name: str, form: str) -> None:
    """Strides of ``out`` are looked at in every call."""
    callee, call = warmed(name)
    arrays = callee.arrays()
    for _ in range(2):
        out = WRITABLE[form](np.full(callee.result, SEVEN, np.float32))

        assert call(*arrays, out=out) is out
        np.testing.assert_array_equal(out, definition(callee, arrays))


@each_call
@pytest.mark.parametrize("form", list(FORMS))
def test_another_form_of_the_inputs_is_read_the_second_time_too(name: str, form: str) -> None:
    """Strides, byte order and alignment of the inputs are looked at in every call."""
    callee, call = warmed(name)
    arrays = callee.arrays()
    for _ in range(2):
        result = call(*(FORMS[form](array) for array in arrays))

        np.testing.assert_array_equal(result, definition(callee, arrays))


@each_call
def test_both_inputs_may_share_one_foreign_byte_order(name: str) -> None:
    """One dtype object for both arrays, as a file of another machine has it."""
    callee, call = warmed(name)
    arrays = callee.arrays()
    foreign = np.dtype(np.float32).newbyteorder()
    swapped = [array.astype(foreign) for array in arrays]
    expected = definition(callee, arrays)
    for _ in range(2):
        np.testing.assert_array_equal(call(*swapped), expected)


@each_call
def test_unaligned_inputs_with_the_strides_of_earlier_ones_are_read(name: str) -> None:
    """An odd address is no reason for another result."""
    callee, call = warmed(name)
    arrays = callee.arrays()

    np.testing.assert_array_equal(
        call(unaligned(arrays[0]), unaligned(arrays[1])), definition(callee, arrays)
    )


@each_function
@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_weights_may_become_infinite_between_two_calls(name: str, special: float) -> None:
    """The short way is for finite weights; the others take the long one, and back again."""
    callee, call = warmed(name)
    first, second = callee.arrays()
    wild = second.copy()
    wild.reshape(-1)[3] = special
    for weights in (second, wild, second, wild):
        np.testing.assert_array_equal(call(first, weights), definition(callee, (first, weights)))


@pytest.mark.parametrize("name", [*GRADIENTS, *BOUND_SIDES])
@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_numbers_may_become_infinite_between_two_calls(name: str, special: float) -> None:
    """On either side: an infinity meets no zeros around the picture."""
    callee, call = warmed(name)
    first, second = callee.arrays()
    wild = first.copy(), second.copy()
    for each in wild:
        each[1, 0, 0, 0] = special
    other = second if name in BOUND_SIDES else wild[1]  # what is bound stays
    for arrays in ((first, second), (wild[0], second), (first, other), (first, second)):
        np.testing.assert_array_equal(call(*arrays), definition(callee, arrays))


@pytest.mark.parametrize("name", GRADIENTS[:4])
def test_a_shape_is_looked_at_every_time(name: str) -> None:
    """True is not 1; a shape of another kind, or another shape, is another call."""
    callee, call = warmed(name)
    arrays = callee.arrays()
    assert callee.third is not None
    for shape in (list(callee.third), np.array(callee.third), Shape(callee.third)):
        assert bits(call(*arrays, shape)) == bits(call(*arrays))
    for place, size in ((0, True), (2, 3.0), (2, 0), (1, callee.third[1] + 1)):
        wrong: list[Any] = list(callee.third)
        wrong[place] = size
        for kind in (tuple, list, Shape):
            with pytest.raises(tconv.ProblemError):
                call(*arrays, kind(wrong))
    function = getattr(tconv, name.removeprefix("tconv."))
    words = dict(zip(callee.inputs, arrays, strict=True))
    with pytest.raises(tconv.ProblemError, match="_shape is None, not a list of whole numbers"):
        function(**{callee.kind.third: None}, **words, **callee.attributes)


@each_function
def test_what_was_refused_stays_refused(name: str) -> None:
    """True is not 1, 1.0 is not 1, and a list of the same numbers is no array."""
    callee, _ = warmed(name)
    function = getattr(tconv, name.removeprefix("tconv."))
    first, second = np.ones((1, 2, 5), np.float32), np.ones((2, 2, 3), np.float32)
    function(first, second, stride=1, groups=1)
    for words in ({"stride": True}, {"groups": 1.0}, {"padding": False}, {"groups": True}):
        with pytest.raises(tconv.ProblemError, match="not a whole number"):
            function(first, second, **words)
    for arrays in ((first.tolist(), second), (first, second.tolist())):
        with pytest.raises(tconv.ProblemError, match="is a list, not an array"):
            function(*arrays)
    with pytest.raises(tconv.ProblemError, match="is a masked array"):
        function(np.ma.masked_array(first), second)

    assert callee.title in name.replace(".", " ")


@each_function
def test_an_element_type_is_not_mistaken_for_another(name: str) -> None:
    """Types of one size and one shape keep their own meaning."""
    function = getattr(tconv, name.removeprefix("tconv."))
    numbers = np.arange(-6, 6).reshape(1, 2, 6)
    weights = np.ones((2, 2, 3))
    expected = function(numbers.astype("f8"), weights)
    results: dict[str, Array] = {}
    for _ in range(2):
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            results[dtype] = function(numbers.astype(dtype), weights.astype(dtype))
        for dtype in ("int16", "int32", "int64"):
            with pytest.raises(tconv.ProblemError, match="the element type is int"):
                function(numbers.astype(dtype), weights.astype(dtype))

        for dtype, result in results.items():
            assert result.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(result.astype("f8"), expected)


@each_name
def test_an_empty_batch_after_a_full_one(name: str) -> None:
    """And a full one after that."""
    callee, call = warmed(name)
    first, second = callee.arrays()
    for _ in range(2):
        assert call(first[:0], second).shape == (0, *callee.result[1:])
        np.testing.assert_array_equal(call(first, second), definition(callee, (first, second)))


@each_name
def test_more_shapes_than_are_remembered(name: str) -> None:
    """Whatever is kept has an end, and past it nothing changes."""
    callee, call = warmed(name)
    second = callee.arrays()[1]
    place = 1 if name.startswith("onednn") else 2
    for size in range(5, 305, 3):
        shape = list(callee.shapes[0])
        shape[0], shape[place] = 1, size
        data = np.ones(shape, np.float32)
        one, two = call(data, second), call(data, second)

        assert bits(one) == bits(two)
