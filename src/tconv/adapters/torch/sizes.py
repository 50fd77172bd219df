"""What a call says of its result: numbers for each axis, its size and its memory format.

Only calls that torch takes are answered; for all others the answer is None, and torch judges.
Sizes may be torch's symbols: torch.compile traces this file.
"""

from collections.abc import Sequence
from typing import Any

import torch

Tensor = Any  # torch is not typed
Numbers = int | Sequence[int]
Shape = tuple[int, ...]

WHOLE = (int, torch.SymInt)
SHORT = (torch.float16, torch.bfloat16)


def _has_short_kernels() -> bool:
    """Tell whether torch's own kernels for three axes take the short types on this CPU."""
    return bool(
        torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()  # noqa: SLF001 - torch's own name
    )


# The types in which torch's own operator keeps channels_last_3d.
KEPT_3D = (torch.float32, *(SHORT if _has_short_kernels() else ()))


def numbers_of(  # noqa: PLR0913 - torch's arguments
    rank: int,
    stride: Numbers,
    padding: Numbers | str,
    output_padding: Numbers,
    dilation: Numbers,
    weight: Tensor,
) -> tuple[Shape, Shape, Shape, Shape] | None:
    """Return stride, padding at the beginning, points more at the end and dilation, each axis.

    >>> numbers_of(2, 1, "same", 0, 1, torch.empty(1, 1, 3, 4))
    ((1, 1), (1, 1), (0, 1), (1, 1))
    """
    strides, dilations = _each(stride, rank, 1), _each(dilation, rank, 1)
    extra = _each(output_padding, rank, 0)
    if strides is None or dilations is None or extra is None:
        return None
    if not isinstance(padding, str):
        begin = _each(padding, rank, 0)
        return None if begin is None else (strides, begin, extra, dilations)
    if padding == "valid":
        return strides, (0,) * rank, extra, dilations
    if padding != "same" or strides != (1,) * rank or weight.dim() != rank + 2:
        return None
    spans = [d * (k - 1) for d, k in zip(dilations, weight.shape[2:], strict=True)]
    begin, odd = tuple([span // 2 for span in spans]), tuple([span % 2 for span in spans])
    return strides, begin, odd, dilations


def _each(value: Numbers | str, rank: int, least: int) -> Shape | None:
    """Return one number for each axis."""
    if isinstance(value, WHOLE):
        numbers: Shape = (value,) * rank
    elif isinstance(value, (tuple, list)):
        numbers = tuple(value) if len(value) == rank else tuple(value) * rank
        if len(numbers) != rank:
            return None
    else:
        return None
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, WHOLE) or number < least:
            return None
    return numbers


def size_of(
    transposed: bool,  # noqa: FBT001 - runs once a layer: names cost time
    tensors: tuple[Tensor, Tensor, Tensor],
    numbers: tuple[Shape, Shape, Shape, Shape],
    groups: int,
) -> Shape | None:
    """Return the spatial size of the result.

    >>> tensors = torch.empty(1, 2, 5), torch.empty(2, 3, 4), None
    >>> size_of(True, tensors, ((2,), (1,), (0,), (1,)), 1)
    (10,)
    """
    data, weight, bias = tensors
    shape, window = data.shape, weight.shape
    if len(shape) != len(numbers[0]) + 2 or len(window) != len(shape):
        return None
    if isinstance(groups, bool) or not isinstance(groups, WHOLE) or groups < 1:
        return None
    coarse, fine = window[0], window[1] * groups
    given, made = (coarse, fine) if transposed else (fine, coarse)
    agreed = shape[1] == given and coarse % groups == 0 and given > 0 and made > 0
    if not agreed or data.dtype is not weight.dtype:
        return None
    if bias is not None and (tuple(bias.shape) != (made,) or bias.dtype is not data.dtype):
        return None
    sizes = []
    for x, k, s, p, e, d in zip(shape[2:], window[2:], *numbers, strict=True):
        span = d * (k - 1) + 1
        if transposed:
            size = (x - 1) * s + span - 2 * p + e
            fits = e < max(s, d)
        else:
            room = x + 2 * p + e - span
            size = room // s + 1
            fits = room >= 0
        if not fits or x < 1 or k < 1 or size < 1:
            return None
        sizes.append(size)
    return tuple(sizes)


def keeps_last(data: Tensor, weight: Tensor) -> bool:
    """Tell whether torch's own operator would answer in channels_last.

    >>> last = torch.empty(1, 2, 3, 4).to(memory_format=torch.channels_last)
    >>> keeps_last(last, torch.empty(5, 2, 1, 1)), keeps_last(torch.empty(1, 2, 3), last)
    (True, False)
    """
    rank = data.dim() - 2
    if rank == 1 or (rank == 3 and data.dtype not in KEPT_3D):
        return False
    return _is_last(data) or _is_last(weight)


def _is_last(tensor: Tensor) -> bool:
    """Tell whether strides are in the order of channels_last; in doubt not, as torch does."""
    sizes, strides = tensor.shape, tensor.stride()
    least = 0
    for axis in (1, *range(len(sizes) - 1, 1, -1), 0):
        size, stride = sizes[axis], strides[axis]
        if size == 0 or stride < least or (axis == 1 and stride == 0):
            return False
        if axis == 0 and least == strides[1]:  # all sizes are 1
            return False
        least = stride * size if size > 1 else stride
    return True
