"""What is too large is refused at once, without allocating, and never with another error."""

import gc
import signal
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tconv
from errors import limit_cases
from errors.callees import CALLEES
from errors.case import Case
from tconv.errors import TconvError
from tconv.settings import Settings

A_MOMENT = 1.0  # seconds; the refusals take about a thousandth of it
LITTLE = 8 << 20  # bytes; what a first call imports and caches included
HUGE = 2**62


@pytest.mark.parametrize("case", limit_cases.TOLD, ids=lambda case: case.name)
def test_a_result_too_large_is_refused_at_once(case: Case) -> None:
    """Neither time nor memory is spent on what cannot be."""
    gc.collect()
    tracemalloc.start()
    start = time.perf_counter()
    try:
        with pytest.raises(TconvError):
            case.call()
        spent = time.perf_counter() - start
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert spent < A_MOMENT
    assert peak < LITTLE


def test_an_endless_bias_is_refused_at_once() -> None:
    """Its shape is wrong, and it is not copied to find that out."""
    callee = CALLEES["onnx.Conv"]

    with pytest.raises(TconvError):
        callee.op().bind(callee.arrays()[1], limit_cases.endless((limit_cases.FAR,)))


@pytest.mark.parametrize("name", list(limit_cases.SCATTER))
@pytest.mark.parametrize("stride", [2**40, 2**60, HUGE])
def test_an_empty_batch_of_huge_pictures_is_no_trouble(name: str, stride: int) -> None:
    """A batch of nothing has no bytes, but numpy cannot count every shape of it either."""
    callee = CALLEES[name]
    first, second = callee.arrays()
    words = {limit_cases.SCATTER[name]: (stride, 1)}
    try:
        result = callee.run(first[:0], second, **words)
    except TconvError:
        return

    assert result.size == 0


@pytest.mark.parametrize("rank", [4, 31, 32, 33, 62, 63, 64])
@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
def test_any_number_of_axes_is_computed_or_refused(name: str, rank: int) -> None:
    """Numpy stops at 64 axes, or at 32; whatever it stops at, the error is ours."""
    try:
        ones = np.ones((1,) * rank, np.float32)
    except ValueError:
        pytest.skip(f"this numpy has no arrays of {rank} axes")
    try:
        result = getattr(tconv, name)(ones, ones)
    except TconvError:
        return

    assert result.shape == (1,) * rank


def test_shapes_of_a_thousand_axes_are_inferred() -> None:
    """Inferring needs no array, so numpy's limit is none."""
    op = tconv.onnx.Conv()

    assert op.infer_shape((1,) * 1000, (1,) * 1000) == (1,) * 1000


@pytest.mark.parametrize("depth", [10_000, 100_000])
def test_deeply_nested_lists_are_refused(depth: int) -> None:
    """A list in a list in a list is no reason for a RecursionError."""
    nested: Any = []
    for _ in range(depth):
        nested = [nested]

    with pytest.raises(tconv.ProblemError, match="strides is "):
        tconv.onnx.Conv(strides=nested)
    with pytest.raises(tconv.ProblemError, match="the shape of X is "):
        tconv.onnx.Conv().infer_shape(nested, (1, 1, 1))


class Unprintable:
    """A value that cannot even be shown."""

    def __repr__(self) -> str:
        """Fail."""
        raise RuntimeError


@pytest.mark.parametrize("name", ["strides", "group", "auto_pad", "unheard_of"])
def test_a_value_that_cannot_be_printed_is_refused(name: str) -> None:
    """A message does not depend on the good will of what it shows."""
    with pytest.raises(tconv.ProblemError, match=f"{name}.* is "):
        tconv.onnx.Conv(**{name: Unprintable()})  # type: ignore[arg-type]


def test_long_lists_make_no_long_messages() -> None:
    """A message is read by people; a million numbers are not."""
    with pytest.raises(tconv.ProblemError, match="strides has 1000000 values") as info:
        tconv.onnx.Conv(strides=[1] * 1_000_000).infer_shape((1, 1, 5), (1, 1, 3))

    assert len(str(info.value)) < 10_000


GRADIENT: Any = {"strides": [1], "dilations": [1], "pads_begin": [0], "pads_end": [0]}
# Shapes that a plan must not walk through point by point, though most cannot be computed.
PLANS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "row": (tconv.onnx.Conv(), ((1, 2, 2**40), (4, 2, 3))),
    "result": (tconv.onnx.ConvTranspose(strides=[2]), ((1, 2, 2**40), (2, 3, 3))),
    "stride": (tconv.onnx.ConvTranspose(strides=[2**40]), ((1, 2, 3), (2, 3, 3))),
    "pads": (tconv.onnx.Conv(pads=[2**50] * 2), ((1, 2, 5), (4, 2, 3))),
    "dilation": (tconv.onnx.ConvTranspose(dilations=[2**40]), ((1, 2, 5), (2, 4, 3))),
    "batch": (tconv.onnx.Conv(), ((2**40, 1, 5), (1, 1, 3))),
    "channels": (tconv.onnx.Conv(), ((1, 2**40, 5), (2**40, 2**40, 3))),
    "groups": (tconv.onnx.Conv(group=2**40), ((1, 2**40, 5), (2**40, 1, 3))),
    "gradient": (
        tconv.onednn.ConvolutionBackwardWeights(**GRADIENT),
        ((1, 2**40, 1), (1, 2**40 - 2, 1), (3, 1, 1)),
    ),
    "long window": (tconv.onnx.Conv(), ((1, 2, 2**21), (4, 2, 2**14))),
    "long window, up": (
        tconv.onnx.ConvTranspose(strides=[2**12]),
        ((1, 2, 2**10), (2, 4, 2**14)),
    ),
}


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Interrupt what takes longer."""

    def interrupt(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no way to interrupt a plan here")
@pytest.mark.parametrize("name", list(PLANS))
def test_a_plan_takes_no_time(name: str) -> None:
    """A plan is data about axes and taps; its cost does not grow with the picture."""
    op, shapes = PLANS[name]
    try:
        with at_most(3):
            said = str(op.plan(*shapes))
    except TconvError as error:
        said = str(error)

    assert said


def test_settings_need_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home folder, as in many containers, can still import the package."""

    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)

    assert Settings.read({}).threads is None
