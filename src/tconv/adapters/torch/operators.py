"""The operators ``torch.ops.tconv``: kernels, shapes, derivatives and batching rules.

``conv``, ``conv_transpose`` and ``conv_weight`` are the three questions that one relation between
two pictures and the weights has: given two of them, compute the third.  The derivative of each is
made of the other two, so the family is closed under differentiation, forward and backward.

Every operator is told the spatial ``size`` of its result; ``padding`` is that at the beginning,
and what there is at the end follows from the size.  The result of ``channels_last`` lies in
memory so; ``keep`` lets packed weights be kept for the next call.

Registered through ``torch.library.Library`` and not ``custom_op``: that costs a third of the time
a call, and ``register_autograd`` knows neither forward mode nor ``torch.func.grad``.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.forward_ad import _set_fwd_grad_enabled
from torch.autograd.function import _SingleLevelFunction
from torch.utils._python_dispatch import _disable_current_modes

from tconv.adapters.torch import kernels
from tconv.adapters.torch.kernels import COARSE, FINE, WEIGHTS
from tconv.adapters.torch.memory import empty
from tconv.problem import Operand

Tensor = Any  # torch is not typed
Settings = tuple[Any, Any, Any, Any, bool]  # stride, padding, dilation, groups, channels_last

NUMBERS = "SymInt[] size, SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups"
FORWARD = f"(Tensor input, Tensor weight, Tensor? bias, {NUMBERS}, bool channels_last, bool keep)"
SCHEMAS = {
    "conv": FORWARD,
    "conv_transpose": FORWARD,
    "conv_weight": f"(Tensor coarse, Tensor fine, {NUMBERS}, bool channels_last)",
}
OPERATOR = {COARSE: "conv", FINE: "conv_transpose", WEIGHTS: "conv_weight"}
GIVEN = {COARSE: (FINE, WEIGHTS), FINE: (COARSE, WEIGHTS), WEIGHTS: (COARSE, FINE)}

KERNEL: dict[Operand, Callable[..., Tensor]] = {
    COARSE: kernels.conv,
    FINE: kernels.conv_transpose,
    WEIGHTS: kernels.conv_weight,
}

LIBRARY = torch.library.Library("tconv", "DEF")

# Below autograd, as in kernels of other operators, nothing is recorded whatever tensors ask for.
AUTOGRAD = torch._C.DispatchKey.AutogradFunctionality  # noqa: SLF001 - torch has no public name
_excluded = torch._C._dispatch_tls_is_dispatch_key_excluded  # noqa: SLF001 - as above


def call(wanted: Operand, *arguments: Any) -> Tensor:  # noqa: ANN401 - see compute
    """Call an operator; where torch would do nothing but find the function to run, run it.

    Finding it takes torch longer than small layers take.
    """
    tensors = _tensors(arguments)
    if not _is_plain(tensors):
        return OPERATORS[wanted](*arguments)
    recorded = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    changes = forward_ad._current_level >= 0  # noqa: SLF001 - torch has no public name for it
    if (recorded or changes) and not _excluded(AUTOGRAD):
        return DIFFERENTIATED[wanted](*arguments)
    return KERNEL[wanted](*arguments)


def call_below(wanted: Operand, *arguments: Any) -> Tensor:  # noqa: ANN401 - see compute
    """Do the same below autograd."""
    if _is_plain(_tensors(arguments)):
        return KERNEL[wanted](*arguments)
    with torch._C._AutoDispatchBelowAutograd():  # noqa: SLF001 - as torch.library does
        return OPERATORS[wanted](*arguments)


def _tensors(arguments: tuple[Any, ...]) -> list[Tensor]:
    return [each for each in arguments[:3] if isinstance(each, torch.Tensor)]


def _is_plain(tensors: list[Tensor]) -> bool:
    """Tell whether nobody else is to hear of a call: no mode, transform, compiler or profiler."""
    watched = (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()  # noqa: SLF001 - as torch.library does
        or torch._C._len_torch_dispatch_stack()  # noqa: SLF001 - as above
        or torch._C._len_torch_function_stack()  # noqa: SLF001 - as above
        or torch._C._is_tracing()  # noqa: SLF001 - as above
        or torch.autograd._profiler_enabled()  # noqa: SLF001 - as above
    )
    return not watched and all(_keys(tensor) in PLAIN for tensor in tensors)


def _keys(tensor: Tensor) -> int:
    """Return whom a tensor makes torch call, as bits."""
    return int(torch._C._dispatch_keys(tensor).raw_repr())  # noqa: SLF001 - as above


def _plain_keys() -> set[int]:
    """Return those of tensors that are nothing but memory, made for derivatives or not."""
    found = set()
    with _disable_current_modes():
        for inference in (False, True):
            with torch.inference_mode(inference):
                found.add(_keys(torch.empty(0, device="cpu")))
    return found


PLAIN = _plain_keys()


def compute(  # noqa: PLR0913 - the arguments of an operator
    wanted: Operand,
    given: dict[Operand, Tensor],
    bias: Tensor,
    size: Any,  # noqa: ANN401 - whole numbers, or torch's symbols for them
    settings: Settings,
    *,
    keep: bool,
    way: Callable[..., Tensor] = call,
) -> Tensor:
    """Call the operator that computes one operand from the two others."""
    first, second = (given[operand] for operand in GIVEN[wanted])
    if wanted is WEIGHTS:
        return way(wanted, first, second, size, *settings)
    return way(wanted, first, second, bias, size, *settings, keep)


class Derivative(_SingleLevelFunction):  # type: ignore[misc] # torch is not typed
    """All derivatives of all three operators.

    The operators are one trilinear form: its value is ``sum(wanted * operator(given))``
    whichever operand is the wanted one.  So the gradient of a given operand is what the form
    has to say of that operand when the gradient of the result stands for the wanted one.
    """

    @staticmethod
    def forward(  # noqa: PLR0913 - see compute
        ctx: Any,  # noqa: ANN401 - torch is not typed
        wanted: Operand,
        first: Tensor,
        second: Tensor,
        bias: Tensor,
        size: Any,  # noqa: ANN401 - see compute
        settings: Settings,
        keep: bool,  # noqa: FBT001 - torch passes arguments by position
    ) -> Tensor:
        """Call the operator again, below autograd."""
        ctx.wanted, ctx.size, ctx.settings, ctx.keep = wanted, size, settings, keep
        ctx.save_for_backward(first, second)
        ctx.save_for_forward(first, second)
        given = dict(zip(GIVEN[wanted], (first, second), strict=True))
        if not torch._C._are_functorch_transforms_active():  # noqa: SLF001 - as torch.library does
            return compute(wanted, given, bias, size, settings, keep=keep, way=call_below)
        # The transforms further out record what happens in here, too.
        with torch.enable_grad(), _set_fwd_grad_enabled(True):  # noqa: FBT003 - torch's own
            return compute(wanted, given, bias, size, settings, keep=keep, way=call_below)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:  # noqa: ANN401 - torch is not typed
        """Return the gradients of the given operands and of the bias."""
        saved = dict(zip(GIVEN[ctx.wanted], ctx.saved_tensors, strict=True))
        _, first, second, bias, *_ = ctx.needs_input_grad
        gradients = []
        for (operand, tensor), needed in zip(saved.items(), (first, second), strict=True):
            given = {**saved, ctx.wanted: gradient}
            del given[operand]
            keep = ctx.keep and operand is not WEIGHTS
            gradients.append(
                compute(operand, given, None, tensor.shape[2:], ctx.settings, keep=keep)
                if needed
                else None
            )
        axes = (0, *range(2, gradient.dim()))
        added = gradient.sum(axes) if bias else None
        return None, *gradients, added, None, None, None

    @staticmethod
    def jvp(
        ctx: Any,  # noqa: ANN401 - torch is not typed
        wanted: None,
        first: Tensor,
        second: Tensor,
        bias: Tensor,
        *others: None,
    ) -> Tensor:
        """Return the change of the result for changes of the given operands and the bias."""
        del wanted, others
        saved = dict(zip(GIVEN[ctx.wanted], ctx.saved_tensors, strict=True))
        terms = [
            compute(ctx.wanted, {**saved, operand: tangent}, None, ctx.size, ctx.settings,
                    keep=ctx.keep and operand is not WEIGHTS)
            for operand, tangent in zip(saved, (first, second), strict=True)
            if tangent is not None
        ]  # fmt: skip
        if bias is not None:
            rank = len(ctx.size)
            shape = (ctx.saved_tensors[0].shape[0], bias.shape[0], *ctx.size)
            terms.append(bias.reshape(-1, *[1] * rank).expand(shape))
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total


def _differentiated(wanted: Operand) -> Callable[..., Tensor]:
    """Return an operator's kernel for tensors that may record derivatives."""

    def run(first: Tensor, second: Tensor, *others: Any) -> Tensor:  # noqa: ANN401 - see compute
        bias, (size, *settings) = (None, others) if wanted is WEIGHTS else (others[0], others[1:])
        keep = False if wanted is WEIGHTS else settings.pop()
        arguments = wanted, first, second, bias, size, tuple(settings), keep
        if not torch._C._are_functorch_transforms_active():  # noqa: SLF001 - as torch.library does
            return Derivative.apply(*arguments)
        with enable_single_level_autograd_function():  # the dispatcher takes level by level
            return Derivative.apply(*arguments)

    return run


