"""Whatever is passed, only errors of this package come out."""

import os
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tconv
from errors import garbage
from errors.callees import CALLEES, OPERATORS
from tconv import openvino
from tconv.errors import TconvError

T = TypeVar("T")

# The same examples on every run; set the variable to look at others, and at more of them.
EXAMPLES = os.environ.get("TCONV_TEST_EXAMPLES", "")
thorough = settings(
    max_examples=int(EXAMPLES or 400),
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
any_callee = st.sampled_from(sorted(CALLEES))
any_operator = st.sampled_from(sorted(OPERATORS))


def tried(title: str, call: Callable[[], T]) -> T | None:
    """Return the result, or None when the call was refused as it should be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tconv.AmbiguousSpecWarning)
        try:
            return call()
        except (tconv.ProblemError, tconv.UnsupportedError) as error:
            named = error.op

    assert named == title
    return None


@thorough
@given(name=any_callee, data=st.data())
def test_shapes_and_attributes_of_any_kind(name: str, data: st.DataObject) -> None:
    """Constructors, infer_shape and resolve_pads answer, or refuse in their own words."""
    callee = CALLEES[name]
    attributes = data.draw(garbage.changed_attributes(callee))
    op = tried(callee.title, lambda: callee.op(**attributes))
    if op is None:
        return
    shapes: list[Any] = [data.draw(garbage.changed_shape(shape)) for shape in callee.shapes]
    third: Any = callee.third
    if third is not None or data.draw(st.booleans()):
        third = data.draw(garbage.changed_shape(third or (4,)))
    place = data.draw(st.sampled_from([None, None, None, 0, 1, 2]))
    if place == 2:
        third = data.draw(garbage.anything)
    elif place is not None:
        shapes[place] = data.draw(garbage.anything)

    inferred = tried(callee.title, lambda: op.infer_shape(*shapes, third))
    pads = tried(callee.title, lambda: op.resolve_pads(*shapes, third))

    assert (inferred is None) == (pads is None)
    assert inferred is None or all(each is None or type(each) is int for each in inferred)


@thorough
@given(name=any_operator, data=st.data())
def test_plans_of_any_shape(name: str, data: st.DataObject) -> None:
    """A plan prints itself, or is refused."""
    callee = CALLEES[name]
    # How long planning a window without end takes is another test's question.
    sizes = st.one_of(garbage.small, st.none())
    shapes = [data.draw(garbage.changed_shape(shape, sizes)) for shape in callee.shapes]
    third = data.draw(garbage.changed_shape(callee.third, sizes)) if callee.third else None
    dtype = data.draw(st.sampled_from(["float32", "bfloat16", "f2", np.float64, "int32", object]))

    plan = tried(callee.title, lambda: callee.op().plan(*shapes, third, dtype=dtype))

    assert plan is None or "float" in str(plan)


@thorough
@given(name=any_callee, data=st.data())
def test_calls_with_arrays_of_any_shape(name: str, data: st.DataObject) -> None:
    """A call computes what infer_shape promised, or is refused; ``out`` is no exception."""
    callee = CALLEES[name]
    attributes = data.draw(garbage.changed_attributes(callee))
    op = tried(callee.title, lambda: callee.op(**attributes))
    if op is None:
        return
    first, second = (data.draw(garbage.changed_array(shape)) for shape in callee.shapes)
    third: Any = callee.third
    if data.draw(st.booleans()):
        third = data.draw(st.one_of(garbage.anything, garbage.changed_shape(third or (4,))))
    third = callee.third if third is None else third
    out = data.draw(st.one_of(st.none(), st.none(), st.none(), garbage.anything))

    result = tried(callee.title, lambda: callee.run(first, second, third, out=out, **attributes))

    whole = first.ndim == len(callee.shapes[0])  # the functions also take one picture alone
    if result is not None and whole and callee.bias() is None:
        assert result.shape == op.infer_shape(first.shape, second.shape, third)


@thorough
@given(name=any_operator, data=st.data())
def test_bindings_of_any_kind(name: str, data: st.DataObject) -> None:
    """Binding and bound calls refuse in their own words."""
    callee = CALLEES[name]
    weights = data.draw(garbage.changed_array(callee.shapes[1]))
    chosen = data.draw(st.sampled_from([weights, weights, weights, None, [1.0], "w", 3]))
    bias = data.draw(st.one_of(st.none(), st.none(), garbage.anything))
    bound = tried(callee.title, lambda: callee.op().bind(chosen, bias))
    if bound is None:
        return
    first = data.draw(garbage.changed_array(callee.shapes[0]))
    third = data.draw(st.one_of(st.just(callee.third), st.none(), garbage.anything))

    result = tried(callee.title, lambda: bound(first, third))

    assert result is None or type(result) is np.ndarray


@thorough
@given(data=st.data())
def test_texts_of_any_kind(data: st.DataObject) -> None:
    """from_xml reads a layer, or refuses; the title is the reader's or the operator's."""
    sound = (
        '<layer type="ConvolutionBackpropData"><data strides="2,1" dilations="1,1" '
        'pads_begin="0,0" pads_end="0,0"/><input><port><dim>2</dim><dim>4</dim><dim>3</dim>'
        "<dim>4</dim></port><port><dim>4</dim><dim>6</dim><dim>3</dim><dim>2</dim></port>"
        "</input></layer>"
    )
    start = data.draw(st.integers(0, len(sound)))
    stop = data.draw(st.integers(start, min(start + 9, len(sound))))
    text = sound[:start] + data.draw(st.text(max_size=5)) + sound[stop:]
    try:
        named = openvino.from_xml(text).operator.title()
    except TconvError as error:
        named = error.op

    assert named in ("openvino from_xml", "openvino ConvolutionBackpropData")


def test_the_check_of_errors_can_fail() -> None:
    """An error of another kind is not taken for a refusal."""
    with pytest.raises(ZeroDivisionError):
        tried("tconv conv", lambda: 1 // 0)
