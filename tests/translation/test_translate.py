"""A translated call gives our result: as an object, and pasted into the real framework."""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tconv
from engines import onednn_graph, require
from tconv.calls import Runnable
from tconv.problem import Operand
from tconv.translation import DIALECTS, Translation
from translation.calls import KINDS, Drawn, draw_call
from translation.frameworks import FRAMEWORKS

Array = npt.NDArray[Any]

OBJECTS = ("torch", "onnx", "openvino", "onednn")
SEEDS = {"torch": 300, "onnx": 300, "openvino": 120, "onednn": 300, "keras": 40, "lax": 60}
CONV = tconv.onnx.Conv()


def said(drawn: Drawn, to: str) -> Translation:
    """Translate a drawn call; that its document has two readings is not what is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tconv.AmbiguousSpecWarning)
        return tconv.translate(drawn.op, *drawn.shapes, to=to)


def plugin_fails(translation: Translation) -> bool:
    """Tell cases that OpenVINO's plugin is known to get wrong (tests/live/test_openvino.py)."""
    op = translation.operator
    assert op is not None
    problem = op.problem(*translation.shapes)
    if op.wanted is Operand.FINE:
        return all(axis.taps == axis.stride == 1 for axis in problem.axes)
    single = problem.groups * problem.fine_channels == 1
    column = problem.axes[-1].coarse_size == 1 < len({axis.stride for axis in problem.axes})
    return single and (problem.coarse_channels == 1 or column)


@pytest.mark.parametrize("to", OBJECTS)
def test_the_object_with_what_stands_around_it_gives_our_result(to: str) -> None:
    """Every operator and function, into every dialect that tconv has."""
    exact = set()
    for seed in range(400):
        drawn = draw_call(seed)
        translation = said(drawn, to)
        exact.add(translation.exact)
        ours = drawn.result()
        result = translation(*drawn.arrays().values())
        assert translation.operator is not None
        third = (translation.third,) if translation.third else ()
        inferred = translation.operator.infer_shape(*translation.shapes, *third)

        np.testing.assert_array_equal(result, ours, err_msg=f"seed {seed}: {drawn}")
        assert None not in inferred
        assert bool(translation.notes) != translation.exact
    assert exact == {True, False}


@pytest.mark.parametrize("to", FRAMEWORKS)
def test_the_pasted_code_gives_our_result(to: str) -> None:
    """The code runs in the framework as it stands, on arrays under the inputs' names."""
    compared = 0
    for seed in range(SEEDS[to]):
        drawn = draw_call(1000 + seed)
        translation = said(drawn, to)
        if to == "openvino" and plugin_fails(translation):
            continue
        theirs = FRAMEWORKS[to](translation.code, drawn.arrays(), drawn.op.result)
        compared += 1

        np.testing.assert_array_equal(theirs, drawn.result(), err_msg=f"{seed}: {translation}")
    assert compared > SEEDS[to] // 2


@pytest.mark.parametrize("name", KINDS)
def test_every_operator_and_function_can_be_translated(name: str) -> None:
    """None is left out by chance, and each says so in words."""
    drawn = draw_call(7, ranks=(1, 2), name=name)
    for to in DIALECTS:
        translation = said(drawn, to)

        assert (
            f"{drawn.op.result} = " in translation.code
            or f'"{drawn.op.result}"' in translation.code
        )
        assert str(translation).startswith(f"{to}: ")


def test_the_onednn_object_gives_our_result_in_onednn_itself() -> None:
    """Where its engine takes the call."""
    require.usable(onednn_graph.unavailable())
    computed = 0
    for seed in range(2000, 2080):
        drawn = draw_call(seed, name="onnx.ConvTranspose" if seed % 2 else "onnx.Conv")
        translation = said(drawn, "onednn")
        op = translation.operator
        assert op is not None
        problem = op.problem(*translation.shapes)
        extra = op.attributes().get("output_padding") or ()
        if problem.bias or any(e >= a.stride for e, a in zip(extra, problem.axes, strict=False)):
            continue
        shape = problem.shape(op.wanted)
        given = {k: v for k, v in op.attributes().items() if v is not None and k != "weights_shape"}
        inputs = [a for a, _ in zip(drawn.arrays().values(), translation.shapes, strict=False)]
        try:
            theirs = onednn_graph.run(type(op).__name__, given, inputs, shape)
        except onednn_graph.Refused:
            continue
        computed += 1

        np.testing.assert_array_equal(theirs, op(*inputs))
    assert computed > 20


@pytest.mark.parametrize(
    ("op", "shapes", "to", "note"),
    [
        (tconv.onnx.ConvTranspose(strides=[2], pads=[0, 1]), ((1, 2, 5), (2, 3, 3)), "torch",
         "torch pads both ends alike"),
        (tconv.onnx.ConvTranspose(strides=[2], pads=[1, 1]), ((1, 2, 5), (2, 3, 3)), "keras",
         'neither "valid" nor "same"'),
        (tconv.onnx.Conv(pads=[0, 1]), ((1, 2, 5), (3, 2, 3)), "torch", "zeros are added"),
        (tconv.onnx.ConvTranspose(group=2), ((1, 2, 5), (2, 3, 3)), "keras", "no groups"),
    ],
)  # fmt: skip
def test_what_a_dialect_lacks_is_said_with_what_makes_up_for_it(
    op: Runnable,
    shapes: tuple[tuple[int, ...], ...],
    to: str,
    note: str,
) -> None:
    """No equivalent call, an exact rewriting, and the reason."""
    translation = tconv.translate(op, *shapes, to=to)

    assert not translation.exact
    assert note in " ".join(translation.notes)


