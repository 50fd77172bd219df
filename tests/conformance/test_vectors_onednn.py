"""oneDNN Graph's own test vectors and benchdnn's problems through ``tconv.onednn``.

Paragraphs (§) are those of SEMANTICS.md beside the vectors.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

import tconv
import vectors
from tconv.calls import Runnable
from vectors import FORMATS, Case, relaid

CASES = vectors.cases("onednn")

# The same operators by the names of the preview, and its words for their attributes.
NAMES = {
    "ConvTransposeBackwardData": ("ConvTransposeBackwardData", "ConvTransposeBackpropData"),
    "ConvolutionBackwardData": ("ConvolutionBackwardData", "ConvolutionBackpropData"),
}
PREVIEW_WORDS = {
    "weights_format": "filter_format",
    "dst_shape": "output_shape",
    "weights_shape": "filter_shape",
}
# What each operator reads, and returns, in the words of a Convolution or ConvTranspose.
ROLES = {
    "Convolution": ("src", "weights", "dst"),
    "ConvTranspose": ("src", "weights", "dst"),
    "ConvolutionBackwardData": ("diff_dst", "weights", "diff_src"),
    "ConvTransposeBackwardData": ("diff_dst", "weights", "diff_src"),
    "ConvTransposeBackwardWeights": ("src", "diff_dst", "diff_weights"),
}

EXECUTED = [case for case in CASES if case.kind == "execute"]
SHAPES_ONLY = [case for case in CASES if case.kind == "shapes_only"]
INFERENCES = [case for case in CASES if case.kind in ("shape_infer", "graph_op")]
REFUSED = [case for case in INFERENCES if "error" in case["expected"]]
# Their weights_shape (4, 4, 1, 1) is one of XIO weights, but they say OIX.
MISLAID = [
    case
    for case in INFERENCES
    if case.id.startswith("InferConvTransposeBackwardWeights")
    and case.attrs["weights_shape"] == [4, 4, 1, 1]
]
INFERRED = [case for case in INFERENCES if case not in (*REFUSED, *MISLAID)]
PADS_CHECKED = [case for case in CASES if case.kind == "attr_check"]
SCHEMAS = [case for case in CASES if case.kind == "schema"]
PROBLEMS = [case for case in CASES if case.kind == "problem"]
SMALL = [case for case in PROBLEMS if case["macs"] < 200_000]

# Odd totals: the printed formula gives the other side the larger half (§8 A3).
DOCUMENT_PADS = {
    "InferConvolutionBackwardDataAutoPadShape/SAME_UPPER": ((2, 2), (1, 1)),
    "InferConvolutionBackwardDataAutoPadShape/SAME_LOWER": ((1, 1), (2, 2)),
}


def in_v3_words(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case's attributes in the words of v3, without the test's own ones."""
    words = {preview: word for word, preview in PREVIEW_WORDS.items()}
    return {words.get(k, k): value for k, value in attributes.items() if k != "with_bias"}


def operator(name: str, attributes: Mapping[str, Any]) -> Runnable:
    """Return an operator by one of its names, with attributes in the words of that name."""
    kind: type[Runnable] = getattr(tconv.onednn, name)
    words = PREVIEW_WORDS if "Backprop" in name else {}
    return kind(**{words.get(k, k): value for k, value in in_v3_words(attributes).items()})


def operators(case: Case, **more: object) -> list[Runnable]:
    """Return the operator of a case by each of its names, as its engine reads the document."""
    if case.op == "ConvolutionBackwardData":
        more.setdefault("reading", "engine")
    return [
        operator(name, {**in_v3_words(case.attrs), **more})
        for name in NAMES.get(case.op, (case.op,))
    ]


@pytest.mark.parametrize("dtype", vectors.DTYPES)
@pytest.mark.parametrize("wanted", FORMATS)
@pytest.mark.parametrize("case", EXECUTED, ids=str)
def test_operators_compute_the_literals_in_every_filter_format(
    case: Case, wanted: str, dtype: str
) -> None:
    """All four formats mean what their letters say, whatever page lists them (§8 A2)."""
    *names, result = ROLES[case.op]
    said = case.attrs["filter_format"]
    tensors = [case.tensor("inputs", name) for name in names]
    expected = case.tensor("expected", result)
    if "weights" in names:
        tensors[1] = relaid(tensors[1], said, wanted)
    else:
        expected = relaid(expected, said, wanted)
    first, second = (each.astype(vectors.DTYPES[dtype]) for each in tensors)
    bias = case.tensor("inputs", "bias") if "bias" in case["inputs"] else None
    third = None if bias is None else bias.astype(vectors.DTYPES[dtype])
    attributes: dict[str, Any] = {"weights_format": wanted}
    if result == "diff_weights":
        attributes["weights_shape"] = expected.shape

    for op in operators(case, **attributes):
        for answer in vectors.every_way(op, first, second, third):
            vectors.check_answer(answer, expected, *tensors, bias)


