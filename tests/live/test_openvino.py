"""The OpenVINO operators give what OpenVINO's CPU plugin gives."""

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tconv
from engines import require
from live.compare import check_equal
from live.geometry import QUICK, THOROUGH, Geometry, gathered, scattered

openvino = require.module("openvino")
builders = require.module("openvino.opset1")

Array = npt.NDArray[Any]

MODES = ("explicit", "same_upper", "same_lower", "valid")
FORWARD = ("Convolution", "GroupConvolution")
BACKWARD = ("ConvolutionBackpropData", "GroupConvolutionBackpropData")
CORE = openvino.Core()
# Short types must not creep in; and the cases are small, threads would only wait for each other.
CORE.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
# Not the functions of openvino.opset1: group_convolution_backprop_data drops the pads as soon as
# it gets an output_shape.
FACTORY = require.module("openvino.utils.node_factory").NodeFactory("opset1")


def groups(kind: str) -> tuple[int, ...]:
    """Return the numbers of groups that the plugin takes.

    A GroupConvolutionBackpropData of one group ends in "could not create a primitive descriptor"
    as soon as that group has several channels.
    """
    if not kind.startswith("Group"):
        return (1,)
    return (2, 3) if kind in BACKWARD else (1, 2, 3)


def weights(kind: str, case: Geometry) -> Array:
    """Return the filter: with an axis of groups, or without one."""
    array = case.array("weights")
    grouped = (case.groups, case.coarse_channels, *array.shape[1:])
    return array.reshape(grouped) if kind.startswith("Group") else array


def attributes(kind: str, case: Geometry, auto_pad: str) -> dict[str, Any]:
    """Return what both sides take by the same names."""
    more = {"output_padding": list(case.each("extra"))} if kind in BACKWARD else {}
    return {
        "strides": list(case.each("stride")),
        "pads_begin": list(case.each("begin")),
        "pads_end": list(case.each("end")),
        "dilations": list(case.each("dilation")),
        "auto_pad": auto_pad,
        **more,
    }


def operator(kind: str, given_attributes: dict[str, Any]) -> Any:  # noqa: ANN401 - one of four
    """Return tconv's operator; where page and engine differ, the engine's reading."""
    more = {"reading": "engine"} if kind in BACKWARD else {}
    return getattr(tconv.openvino, kind)(**given_attributes, **more)


def their_result(
    kind: str,
    given_attributes: dict[str, Any],
    arrays: list[Array],
    output_shape: tuple[int, ...] | None = None,
) -> Array:
    """Make a model of one operator and let the CPU plugin compute it."""
    parameters = [builders.parameter(array.shape, np.float32) for array in arrays]
    inputs = list(parameters)
    if output_shape is not None:
        inputs.append(builders.constant(np.array(output_shape, np.int64)))
    node = FACTORY.create(kind, inputs, given_attributes)
    return computed(openvino.Model([node], parameters), arrays)


def computed(model: Any, arrays: list[Array]) -> Array:  # noqa: ANN401 - openvino is not typed
    """Compile a model and run it once."""
    return np.array(CORE.compile_model(model, "CPU")(arrays)[0])


def asked(case: Geometry, more: list[int]) -> tuple[int, ...]:
    """Return an output_shape that is somewhat larger or smaller than the windows reach."""
    sizes = zip(case.each("fine"), more[: case.rank], strict=True)
    return tuple(max(size + change, 1) for size, change in sizes)


def plugin_fails_forward(case: Geometry, auto_pad: str) -> bool:
    """Tell cases that the plugin's kernels for one channel in, and often one out, get wrong.

    A result with one point along the last axis is computed with the stride of that axis along
    the other, where the CPU has AVX-512.  Where a window lies in the padding, with a gap between
    it and the data, the kernel reads foreign memory (B9 in SEMANTICS.md).  In three dimensions,
    it spreads the window along the depth by the dilation of the height.
    """
    if case.groups * case.fine_channels > 1:
        return False
    if case.axes[-1].coarse == 1 < len(set(case.each("stride"))):
        return True
    if case.coarse_channels > 1:
        return False
    far = auto_pad == "explicit" and any(
        axis.begin > axis.span or axis.stride * (axis.coarse - 1) - axis.begin > axis.fine
        for axis in case.axes
    )
    depth, height, *_ = (*case.axes, *case.axes)
    mixed = case.rank == 3 and depth.taps > 1 and depth.dilation != height.dilation
    return far or mixed


def plugin_fails_backward(
    case: Geometry, pads_begin: tuple[int, ...], size: tuple[int, ...]
) -> bool:
    """Tell cases that the plugin takes for a matrix product, without looking at pads_begin.

    All windows and strides are 1, and the result is as large as the data, since output_padding
    or output_shape makes up for the pads.
    """
    ones = set(case.each("taps") + case.each("stride")) == {1}
    return ones and any(pads_begin) and size == case.each("coarse")


@pytest.mark.parametrize("kind", FORWARD)
def test_forward_operators_agree_with_the_plugin(kind: str) -> None:
    """Explicit pads, and every mode of auto_pad, which overrides them."""

    @settings(THOROUGH)
    @given(gathered(groups=groups(kind)), st.sampled_from(MODES))
    def agree(case: Geometry, auto_pad: str) -> None:
        assume(not plugin_fails_forward(case, auto_pad))
        if auto_pad == "valid":
            assume(all(axis.span <= axis.fine for axis in case.axes))
        arrays = [case.array("fine"), weights(kind, case)]
        given_attributes = attributes(kind, case, auto_pad)
        ours = operator(kind, given_attributes)(*arrays)

        check_equal(ours, their_result(kind, given_attributes, arrays))

    agree()


