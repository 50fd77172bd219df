"""Every statement of docs/numerics.md, against float64 or better."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tconv
from tconv import engine, reference
from tconv.plan import Plan, TapProducts, tap_products
from tconv.plan.correlate import plan_correlate
from tconv.plan.gather import plan_gather
from tconv.plan.overlap import plan_overlap
from tconv.plan.planes import plan_planes
from tconv.problem import DTYPES, Activation, Axis, Layout, Operand, Problem, numpy_dtype
from tconv.problem.activation import SLOPES
from tconv.runtime.kernels import machine

Array = npt.NDArray[Any]

HALVES = ("float16", "bfloat16")
# Half a step of the type at 1, and half the distance between its smallest numbers.
UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
TINY = {"float16": 2.0**-25, "bfloat16": 2.0**-134, "float32": 2.0**-150, "float64": 2.0**-1075}

UP = Axis(fine_size=19, coarse_size=9, taps=4, stride=2, dilation=1, pad_begin=1)
APART = Axis(fine_size=18, coarse_size=9, taps=2, stride=2, dilation=1, pad_begin=0)
SAME = Axis(fine_size=9, coarse_size=9, taps=3, stride=1, dilation=1, pad_begin=1)


def a_problem(
    wanted: Operand, axis: Axis, channels: tuple[int, int], dtype: str = "float32"
) -> Problem:
    """Return two groups of channels on a picture; the layout is the document's usual one."""
    layouts = Layout("n gc x"), Layout("n gf x"), Layout("gc f x")
    return Problem(wanted, 2, 2, *channels, (axis, axis), dtype, *layouts)


# By the names that plans print; each planned by its own planner, whatever would be chosen.
ALGORITHMS: dict[str, Problem] = {
    "gather": a_problem(Operand.COARSE, SAME, (19, 21)),
    "phases": a_problem(Operand.FINE, UP, (21, 19)),
    "pointwise": a_problem(Operand.FINE, APART, (37, 17)),
    "planes": a_problem(Operand.FINE, UP, (13, 3)),
    "overlap": a_problem(Operand.FINE, UP, (13, 3)),
    "correlate": a_problem(Operand.WEIGHTS, UP, (7, 18)),
    "tap products": a_problem(Operand.COARSE, UP, (19, 21)),
}
every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)
every_type = pytest.mark.parametrize("dtype", DTYPES)
every_half = pytest.mark.parametrize("dtype", HALVES)
every_activation = pytest.mark.parametrize("activation", SLOPES)


def planned(name: str, problem: Problem) -> engine.Executable:
    """Return an algorithm made ready for a problem."""
    recipe: Any
    if name == "tap products":
        recipe = tap_products(problem)
    elif name == "correlate":
        recipe = plan_correlate(problem, machine())
    elif name == "overlap":
        recipe = plan_overlap(problem, machine())
    elif name == "planes":
        recipe = plan_planes(problem, machine())
    else:
        recipe = plan_gather(problem, machine())
    return engine.Executable(Plan(problem, name, "", (), (), recipe))


def computed(name: str, problem: Problem, operands: list[Array], bias: Array | None) -> Array:
    """Run one algorithm."""
    run = planned(name, problem)
    first, second = operands
    right = second if problem.wanted is Operand.WEIGHTS else run.pack(second)
    return run.run(first, right, bias, None)


def some_numbers(problem: Problem) -> list[Array]:
    """Return both operands, sizes and signs mixed, in the problem's type."""
    numbers = np.random.default_rng(7)
    return [
        (numbers.standard_normal(shape) * 2.0 ** numbers.integers(-4, 5, shape)).astype(
            numpy_dtype(problem.dtype)
        )
        for shape in map(problem.shape, problem.given)
    ]


def a_bias(problem: Problem) -> Array | None:
    """Return a bias where there can be one."""
    if problem.wanted is Operand.WEIGHTS:
        return None
    channels = problem.groups * problem.sizes["f" if problem.wanted is Operand.FINE else "c"]
    return np.linspace(-2, 2, channels).astype(numpy_dtype(problem.dtype))


def terms(problem: Problem) -> int:
    """Return how many products a result has at most, and its bias."""
    if problem.wanted is Operand.WEIGHTS:
        return problem.batch * math.prod(axis.coarse_size for axis in problem.axes)
    read = "c" if problem.wanted is Operand.FINE else "f"
    return problem.sizes[read] * math.prod(axis.taps for axis in problem.axes) + 1


