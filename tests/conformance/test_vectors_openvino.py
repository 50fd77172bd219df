"""OpenVINO's own test vectors, and probes of its CPU plugin, through ``tconv.openvino``.

Paragraphs (§) are those of SEMANTICS.md beside the vectors.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tconv
import vectors
from tconv.calls import Runnable
from vectors import Array, Case, Sizes, sizes

CASES = vectors.cases("openvino")

EXECUTED = [case for case in CASES if case.kind == "execute"]
PROBES = [case for case in CASES if case.kind == "probe"]
NEGATIVE = [case for case in PROBES if min(*case.attrs["pads_begin"], *case.attrs["pads_end"]) < 0]
PROBED = [case for case in PROBES if case not in NEGATIVE]
SHAPED = [case for case in CASES if case.kind in ("shape_infer", "shape_infer_static")]


def input_shapes(case: Case) -> list[Any]:
    """Return the shapes of a shape case's inputs; "dynamic" is an unknown rank."""
    if case.kind == "shape_infer_static":
        return list(case["input_shapes"])
    return [each["shape"] if "shape" in each else each["of"]["shape"] for each in case["inputs"]]


def spatial_axes(case: Case) -> int:
    """Return the number of spatial axes, from whatever fixes it; 0 when nothing does."""
    data, weights = input_shapes(case)[:2]
    if data != "dynamic":
        return len(data) - 2
    if weights != "dynamic":
        return len(weights) - (3 if case.op.startswith("Group") else 2)
    asked = request(case)
    return len(case.attrs["strides"] if asked is None else asked)


def request(case: Case) -> Any:  # noqa: ANN401 - what a caller may pass, right or wrong
    """Return the output_shape input of a shape case, None if it has none."""
    if case.kind == "shape_infer_static":
        return case.fields.get("output_shape_input")
    if len(case["inputs"]) < 3:
        return None
    third = case["inputs"][2]
    if third["kind"] == "Parameter":
        return (None,) * third["shape"][0]
    if third["kind"] == "ShapeOf":
        return sizes(third["of"]["shape"])
    dtype = {"f32": np.float32, "i32": np.int32, "i64": np.int64}[third["et"]]
    return np.array(third["value"], dtype).reshape(third["shape"])


UNRANKED = [case for case in SHAPED if spatial_axes(case) == 0 and "dynamic" in input_shapes(case)]
RANKED = [case for case in SHAPED if case not in UNRANKED]
INFERRED = [case for case in RANKED if "error_contains" not in case["expected"]]
WRONG = [case for case in RANKED if "error_contains" in case["expected"]]
MISTYPED = [case for case in WRONG if "Element type" in case["expected"]["error_contains"]]
REFUSED = [case for case in WRONG if case not in MISTYPED]

# What the printed formula makes of the pads where the plugin does otherwise (§8 A5).
DOCUMENT_PADS = {
    "ov_6": ((1,), (2,)),
    "ov_9": ((1,), (2,)),
    "ov_10": ((1,), (2,)),
    "ov_11": ((0,), (0,)),
}


def operator(case: Case, **more: object) -> Runnable:
    """Return the operator of a case with its attributes."""
    attributes = {k: v for k, v in case.attrs.items() if not k.startswith("output_shape")}
    kind: type[Runnable] = getattr(tconv.openvino, case.op)
    return kind(**{**attributes, **more})


def engine(case: Case) -> Runnable:
    """Return the operator of a case as its engine reads the document."""
    return operator(case, **({"reading": "engine"} if "Backprop" in case.op else {}))


def ranked(case: Case) -> tuple[Sizes, Sizes]:
    """Return the shapes of data and filter, all None where only the rank is known."""
    data, weights = input_shapes(case)[:2]
    count = spatial_axes(case)
    unknown = (None,) * (count + (3 if case.op.startswith("Group") else 2))
    return (
        (None,) * (count + 2) if data == "dynamic" else sizes(data),
        unknown if weights == "dynamic" else sizes(weights),
    )


