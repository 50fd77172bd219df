"""PyTorch, with contiguous tensors or in channels_last memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from tconv.bench.peers.peer import Array, Ready, Refused, Task
from tconv.problem import Operand, numpy_dtype

CONTIGUOUS = torch.contiguous_format
CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


def contiguous(task: Task) -> Ready:
    """Prepare tensors in NCX order, whatever the task's layout is."""
    return _prepare(task, len(task.layer.spatial), CONTIGUOUS)


def channels_last(task: Task) -> Ready:
    """Prepare tensors in NXC order; one spatial axis counts as a picture of height 1."""
    rank = max(len(task.layer.spatial), 2)
    if rank not in CHANNELS_LAST:
        raise Refused(f"torch has no channels_last format for {rank} spatial axes")
    return _prepare(task, rank, CHANNELS_LAST[rank])


def version() -> str:
    """Return torch's version."""
    return str(torch.__version__)


def _prepare(task: Task, rank: int, memory_format: Any) -> Ready:  # noqa: ANN401 - torch's own
    if not 1 <= rank <= 3:
        raise Refused(f"torch convolves 1 to 3 spatial axes, not {rank}")
    torch.set_num_threads(task.threads)
    more = rank - len(task.layer.spatial)
    # Tensors made in inference mode record no gradients ever after, also outside of it: entering
    # the mode anew would cost time in every call.
    with torch.inference_mode():
        given = {
            operand: _tensor(array, more).contiguous(memory_format=memory_format)
            for operand, array in task.given.items()
        }
    call = _call(task, given, rank, more)
    last: list[Any] = [None]

    def run() -> object:
        last[0] = call()
        return last[0]

    return Ready(run, lambda: _array(last[0], task))


def _call(task: Task, given: dict[Operand, Any], rank: int, more: int) -> Callable[[], Any]:
    layer = task.layer
    stride, dilation = (1,) * more + layer.strides, (1,) * more + layer.dilations
    padding, extra = (0,) * more + task.padding(), (0,) * more + layer.output_padding
    first, second = given.values()
    if task.wanted is Operand.FINE:
        transpose = getattr(functional, f"conv_transpose{rank}d")
        return lambda: transpose(
            first, second, None, stride, padding, extra, layer.groups, dilation
        )
    if task.wanted is Operand.COARSE:
        convolve = getattr(functional, f"conv{rank}d")
        return lambda: convolve(first, second, None, stride, padding, dilation, layer.groups)
    # Only the shape and the format of the weights count here.
    shape = layer.shape(Operand.WEIGHTS)
    weights = torch.empty(shape[:2] + (1,) * more + shape[2:])
    weights = weights.to(first.dtype).contiguous(memory_format=_format_of(first, rank))
    backward = torch.ops.aten.convolution_backward
    settings = (stride, padding, dilation, True, extra, layer.groups, (False, True, False))
    return lambda: backward(second, first, weights, None, *settings)[1]


def _format_of(tensor: Any, rank: int) -> Any:  # noqa: ANN401 - torch's own
    last = CHANNELS_LAST.get(rank)
    there = last is not None and tensor.is_contiguous(memory_format=last)
    return last if there and not tensor.is_contiguous() else CONTIGUOUS


def _tensor(array: Array, more: int) -> Any:  # noqa: ANN401 - torch's own
    """Copy an array, with ``more`` spatial axes of size 1 in front."""
    array = array.reshape(array.shape[:2] + (1,) * more + array.shape[2:])
    if array.dtype == numpy_dtype("bfloat16"):  # torch does not know NumPy's
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).clone()
    return torch.from_numpy(array).clone()


def _array(tensor: Any, task: Task) -> Array:  # noqa: ANN401 - torch's own
    tensor = tensor.contiguous()
    if tensor.dtype == torch.bfloat16:
        array: Array = tensor.view(torch.int16).numpy().view(numpy_dtype("bfloat16"))
    else:
        array = tensor.numpy()
    return array.reshape(task.layer.shape(task.wanted))