def bounds(problem: Problem, operands: list[Array], bias: Array | None) -> tuple[Array, Array]:
    """Return the definition's answer, and how far a result may be from it."""
    exact = reference.answer(problem, operands[0], operands[1], bias)
    sizes = [np.abs(each.astype(np.float64)) for each in operands]
    added = None if bias is None else np.abs(bias)
    size = reference.answer(problem, sizes[0], sizes[1], added)
    sums = "float64" if problem.dtype == "float64" else "float32"
    unit, count = UNIT[sums], terms(problem)
    gamma = count * unit / (1 - count * unit)
    error = gamma * size
    if problem.dtype == "float64":
        error = 2 * error  # the judge sums in float64 too
    elif problem.dtype in HALVES:
        error += np.maximum(UNIT[problem.dtype] * (np.abs(exact) + error), TINY[problem.dtype])
    return exact, error


@every_algorithm
@every_type
def test_the_error_is_that_of_a_sum_one_by_one(name: str, dtype: str) -> None:
    """At most ``n u / (1 - n u)`` of the sum of sizes, and one rounding for 16-bit types."""
    problem = replace(ALGORITHMS[name], dtype=dtype)
    operands, bias = some_numbers(problem), a_bias(problem)
    exact, error = bounds(problem, operands, bias)
    result = computed(name, problem, operands, bias).astype(np.float64)

    assert (np.abs(result - exact) <= error).all()


def test_the_bound_can_be_broken() -> None:
    """A result a thousandth off is outside of it."""
    problem = ALGORITHMS["gather"]
    operands, bias = some_numbers(problem), a_bias(problem)
    exact, error = bounds(problem, operands, bias)
    result = computed("gather", problem, operands, bias).astype(np.float64)

    assert (np.abs(result * 1.001 - exact) > error).any()


@every_algorithm
@every_half
def test_sixteen_bits_are_the_float32_result_rounded_once(name: str, dtype: str) -> None:
    """To the bit: the same sums in the same order, and one rounding to nearest even."""
    problem = replace(ALGORITHMS[name], dtype=dtype)
    operands, bias = some_numbers(problem), a_bias(problem)
    result = computed(name, problem, operands, bias)
    wide = [each.astype(np.float32) for each in operands]
    added = None if bias is None else bias.astype(np.float32)
    expected = computed(name, ALGORITHMS[name], wide, added)

    np.testing.assert_array_equal(
        result.view(np.uint16), expected.astype(result.dtype).view(np.uint16)
    )


@every_half
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
@pytest.mark.parametrize("groups", [1, 64])
def test_every_sixteen_bit_number_goes_through_a_layer(
    dtype: str, layout: str, groups: int
) -> None:
    """All 65536 of them, times one: infinities and denormals too; a NaN stays a NaN."""
    numbers = np.arange(1 << 16, dtype=np.uint16).view(numpy_dtype(dtype))
    data = numbers.reshape((1, groups, -1) if layout == "NCX" else (1, -1, groups))
    weight = np.ones((groups, 1, 1), numpy_dtype(dtype))
    results = [
        tconv.conv(data, weight, groups=groups, layout=layout),
        tconv.conv_transpose(data, weight, groups=groups, layout=layout),
    ]
    with np.errstate(invalid="ignore"):
        for result in results:
            np.testing.assert_array_equal(result.astype(np.float32), data.astype(np.float32))


def test_sixteen_bit_types_are_compiled() -> None:
    """Or the tests above compare NumPy with itself."""
    for name, problem in ALGORITHMS.items():
        for dtype in HALVES:
            plan = engine.plan(replace(problem, dtype=dtype))

            assert not isinstance(plan.recipe, TapProducts), name


@pytest.mark.parametrize("name", ["gather", "pointwise", "planes", "overlap"])
def test_channels_are_added_one_by_one_in_their_order(name: str) -> None:
    """Ones added to 2**24 are lost, one after the other; added before it they are not."""
    wanted, written = Operand.COARSE if name == "gather" else Operand.FINE, 3
    axis = Axis(fine_size=5, coarse_size=5, taps=1, stride=1, dilation=1, pad_begin=0)
    channels = (written, 9) if wanted is Operand.COARSE else (9, written)
    problem = a_problem(wanted, axis, channels)
    for place, expected in ((0, 2.0**24), (8, 2.0**24 + 8)):
        data = np.ones(problem.shape(problem.given[0]), np.float32)
        data[:, [place, 9 + place]] = 2.0**24
        weights = np.ones(problem.shape(Operand.WEIGHTS), np.float32)

        assert (computed(name, problem, [data, weights], None) == expected).all()


