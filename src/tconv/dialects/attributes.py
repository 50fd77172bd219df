"""Parse attributes as people write them into one canonical value, once."""

import difflib
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tconv.errors import ProblemError

LARGEST = 2**63 - 1  # every document stores its numbers in 64 bits

Parse = Callable[[str, str, object], object]
"""``parse(operator's title, attribute's name, value) -> canonical value``, or raise."""


def attribute(parse: Parse, **default: object) -> Any:  # noqa: ANN401 - as dataclasses.field
    """Declare an attribute of an operator: how it is parsed, and its default if it has one."""
    return field(metadata={"parse": parse}, **default)  # type: ignore[call-overload]


def integer(minimum: int) -> Parse:
    """Parse one whole number of at least ``minimum``."""

    def parse(title: str, name: str, value: object) -> int:
        number = _whole(value)
        if number is None:
            raise _refuse(
                title,
                name,
                value,
                f"{name} is {shown(value)}, not a whole number.",
                rule=f"{name} is one whole number of at least {minimum}",
                fix=f"pass a Python or NumPy integer, for example {name}={max(minimum, 1)}",
            )
        _check_range(title, name, value, [number], minimum)
        return number

    return parse


def integers(minimum: int) -> Parse:
    """Parse a list of whole numbers of at least ``minimum``, or None."""

    def parse(title: str, name: str, value: object) -> tuple[int, ...] | None:
        if value is None:
            return None
        numbers = whole_numbers(value)
        if numbers is None:
            raise _refuse(
                title,
                name,
                value,
                f"{name} is {shown(value)}, not a list of whole numbers.",
                rule=f"{name} has one whole number of at least {minimum} for each spatial axis",
                fix=f"pass a list, tuple or NumPy array of integers, for example {name}=[1, 1]",
            )
        _check_range(title, name, value, numbers, minimum)
        return numbers

    return parse


def sizes(title: str, name: str, value: object) -> tuple[int, ...] | None:
    """Parse the shape of a result, whose first size may be an empty batch, or None."""
    numbers = integers(0)(title, name, value)
    if isinstance(numbers, tuple):
        _check_range(title, name, value, numbers[1:], 1)
        return numbers
    return None


def word(choices: Sequence[str], aliases: Mapping[str, str] | None = None) -> Parse:
    """Parse one of a document's words in any case; None is the word "none" if there is one."""
    known = {choice.lower(): choice for choice in choices} | dict(aliases or {})

    def parse(title: str, name: str, value: object) -> str:
        text = "none" if value is None else value
        if isinstance(text, str) and text.lower() in known:
            return known[text.lower()]
        near = nearest(text, known) if isinstance(text, str) else None
        listed = ", ".join(choices)
        raise _refuse(
            title,
            name,
            value,
            f"{name} is {shown(value)}, which is none of its words.",
            rule=f"{name} is one of: {listed}",
            fix=f"did you mean {known[near]!r}?" if near else f"pass one of: {listed}",
        )

    return parse


def choice(*choices: object) -> Parse:
    """Parse a value that must be one of ``choices`` as they stand."""

    def parse(title: str, name: str, value: object) -> object:
        if any(
            value is known or (type(value) is type(known) and value == known) for known in choices
        ):
            return value
        listed = ", ".join(map(repr, choices))
        raise _refuse(
            title,
            name,
            value,
            f"{name} is {shown(value)}.",
            rule=f"{name} is one of: {listed}",
            fix=f"pass one of: {listed}",
        )

    return parse


def whole_numbers(value: object) -> tuple[int, ...] | None:
    """Return a list-like of whole numbers as a tuple, or None when it is no such thing.

    >>> whole_numbers([2, True]) is None, whole_numbers(range(3))
    (True, (0, 1, 2))
    """
    if isinstance(value, np.ndarray):
        masked = isinstance(value, np.ma.MaskedArray)
        if masked or value.ndim != 1 or value.dtype.kind not in "iu":
            return None
        return tuple(int(number) for number in value)
    if not isinstance(value, list | tuple | range):
        return None
    numbers = [_whole(number) for number in value]
    return None if None in numbers else tuple(n for n in numbers if n is not None)


def nearest(text: str, known: Iterable[str]) -> str | None:
    """Return the known word most like a mistyped one.

    >>> nearest("stride", ["strides", "pads_begin"])
    'strides'
    """
    found = difflib.get_close_matches(text.lower(), list(known), n=1, cutoff=0.5)
    return found[0] if found else None


def _whole(value: object) -> int | None:
    """Return a Python or NumPy integer as int; truth values are no numbers here."""
    if isinstance(value, bool | np.bool_ | np.ndarray):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def _check_range(
    title: str, name: str, value: object, numbers: Sequence[int], minimum: int
) -> None:
    for number in numbers:
        if abs(number) > LARGEST:
            raise _refuse(
                title,
                name,
                value,
                f"{name} has {digits(number)}, which overflows 64 bits.",
                rule=f"{name} <= 2**63 - 1",
                fix="pass smaller values",
            )
        if number < minimum:
            kind = {0: "non-negative", 1: "positive"}.get(minimum, f"at least {minimum}")
            raise _refuse(
                title,
                name,
                value,
                f"{name} has {number}, but its values are {kind}."
                if isinstance(value, Sequence | np.ndarray)
                else f"{name} is {number}.",
                rule=f"{name} >= {minimum}",
                fix=f"pass values of at least {minimum}",
            )


def digits(number: int) -> str:
    """Print a whole number, or how long it is where Python would refuse to print it.

    >>> digits(10**9), digits(2**99999)
    ('1000000000', 'a number of 100000 bits')
    """
    return str(number) if number.bit_length() < 1000 else f"a number of {number.bit_length()} bits"


def shown(value: object, most: int = 60) -> str:
    """Print a value for a message: short, and whatever it is.

    >>> shown([1] * 100)
    '[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1...'
    """
    if isinstance(value, list | tuple) and len(value) > most:
        value = value[:most]  # a million numbers are not worth printing first
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a value's own repr may raise anything
        return f"a {type(value).__name__}"
    text = " ".join(text.split())  # one line
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _refuse(  # noqa: PLR0913 - the parts of a message
    title: str, name: str, value: object, wrong: str, *, rule: str, fix: str
) -> ProblemError:
    return ProblemError(
        title, wrong, got={name: shown(value)}, rule=f"{rule}   (attribute {name})", fix=fix
    )
