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
    return _forward(_Conv, _CONV, values, (input, weight, bias), out)


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
    return _forward(_ConvTranspose, _CONV_TRANSPOSE, values, (input, weight, bias), out)


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
    values = stride, padding, dilation, groups, layout
    arrays = grad_output, weight, None
    return _gradient(_ConvGradInput, _CONV, values, arrays, input_shape, out)


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
    values = stride, padding, dilation, groups, layout
    arrays = input, grad_output, None
    return _gradient(_ConvGradWeight, _CONV, values, arrays, weight_shape, out)


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
    values = stride, padding, output_padding, groups, dilation, layout
    arrays = grad_output, weight, None
    return _gradient(_ConvTransposeGradInput, _CONV_TRANSPOSE, values, arrays, input_shape, out)


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
    values = stride, padding, output_padding, groups, dilation, layout
    arrays = input, grad_output, None
    return _gradient(_ConvTransposeGradWeight, _CONV_TRANSPOSE, values, arrays, weight_shape, out)


def _forward(
    kind: type[Runnable],
    names: tuple[str, ...],
    values: tuple[Any, ...],
    arrays: tuple[Any, Any, Any],
    out: Result | None,
) -> Result:
    """Run, by the short way if a call like this one was checked before."""
    key = _key(kind, values, None, arrays)
    done = None if key is None else _CALLS.again(key, arrays, out)
    if done is not None:
        return done
    op = kind(**dict(zip(names, values, strict=True)))
    result = _checked(op, arrays, out)
    if key is not None and arrays[0].ndim == arrays[1].ndim:
        _CALLS.learn(key, op, arrays)
    return result


def _gradient(  # noqa: PLR0913 - a tuple of them would take its time to make
    kind: type[Runnable],
    names: tuple[str, ...],
    values: tuple[Any, ...],
    arrays: tuple[Any, Any, None],
    shape: Any,  # noqa: ANN401 - what people give
    out: Result | None,
) -> Result:
    """Do the same for a gradient of a given shape."""
    if isinstance(shape, tuple):
        shape = tuple(shape)  # torch.Size too
    key = _key(kind, values, shape, arrays)
    done = None if key is None else _CALLS.again(key, arrays, out)
    if done is not None:
        return done
    op = kind(**dict(zip(names, values, strict=True)))
    if shape is None:
        parse_request(op.title(), str(op.third), shape)
    result = op(*arrays[:2], shape, out=out)
    if key is not None:
        _CALLS.learn(key, op, arrays, shape)
    return result


def _key(
    kind: type[Runnable], values: tuple[Any, ...], shape: object, arrays: tuple[Any, Any, Any]
) -> object:
    """Return what a call is known by; None if it cannot be known again."""
    if shape is not None and not (type(shape) is tuple and _plain(shape)):
        return None
    if _PLAIN.issuperset(map(type, values)):
        return _CALLS.key((kind, values, shape), arrays)
    # True is 1 to a dictionary, but not to us; so is (True, True), in tuples of any kind.
    if not all(map(_plain, values)):
        return None
    return _CALLS.key((kind, values, shape, *map(type, values)), arrays)


def _plain(value: object) -> bool:
    """Tell whether an argument can be known again: what others hold may change, or seem equal."""
    if type(value) is tuple:
        return all(type(number) is int for number in value)
    return isinstance(value, (int, str, np.integer))


def _checked(op: Runnable, arrays: tuple[Any, Any, Any], out: Any) -> Result:  # noqa: ANN401 - checked later
    """Run with or without a batch, as torch does."""
    data, weight, bias = arrays
    first, second = (
        take_array(op.title(), name, value)
        for name, value in zip(op.inputs, (data, weight), strict=True)
    )
    if first.ndim != second.ndim - 1 or second.ndim < 3:
        return op(data, weight, bias, out=out)
    whole = out[None] if isinstance(out, np.ndarray) else out
    result = op(first[None], weight, bias, out=whole)[0]
    return result if out is None else cast("Result", out)


FUNCTIONS: dict[str, type[Runnable]] = {
    "conv": _Conv,
    "conv_grad_input": _ConvGradInput,
    "conv_grad_weight": _ConvGradWeight,
    "conv_transpose": _ConvTranspose,
    "conv_transpose_grad_input": _ConvTransposeGradInput,
    "conv_transpose_grad_weight": _ConvTransposeGradWeight,
}
"""The operators behind the functions, by the functions' names."""