@pytest.mark.parametrize("name", ["planes", "tap products"])
def test_the_bias_is_added_last_where_the_page_says_so(name: str) -> None:
    """Sums that cancel leave it as it is, however large they were."""
    problem = ALGORITHMS[name]
    bias = a_bias(problem)
    assert bias is not None
    first, second = (np.zeros(problem.shape(operand), np.float32) for operand in problem.given)
    first[:], second[:] = 1, np.float32(2.0**30)
    second.reshape(problem.groups, -1)[:, ::2] *= -1
    both = computed(name, problem, [first, second], bias)
    without = computed(name, problem, [first, second], None)
    last = problem.layout(problem.wanted)
    assert str(last).startswith("n g")
    shape = (1, -1, *(1,) * len(problem.axes))

    np.testing.assert_array_equal(both, without + bias.reshape(shape))


def test_a_gather_begins_with_the_bias() -> None:
    """A term that is too large for it swallows it, even when another takes that term away."""
    axis = Axis(fine_size=2, coarse_size=1, taps=2, stride=1, dilation=1, pad_begin=0)
    problem = a_problem(Operand.COARSE, axis, (19, 21))
    first, second = (np.zeros(problem.shape(operand), np.float32) for operand in problem.given)
    first[:] = 1
    weights = second.reshape(*second.shape[:-2], 4)
    weights[:, 0, 0], weights[:, 0, 3] = 2.0**30, -(2.0**30)
    bias = a_bias(problem)
    assert bias is not None

    assert not computed("gather", problem, [first, second], np.ones_like(bias)).any()


# --- activations -------------------------------------------------------------------------------

# How many steps of the result's own type an activation may be off, as documented.
STEPS = dict.fromkeys(SLOPES, 3.0) | {"relu": 0.0, "relu6": 0.0, "gelu": 6.0}


def spread(dtype: str) -> Array:
    """Return numbers of every size, both signs, where activations still change."""
    numbers = np.random.default_rng(3)
    most = 104.0 if dtype == "float32" else 746.0
    parts = [
        numbers.standard_normal(4000) * 2,
        np.linspace(-most, most, 4001),
        numbers.standard_normal(3000) * 2.0 ** numbers.integers(-120, 7, 3000),
        np.array([0, 1, -3, 3, 6, np.finfo(dtype).max, -np.finfo(dtype).max], np.float64),
    ]
    return np.concatenate(parts).astype(dtype)


def through(activation: object, values: Array, channels: int = 1) -> Array:
    """Send values through a layer that changes nothing else, few channels or many."""
    weight = np.eye(channels, dtype=values.dtype)[..., None]
    data = np.zeros((1, channels, values.size), values.dtype)
    data[0, 0] = values
    bound = tconv.onnx.Conv().bind(weight, activation=activation)
    result: Array = bound(data)
    np.testing.assert_array_equal(bound(data), result)  # the quick way says the same
    row: Array = result[0, 0]
    return row


def normal_tail(value: float) -> Decimal:
    """Return the probability of a normal number below ``value``, to twenty digits and more."""
    with localcontext(Context(prec=40)):
        size = abs(Decimal(value))
        if size < 3:  # the series of the error function; no digit that counts cancels yet
            total = term = size
            k = 0
            while abs(term) > Decimal("1e-36"):
                k += 1
                term = term * size * size / (2 * k + 1)
                total += term
            pi = Decimal("3.141592653589793238462643383279502884197")
            middle = total * (-size * size / 2).exp() / (2 * pi).sqrt()
            return Decimal("0.5") + (middle if value > 0 else -middle)
        fraction = size
        for k in range(400, 0, -1):
            fraction = size + k / fraction
        pi = Decimal("3.141592653589793238462643383279502884197")
        tail = (-size * size / 2).exp() / (2 * pi).sqrt() / fraction
        return tail if value < 0 else 1 - tail


def gelu(values: Array) -> Array:
    """Return the exact function, rounded to the widest type there is."""
    exact = [Decimal(value) * normal_tail(value) for value in values.tolist()]
    return np.array([np.longdouble(str(each)) for each in exact])


def truth(name: str, values: Array) -> Array:
    """Return an activation in more digits than the values have."""
    wide = values.astype(np.longdouble)
    wanted: dict[str, Callable[[], Array]] = {
        "sigmoid": lambda: 1 / (1 + np.exp(-wide)),
        "silu": lambda: wide / (1 + np.exp(-wide)),
        "tanh": lambda: np.tanh(wide),
        "elu": lambda: np.where(wide < 0, np.expm1(np.minimum(wide, 0)), wide),
        "gelu": lambda: gelu(values),
        "relu": lambda: np.where(wide < 0, 0, wide),
        "leaky_relu": lambda: np.where(wide < 0, wide * values.dtype.type(0.01), wide),
        "relu6": lambda: np.minimum(np.maximum(wide, 0), 6),
        "hardsigmoid": lambda: np.minimum(np.maximum(wide + 3, 0), 6) / 6,
        "hardswish": lambda: wide * np.minimum(np.maximum(wide + 3, 0), 6) / 6,
    }
    with np.errstate(all="ignore"):
        return wanted[name]()


