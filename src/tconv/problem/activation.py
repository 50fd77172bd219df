"""What may be done to every sum before it is rounded and stored."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[Any]

SLOPES: dict[str, float | None] = {
    "relu": None,
    "leaky_relu": 0.01,
    "relu6": None,
    "elu": 1.0,
    "hardsigmoid": None,
    "hardswish": None,
    "sigmoid": None,
    "silu": None,
    "tanh": None,
    "gelu": None,
}
"""Every activation, and the usual slope of those that have one: torch's names and defaults."""


@dataclass(frozen=True, slots=True)
class Activation:
    """One of :data:`SLOPES`, with its slope where it has one.

    >>> print(Activation("relu"), Activation("leaky_relu", 0.2))
    relu leaky_relu(0.2)
    """

    name: str
    slope: float = 0.0

    def __str__(self) -> str:
        """Print as people write it."""
        return self.name if SLOPES[self.name] is None else f"{self.name}({self.slope:g})"

    def __call__(self, values: Floats) -> Floats:
        """Return the activation of every value, in the values' type; NaN stays NaN.

        >>> Activation("leaky_relu", 0.5)(np.array([-2.0, 3.0]))
        array([-1.,  3.])
        """
        with np.errstate(all="ignore"):
            return np.asarray(FORMULAS[self.name](values, self.slope), values.dtype)


def _sigmoid(values: Floats) -> Floats:
    # The exponential of a positive number could overflow.
    small = np.exp(-np.abs(values))
    result: Floats = np.where(values < 0, small, 1) / (1 + small)
    return result


def _normal(values: Floats) -> Floats:
    """Return the probability of a smaller normal number, which NumPy does not know."""
    flat = [math.erfc(-value / math.sqrt(2)) / 2 for value in values.ravel().tolist()]
    return np.array(flat, np.float64).reshape(values.shape)


def _relu6(values: Floats) -> Floats:
    return np.clip(values, 0, 6)


FORMULAS: dict[str, Callable[[Floats, float], Floats]] = {
    "relu": lambda x, _: np.maximum(x, 0),
    "leaky_relu": lambda x, slope: np.where(x < 0, x * slope, x),
    "relu6": lambda x, _: _relu6(x),
    "elu": lambda x, slope: np.where(x < 0, slope * np.expm1(np.minimum(x, 0)), x),
    "hardsigmoid": lambda x, _: _relu6(x + 3) / 6,
    "hardswish": lambda x, _: x * (_relu6(x + 3) / 6),
    "sigmoid": lambda x, _: _sigmoid(x),
    "silu": lambda x, _: x * _sigmoid(x),
    "tanh": lambda x, _: np.tanh(x),
    "gelu": lambda x, _: x * _normal(x),
}
