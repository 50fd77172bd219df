"""Whatever is passed, only errors of this package come out."""

import os
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import tconv
from errors import garbage
from errors.callees import CALLEES, OPERATORS
from tconv import openvino
from tconv.errors import TconvError

T = TypeVar("T")

each_callee = pytest.mark.parametrize("name", list(CALLEES))
each_operator = pytest.mark.parametrize("name", list(OPERATORS))
thorough = settings(
    max_examples=int(os.environ.get("TCONV_FUZZ", "100")),
    deadline=None,
    derandomize="TCONV_FUZZ" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


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


@each_callee
@thorough
@given(data=st.data())
def test_shapes_and_attributes_of_any_kind(name: str, data: st.DataObject) -> None:
    """Constructors, infer_shape and resolve_pads answer, or refuse in their own words."""
    callee = CALLEES[name]
    attributes = data.draw(garbage.changed_attributes(callee))
    op = tried(callee.title, lambda: callee.op(**attributes))
    assume(op is not None)
    shapes: list[Any] = [data.draw(garbage.changed_shape(shape)) for shape in callee.shapes]
    third: Any = callee.third
    if third is not None or data.draw(st.booleans()):
        third = data.draw(garbage.changed_shape(third or (4,)))
    place = data.draw(st.sampled_from([0, 1, 2, None, None, None]))
    if place == 2:
        third = data.draw(garbage.anything)
    elif place is not None:
        shapes[place] = data.draw(garbage.anything)

    inferred = tried(callee.title, lambda: op.infer_shape(*shapes, third))
    pads = tried(callee.title, lambda: op.resolve_pads(*shapes, third))

    assert (inferred is None) == (pads is None)
    assert inferred is None or all(each is None or type(each) is int for each in inferred)


@each_operator
@thorough
@given(data=st.data())
def test_plans_of_any_shape(name: str, data: st.DataObject) -> None:
    """A plan prints itself, or is refused."""
    callee = CALLEES[name]
    shapes = [data.draw(garbage.changed_shape(shape)) for shape in callee.shapes]
    third = data.draw(garbage.changed_shape(callee.third)) if callee.third else None
    dtype = data.draw(st.sampled_from(["float32", "bfloat16", "f2", np.float64, "int32", object]))
    # How long planning a window without end takes is another test's question.
    assume(all(each is None or each < 99 for shape in (*shapes, third or ()) for each in _flat(shape)))

    plan = tried(callee.title, lambda: callee.op().plan(*shapes, third, dtype=dtype))

    assert plan is None or "float" in str(plan)


def _flat(shape: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a shape or one size
    return shape if isinstance(shape, tuple) else (shape,)


@each_callee
@thorough
@given(data=st.data())
def test_calls_with_arrays_of_any_shape(name: str, data: st.DataObject) -> None:
    """A call computes what infer_shape promised, or is refused; ``out`` is no exception."""
    callee = CALLEES[name]
    attributes = data.draw(garbage.changed_attributes(callee))
    dtypes = st.sampled_from(["f4", "f4", "f4", "f4", "f2", "f8", "i4", ">f4", "?", "O", "U3"])
    arrays = []
    for shape in callee.shapes:
        sizes = data.draw(garbage.changed_shape(shape))
        assume(all(each is not None and 0 <= each < 9 for each in sizes))
        arrays.append(np.zeros(sizes, data.draw(dtypes)))
    third: Any = callee.third
    if data.draw(st.booleans()):
        third = data.draw(st.one_of(garbage.anything, garbage.changed_shape(third or (4,))))
    out = data.draw(st.one_of(st.none(), st.none(), st.none(), garbage.anything))

    op = tried(callee.title, lambda: callee.op(**attributes))
    assume(op is not None)
    result = tried(callee.title, lambda: callee.run(*arrays, third, out=out, **attributes))
    if result is None or third is None or callee.bias() is not None:
        return

    assert result.shape == op.infer_shape(*(array.shape for array in arrays), third)


@each_operator
@thorough
@given(data=st.data())
def test_bindings_of_any_kind(name: str, data: st.DataObject) -> None:
    """Binding and bound calls refuse in their own words."""
    callee = CALLEES[name]
    sizes = data.draw(garbage.changed_shape(callee.shapes[1]))
    assume(all(each is not None and 0 <= each < 9 for each in sizes))
    weights = np.zeros(sizes, data.draw(st.sampled_from(["f4", "f4", "f4", "f2", "i4", ">f4"])))
    chosen = data.draw(st.sampled_from([weights, weights, weights, None, [1.0], "w", 3]))
    bias = data.draw(st.one_of(st.none(), st.none(), garbage.anything))
    bound = tried(callee.title, lambda: callee.op().bind(chosen, bias))
    assume(bound is not None)
    first = np.zeros(callee.shapes[0], np.float32)
    third = data.draw(st.one_of(st.none(), garbage.anything))

    result = tried(callee.title, lambda: bound(first, third))

    assert result is None or isinstance(result, np.ndarray)


@settings(thorough, max_examples=300)
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
        layer = openvino.from_xml(text)
    except TconvError as error:
        named = error.op
    else:
        named = f"openvino {type(layer.operator).__name__}"

    assert named in ("openvino from_xml", "openvino ConvolutionBackpropData")


def test_the_check_of_errors_can_fail() -> None:
    """An error of another kind is not taken for a refusal."""
    with pytest.raises(ZeroDivisionError):
        tried("tconv conv", lambda: 1 // 0)
