"""The six functions give what torch.nn.functional gives, and their gradients too."""

import inspect
import subprocess
import sys
from typing import Any

import pytest

from engines import require

torch = require.module("torch")

import tconv.adapters.torch as adapter  # noqa: E402 - without torch this file is skipped
from adapters.pytorch.calls import CALLS, CHANNELS_LAST, DTYPES, Call, made  # noqa: E402 - as above
from tconv.adapters.torch import fallback  # noqa: E402 - as above

pytestmark = pytest.mark.filterwarnings(
    # For padding='same' where both ends cannot be padded alike.
    "ignore:Using padding='same' with even kernel lengths:UserWarning"
)

every_call = pytest.mark.parametrize("call", CALLS, ids=str)


def gradients(call: Call, function: Any, dtype: Any) -> tuple[Any, ...]:  # noqa: ANN401 - torch is not typed
    """Return a call's result and its gradients for a gradient of whole numbers."""
    tensors = call.tensors(dtype)
    given = [tensor.requires_grad_() for tensor in tensors if tensor is not None]
    result = function(*tensors)
    generator = torch.Generator().manual_seed(3)
    gradient = torch.randint(-2, 3, result.shape, generator=generator).to(dtype)
    return result, *torch.autograd.grad(result, given, gradient)


@every_call
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_results_and_gradients_are_torchs(call: Call, dtype: Any) -> None:  # noqa: ANN401 - torch is not typed
    """Whole numbers: every value is exact, in every element type, so nothing may differ."""
    ours = gradients(call, call.ours, dtype)
    exact = gradients(call, call.theirs, torch.float64)

    for mine, right in zip(ours, exact, strict=True):
        assert mine.dtype is dtype
        torch.testing.assert_close(mine, right.to(dtype), rtol=0, atol=0)


