"""Inputs are taken in any form, and only read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tconv
from errors.callees import CALLEES
from inputs.forms import FORMS, Array, OnlyArray, OnlyDlpack, bits, definition, mapped

DTYPES = ("float32", "float64", "float16", "bfloat16")

each_callee = pytest.mark.parametrize("name", list(CALLEES))
each_form = pytest.mark.parametrize("form", list(FORMS))


@each_callee
@pytest.mark.parametrize("dtype", DTYPES)
def test_plain_arrays_give_what_the_definition_says(name: str, dtype: str) -> None:
    """Small whole numbers make every sum exact, in every element type."""
    callee = CALLEES[name]
    arrays = callee.arrays(dtype)

    np.testing.assert_array_equal(callee.run(*arrays), definition(callee, arrays))
    assert callee.run(*arrays).dtype == np.dtype(dtype)


@each_callee
@each_form
@pytest.mark.parametrize("place", [0, 1], ids=["first", "second"])
def test_an_input_may_have_any_form(name: str, form: str, place: int) -> None:
    """Strides, order, byte order and class of an input change nothing, and it is not changed."""
    callee = CALLEES[name]
    arrays: list[Any] = list(callee.arrays())
    expected = bits(callee.run(*arrays))
    plain = arrays[place].copy()
    arrays[place] = FORMS[form](arrays[place])

    assert bits(callee.run(*arrays)) == expected
    np.testing.assert_array_equal(_numbers(arrays[place]), plain)


def _numbers(value: Any) -> Array:  # noqa: ANN401 - any of the forms
    return value.array if isinstance(value, OnlyArray | OnlyDlpack) else np.asarray(value)


@each_callee
@each_form
def test_a_bias_may_have_any_form(name: str, form: str) -> None:
    """The third array is taken as the others are."""
    callee = CALLEES[name]
    bias = callee.bias()
    if bias is None:
        return
    arrays = callee.arrays()
    expected = bits(definition(callee, arrays, bias))

    assert bits(callee.run(*arrays, FORMS[form](bias))) == expected


@each_callee
def test_the_memory_around_an_input_is_not_read_into_the_result(name: str) -> None:
    """NaN beside a slice stays beside it."""
    callee = CALLEES[name]
    first, second = callee.arrays()
    whole = np.full([size + 4 for size in first.shape], np.nan, np.float32)
    inside = whole[tuple(slice(2, 2 + size) for size in first.shape)]
    inside[...] = first
    before = whole.copy()

    assert bits(callee.run(inside, second)) == bits(callee.run(first, second))
    assert bits(whole) == bits(before)


@each_callee
def test_inputs_in_files_are_read_where_they_are(name: str, tmp_path: Path) -> None:
    """A memory map is an array like any other."""
    callee = CALLEES[name]
    arrays = callee.arrays()
    first = mapped(arrays[0], tmp_path)

    assert bits(callee.run(first, arrays[1])) == bits(callee.run(*arrays))


@each_callee
def test_a_broadcast_input_is_every_copy_of_itself(name: str) -> None:
    """An axis of stride 0 counts with its full size."""
    callee = CALLEES[name]
    first, second = callee.arrays()
    row = np.broadcast_to(first[:1], first.shape)
    one = np.broadcast_to(second.ravel()[:1], second.shape)

    np.testing.assert_array_equal(
        callee.run(row, one), definition(callee, (row.copy(), one.copy()))
    )


@each_callee
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_torch_tensors_are_taken(name: str, dtype: str) -> None:
    """A tensor on the CPU is an array too, and its memory is not written."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    callee = CALLEES[name]
    arrays = callee.arrays(dtype)
    tensors = [torch.from_numpy(array.copy()) for array in arrays]

    assert bits(callee.run(*tensors)) == bits(callee.run(*arrays))
    assert all(bits(t.numpy()) == bits(a) for t, a in zip(tensors, arrays, strict=True))


def test_a_transposed_torch_tensor_is_taken() -> None:
    """Strides come along."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    numbers = np.arange(30, dtype=np.float32).reshape(5, 3, 2)
    tensor = torch.from_numpy(numbers).permute(2, 1, 0)
    weights = np.ones((4, 3, 2), np.float32)

    assert bits(tconv.conv(tensor, weights)) == bits(tconv.conv(numbers.T, weights))


def test_a_torch_tensor_that_wants_gradients_is_refused_with_its_own_words() -> None:
    """What torch says about it is passed on."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensor = torch.ones(1, 1, 5, requires_grad=True)

    with pytest.raises(tconv.ProblemError, match=r"input cannot be read as an array: .*grad"):
        tconv.conv(tensor, np.ones((1, 1, 3), np.float32))


@pytest.mark.parametrize("form", ["__array__", "__dlpack__"])
def test_sizes_may_come_in_any_form(form: str) -> None:
    """An output_shape is a tensor in its documents, so any array of integers will do."""
    callee = CALLEES["onednn.ConvolutionBackwardData"]
    arrays = callee.arrays()
    sizes = np.array(callee.third, np.int64)

    assert bits(callee.run(*arrays, FORMS[form](sizes))) == bits(callee.run(*arrays))


@pytest.mark.parametrize("kind", ["i1", "i4", "u8", ">i8"])
def test_sizes_may_be_integers_of_any_kind(kind: str) -> None:
    """OpenVINO's page says: any integer type."""
    callee = CALLEES["openvino.ConvolutionBackpropData"]
    arrays = callee.arrays()
    expected = definition(callee, arrays, (6, 5), reading="engine")

    result = callee.run(*arrays, np.array([6, 5], kind), reading="engine")

    np.testing.assert_array_equal(result, expected)


def test_lists_are_refused_with_a_way_out() -> None:
    """Nested lists have no element type, so the caller must choose one."""
    with pytest.raises(tconv.ProblemError, match="input is a list, not an array") as info:
        tconv.conv([[[1.0, 2.0]]], np.ones((1, 1, 1), np.float32))

    assert "np.asarray(input, dtype=np.float32)" in info.value.fix


def test_masked_arrays_are_refused_with_a_way_out() -> None:
    """A masked element has no value, and guessing one is not our business."""
    masked = np.ma.masked_equal(np.ones((1, 1, 5), np.float32), 1)

    with pytest.raises(tconv.ProblemError, match="input is a masked array") as info:
        tconv.conv(masked, np.ones((1, 1, 1), np.float32))

    assert "filled" in info.value.fix


@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_one_picture_needs_no_batch(name: str, layout: str) -> None:
    """As in torch, one axis less means one picture, and the result has one axis less."""
    callee = CALLEES[f"tconv.{name}"]
    first, second = callee.arrays()
    first = first if layout == "NCX" else np.ascontiguousarray(np.moveaxis(first, 1, -1))
    whole = callee.run(first, second, callee.bias(), layout=layout)

    alone = callee.run(first[1], second, callee.bias(), layout=layout)

    assert bits(alone) == bits(whole[1])
    assert alone.shape == whole.shape[1:]
