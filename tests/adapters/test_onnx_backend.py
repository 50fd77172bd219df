"""The ONNX backend passes onnx's own tests, and refuses what is not its business."""

import importlib
import unittest
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tconv
from engines import require

onnx = require.module("onnx")
adapter = importlib.import_module("tconv.adapters.onnx")
backend_base = importlib.import_module("onnx.backend.base")
loader = importlib.import_module("onnx.backend.test.loader")
helper = onnx.helper

Array = npt.NDArray[Any]

OURS = {"Conv", "ConvTranspose"}
# Kinds of onnx's tests whose models come with the package: "real" ones are downloads.
LOCAL = ("node", "simple", "pytorch-converted", "pytorch-operator")
INCLUDED = (
    r"^test_basic_conv_with(out)?_padding_cpu$",
    r"^test_conv_with_.*_cpu$",
    r"^test_convtranspose.*_cpu$",
    r"^test_Conv(Transpose)?[123]d.*_cpu$",
    r"^test_operator_conv(transpose)?_cpu$",
)
FLOAT = 1  # TensorProto.FLOAT
X = np.arange(1, 7, dtype=np.float32).reshape(1, 2, 3)
W = np.arange(1, 13, dtype=np.float32).reshape(2, 2, 3)
B = np.array([100, 200], np.float32)


@cache
def onnx_models() -> dict[str, Any]:
    """Return the models of onnx's tests by name, as far as they are on this machine."""
    models = {}
    for kind in LOCAL:
        with warnings.catch_warnings():
            # onnx divides by zero while it makes the data of other operators' tests.
            warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"onnx\.backend\.")
            cases = loader.load_model_tests(kind=kind)
        for case in cases:
            model = case.model or onnx.load(f"{case.model_dir}/model.onnx")
            models[f"{case.name}_cpu"] = model
    return models


@cache
def onnx_tests() -> dict[str, Callable[[unittest.TestCase], None]]:
    """Return onnx's own tests that the patterns include, by name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"onnx\.backend\.")
        runner = importlib.import_module("onnx.backend.test").BackendTest(
            adapter.TconvBackend, __name__
        )
    for pattern in INCLUDED:
        runner.include(pattern)
    return {
        name: function
        for tests in runner.test_cases.values()
        for name, function in vars(tests).items()
        if name.startswith("test_") and not hasattr(function, "__unittest_skip__")
    }


def conv_model(
    *nodes: Any,  # noqa: ANN401 - onnx is not typed
    inputs: Sequence[str] = ("x",),
    initializers: dict[str, Array] | None = None,
    opset: int = 22,
    ir_version: int = 10,
    output: str = "y",
) -> Any:  # noqa: ANN401 - onnx is not typed
    """Return a model of one-dimensional float32 tensors with any sizes."""
    make, sizes = helper.make_tensor_value_info, {"b": [None]}
    graph = helper.make_graph(
        list(nodes),
        "a graph",
        [make(name, FLOAT, sizes.get(name, [None] * 3)) for name in inputs],
        [make(output, FLOAT, [None] * 3)],
        [onnx.numpy_helper.from_array(a, name) for name, a in (initializers or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)


def test_every_conv_test_of_onnx_passes(subtests: pytest.Subtests) -> None:
    """Node tests of opset 22, and the tests that were converted from PyTorch at opset 6."""
    for name, test in onnx_tests().items():
        with subtests.test(name):
            test(unittest.TestCase())


def test_the_patterns_include_every_conv_test_of_onnx_and_no_other() -> None:
    """The list of names comes from the models, not from the patterns."""
    ours = {
        name
        for name, model in onnx_models().items()
        if {node.op_type for node in model.graph.node} <= OURS and model.graph.node
    }

    assert onnx_tests().keys() == ours
    assert len(ours) >= 40


def test_every_model_of_the_included_tests_is_compatible() -> None:
    """Or else onnx's runner would skip its test in silence."""
    models = onnx_models()

    assert all(adapter.is_compatible(models[name]) for name in onnx_tests())


