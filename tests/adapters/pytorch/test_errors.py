"""Bad input raises what torch raises for it, with a message of ours."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engines import require

torch = require.module("torch")

import tconv.adapters.torch as adapter  # noqa: E402 - without torch this file is skipped
from tconv.errors import TconvError  # noqa: E402 - as above

DATA, WEIGHT, BIAS = torch.ones(1, 4, 6, 6), torch.ones(4, 2, 3, 3), torch.ones(2)

# Wrong calls of both kinds: what is changed in a good call.
WRONG: dict[str, dict[str, Any]] = {
    "an array": {"input": np.ones((1, 4, 6, 6), np.float32)},
    "no input": {"input": None},
    "a list": {"weight": [1.0]},
    "a number for a bias": {"bias": 1.0},
    "a rank too small": {"input": torch.ones(6, 6)},
    "a rank too large": {"input": torch.ones(1, 1, 4, 6, 6)},
    "a weight of another rank": {"weight": torch.ones(4, 2, 3)},
    "a scalar": {"input": torch.tensor(1.0)},
    "wrong channels": {"input": torch.ones(1, 5, 6, 6)},
    "a long bias": {"bias": torch.ones(3)},
    "a square bias": {"bias": torch.ones(2, 1)},
    "no stride": {"stride": 0},
    "stride backwards": {"stride": (1, -1)},
    "padding below zero": {"padding": -1},
    "no dilation": {"dilation": 0},
    "no groups": {"groups": 0},
    "groups below zero": {"groups": -1},
    "three groups": {"groups": 3},
    "three strides": {"stride": (1, 1, 1)},
    "no strides at all": {"stride": ()},
    "half a stride": {"stride": 1.5},
    "half a pad": {"padding": (0.5, 1)},
    "a word for a stride": {"stride": "same"},
    "an unknown word": {"padding": "full"},
    "a word for groups": {"groups": "two"},
    "None for a stride": {"stride": None},
    "None for groups": {"groups": None},
    "mixed types": {"weight": WEIGHT.double()},
    "a bias of another type": {"bias": BIAS.double()},
    "whole numbers": {"input": DATA.long(), "weight": WEIGHT},
    "truth values": {"input": DATA.bool()},
    "complex input only": {"input": DATA.to(torch.complex64)},
    "another device": {"weight": WEIGHT.to("meta")},
    "an empty picture": {"input": torch.ones(1, 4, 0, 6)},
    "an empty window": {"weight": torch.ones(4, 2, 0, 3)},
    "no channels": {"input": torch.ones(1, 0, 6, 6)},
    "a huge stride": {"stride": 2**70},
}
CONV: dict[str, dict[str, Any]] = {
    "a window too large": {"weight": torch.ones(2, 4, 9, 9)},
    "dilated out of the picture": {"dilation": 4},
    "same with stride": {"padding": "same", "stride": 2},
    "same in capitals": {"padding": "SAME"},
}
TRANSPOSED: dict[str, dict[str, Any]] = {
    "a word": {"padding": "same"},
    "all padding": {"padding": 9},
    "too much output padding": {"output_padding": 1},
    "output padding below zero": {"output_padding": -1},
    "two many output paddings": {"output_padding": (0, 0, 0)},
}


def outcome(function: Any, arguments: dict[str, Any]) -> Any:  # noqa: ANN401 - a tensor or an error
    """Return what a call returns or raises."""
    try:
        return function(**arguments)
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error


def cases() -> list[Any]:
    """Return every wrong call of both kinds."""
    found = []
    for name, more in (("conv2d", CONV), ("conv_transpose2d", TRANSPOSED)):
        weight = WEIGHT if "transpose" in name else WEIGHT.movedim(0, 1)
        good = {"input": DATA, "weight": weight, "bias": BIAS}
        for what, change in {**WRONG, **more}.items():
            found.append(pytest.param(name, {**good, **change}, id=f"{name} {what}"))
    return found


@pytest.mark.filterwarnings("ignore::tconv.adapters.torch.FallbackWarning")
@pytest.mark.parametrize(("name", "arguments"), cases())
def test_the_error_has_torchs_type(name: str, arguments: dict[str, Any]) -> None:
    """And where torch takes the call after all, so do we, with torch's result."""
    theirs = outcome(getattr(torch.nn.functional, name), arguments)
    ours = outcome(getattr(adapter, name), arguments)

    assert type(ours) is type(theirs)
    if not isinstance(theirs, Exception):
        assert ours.shape == theirs.shape


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("a rank too small", "conv2d: input has 2 axes, but 3 or 4 are needed"),
        ("wrong channels", "5"),
        ("a long bias", r"bias has shape \(3,\), but shape \(2,\) is needed"),
        ("mixed types", "weight has dtype torch.float64, but input has torch.float32"),
        ("another device", "weight has device meta, but input has cpu"),
        ("an array", "input is a ndarray, not a tensor"),
        ("no stride", "stride is 0"),
        ("padding below zero", "padding is -1"),
        ("three groups", "groups"),
    ],
)
def test_the_message_is_ours(change: str, text: str) -> None:
    """With what is wrong, the rule and the fix; torch's own error is its cause."""
    arguments = {"input": DATA, "weight": WEIGHT.movedim(0, 1), "bias": BIAS, **WRONG[change]}
    with pytest.raises((TypeError, ValueError, RuntimeError), match=text) as caught:
        adapter.conv2d(**arguments)
    message = str(caught.value)

    assert message.startswith("tconv conv2d: ")
    assert "\n  rule " in message
    assert "\n  fix " in message
    assert caught.value.__cause__ is not None


