"""Read operators, attributes and shapes from the words of a command line."""

import argparse
import dataclasses
import re
from collections.abc import Iterable, Sequence

from tconv import onednn, onnx, openvino
from tconv.benchdnn import Asked, read_problem
from tconv.calls import Runnable
from tconv.dialects.attributes import nearest
from tconv.errors import ProblemError
from tconv.ops import FUNCTIONS

NUMBERS = re.compile(r"-?\d+(,-?\d+)*,?")


def operators() -> dict[str, type[Runnable]]:
    """Return every operator by the name that the command line uses."""
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": kind
        for module in (onednn, openvino, onnx)
        for name in module.__all__
        if isinstance(kind := getattr(module, name), type) and issubclass(kind, Runnable)
    }


def named() -> dict[str, type[Runnable]]:
    """Return every operator, and every function as ``tconv.conv`` and so on."""
    return {**operators(), **{f"tconv.{name}": kind for name, kind in FUNCTIONS.items()}}


def operator_name(kind: type[Runnable]) -> str:
    """Return the name of an operator on the command line.

    >>> operator_name(FUNCTIONS["conv_transpose"])
    'tconv.conv_transpose'
    """
    return next(name for name, each in named().items() if each is kind)


def find_operator(name: str) -> type[Runnable]:
    """Return the operator of a name in any case; ``torch.conv2d`` and the like are tconv's own.

    >>> find_operator("onnx.convtranspose").__name__
    'ConvTranspose'
    >>> find_operator("torch.conv_transpose2d").title()
    'tconv conv_transpose'
    """
    known = {key.lower(): kind for key, kind in named().items()}
    plain = re.sub(r"^torch\.(conv\w*?)([123]d)?$", r"tconv.\1", name.lower())
    if plain in known:
        return known[plain]
    near = nearest(name, known)
    names = {key.lower(): key for key in named()}
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


def two_or_three(op: Runnable, given: Sequence[object]) -> list[object]:
    """Refuse too few or too many inputs in the operator's own words."""
    names = [*op.inputs, *([op.third] if op.third else [])]
    if not 2 <= len(given) <= len(names):
        raise ProblemError(
            op.title(),
            f"{len(given)} inputs were given.",
            got={"inputs": " ".join(map(str, given))},
            rule=f"the inputs are {', '.join(names)}   ({op.document})",
            fix=f"pass {' or '.join(map(str, range(2, len(names) + 1)))} inputs",
        )
    return list(given)


def read_asked(options: argparse.Namespace) -> Asked:
    """Return the operator and the shapes that a command line names, in words or as a problem."""
    if options.problem is None:
        kind = find_operator(options.op)
        op = kind(**parse_attributes(kind, options.attr))
        shapes = tuple(parse_shape_text(text) for text in two_or_three(op, options.words))
        return Asked(op, shapes, "float32")
    if options.attr or len(options.words) > 1:
        raise ProblemError(
            "tconv --problem",
            "there are attributes or shapes beside a problem.",
            got={"words": " ".join([*options.attr, *map(str, options.words)])},
            rule="a problem has all attributes and shapes in itself",
            fix="leave --problem out, or everything else",
        )
    kinds = [find_operator(str(word)) for word in options.words]
    return read_problem(options.problem, *kinds)


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
