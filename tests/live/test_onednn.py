"""The oneDNN operators give what oneDNN Graph gives, wherever it takes the case."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

import tconv
from engines import onednn_graph, require
from live.compare import Tally, check_equal
from live.geometry import MODES, THOROUGH, Axis, Geometry, gathered, scattered

require.usable(onednn_graph.unavailable())

Array = npt.NDArray[Any]

# Our operator -> the engine's name of it, what it reads and what it returns.
OPERATORS = {
    "Convolution": ("Convolution", "fine", "weights", "coarse"),
    "ConvolutionBackpropData": ("ConvolutionBackwardData", "coarse", "weights", "fine"),
    "ConvolutionBackwardData": ("ConvolutionBackwardData", "coarse", "weights", "fine"),
    "ConvolutionBackwardWeights": ("ConvolutionBackwardWeights", "fine", "coarse", "weights"),
    "ConvTranspose": ("ConvTranspose", "coarse", "weights", "fine"),
    "ConvTransposeBackpropData": ("ConvTransposeBackwardData", "fine", "weights", "coarse"),
    "ConvTransposeBackwardData": ("ConvTransposeBackwardData", "fine", "weights", "coarse"),
    "ConvTransposeBackwardWeights": ("ConvTransposeBackwardWeights", "coarse", "fine", "weights"),
}
# What the engine gets wrong is left out: groups of ConvolutionBackwardData, which it refuses;
# dilations of ConvTransposeBackwardData, which it drops (B1 in SEMANTICS.md); and SAME of
# ConvTransposeBackwardWeights, which it takes from the wrong side (B6).
CASES = {
    "Convolution": gathered(auto_pads=MODES),
    "ConvolutionBackpropData": gathered(auto_pads=MODES, groups=[1]),
    "ConvolutionBackwardData": gathered(auto_pads=MODES, groups=[1]),
    "ConvolutionBackwardWeights": gathered(auto_pads=MODES),
    "ConvTranspose": scattered(auto_pads=MODES, extra="below stride"),
    "ConvTransposeBackpropData": gathered(auto_pads=MODES, dilated=False),
    "ConvTransposeBackwardData": gathered(auto_pads=MODES, dilated=False),
    "ConvTransposeBackwardWeights": gathered(auto_pads=["none", "valid"]),
}
FORMATS = st.sampled_from(["XIO", "OIX", "XOI", "IOX"])
LAYOUTS = st.sampled_from(["NCX", "NXC"])
WAYS = ("attribute", "tensor")


def order(name: str, spelled: str, rank: int) -> list[int]:
    """Return how the axes (coarse channels, fine channels, window) stand in a filter format."""
    first, second = "IO" if "Transpose" in name else "OI"
    places = {first: [0], second: [1], "X": list(range(2, 2 + rank))}
    return [axis for letter in spelled for axis in places[letter]]


def as_printed(weights: Array, groups: int) -> Array:
    """Give the groups to the other axis, as the v3 pages print the shape for ConvTranspose."""
    coarse, fine, *window = weights.shape
    split = weights.reshape(groups, coarse // groups, fine, *window)
    return np.moveaxis(split, 0, 1).reshape(coarse // groups, groups * fine, *window)


def in_memory(name: str, role: str, array: Array, data_format: str, weights_format: str) -> Array:
    """Order the axes of an operand as its format says."""
    if role == "weights":
        return array.transpose(order(name, weights_format, array.ndim - 2))
    return np.moveaxis(array, 1, -1) if data_format == "NXC" and array.ndim > 1 else array


def attributes(case: Geometry, data_format: str) -> dict[str, Any]:
    """Return what both sides take by the same names; auto_pad must override wrong pads."""
    explicit = case.auto_pad == "none"
    return {
        "strides": case.each("stride"),
        "pads_begin": case.each("begin") if explicit else (2,) * case.rank,
        "pads_end": case.each("end") if explicit else (1,) * case.rank,
        "dilations": case.each("dilation"),
        "auto_pad": case.auto_pad,
        "groups": case.groups,
        "data_format": data_format,
    }


def our_result(
    name: str, case: Geometry, arrays: dict[str, Array], formats: tuple[str, str], way: str
) -> Array:
    """Call our operator in its formats; sizes are stated by attribute, or as a third input."""
    data_format, weights_format = formats
    _, *read, wanted = OPERATORS[name]
    given_attributes = attributes(case, data_format)
    given_attributes["filter_format" if "Backprop" in name else "weights_format"] = weights_format
    if name.startswith("ConvolutionBack") and wanted == "fine":
        given_attributes["reading"] = "engine"
    if "Transpose" in name and any(case.each("extra")):
        given_attributes["output_padding"] = case.each("extra")
    inputs = [in_memory(name, role, arrays[role], *formats) for role in read]
    shape = in_memory(name, wanted, arrays[wanted], *formats).shape
    stated = {
        "ConvolutionBackpropData": "output_shape",
        "ConvolutionBackwardData": "dst_shape",
        "ConvolutionBackwardWeights": "weights_shape",
        "ConvTransposeBackwardWeights": "weights_shape",
    }.get(name)
    if stated and way == "attribute":
        given_attributes[stated] = shape
    elif stated:
        inputs.append(np.array(shape, np.int32))
    if "bias" in arrays:
        inputs.append(arrays["bias"])
    result: Array = getattr(tconv.onednn, name)(**given_attributes)(*inputs)
    return result


def their_result(
    name: str, case: Geometry, arrays: dict[str, Array], formats: tuple[str, str]
) -> Array:
    """Ask the engine in its formats."""
    kind, *read, wanted = OPERATORS[name]
    inputs = [in_memory(name, role, arrays[role], *formats) for role in read]
    shape = in_memory(name, wanted, arrays[wanted], *formats).shape
    given_attributes = {**attributes(case, formats[0]), "weights_format": formats[1]}
    if kind == "ConvolutionBackwardData":
        given_attributes["dst_shape"] = shape
    if wanted == "weights":
        given_attributes["weights_shape"] = shape
    if kind == "ConvTranspose":
        given_attributes["output_padding"] = case.each("extra")
    if "bias" in arrays:
        inputs.append(arrays["bias"])
    return onednn_graph.run(kind, given_attributes, inputs, shape)


def canonical(name: str, result: Array, formats: tuple[str, str]) -> Array:
    """Undo the formats of a result."""
    if OPERATORS[name][-1] == "weights":
        axes = order(name, formats[1], result.ndim - 2)
        return result.transpose(np.argsort(axes))
    return np.moveaxis(result, -1, 1) if formats[0] == "NXC" else result


def with_same_sizes(case: Geometry) -> Geometry:
    """Give a ConvTranspose under SAME its size: pads take what is beyond the stride."""
    if not case.auto_pad.startswith("same"):
        return case
    axes = (
        axis._replace(fine=axis.fine - axis.span + min(axis.span, axis.stride))
        for axis in case.axes
    )
    return replace(case, axes=tuple(axes))


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_agree_with_the_engine(name: str) -> None:
    """All attributes and formats; most cases must really have been computed."""
    tally = Tally()
    engine_formats = ("IOX", "XOI") if "Transpose" in name else ("OIX", "XIO")
    printed_too = name in (
        "ConvTranspose",
        "ConvTransposeBackwardData",
        "ConvTransposeBackwardWeights",
    )

    @settings(THOROUGH)
    @given(
        CASES[name],
        st.tuples(LAYOUTS, FORMATS),
        st.tuples(LAYOUTS, st.sampled_from(engine_formats)),
        st.sampled_from(WAYS),
        st.booleans(),
    )
    def agree(
        case: Geometry,
        ours_in: tuple[str, str],
        theirs_in: tuple[str, str],
        way: str,
        other: bool,  # noqa: FBT001 - drawn: with a bias, or with the printed shape of the filter
    ) -> None:
        case = with_same_sizes(case) if name == "ConvTranspose" else case
        arrays = {role: case.array(role) for role in ("coarse", "fine", "weights")}
        wanted = OPERATORS[name][-1]
        if other and name in ("Convolution", "ConvTranspose"):
            arrays["bias"] = case.array(f"{wanted} bias")
        printed = other and printed_too
        try:
            theirs = canonical(name, their_result(name, case, arrays, theirs_in), theirs_in)
        except onednn_graph.Refused as refusal:
            tally.note(str(refusal))
            reject()
        tally.note("computed")
        for_us = dict(arrays)
        if printed:
            for_us["weights"] = as_printed(arrays["weights"], case.groups)
            theirs = as_printed(theirs, case.groups) if wanted == "weights" else theirs
        ours = canonical(name, our_result(name, case, for_us, ours_in, way), ours_in)

        check_equal(ours, theirs)

    agree()
    tally.check_share(0.8)


@pytest.mark.parametrize("name", ["ConvolutionBackpropData", "ConvolutionBackwardData"])
def test_pads_may_leave_nothing_but_what_the_stride_leaves(name: str) -> None:
    """Any size up to stride - 1 above the windows' reach is legal, even when pads cut that to 0."""
    axis = Axis(coarse=1, fine=1, taps=1, stride=2, dilation=1, begin=0, end=1, extra=0)
    case = Geometry((axis,), "none", 1, 1, coarse_channels=2, fine_channels=3, seed=0)
    arrays = {role: case.array(role) for role in ("coarse", "fine", "weights")}
    theirs = their_result(name, case, arrays, ("NCX", "OIX"))

    check_equal(our_result(name, case, arrays, ("NCX", "OIX"), "attribute"), theirs)


