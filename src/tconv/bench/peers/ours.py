"""tconv itself: with the weights bound once, or packed in every call."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import tconv
from tconv.bench.peers.peer import Array, Ready, Refused, Task, from_layout
from tconv.problem import Operand


def bound(task: Task) -> Ready:
    """Bind the weights once and give the result's memory; a weight gradient has none to bind."""
    return _bound(task, None)


def direct(task: Task) -> Ready:
    """Do the same without transforms, where they would be chosen."""
    ready = _bound(task, None)
    if ready.code != "winograd":
        raise Refused("is what runs anyway")
    return _bound(task, "direct")


def _bound(task: Task, algorithm: str | None) -> Ready:
    tconv.set_num_threads(task.threads)
    layer, out = task.layer, task.empty(task.wanted)
    attributes: dict[str, Any] = {
        "strides": layer.strides,
        "dilations": layer.dilations,
        "pads_begin": layer.pads_begin,
        "pads_end": layer.pads_end,
        "output_padding": layer.output_padding,
        "groups": layer.groups,
        "data_format": task.layout,
        "weights_format": "IOX",
    }
    code = ""
    if task.wanted is Operand.WEIGHTS:
        shape = layer.shape(Operand.WEIGHTS)
        op = tconv.onednn.ConvTransposeBackwardWeights(**attributes, weights_shape=shape)
        arrays = [task.array(operand) for operand in task.given]
        run: Callable[[], object] = partial(op, *arrays, out=out)
    else:
        forward = task.wanted is Operand.FINE
        kind = tconv.onednn.ConvTranspose if forward else tconv.onednn.ConvTransposeBackwardData
        data = task.array(Operand.COARSE if forward else Operand.FINE)
        weights = task.array(Operand.WEIGHTS)
        chosen = kind(**attributes)
        shapes = data.shape, weights.shape
        code = chosen.plan(*shapes, dtype=task.dtype, algorithm=algorithm).algorithm
        run = partial(chosen.bind(weights, algorithm=algorithm), data, out=out)
    return Ready(run, lambda: from_layout(out, task.wanted, task.layout), code)


def eager(task: Task) -> Ready:
    """Call the NumPy functions, which return memory of their own, as torch's functions do."""
    tconv.set_num_threads(task.threads)
    layer = task.layer
    first, second = (task.array(operand) for operand in task.given)
    words: dict[str, Any] = {
        "stride": layer.strides,
        "padding": task.padding(),
        "dilation": layer.dilations,
        "groups": layer.groups,
        "layout": task.layout,
    }
    extra: dict[str, Any] = {"output_padding": layer.output_padding}
    if task.wanted is Operand.FINE:
        call = partial(tconv.conv_transpose, first, second, **words, **extra)
    elif task.wanted is Operand.COARSE:
        call = partial(tconv.conv, first, second, **words)
    else:
        shape = layer.shape(Operand.WEIGHTS)
        gradient = tconv.conv_transpose_grad_weight
        call = partial(gradient, first, shape, second, **words, **extra)
    last: list[Array] = [np.empty(0)]

    def run() -> object:
        last[0] = call()
        return last[0]

    return Ready(run, lambda: from_layout(last[0], task.wanted, task.layout))


def version() -> str:
    """Return the version that is measured."""
    return tconv.__version__