def test_what_a_dialect_has_is_one_call() -> None:
    """Torch's "same", Keras' "same", and output_padding that makes up for uneven pads."""
    same = tconv.onnx.Conv(auto_pad="SAME_UPPER")
    twice = tconv.onnx.ConvTranspose(strides=[2], auto_pad="SAME_UPPER")
    uneven = tconv.onnx.ConvTranspose(strides=[2], pads=[1, 0])
    in_torch = tconv.translate(same, (1, 2, 6), (3, 2, 4), to="torch")

    assert "padding='same'" in in_torch.code
    assert in_torch.exact
    assert 'padding="same"' in tconv.translate(twice, (1, 2, 6), (2, 3, 3), to="keras").code
    assert "output_padding=(1,)" in tconv.translate(uneven, (1, 2, 6), (2, 3, 3), to="torch").code


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tconv.translate(CONV, (1, 2, 6), (3, 2, 3), to="tourch"), "did you mean 'torch'"),
        (lambda: tconv.translate(CONV, (1, 2, 6), (3, 2, 3), to="xyz"), "to is one of: torch"),
        (lambda: tconv.translate(CONV, (1, 2, 6), to="torch"), "1 shapes were given"),
        (lambda: tconv.translate(CONV, (1, 3, 6), (3, 2, 3), to="torch"), "W takes 2 input"),
        (lambda: tconv.translate(CONV, (1, None, 6), (3, 2, 3), to="torch"), "not known"),
        (lambda: tconv.translate(CONV, (0, 2, 6), (3, 2, 3), to="torch"), "the batch is 0"),
        (lambda: tconv.translate(CONV, (1, 2, 6), to="torch", stride=2), "its attributes already"),
        (lambda: tconv.translate(len, (1, 2, 6), to="torch"), "is no operator"),
        (
            lambda: tconv.translate(tconv.conv, (1, 2, 6), (3, 2, 3), to="torch", strides=2),
            "did you mean 'stride'",
        ),
    ],
)
def test_a_wrong_translation_is_refused_in_the_librarys_words(call: Any, words: str) -> None:  # noqa: ANN401 - a lambda
    """The document's own rules come first, then those of translating."""
    with pytest.raises(tconv.ProblemError) as refusal:
        call()

    assert words in str(refusal.value)


def test_functions_are_translated_with_their_arguments() -> None:
    """Who thinks in torch's words need not look for an operator."""
    said = tconv.translate(
        tconv.conv_transpose, (1, 2, 6), (2, 3, 4), to="onnx", stride=2, padding=1
    )

    assert repr(said.operator) == "onnx.ConvTranspose(pads=(1, 1), strides=(2,))"
    assert said.shapes == ((1, 2, 6), (2, 3, 4))


def test_too_many_axes_are_unsupported_where_a_framework_stops_at_three() -> None:
    """Lax and ONNX go on; torch, OpenVINO and Keras have no function."""
    shapes = ((1, 1, 3, 3, 3, 3), (1, 1, 2, 2, 2, 2))

    assert "make_node" in tconv.translate(CONV, *shapes, to="onnx").code
    for to in ("torch", "openvino", "keras"):
        with pytest.raises(tconv.UnsupportedError, match="4 spatial axes"):
            tconv.translate(CONV, *shapes, to=to)


def test_code_alone_cannot_be_called() -> None:
    """Keras and lax have no object here."""
    translation = tconv.translate(CONV, (1, 2, 6), (3, 2, 3), to="lax")
    with pytest.raises(tconv.UnsupportedError, match="only code"):
        translation(np.ones(1), np.ones(1))


def test_an_ambiguous_call_warns_when_it_is_translated() -> None:
    """A translation holds one of two answers, and says so."""
    op = tconv.openvino.ConvolutionBackpropData(
        strides=[2], pads_begin=[0], pads_end=[0], dilations=[1]
    )
    with pytest.warns(tconv.AmbiguousSpecWarning, match="the document contradicts"):
        tconv.translate(op, (1, 1, 3), (1, 1, 4), (5,), to="torch")


def test_the_comparison_can_fail() -> None:
    """Code with another padding gives another result, and is seen to."""
    op = tconv.onnx.Conv(pads=[1, 1])
    drawn = Drawn("onnx.Conv", op, ((1, 2, 6), (3, 2, 3)), seed=0)
    code = said(drawn, "onednn").code
    wrong = code.replace("pads_begin=(1,), pads_end=(1,)", "pads_begin=(0,), pads_end=(2,)")
    theirs = FRAMEWORKS["onednn"](wrong, drawn.arrays(), op.result)

    assert wrong != code
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(theirs, drawn.result())