@pytest.mark.parametrize("kind", BACKWARD)
def test_backward_operators_agree_with_the_plugin(kind: str) -> None:
    """Without output_shape, auto_pad sets the pads to zero; output_padding may be any number."""

    @settings(THOROUGH)
    @given(scattered(groups=groups(kind), extra="any"), st.sampled_from(MODES))
    def agree(case: Geometry, auto_pad: str) -> None:
        arrays = [case.array("coarse"), weights(kind, case)]
        given_attributes = attributes(kind, case, auto_pad)
        op = operator(kind, given_attributes)
        ours = op(*arrays)
        begin, _ = op.resolve_pads(*(array.shape for array in arrays))
        assume(not plugin_fails_backward(case, begin, ours.shape[2:]))

        check_equal(ours, their_result(kind, given_attributes, arrays))

    agree()


@pytest.mark.parametrize("kind", BACKWARD)
def test_output_shape_decides_the_size(kind: str) -> None:
    """Smaller or larger than what the windows reach, with every mode of auto_pad."""

    @settings(THOROUGH)
    @given(
        scattered(groups=groups(kind), extra="any"),
        st.sampled_from(MODES),
        st.lists(st.integers(-6, 4), min_size=3, max_size=3),
    )
    def agree(case: Geometry, auto_pad: str, more: list[int]) -> None:
        size = asked(case, more)
        arrays = [case.array("coarse"), weights(kind, case)]
        given_attributes = attributes(kind, case, auto_pad)
        op = operator(kind, given_attributes)
        ours = op(*arrays, size)
        begin, _ = op.resolve_pads(*(array.shape for array in arrays), size)
        assume(not plugin_fails_backward(case, begin, size))

        check_equal(ours, their_result(kind, given_attributes, arrays, size))

    agree()


def as_ir(layer: str, shapes: list[tuple[int, ...]], output: tuple[int, ...]) -> str:
    """Put one ``<layer>`` element into a model with its parameters and its result."""
    net = ET.Element("net", name="one operator", version="11")
    layers, edges = ET.SubElement(net, "layers"), ET.SubElement(net, "edges")
    for number, shape in enumerate(shapes):
        constant = number == 2
        kind, precision = ("Const", "I64") if constant else ("Parameter", "FP32")
        values = {"offset": "0", "size": str(8 * shape[0])} if constant else {}
        layers.append(_end(kind, number + 1, "output", precision, shape))
        ET.SubElement(
            layers[-1],
            "data",
            {
                "element_type": "i64" if constant else "f32",
                "shape": ",".join(map(str, shape)),
                **values,
            },
        )
        _edge(edges, (number + 1, 0), (0, number))
    layers.append(ET.fromstring(layer))  # noqa: S314 - our own text
    for port in layers[-1].iterfind("output/port"):
        port.set("precision", "FP32")  # to_xml knows shapes alone, the engine asks for types too
    layers.append(_end("Result", 9, "input", "FP32", output))
    _edge(edges, (0, len(shapes)), (9, 0))
    return ET.tostring(net, encoding="unicode")


def _end(kind: str, number: int, side: str, precision: str, shape: tuple[int, ...]) -> ET.Element:
    layer = ET.Element("layer", id=str(number), name=f"{kind}{number}", type=kind, version="opset1")
    port = ET.SubElement(ET.SubElement(layer, side), "port", id="0", precision=precision)
    for size in shape:
        ET.SubElement(port, "dim").text = str(size)
    return layer


def _edge(edges: ET.Element, start: tuple[int, int], end: tuple[int, int]) -> None:
    names = ("from-layer", "from-port", "to-layer", "to-port")
    values = map(str, (*start, *end))
    ET.SubElement(edges, "edge", dict(zip(names, values, strict=True)))


@pytest.mark.parametrize("kind", [*FORWARD, *BACKWARD])
def test_openvino_reads_the_layers_that_to_xml_writes(kind: str) -> None:
    """The engine computes the same from our element, and from_xml reads it back."""
    cases = (gathered if kind in FORWARD else scattered)(groups=groups(kind))

    @settings(QUICK)
    @given(cases, st.none() | st.lists(st.integers(-6, 4), min_size=3, max_size=3))
    def agree(case: Geometry, more: list[int] | None) -> None:
        data = "fine" if kind in FORWARD else "coarse"
        arrays = [case.array(data), weights(kind, case)]
        size = asked(case, more) if kind in BACKWARD and more is not None else None
        if kind in FORWARD:
            assume(not plugin_fails_forward(case, "explicit"))
        else:
            sizes = size or case.each("fine")
            assume(not plugin_fails_backward(case, case.each("begin"), sizes))
        op = operator(kind, attributes(kind, case, "explicit"))
        ours = op(*arrays) if size is None else op(*arrays, size)
        shapes = [array.shape for array in arrays]
        text = op.to_xml(*shapes) if size is None else op.to_xml(*shapes, size)
        ports = shapes if size is None else [*shapes, (len(size),)]
        values = np.array(size or (), np.int64).tobytes()
        model = CORE.read_model(as_ir(text, ports, ours.shape).encode(), values)
        again = tconv.openvino.from_xml(text)

        check_equal(ours, computed(model, arrays))
        assert again.operator.infer_shape(*again.shapes) == ours.shape

    agree()
