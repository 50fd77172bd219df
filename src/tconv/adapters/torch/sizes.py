"""What a call asks for: numbers for each axis, the size and memory format of the result.

Only calls that torch takes are answered; for all others the answer is None, and torch judges.
Sizes may be torch's symbols: torch.compile traces this file.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch

Tensor = Any  # torch is not typed
Numbers = int | Sequence[int]
Shape = tuple[int, ...]

WHOLE = (int, torch.SymInt)
LARGEST = 2**31 - 1  # beyond it torch may count wrong, and we need not


def _short_kernels() -> list[Any]:
    """Return which short types torch's own kernels for three axes take on this CPU."""
    if not torch.backends.mkldnn.is_available():
        return []
    own = torch.ops.mkldnn
    takes = {
        torch.bfloat16: own._is_mkldnn_bf16_supported,  # noqa: SLF001 - torch's own name
        torch.float16: own._is_mkldnn_fp16_supported,  # noqa: SLF001 - torch's own name
    }
    return [dtype for dtype, supported in takes.items() if supported()]


# The types in which torch's own operator keeps channels_last_3d.
KEPT_3D = (torch.float32, *_short_kernels())


class Call(NamedTuple):
    """A call as the operators take it: numbers for each axis, and the size of the result."""

    size: Shape
    stride: Shape
    padding: Shape  # at the beginning
    dilation: Shape


def understand(  # noqa: PLR0913 - torch's arguments
    transposed: bool,  # noqa: FBT001 - by position: names would cost time in every call
    shape: Shape,
    window: Shape,
    bias: Shape | None,
    stride: Numbers,
    padding: Numbers | str,
    output_padding: Numbers,
    groups: int,
    dilation: Numbers,
) -> Call | None:
    """Return what a call asks for, by the shapes of its tensors and its other arguments.

    >>> understand(True, (1, 2, 5), (2, 3, 4), None, 2, 1, 0, 1, 1)
    Call(size=(10,), stride=(2,), padding=(1,), dilation=(1,))
    >>> understand(False, (1, 2, 5), (3, 2, 4), (3,), 1, "same", 0, 1, 1)
    Call(size=(5,), stride=(1,), padding=(1,), dilation=(1,))
    """
    rank = len(shape) - 2
    strides, dilations = _each(stride, rank, 1), _each(dilation, rank, 1)
    extra = _each(output_padding, rank, 0)
    if strides is None or dilations is None or extra is None or len(window) != len(shape):
        return None
    spans = [d * (k - 1) for d, k in zip(dilations, window[2:], strict=True)]
    if not isinstance(padding, str):
        begin = _each(padding, rank, 0)
    elif transposed:
        begin = None
    elif padding == "same" and strides == (1,) * rank:
        begin, extra = tuple([each // 2 for each in spans]), tuple([each % 2 for each in spans])
    else:
        begin = (0,) * rank if padding == "valid" else None
    if begin is None or not _channels_agree(transposed, shape, window, bias, groups):
        return None
    sizes = []
    for x, k, span, s, p, e, d in zip(
        shape[2:], window[2:], spans, strides, begin, extra, dilations, strict=True
    ):
        if transposed:
            size = (x - 1) * s + span + 1 - 2 * p + e
            fits = e < max(s, d)
        else:
            room = x + 2 * p + e - span - 1
            size = room // s + 1
            fits = room >= 0
        if not fits or x < 1 or k < 1 or size < 1:
            return None
        sizes.append(size)
    return Call(tuple(sizes), strides, begin, dilations)


understand_again = lru_cache(maxsize=1024, typed=True)(understand)


def _channels_agree(
    transposed: bool,  # noqa: FBT001 - see understand
    shape: Shape,
    window: Shape,
    bias: Shape | None,
    groups: int,
) -> bool:
    if isinstance(groups, bool) or not isinstance(groups, WHOLE) or groups < 1:
        return False
    coarse, fine = window[0], window[1] * groups
    given, made = (coarse, fine) if transposed else (fine, coarse)
    if shape[1] != given or coarse % groups or given < 1 or made < 1:
        return False
    return bias is None or (len(bias) == 1 and bias[0] == made)


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
        if isinstance(number, bool) or not isinstance(number, WHOLE):
            return None
        if number < least or number > LARGEST:
            return None
    return numbers


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
