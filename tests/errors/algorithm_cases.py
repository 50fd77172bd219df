"""Algorithms that do not exist, and those that cannot do what they are asked for."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import tconv
from errors.callees import OPERATORS
from errors.case import Case

NO_ALGORITHMS: dict[str, Any] = {
    "another word": "fft",
    "capitals": "Winograd",
    "empty": "",
    "number": 3,
    "truth": True,
    "list": ["direct"],
    "array": np.ones(3),
}


def _unknown() -> Iterator[Case]:
    for callee in OPERATORS.values():
        second = callee.arrays()[1]
        for note, value in NO_ALGORITHMS.items():
            wrong = "there is no algorithm ..."
            yield Case(
                f"{callee.name}-bind by {note}",
                callee.title,
                wrong,
                lambda callee=callee, second=second, value=value: callee.op().bind(  # type: ignore[misc]
                    second, algorithm=value
                ),
            )
            yield Case(
                f"{callee.name}-plan by {note}",
                callee.title,
                wrong,
                lambda callee=callee, value=value: callee.op().plan(  # type: ignore[misc]
                    *callee.shapes, callee.third, algorithm=value
                ),
            )


def _impossible() -> Iterator[Case]:
    for callee in OPERATORS.values():
        if callee.name == "openvino.ConvolutionBackpropData":
            continue  # without groups it has channels enough
        first, second = callee.arrays()
        wrong = "algorithm is 'winograd', but ..."
        yield Case(
            f"{callee.name}-plan of what cannot be transformed",
            callee.title,
            wrong,
            lambda callee=callee: callee.op().plan(  # type: ignore[misc]
                *callee.shapes, callee.third, algorithm="winograd"
            ),
            kind=tconv.UnsupportedError,
            fix="leave algorithm out",
        )
        if callee.third is None:
            yield Case(
                f"{callee.name}-bound call of what cannot be transformed",
                callee.title,
                wrong,
                lambda callee=callee, first=first, second=second: callee.op().bind(  # type: ignore[misc]
                    second, algorithm="winograd"
                )(first),
                kind=tconv.UnsupportedError,
                fix="leave algorithm out",
            )


CASES = [*_unknown(), *_impossible()]
