"""Winograd's transforms of one axis, by exact rational arithmetic.

``F(m, r)`` computes ``m`` neighbouring outputs of ``r`` taps each,
``out[j] = sum of data[j + i] * weights[i]``, with ``m + r - 1`` multiplications::

    out = result @ ((weights_matrix @ weights) * (data_matrix @ data))

Both factors are polynomials known at ``m + r - 1`` points (Toom and Cook); the transpose of
multiplying them is this correlation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

Row = tuple[Fraction, ...]
Matrix = tuple[Row, ...]

# Besides infinity, by their number: those with the least noise among fractions of few digits,
# whose powers floats hold exactly.  A number and its negative share half of their additions.
POINTS: dict[int, tuple[Fraction, ...]] = {
    2: (Fraction(0), Fraction(1)),
    3: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(-1), Fraction(1, 2), Fraction(2)),
    5: (Fraction(0), Fraction(5, 8), Fraction(-5, 8), Fraction(3, 2), Fraction(-3, 2)),
}


@dataclass(frozen=True, slots=True)
class Form:
    """``F(outputs, taps)``: how one axis is transformed.

    >>> str(Form(3, 2)), Form(3, 2).points
    ('F(3,2)', 4)
    """

    outputs: int
    taps: int

    @property
    def points(self) -> int:
        """Return how many products one tile has along the axis, and how many points it reads."""
        return self.outputs + self.taps - 1

    def __str__(self) -> str:
        """Print as the literature does."""
        return f"F({self.outputs},{self.taps})"


@dataclass(frozen=True, slots=True)
class Transforms:
    """The three matrices of a form."""

    data: Matrix  # points x points
    weights: Matrix  # points x taps
    result: Matrix  # outputs x points


@cache
def transforms(form: Form) -> Transforms:
    """Return the matrices of a form.

    Data and result are transformed by small whole numbers or halves, which floats hold
    exactly; what is left to divide by is divided out of the weights.

    >>> for row in transforms(Form(3, 2)).data:
    ...     print(*row)
    -1 0 1 0
    0 1 1 0
    0 -1 1 0
    0 -1 0 1
    >>> for row in transforms(Form(3, 2)).weights:
    ...     print(*row)
    -1 0
    1/2 1/2
    1/2 -1/2
    0 1
    """
    count = form.points
    one = Fraction(1)
    if form.outputs == 1 or form.taps == 1:  # nothing is saved: each product is its own point
        same = tuple(tuple(one * (i == j) for j in range(count)) for i in range(count))
        ones = tuple((one,) for _ in range(count))
        if form.taps == 1:
            return Transforms(same, ones, same)
        return Transforms(same, same, ((one,) * count,))
    finite = POINTS[count - 1]
    data, weights = [], []
    for point in finite:
        others = [other for other in finite if other != point]
        scale = one
        for other in others:
            scale *= point - other
        data.append((*_polynomial(others), Fraction(0)))
        weights.append(tuple(point**power / scale for power in range(form.taps)))
    data.append(_polynomial(finite))
    weights.append(tuple(one * (power == form.taps - 1) for power in range(form.taps)))
    result = tuple(
        (*(point**power for point in finite), one * (power == form.outputs - 1))
        for power in range(form.outputs)
    )
    return Transforms(tuple(data), tuple(weights), result)


@cache
def noise(form: Form, places: tuple[int, ...] = ()) -> float:
    """Return rounding errors as a multiple of those of direct sums, for random numbers.

    Where only some ``places`` have taps, direct sums have fewer terms too.

    Errors of a product grow with the numbers multiplied; on the other hand there are fewer
    terms in a row.  On several axes the factors multiply.

    >>> round(noise(Form(3, 2)), 2), round(noise(Form(2, 3)), 2), round(noise(Form(4, 3)), 2)
    (0.91, 0.75, 1.26)
    """
    made = transforms(form)
    present = places or range(form.taps)
    energies = [
        sum(x * x for x in data) * sum(weights[place] ** 2 for place in present)
        for data, weights in zip(made.data, made.weights, strict=True)
    ]
    total = sum(
        x * x * energy for row in made.result for x, energy in zip(row, energies, strict=True)
    )
    return math.sqrt(total / form.outputs) / len(present)


@cache
def growth(form: Form) -> float:
    """Return how much larger the terms of a form can be than those of its results.

    >>> growth(Form(1, 3)), growth(Form(3, 2))
    (1.0, 4.0)
    """
    made = transforms(form)
    sizes = [sum(map(abs, row)) for row in made.data]
    return float(
        max(
            sum(abs(x * w) * size for x, w, size in zip(row, column, sizes, strict=True))
            for row in made.result
            for column in zip(*made.weights, strict=True)
        )
    )


def _polynomial(roots: Sequence[Fraction]) -> Row:
    """Return the coefficients of the product of ``x - root``, the constant first."""
    made = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *made]
        made = [a - root * b for a, b in zip(shifted, [*made, Fraction(0)], strict=True)]
    return tuple(made)
