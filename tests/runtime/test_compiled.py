"""Compiled kernels on real arrays: the same bits for any threads, batches and strides."""

import ctypes
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tconv
from strategies import as_float64, whole_numbers
from tconv import engine, reference
from tconv.bench.suite import Layer, load_suite
from tconv.jit import cache, compiler
from tconv.plan import (
    Correlate,
    Gather,
    Grouped,
    Overlap,
    Planes,
    Spread,
    TapProducts,
    Winograd,
    choose_plan,
)
from tconv.plan.machine import AVX2
from tconv.problem import Axis, Layout, Operand, Problem, numpy_dtype
from tconv.runtime.scratch import scratch_address
from tconv.runtime.taps import TapRunner
from tconv.threads import get_num_threads, set_num_threads

Array = npt.NDArray[Any]

LAYOUTS = {"NCX": ("n gc x", "n gf x"), "NXC": ("n x gc", "n x gf")}
DTYPES = ("float32", "float64", "float16", "bfloat16")
DATA_WANTED = (Operand.FINE, Operand.COARSE)


@dataclass(frozen=True)
class Case:
    """A layer by its numbers."""

    batch: int
    groups: int
    coarse: int  # channels of a group
    fine: int
    axes: tuple[Axis, ...]

    def problem(self, wanted: Operand, dtype: str = "float32", layout: str = "NCX") -> Problem:
        """Return the question."""
        coarse, fine = LAYOUTS[layout]
        return Problem(
            wanted, self.batch, self.groups, self.coarse, self.fine, self.axes, dtype,
            Layout(coarse), Layout(fine), Layout("gc f x"),
        )  # fmt: skip


TWICE, SAME = Axis(31, 16, 4, 2, 1, 1), Axis(3, 3, 3, 1, 1, 1)
CASES = {
    "dense": Case(5, 1, 48, 48, (TWICE, TWICE)),
    "colours": Case(3, 1, 24, 3, (TWICE, TWICE)),
    "depthwise": Case(3, 24, 1, 1, (TWICE, TWICE)),
    "grouped, odd": Case(3, 3, 7, 5, (Axis(40, 20, 3, 2, 2, 1), Axis(33, 17, 5, 2, 1, 2))),
    "audio": Case(3, 1, 7, 9, (Axis(2001, 1000, 5, 2, 1, 2),)),
    "volume": Case(2, 1, 6, 10, (Axis(9, 5, 3, 2, 1, 1),) * 3),
    "tiny images": Case(9, 1, 16, 24, (SAME, SAME)),
    "stride above the window": Case(3, 2, 8, 20, (Axis(46, 16, 2, 3, 1, 1), TWICE)),
}
every_case = pytest.mark.parametrize("name", CASES)
every_type = pytest.mark.parametrize("dtype", DTYPES)
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.fixture(autouse=True)
def _same_threads_afterwards() -> Iterator[None]:
    before = get_num_threads()
    yield
    set_num_threads(before)


def some_numbers(problem: Problem, operand: Operand) -> Array:
    """Return numbers whose sums depend on their order."""
    generator = np.random.default_rng(list(Operand).index(operand))
    numbers = generator.standard_normal(problem.shape(operand))
    return numbers.astype(numpy_dtype(problem.dtype))


def compute(problem: Problem, first: Array, second: Array, out: Array | None = None) -> Array:
    """Pack and run from the beginning."""
    run = engine.executable(problem)
    assert not isinstance(run.plan.recipe, TapProducts), "nothing compiled is tested"
    right = second if problem.wanted is Operand.WEIGHTS else run.pack(second)
    return run.run(first, right, None, out)


def answers(problem: Problem, counts: tuple[int, ...]) -> list[Array]:
    """Return the result by each number of threads."""
    first, second = (some_numbers(problem, operand) for operand in problem.given)
    results = []
    for count in counts:
        set_num_threads(count)
        results.append(compute(problem, first, second))
    return results


@every_case
@every_type
@every_layout
def test_the_number_of_threads_does_not_change_a_bit(name: str, dtype: str, layout: str) -> None:
    """One, two and three threads for all three results, and for packing weights."""
    for wanted in Operand:
        one, *others = answers(CASES[name].problem(wanted, dtype, layout), (1, 2, 3))

        for other in others:
            np.testing.assert_array_equal(one, other, f"{wanted}", strict=True)


@pytest.mark.parametrize("wanted", list(Operand))
def test_there_is_work_for_three_threads(wanted: Operand) -> None:
    """Or the test above compares a thread with itself."""
    recipe = engine.plan(CASES["dense"].problem(wanted)).recipe

    assert isinstance(recipe, Gather | Correlate | Winograd)
    assert recipe.items >= 3