def test_models_with_other_nodes_are_not_compatible() -> None:
    """Every model of onnx's other tests contains an operator that tconv does not have."""
    others = [model for name, model in onnx_models().items() if name not in onnx_tests()]

    assert len(others) > 500
    assert not any(adapter.is_compatible(m) for m in others if len(m.graph.node))


def test_the_module_has_the_functions_of_a_backend() -> None:
    """They are the methods of the class, which is one of onnx's backends."""
    names = ("prepare", "run_model", "run_node", "supports_device", "is_compatible")

    assert issubclass(adapter.TconvBackend, backend_base.Backend)
    assert all(getattr(adapter, n) == getattr(adapter.TconvBackend, n) for n in names)


@pytest.mark.parametrize("kind", ["Relu", "Conv"])
def test_a_foreign_node_is_named_and_refused(kind: str) -> None:
    """A node is foreign by its type, or by its domain."""
    foreign = helper.make_node(kind, ["z"], ["y"], "the foreigner")
    if kind == "Conv":
        foreign.domain = "com.example"
    model = conv_model(helper.make_node("Conv", ["x", "w"], ["z"]), foreign, inputs=("x", "w"))

    assert not adapter.is_compatible(model)
    with pytest.raises(tconv.UnsupportedError, match=rf"node 1 'the foreigner'.* {kind}|\.{kind}"):
        adapter.prepare(model)
    with pytest.raises(tconv.UnsupportedError, match="the foreigner"):
        adapter.run_model(model, [X, W])
    with pytest.raises(tconv.UnsupportedError, match="the foreigner"):
        adapter.run_node(foreign, [X])


def test_sparse_initializers_are_refused() -> None:
    """They are weights in a form that no tconv operator reads."""
    model = conv_model(helper.make_node("Conv", ["x", "w"], ["y"]))
    values = onnx.numpy_helper.from_array(np.ones(1, np.float32), "w")
    indices = onnx.numpy_helper.from_array(np.zeros(1, np.int64), "indices")
    sparse = helper.make_sparse_tensor(values, indices, [1, 1, 3])
    model.graph.sparse_initializer.append(sparse)

    assert not adapter.is_compatible(model)
    with pytest.raises(tconv.UnsupportedError, match="sparse initializers"):
        adapter.prepare(model)


@pytest.mark.parametrize(
    ("device", "supported"),
    [("CPU", True), ("CPU:0", True), ("CUDA", False), ("CUDA:1", False), ("TPU", False)],
)
def test_only_the_cpu_is_supported(device: str, *, supported: bool) -> None:
    """Other devices are refused by prepare and by run_node, known to onnx or not."""
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    model = conv_model(node, inputs=("x", "w"))

    assert adapter.supports_device(device) is supported
    assert adapter.is_compatible(model, device) is supported
    if not supported:
        with pytest.raises(tconv.UnsupportedError, match=f"device {device} "):
            adapter.prepare(model, device)
        with pytest.raises(tconv.UnsupportedError, match=f"device {device} "):
            adapter.run_node(node, [X, W], device)


@pytest.mark.parametrize("kind", sorted(OURS))
@pytest.mark.parametrize("constant", [(), ("w",), ("b",), ("w", "b")])
def test_weights_and_bias_are_inputs_or_initializers(kind: str, constant: tuple[str, ...]) -> None:
    """The values are the same, wherever they come from."""
    node = helper.make_node(kind, ["x", "w", "b"], ["y"], strides=[2], pads=[1, 0])
    arrays = {"x": X, "w": W, "b": B}
    given = [name for name in arrays if name not in constant]
    model = conv_model(node, inputs=given, initializers={name: arrays[name] for name in constant})
    expected = getattr(tconv.onnx, kind)(strides=[2], pads=[1, 0])(X, W, B)
    prepared = adapter.prepare(model)

    for values in ([arrays[name] for name in given], {name: arrays[name] for name in given}):
        (result,) = prepared.run(values)
        np.testing.assert_array_equal(result, expected, strict=True)


