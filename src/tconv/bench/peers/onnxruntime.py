"""ONNX Runtime on the CPU: a model of one node with constant weights, in NCX."""

import onnx
import onnxruntime
from onnx import helper, numpy_helper

from tconv.bench.peers.peer import Array, Ready, Refused, Task
from tconv.problem import Operand

TYPES = {"float32": onnx.TensorProto.FLOAT, "float64": onnx.TensorProto.DOUBLE}
QUIET = 4  # fatal errors only: refusals come as exceptions


def one_node(task: Task) -> Ready:
    """Make a session and bind the memory of its input and output."""
    if task.dtype not in TYPES:
        raise Refused(f"the CPU provider has no convolution in {task.dtype}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = task.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = QUIET
    try:
        session = onnxruntime.InferenceSession(
            _model(task).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented as error:
        raise Refused(str(error).rpartition(" : ")[2]) from error
    data = onnxruntime.OrtValue.ortvalue_from_numpy(task.array(_data(task)))
    out = onnxruntime.OrtValue.ortvalue_from_numpy(task.empty(task.wanted))
    binding = session.io_binding()
    binding.bind_ortvalue_input("data", data)
    binding.bind_ortvalue_output("result", out)

    def run() -> object:
        return session.run_with_iobinding(binding)

    def result() -> Array:
        values: Array = out.numpy()
        return values

    return Ready(run, result)


def version() -> str:
    """Return ONNX Runtime's version."""
    return str(onnxruntime.__version__)


def _data(task: Task) -> Operand:
    return Operand.COARSE if task.wanted is Operand.FINE else Operand.FINE


def _model(task: Task) -> onnx.ModelProto:
    layer, kind = task.layer, TYPES[task.dtype]
    attributes = {
        "kernel_shape": layer.kernel,
        "strides": layer.strides,
        "dilations": layer.dilations,
        "pads": (*layer.pads_begin, *layer.pads_end),
        "group": layer.groups,
    }
    if task.wanted is Operand.FINE:
        attributes["output_padding"] = layer.output_padding
    name = "ConvTranspose" if task.wanted is Operand.FINE else "Conv"
    node = helper.make_node(name, ["data", "weights"], ["result"], **attributes)
    graph = helper.make_graph(
        [node],
        "one_node",
        [helper.make_tensor_value_info("data", kind, layer.shape(_data(task)))],
        [helper.make_tensor_value_info("result", kind, layer.shape(task.wanted))],
        [numpy_helper.from_array(task.given[Operand.WEIGHTS], "weights")],
    )
    # The versions that every ONNX Runtime since 2022 reads.
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
