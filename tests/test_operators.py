"""Every operator with random attributes: call, bind, out, shapes and the definition agree."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import tconv
from strategies import as_float64, whole_numbers
from tconv import reference
from tconv.arguments import operators
from tconv.calls import Runnable
from tconv.problem import Operand

NAMES = sorted(operators())


Numbers = Callable[[int, int], list[int]]


def some_attributes(
    draw: st.DrawFn, kind: type[Runnable], groups: int, numbers: Numbers
) -> dict[str, Any]:
    """Draw a value for every attribute that the operator has."""
    fields = kind.__dataclass_fields__
    words = ("none", "none", "same_upper", "same_lower", "valid")
    auto_pad = draw(st.sampled_from(words))
    formats = st.sampled_from(["XIO", "OIX", "XOI", "IOX"])
    drawn: dict[str, Callable[[], Any]] = {
        "strides": lambda: numbers(1, 3),
        "dilations": lambda: numbers(1, 2),
        "auto_pad": lambda: auto_pad,
        "pads_begin": lambda: numbers(0, 3),
        "pads_end": lambda: numbers(0, 3),
        "pads": lambda: numbers(0, 3) + numbers(0, 3) if auto_pad == "none" else None,
        "output_padding": lambda: numbers(0, 2) if draw(st.booleans()) else None,
        "groups": lambda: groups,
        "group": lambda: groups,
        "data_format": lambda: draw(st.sampled_from(["NXC", "NCX"])),
        "weights_format": lambda: draw(formats),
        "filter_format": lambda: draw(formats),
        "reading": lambda: draw(st.sampled_from(["engine", "document"])),
    }
    return {name: make() for name, make in drawn.items() if name in fields}


@st.composite
def a_call(draw: st.DrawFn, name: str) -> tuple[Runnable, list[Any], str]:
    """Draw an operator with legal attributes, the shapes of its inputs and a dtype.

    The operators' own rules decide what is legal; what they refuse is drawn anew.
    """
    kind = operators()[name]
    axes = draw(st.integers(1, 3))

    def numbers(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=axes, max_size=axes))

    groups = draw(st.integers(1, 3))
    op = kind(**some_attributes(draw, kind, groups, numbers))
    grouped = getattr(kind, "grouped", True)
    batch, coarse, fine = draw(st.tuples(*[st.integers(low, 3) for low in (0, 1, 1)]))
    sizes = {"n": batch, "g": groups if grouped else 1, "c": coarse, "f": fine}
    spatial = {Operand.COARSE: numbers(1, 4), Operand.FINE: numbers(1, 9)}
    spatial[Operand.WEIGHTS] = numbers(1, 3)
    layouts = {operand: op.data_layout(operand) for operand in (Operand.COARSE, Operand.FINE)}
    layouts[Operand.WEIGHTS] = draw(st.sampled_from(op.weights_layouts()))
    whole = {
        operand: layout.shape(sizes, tuple(spatial[operand])) for operand, layout in layouts.items()
    }
    shapes: list[Any] = [whole[operand] for operand in op.given]
    if op.third == "weights_shape":
        shapes.append(whole[Operand.WEIGHTS])
    elif op.third in ("output_shape", "dst_shape") and (
        op.dialect == "onednn" or draw(st.booleans())
    ):
        shapes.append(tuple(spatial[Operand.FINE]))
    try:
        op.infer_shape(*shapes)
    except tconv.ProblemError:
        assume(condition=False)
    return op, shapes, draw(st.sampled_from(op.dtypes()))


@pytest.mark.parametrize("name", NAMES)
@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(data=st.data(), seed=st.integers(0, 2**16))
def test_an_operator_does_what_its_problem_says(name: str, data: st.DataObject, seed: int) -> None:
    """Call, bind and out agree with the definition and with the inferred shape."""
    op, (first_shape, second_shape, *third), dtype = data.draw(a_call(name))
    most = 1 if dtype in ("float16", "bfloat16") else 3
    first = whole_numbers(first_shape, dtype, seed, most)
    second = whole_numbers(second_shape, dtype, seed + 1, most)
    problem = op.problem(first_shape, second_shape, *third, dtype=dtype)
    given_arrays = dict(zip(op.given, (first, second), strict=True))
    expected = reference.answer(problem, *(given_arrays[operand] for operand in problem.given))
    result = op(first, second, *third)
    out = np.full_like(result, 7)
    request = third if op.third else []

    np.testing.assert_array_equal(as_float64(result), expected)
    assert result.shape == op.infer_shape(first_shape, second_shape, *third)
    assert result.dtype == first.dtype
    assert op(first, second, *third, out=out) is out
    np.testing.assert_array_equal(out, result)
    np.testing.assert_array_equal(op.bind(second)(first, *request), result)


@pytest.mark.parametrize("name", NAMES)
@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_size_not_known_leaves_the_rest_of_the_answer_right(
    name: str, data: st.DataObject
) -> None:
    """Whatever is answered with None among the sizes is what the whole shape gives."""
    op, shapes, _ = data.draw(a_call(name))
    hidden = [
        tuple(None if data.draw(st.booleans()) else size for size in shape) for shape in shapes[:2]
    ]
    whole = op.infer_shape(*shapes)
    part = op.infer_shape(*hidden, *shapes[2:])
    whole_pads, part_pads = op.resolve_pads(*shapes), op.resolve_pads(*hidden, *shapes[2:])

    assert len(part) == len(whole)
    for known, answer in zip(
        (*whole, *whole_pads[0], *whole_pads[1]), (*part, *part_pads[0], *part_pads[1]), strict=True
    ):
        assert answer in (None, known)
    if None not in (*hidden[0], *hidden[1]):
        assert part == whole


def test_only_what_depends_on_an_unknown_size_is_unknown() -> None:
    """A batch, a channel and the other axis stay known when one size is not."""
    op = tconv.onednn.ConvTranspose(
        strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1]
    )

    assert op.infer_shape((1, None, 8, 3), (4, 4, 5, 3)) == (1, None, 16, 5)
    assert op.infer_shape((None, 8, 8, None), (4, 4, 5, 3)) == (None, 16, 16, 5)
    assert op.infer_shape((1, 8, 8, 3), (None, 4, None, 3)) == (1, None, 16, None)
    assert op.resolve_pads((1, None, 8, 3), (4, 4, 5, 3)) == ((1, 1), (1, 1))


def test_printed_and_engine_filter_shapes_both_serve() -> None:
    """With groups, in/groups x out and in x out/groups mean the same numbers."""
    op = tconv.onednn.ConvTransposeBackwardData(
        strides=[2], pads_begin=[0], pads_end=[0], dilations=[1], groups=2,
        data_format="NCX", weights_format="IOX",
    )  # fmt: skip
    data = whole_numbers((1, 4, 9), "float32", 0)
    engine = whole_numbers((6, 2, 3), "float32", 1)  # in, out / groups
    printed = engine.reshape(2, 3, 2, 3).transpose(1, 0, 2, 3).reshape(3, 4, 3)

    np.testing.assert_array_equal(op(data, engine), op(data, printed))
    np.testing.assert_array_equal(op.bind(engine)(data), op.bind(printed)(data))
