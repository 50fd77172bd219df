"""Activations give what PyTorch's functions of the same names give."""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tconv
from engines import require
from tconv.problem.activation import SLOPES

torch = require.module("torch")

# Beside both engines' sums, which differ in their last bits.
TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}
PAIRS = [("leaky_relu", 0.2), ("elu", 0.5)]

every_type = pytest.mark.parametrize("dtype", TOLERANCE)


def function_of(activation: str | tuple[str, float]) -> Any:  # noqa: ANN401 - torch is not typed
    """Return torch's function."""
    if isinstance(activation, tuple):
        name, slope = activation
        return lambda x: getattr(torch.nn.functional, name)(x, slope)
    return getattr(torch.nn.functional, activation)


def numbers(shape: tuple[int, ...], seed: int, dtype: str) -> npt.NDArray[Any]:
    """Return numbers of a type, the short ones already rounded."""
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


@every_type
@pytest.mark.parametrize("activation", [*SLOPES, *PAIRS], ids=str)
@pytest.mark.parametrize("channels", [3, 24], ids=["few channels", "many channels"])
def test_a_fused_activation_is_torchs(
    activation: str | tuple[str, float], dtype: str, channels: int
) -> None:
    """Bias included; torch computes in float64, so that only our rounding counts."""
    data, weights = numbers((2, 8, 9, 7), 0, dtype), numbers((8, channels, 4, 4), 1, dtype)
    bias = numbers((channels,), 2, dtype)
    bound = tconv.onnx.ConvTranspose(strides=[2, 2], pads=[1, 1, 1, 1]).bind(
        weights, bias, activation=activation
    )
    wide = [torch.from_numpy(each.astype("f8")) for each in (data, weights, bias)]
    plain = torch.nn.functional.conv_transpose2d(*wide, stride=2, padding=1)
    expected = function_of(activation)(plain).numpy()
    most = TOLERANCE[dtype] * max(1.0, float(np.abs(expected).max()))

    np.testing.assert_allclose(bound(data).astype("f8"), expected, rtol=0, atol=most)


@pytest.mark.parametrize("activation", SLOPES)
def test_infinities_and_nan_are_torchs(activation: str) -> None:
    """In the type that kernels compute in, and wherever torch has an answer of its own."""
    values = np.array([np.inf, -np.inf, np.nan, 0.0, -1.0] * 8, np.float32)
    bound = tconv.onnx.Conv().bind(np.ones((1, 1, 1), np.float32), activation=activation)
    # One by one: torch's vectors of AVX-512 make NaN of an infinity that gelu should keep.
    function = function_of(activation)
    expected = torch.cat([function(each) for each in torch.from_numpy(values).split(1)]).numpy()

    np.testing.assert_allclose(bound(values[None, None])[0, 0], expected, rtol=1e-6)
