"""Run ONNX models of Conv and ConvTranspose nodes: a backend as onnx.backend.base describes it.

``prepare(model).run(inputs)``, ``run_model``, ``run_node``, ``is_compatible`` and
``supports_device`` are functions of this module and methods of :class:`TconvBackend`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, defs, helper, numpy_helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

import tconv

__all__ = [
    "TconvBackend",
    "TconvModel",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]

Array = npt.NDArray[Any]
Inputs = Sequence[object] | Mapping[str, object]
Operator = tconv.onnx.Conv | tconv.onnx.ConvTranspose

KINDS: dict[str, type[Operator]] = {
    "Conv": tconv.onnx.Conv,
    "ConvTranspose": tconv.onnx.ConvTranspose,
}
STANDARD = ("", "ai.onnx")  # both name the domain of ONNX's own operators


class TconvModel(BackendRep):  # type: ignore[misc] # onnx is not typed
    """A prepared model: operators made once, constant weights packed once."""

    def __init__(self, graph: GraphProto, opset: int) -> None:
        self._constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        self._inputs = [each.name for each in graph.input]
        self._outputs = [each.name for each in graph.output]
        self._result = namedtupledict("Outputs", self._outputs)
        # Before IR version 4 an initializer is also an input, which may replace it.
        fixed = {n: a for n, a in self._constants.items() if n not in self._inputs}
        self._steps = [(node, _step(node, opset, fixed)) for node in graph.node]

    def run(self, inputs: Inputs, **kwargs: object) -> tuple[Array, ...]:
        """Compute the outputs; inputs come by name, or in the order of the graph's inputs.

        In a list, inputs that have an initializer are left out, unless all are given.
        """
        del kwargs  # what the base class allows and nothing here uses
        values: dict[str, Any] = {**self._constants, **self._named(inputs)}
        for node, step in self._steps:
            values[node.output[0]] = step([values[name] if name else None for name in node.input])
        outputs: tuple[Array, ...] = self._result(*(np.asarray(values[n]) for n in self._outputs))
        return outputs

    def _named(self, inputs: Inputs) -> dict[str, Any]:
        needed = [name for name in self._inputs if name not in self._constants]
        if isinstance(inputs, Mapping):
            named = dict(inputs)
        else:
            names = self._inputs if len(inputs) == len(self._inputs) else needed
            named = _paired(names, inputs, "the model")
        unknown, missing = set(named) - set(self._inputs), set(needed) - set(named)
        if unknown or missing:
            wrong = "unknown" if unknown else "missing"
            raise _wrong_inputs("the model", sorted(unknown or missing), self._inputs, wrong)
        return named


class TconvBackend(Backend):  # type: ignore[misc] # onnx is not typed
    """Models whose nodes are all Conv or ConvTranspose, on this CPU."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: object) -> bool:
        """Tell whether ``prepare`` would take the model."""
        del kwargs
        return _unsupported(model, device) is None

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: object) -> TconvModel:
        """Check a model and return it ready to run, as often as needed."""
        error = _unsupported(model, device)
        if error is not None:
            raise error
        super().prepare(model, device, **kwargs)  # onnx's own checker
        opsets = {each.domain or "ai.onnx": each.version for each in model.opset_import}
        return TconvModel(model.graph, opsets.get("ai.onnx", 1))

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Sequence[object],
        device: str = "CPU",
        outputs_info: object = None,
        **kwargs: Any,  # noqa: ANN401 - as onnx says
    ) -> tuple[Array, ...]:
        """Run one node, of the newest opset unless ``opset_version=`` says which.

        There is one input for each name of the node, or for each that is not empty.
        """
        error = _unsupported_device(device) or _unsupported_node(node, 0)
        if error is not None:
            raise error
        super().run_node(node, inputs, device, outputs_info, **kwargs)  # onnx's own checker
        names = list(node.input)
        if len(inputs) != len(names):
            names = [name for name in names if name]
        values = _paired(names, inputs, node.op_type)
        step = _step(node, kwargs.get("opset_version", defs.onnx_opset_version()), {})
        output = step([values[name] if name else None for name in node.input])
        result: tuple[Array, ...] = namedtupledict("Outputs", list(node.output))(output)
        return result

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Tell whether a device can be used; only the CPU can."""
        return _unsupported_device(device) is None


def _step(
    node: NodeProto, opset: int, fixed: Mapping[str, Array]
) -> Callable[[Sequence[Any]], Array]:
    """Return what a node does to its inputs; weights that never change are packed now."""
    attributes = {each.name: _value(each) for each in node.attribute}
    op = KINDS[node.op_type](**attributes, opset=opset)  # type: ignore[arg-type]
    weights, bias = node.input[1], node.input[2] if len(node.input) > 2 else ""
    if weights not in fixed or (bias and bias not in fixed):
        return lambda inputs: op(*inputs)
    bound = op.bind(fixed[weights], fixed[bias] if bias else None)
    return lambda inputs: bound(inputs[0])


def _value(attribute: AttributeProto) -> object:
    value = helper.get_attribute_value(attribute)
    return value.decode() if isinstance(value, bytes) else value


def _unsupported(model: ModelProto, device: str) -> tconv.UnsupportedError | None:
    if model.graph.sparse_initializer:
        return _refuse("sparse initializers", model.graph.name)
    nodes = (_unsupported_node(node, index) for index, node in enumerate(model.graph.node))
    return next(filter(None, nodes), None) or _unsupported_device(device)


def _unsupported_node(node: NodeProto, index: int) -> tconv.UnsupportedError | None:
    if node.domain in STANDARD and node.op_type in KINDS:
        return None
    kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    return _refuse(f"node {index} {node.name!r} of type {kind}", ", ".join(node.output))


def _unsupported_device(device: str) -> tconv.UnsupportedError | None:
    try:
        known = Device(device).type == DeviceType.CPU
    except (AttributeError, ValueError):  # onnx knows no such device, or no such number
        known = False
    return None if known else _refuse(f"device {device}", "")


def _refuse(what: str, where: str) -> tconv.UnsupportedError:
    return tconv.UnsupportedError(
        "tconv onnx backend",
        f"{what} cannot be run here.",
        got={"at": where} if where else {},
        rule=f"every node is {' or '.join(KINDS)}, initializers are dense, the device is CPU",
        fix="run the rest of the model elsewhere, and only these nodes here",
    )


def _paired(names: Sequence[str], values: Sequence[object], whose: str) -> dict[str, Any]:
    if len(names) != len(values):
        raise _wrong_inputs(whose, [f"{len(values)} values"], names, "given")
    return dict(zip(names, values, strict=True))


def _wrong_inputs(
    whose: str, got: Iterable[str], names: Sequence[str], wrong: str
) -> tconv.ProblemError:
    return tconv.ProblemError(
        "tconv onnx backend",
        f"the inputs of {whose} do not fit.",
        got={wrong: ", ".join(got)},
        rule=f"its inputs are {', '.join(names)}",
        fix="pass one array for each, by name or in this order",
    )


prepare = TconvBackend.prepare
run_model = TconvBackend.run_model
run_node = TconvBackend.run_node
supports_device = TconvBackend.supports_device
is_compatible = TconvBackend.is_compatible
