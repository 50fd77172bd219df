"""ONNX's own test vectors, and probes of ONNX Runtime, through ``tconv.onnx``.

Paragraphs (§) are those of SEMANTICS.md beside the vectors.  Where the engines part, ONNX
Runtime is right and not ONNX's ReferenceEvaluator (§8 B10) or shape inference (§8 B11).
"""

from typing import Any

import pytest

import tconv
import vectors
from tconv.calls import Runnable
from vectors import Case, sizes

CASES = vectors.cases("onnx")
RUNTIME = "onnxruntime-1.31"
OPSETS = (1, 11, 22)

EXECUTED = [case for case in CASES if case.kind == "execute"]
SHAPED = [case for case in CASES if case.kind == "shape_infer"]
REFUSED = [case for case in SHAPED if "error" in case["expected"]]
# Shape inference takes any output_shape, ONNX Runtime at most stride - 1 above the natural size.
UNREACHABLE = [
    case
    for case in SHAPED
    if case.id
    in ("test_conv_transpose_with_output_shape", "test_conv_transpose_with_group_and_output_shape")
]
INFERRED = [case for case in SHAPED if case not in (*REFUSED, *UNREACHABLE)]
PROBES = [case for case in CASES if case.kind == "probe"]
PROBED = [case for case in PROBES if "y" in case["engines"][RUNTIME]]
# "output_padding should be less than the corresponding stride/dilation": 2 is less than 3.
ACCEPTED = [case for case in PROBES if case.id == "onnx_22"]
PROBED_REFUSED = [case for case in PROBES if case not in (*PROBED, *ACCEPTED)]


def operator(case: Case, **more: object) -> Runnable:
    """Return the operator of a case with its attributes."""
    kind: type[Runnable] = getattr(tconv.onnx, case.op.removeprefix("ONNX."))
    return kind(**{**case.attrs, **more})


def input_shapes(case: Case) -> list[Any]:
    """Return the shapes of a shape case's inputs, None for what is not known."""
    return [sizes(each["shape"]) for each in case["inputs"]]


def check_every_way(op: Runnable, inputs: list[vectors.Array], expected: vectors.Array) -> None:
    """Refuse a wrong answer of any way to call, in any of the four types."""
    for dtype in vectors.DTYPES.values():
        first, second, *bias = (each.astype(dtype) for each in inputs)
        for answer in vectors.every_way(op, first, second, *bias):
            vectors.check_answer(answer, expected, *inputs)


@pytest.mark.parametrize("case", EXECUTED, ids=str)
def test_operators_compute_what_the_node_tests_say(case: Case) -> None:
    """The float32 literals hold in all four types."""
    inputs = [case.tensor("inputs", name) for name in ("X", "W", "B") if name in case["inputs"]]
    expected = case.tensor("expected", "Y")

    check_every_way(operator(case), inputs, expected)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("case", INFERRED, ids=str)
def test_shapes_are_inferred_as_by_onnx(case: Case, opset: int) -> None:
    """A size that ONNX does not know is None."""
    expected = case["expected"]["output_shape"]
    if expected is None:
        # With an unknown size in W, ONNX gives no shape at all (§6); the others are known.
        expected = {"test_conv_partial_missing_weight_shape": (30, 50, None, 6, 6)}[case.id]

    assert operator(case, opset=opset).infer_shape(*input_shapes(case)) == sizes(expected)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_calls_that_onnx_refuses_are_refused(case: Case, opset: int) -> None:
    """Signs, ranks, groups, overflows and contradictory attributes are checked as there."""
    shapes = input_shapes(case)

    with pytest.raises(tconv.ProblemError):
        operator(case, opset=opset).infer_shape(*shapes)


@pytest.mark.parametrize("case", UNREACHABLE, ids=str)
def test_an_output_shape_beyond_reach_is_refused(case: Case) -> None:
    """ONNX Runtime computes no such node, though its shape is inferred (§4.4)."""
    shapes = input_shapes(case)
    natural = [2 * (size - 1) + 3 for size in shapes[0][2:]]
    reachable = operator(case, output_shape=[size + 1 for size in natural])

    assert reachable.infer_shape(*shapes)[2:] == (34, 34)
    with pytest.raises(tconv.ProblemError, match="at most 34"):
        operator(case).infer_shape(*shapes)


@pytest.mark.parametrize("opset", [11, 22])
@pytest.mark.parametrize("case", PROBED, ids=str)
def test_probes_are_answered_as_by_onnx_runtime(case: Case, opset: int) -> None:
    """The whole padding is split as SAME_UPPER says or the other way round (§4.4)."""
    answer = case["engines"][RUNTIME]
    inputs = [vectors.tensor(case[name], case[f"{name}_shape"]) for name in ("x", "w")]
    inputs += [vectors.tensor(case["b"], [-1])] if "b" in case.fields else []
    expected = vectors.tensor(answer["y"], answer["y_shape"])
    op = operator(case, opset=opset)
    shapes = [each.shape for each in inputs]

    assert op.infer_shape(*shapes) == expected.shape
    assert list(op.resolve_pads(*shapes)[0]) in answer["pads_begin_that_explains_y"]
    if opset >= 22:  # bfloat16 joined T there
        check_every_way(op, inputs, expected)


@pytest.mark.parametrize("case", PROBED_REFUSED, ids=str)
def test_probes_that_onnx_runtime_refuses_are_refused(case: Case) -> None:
    """An output_padding or output_shape too large breaks the page's own rule."""
    with pytest.raises(tconv.ProblemError):
        operator(case).infer_shape(case["x_shape"], case["w_shape"])


@pytest.mark.parametrize("case", ACCEPTED, ids=str)
def test_an_output_padding_below_the_dilation_is_accepted(case: Case) -> None:
    """ONNX Runtime refuses what the page allows, and PyTorch computes (§5)."""
    inputs = [vectors.tensor(case[name], case[f"{name}_shape"]) for name in ("x", "w")]
    # y = 2 * x + 3 * k, and two more points at the end.
    expected = vectors.tensor([5, 0, 8, 20, 6, 32, 20, 24, 32, 0, 24, 0, 0], [1, 1, 13])

    assert case.attrs == {"strides": [2], "dilations": [3], "output_padding": [2]}
    check_every_way(operator(case), inputs, expected)


def test_every_case_is_replayed_or_skipped_with_a_reason() -> None:
    """No case of the files is lost between the lists above; none is skipped."""
    lists = (EXECUTED, INFERRED, REFUSED, UNREACHABLE, PROBED, ACCEPTED, PROBED_REFUSED)
    replayed = [str(case) for each in lists for case in each]

    assert sorted(replayed) == sorted(map(str, CASES))
    assert len(set(replayed)) == len(replayed)
