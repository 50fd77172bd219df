"""Compute on CPU tensors: tensors become arrays without copies, calls become problems.

Each function here answers one question of :mod:`tconv.problem` into a tensor that owns its memory.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy.typing as npt
import torch

import tconv
from tconv.adapters.torch.kept import kept_pack
from tconv.calls import Settled
from tconv.problem import Axis, Layout, Operand, Problem, numpy_dtype

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Sizes = Sequence[int]

COARSE, FINE, WEIGHTS = Operand.COARSE, Operand.FINE, Operand.WEIGHTS
DTYPES = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
}
CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}
BFLOAT16 = numpy_dtype("bfloat16")
TITLE = "tconv torch operator"

_seen_threads = 0  # as torch had them when last looked at


def conv(  # noqa: PLR0913 - the operator's arguments
    input: Any,  # noqa: A002, ANN401 - torch's word; torch is not typed
    weight: Any,  # noqa: ANN401 - as above
    bias: Any,  # noqa: ANN401 - as above
    size: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
    channels_last: bool,  # noqa: FBT001 - operators take their arguments by position
    keep: bool,  # noqa: FBT001 - as above
) -> Any:  # noqa: ANN401 - as above
    """Convolve into a picture of the given size."""
    numbers = size, stride, padding, dilation, groups
    return _from_weights(COARSE, (input, weight, bias), numbers, channels_last, keep)


def conv_transpose(  # noqa: PLR0913 - the operator's arguments
    input: Any,  # noqa: A002, ANN401 - torch's word; torch is not typed
    weight: Any,  # noqa: ANN401 - as above
    bias: Any,  # noqa: ANN401 - as above
    size: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
    channels_last: bool,  # noqa: FBT001 - operators take their arguments by position
    keep: bool,  # noqa: FBT001 - as above
) -> Any:  # noqa: ANN401 - as above
    """Convolve transposed into a picture of the given size."""
    numbers = size, stride, padding, dilation, groups
    return _from_weights(FINE, (input, weight, bias), numbers, channels_last, keep)


def conv_weight(  # noqa: PLR0913 - the operator's arguments
    coarse: Any,  # noqa: ANN401 - torch is not typed
    fine: Any,  # noqa: ANN401 - as above
    size: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
    channels_last: bool,  # noqa: FBT001 - operators take their arguments by position
) -> Any:  # noqa: ANN401 - as above
    """Correlate both sides of a convolution into weights of the given window."""
    _follow_threads()
    last = channels_last and _is_last(coarse) and _is_last(fine)
    settled = _settled(
        WEIGHTS, tuple(coarse.shape), tuple(fine.shape), tuple(size), tuple(stride),
        tuple(padding), tuple(dilation), groups, DTYPES.get(coarse.dtype), last, bias=False,
    )  # fmt: skip
    _check_dtypes(coarse, fine)
    shape = (coarse.shape[1], fine.shape[1] // groups, *size)
    out = empty(shape, coarse, channels_last=channels_last)
    settled(_data(coarse, last), _data(fine, last), None, array(out))
    return out


def _from_weights(
    wanted: Operand,
    tensors: tuple[Any, Any, Any],
    numbers: tuple[Sizes, Sizes, Sizes, Sizes, int],
    channels_last: bool,  # noqa: FBT001 - runs once a layer: names cost time
    keep: bool,  # noqa: FBT001 - as above
) -> Any:  # noqa: ANN401 - torch is not typed
    """Compute COARSE or FINE."""
    _follow_threads()
    data, weight, bias = tensors
    size, stride, padding, dilation, groups = numbers
    settled = _settled(
        wanted, tuple(data.shape), tuple(weight.shape), tuple(size), tuple(stride),
        tuple(padding), tuple(dilation), groups, DTYPES.get(data.dtype), channels_last,
        bias=bias is not None,
    )  # fmt: skip
    _check_dtypes(data, weight)
    channels = weight.shape[0] if wanted is COARSE else weight.shape[1] * groups
    added = None
    if bias is not None:
        _check_dtypes(data, bias)
        added = array(bias)
        if added.shape != (channels,):
            raise _refuse(f"bias has shape {added.shape}, the result {channels} channels.")
    out = empty((data.shape[0], channels, *size), data, channels_last=channels_last)
    values = array(weight)
    packed = kept_pack(weight, values, settled) if keep else settled.pack(values)
    settled(_data(data, channels_last), packed, added, _data(out, channels_last))
    return out


@lru_cache(maxsize=1024)
def _settled(  # noqa: PLR0913 - what a problem is made of
    wanted: Operand,
    first: Shape,
    second: Shape,
    size: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    dtype: str | None,
    channels_last: bool,  # noqa: FBT001 - part of a key
    *,
    bias: bool,
) -> Settled:
    """Return the problem of a call, ready to run.

    The operators are reachable by anybody, and kernels believe what a problem says.
    """
    shapes = {wanted: size, **dict(zip(_given(wanted), (first, second), strict=True))}
    rank = len(size)
    if dtype is None:
        raise _refuse("the tensors are not float32, float64, float16 or bfloat16.")
    if not all(len(each) == rank for each in (stride, padding, dilation)) or not all(
        len(shape) == rank + 2 for operand, shape in shapes.items() if operand is not wanted
    ):
        raise _refuse(f"size {size} does not go with the ranks of the other arguments.")
    if min((groups, *size, *stride, *dilation, *first[1:], *second[1:])) < 1 or min(padding) < 0:
        raise _refuse("every size, stride and dilation must be positive, padding 0 or more.")
    channels, batch = _channels(wanted, first, second, groups)
    spatial = {operand: shape[-rank:] for operand, shape in shapes.items()}
    axes = tuple(
        Axis(*numbers)
        for numbers in zip(
            spatial[FINE], spatial[COARSE], spatial[WEIGHTS], stride, dilation, padding, strict=True
        )
    )
    order = "n x {}" if channels_last else "n {} x"
    problem = Problem(
        wanted=wanted,
        batch=batch,
        groups=groups,
        coarse_channels=channels[0],
        fine_channels=channels[1],
        axes=axes,
        dtype=dtype,
        coarse_layout=Layout(order.format("gc")),
        fine_layout=Layout(order.format("gf")),
        weights_layout=Layout("gc f x"),
        bias=bias,
    )
    return Settled(TITLE, problem)


def _channels(
    wanted: Operand, first: Shape, second: Shape, groups: int
) -> tuple[tuple[int, int], int]:
    """Return the channels of one group on both sides, and the batch."""
    if wanted is WEIGHTS:
        (batch, coarse), (other, fine) = first[:2], second[:2]
        right = batch == other and fine % groups == 0
        fine //= groups
    else:
        batch, (coarse, fine) = first[0], second[:2]
        right = first[1] == (fine * groups if wanted is COARSE else coarse)
    if not right or coarse % groups:
        raise _refuse(f"{first} and {second} do not agree on batch or channels, groups {groups}.")
    return (coarse // groups, fine), batch


def _given(wanted: Operand) -> tuple[Operand, Operand]:
    if wanted is WEIGHTS:
        return COARSE, FINE
    return (FINE if wanted is COARSE else COARSE), WEIGHTS


def array(tensor: Any) -> Array:  # noqa: ANN401 - torch is not typed
    """Return a tensor's own memory as an array."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.dtype is torch.bfloat16:  # torch does not know NumPy's
        short: Array = tensor.view(torch.int16).numpy()
        return short.view(BFLOAT16)
    whole: Array = tensor.numpy()
    return whole


def _data(tensor: Any, channels_last: bool) -> Array:  # noqa: ANN401, FBT001 - see above
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
            raise _refuse(f"channels_last with {len(shape) - 2} spatial axes.")
        memory_format = CHANNELS_LAST[len(shape) - 2]
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=memory_format)


def _is_last(tensor: Any) -> bool:  # noqa: ANN401 - see above
    return bool(tensor.stride(1) == 1)


def _check_dtypes(first: Any, other: Any) -> None:  # noqa: ANN401 - see above
    if first.dtype is not other.dtype:
        raise _refuse(f"{first.dtype} and {other.dtype} in one call.")


def _refuse(wrong: str) -> tconv.ProblemError:
    return tconv.ProblemError(
        TITLE,
        wrong,
        got={},
        rule="the arguments are those that tconv.adapters.torch.functional would pass",
        fix="call tconv.adapters.torch.conv2d and its like instead",
    )


def _follow_threads() -> None:
    """Use as many threads as torch, from the moment that its number changes."""
    global _seen_threads  # noqa: PLW0603 - one number for the process
    threads = torch.get_num_threads()
    if threads != _seen_threads:
        _seen_threads = threads
        tconv.set_num_threads(threads)