@every_call
def test_strides_are_torchs(call: Call) -> None:
    """The result of contiguous tensors is contiguous."""
    tensors = call.tensors()

    assert call.ours(*tensors).stride() == call.theirs(*tensors).stride()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("kind", ["conv", "conv_transpose"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("last", ["input", "weight", "both", "gradient"])
def test_memory_formats_are_kept_as_torch_keeps_them(
    kind: str,
    rank: int,
    groups: int,
    last: str,
    dtype: Any,  # noqa: ANN401 - torch is not typed
) -> None:
    """channels_last of input or weight goes over to the result and both gradients."""
    call = made(f"{kind}{rank}d", groups=groups, stride=2)
    found = []
    for function in (call.ours, call.theirs):
        data, weight, bias = call.tensors(dtype)
        memory_format = CHANNELS_LAST[rank]
        if last in ("input", "both"):
            data = data.contiguous(memory_format=memory_format)
        if last in ("weight", "both"):
            weight = weight.contiguous(memory_format=memory_format)
        given = [data.requires_grad_(), weight.requires_grad_()]
        result = function(*given, bias)
        gradient = torch.ones_like(result)
        if last == "gradient":
            gradient = gradient.contiguous(memory_format=memory_format)
        found.append((result, *torch.autograd.grad(result, given, gradient)))

    for mine, right in zip(*found, strict=True):
        assert mine.stride() == right.stride()
        torch.testing.assert_close(mine, right, rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (2, 1, 5, 5), (1, 1, 1, 1), (2, 4, 1, 5)], ids=str)
@pytest.mark.parametrize("last", [False, True])
def test_formats_that_sizes_of_one_hide_are_told_apart_as_torch_does(
    shape: tuple[int, ...], *, last: bool
) -> None:
    """A size of 1 has a stride, too, and torch reads the format from it."""
    weight = torch.ones(3, shape[1], 1, 1)
    data = torch.ones(shape)
    if last:
        data = data.to(memory_format=torch.channels_last)
    theirs = torch.nn.functional.conv2d(data, weight)

    assert adapter.conv2d(data, weight).stride() == theirs.stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_tensors_in_any_strides_are_taken(dtype: Any) -> None:  # noqa: ANN401 - torch is not typed
    """Slices, transposed and expanded tensors, and weights with gaps."""
    call = made("conv_transpose2d", stride=2)
    data, weight, bias = call.tensors(dtype)
    wide = torch.zeros(2, 8, 6, 14).to(dtype)
    wide[:, ::2, :, ::2] = data
    expanded = data[:1].expand(2, -1, -1, -1)
    gaps = torch.stack([weight, weight], -1)[..., 0]
    for given in (wide[:, ::2, :, ::2], expanded, data.mT.contiguous().mT):
        right = call.theirs(given.double(), weight.double(), bias.double())

        torch.testing.assert_close(call.ours(given, gaps, bias).double(), right, rtol=0, atol=0)


def test_signatures_are_torchs() -> None:
    """The same arguments, in the same order, with the same defaults."""
    forward = ["input", "weight", "bias", "stride", "padding", "dilation", "groups"]
    transposed = [*forward[:5], "output_padding", "groups", "dilation"]

    for rank in (1, 2, 3):
        for kind, names in (("conv", forward), ("conv_transpose", transposed)):
            parameters = inspect.signature(getattr(adapter, f"{kind}{rank}d")).parameters

            assert list(parameters) == names
            assert [each.default for each in parameters.values()][3:] == [
                {"padding": 0, "output_padding": 0}.get(name, 1) for name in names[3:]
            ]


def test_a_result_owns_its_memory() -> None:
    """It shares nothing with its inputs; no memory is lent to NumPy, which would fix its size."""
    data, weight = torch.ones(1, 1, 4), torch.ones(1, 1, 1)
    result = adapter.conv1d(data, weight)
    storage = result.untyped_storage()

    assert storage.data_ptr() not in (
        data.untyped_storage().data_ptr(),
        weight.untyped_storage().data_ptr(),
    )
    assert storage.nbytes() == result.numel() * result.element_size()
    assert all(each.untyped_storage().resizable() for each in (data, weight, result))


def test_no_copy_of_the_input_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernels are given lies where the tensors lie."""
    from tconv.adapters.torch import kernels  # noqa: PLC0415 - patched here

    seen: list[int] = []
    settled = kernels._settled  # noqa: SLF001 - what it returns is watched

    def watched(*key: object, **more: bool) -> Any:  # noqa: ANN401 - a Settled
        def run(first: Any, second: Any, bias: Any, out: Any) -> None:  # noqa: ANN401 - arrays
            seen.extend(each.__array_interface__["data"][0] for each in (first, out))
            real(first, second, bias, out)

        real = settled(*key, **more)
        run.pack = real.pack  # type: ignore[attr-defined]
        return run

    monkeypatch.setattr(kernels, "_settled", watched)
    for dtype in DTYPES:
        data, weight, _ = made("conv2d").tensors(dtype)
        result = adapter.conv2d(data, weight)

        assert seen == [data.data_ptr(), result.data_ptr()]
        seen.clear()


@pytest.mark.parametrize("short", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_converts_as_torch_does(short: Any) -> None:  # noqa: ANN401 - torch is not typed
    """float32 and mixtures become the short type, float64 stays; gradients keep their types."""
    call = made("conv_transpose2d", stride=2)
    for types in (
        (torch.float32,) * 3,
        (short, torch.float32, torch.float32),
        (torch.float64,) * 3,
    ):
        found = []
        for function in (call.ours, call.theirs):
            tensors = [
                tensor.to(dtype).requires_grad_()
                for tensor, dtype in zip(call.tensors(), types, strict=True)
            ]
            with torch.autocast("cpu", dtype=short):
                result = function(*tensors)
            found.append((result, *torch.autograd.grad(result.sum(), tensors)))
        for mine, right in zip(*found, strict=True):
            assert mine.dtype is right.dtype
            torch.testing.assert_close(mine, right, rtol=0, atol=0)


def noted(function: Any, *tensors: Any) -> tuple[Any, list[str]]:  # noqa: ANN401 - torch is not typed
    """Return a result and the notes on what was left to torch."""
    fallback._noted.clear()  # noqa: SLF001 - each note comes once
    with pytest.warns() as record:
        result = function(*tensors)
    notes = [str(each.message) for each in record if each.category is adapter.FallbackWarning]
    return result, notes


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda tensor: tensor.to("meta"), "tensors are on meta"),
        (lambda tensor: tensor.to(torch.complex64), "tensors are torch.complex64"),
        (lambda tensor: tensor.as_subclass(Other), "Other is a tensor class of its own"),
    ],
)
def test_what_is_not_done_here_is_left_to_torch(change: Any, why: str) -> None:  # noqa: ANN401 - a function
    """With a note, the first time; the result is torch's own."""
    call = made("conv_transpose2d", stride=2)
    tensors = [change(tensor) for tensor in call.tensors(torch.float32)]
    result, notes = noted(call.ours, *tensors)
    right = call.theirs(*tensors)

    assert notes == [f"conv_transpose2d: {why}; torch's own operator is used"]
    assert type(result) is type(right)
    assert (result.dtype, result.device, result.shape) == (right.dtype, right.device, right.shape)
    call.ours(*tensors)  # without another note: warnings are errors here


class Other(torch.Tensor):  # type: ignore[misc,name-defined] # torch is not typed
    """A tensor class that somebody wrote."""


def test_fake_tensors_have_the_shapes_of_real_ones() -> None:
    """Tools that only ask for shapes get them."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: PLC0415 - torch may be missing

    with FakeTensorMode() as mode:
        for call in CALLS:
            tensors = call.tensors()
            fakes = [None if each is None else mode.from_tensor(each) for each in tensors]

            assert call.ours(*fakes).shape == call.theirs(*fakes).shape


def test_the_core_does_not_import_torch() -> None:
    """The adapter is imported on request only."""
    code = "import sys, tconv, tconv.cli; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603 - our own code
