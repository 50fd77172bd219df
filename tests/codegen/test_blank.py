"""Points that no tap reaches: filled with the bias in either layout, past the caches too."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from codegen.meanings import Array, Code
from strategies import whole_numbers
from tconv.codegen.blank import emit_fill_lines
from tconv.codegen.block import KernelShape
from tconv.jit import host_machine
from tconv.plan.gather import plan_gather
from tconv.problem import Activation, Axis, Layout, Operand, Problem, numpy_dtype
from tconv.runtime.kernels import machine
from tconv.runtime.panels import GatherRunner
from tconv.runtime.taps import TapRunner

GUARD = 99
TYPES = ("float32", "float64")


@cache
def code(dtype: str) -> tuple[Code, str]:
    """Compile the function."""
    made = Code()
    fill = emit_fill_lines(made.module, KernelShape(dtype, host_machine().lanes(dtype), 2, (6, 4)))
    assert fill is not None
    return made, made.add(fill)


def filled(target: Array, bias: Array, places: Array, sizes: tuple[int, ...]) -> Array:
    """Return in NumPy what the function leaves in its target."""
    count, used, x_step, c_step = sizes
    found = target.copy()
    for line, x, c in product(places, range(count), range(used)):
        found[line + x * x_step + c * c_step] = bias[c]
    return found


@pytest.mark.parametrize("dtype", TYPES)
def test_lines_are_filled_and_nothing_else(dtype: str) -> None:
    """Points and channels around whole vectors, side by side, in planes and anyhow."""
    made, name = code(dtype)
    lanes = host_machine().lanes(dtype)
    around = (1, lanes - 1, lanes, lanes + 1, 3 * lanes + 2)
    for count, used in product((0, *around), around):
        bias = whole_numbers((used + lanes,), dtype, count, most=1000)
        for steps in ((used, 1), (used + 3, 1), (1, count + 2), (2, 2 * count + 1)):
            span = max(count, 1) * abs(steps[0]) + used * steps[1]
            places = np.array([5, 5 + span, 5 + 3 * span], np.int64)
            target = np.full(5 * span + 40, GUARD, numpy_dtype(dtype))
            expected = filled(target, bias, places, (count, used, *steps))
            made.call(name, target, bias, places, 3, count, used, *steps, 0)

            np.testing.assert_array_equal(target, expected, f"{count} points, {used} channels")


@pytest.mark.parametrize("dtype", TYPES)
def test_whole_lines_go_past_the_caches(dtype: str) -> None:
    """Channels of whole vectors, where memory is aligned."""
    made, name = code(dtype)
    used = 3 * host_machine().lanes(dtype)
    bias = whole_numbers((used,), dtype, 0, most=1000)
    room = np.full(40 * used, GUARD, numpy_dtype(dtype))
    first = -room.ctypes.data % 64 // room.itemsize
    target = room[first : first + 30 * used]
    places = np.array([used, 9 * used], np.int64)
    expected = filled(target, bias, places, (4, used, 2 * used, 1))
    made.call(name, target, bias, places, 2, 4, used, 2 * used, 1, 1)

    np.testing.assert_array_equal(target, expected)


def test_results_of_16_bits_have_none() -> None:
    """They are rounded where they are stored."""
    assert emit_fill_lines(Code().module, KernelShape("bfloat16", 8, 2, (6, 4))) is None


APART = Axis(19, 7, 1, 3, 1, 0)
# Coarse and fine channels a group, groups, axes: lines that no tap reaches, points of other lines
# too; before the first window, and in a volume; windows dilated by the stride; as many channels as
# panels have, one more or less, and half a panel more.
LAYERS = {
    "apart": (20, 32, 1, (APART, APART)),
    "a vector more": (20, 40, 2, (APART, APART)),
    "a channel more": (20, 33, 1, (APART, APART)),
    "a channel less": (20, 31, 2, (APART, APART)),
    "line": (24, 100, 1, (Axis(90, 30, 1, 3, 1, 0),)),
    "volume": (16, 24, 1, (Axis(9, 4, 1, 2, 1, 0), APART, Axis(10, 5, 1, 2, 1, 0))),
    "dilated": (40, 48, 1, (Axis(17, 7, 3, 2, 2, 0), Axis(15, 7, 3, 2, 2, 1))),
    "padded": (24, 40, 1, (Axis(22, 8, 1, 3, 1, 2), Axis(23, 8, 1, 3, 1, 1))),
    "few channels": (4, 48, 1, (APART, Axis(31, 11, 1, 3, 1, 0))),
}


@pytest.mark.parametrize("activation", [None, Activation("leaky_relu", 0.5)])
@pytest.mark.parametrize("layout", ["n x %s", "n %s x"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_equal_the_definition(name: str, layout: str, activation: Activation | None) -> None:
    """With a bias, which is all that such points have; in items of some panels each, too."""
    coarse, fine, groups, axes = LAYERS[name]
    problem = Problem(
        Operand.FINE, 3, groups, coarse, fine, axes, "float32",
        Layout(layout % "gc"), Layout(layout % "gf"), Layout("gc f x"),
        bias=True, activation=activation,
    )  # fmt: skip
    data, weights = (
        whole_numbers(problem.shape(operand), "float32", 3, most=5) for operand in problem.given
    )
    bias = whole_numbers((groups * fine,), "float32", 4, most=50)
    computed, expected = (np.full(problem.shape(Operand.FINE), GUARD, np.float32) for _ in "ab")
    runner, judge = GatherRunner(problem, plan_gather(problem, machine())), TapRunner(problem)
    runner.run(data, runner.pack(weights), bias, computed)
    judge.run(data, judge.pack(weights), bias, expected)

    np.testing.assert_array_equal(computed, expected)
