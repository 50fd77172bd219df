"""oneDNN's primitives, made once, with weights in the format that they choose."""

from dataclasses import dataclass

import numpy as np

from tconv.bench.peers import dnnl
from tconv.bench.peers.peer import Array, Ready, Refused, Task
from tconv.bench.suite import Shape
from tconv.problem import Operand, numpy_dtype

INFERENCE, TRAINING = 96, 64  # dnnl_forward_inference, dnnl_forward_training
AUTO, DECONVOLUTION = 0x3, 0xA  # dnnl_convolution_auto, dnnl_deconvolution_direct


# This implementation compiles so many kernels for long windows that 256 taps took 2 to 3 seconds
# and 1024 had not ended after minutes; a deconvolution in NXC has no other one there.
PATIENT, MANY_TAPS = "brgconv_strided", 512


@dataclass(frozen=True, slots=True)
class Role:
    """What an argument is called: to run the primitive, and to ask for its format."""

    argument: int
    query: int


SRC, DST, WEIGHTS = Role(1, 129), Role(17, 133), Role(33, 131)
DIFF_DST, DIFF_WEIGHTS = Role(145, 134), Role(161, 132)

# Which argument of its primitive each operand is.  COARSE and WEIGHTS are a convolution's
# result and weight gradient: its source is the fine array.
ROLES = {
    Operand.FINE: {Operand.COARSE: SRC, Operand.FINE: DST, Operand.WEIGHTS: WEIGHTS},
    Operand.COARSE: {Operand.COARSE: DST, Operand.FINE: SRC, Operand.WEIGHTS: WEIGHTS},
    Operand.WEIGHTS: {Operand.COARSE: DIFF_DST, Operand.FINE: SRC, Operand.WEIGHTS: DIFF_WEIGHTS},
}


@dataclass(frozen=True, slots=True)
class View:
    """An operand as oneDNN sees it: logical sizes, and their order in our NCX memory."""

    shape: Shape
    order: Shape


def in_layout(task: Task) -> Ready:
    """Keep the data in the task's layout."""
    return _prepare(task, blocked=False)


def blocked(task: Task) -> Ready:
    """Let the primitive choose the format of the data too; what it costs to get there is free."""
    return _prepare(task, blocked=True)


def version() -> str:
    """Return the library's version."""
    return dnnl.version()


def _prepare(task: Task, *, blocked: bool) -> Ready:
    if len(task.layer.spatial) > 3:
        raise Refused(f"oneDNN convolves 1 to 3 spatial axes, not {len(task.layer.spatial)}")
    if task.wanted is Operand.WEIGHTS and set(task.layer.kernel) == {1} != set(task.layer.strides):
        # jit_avx2_1x1_convolution_bwd_weights writes past the end of its scratch memory.
        raise Refused("oneDNN's weight gradient of a 1x1 window with strides may crash")
    dnnl.library().omp_set_num_threads(task.threads)
    views = {operand: _view(task, operand) for operand in Operand}
    asked = {operand: _asked(task, operand, views[operand], blocked=blocked) for operand in Operand}
    description = _describe(task, asked)
    taps, code = max(task.layer.kernel), dnnl.implementation(description)
    if taps >= MANY_TAPS and PATIENT in code:
        raise Refused(f"oneDNN's {code} takes too long to compile for {taps} taps")
    roles = ROLES[task.wanted]
    formats = {operand: dnnl.chosen(description, roles[operand].query) for operand in Operand}
    memories = {operand: dnnl.memory(formats[operand]) for operand in Operand}
    for operand, array in task.given.items():
        ours = dnnl.plain(views[operand].shape, task.dtype, views[operand].order)
        dnnl.reorder((ours, formats[operand]), (dnnl.memory(ours, array), memories[operand]))
    run = dnnl.Execution(
        description, {roles[operand].argument: memories[operand] for operand in Operand}
    )

    def result() -> Array:
        view = views[task.wanted]
        out = np.empty(task.layer.shape(task.wanted), numpy_dtype(task.dtype))
        ours = dnnl.plain(view.shape, task.dtype, view.order)
        dnnl.reorder((formats[task.wanted], ours), (memories[task.wanted], dnnl.memory(ours, out)))
        return out

    return Ready(run, result, code)


def _describe(task: Task, asked: dict[Operand, dnnl.Owned]) -> dnnl.Owned:
    """Describe the primitive; it refuses here if it has no implementation."""
    layer = task.layer
    coarse, fine, weights = (asked[operand] for operand in Operand)
    geometry = (
        dnnl.Dims(*layer.strides),
        dnnl.Dims(*(dilation - 1 for dilation in layer.dilations)),  # counts the holes
        dnnl.Dims(*layer.pads_begin),
        dnnl.Dims(*layer.pads_end),
    )
    if task.wanted is Operand.FINE:
        return dnnl.Owned(
            "primitive_desc",
            "deconvolution_forward_primitive_desc_create",
            *(dnnl.engine(), INFERENCE, DECONVOLUTION),
            *(coarse, weights, None, fine, *geometry, None),
        )
    forward = dnnl.Owned(
        "primitive_desc",
        "convolution_forward_primitive_desc_create",
        *(dnnl.engine(), INFERENCE if task.wanted is Operand.COARSE else TRAINING, AUTO),
        *(fine, weights, None, coarse, *geometry, None),
    )
    if task.wanted is Operand.COARSE:
        return forward
    return dnnl.Owned(
        "primitive_desc",
        "convolution_backward_weights_primitive_desc_create",
        *(dnnl.engine(), AUTO, fine, weights, None, coarse, *geometry, forward, None),
    )


def _view(task: Task, operand: Operand) -> View:
    """Return an operand's sizes: batch, channels, points; or groups, output, input, taps."""
    layer, shape = task.layer, task.layer.shape(operand)
    if operand is not Operand.WEIGHTS:
        return View(shape, tuple(range(len(shape))))
    coarse, fine = layer.in_channels // layer.groups, layer.out_channels // layer.groups
    taps = tuple(range(3, 3 + len(layer.kernel)))
    # A deconvolution's output channels are the fine ones, which come second in memory.
    deconvolution = task.wanted is Operand.FINE
    channels = (fine, coarse) if deconvolution else (coarse, fine)
    order = (0, 2, 1, *taps) if deconvolution else (0, 1, 2, *taps)
    if layer.groups > 1:
        return View((layer.groups, *channels, *layer.kernel), order)
    return View((*channels, *layer.kernel), tuple(axis - 1 for axis in order[1:]))


def _asked(task: Task, operand: Operand, view: View, *, blocked: bool) -> dnnl.Owned:
    if blocked or operand is Operand.WEIGHTS:
        return dnnl.free(view.shape, task.dtype)
    order = view.order if task.layout == "NCX" else (0, *view.order[2:], 1)
    return dnnl.plain(view.shape, task.dtype, order)