def known_pads(case: Case) -> tuple[Sizes, Sizes]:
    """Return the expected pads, None where they depend on a size that is not known.

    The engine leaves zeros there until the size is known (§6); resolve_pads answers with
    the pads really used, and so with None.
    """
    data, weights = ranked(case)
    asked = request(case)
    count = len(data) - 2
    depends = case.attrs["auto_pad"].startswith("same") and (
        asked is not None or "Backprop" not in case.op
    )
    known = [
        not depends or None not in axis
        for axis in zip(
            data[2:], weights[-count:], [0] * count if asked is None else asked, strict=True
        )
    ]
    begin, end = (
        tuple(
            pad if sure else None for pad, sure in zip(case["expected"][side], known, strict=True)
        )
        for side in ("pads_begin", "pads_end")
    )
    return begin, end


def convert(arrays: Sequence[Array], dtype: str) -> list[Array]:
    """Return arrays in one of the four types."""
    return [array.astype(vectors.DTYPES[dtype]) for array in arrays]


@pytest.mark.parametrize("dtype", vectors.DTYPES)
@pytest.mark.parametrize("case", EXECUTED, ids=str)
def test_operators_compute_what_the_reference_computes(case: Case, dtype: str) -> None:
    """The literals hold in every float type, those upstream lists for integers too."""
    data, weights = case.tensor("inputs", "data"), case.tensor("inputs", "filter")
    expected = case.tensor("expected", "output")
    op = engine(case)
    first, second = convert((data, weights), dtype)
    if case.fields.get("apply_twice"):
        first = op(first, second)

    for answer in vectors.every_way(op, first, second, case.attrs.get("output_shape_input")):
        vectors.check_answer(answer, expected, data, weights)


@pytest.mark.parametrize("case", EXECUTED, ids=str)
def test_integers_are_defined_by_the_document_but_not_done_here(case: Case) -> None:
    """DESIGN 3.3 names four float types; OpenVINO allows any numeric type (§6)."""
    for name in set(case["dtypes"]) - set(vectors.DTYPES):
        dtype = np.dtype(f"{name[0]}{int(name[1:]) // 8}")  # "u16" is NumPy's "u2"
        first, second = (case.tensor("inputs", each).astype(dtype) for each in ("data", "filter"))
        op = engine(case)

        with pytest.raises(tconv.UnsupportedError, match=dtype.name):
            op(first, second, case.attrs.get("output_shape_input"))


@pytest.mark.parametrize("case", INFERRED, ids=str)
def test_shapes_are_inferred_as_by_openvino(case: Case) -> None:
    """Sizes that the engine leaves open, -1 or an interval, are None."""
    op, expected = engine(case), case["expected"]
    shapes, asked = ranked(case), request(case)

    assert op.attributes()["auto_pad"] == expected.get("auto_pad", case.attrs["auto_pad"])
    if "output_shape" in expected:
        assert op.infer_shape(*shapes, asked) == sizes(expected["output_shape"])
    if "pads_begin" in expected:
        assert op.resolve_pads(*shapes, asked) == known_pads(case)


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_calls_that_openvino_refuses_are_refused(case: Case) -> None:
    """Ranks, channels, lengths and zeros are checked as there."""
    shapes, asked = ranked(case), request(case)

    with pytest.raises(tconv.ProblemError):
        engine(case).infer_shape(*shapes, asked)


@pytest.mark.parametrize(
    "case", [case for case in REFUSED if len(input_shapes(case)[0]) == 6], ids=str
)
def test_group_convolution_backprop_data_takes_any_rank(case: Case) -> None:
    """Its page says "rank 3 or greater"; the engine stops at 5, and so do the others (§6)."""
    shapes = ranked(case)
    pads = {"pads_begin": [0] * 4, "pads_end": [0] * 4}
    backward = case.op == "ConvolutionBackpropData"
    name = "GroupConvolutionBackpropData" if backward else "GroupConvolution"
    op = getattr(tconv.openvino, name)(strides=[1] * 4, dilations=[1] * 4, **pads)
    grouped = shapes[0], (1, *shapes[1])

    if backward:
        assert op.infer_shape(*grouped) == (1, 10, 226, 226, 226, 226)
    else:
        with pytest.raises(tconv.ProblemError, match="3, 4 or 5"):
            op.infer_shape(*grouped)


