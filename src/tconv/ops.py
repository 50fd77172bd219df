"""NumPy functions with torch.nn.functional's arguments, and all their gradients."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tconv.arrays import take_array
from tconv.calls import Runnable
from tconv.dialects import functional as words
from tconv.dialects.functional import Numbers
from tconv.dialects.shapes import parse_request
from tconv.quick import Calls, Result

Shape = Sequence[int]

_CONV = ("stride", "padding", "dilation", "groups", "layout")
_CONV_TRANSPOSE = ("stride", "padding", "output_padding", "groups", "dilation", "layout")
_CALLS = Calls()
_PLAIN = frozenset({int, str})


class _Conv(words.Conv, Runnable): ...


class _ConvTranspose(words.ConvTranspose, Runnable): ...


class _ConvGradInput(words.ConvGradInput, Runnable): ...


class _ConvGradWeight(words.ConvGradWeight, Runnable): ...


class _ConvTransposeGradInput(words.ConvTransposeGradInput, Runnable): ...


class _ConvTransposeGradWeight(words.ConvTransposeGradWeight, Runnable): ...


def conv(  # noqa: PLR0913 - torch.nn.functional's arguments
    input: object,  # noqa: A002 - torch's word
    weight: object,
    bias: object = None,
    stride: Numbers = 1,
    padding: Numbers | str = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    *,
    layout: str = "NCX",
    out: Result | None = None,
) -> Result:
    """Convolve, as ``torch.nn.functional.conv1d/2d/3d``, in any number of dimensions.

    ``weight`` is ``(C_out, C_in / groups, k...)`` in either layout; one spatial axis fewer in
    ``input`` than its batch needs means that there is no batch.

    >>> import numpy as np
    >>> conv(np.ones((1, 1, 4), "f4"), np.ones((1, 1, 3), "f4"))
    array([[[3., 3.]]], dtype=float32)
    """
    values = stride, padding, dilation, groups, layout
    return _forward(_Conv, _CONV, values, input, weight, bias, out)


def conv_transpose(  # noqa: PLR0913 - torch.nn.functional's arguments
    input: object,  # noqa: A002 - torch's word
    weight: object,
    bias: object = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
    *,
    layout: str = "NCX",
    out: Result | None = None,
) -> Result:
    """Convolve transposed, as ``torch.nn.functional.conv_transpose1d/2d/3d``, in any rank.

    ``weight`` is ``(C_in, C_out / groups, k...)`` in either layout.

    >>> import numpy as np
    >>> conv_transpose(np.ones((1, 1, 2), "f4"), np.ones((1, 1, 3), "f4"), stride=2)
    array([[[1., 1., 2., 1., 1.]]], dtype=float32)
    """
    values = stride, padding, output_padding, groups, dilation, layout
    return _forward(_ConvTranspose, _CONV_TRANSPOSE, values, input, weight, bias, out)


def conv_grad_input(  # noqa: PLR0913 - torch.nn.grad's arguments
    input_shape: Shape,
    weight: object,
    grad_output: object,
    *,
    stride: Numbers = 1,
    padding: Numbers | str = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    layout: str = "NCX",
    out: Result | None = None,
) -> Result:
    """Return the gradient of :func:`conv` with respect to its input."""
    op = _ConvGradInput(
        stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout
    )
    return op(grad_output, weight, _given(op, input_shape), out=out)


def conv_grad_weight(  # noqa: PLR0913 - torch.nn.grad's arguments
    input: object,  # noqa: A002 - torch's word
    weight_shape: Shape,
    grad_output: object,
    *,
    stride: Numbers = 1,
    padding: Numbers | str = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    layout: str = "NCX",
    out: Result | None = None,
) -> Result:
    """Return the gradient of :func:`conv` with respect to its weight."""
    op = _ConvGradWeight(
        stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout
    )
    return op(input, grad_output, _given(op, weight_shape), out=out)


def conv_transpose_grad_input(  # noqa: PLR0913 - torch.nn.grad's arguments
    input_shape: Shape,
    weight: object,
    grad_output: object,
    *,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
    layout: str = "NCX",
    out: Result | None = None,
) -> Result:
    """Return the gradient of :func:`conv_transpose` with respect to its input."""
    op = _ConvTransposeGradInput(
        stride=stride,
        padding=padding,
        output_padding=output_padding,
        groups=groups,
        dilation=dilation,
        layout=layout,
    )
    return op(grad_output, weight, _given(op, input_shape), out=out)


def conv_transpose_grad_weight(  # noqa: PLR0913 - torch.nn.grad's arguments
    input: object,  # noqa: A002 - torch's word
    weight_shape: Shape,
    grad_output: object,
    *,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
    layout: str = "NCX",
    out: Result | None = None,
) -> Result:
    """Return the gradient of :func:`conv_transpose` with respect to its weight."""
    op = _ConvTransposeGradWeight(
        stride=stride,
        padding=padding,
        output_padding=output_padding,
        groups=groups,
        dilation=dilation,
        layout=layout,
    )
    return op(input, grad_output, _given(op, weight_shape), out=out)


def _forward(  # noqa: PLR0913 - a tuple of them would take its time to make
    kind: type[Runnable],
    names: tuple[str, ...],
    values: tuple[Any, ...],
    data: Any,  # noqa: ANN401 - what people give, as below
    weight: Any,  # noqa: ANN401
    bias: Any,  # noqa: ANN401
    out: Result | None,
) -> Result:
    """Run, by the short way if a call like this one was checked before."""
    key: object = None
    types = tuple(map(type, values))
    # True is 1 to a dictionary, but not to us; so is (True, True), in tuples of any kind.
    if _PLAIN.issuperset(types) or all(map(_plain, values)):
        arrays = data, weight, bias
        key = _CALLS.key((kind, values, types), arrays)
        quick = None if key is None else _CALLS.find(key)
        if quick is not None:
            done = _CALLS.run(quick, arrays, out)
            if done is not None:
                return done
    op = kind(**dict(zip(names, values, strict=True)))
    result = _checked(op, data, weight, bias, out)
    if key is not None and data.ndim == weight.ndim:
        _CALLS.learn(key, op, arrays)
    return result


def _plain(value: object) -> bool:
    """Tell whether an argument can be known again: what others hold may change, or seem equal."""
    if type(value) is tuple:
        return all(type(number) is int for number in value)
    return isinstance(value, (int, str, np.integer))


def _checked(op: Runnable, data: object, weight: object, bias: object, out: Any) -> Result:  # noqa: ANN401 - checked later
    """Run with or without a batch, as torch does."""
    first, second = (
        take_array(op.title(), name, value)
        for name, value in zip(op.inputs, (data, weight), strict=True)
    )
    if first.ndim != second.ndim - 1 or second.ndim < 3:
        return op(data, weight, bias, out=out)
    whole = out[None] if isinstance(out, np.ndarray) else out
    result = op(first[None], weight, bias, out=whole)[0]
    return result if out is None else cast("Result", out)


def _given(op: Runnable, shape: object) -> object:
    """Let torch.Size pass as a shape; refuse to go without one."""
    if shape is None:
        parse_request(op.title(), str(op.third), shape)
    return tuple(shape) if isinstance(shape, tuple) else shape


FUNCTIONS: dict[str, type[Runnable]] = {
    "conv": _Conv,
    "conv_grad_input": _ConvGradInput,
    "conv_grad_weight": _ConvGradWeight,
    "conv_transpose": _ConvTranspose,
    "conv_transpose_grad_input": _ConvTransposeGradInput,
    "conv_transpose_grad_weight": _ConvTransposeGradWeight,
}
"""The operators behind the functions, by the functions' names."""
