"""An explanation says what the operator does: its formulas, pads, phases and pictures."""

import dataclasses
import random
import warnings
import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest

import tconv
from tconv.explain.drawing import to_pixels, to_svg
from tconv.explain.explanation import explain, phases
from tconv.explain.formulas import evaluate, rules, value
from tconv.explain.palette import PALETTE, ink_on, lightness
from tconv.explain.sentences import sentences
from tconv.explain.still import draw_still
from tconv.problem import Axis, Operand
from translation.calls import draw_call


def test_the_formulas_come_to_what_the_operators_say() -> None:
    """Pads and sizes of every operator and function, whatever their attributes."""
    for seed in range(800):
        drawn = draw_call(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tconv.AmbiguousSpecWarning)
            told = explain(drawn.op, *drawn.shapes)
        for number, axis in enumerate(told.problem.axes):
            values = {line.letter: line.value for line in told.lines[number]}

            assert (values["pb"], values["pe"]) == tuple(side[number] for side in told.pads), drawn
            assert values.get("X", axis.coarse_size) == axis.coarse_size, drawn
            assert values.get("Y", axis.fine_size) == axis.fine_size, drawn


def test_a_filled_formula_is_a_true_sum() -> None:
    """What stands between the equals signs has that value, for anybody who computes it."""
    for seed in range(100):
        drawn = draw_call(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tconv.AmbiguousSpecWarning)
            lines = explain(drawn.op, *drawn.shapes).lines
        for line in (each for axis in lines for each in axis if each.expression):
            assert value(line.filled, {}) == line.value


def test_points_of_a_phase_meet_its_taps_and_no_others() -> None:
    """Phases share out the points, and are right about the taps wherever a window reaches."""
    dice = random.Random(3)  # noqa: S311 - a test
    for _ in range(300):
        axis = Axis(*(dice.randint(1, high) for high in (12, 6, 5, 4, 3, 4)))
        found = phases(axis)
        points = sorted(point for phase in found for point in phase.points)
        for phase in found:
            met = {
                t for t in range(axis.taps) for c in range(axis.coarse_size)
                if axis.fine(c, t) in phase.points
            }  # fmt: skip
            assert met <= set(phase.taps)
        assert points == list(range(axis.fine_size))


def test_the_terminal_shows_every_part() -> None:
    """Sizes with numbers, the odd one, both readings, phases, cost and plan."""
    op = tconv.onednn.ConvolutionBackpropData(
        strides=[2], dilations=[1], auto_pad="same_upper", output_shape=[7]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tconv.AmbiguousSpecWarning)
        text = str(explain(op, (1, 3, 5), (4, 2, 5)))

    assert "max(2 * (3 - 1) + 4 + 0 - 7, 0)" in text
    assert "the odd one went to the end" in text
    assert "used      engine (as its engine computes): pads_begin (0,), pads_end (1,)" in text
    assert "not used  document (by the printed formula): pads_begin (1,), pads_end (0,)" in text
    assert "phase 1: output points 1 3 5; taps 1 3" in text
    assert "220 flops and 276 bytes" in text
    assert "chosen" in text


def test_a_still_picture_has_a_cell_for_every_point() -> None:
    """As SVG and as pixels, with one and with two axes, for all three wanted operands."""
    drawn = 0
    for seed in range(300):
        call = draw_call(seed, ranks=(1, 2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tconv.AmbiguousSpecWarning)
            told = explain(call.op, *call.shapes)
        drawing = draw_still(told)
        root = ET.fromstring(to_svg(drawing))  # noqa: S314 - our own text
        cells = [
            r for r in root.iter("{http://www.w3.org/2000/svg}rect") if r.get("height") == "27"
        ]
        points = sum(int(np.prod(told.problem.spatial(operand))) for operand in Operand)
        drawn += 1

        assert len(cells) >= points
        assert root.find("{http://www.w3.org/2000/svg}title") is not None
        if seed % 20 == 0:
            pixels = to_pixels(drawing)
            assert pixels.shape == (2 * drawing.height, 2 * drawing.width, 3)
            assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 5
    assert drawn == 300


def test_what_makes_no_picture_is_refused() -> None:
    """Three axes, or too many points."""
    for shapes in (((1, 1, 3, 3, 3), (1, 1, 1, 1, 1)), ((1, 1, 300), (1, 1, 3))):
        told = explain(tconv.onnx.Conv(), *shapes)
        with pytest.raises(tconv.UnsupportedError, match="make no picture"):
            draw_still(told)


def test_neighbouring_phases_differ_in_lightness_and_text_can_be_read() -> None:
    """Who sees no colours still sees phases, and numbers on them."""
    colours = PALETTE["phases"]
    for colour in colours:
        pair = sorted((lightness(colour), lightness(ink_on(colour))))
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5
    assert len(set(colours)) == 7
    assert min(abs(lightness(a) - lightness(b)) for a, b in pairwise(colours)) > 0.1


def test_sentences_have_the_parts_of_a_message() -> None:
    """Every refusal that is read from the source says what is wrong, the rule and the fix."""
    found = sentences()

    assert len(found) > 25
    assert found["padding.gathered"]["wrong"].startswith(
        "the window of {weights} spans {line.span}"
    )
    assert all(set(parts) == {"wrong", "rule", "fix"} for parts in found.values())


def test_a_wrong_formula_would_be_found() -> None:
    """The comparison above can fail."""
    op = tconv.onnx.ConvTranspose(strides=[2], auto_pad="SAME_UPPER")
    right = rules(op)
    halves = {"pb": "total - total // 2", "pe": "total // 2"}
    wrong = right._replace(
        formulas=tuple(
            f._replace(expression=halves.get(f.letter, f.expression)) for f in right.formulas
        )
    )
    letters = {"X": 5, "K": 3, "s": 2, "d": 1, "op": 0}

    assert evaluate(right, letters)["pb"] == 0
    assert evaluate(wrong, letters)["pb"] == 1
    assert dataclasses.is_dataclass(explain(op, (1, 1, 5), (1, 1, 3)))
