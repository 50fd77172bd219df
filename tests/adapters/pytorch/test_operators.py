"""The registered operators pass torch's own checks, and derive in every mode that torch has."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from engines import require

torch = require.module("torch")

from adapters.pytorch.calls import Call, made  # noqa: E402 - without torch this file is skipped

# torch's own forward mode and opcheck still use these.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.torch.jit:DeprecationWarning", "ignore::FutureWarning:torch"
)

CONV = Call(
    "conv2d", (2, 4, 4, 3), (6, 2, 3, 2), 6,
    (("groups", 2), ("stride", (2, 1)), ("padding", 1)),
)  # fmt: skip
TRANSPOSED = Call(
    "conv_transpose2d", (2, 4, 3, 3), (4, 3, 3, 2), 6,
    (("groups", 2), ("stride", (2, 1)), ("padding", 1), ("output_padding", (1, 0)),
     ("dilation", (1, 2))),
)  # fmt: skip
BOTH = pytest.mark.parametrize("call", [CONV, TRANSPOSED], ids=["conv", "conv_transpose"])
OPERATORS = {
    "conv": ([2, 3], [2, 1], [1, 1], [1, 1], 2, False, False),
    "conv last kept": ([2, 3], [2, 1], [1, 1], [1, 1], 2, True, True),
    "conv_transpose": ([8, 5], [2, 1], [1, 0], [1, 1], 2, True, False),
    "conv_weight": ([3, 2], [2, 1], [1, 0], [1, 1], 2, False),
    "conv_weight last": ([3, 2], [2, 1], [1, 0], [1, 1], 2, True),
}


def random_tensors(call: Call) -> list[Any]:
    """Return tensors that record derivatives."""
    torch.manual_seed(0)
    shapes = call.input, call.weight, (call.bias,)
    return [torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in shapes]


def check(value: Any, right: Any) -> None:  # noqa: ANN401 - tensors, or tuples of them
    """Compare with torch's."""
    torch.testing.assert_close(value, right, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", OPERATORS)
def test_opcheck_finds_nothing(name: str) -> None:
    """Schema, autograd registration, fake kernels, and tracing with sizes that change."""
    tensors = [torch.randn(2, 4, 4, 4), torch.randn(6, 2, 3, 2), torch.randn(6)]
    if name == "conv_transpose":
        tensors = [torch.randn(2, 6, 4, 4), torch.randn(6, 2, 3, 2), torch.randn(4)]
    elif "weight" in name:
        tensors = [torch.randn(2, 6, 2, 3), torch.randn(2, 4, 4, 4)]
    operator = getattr(torch.ops.tconv, name.partition(" ")[0]).default
    given = [tensor.requires_grad_() for tensor in tensors]

    result = torch.library.opcheck(operator, (*given, *OPERATORS[name]))
    assert set(result.values()) == {"SUCCESS"}


@BOTH
def test_gradcheck_in_all_modes(call: Call) -> None:
    """Backward and forward mode, alone and batched."""
    assert torch.autograd.gradcheck(
        call.ours,
        random_tensors(call),
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
        fast_mode=True,
    )


@BOTH
def test_gradcheck_whole(call: Call) -> None:
    """Every element of every Jacobian."""
    assert torch.autograd.gradcheck(call.ours, random_tensors(call))


@BOTH
def test_double_backward(call: Call) -> None:
    """Gradients of gradients, backward over backward and forward over backward."""
    assert torch.autograd.gradgradcheck(
        call.ours,
        random_tensors(call),
        check_fwd_over_rev=True,
        check_batched_grad=True,
        fast_mode=True,
    )


@BOTH
def test_third_derivatives(call: Call) -> None:
    """The family is closed: there is no end to it."""
    found = []
    for function in (call.ours, call.theirs):
        data, weight, bias = random_tensors(call)
        value = function(data, weight, bias).pow(3).sum()
        for _ in range(3):
            (value,) = torch.autograd.grad(value, weight, torch.ones_like(value), create_graph=True)
        found.append(value)

    check(*found)


@BOTH
def test_only_what_is_asked_for_is_computed(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen weight costs no correlation, an input without gradient no scatter."""
    from tconv.adapters.torch import operators  # noqa: PLC0415 - torch may be missing

    asked = []
    compute = operators.compute

    def counted(wanted: Any, *others: Any, **more: Any) -> Any:  # noqa: ANN401 - torch is not typed
        asked.append(wanted.name)
        return compute(wanted, *others, **more)

    data, weight, bias = random_tensors(call)
    result = call.ours(data, weight.detach(), bias.detach())
    monkeypatch.setattr(operators, "compute", counted)
    result.sum().backward()

    assert set(asked) == {"FINE" if call is CONV else "COARSE"}


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: torch.func.grad(lambda *given: f(*given).square().sum(), argnums=(0, 1, 2)),
    "grad of grad": lambda f: torch.func.grad(
        lambda *given: torch.func.grad(lambda *g: f(*g).pow(3).sum())(*given).square().sum()
    ),
    "jacrev": lambda f: torch.func.jacrev(lambda *given: f(*given).sum((0, 2)), argnums=1),
    "jacfwd": lambda f: torch.func.jacfwd(lambda *given: f(*given).sum((0, 2)), argnums=1),
    "hessian": lambda f: torch.func.hessian(lambda *given: f(*given).pow(3).sum(), argnums=2),
    "jvp": lambda f: lambda *given: torch.func.jvp(f, given, given),
    "vjp": lambda f: lambda *given: torch.func.vjp(f, *given)[1](f(*given)),
}


@BOTH
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms_of_functions(call: Call, transform: str) -> None:
    """torch.func, as far as it goes with torch's own operator."""
    tensors = [tensor.detach() for tensor in random_tensors(call)]
    ours, theirs = (TRANSFORMS[transform](function) for function in (call.ours, call.theirs))

    check(ours(*tensors), theirs(*tensors))


def test_a_transform_inside_of_a_recorded_function() -> None:
    """The outer graph sees through the inner one."""
    found = []
    for function in (CONV.ours, CONV.theirs):
        data, weight, bias = random_tensors(CONV)
        inner = torch.func.grad(lambda b, f=function, d=data, w=weight: f(d, w, b).pow(3).sum())
        inner(bias).square().sum().backward()
        found.append((weight.grad, data.grad, bias.grad))

    check(*found)


@BOTH
@pytest.mark.parametrize(
    "axes", [axes for axes in itertools.product((0, 1, None), (0, None), (0, None)) if any(
        axis is not None for axis in axes)], ids=str
)  # fmt: skip
def test_vmap(call: Call, axes: tuple[int | None, ...]) -> None:
    """Every combination of tensors that are mapped over and tensors that are not."""
    single = [tensor.detach() for tensor in random_tensors(call)]
    tensors = [
        tensor if axis is None else torch.stack([tensor, tensor + 1, tensor.flip(0)], axis)
        for tensor, axis in zip(single, axes, strict=True)
    ]

    check(torch.vmap(call.ours, axes)(*tensors), torch.vmap(call.theirs, axes)(*tensors))


@BOTH
def test_gradients_sample_by_sample(call: Call) -> None:
    """A map over gradients: what a batch of one would give, for each sample."""
    data, weight, bias = (tensor.detach() for tensor in random_tensors(call))
    found = []
    for function in (call.ours, call.theirs):

        def loss(weight: Any, sample: Any, function: Any = function) -> Any:  # noqa: ANN401 - torch is not typed
            return function(sample, weight, bias).square().sum()

        found.append(torch.vmap(torch.func.grad(loss), (None, 0))(weight, data))

    check(*found)


def test_dual_numbers_without_recording() -> None:
    """Forward mode works under no_grad, where backward mode is off."""
    call = made("conv_transpose1d", stride=2)
    data, weight, bias = call.tensors()
    forward = torch.autograd.forward_ad
    with torch.no_grad(), forward.dual_level():
        result = call.ours(forward.make_dual(data, data), weight, bias)
        tangent = forward.unpack_dual(result).tangent

    check(tangent, call.theirs(data, weight, None))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_checkpoints_recompute() -> None:
    """Activation checkpointing runs the operator twice."""
    from torch.utils.checkpoint import checkpoint  # noqa: PLC0415 - torch may be missing

    data, weight, bias = random_tensors(CONV)
    checkpoint(CONV.ours, data, weight, bias, use_reentrant=False).square().sum().backward()
    given = random_tensors(CONV)
    CONV.theirs(*given).square().sum().backward()

    check([data.grad, weight.grad, bias.grad], [each.grad for each in given])


def test_a_mode_that_watches_operators_sees_them() -> None:
    """With gradients or without."""
    from torch.utils._python_dispatch import TorchDispatchMode  # noqa: PLC0415 - torch may be missing

    seen = []

    class Watch(TorchDispatchMode):  # type: ignore[misc] # torch is not typed
        def __torch_dispatch__(self, func: Any, types: Any, args: Any, kwargs: Any = None) -> Any:  # noqa: ANN401 - torch's
            del types
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    tensors = CONV.tensors()
    with Watch():
        CONV.ours(*tensors)
        with torch.no_grad():
            CONV.ours(*tensors)

    assert seen.count("tconv.conv.default") == 2