@pytest.mark.parametrize("case", MISTYPED, ids=str)
def test_mixtures_of_types_and_truth_values_are_refused(case: Case) -> None:
    """Data and filter share a numeric type; output_shape has whole numbers."""
    types = {"boolean": "bool", "f16": "float16", "f32": "float32", "i64": "int64"}
    first, second = (np.zeros(each["shape"], types[each["et"]]) for each in case["inputs"][:2])
    asked = request(case)
    op = engine(case)

    with pytest.raises(tconv.ProblemError):
        op(first, second, asked)


@pytest.mark.parametrize(
    "case", [case for case in RANKED if case.id.endswith("three_input_shapes")], ids=str
)
def test_an_input_that_the_document_does_not_name_is_refused(case: Case) -> None:
    """The engine's static entry point ignores a third input of GroupConvolution."""
    op, shapes = engine(case), input_shapes(case)

    assert len(shapes) == 3
    with pytest.raises(tconv.ProblemError, match="two inputs"):
        op.infer_shape(*shapes)


@pytest.mark.parametrize("case", PROBED, ids=str)
def test_the_engines_reading_is_what_the_cpu_plugin_does(case: Case) -> None:
    """Explicit pads stay beside output_shape, same_* is the printed formula (§4.2)."""
    op = engine(case)
    data = vectors.tensor(case["x"], [1, 1, *case["X"]])
    weights = vectors.tensor(case["w"], [1, 1, *case["K"]])
    expected = vectors.tensor(case["y"], case["y_shape"])
    asked = case["output_shape_input"]
    pads = tuple(case["node_pads_begin"]), tuple(case["node_pads_end"])

    assert op.infer_shape(data.shape, weights.shape, asked) == expected.shape
    assert op.resolve_pads(data.shape, weights.shape, asked) == pads
    for dtype in vectors.DTYPES:
        first, second = convert((data, weights), dtype)
        for answer in vectors.every_way(op, first, second, asked):
            vectors.check_answer(answer, expected, data, weights)


@pytest.mark.parametrize("case", PROBED, ids=str)
def test_without_a_reading_the_engine_answers_and_a_warning_names_the_difference(
    case: Case, recwarn: pytest.WarningsRecorder
) -> None:
    """A warning comes exactly where the printed formula gives other pads (§8)."""
    data = vectors.tensor(case["x"], [1, 1, *case["X"]])
    weights = vectors.tensor(case["w"], [1, 1, *case["K"]])
    asked = case["output_shape_input"]
    answer = operator(case)(data, weights, asked)
    document = operator(case, reading="document")
    engine_pads = tuple(case["node_pads_begin"]), tuple(case["node_pads_end"])

    vectors.check_answer(answer, vectors.tensor(case["y"], case["y_shape"]), data, weights)
    assert document.resolve_pads(data.shape, weights.shape, asked) == DOCUMENT_PADS.get(
        case.id, engine_pads
    )
    assert [each.category for each in recwarn.list] == (
        [tconv.AmbiguousSpecWarning] if case.id in DOCUMENT_PADS else []
    )


@pytest.mark.parametrize("case", NEGATIVE, ids=str)
def test_negative_pads_are_refused(case: Case) -> None:
    """The document says non-negative; the engine's shape inference lets them by (§2, §8 B7)."""
    with pytest.raises(tconv.ProblemError, match="non-negative"):
        operator(case)


@pytest.mark.parametrize("case", UNRANKED, ids=str)
def test_calls_without_any_rank_are_skipped(case: Case) -> None:
    """Shapes here always have a rank; only sizes may be unknown."""
    pytest.skip(f"{case.op}: nothing in the call fixes a rank")


def test_every_case_is_replayed_or_skipped_with_a_reason() -> None:
    """No case of the files is lost between the lists above."""
    lists = (EXECUTED, INFERRED, REFUSED, MISTYPED, PROBED, NEGATIVE, UNRANKED)
    replayed = [str(case) for each in lists for case in each]

    assert sorted(replayed) == sorted(map(str, CASES))
    assert len(set(replayed)) == len(replayed)
