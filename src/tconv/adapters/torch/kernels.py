"""The operators on CPU tensors: calls become problems, problems are run on the tensors' memory."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

import tconv
from tconv.adapters.torch.kept import kept_pack
from tconv.adapters.torch.memory import DTYPES, TITLE, array, data_array, empty, refuse
from tconv.adapters.torch.team import join
from tconv.calls import Settled
from tconv.problem import Axis, Layout, Operand, Problem

Shape = tuple[int, ...]
Sizes = Sequence[int]

COARSE, FINE, WEIGHTS = Operand.COARSE, Operand.FINE, Operand.WEIGHTS

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
    settled(data_array(coarse, last), data_array(fine, last), None, array(out))
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
        bias=bias is not None, keep=keep,
    )  # fmt: skip
    _check_dtypes(data, weight)
    channels = weight.shape[0] if wanted is COARSE else weight.shape[1] * groups
    added = None
    if bias is not None:
        _check_dtypes(data, bias)
        added = array(bias)
        if added.shape != (channels,):
            raise refuse(f"bias has shape {added.shape}, the result {channels} channels.")
    out = empty((data.shape[0], channels, *size), data, channels_last=channels_last)
    packed = kept_pack(weight, settled) if keep else settled.pack(array(weight))
    settled(data_array(data, channels_last), packed, added, data_array(out, channels_last))
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
    keep: bool = False,
) -> Settled:
    """Return the problem of a call, ready to run.

    The operators are reachable by anybody, and kernels believe what a problem says.
    """
    shapes = {wanted: size, **dict(zip(_given(wanted), (first, second), strict=True))}
    rank = len(size)
    if dtype is None:
        raise refuse("the tensors are not float32, float64, float16 or bfloat16.")
    if not all(len(each) == rank for each in (stride, padding, dilation)) or not all(
        len(shape) == rank + 2 for operand, shape in shapes.items() if operand is not wanted
    ):
        raise refuse(f"size {size} does not go with the ranks of the other arguments.")
    if min((groups, *size, *stride, *dilation, *first[1:], *second[1:])) < 1 or min(padding) < 0:
        raise refuse("every size, stride and dilation must be positive, padding 0 or more.")
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
    return Settled(TITLE, problem, bound=keep)


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
        raise refuse(f"{first} and {second} do not agree on batch or channels, groups {groups}.")
    return (coarse // groups, fine), batch


def _given(wanted: Operand) -> tuple[Operand, Operand]:
    if wanted is WEIGHTS:
        return COARSE, FINE
    return (FINE if wanted is COARSE else COARSE), WEIGHTS


def _is_last(tensor: Any) -> bool:  # noqa: ANN401 - see above
    return bool(tensor.stride(1) == 1)


def _check_dtypes(first: Any, other: Any) -> None:  # noqa: ANN401 - see above
    if first.dtype is not other.dtype:
        raise refuse(f"{first.dtype} and {other.dtype} in one call.")


def _follow_threads() -> None:
    """Use as many threads as torch, from the moment that its number changes."""
    global _seen_threads  # noqa: PLW0603 - one number for the process
    threads = torch.get_num_threads()
    if threads != _seen_threads:
        if not _seen_threads:
            join()
        _seen_threads = threads
        tconv.set_num_threads(threads)
