"""Small calls go past torch's dispatcher, but nobody who wants to hear of them misses one."""

from typing import Any

import pytest

from engines import require

torch = require.module("torch")

from torch.overrides import TorchFunctionMode  # noqa: E402 - without torch this file is skipped
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402 - as above

from adapters.pytorch.calls import Call, made  # noqa: E402 - as above
from tconv.adapters.torch import operators  # noqa: E402 - as above

CALLS = [made("conv2d", padding=1), made("conv_transpose2d", stride=2)]
each_call = pytest.mark.parametrize("call", CALLS, ids=str)


class Dispatched(TorchDispatchMode):  # type: ignore[misc] # torch is not typed
    """Hears of every operator that runs."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - as above
        """Note its name."""
        del types
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class Called(TorchFunctionMode):  # type: ignore[misc] # as above
    """Hears of every function of torch that is called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - as above
        """Note its name."""
        del types
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@each_call
@pytest.mark.parametrize("kind", [Dispatched, Called])
def test_modes_hear_of_calls(call: Call, kind: Any) -> None:  # noqa: ANN401 - as above
    """Of those that record gradients, too, and of the gradients."""
    tensors = call.tensors()
    call.ours(*tensors)
    with kind() as mode:
        call.ours(*tensors)
        result = call.ours(*(tensor.clone().requires_grad_() for tensor in tensors))
        with torch.no_grad():
            call.ours(*tensors)
    heard = [name for name in mode.names if "tconv" in name]

    assert len(heard) >= 3
    assert result.requires_grad


@each_call
def test_a_profiler_hears_of_calls(call: Call) -> None:
    """By the operator's name."""
    tensors = call.tensors()
    call.ours(*tensors)
    with torch.profiler.profile() as found, torch.no_grad():
        call.ours(*tensors)

    assert any(event.key.startswith("tconv::") for event in found.key_averages())


@each_call
def test_tensors_that_are_more_than_memory_are_read_as_they_are_meant(call: Call) -> None:
    """The imaginary part of a conjugate has its sign in a bit beside it."""
    data, weight, bias = call.tensors()
    signed = torch.complex(data, -data).conj().imag
    assert signed.is_neg()
    for _ in range(2):
        torch.testing.assert_close(
            call.ours(signed, weight, bias), call.theirs(data, weight, bias), rtol=0, atol=0
        )


@each_call
def test_plain_calls_do_not_wake_the_dispatcher(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With derivatives and without, forward and backward, inside of inference mode and out."""
    tensors = call.tensors()
    expected = call.theirs(*tensors)
    monkeypatch.setattr(operators, "OPERATORS", {})
    recorded = [tensor.clone().requires_grad_() for tensor in tensors]

    torch.testing.assert_close(call.ours(*tensors), expected, rtol=0, atol=0)
    result = call.ours(*recorded)
    torch.testing.assert_close(result, expected, rtol=0, atol=0)
    result.sum().backward()
    assert all(tensor.grad is not None for tensor in recorded)
    with torch.no_grad():
        assert not call.ours(*recorded).requires_grad
    with torch.inference_mode():
        inferred = call.ours(*tensors)
    assert inferred.is_inference()


@each_call
def test_nothing_is_recorded_below_autograd(call: Call) -> None:
    """There kernels of other operators run: who called them records what there is to record."""
    tensors = [tensor.clone().requires_grad_() for tensor in call.tensors()]
    assert call.ours(*tensors).requires_grad
    with torch._C._AutoDispatchBelowAutograd():  # noqa: SLF001 - as torch.library does
        ours, theirs = call.ours(*tensors), call.theirs(*tensors)
    assert not ours.requires_grad
    assert not theirs.requires_grad
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