def test_an_input_may_replace_an_initializer_of_the_same_name() -> None:
    """Old models list initializers as inputs, which are then optional."""
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    model = conv_model(node, inputs=("x", "w"), initializers={"w": W}, opset=6, ir_version=3)
    prepared, op = adapter.prepare(model), tconv.onnx.Conv(opset=6)

    np.testing.assert_array_equal(prepared.run([X])[0], op(X, W))
    np.testing.assert_array_equal(prepared.run([X, W + 1])[0], op(X, W + 1))
    np.testing.assert_array_equal(prepared.run({"x": X, "w": W + 1})[0], op(X, W + 1))
    np.testing.assert_array_equal(prepared.run([X])[0], op(X, W))


@pytest.mark.parametrize(
    "inputs",
    [[], [X, W], {}, {"x": X, "z": W}, {"y": X}],
    ids=["none", "too many", "no names", "a strange name", "only a strange name"],
)
def test_wrong_inputs_of_a_model_are_refused(inputs: Any) -> None:  # noqa: ANN401 - right and wrong
    """Too few, too many, or by names that are not inputs."""
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    prepared = adapter.prepare(conv_model(node, initializers={"w": W}))

    with pytest.raises(tconv.ProblemError, match=r"its inputs are x"):
        prepared.run(inputs)


@pytest.mark.parametrize("names", [["x", "w"], ["x", "w", ""]])
def test_an_empty_name_stands_for_no_bias(names: list[str]) -> None:
    """In a model as in a single node, whose list of inputs may leave it out."""
    node = helper.make_node("ConvTranspose", names, ["y"], "one", strides=[2])
    expected = tconv.onnx.ConvTranspose(strides=[2])(X, W)
    in_model = adapter.run_model(conv_model(node, inputs=("x", "w")), [X, W])
    in_bound = adapter.run_model(conv_model(node, initializers={"w": W}), [X])

    np.testing.assert_array_equal(in_model[0], expected)
    np.testing.assert_array_equal(in_bound[0], expected)
    np.testing.assert_array_equal(adapter.run_node(node, [X, W])[0], expected)
    np.testing.assert_array_equal(adapter.run_node(node, [X, W, None][: len(names)])[0], expected)


def test_a_node_with_too_many_inputs_is_refused() -> None:
    """A value more than the node has names belongs nowhere."""
    node = helper.make_node("Conv", ["x", "w"], ["y"])

    with pytest.raises(tconv.ProblemError, match="the inputs of Conv do not fit"):
        adapter.run_node(node, [X, W, B])


def test_nodes_are_run_in_their_order() -> None:
    """Conv after ConvTranspose, which is a model of two nodes."""
    model = conv_model(
        helper.make_node("ConvTranspose", ["x", "w"], ["z"], strides=[2]),
        helper.make_node("Conv", ["z", "w", "b"], ["y"]),
        initializers={"w": W, "b": B},
    )
    expected = tconv.onnx.Conv()(tconv.onnx.ConvTranspose(strides=[2])(X, W), W, B)

    np.testing.assert_array_equal(adapter.run_model(model, [X])[0], expected)


def test_the_opset_of_the_model_counts() -> None:
    """Opset 22 brought bfloat16 to Conv; the model's own number says whether it may have it."""
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    arrays = [array.astype(ml_dtypes.bfloat16) for array in (X, W)]
    new, old = (conv_model(node, inputs=("x", "w"), opset=opset) for opset in (22, 21))
    expected = tconv.onnx.Conv(opset=22)(*arrays)

    np.testing.assert_array_equal(adapter.run_model(new, arrays)[0], expected, strict=True)
    with pytest.raises(tconv.ProblemError, match="bfloat16"):
        adapter.run_model(old, arrays)
    with pytest.raises(tconv.ProblemError, match="bfloat16"):
        adapter.run_node(node, arrays, opset_version=21)


def test_a_model_that_onnx_itself_rejects_is_rejected_by_its_checker() -> None:
    """An attribute that Conv does not have."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], output_padding=[1])

    with pytest.raises(onnx.checker.ValidationError, match="output_padding"):
        adapter.prepare(conv_model(node, inputs=("x", "w")))


def test_outputs_are_found_by_their_names_too() -> None:
    """A result is a tuple that also takes the names of the outputs."""
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    outputs = adapter.run_node(node, [X, W])

    assert outputs["y"] is outputs[0]