@pytest.mark.parametrize("name", [name for name in OPERATORS if "Back" in name])
def test_gradients_fit_the_forward_operator_of_the_engine(name: str) -> None:
    """``<forward, its gradient> == <operand, gradient of the operand>``, where nothing is left out.

    This judges what the engine has wrong in its gradients: groups, dilations, SAME and
    output_padding.
    """
    forward = "ConvTranspose" if "Transpose" in name else "Convolution"
    source, target = OPERATORS[forward][1], OPERATORS[forward][3]
    tally = Tally()
    strategy = {
        "Convolution": gathered(auto_pads=MODES),
        "ConvTranspose": scattered(auto_pads=MODES, extra="below stride"),
    }

    @settings(THOROUGH)
    @given(strategy[forward], st.tuples(LAYOUTS, FORMATS), st.sampled_from(WAYS))
    def agree(case: Geometry, formats: tuple[str, str], way: str) -> None:
        case = with_same_sizes(case) if forward == "ConvTranspose" else case
        # A gradient refuses a result that output_padding alone made (SEMANTICS.md, section 5).
        assume(all(axis.fine > axis.extra for axis in case.axes))
        arrays = {role: case.array(role) for role in ("coarse", "fine", "weights")}
        engine_formats = ("NCX", "IOX" if forward == "ConvTranspose" else "OIX")
        try:
            result = their_result(forward, case, arrays, engine_formats)
        except onednn_graph.Refused as refusal:
            tally.note(str(refusal))
            reject()
        tally.note("computed")
        wanted = OPERATORS[name][-1]
        gradient = canonical(name, our_result(name, case, arrays, formats, way), formats)

        assert gradient.shape == arrays[wanted].shape
        assert wanted in (source, "weights")
        assert inner(result, arrays[target]) == inner(arrays[wanted], gradient)

    agree()
    tally.check_share(0.8)


def inner(left: Array, right: Array) -> int:
    """Return the sum of all products of two arrays of whole numbers, exactly."""
    return int((left.astype(np.int64) * right.astype(np.int64)).sum())
