"""Weights that are transformed in every call, some panels at a time."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tconv
from strategies import as_float64
from tconv import calls, engine, ops, reference
from tconv.plan import winograd_choice
from tconv.plan.check_winograd import check_winograd
from tconv.plan.winograd import plan_winograd
from tconv.problem import Axis, Layout, Operand, Problem, numpy_dtype
from tconv.runtime import kernels
from tconv.runtime.sliced import SlicedRunner
from tconv.runtime.winograd import WinogradRunner
from tconv.threads import get_num_threads, set_num_threads

Array = npt.NDArray[Any]

UP = (Axis(12, 6, 4, 2, 1, 1), Axis(12, 6, 4, 2, 1, 1))
LANES = kernels.machine().lanes("float32")
LAYOUTS = {"NCX": "n {} x", "NXC": "n x {}"}
DATA_WANTED = (Operand.FINE, Operand.COARSE)


def a_layer(  # noqa: PLR0913 - a problem has many numbers
    wanted: Operand,
    channels: tuple[int, int],
    *,
    batch: int = 2,
    groups: int = 1,
    dtype: str = "float32",
    layout: str = "NCX",
    weights: str = "gc f x",
) -> Problem:
    """Return a problem."""
    coarse, fine = (Layout(LAYOUTS[layout].format(letter)) for letter in ("gc", "gf"))
    return Problem(wanted, batch, groups, *channels, UP, dtype, coarse, fine, Layout(weights))


def numbers(problem: Problem) -> tuple[Array, Array]:
    """Return small whole numbers for data and weights."""
    random = np.random.default_rng(1)
    data, weights = (
        random.integers(-3, 4, problem.shape(operand)).astype(numpy_dtype(problem.dtype))
        for operand in problem.given
    )
    return data, weights


def sliced(problem: Problem, most: int, *, rounds: bool = False) -> SlicedRunner:
    """Return what runs a problem with so many bytes of weights at a time."""
    recipe = plan_winograd(problem, kernels.machine(), (2, 2), most=most)
    check_winograd(problem, recipe, tile_rows=4)
    assert recipe.staged
    assert recipe.slice < recipe.panels
    assert not rounds or recipe.round < recipe.boxes
    return SlicedRunner(problem, recipe)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("read", "written"), [(17, 5 * LANES), (33, 12 * LANES + 4), (100, 4 * LANES + 1)]
)
@pytest.mark.parametrize("wanted", DATA_WANTED)
def test_slices_are_exact(
    wanted: Operand, read: int, written: int, layout: str, groups: int
) -> None:
    """Whole numbers, with a last slice that is not full, a last panel that is not full."""
    channels = (read, written) if wanted is Operand.FINE else (written, read)
    problem = a_layer(wanted, channels, layout=layout, groups=groups)
    data, weights = numbers(problem)
    runner = sliced(problem, 1)
    out = np.empty(problem.shape(wanted), np.float32)

    assert runner.run(data, runner.pack(weights), None, out) == []
    np.testing.assert_array_equal(out, reference.answer(problem, data, weights))


@pytest.mark.parametrize("weights", ["gc f x", "x gf c", "gf c x", "x gc f"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("wanted", DATA_WANTED)
def test_slices_of_any_size_have_the_bits_of_whole_weights(
    wanted: Operand, dtype: str, weights: str
) -> None:
    """For any threads, too."""
    problem = a_layer(wanted, (70, 12 * LANES + 4), dtype=dtype, weights=weights)
    random = np.random.default_rng(2)
    data, given = (
        random.standard_normal(problem.shape(operand), np.float32).astype(numpy_dtype(dtype))
        for operand in problem.given
    )
    whole = WinogradRunner(problem, plan_winograd(problem, kernels.machine(), (2, 2)))
    expected = np.empty(problem.shape(wanted), numpy_dtype(dtype))
    whole.run(data, whole.pack(given), None, expected)
    threads = get_num_threads()
    try:
        for most, count in ((1, 1), (1, 2), (whole.recipe.group_weights * 3, 3)):
            set_num_threads(count)
            runner, out = sliced(problem, most), np.empty_like(expected)
            runner.run(data, runner.pack(given), None, out)

            np.testing.assert_array_equal(as_float64(out), as_float64(expected))
    finally:
        set_num_threads(threads)


def test_slices_are_transformed_for_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not all transformed data fit into shared memory."""
    monkeypatch.setattr("tconv.plan.winograd_blocks.SHARED", 1 << 15)
    problem = a_layer(Operand.FINE, (24, 72), batch=7)
    data, weights = numbers(problem)
    runner = sliced(problem, 1, rounds=True)
    out = np.empty(problem.shape(Operand.FINE), np.float32)
    runner.run(data, runner.pack(weights), None, out)

    np.testing.assert_array_equal(out, reference.answer(problem, data, weights))


@pytest.fixture
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - a fixture that yields
    """Let a call transform next to nothing at a time."""
    monkeypatch.setattr(winograd_choice, "MOST_UNBOUND", -(1 << 40))
    for cached in (engine.plan, engine.executable):
        cached.cache_clear()
    for known in (ops._CALLS, calls._CALLS):  # noqa: SLF001 - nobody else sees them
        known.clear()
    monkeypatch.setattr(winograd_choice, "MOST_SLICE", 1 << 18)
    yield
    for cached in (engine.plan, engine.executable):
        cached.cache_clear()
    for known in (ops._CALLS, calls._CALLS):  # noqa: SLF001 - as above
        known.clear()


@pytest.mark.usefixtures("few_bytes")
def test_plain_calls_take_slices() -> None:
    """Checked ones and quick ones, with weights that lie anyhow."""
    random = np.random.default_rng(3)
    data = random.standard_normal((2, 96, 40, 40), np.float32)
    weights = random.standard_normal((96, 3, 80, 3), np.float32).transpose(0, 2, 1, 3)
    askew = np.zeros(weights.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(weights.shape)
    askew[:] = weights
    problem = Problem(
        Operand.FINE, 2, 1, 96, 80, (Axis(40, 40, 3, 1, 1, 1),) * 2, "float32",
        Layout("n gc x"), Layout("n gf x"), Layout("gc f x"),
    )  # fmt: skip
    recipe: Any = engine.plan(problem).recipe
    assert recipe.slice < recipe.panels
    expected = tconv.conv_transpose(data, np.ascontiguousarray(weights), padding=1)
    for _ in range(3):
        for given in (weights, askew):
            found = tconv.conv_transpose(data, given, padding=1)
            np.testing.assert_array_equal(found, expected)
    out = np.empty_like(expected)
    assert tconv.conv_transpose(data, weights, padding=1, out=out) is out
    np.testing.assert_array_equal(out, expected)


@pytest.mark.usefixtures("few_bytes")
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_weights_that_are_not_finite_are_noticed(value: float) -> None:
    """Their taps are skipped where there is nothing to multiply, in every call."""
    data = np.ones((2, 96, 40, 40), np.float32)
    weights = np.ones((96, 80, 3, 3), np.float32)
    tconv.conv_transpose(data, weights, padding=1)
    weights[5, 70, 0, 0] = value
    data[0, 5, 20, 20] = 0
    found = [tconv.conv_transpose(data, weights, padding=1) for _ in range(2)]
    engine.executable.cache_clear()
    direct = tconv.onnx.ConvTranspose(pads=[1, 1, 1, 1]).bind(weights, algorithm="direct")

    for each in found:
        np.testing.assert_array_equal(each, direct(data))
