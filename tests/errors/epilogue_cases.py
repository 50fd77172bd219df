"""What is done to sums before they are stored: a bias given by name, and activations."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from errors.callees import OPERATORS, Callee
from errors.case import Case

RULE_FIX = 'for example activation="relu" or activation=("leaky_relu", 0.2)'

# name -> (value, what the first line says of it, the fix)
ACTIVATIONS: dict[str, tuple[Any, str, str]] = {
    "number": (3, "activation is 3, neither a name nor a pair.", RULE_FIX),
    "truth": (True, "activation is True, neither a name nor a pair.", RULE_FIX),
    "bytes": (b"relu", "activation is b'relu', neither a name nor a pair.", RULE_FIX),
    "function": (np.tanh, "activation is <ufunc 'tanh'>, neither a name nor a pair.", RULE_FIX),
    "empty pair": ((), "activation is (), neither a name nor a pair.", RULE_FIX),
    "three": (("elu", 1, 2), "activation is ('elu', 1, 2), neither a name nor a pair.", RULE_FIX),
    "turned round": ((0.2, "elu"), "activation is (0.2, 'elu'), neither ...", RULE_FIX),
    "near": ("LeakyReLU", "activation is 'LeakyReLU', which is none of its words.",
             "did you mean 'leaky_relu'?"),
    "unknown": ("xyz", "activation is 'xyz', which is none of its words.",
                "pass one of: relu, ..."),
    "empty": ("", "activation is '', which is none of its words.", "..."),
    "slope too many": (("relu", 0.2), "activation is ('relu', 0.2), but relu has no slope.",
                       RULE_FIX),
    "text slope": (["elu", "1"], "activation is ['elu', '1'], and its slope is not ...", RULE_FIX),
    "truth slope": (("elu", True), "activation is ('elu', True), and its slope is not ...",
                    RULE_FIX),
    "no slope": (("elu", None), "activation is ('elu', None), and its slope is not ...", RULE_FIX),
    "complex slope": (("elu", 1j), "activation is ('elu', 1j), and its slope is not ...", RULE_FIX),
    "infinite slope": (("elu", math.inf), "activation is ('elu', inf), and its slope is not ...",
                       RULE_FIX),
    "nan slope": (("elu", math.nan), "activation is ('elu', nan), and its slope is not ...",
                  RULE_FIX),
    "endless slope": (("elu", 10**400), "activation is ('elu', 1000...", RULE_FIX),
}  # fmt: skip


def _activations(callee: Callee) -> Iterator[Case]:
    second = callee.arrays()[1]
    for note, (value, wrong, fix) in ACTIVATIONS.items():
        yield Case(
            f"{callee.name}-activation {note}",
            callee.title,
            wrong,
            lambda value=value: callee.op().bind(second, activation=value),  # type: ignore[misc]
            fix=fix,
        )
    if "Weights" in callee.name:
        yield Case(
            f"{callee.name}-activation of weights",
            callee.title,
            "its result takes no activation.",
            lambda: callee.op().bind(second, activation="relu"),
        )


def _biases(callee: Callee) -> Iterator[Case]:
    arrays, bias = callee.arrays(), callee.bias()
    if bias is None:
        given = np.ones(4, np.float32)
        wrong = "it takes no bias."
        yield Case(
            f"{callee.name}-bias= without one",
            callee.title,
            wrong,
            lambda: callee.op()(*arrays, bias=given),
        )
        return
    yield Case(
        f"{callee.name}-bias twice",
        callee.title,
        "the bias is given twice.",
        lambda: callee.op()(*arrays, bias, bias=bias),
    )
    yield Case(
        f"{callee.name}-bias= too long",
        callee.title,
        f"{callee.kind.third} has shape (7,), but shape ...",
        lambda: callee.op()(*arrays, bias=np.ones(7, np.float32)),
    )


CASES = [
    case
    for callee in OPERATORS.values()
    for cases in (_activations, _biases)
    for case in cases(callee)
]