def test_operators_refuse_what_kernels_could_not_survive() -> None:
    """Anybody can call them with anything; memory beyond a tensor is never read."""
    conv, weights = torch.ops.tconv.conv, torch.ops.tconv.conv_weight
    transposed = torch.ops.tconv.conv_transpose
    ones, end, last = ([1, 1], [0, 0], [1, 1], 1), (False, False), (True, False)
    small = WEIGHT.movedim(0, 1)
    wrong: tuple[Callable[[], Any], ...] = (
        lambda: conv(DATA[:, :3], small, None, [4, 4], *ones, *end),
        lambda: conv(DATA, small, torch.ones(1), [4, 4], *ones, *end),
        lambda: conv(DATA, small, BIAS.double(), [4, 4], *ones, *end),
        lambda: conv(DATA, small.double(), None, [4, 4], *ones, *end),
        lambda: conv(DATA.long(), small.long(), None, [4, 4], *ones, *end),
        lambda: conv(DATA, small, None, [4], *ones, *end),
        lambda: conv(DATA, small, None, [4, -4], *ones, *end),
        lambda: conv(DATA, small, None, [4, 4], [1, 0], [0, 0], [1, 1], 1, *end),
        lambda: conv(DATA, small, None, [4, 4], [1, 1], [0, -1], [1, 1], 1, *end),
        lambda: conv(DATA, small, None, [4, 4], [1, 1], [0, 0], [1, 1], 3, *end),
        lambda: conv(DATA[0], small[0], None, [4], [1], [0], [1], 1, *last),
        lambda: transposed(DATA[:, :3], WEIGHT, None, [8, 8], *ones, *end),
        lambda: weights(DATA, DATA[:, :, :, :0], [3, 3], *ones, *end[:1]),
        lambda: weights(DATA, torch.ones(2, 4, 6, 6), [3, 3], *ones, *end[:1]),
        lambda: weights(DATA, DATA[:, :3], [3, 3], [1, 1], [0, 0], [1, 1], 2, *end[:1]),
    )
    for call in wrong:
        with torch.no_grad(), pytest.raises(TconvError):
            call()


def test_a_size_that_no_call_of_torch_has_is_computed_as_the_relation_says() -> None:
    """Points that no window meets are zero; windows outside of the picture find nothing."""
    data, weight = torch.ones(1, 1, 3), torch.ones(1, 1, 2)
    settings = [1], [0], [1], 1, False, False
    wide = torch.ops.tconv.conv_transpose(data, weight, None, [7], *settings)
    long = torch.ops.tconv.conv(data, weight, None, [5], *settings)

    assert wide.tolist() == [[[1, 2, 2, 1, 0, 0, 0]]]
    assert long.tolist() == [[[2, 2, 1, 0, 0]]]
