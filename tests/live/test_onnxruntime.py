"""The ONNX operators give what ONNX Runtime gives."""

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

onnx = require.module("onnx")
runtime = require.module("onnxruntime")
runtime.set_default_logger_severity(4)  # refusals are expected, and end up in the exception too
REFUSALS = (
    runtime.capi.onnxruntime_pybind11_state.Fail,
    runtime.capi.onnxruntime_pybind11_state.InvalidArgument,
    runtime.capi.onnxruntime_pybind11_state.RuntimeException,
)

Array = npt.NDArray[Any]

OPSETS = st.sampled_from([11, 22])
FLOAT = 1  # TensorProto.FLOAT
PADDING = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def attributes(case: Geometry, auto_pad: str) -> dict[str, Any]:
    """Return what both operators have; pads may not stand beside auto_pad."""
    pads = {"pads": [*case.each("begin"), *case.each("end")]} if auto_pad == "NOTSET" else {}
    return {
        "auto_pad": auto_pad,
        "dilations": list(case.each("dilation")),
        "group": case.groups,
        "kernel_shape": list(case.each("taps")),
        "strides": list(case.each("stride")),
        **pads,
    }


def their_result(kind: str, given_attributes: dict[str, Any], opset: int, *arrays: Array) -> Array:
    """Make a model of one node and let ONNX Runtime compute it."""
    make, names = onnx.helper.make_tensor_value_info, ["X", "W", "B"][: len(arrays)]
    node = onnx.helper.make_node(kind, names, ["Y"], **given_attributes)
    graph = onnx.helper.make_graph(
        [node],
        "one operator",
        [make(name, FLOAT, array.shape) for name, array in zip(names, arrays, strict=True)],
        [make("Y", FLOAT, None)],
    )
    opsets = [onnx.helper.make_opsetid("", opset)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return np.array(session.run(None, dict(zip(names, arrays, strict=True)))[0])


def operands(kind: str, case: Geometry, *, with_bias: bool) -> list[Array]:
    """Return X, W and perhaps B."""
    data, bias = ("fine", "coarse bias") if kind == "Conv" else ("coarse", "fine bias")
    arrays = [case.array(data), case.array("weights")]
    return [*arrays, case.array(bias)] if with_bias else arrays


@settings(THOROUGH)
@given(gathered(), st.sampled_from(PADDING), st.sampled_from([7, 11, 22]), st.booleans())
def test_conv_agrees_with_onnx_runtime(
    case: Geometry,
    auto_pad: str,
    opset: int,
    with_bias: bool,  # noqa: FBT001 - drawn
) -> None:
    """Explicit pads and every mode of auto_pad, with groups and bias."""
    if auto_pad == "VALID":
        assume(all(axis.span <= axis.fine for axis in case.axes))
    # ONNX Runtime refuses SAME with dilations, which the page defines: see the next test.
    assume(not auto_pad.startswith("SAME") or max(case.each("dilation")) == 1)
    arrays = operands("Conv", case, with_bias=with_bias)
    given_attributes = attributes(case, auto_pad)
    ours = tconv.onnx.Conv(**given_attributes, opset=opset)(*arrays)

    check_equal(ours, their_result("Conv", given_attributes, opset, *arrays))


@settings(QUICK)
@given(gathered(), st.sampled_from(["SAME_UPPER", "SAME_LOWER"]))
def test_same_with_dilations_is_the_same_as_its_pads(case: Geometry, auto_pad: str) -> None:
    """ONNX Runtime does not compute Conv so, but it computes the pads that we resolve."""
    assume(max(case.each("dilation")) > 1)
    arrays = operands("Conv", case, with_bias=False)
    given_attributes = attributes(case, auto_pad)
    op = tconv.onnx.Conv(**given_attributes)
    begin, end = op.resolve_pads(*(array.shape for array in arrays))
    explicit = {**given_attributes, "auto_pad": "NOTSET", "pads": [*begin, *end]}
    rounded_up = tuple(-(-axis.fine // axis.stride) for axis in case.axes)

    assert not accepted(their_result, "Conv", given_attributes, 22, *arrays)
    check_equal(op(*arrays), their_result("Conv", explicit, 22, *arrays))
    if all(axis.span >= axis.stride for axis in case.axes):
        assert op(*arrays).shape[2:] == rounded_up


@settings(THOROUGH)
@given(scattered(extra="below stride"), st.sampled_from(PADDING), OPSETS, st.booleans())
def test_conv_transpose_agrees_with_onnx_runtime(
    case: Geometry,
    auto_pad: str,
    opset: int,
    with_bias: bool,  # noqa: FBT001 - drawn
) -> None:
    """With output_padding, which SAME keeps in the sum of the pads and not in the size."""
    arrays = operands("ConvTranspose", case, with_bias=with_bias)
    extra = {"output_padding": list(case.each("extra"))}
    given_attributes = {**attributes(case, auto_pad), **extra}
    ours = tconv.onnx.ConvTranspose(**given_attributes, opset=opset)(*arrays)

    check_equal(ours, their_result("ConvTranspose", given_attributes, opset, *arrays))


def unpadded(case: Geometry) -> tuple[int, ...]:
    """Return how far the windows reach without pads and without output_padding."""
    return tuple(axis.stride * (axis.coarse - 1) + axis.span for axis in case.axes)


def with_output_shape(case: Geometry, auto_pad: str, below: list[int]) -> dict[str, Any]:
    """Return the attributes with any output_shape that ONNX Runtime takes."""
    reach = zip(unpadded(case), case.axes, strict=True)
    largest = [size + axis.stride - 1 for size, axis in reach]
    return {
        **attributes(case, auto_pad),
        "output_padding": list(case.each("extra")),
        "output_shape": [size - less % size for size, less in zip(largest, below, strict=False)],
    }


@settings(THOROUGH)
@given(
    scattered(extra="below stride"),
    st.sampled_from(PADDING),
    OPSETS,
    st.lists(st.integers(0, 40), min_size=3, max_size=3),
)
def test_output_shape_agrees_with_onnx_runtime(
    case: Geometry, auto_pad: str, opset: int, below: list[int]
) -> None:
    """In every mode; pads are ignored then."""
    given_attributes = with_output_shape(case, auto_pad, below)
    arrays = operands("ConvTranspose", case, with_bias=False)
    ours = tconv.onnx.ConvTranspose(**given_attributes, opset=opset)(*arrays)

    check_equal(ours, their_result("ConvTranspose", given_attributes, opset, *arrays))


@settings(THOROUGH)
@given(scattered(extra="below stride"), st.sampled_from(PADDING))
def test_opset_1_splits_an_odd_total_by_its_own_page(case: Geometry, auto_pad: str) -> None:
    """The page of opset 1 prints the test the other way round; ONNX Runtime knows one rule.

    So SAME_UPPER of opset 1 is what the engine computes for SAME_LOWER, and the reverse.
    """
    swapped = {"SAME_UPPER": "SAME_LOWER", "SAME_LOWER": "SAME_UPPER"}
    if auto_pad not in swapped:
        return
    given_attributes = with_output_shape(case, auto_pad, [])
    del given_attributes["output_shape"]
    arrays = operands("ConvTranspose", case, with_bias=False)
    ours = tconv.onnx.ConvTranspose(**given_attributes, opset=1)(*arrays)
    theirs = {**given_attributes, "auto_pad": swapped[auto_pad]}

    check_equal(ours, their_result("ConvTranspose", theirs, 22, *arrays))


def accepted(call: Any, *arguments: Any) -> bool:  # noqa: ANN401 - any call
    """Tell whether a call computes something."""
    try:
        call(*arguments)
    except (*REFUSALS, tconv.ProblemError):
        return False
    return True


@settings(THOROUGH)
@given(scattered(ranks=[1], extra="below stride", groups=[1]), st.integers(-1, 1))
def test_the_largest_output_shape(case: Geometry, step: int) -> None:
    """ONNX Runtime stops stride - 1 above the windows' reach, output_padding or not.

    The page has no limit.  Ours counts output_padding into the reach, so it is never the lower.
    """
    (axis,), (reach,) = case.axes, unpadded(case)
    limits = {"theirs": reach + axis.stride - 1, "ours": reach + axis.extra + axis.stride - 1}
    arrays = operands("ConvTranspose", case, with_bias=False)
    for limit in limits.values():
        given_attributes: dict[str, Any] = {
            "strides": [axis.stride],
            "dilations": [axis.dilation],
            "output_padding": [axis.extra],
            "output_shape": [max(limit + step, 1)],
        }
        op = tconv.onnx.ConvTranspose(**given_attributes)

        assert accepted(their_result, "ConvTranspose", given_attributes, 22, *arrays) == (
            limit + step <= limits["theirs"]
        )
        assert accepted(op, *arrays) == (limit + step <= limits["ours"])


@settings(THOROUGH)
@given(scattered(ranks=[1, 2], extra="any"))
def test_output_padding_that_onnx_runtime_refuses(case: Geometry) -> None:
    """The page wants it below "stride/dilation", which we read as the larger of the two.

    ONNX Runtime says the same, but then finds the size inconsistent unless it is below the stride.
    """
    given_attributes = {
        **attributes(case, "NOTSET"),
        "output_padding": list(case.each("extra")),
    }
    arrays = operands("ConvTranspose", case, with_bias=False)
    op = tconv.onnx.ConvTranspose(**given_attributes)

    assert accepted(their_result, "ConvTranspose", given_attributes, 22, *arrays) == all(
        axis.extra < axis.stride for axis in case.axes
    )
    assert accepted(op, *arrays) == all(
        axis.extra < max(axis.stride, axis.dilation) for axis in case.axes
    )


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_what_onnx_runtime_refuses_is_refused(kind: str) -> None:
    """Windows that do not fit and results without elements."""

    @settings(THOROUGH)
    @given(
        (gathered if kind == "Conv" else scattered)(ranks=[1, 2], groups=[1]),
        st.integers(1, 4),
        st.integers(0, 4),
    )
    def agree(case: Geometry, size: int, pad: int) -> None:
        arrays = operands(kind, case, with_bias=False)
        arrays[0] = np.resize(arrays[0], (*arrays[0].shape[:2], *[size] * case.rank))
        given_attributes = {**attributes(case, "NOTSET"), "pads": [pad] * (2 * case.rank)}
        op = getattr(tconv.onnx, kind)(**given_attributes)
        if accepted(their_result, kind, given_attributes, 22, *arrays):
            check_equal(op(*arrays), their_result(kind, given_attributes, 22, *arrays))
        else:
            with pytest.raises(tconv.ProblemError):
                op(*arrays)

    agree()
