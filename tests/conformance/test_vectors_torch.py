"""PyTorch's answers for the whole family, through every module and function of ``tconv``.

Every case is one filter and its gradients; here each operator meets it in all the layouts
that its document, or another one, gives it.  Paragraphs (§) are those of SEMANTICS.md beside
the vectors.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

import tconv
import vectors
from tconv.calls import Runnable
from vectors import FORMATS, Array, Case, relaid

CASES = vectors.cases("torch")

FAMILY = [case for case in CASES if case.kind == "execute"]
TRANSPOSED = [case for case in CASES if case.op == "ConvTranspose+grads"]
SPELLED_OUT = [case for case in TRANSPOSED if case["w_layouts"]]
FORWARD = [case for case in CASES if case.op == "Convolution+grads"]
ROUNDED = [case for case in CASES if case.kind == "probe"]

PRINTED = "DOC_LITERAL_IOX(in/g,out)"
PRINTED_AS = {"IOX as printed": "IOX", "XOI as printed": "XOI"}
"""The v3 pages' shapes of grouped weights, which no engine has (§8 A1), and their formats."""


def operands(case: Case) -> dict[str, Array]:
    """Return the arrays of a case by name: data in NCX, weights with the blocked axis first."""
    shapes, expected = case["shapes"], case["expected"]
    weights = "OIX" if case in FORWARD else "IOX"
    bias = vectors.tensor(case["bias"], shapes["bias"])
    biased = vectors.tensor(expected["y_with_bias"], shapes["y_NCX"])
    return {
        "x": vectors.tensor(case["x"], shapes["x_NCX"]),
        "w": vectors.tensor(case["w"], shapes[f"w_{weights}"]),
        "bias": bias,
        "dy": vectors.tensor(case["diff_dst"], shapes["y_NCX"]),
        "biased": biased,
        "y": biased - bias.reshape(-1, *(1,) * (biased.ndim - 2)),
        "dx": vectors.tensor(expected["diff_src"], shapes["x_NCX"]),
        "dw": vectors.tensor(expected[f"diff_weights_{weights}"], shapes[f"w_{weights}"]),
    }


def spelled(weights: Array, layout: str, groups: int) -> Array:
    """Return IOX weights of a ConvTranspose in any of the layouts of the file."""
    if layout in FORMATS:
        return relaid(weights, "IOX", layout)
    blocked = weights.reshape(groups, -1, *weights.shape[1:])
    if layout == "OPENVINO_GIOX":
        return blocked
    printed = np.moveaxis(blocked, 0, 1)
    return printed.reshape(len(printed), -1, *weights.shape[2:])


def in_format(data: Array, data_format: str) -> Array:
    """Return NCX data in a data format."""
    return data if data_format == "NCX" else np.moveaxis(data, 1, -1)


def check(
    op: Runnable, inputs: tuple[Array, Array], expected: Array, third: Array | None = None
) -> None:
    """Refuse a wrong answer of any way to call, in any type; a third input is a bias."""
    for dtype in vectors.DTYPES.values():
        first, second = (each.astype(dtype) for each in inputs)
        bias = None if third is None else third.astype(dtype)
        for answer in vectors.every_way(op, first, second, bias):
            vectors.check_answer(answer, expected, *inputs, third)


def check_function(
    function: Callable[..., Array], inputs: Mapping[str, Array], expected: Array, **shape: object
) -> None:
    """Refuse a wrong answer of a function, with and without ``out``, in any type."""
    factors = [inputs[name] for name in inputs if name != "bias"]
    for dtype in vectors.DTYPES.values():
        arguments: dict[str, Any] = {k: v.astype(dtype) for k, v in inputs.items()}
        out = np.full(expected.shape, np.nan, dtype)
        answers = function(**arguments, **shape), function(**arguments, **shape, out=out), out
        for answer in answers:
            vectors.check_answer(answer, expected, *factors, inputs.get("bias"))


@pytest.mark.parametrize("case", SPELLED_OUT, ids=str)
def test_the_layouts_of_the_file_spell_one_filter(case: Case) -> None:
    """What the tests below make of IOX weights is what the file spells out (§3)."""
    weights, groups = operands(case)["w"], case.attrs["groups"]
    expected = {layout: np.ravel(values).tolist() for layout, values in case["w_layouts"].items()}

    assert set(expected) == {*FORMATS, "OPENVINO_GIOX", PRINTED}
    assert {
        layout: spelled(weights, layout, groups).ravel().tolist() for layout in expected
    } == expected