def steps_off(result: Array, exact: Array, dtype: str) -> Array:
    """Return by how many steps of the result's type it differs from the truth."""
    limits = np.finfo(dtype)
    size = np.maximum(np.abs(exact), np.longdouble(limits.smallest_normal))
    step = 2.0 ** np.floor(np.log2(size)) * np.longdouble(limits.eps)
    off: Array = np.abs(result.astype(np.longdouble) - exact) / step
    return off


def usual(values: Array, name: str) -> Iterator[Array]:
    """Yield what can be judged: gelu takes a while, and x + 3 is rounded before it is cut."""
    if name == "gelu":
        inside = values[np.abs(values) < 40]
        yield inside[:: max(1, inside.size // 1500)]
    elif name in ("hardsigmoid", "hardswish"):
        yield values[np.abs(values + 3) > 0.5]
    else:
        yield values


@every_activation
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("channels", [1, 17], ids=["planes", "gather"])
def test_an_activation_is_within_its_steps(activation: str, dtype: str, channels: int) -> None:
    """As documented, for sizes from the smallest number to the largest."""
    if np.finfo(np.longdouble).eps > 1e-18 and dtype == "float64":
        pytest.skip("this machine has no type wider than float64 to judge by")
    for values in usual(spread(dtype), activation):
        result = through(activation, values, channels)
        off = steps_off(result, truth(activation, values), dtype)

        assert off.max() <= STEPS[activation], values[off.argmax()]


def test_the_judge_of_steps_can_fail() -> None:
    """One step more than allowed is seen."""
    values = spread("float32")
    result = through("tanh", values)
    for _ in range(4):
        result = np.nextafter(result, np.float32(2))

    assert steps_off(result, truth("tanh", values), "float32").max() > STEPS["tanh"]


@every_activation
@every_type
def test_an_activation_comes_before_the_rounding(activation: str, dtype: str) -> None:
    """Of 16-bit types too: bias, activation, then one rounding; NumPy's engine is near."""
    problem = replace(ALGORITHMS["phases"], dtype=dtype, bias=True)
    problem = replace(problem, activation=Activation(activation, SLOPES[activation] or 0.0))
    operands, bias = some_numbers(problem), a_bias(problem)
    ours = computed("phases", problem, operands, bias).astype(np.float64)
    portable = computed("tap products", problem, operands, bias).astype(np.float64)
    exact = reference.answer(problem, operands[0], operands[1], bias)
    unit = max(UNIT[dtype], 2.0**-19 if dtype != "float64" else 2.0**-44)

    for result in (ours, portable):
        np.testing.assert_allclose(result, exact, rtol=2 * unit, atol=300 * unit)


@every_activation
@pytest.mark.parametrize("channels", [1, 17], ids=["planes", "gather"])
def test_infinities_and_nan_are_as_in_the_formula(activation: str, channels: int) -> None:
    """NaN stays NaN; minus infinity times zero is NaN in silu, gelu and hardswish."""
    values = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0] * 5, np.float32)
    weight = np.ones((channels, 1, 1), np.float32)
    data = np.repeat(values[None, None], channels, axis=1)
    bound = tconv.onnx.Conv(group=channels).bind(weight, activation=activation)
    expected = Activation(activation, SLOPES[activation] or 0.0)(values)

    np.testing.assert_array_equal(bound(data)[0], np.repeat(expected[None], channels, axis=0))


@every_half
@pytest.mark.parametrize("activation", [None, *SLOPES])
@pytest.mark.parametrize("channels", [1, 17, 32], ids=["planes", "odd", "whole"])
def test_every_nan_of_16_bits_stays_one(dtype: str, activation: str | None, channels: int) -> None:
    """No rounding carries its bits away; signalling ones become quiet."""
    every = np.arange(1 << 16, dtype=np.uint16).view(numpy_dtype(dtype))
    nans = every[np.isnan(every.astype(np.float32))]
    weight = np.ones((channels, 1, 1), nans.dtype)
    bound = tconv.onnx.Conv().bind(weight, activation=activation)

    assert np.isnan(bound(nans[None, None]).astype(np.float32)).all()


@pytest.mark.parametrize("name", ["leaky_relu", "elu"])
def test_a_slope_is_passed_and_not_baked(name: str) -> None:
    """Any finite number, a negative one too."""
    values = np.linspace(-3, 3, 40, dtype=np.float32)
    for slope in (0.0, 0.2, -1.5, 3, np.float32(0.1)):
        expected = Activation(name, float(slope))(values)

        np.testing.assert_allclose(through((name, slope), values), expected, rtol=1e-6)
