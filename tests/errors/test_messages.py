"""Every wrong call is refused in the caller's own words, with the rule and the fix."""

import re

import pytest

import tconv
from errors.case import Case, wildcard
from errors.message import flaws
from errors.table import CASES
from tconv.errors import TconvError


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_call_is_refused_with_rule_and_fix(case: Case) -> None:
    """The first line is the table's, rule and fix come last, and no word is ours."""
    with pytest.raises(case.kind, match=case.first_line) as info:
        case.call()

    assert flaws(info.value, case.title) == []
    assert re.fullmatch(wildcard(case.fix), info.value.fix)


def test_names_of_cases_are_unique() -> None:
    """A case that fails can be found."""
    names = [case.name for case in CASES]

    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("error", "flaw"),
    [
        (tconv.InternalError("a", "b.", got={}, rule="r", fix="f"), "a InternalError"),
        (tconv.ProblemError("b", "b.", got={}, rule="r", fix="f"), "the title is 'b'"),
        (tconv.ProblemError("a", "b", got={}, rule="r", fix="f"), "the first line is no sentence"),
        (tconv.ProblemError("a", "b.", got={}, rule="", fix="f"), "rule or fix is empty"),
        (tconv.ProblemError("a", "the tap 3.", got={}, rule="r", fix="f"), "it shows 'tap'"),
        (tconv.ProblemError("a", "is NoneType.", got={}, rule="r", fix="f"), "it shows 'NoneType'"),
        (tconv.ProblemError("a", "b.", got={}, rule="r", fix="see call.py"), "it shows '.py'"),
    ],
)
def test_the_check_of_messages_can_fail(error: TconvError, flaw: str) -> None:
    """A flaw that is put into a message is found."""
    assert flaw in flaws(error, "a")


@pytest.mark.parametrize("got", [{"x": "1\n2"}, {"x\ny": "1"}], ids=["value", "name"])
def test_a_line_break_in_a_message_is_found(got: dict[str, object]) -> None:
    """Lines that are not indented hide the rule and the fix."""
    error = tconv.ProblemError("a", "b.", got=got, rule="r", fix="f")

    assert "there is not one line for each part" in flaws(error, "a")


def test_the_text_of_the_design_is_the_text_of_the_library() -> None:
    """The example that the contract prints comes out letter by letter."""
    op = tconv.openvino.GroupConvolutionBackpropData(
        strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1]
    )

    kind, rule = (
        "GroupConvolutionBackpropData",
        "data.shape[1] == filter.shape[0] * filter.shape[1]",
    )

    with pytest.raises(tconv.ProblemError) as info:
        op.infer_shape((1, 18, 224, 224), (4, 5, 2, 3, 3))

    assert str(info.value).split("\n") == [
        f"openvino {kind}: filter takes 4 x 5 = 20 input channels, but data has 18.",
        "  data    (1, 18, 224, 224)   N G*CIN X1 X2",
        "  filter  (4, 5, 2, 3, 3)     G CIN COUT K1 K2",
        f"  rule    {rule}   ({kind}-1, input data)",
        "  fix     pass data with 20 channels",
    ]


def test_parts_of_an_error_are_kept_for_programs() -> None:
    """Fields hold what the text shows."""
    with pytest.raises(tconv.ProblemError) as info:
        tconv.onnx.Conv(group=0)

    error = info.value
    assert (error.op, error.wrong, error.got) == ("onnx Conv", "group is 0.", {"group": "0"})
    assert "group >= 1" in error.rule
    assert error.fix


def test_kinds_of_errors_are_kinds_of_python_errors() -> None:
    """A program that knows nothing of tconv can still tell them apart."""
    assert issubclass(tconv.ProblemError, ValueError)
    assert issubclass(tconv.UnsupportedError, NotImplementedError)
    assert issubclass(tconv.InternalError, RuntimeError)
    assert issubclass(tconv.AmbiguousSpecWarning, UserWarning)
    assert all(
        issubclass(kind, tconv.TconvError)
        for kind in (tconv.ProblemError, tconv.UnsupportedError, tconv.InternalError)
    )


@pytest.mark.parametrize("kind", ["Convolution", "GroupConvolution"])
def test_advice_fits_the_operator(kind: str) -> None:
    """A convolution of too many axes is not told to become its own transpose."""
    op = getattr(tconv.openvino, kind)(
        strides=[1] * 4, pads_begin=[0] * 4, pads_end=[0] * 4, dilations=[1] * 4
    )
    weights = (1,) * (6 if kind == "Convolution" else 7)

    with pytest.raises(tconv.ProblemError, match="data has 6 axes") as info:
        op.infer_shape((1,) * 6, weights)

    assert "BackpropData" not in info.value.fix
