"""Read operators, attributes and shapes from the words of a command line."""

import dataclasses
import re
from collections.abc import Iterable, Sequence

from tconv import onednn, onnx, openvino
from tconv.calls import Runnable
from tconv.dialects.attributes import nearest
from tconv.errors import ProblemError

NUMBERS = re.compile(r"-?\d+(,-?\d+)*,?")


def operators() -> dict[str, type[Runnable]]:
    """Return every operator by the name that the command line uses."""
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": kind
        for module in (onednn, openvino, onnx)
        for name in module.__all__
        if isinstance(kind := getattr(module, name), type) and issubclass(kind, Runnable)
    }


def find_operator(name: str) -> type[Runnable]:
    """Return the operator of a name in any case.

    >>> find_operator("onnx.convtranspose").__name__
    'ConvTranspose'
    """
    known = {key.lower(): kind for key, kind in operators().items()}
    if name.lower() in known:
        return known[name.lower()]
    near = nearest(name, known)
    names = {key.lower(): key for key in operators()}
    raise ProblemError(
        "tconv",
        f"there is no operator {name!r:.60}.",
        got={},
        rule="an operator is named DIALECT.NAME, as `tconv ops` lists them",
        fix=f"did you mean {names[near]}?"
        if near
        else "choose one of: " + ", ".join(names.values()),
    )


def parse_attributes(kind: type[Runnable], texts: Sequence[str]) -> dict[str, object]:
    """Return the attributes given as ``NAME=VALUE``; their values are checked by the operator.

    >>> parse_attributes(onednn.Convolution, ["strides=2,2", "groups=4", "auto_pad=valid"])
    {'strides': [2, 2], 'groups': 4, 'auto_pad': 'valid'}
    """
    fields = {each.name: each for each in dataclasses.fields(kind)}
    values: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name in values:
            raise ProblemError(
                kind.title(),
                f"--attr {text!r:.60} {'repeats ' + name if equals else 'has no value'}.",
                got={},
                rule="--attr NAME=VALUE, once for each attribute",
                fix="write for example --attr strides=2,2",
            )
        single = name in fields and isinstance(fields[name].default, int)
        values[name] = _value(value, single=single)
    return values


def parse_shape_text(text: object) -> tuple[int | None, ...]:
    """Return the sizes of a shape such as ``1x20x224x224``, with ``?`` for one not known.

    >>> parse_shape_text("1x?x4")
    (1, None, 4)
    """
    parts = re.split(r"[x,]", str(text).strip())
    if not all(part == "?" or (part.isascii() and part.isdigit()) for part in parts):
        raise ProblemError(
            "tconv",
            f"{text!r:.60} is not a shape.",
            got={},
            rule="a shape is sizes joined by x, with ? for one that is not known",
            fix="write for example 1x20x224x224",
        )
    return tuple(None if part == "?" else int(part) for part in parts)


def shape_word(shape: Iterable[int | None], joint: str = "x") -> str:
    """Print a shape as the command line reads it.

    >>> shape_word((1, None, 4))
    '1x?x4'
    """
    return joint.join("?" if size is None else str(size) for size in shape)


def _value(text: str, *, single: bool) -> object:
    """Return numbers as numbers; whatever else it is, the operator will say."""
    if text == "":
        return []
    if not NUMBERS.fullmatch(text):
        return text
    numbers = [int(part) for part in text.rstrip(",").split(",")]
    return numbers[0] if single and len(numbers) == 1 else numbers
