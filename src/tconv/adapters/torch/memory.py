"""Tensors as the memory that they are: arrays without copies, and new tensors for results."""

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import tconv
from tconv.problem import numpy_dtype

Array = npt.NDArray[Any]

DTYPES = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
}
CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}
NUMPY: dict[Any, np.dtype[Any]] = {dtype: numpy_dtype(name) for dtype, name in DTYPES.items()}
MEMORY = ctypes.c_char * sys.maxsize  # NumPy wants a buffer to be large enough
TITLE = "tconv torch operator"


def array(tensor: Any) -> Array:  # noqa: ANN401 - torch is not typed
    """Return a tensor's own memory as an array, good for as long as the tensor keeps it.

    By its address: ``tensor.numpy()`` would make the tensor's storage one that can never be
    resized again, refuses tensors that require gradients, and does not know bfloat16.
    """
    dtype = NUMPY[tensor.dtype]
    item = dtype.itemsize
    where = tensor.data_ptr()
    if not where:  # there are no elements
        return np.empty(tensor.shape, dtype)
    strides = tuple([item * stride for stride in tensor.stride()])
    memory: Any = MEMORY.from_address(where)
    return np.ndarray(tensor.shape, dtype, memory, 0, strides)


def data_array(tensor: Any, channels_last: bool) -> Array:  # noqa: ANN401, FBT001 - see above
    """Return a picture's memory, its axes in the order of the problem's layout."""
    values = array(tensor)
    if channels_last:
        return values.transpose(0, *range(2, values.ndim), 1)
    return values


def empty(shape: Sequence[Any], like: Any, *, channels_last: bool) -> Any:  # noqa: ANN401 - see above
    """Return a tensor for a result, sizes known or symbolic."""
    memory_format = torch.contiguous_format
    if channels_last:
        if len(shape) - 2 not in CHANNELS_LAST:
            raise refuse(f"channels_last with {len(shape) - 2} spatial axes.")
        memory_format = CHANNELS_LAST[len(shape) - 2]
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=memory_format)


def refuse(wrong: str) -> tconv.ProblemError:
    """Return the error for arguments that no function of ours passes to an operator."""
    return tconv.ProblemError(
        TITLE,
        wrong,
        got={},
        rule="the arguments are those that tconv.adapters.torch.functional would pass",
        fix="call tconv.adapters.torch.conv2d and its like instead",
    )
