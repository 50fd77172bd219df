"""OpenVINO's CPU plugin: a model of one operator with constant weights, in NCX."""

from functools import cache
from typing import Any

import openvino
from openvino import opset1, opset8

from tconv.bench.peers.peer import Array, Ready, Refused, Task
from tconv.problem import Operand

TYPES = {"float32": openvino.Type.f32, "float16": openvino.Type.f16}


def one_operator(task: Task) -> Ready:
    """Compile the model and bind the memory of its input."""
    if task.dtype not in TYPES:
        raise Refused(f"the CPU plugin computes {task.dtype} in float32")
    data = opset8.parameter(task.layer.shape(_data(task)), TYPES[task.dtype], name="data")
    model = openvino.Model([opset8.result(_node(task, data))], [data], "one_operator")
    settings = {
        "INFERENCE_NUM_THREADS": task.threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = _core().compile_model(model, "CPU", settings).create_infer_request()
    array = task.array(_data(task))
    request.set_input_tensor(openvino.Tensor(array, shared_memory=True))

    def run() -> object:
        return request.infer(share_outputs=True)  # else it copies the result each time

    def result() -> Array:
        values: Array = request.get_output_tensor().data
        return values

    return Ready(run, result, kept=array)


def version() -> str:
    """Return OpenVINO's version, without the name of its build."""
    return str(openvino.__version__).partition("-")[0]


@cache
def _core() -> Any:  # noqa: ANN401 - OpenVINO's own
    return openvino.Core()  # loads the plugin, once


def _data(task: Task) -> Operand:
    return Operand.COARSE if task.wanted is Operand.FINE else Operand.FINE


def _node(task: Task, data: Any) -> Any:  # noqa: ANN401 - OpenVINO's own
    layer, weights = task.layer, task.given[Operand.WEIGHTS]
    # A GroupConvolutionBackpropData of one group is refused when the group has several channels.
    grouped = layer.groups > 1
    if grouped:
        weights = weights.reshape(layer.groups, -1, *weights.shape[1:])
    constant = opset8.constant(weights)
    if task.wanted is Operand.COARSE:
        convolve = opset1.group_convolution if grouped else opset1.convolution
        return convolve(
            data,
            constant,
            list(layer.strides),
            list(layer.pads_begin),
            list(layer.pads_end),
            list(layer.dilations),
        )
    build = opset1.group_convolution_backprop_data if grouped else opset1.convolution_backprop_data
    return build(
        data,
        constant,
        strides=list(layer.strides),
        pads_begin=list(layer.pads_begin),
        pads_end=list(layer.pads_end),
        dilations=list(layer.dilations),
        output_padding=list(layer.output_padding),
    )