def spell(case: Case, layout: str, data_format: str) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays of a ConvTranspose in a layout, and the attributes that say so."""
    arrays, groups = operands(case), case.attrs["groups"]
    for name in ("x", "dy", "biased", "dx"):
        arrays[name] = in_format(arrays[name], data_format)
    for name in ("w", "dw"):
        printed = spelled(arrays[name], PRINTED if layout in PRINTED_AS else layout, groups)
        arrays[name] = relaid(printed, "IOX", "XOI") if layout == "XOI as printed" else printed
    attributes = {**case.attrs, "data_format": data_format}
    return arrays, {**attributes, "weights_format": PRINTED_AS.get(layout, layout)}


every_layout = pytest.mark.parametrize("layout", [*FORMATS, *PRINTED_AS])
every_data_format = pytest.mark.parametrize("data_format", ["NCX", "NXC"])


@every_data_format
@every_layout
@pytest.mark.parametrize("case", TRANSPOSED, ids=str)
def test_onednn_conv_transpose(case: Case, layout: str, data_format: str) -> None:
    """Any format, the printed grouped shape too, gives dst."""
    arrays, attributes = spell(case, layout, data_format)
    op = tconv.onednn.ConvTranspose(**attributes)

    check(op, (arrays["x"], arrays["w"]), arrays["biased"], arrays["bias"])


@every_data_format
@every_layout
@pytest.mark.parametrize("case", TRANSPOSED, ids=str)
def test_onednn_conv_transpose_backward_data(case: Case, layout: str, data_format: str) -> None:
    """Any format gives diff_src by both names; the preview's pages print the right shapes."""
    arrays, attributes = spell(case, layout, data_format)
    op = tconv.onednn.ConvTransposeBackwardData(**attributes)

    check(op, (arrays["dy"], arrays["w"]), arrays["dx"])
    if layout in FORMATS:
        attributes["filter_format"] = attributes.pop("weights_format")
        preview = tconv.onednn.ConvTransposeBackpropData(**attributes)
        check(preview, (arrays["dy"], arrays["w"]), arrays["dx"])


@every_data_format
@every_layout
@pytest.mark.parametrize("case", TRANSPOSED, ids=str)
def test_onednn_conv_transpose_backward_weights(case: Case, layout: str, data_format: str) -> None:
    """The weights_shape asked for, the printed one too, is the layout of diff_weights."""
    arrays, attributes = spell(case, layout, data_format)
    op = tconv.onednn.ConvTransposeBackwardWeights(**attributes, weights_shape=arrays["w"].shape)

    check(op, (arrays["x"], arrays["dy"]), arrays["dw"])


@pytest.mark.parametrize("case", TRANSPOSED, ids=str)
def test_openvino_takes_the_same_weights_with_the_groups_apart(case: Case) -> None:
    """[G, CIN, COUT, ...] is a reshape of IOX (§3)."""
    arrays, groups = operands(case), case.attrs["groups"]
    attributes = {k: v for k, v in case.attrs.items() if k != "groups"}
    grouped = tconv.openvino.GroupConvolutionBackpropData(**attributes)
    weights = spelled(arrays["w"], "OPENVINO_GIOX", groups)

    check(grouped, (arrays["x"], weights), arrays["y"])
    if groups == 1:
        plain = tconv.openvino.ConvolutionBackpropData(**attributes)
        check(plain, (arrays["x"], arrays["w"]), arrays["y"])


@pytest.mark.parametrize("case", FAMILY, ids=str)
def test_onnx_has_pytorchs_weights(case: Case) -> None:
    """ConvTranspose and Conv of ONNX give PyTorch's answers, bias included."""
    arrays, attrs = operands(case), case.attrs
    attributes = {
        "strides": attrs["strides"],
        "dilations": attrs["dilations"],
        "group": attrs["groups"],
        "pads": [*attrs["pads_begin"], *attrs["pads_end"]],
    }
    op: Runnable
    if case in FORWARD:
        op = tconv.onnx.Conv(**attributes)
    else:
        op = tconv.onnx.ConvTranspose(**attributes, output_padding=attrs["output_padding"])

    check(op, (arrays["x"], arrays["w"]), arrays["biased"], arrays["bias"])


@pytest.mark.parametrize("layout", ["NCX", "NXC"])
@pytest.mark.parametrize("case", FAMILY, ids=str)
def test_the_functions_and_their_gradients_are_pytorchs(case: Case, layout: str) -> None:
    """Conv, conv_transpose and their four gradients, in either layout of the data."""
    arrays, attrs = operands(case), case.attrs
    x, dy, biased, dx = (in_format(arrays[name], layout) for name in ("x", "dy", "biased", "dx"))
    w, dw = arrays["w"], arrays["dw"]
    arguments: dict[str, Any] = {
        "stride": attrs["strides"],
        "padding": attrs["pads_begin"],
        "dilation": attrs["dilations"],
        "groups": attrs["groups"],
        "layout": layout,
    }
    if case not in FORWARD:
        arguments["output_padding"] = attrs["output_padding"]
    name = "conv" if case in FORWARD else "conv_transpose"
    forward, grad_input, grad_weight = (
        partial(getattr(tconv, name + end), **arguments)
        for end in ("", "_grad_input", "_grad_weight")
    )

    check_function(forward, {"input": x, "weight": w, "bias": arrays["bias"]}, biased)
    check_function(grad_input, {"weight": w, "grad_output": dy}, dx, input_shape=x.shape)
    check_function(grad_weight, {"input": x, "grad_output": dy}, dw, weight_shape=w.shape)


