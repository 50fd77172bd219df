"""Run pasted code in the framework that it was written for."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from engines import require

Array = npt.NDArray[Any]
Arrays = dict[str, Array]


def paste(code: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run code with the caller's arrays under their names; return every name afterwards."""
    scope = dict(names)
    exec(code, scope)  # noqa: S102 - code to be pasted is tested by pasting it
    return scope


def in_torch(code: str, arrays: Arrays, result: str) -> Array:
    """Run on tensors."""
    torch = require.module("torch")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Using padding='same'")  # it may copy, says torch
        scope = paste(code, {name: torch.from_numpy(array) for name, array in arrays.items()})
    return np.asarray(scope[result].numpy())


def in_onnx_runtime(code: str, arrays: Arrays, result: str) -> Array:
    """Make a model of the nodes, with the arrays as its inputs, and let ONNX Runtime compute it."""
    onnx, runtime = require.module("onnx"), require.module("onnxruntime")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = paste(code, {})["nodes"]
    inputs = [helper.make_tensor_value_info(n, kind, a.shape) for n, a in arrays.items()]
    outputs = [helper.make_tensor_value_info(result, kind, None)]
    graph = helper.make_graph(nodes, "pasted", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return np.asarray(session.run([result], arrays)[0])


def in_openvino(code: str, arrays: Arrays, result: str) -> Array:
    """Make a model of the nodes and let the CPU plugin compute it."""
    openvino = require.module("openvino")
    parameters = {
        name: openvino.opset13.parameter(array.shape, np.float32, name=name)
        for name, array in arrays.items()
    }
    node = paste(code, dict(parameters))[result]
    model = openvino.Model([node], list(parameters.values()))
    core = openvino.Core()
    core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    return np.array(core.compile_model(model, "CPU")(list(arrays.values()))[0])


def in_tconv(code: str, arrays: Arrays, result: str) -> Array:
    """Run on NumPy arrays."""
    return np.asarray(paste(code, {"np": np, **arrays})[result])


def in_jax(code: str, arrays: Arrays, result: str) -> Array:
    """Run on NumPy arrays, which JAX takes."""
    require.optional("jax")
    return np.asarray(paste(code, dict(arrays))[result])


def in_keras(code: str, arrays: Arrays, result: str) -> Array:
    """Run with whichever backend Keras has here."""
    keras = require.optional("keras")
    return np.asarray(keras.ops.convert_to_numpy(paste(code, dict(arrays))[result]))


FRAMEWORKS: dict[str, Callable[[str, Arrays, str], Array]] = {
    "torch": in_torch,
    "onnx": in_onnx_runtime,
    "openvino": in_openvino,
    "onednn": in_tconv,
    "keras": in_keras,
    "lax": in_jax,
}
