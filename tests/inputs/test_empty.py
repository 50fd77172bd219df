"""A batch of nothing is a batch."""

from typing import Any

import numpy as np
import pytest

from errors.callees import CALLEES, Array, Callee

each_callee = pytest.mark.parametrize("name", list(CALLEES))


def emptied(
    callee: Callee, dtype: str = "float32"
) -> tuple[tuple[Array, Array], Any, tuple[int, ...]]:
    """Return inputs without any picture, the sizes asked for, and the shape of the result."""
    first, second = callee.arrays(dtype)
    third: Any = callee.third
    if "eight" in callee.name:  # a weight gradient sums over the batch
        return (first[:0], second[:0]), third, callee.result
    if third is not None:
        third = (0, *third[1:])
    return (first[:0], second), third, (0, *callee.result[1:])


@each_callee
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_an_empty_batch_gives_an_empty_result(name: str, dtype: str) -> None:
    """Or, summed over the batch, a gradient of zeros."""
    callee = CALLEES[name]
    arrays, third, shape = emptied(callee, dtype)

    result = callee.run(*arrays, third)

    assert result.shape == shape
    assert result.dtype == np.dtype(dtype)
    assert not np.asarray(result, np.float64).any()


@each_callee
def test_an_empty_batch_can_be_inferred(name: str) -> None:
    """The shape of nothing is a shape."""
    callee = CALLEES[name]
    arrays, third, shape = emptied(callee)

    assert callee.op().infer_shape(arrays[0].shape, arrays[1].shape, third) == shape


@each_callee
def test_an_empty_batch_is_written_into_out(name: str) -> None:
    """Zeros overwrite what was there; nothing overwrites nothing."""
    callee = CALLEES[name]
    arrays, third, shape = emptied(callee)
    out = np.full(shape, 7, np.float32)

    assert callee.run(*arrays, third, out=out) is out
    assert not out.any()


@each_callee
def test_an_empty_batch_takes_a_bias(name: str) -> None:
    """There is nothing to add it to."""
    callee = CALLEES[name]
    bias = callee.bias()
    if bias is None:
        return
    arrays, _, shape = emptied(callee)

    assert callee.run(*arrays, bias).shape == shape


@pytest.mark.parametrize("stated", ["dst_shape", "spatial"])
def test_a_stated_shape_may_have_an_empty_batch(stated: str) -> None:
    """The attribute and the spatial form are as good as the tensor."""
    callee = CALLEES["onednn.ConvolutionBackwardData"]
    arrays, third, shape = emptied(callee)
    sizes = third if stated == "dst_shape" else third[1:-1]

    assert callee.op(dst_shape=sizes)(*arrays).shape == shape