def _fake(wanted: Operand) -> Callable[..., Tensor]:
    """Return what tells the shape and memory format of an operator's result."""

    def forward(  # noqa: PLR0913 - see kernels.conv
        input: Tensor,  # noqa: A002 - torch's word
        weight: Tensor,
        bias: Tensor,
        size: Any,  # noqa: ANN401 - see compute
        stride: object,
        padding: object,
        dilation: object,
        groups: Any,  # noqa: ANN401 - see compute
        channels_last: bool,  # noqa: FBT001 - see kernels.conv
        keep: object,
    ) -> Tensor:
        del bias, stride, padding, dilation, keep
        channels = weight.shape[0] if wanted is COARSE else weight.shape[1] * groups
        return empty((input.shape[0], channels, *size), input, channels_last=channels_last)

    def weights(  # noqa: PLR0913 - see kernels.conv_weight
        coarse: Tensor,
        fine: Tensor,
        size: Any,  # noqa: ANN401 - see compute
        stride: object,
        padding: object,
        dilation: object,
        groups: Any,  # noqa: ANN401 - see compute
        channels_last: bool,  # noqa: FBT001 - see kernels.conv
    ) -> Tensor:
        del stride, padding, dilation
        shape = (coarse.shape[1], fine.shape[1] // groups, *size)
        return empty(shape, coarse, channels_last=channels_last)

    return weights if wanted is WEIGHTS else forward


def _batched(wanted: Operand) -> Callable[..., tuple[Tensor, int]]:
    """Return the rule for torch.vmap.

    Further pictures of the same weights join the batch; pictures each with weights of their own
    become groups.
    """

    def forward(info: Any, in_dims: Any, *arguments: Any) -> tuple[Tensor, int]:  # noqa: ANN401 - torch is not typed
        data, weight, bias, *numbers, groups, channels_last, keep = arguments
        data_axis, weight_axis, bias_axis = in_dims[:3]
        operator, batch = OPERATORS[wanted], info.batch_size
        if weight_axis is None and bias_axis is None:
            merged = data.movedim(data_axis, 0).flatten(0, 1)
            result = operator(merged, weight, bias, *numbers, groups, channels_last, keep)
            return result.unflatten(0, (batch, -1)), 0
        data = _spread(data, data_axis, batch, 1)
        weight = _spread(weight, weight_axis, batch, 0)
        bias = None if bias is None else _spread(bias, bias_axis, batch, 0)
        result = operator(data, weight, bias, *numbers, groups * batch, channels_last, False)  # noqa: FBT003 - see kernels.conv
        return result.unflatten(1, (batch, -1)), 1

    def weights(info: Any, in_dims: Any, *arguments: Any) -> tuple[Tensor, int]:  # noqa: ANN401 - as above
        coarse, fine, *numbers, groups, channels_last = arguments
        batch = info.batch_size
        pictures = _spread(coarse, in_dims[0], batch, 1), _spread(fine, in_dims[1], batch, 1)
        result = OPERATORS[WEIGHTS](*pictures, *numbers, groups * batch, channels_last)
        return result.unflatten(0, (batch, -1)), 0

    return weights if wanted is WEIGHTS else forward


def _spread(tensor: Tensor, axis: int | None, batch: int, place: int) -> Tensor:
    """Merge the mapped axis into the channels at ``place``, repeating what has none."""
    if axis is None:
        tensor = tensor.unsqueeze(place).expand(*tensor.shape[:place], batch, *tensor.shape[place:])
    else:
        tensor = tensor.movedim(axis, place)
    return tensor.flatten(place, place + 1)


def _register() -> dict[Operand, Callable[..., Tensor]]:
    """Define the operators and everything that torch asks of them."""
    found = {}
    for wanted, name in OPERATOR.items():
        full = f"tconv::{name}"
        LIBRARY.define(f"{name}{SCHEMAS[name]} -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
        LIBRARY.impl(name, getattr(kernels, name), "CPU")
        LIBRARY.impl(name, DIFFERENTIATED[wanted], "Autograd")
        torch.library.register_fake(full, _fake(wanted), lib=LIBRARY)
        torch.library.register_vmap(full, _batched(wanted), lib=LIBRARY)
        found[wanted] = getattr(torch.ops.tconv, name).default
    return found


DIFFERENTIATED = {wanted: _differentiated(wanted) for wanted in OPERATOR}
OPERATORS = _register()
