"""torch.nn.functional's convolutions, computed by tconv.

What tconv does not do is left to torch: other devices, element types and tensor classes, and
whatever is wrong with a call, so that it is refused as torch refuses it.
"""

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional

from tconv.adapters.torch import operators
from tconv.adapters.torch.fallback import leave_to_torch
from tconv.adapters.torch.kernels import COARSE, FINE
from tconv.adapters.torch.memory import DTYPES
from tconv.adapters.torch.sizes import Call, Numbers, keeps_last, understand, understand_again

Tensor = Any  # torch is not typed

PLAIN = (torch.Tensor, torch.nn.Parameter, FakeTensor)


def conv1d(  # noqa: PLR0913 - torch's arguments
    input: Tensor,  # noqa: A002 - torch's word
    weight: Tensor,
    bias: Tensor = None,
    stride: Numbers = 1,
    padding: Numbers | str = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Tensor:
    """Convolve, as ``torch.nn.functional.conv1d``."""
    return convolve("conv1d", input, weight, bias, stride, padding, 0, groups, dilation)


def conv2d(  # noqa: PLR0913 - torch's arguments
    input: Tensor,  # noqa: A002 - torch's word
    weight: Tensor,
    bias: Tensor = None,
    stride: Numbers = 1,
    padding: Numbers | str = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Tensor:
    """Convolve, as ``torch.nn.functional.conv2d``."""
    return convolve("conv2d", input, weight, bias, stride, padding, 0, groups, dilation)


def conv3d(  # noqa: PLR0913 - torch's arguments
    input: Tensor,  # noqa: A002 - torch's word
    weight: Tensor,
    bias: Tensor = None,
    stride: Numbers = 1,
    padding: Numbers | str = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Tensor:
    """Convolve, as ``torch.nn.functional.conv3d``."""
    return convolve("conv3d", input, weight, bias, stride, padding, 0, groups, dilation)


def conv_transpose1d(  # noqa: PLR0913 - torch's arguments
    input: Tensor,  # noqa: A002 - torch's word
    weight: Tensor,
    bias: Tensor = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
) -> Tensor:
    """Convolve transposed, as ``torch.nn.functional.conv_transpose1d``."""
    return convolve(
        "conv_transpose1d", input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(  # noqa: PLR0913 - torch's arguments
    input: Tensor,  # noqa: A002 - torch's word
    weight: Tensor,
    bias: Tensor = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
) -> Tensor:
    """Convolve transposed, as ``torch.nn.functional.conv_transpose2d``."""
    return convolve(
        "conv_transpose2d", input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(  # noqa: PLR0913 - torch's arguments
    input: Tensor,  # noqa: A002 - torch's word
    weight: Tensor,
    bias: Tensor = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
) -> Tensor:
    """Convolve transposed, as ``torch.nn.functional.conv_transpose3d``."""
    return convolve(
        "conv_transpose3d", input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def convolve(  # noqa: PLR0913 - torch's arguments
    name: str,
    input: Tensor,  # noqa: A002 - torch's word
    weight: Tensor,
    bias: Tensor,
    stride: Numbers,
    padding: Numbers | str,
    output_padding: Numbers,
    groups: int,
    dilation: Numbers,
    *,
    keep: bool = False,
) -> Tensor:
    """Run the function of a name; with ``keep``, packed weights are kept for the next call."""
    transposed, rank = len(name) > 6, int(name[-2])
    tensors = input, weight, bias
    reason = unfit(tensors)
    if not reason:
        data, weight, bias = _autocast(tensors)
        batched = data.dim() != rank + 1
        data = data if batched else data.unsqueeze(0)
        call = None
        if data.dim() == rank + 2 and _one_dtype(data, weight, bias):
            shapes = data.shape, weight.shape, None if bias is None else bias.shape
            call = _understood(
                transposed, *shapes, stride, padding, output_padding, groups, dilation
            )
        if call is not None:
            last = keeps_last(data, weight)
            wanted = FINE if transposed else COARSE
            out = operators.call(wanted, data, weight, bias, *call, groups, last, keep)
            return out if batched else out.squeeze(0)
        reason = "these arguments are not done here"
    named = {
        "input": input, "weight": tensors[1], "bias": tensors[2], "stride": stride,
        "padding": padding, "dilation": dilation, "groups": groups,
    }  # fmt: skip
    if transposed:
        named["output_padding"] = output_padding
    return leave_to_torch(name, reason, named, getattr(functional, name))


def unfit(tensors: tuple[Tensor, Tensor, Tensor]) -> str:
    """Return why tensors are not for us, or nothing."""
    input, weight, bias = tensors  # noqa: A001 - torch's word
    given = (input, weight) if bias is None else tensors
    for tensor in given:
        if type(tensor) not in PLAIN:
            return f"{type(tensor).__name__} is a tensor class of its own"
        if tensor.device.type != "cpu":
            return f"tensors are on {tensor.device.type}"
        if tensor.layout is not torch.strided:
            return f"the layout of tensors is {tensor.layout}"
        if tensor.dtype not in DTYPES:
            return f"tensors are {tensor.dtype}"
    return ""


def _autocast(tensors: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Convert tensors where torch's own operator would: inside of autocast, but for float64."""
    if not torch.is_autocast_enabled("cpu"):
        return tensors
    dtype = torch.get_autocast_dtype("cpu")
    input, weight, bias = (  # noqa: A001 - torch's word
        tensor if tensor is None or tensor.dtype is torch.float64 else tensor.to(dtype)
        for tensor in tensors
    )
    return input, weight, bias


def _understood(*asked: Any) -> Call | None:  # noqa: ANN401 - see understand
    """Look at a call, or find it seen before."""
    if torch.compiler.is_compiling():
        return understand(*asked)
    try:
        return understand_again(*asked)
    except TypeError:  # a list is a good argument, but no key; so is a size that is a symbol
        return understand(*asked)


def _one_dtype(data: Tensor, weight: Tensor, bias: Tensor) -> bool:
    same = data.dtype is weight.dtype
    return same and (bias is None or bias.dtype is data.dtype)