@pytest.mark.parametrize(
    "case",
    [case for case in EXECUTED if {"filter_shape", "output_shape"} & set(case.attrs)],
    ids=str,
)
def test_a_shape_given_as_third_input_wins_over_the_attribute(case: Case) -> None:
    """The page says: "If specified, output_shape attribute will be ignored" (§7.2)."""
    *names, result = ROLES[case.op]
    first, second = (case.tensor("inputs", name) for name in names)
    expected = case.tensor("expected", result)
    shape = np.array(expected.shape, np.int32)
    name = "weights_shape" if result == "diff_weights" else "dst_shape"

    for op in operators(case, **{name: [7] * expected.ndim}):
        for answer in vectors.every_way(op, first, second, shape):
            vectors.check_answer(answer, expected, first, second)


@pytest.mark.parametrize("case", SHAPES_ONLY, ids=str)
def test_shapes_agree_with_those_of_tests_on_random_data(case: Case) -> None:
    """Grouped weights are (in_channels, out_channels / groups, ...) in IOX (§3)."""
    src, weights, dst = (case["shapes"][name] for name in ("src", "weights", "dst"))
    more: dict[str, object] = {}
    if case.op == "ConvTranspose":
        bias = [dst[1 if case.attrs["data_format"] == "NCX" else -1]]
        given = [src, weights, *([bias] if case.attrs["with_bias"] else [])]
        expected = dst
    elif case.op == "ConvTransposeBackwardData":
        given, expected = [dst, weights], src
    else:
        more["weights_shape"] = expected = weights
        given = [src, dst]

    for op in operators(case, **more):
        assert op.infer_shape(*given) == tuple(expected)


@pytest.mark.parametrize("case", INFERRED, ids=str)
def test_shapes_and_pads_are_inferred_as_by_the_engine(case: Case) -> None:
    """SAME_UPPER puts the odd point at the end, for every operator (§4.1, §4.5)."""
    shapes, expected = case["input_shapes"], case["expected"]

    for op in operators(case):
        assert op.infer_shape(*shapes) == tuple(expected["output_shape"])
        if "pads_begin" in expected:
            pads = tuple(expected["pads_begin"]), tuple(expected["pads_end"])
            assert op.resolve_pads(*shapes) == pads


@pytest.mark.parametrize(
    "case", [case for case in INFERRED if case.op == "ConvolutionBackwardData"], ids=str
)
def test_without_a_reading_the_engine_answers_and_a_warning_names_the_difference(
    case: Case, recwarn: pytest.WarningsRecorder
) -> None:
    """A warning comes exactly where the printed formula gives other pads (§8 A3)."""
    shapes = case["input_shapes"]
    (op, *_) = operators(case, reading=None)
    (engine, *_) = operators(case)
    (document, *_) = operators(case, reading="document")
    used = engine.resolve_pads(*shapes)

    assert op.resolve_pads(*shapes) == used
    assert document.resolve_pads(*shapes) == DOCUMENT_PADS.get(case.id, used)
    assert [each.category for each in recwarn.list] == (
        [tconv.AmbiguousSpecWarning] if case.id in DOCUMENT_PADS else []
    )


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_calls_that_the_engine_refuses_are_refused(case: Case) -> None:
    """Lengths, channels, groups and formats are checked as there."""
    shapes = case["input_shapes"]
    for name in NAMES.get(case.op, (case.op,)):
        with pytest.raises(tconv.ProblemError):
            operator(name, case.attrs).infer_shape(*shapes)


@pytest.mark.parametrize("case", MISLAID, ids=str)
def test_a_weights_shape_that_fits_no_operand_is_refused(case: Case) -> None:
    """The engine returns it verbatim (§2); in the format it is meant in it is right."""
    shapes, expected = case["input_shapes"], tuple(case["expected"]["output_shape"])
    (op,) = operators(case)
    (meant,) = operators(case, weights_format="XIO")

    assert meant.infer_shape(*shapes) == expected
    with pytest.raises(tconv.ProblemError, match="channels"):
        op.infer_shape(*shapes)


@pytest.mark.parametrize("case", PADS_CHECKED, ids=str)
def test_negative_pads_are_refused_at_once(case: Case) -> None:
    """An operator with a wrong attribute cannot be made (§2)."""
    ones = [1] * len(case.attrs["pads_begin"])
    attributes = {"strides": ones, "dilations": ones, **case.attrs}
    for name in NAMES.get(case.op, (case.op,)):
        if case["expected"]["valid"]:
            assert operator(name, attributes).attributes()["pads_begin"] == tuple(
                case.attrs["pads_begin"]
            )
        else:
            with pytest.raises(tconv.ProblemError, match="non-negative"):
                operator(name, attributes)


