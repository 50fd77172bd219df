"""Operators are values: frozen, comparable, printable, and safe to pass around."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import tconv
from errors.callees import OPERATORS
from inputs.forms import bits

each_operator = pytest.mark.parametrize("name", list(OPERATORS))
NAMESPACE = {"onednn": tconv.onednn, "openvino": tconv.openvino, "onnx": tconv.onnx}


def settle(value: Any) -> Any:  # noqa: ANN401 - any attribute
    """Return an attribute in another spelling of the same value."""
    return np.array(value) if isinstance(value, tuple) else np.int16(value)


@each_operator
def test_the_spelling_of_attributes_does_not_matter(name: str) -> None:
    """Lists, tuples and arrays of the same numbers make equal operators with equal hashes."""
    callee = OPERATORS[name]
    lists = {k: list(v) if isinstance(v, tuple) else v for k, v in callee.attributes.items()}
    arrays = {k: settle(v) for k, v in callee.attributes.items()}
    op = callee.op()

    for other in (callee.kind(**lists), callee.kind(**arrays)):
        assert op == other
        assert hash(op) == hash(other)
        assert repr(op) == repr(other)
        assert {op: 1}[other] == 1


@each_operator
def test_words_are_the_same_in_any_case(name: str) -> None:
    """Valid, VALID and valid are one word."""
    callee = OPERATORS[name]
    rest = {k: v for k, v in callee.attributes.items() if not k.startswith("pads")}
    ops = {callee.kind(**rest, auto_pad=word) for word in ("valid", "VALID", "Valid")}

    assert len(ops) == 1


@each_operator
def test_operators_with_other_attributes_or_other_names_differ(name: str) -> None:
    """Equal means: the same operator with the same attributes."""
    callee = OPERATORS[name]
    op = callee.op()
    others = [each.op() for other, each in OPERATORS.items() if other != name]

    assert op != callee.op(strides=(1, 1))
    assert op not in others
    assert op != callee.attributes
    assert (op == 5) is False


@each_operator
def test_operators_are_frozen(name: str) -> None:
    """Neither an attribute nor a mistyped one can be set, and none can be deleted."""
    op = OPERATORS[name].op()
    before = hash(op), repr(op)
    for attribute in ("strides", "stride", "anything"):
        with pytest.raises(AttributeError):
            setattr(op, attribute, (3, 3))
    with pytest.raises(AttributeError):
        del op.strides

    assert (hash(op), repr(op)) == before


@each_operator
def test_changing_a_list_afterwards_changes_no_operator(name: str) -> None:
    """Attributes are copied when they are parsed."""
    callee = OPERATORS[name]
    strides, dilations = [2, 1], np.array([1, 2])
    op = callee.op(strides=strides, dilations=dilations)
    strides[0] = 9
    dilations[0] = 9

    assert op == callee.op()


@each_operator
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_operators_survive_pickling(name: str, protocol: int) -> None:
    """With every protocol, and the copy computes the same."""
    callee = OPERATORS[name]
    op = callee.op()

    other = pickle.loads(pickle.dumps(op, protocol))  # noqa: S301 - our own bytes

    assert other == op
    assert type(other) is type(op)
    assert bits(other(*callee.arrays(), callee.third)) == bits(callee.run(*callee.arrays()))


@each_operator
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_operators_can_be_copied(name: str, duplicate: Any) -> None:  # noqa: ANN401 - a function of copy
    """A copy is equal, whatever kind of copy it is."""
    op = OPERATORS[name].op()

    assert duplicate(op) == op
    assert duplicate([op]) == [op]


@each_operator
def test_a_printed_operator_can_be_read_back(name: str) -> None:
    """Its text is the code that makes it, under the document's name."""
    callee = OPERATORS[name]
    plain = {"strides": (1,), "dilations": (1,), "pads_begin": (0,), "pads_end": (0,)}
    small = callee.kind(**({} if name.startswith("onnx") else plain))
    for op in (callee.op(), small, _decorated(name)):
        assert repr(op).startswith(f"{name}(")
        assert eval(repr(op), {"__builtins__": {}}, NAMESPACE) == op  # noqa: S307 - our own text


def _decorated(name: str) -> Any:  # noqa: ANN401 - any operator
    """Return the operator with every attribute away from its default."""
    callee = OPERATORS[name]
    rare = {
        "auto_pad": "SAME_LOWER",
        "data_format": "NCX",
        "weights_format": "IOX",
        "filter_format": "OIX",
        "output_padding": (1, 0),
        "output_shape": (6, 4),
        "dst_shape": (6, 4),
        "weights_shape": (3, 2, 3, 4),
        "reading": "document",
        "kernel_shape": (3, 2),
        "opset": 11,
    }
    fields = callee.kind.__dataclass_fields__
    chosen = {k: v for k, v in rare.items() if k in fields}
    return callee.op(**chosen, **({"pads": None} if "pads" in fields else {}))


@each_operator
def test_defaults_are_not_printed(name: str) -> None:
    """The text shows what was chosen, not what every operator has."""
    callee = OPERATORS[name]

    assert "reading" not in repr(callee.op())
    assert "auto_pad" not in repr(callee.op())


def test_documents_keep_operators_of_one_name_apart() -> None:
    """Both oneDNN and OpenVINO have a Convolution."""
    words: Any = {"strides": [1], "dilations": [1], "pads_begin": [0], "pads_end": [0]}

    assert len({tconv.onednn.Convolution(**words), tconv.openvino.Convolution(**words)}) == 2


@each_operator
def test_asking_for_shapes_computes_nothing_and_gives_whole_numbers(name: str) -> None:
    """infer_shape and resolve_pads return plain Python integers."""
    callee = OPERATORS[name]
    op = callee.op()
    shapes = [np.array(shape) for shape in callee.shapes]

    shape = op.infer_shape(*shapes, callee.third)
    begin, end = op.resolve_pads(*shapes, callee.third)

    assert shape == callee.result
    assert (begin, end) == ((1, 1), (1, 1))
    assert all(type(size) is int for size in (*shape, *begin, *end))