@every_data_format
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("case", FORWARD, ids=str)
def test_onednn_convolution_and_its_gradients(case: Case, form: str, data_format: str) -> None:
    """Output channels are blocked by groups; output_shape is whole, or spatial alone (§8 A7)."""
    arrays = operands(case)
    x, dy, biased, dx = (
        in_format(arrays[name], data_format) for name in ("x", "dy", "biased", "dx")
    )
    w, dw = (relaid(arrays[each], "OIX", form) for each in ("w", "dw"))
    attributes = {**case.attrs, "data_format": data_format}
    named = {**attributes, "weights_format": form}
    spatial = arrays["x"].shape[2:]

    check(tconv.onednn.Convolution(**named), (x, w), biased, arrays["bias"])
    check(tconv.onednn.ConvolutionBackwardWeights(**named, weights_shape=w.shape), (x, dy), dw)
    for shape in (dx.shape, spatial):
        check(tconv.onednn.ConvolutionBackwardData(**named, dst_shape=shape), (dy, w), dx)
        preview = tconv.onednn.ConvolutionBackpropData(
            **attributes, filter_format=form, output_shape=shape
        )
        check(preview, (dy, w), dx)


@pytest.mark.parametrize("case", FORWARD, ids=str)
def test_openvino_convolution_and_its_gradient(case: Case) -> None:
    """[G, COUT, CIN, ...] is a reshape of OIX, and the same array goes backwards (§3)."""
    arrays, groups = operands(case), case.attrs["groups"]
    attributes = {k: v for k, v in case.attrs.items() if k != "groups"}
    weights = arrays["w"].reshape(groups, -1, *arrays["w"].shape[1:])
    backward = tconv.openvino.GroupConvolutionBackpropData(**attributes, reading="engine")
    spatial = arrays["x"].shape[2:]

    check(tconv.openvino.GroupConvolution(**attributes), (arrays["x"], weights), arrays["y"])
    vectors.check_answer(
        backward(arrays["dy"], weights, spatial), arrays["dx"], arrays["dy"], weights
    )
    if groups == 1:
        plain = tconv.openvino.Convolution(**attributes)
        back = tconv.openvino.ConvolutionBackpropData(**attributes, reading="engine")
        check(plain, (arrays["x"], arrays["w"]), arrays["y"])
        vectors.check_answer(
            back(arrays["dy"], arrays["w"], spatial), arrays["dx"], arrays["dy"], arrays["w"]
        )


@pytest.mark.parametrize("case", ROUNDED, ids=str)
def test_small_types_are_added_up_in_float32_and_rounded_once(case: Case) -> None:
    """One large value and 511 ones: rounding each sum would lose every one of them (§6)."""
    dtype = vectors.DTYPES[{"torch.bfloat16": "bf16", "torch.float16": "f16"}[case["dtype"]]]
    largest = case["exact"] - 511
    data = np.array([largest] + [1] * 511, np.float64)
    attributes: dict[str, Any] = {
        "strides": [1],
        "dilations": [1],
        "pads_begin": [0],
        "pads_end": [0],
        "data_format": "NCX",
        "weights_format": "IOX",
    }
    forward = tconv.onednn.ConvTranspose(**attributes)
    gradient = tconv.onednn.ConvTransposeBackwardData(**attributes)
    for values in (data, data[::-1]):
        x = values.astype(dtype).reshape(1, -1, 1)
        ones = np.ones((512, 1, 1), dtype)
        y, dx = forward(x, ones), gradient(x, ones.reshape(1, 512, 1))

        assert np.array([largest], dtype) + np.ones(1, dtype) == largest
        assert float(y.item()) == case["convT"] == case["round_once"]
        assert float(dx.item()) == case["convT_bwd_data"] == case["round_once"]


def test_every_case_is_replayed_or_skipped_with_a_reason() -> None:
    """No case of the files is lost between the lists above; none is skipped."""
    replayed = [str(case) for each in (TRANSPOSED, FORWARD, ROUNDED) for case in each]

    assert replayed == list(map(str, CASES))
