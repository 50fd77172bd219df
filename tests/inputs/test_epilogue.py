"""Bias and activation, as they are given to operators."""

import pickle

import numpy as np
import pytest

import tconv
from errors.callees import OPERATORS, Callee
from tconv import calls, engine
from tconv.problem import Activation, Operand
from tconv.problem.activation import SLOPES
from tconv.quick import activated

DATA = {name: each for name, each in OPERATORS.items() if each.kind.wanted is not Operand.WEIGHTS}
BIASED = {name: each for name, each in DATA.items() if each.bias() is not None}
DTYPES = ("float32", "float64", "float16", "bfloat16")

each_operator = pytest.mark.parametrize("name", DATA)
each_biased = pytest.mark.parametrize("name", BIASED)


def called(callee: Callee, dtype: str) -> tuple[object, ...]:
    """Return what a bound operator is called with."""
    first = callee.arrays(dtype)[0]
    return (first,) if callee.third is None else (first, callee.third)


@each_operator
@pytest.mark.parametrize("dtype", DTYPES)
def test_relu_of_the_result_is_the_result_with_relu(name: str, dtype: str) -> None:
    """Whole numbers leave no rounding between the two; the second call is the quick one."""
    callee = DATA[name]
    first, second = callee.arrays(dtype)
    bias = callee.bias(dtype)
    bound = callee.op().bind(second, bias, activation="relu")
    expected = np.maximum(callee.run(first, second, bias), 0)

    for _ in range(3):
        np.testing.assert_array_equal(bound(*called(callee, dtype)), expected)
    assert (expected > 0).any()
    assert (expected == 0).any()


@each_biased
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_bias_may_be_given_by_name(name: str, dtype: str) -> None:
    """On a call as on bind: bound, it takes the quick way too."""
    callee = BIASED[name]
    first, second = callee.arrays(dtype)
    bias = callee.bias(dtype)
    expected = callee.op()(first, second, bias)
    bound = callee.op().bind(second, bias=bias)

    np.testing.assert_array_equal(callee.op()(first, second, bias=bias), expected)
    for _ in range(3):
        np.testing.assert_array_equal(bound(first), expected)
    assert (expected != callee.op()(first, second)).any()


def test_a_bound_bias_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call checks nothing again."""
    data, weights = np.ones((1, 3, 9), np.float32), np.ones((3, 4, 3), np.float32)
    bias = np.arange(4, dtype=np.float32)
    bound = tconv.onnx.ConvTranspose(strides=[2]).bind(weights, bias, activation="tanh")
    expected = bound(data)
    monkeypatch.setattr(calls, "_compute", None)

    np.testing.assert_array_equal(bound(data), expected)


def test_what_is_bound_is_a_copy_of_the_bias() -> None:
    """Changing the array afterwards changes nothing, on the quick way either."""
    data, weights = np.zeros((1, 3, 9), np.float32), np.ones((3, 4, 3), np.float32)
    bias = np.ones(4, np.float32)
    bound = tconv.onnx.ConvTranspose().bind(weights, bias)
    expected = bound(data)
    bias[:] = 5

    np.testing.assert_array_equal(bound(data), expected)
    assert (expected == 1).all()


@pytest.mark.parametrize("activation", SLOPES)
def test_infinite_weights_take_the_other_way_with_their_activation(activation: str) -> None:
    """Zeros around the picture never meet an infinity, and the activation is not forgotten."""
    data, weights = np.ones((1, 3, 5, 5), np.float32), np.ones((6, 3, 3, 3), np.float32)
    weights[0, 0, 0, 0] = np.inf
    op = tconv.onnx.Conv(pads=[1, 1, 1, 1])
    expected = Activation(activation, SLOPES[activation] or 0.0)(op(data, weights))

    np.testing.assert_array_equal(op.bind(weights, activation=activation)(data), expected)


def test_a_bound_activation_crosses_process_borders() -> None:
    """It is part of what was bound, and of what is printed."""
    data, weights = np.ones((1, 3, 9), np.float32), np.ones((3, 4, 3), np.float32)
    bound = tconv.onnx.ConvTranspose().bind(-weights, activation=("leaky_relu", 0.25))
    again = pickle.loads(pickle.dumps(bound))  # noqa: S301 - our own bytes

    np.testing.assert_array_equal(again(data), bound(data))
    assert repr(again) == repr(bound)
    assert repr(bound).endswith(".bind(W (3, 4, 3), leaky_relu(0.25))")


def test_activations_share_packed_weights_and_kernels() -> None:
    """One plan for each, but none repacks or recompiles what sums."""
    problem = tconv.onnx.Conv().problem((1, 64, 8, 8), (32, 64, 3, 3))
    plain = engine.executable(problem)
    shared = [engine.executable(activated(problem, Activation(name))) for name in ("relu", "tanh")]

    assert {run.packing for run in (plain, *shared)} == {plain.packing}
    assert {run._compiled.kernel for run in (plain, *shared)} == {plain._compiled.kernel}  # noqa: SLF001 - told nowhere else


def test_the_plan_names_the_activation() -> None:
    """In the step that stores."""
    problem = tconv.onnx.Conv().problem((1, 64, 8, 8), (32, 64, 3, 3))
    for each, shown in ((Activation("relu"), "relu, "), (Activation("elu", 2.0), "elu(2), ")):
        text = str(engine.plan(activated(problem, each)))

        assert f"store         {shown}layout" in text