@pytest.mark.parametrize("case", SCHEMAS, ids=str)
def test_attributes_and_inputs_are_those_of_the_schema(case: Case) -> None:
    """Required ones are missed, unknown ones refused, and the pages' output_padding is known."""
    expected = case["expected"]
    whole = {name: [1] for name in expected["required"]}
    (op, *_) = [operator(name, whole) for name in NAMES.get(case.op, (case.op,))]
    fields = {each.name for each in dataclasses.fields(op)}
    known = {*expected["required"], *expected["optional"]}
    # The pages of the gradients list it, their schemas do not (§5); reading= is ours.
    ours = {"output_padding", "reading"} if "Backward" in case.op else set()

    assert known <= fields <= known | ours
    assert ("output_padding" in fields) == (
        "Transpose" in case.op or case.op == "ConvolutionBackwardData"
    )
    assert (op.third is not None) == (3 in expected["num_inputs"])
    for name in expected["required"]:
        with pytest.raises(tconv.ProblemError, match=f"{name} is missing"):
            operator(case.op, {k: v for k, v in whole.items() if k != name})
    with pytest.raises(tconv.ProblemError, match="not one of its attributes"):
        operator(case.op, {**whole, "kernel": [1]})


def forward_and_gradients(case: Case, data_format: str, weights_format: str) -> list[Runnable]:
    """Return ConvTranspose, its data gradient by both names, and its weights gradient."""
    shared = {**case.attrs, "data_format": data_format, "weights_format": weights_format}
    weights = shape_in(case["shapes"]["weights_IOX"], "IOX", weights_format)
    return [
        operator("ConvTranspose", shared),
        operator("ConvTransposeBackwardData", shared),
        operator("ConvTransposeBackpropData", shared),
        operator("ConvTransposeBackwardWeights", {**shared, "weights_shape": weights}),
    ]


def shape_in(shape: Sequence[int], said: str, wanted: str) -> tuple[int, ...]:
    """Return the shape of weights of one format in another, without making any."""
    return relaid(np.broadcast_to(np.float32(0), tuple(shape)), said, wanted).shape


def in_format(shape: Sequence[int], data_format: str) -> tuple[int, ...]:
    """Return an NCX shape in a data format."""
    batch, channels, *spatial = shape
    return (batch, channels, *spatial) if data_format == "NCX" else (batch, *spatial, channels)


@pytest.mark.parametrize("case", PROBLEMS, ids=str)
def test_sizes_of_benchdnns_problems_hold_forwards_and_backwards(case: Case) -> None:
    """ConvTranspose and all its gradients agree on every size; nothing is computed (§1, §5)."""
    shapes, attrs = case["shapes"], case.attrs
    pads = tuple(attrs["pads_begin"]), tuple(attrs["pads_end"])
    for data_format, weights_format in product(("NCX", "NXC"), FORMATS):
        src, dst = (in_format(shapes[f"{each}_NCX"], data_format) for each in ("src", "dst"))
        weights = shape_in(shapes["weights_IOX"], "IOX", weights_format)
        forward, data, preview, filters = forward_and_gradients(case, data_format, weights_format)

        assert forward.infer_shape(src, weights) == dst
        assert data.infer_shape(dst, weights) == src
        assert preview.infer_shape(dst, weights) == src
        assert filters.infer_shape(src, dst) == weights
        assert forward.resolve_pads(src, weights) == pads
        assert data.resolve_pads(dst, weights) == pads
        assert filters.resolve_pads(src, dst) == pads


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_small_problems_and_their_gradients_are_one_trilinear_form(case: Case) -> None:
    """<dst, diff_dst> == <src, diff_src> == <weights, diff_weights>, exactly."""
    random = np.random.default_rng(1)
    shapes = (case["shapes"][name] for name in ("src_NCX", "weights_IOX", "dst_NCX"))
    src, weights, diff_dst = (random.integers(-2, 3, shape).astype(np.float64) for shape in shapes)
    forward, data, preview, filters = forward_and_gradients(case, "NCX", "IOX")
    dst = forward(src, weights)
    diff_src = data(diff_dst, weights)

    assert np.any(dst)
    assert np.vdot(dst, diff_dst) == np.vdot(src, diff_src)
    assert np.vdot(dst, diff_dst) == np.vdot(weights, filters(src, diff_dst))
    assert np.array_equal(preview(diff_dst, weights), diff_src)


def test_every_case_is_replayed_or_skipped_with_a_reason() -> None:
    """No case of the files is lost between the lists above; none is skipped."""
    lists = (EXECUTED, SHAPES_ONLY, INFERRED, REFUSED, MISLAID, PADS_CHECKED, SCHEMAS, PROBLEMS)
    replayed = [str(case) for each in lists for case in each]

    assert sorted(replayed) == sorted(map(str, CASES))
    assert len(set(replayed)) == len(replayed)