@every_case
@every_type
@every_layout
def test_an_image_alone_has_the_bits_it_has_in_the_batch(
    name: str, dtype: str, layout: str
) -> None:
    """Whatever its neighbours are, and however many fit into one block."""
    for wanted in DATA_WANTED:
        problem = CASES[name].problem(wanted, dtype, layout)
        first, weights = (some_numbers(problem, operand) for operand in problem.given)
        together = compute(problem, first, weights)
        for n in range(problem.batch):
            alone = compute(replace(problem, batch=1), first[n : n + 1], weights)

            np.testing.assert_array_equal(alone, together[n : n + 1], f"{wanted}, image {n}")


@every_case
@every_type
def test_what_scratch_held_before_does_not_matter(name: str, dtype: str) -> None:
    """NaN in every byte of it: whatever is read was written first."""
    for wanted, layout in product(Operand, LAYOUTS):
        problem = CASES[name].problem(wanted, dtype, layout)
        first, second = (some_numbers(problem, operand) for operand in problem.given)
        results = []
        for byte in (0x00, 0xFF):
            ctypes.memset(scratch_address(32 << 20), byte, 32 << 20)
            results.append(compute(problem, first, second))

        np.testing.assert_array_equal(results[0], results[1], f"{wanted} {layout}")


def test_a_thousand_shapes_share_a_few_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes are passed, not baked: the kernels of the first ones serve all others."""
    weights = Case(1, 1, 6, 7, (TWICE, TWICE))
    shapes = [(h, w) for h in range(1, 33) for w in range(1, 33)]

    def run(height: int, width: int, wanted: Operand) -> bool:
        axes = tuple(Axis(2 * size, size, 3, 2, 1, 1) for size in (height, width))
        problem = replace(weights, axes=axes).problem(wanted)
        first, second = (whole_numbers(problem.shape(o), "float32", 1) for o in problem.given)
        got = compute(problem, first, second)
        portable, out = TapRunner(problem), np.empty_like(got)
        portable.run(
            first, second if wanted is Operand.WEIGHTS else portable.pack(second), None, out
        )
        return np.array_equal(got, out)

    loaded: list[tuple[int, int]] = []
    load = compiler.load_object

    def count(code: bytes) -> object:
        loaded.append(shape)
        return load(code)

    monkeypatch.setattr(cache, "load_object", count)
    wrong = []
    for number, shape in enumerate(shapes):
        wanted = list(Operand)[number % 3]
        wrong += [] if run(*shape, wanted) else [(shape, wanted)]

    assert len(set(shapes)) > 1000
    assert wrong == []
    # Of each operand those of some algorithms, and of both widths of vectors.
    assert len(loaded) <= 12, loaded


SPOILT = {"infinity": np.inf, "minus infinity": -np.inf, "nan": np.nan}


@pytest.mark.parametrize("value", SPOILT)
@every_case
@pytest.mark.parametrize("wanted", list(Operand))
def test_numbers_that_are_not_finite_go_where_the_definition_says(
    value: str, name: str, wanted: Operand
) -> None:
    """In weights and in data, at borders and inside: zero times infinity is never computed."""
    case = CASES[name]
    small = tuple(replace(a, fine_size=min(a.fine_size, 9), coarse_size=4) for a in case.axes)
    problem = replace(case, batch=2, axes=small).problem(wanted, "float64", "NXC")
    for spoilt, place in product((0, 1), (0, -1, 7)):
        given = [whole_numbers(problem.shape(o), "float64", i) for i, o in enumerate(problem.given)]
        given[spoilt].flat[place] = SPOILT[value]
        expected = reference.answer(problem, given[0], given[1])
        computed = compute(problem, given[0], given[1])

        np.testing.assert_array_equal(as_float64(computed), expected, f"{spoilt} {place}")


@pytest.mark.parametrize("layer", load_suite(), ids=lambda layer: layer.name)
@pytest.mark.parametrize("wanted", list(Operand))
def test_scratch_is_a_quarter_of_the_arrays_and_32_megabytes_at_most(
    layer: Layer, wanted: Operand
) -> None:
    """For two threads, packed weights included: there is no buffer of columns."""
    problem = layer.problem(wanted)
    recipe = choose_plan(problem, AVX2, "", bound=True).recipe
    assert not isinstance(recipe, TapProducts)
    item = numpy_dtype(problem.dtype).itemsize
    packed = 0
    if isinstance(recipe, Spread):
        parts = [(variant, variant.inner.recipe) for variant in recipe.variants]
        inner = [part for _, part in parts if isinstance(part, Gather | Planes)]
        assert len(inner) == len(parts)
        packed = max(part.group_weights for part in inner)
        scratch = max(part.scratch for part in inner)
        scratch += max(variant.scratch + variant.compact for variant, _ in parts)
    else:
        scratch = recipe.scratch
    if isinstance(recipe, Gather | Planes):
        packed = recipe.group_weights * problem.groups
    elif isinstance(recipe, Grouped):
        packed = recipe.panel_weights * recipe.panels
    elif isinstance(recipe, Winograd | Overlap):
        packed = recipe.shared
    taken = item * (2 * scratch + packed)

    assert taken < problem.bytes() // 4 + 32 * 2**20


def test_many_threads_may_call_one_operator_at_once() -> None:
    """Eight threads, four shapes, one set of packed weights: every answer is right."""
    weights = whole_numbers((12, 20, 3, 3), "float32", 0)
    op = tconv.onnx.ConvTranspose(strides=[2, 2], pads=[1, 1, 1, 1])
    bound = op.bind(weights)
    inputs = [whole_numbers((2, 12, 9 + n % 4, 16), "float32", n) for n in range(16)]
    expected = [op(data, weights) for data in inputs]

    def call(number: int) -> bool:
        return np.array_equal(bound(inputs[number % 16]), expected[number % 16])

    with ThreadPoolExecutor(8) as threads:
        right = list(threads.map(call, range(480)))

    assert right == [True] * 480


def unaligned(array: Array) -> Array:
    """Return a copy that begins one byte behind an element's border."""
    memory = np.zeros(array.nbytes + 1, np.uint8)
    view = memory[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def packed_field(array: Array) -> Array:
    """Return a copy with a byte between any two elements."""
    records = np.zeros(array.shape, np.dtype([("byte", "u1"), ("number", array.dtype)]))
    view: Array = records["number"]
    view[...] = array
    return view


def gaps(array: Array) -> Array:
    """Return a copy with elements between any two of them on every axis."""
    memory = np.zeros([2 * size for size in array.shape], array.dtype)
    view = memory[tuple(slice(None, None, 2) for _ in array.shape)]
    view[...] = array
    return view


def backwards(array: Array) -> Array:
    """Return a copy whose axes all run against memory."""
    turn = tuple(slice(None, None, -1) for _ in array.shape)
    return array[turn].copy()[turn]


def other_way_round(array: Array) -> Array:
    """Return a copy in Fortran's order."""
    return np.asfortranarray(array)


WAYS: tuple[Callable[[Array], Array], ...] = (
    unaligned, packed_field, gaps, backwards, other_way_round
)  # fmt: skip
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@every_way
@every_case
def test_strides_of_the_inputs_do_not_change_a_bit(
    way: Callable[[Array], Array], name: str
) -> None:
    """Kernels take steps; what has no whole steps is copied first."""
    for wanted, layout in product(Operand, LAYOUTS):
        problem = replace(CASES[name], batch=2).problem(wanted, "float32", layout)
        first, second = (some_numbers(problem, operand) for operand in problem.given)
        expected = compute(problem, first, second)

        np.testing.assert_array_equal(compute(problem, way(first), way(second)), expected)


@every_case
def test_an_input_may_be_one_number_spread_out(name: str) -> None:
    """Steps of 0 are steps."""
    for wanted in Operand:
        problem = CASES[name].problem(wanted)
        first, second = (
            np.broadcast_to(np.float32(n), problem.shape(o)) for n, o in enumerate(problem.given, 1)
        )
        expected = compute(problem, first.copy(), second.copy())

        np.testing.assert_array_equal(compute(problem, first, second), expected)


@every_way
@pytest.mark.parametrize("name", ["dense", "colours", "grouped, odd", "audio"])
def test_strides_of_the_result_do_not_change_a_bit(
    way: Callable[[Array], Array], name: str
) -> None:
    """An ``out`` of any strides gets the same numbers, and nothing around it is touched."""
    for wanted, layout in product(Operand, LAYOUTS):
        problem = replace(CASES[name], batch=2).problem(wanted, "float32", layout)
        first, second = (some_numbers(problem, operand) for operand in problem.given)
        expected = compute(problem, first, second)
        out = way(np.zeros_like(expected))
        root = out
        while isinstance(root.base, np.ndarray):
            root = root.base
        others = np.frombuffer(root.tobytes(), np.uint8).sum()
        result = compute(problem, first, second, out)

        assert result is out
        np.testing.assert_array_equal(out, expected, f"{wanted} {layout}")
        out[...] = 0
        assert np.frombuffer(root.tobytes(), np.uint8).sum() == others == 0
