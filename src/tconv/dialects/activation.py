"""The ``activation`` of a bound operator, parsed once."""

import math
from numbers import Real

from tconv.dialects.attributes import shown, word
from tconv.errors import ProblemError
from tconv.problem.activation import SLOPES, Activation

NAME = "activation"
WITH_SLOPE = [name for name, slope in SLOPES.items() if slope is not None]


def parse_activation(title: str, value: object) -> Activation | None:
    """Parse None, a name, or a pair of name and slope.

    >>> parse_activation("conv", ("leaky_relu", 0.2))
    Activation(name='leaky_relu', slope=0.2)
    """
    if value is None:
        return None
    pair = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not pair or len(pair) > 2 or not isinstance(pair[0], str):
        raise _wrong(title, value, f"{NAME} is {shown(value)}, neither a name nor a pair.")
    name = str(word(list(SLOPES))(title, NAME, pair[0]))
    usual = SLOPES[name]
    if len(pair) == 1:
        return Activation(name, usual or 0.0)
    if usual is None:
        raise _wrong(title, value, f"{NAME} is {shown(value)}, but {name} has no slope.")
    slope = _finite(pair[1])
    if slope is None:
        raise _wrong(
            title, value, f"{NAME} is {shown(value)}, and its slope is not a finite number."
        )
    return Activation(name, slope)


def _finite(value: object) -> float | None:
    """Return a Python or NumPy number as float; truth values are no numbers here."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _wrong(title: str, value: object, wrong: str) -> ProblemError:
    listed = ", ".join(SLOPES)
    return ProblemError(
        title,
        wrong,
        got={NAME: shown(value)},
        rule=f"{NAME} is one of: {listed}; or a pair of {' or '.join(WITH_SLOPE)} and its slope",
        fix=f'for example {NAME}="relu" or {NAME}=("{WITH_SLOPE[0]}", 0.2)',
    )
