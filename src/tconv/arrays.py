"""Take arrays as people have them, and refuse what cannot be taken."""

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from tconv.errors import ProblemError, UnsupportedError
from tconv.problem import dtype_name, numpy_dtype

Array = npt.NDArray[np.generic]
NPArray = npt.NDArray[Any]

MOST_TAPS = 1 << 21  # of all axes together: plans list them, a million in some seconds


def take_array(title: str, name: str, value: object) -> Array:
    """Return an input as a NumPy array in native byte order, without copying if possible.

    Anything with ``__array__`` or ``__dlpack__`` will do, in any strides.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise _refuse(
            title,
            f"{name} is a masked array.",
            rule="every element has a value",
            fix=f"pass {name}.filled(0) or {name}.data",
        )
    readable = hasattr(value, "__array__") or hasattr(value, "__dlpack__")
    if not readable:
        raise _refuse(
            title,
            f"{name} is {_kind(value)}, not an array.",
            rule="inputs are NumPy arrays, or have __array__ or __dlpack__",
            fix=f"pass np.asarray({name}, dtype=np.float32)",
        )
    try:
        taken = hasattr(value, "__array__")
        array = np.asarray(value) if taken else np.from_dlpack(value)  # type: ignore[arg-type]
    except Exception as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _refuse(
            title,
            f"{name} cannot be read as an array: {text}",
            rule="inputs are NumPy arrays, or have __array__ or __dlpack__, on the CPU",
            fix=f"convert {name} to a NumPy array first",
        ) from error
    if not array.dtype.isnative and dtype_name(array.dtype):
        check_memory(title, array.shape, array.nbytes)
        with allocating(title, array.shape):
            array = array.astype(array.dtype.newbyteorder("="))
    return array


def common_dtype(title: str, named: Sequence[tuple[str, Array]]) -> np.dtype[Any]:
    """Return the element type that all inputs share, or refuse a mixture."""
    (first, array), *others = named
    for name, other in others:
        if other.dtype.newbyteorder("=") != array.dtype.newbyteorder("="):
            raise ProblemError(
                title,
                f"{name} is {other.dtype.name}, but {first} is {array.dtype.name}.",
                got={n: a.dtype.name for n, a in named},
                rule="all inputs have the same element type",
                fix=f"convert {name} with .astype({array.dtype.name!r})",
            )
    return array.dtype


def check_out(
    title: str, out: object, shape: tuple[int, ...], dtype: str, inputs: Sequence[tuple[str, Array]]
) -> None:
    """Refuse an ``out`` that does not fit; it is not touched by this."""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise _refuse(
            title,
            f"out is {_kind(out)}, not a NumPy array.",
            rule="out is a NumPy array",
            fix=f"pass np.empty({shape}, {dtype!r})",
        )
    wrong = None
    if out.shape != shape:
        wrong = f"has shape {out.shape}, but the result has {shape}."
    elif out.dtype != numpy_dtype(dtype):
        wrong = (
            f"is {out.dtype.name}{'' if out.dtype.isnative else ' (byte-swapped)'}, "
            f"but the result is {dtype}."
        )
    elif not out.flags.writeable:
        wrong = "is read-only."
    elif _overlaps_itself(out):
        wrong = "has elements that share memory with each other."
    else:
        for name, array in inputs:
            if _share_memory(out, array):
                wrong = f"overlaps the input {name}."
    if wrong:
        raise ProblemError(
            title,
            f"out {wrong}",
            got={"out": f"{out.shape} {out.dtype.name}"},
            rule="out has the result's shape and dtype, is writable and overlaps no input",
            fix=f"pass np.empty({shape}, {dtype!r}), or leave out out",
        )


def check_memory(title: str, shape: tuple[int, ...], needed: int) -> None:
    """Refuse a result that this machine cannot hold, before anything is allocated."""
    available = _physical_memory()
    if available is not None and needed > available:
        raise too_large(
            title,
            shape,
            f"{needed / 2**30:.3g} GiB are needed, this machine has {available / 2**30:.3g} GiB.",
        )


def check_window(title: str, taps: Sequence[int]) -> None:
    """Refuse a window that would take hours to walk through."""
    if math.prod(taps) > MOST_TAPS:
        raise UnsupportedError(
            title,
            f"the window has {math.prod(taps)} elements.",
            got={"window": tuple(taps)},
            rule=f"a window has at most {MOST_TAPS} elements",
            fix="pass a smaller window",
        )


def check_axes(title: str, spatial: int) -> None:
    """Refuse more axes than NumPy can tell groups and batch apart from."""
    if spatial > MOST_AXES:
        raise UnsupportedError(
            title,
            f"there are {spatial} spatial axes.",
            got={"spatial axes": spatial},
            rule=f"there are at most {MOST_AXES} spatial axes, as many as NumPy leaves room for",
            fix="merge axes whose window is 1 into the batch",
        )


def _numpy_axes() -> int:
    try:
        return np.empty((1,) * 64).ndim
    except ValueError:
        return 32


@contextmanager
def allocating(title: str, shape: tuple[int, ...]) -> Iterator[None]:
    """Turn what NumPy raises for want of memory into an error of ours."""
    try:
        yield
    except MemoryError as error:
        raise too_large(title, shape, "memory ran out.") from error
    except ValueError as error:
        if "too big" not in str(error) and "too large" not in str(error):
            raise
        raise too_large(title, shape, "NumPy cannot count its elements.") from error


def too_large(title: str, shape: tuple[int, ...], why: str) -> UnsupportedError:
    """Return the error for a result that cannot be allocated."""
    return UnsupportedError(
        title,
        f"an array of shape {shape} cannot be allocated: {why}",
        got={"result": str(shape)},
        rule="inputs, sums and result fit in memory",
        fix="split the batch, or compute the picture in parts",
    )


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None  # not told on this platform; the allocation itself will tell


def _share_memory(out: Array, array: Array) -> bool:
    try:
        return np.shares_memory(out, array, max_work=100_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True  # cannot be shown not to


def _overlaps_itself(out: Array) -> bool:
    """Tell whether two indices may name one element, by strides from small to large."""
    reach = 0
    for stride, size in sorted(
        (abs(stride), size) for stride, size in zip(out.strides, out.shape, strict=True) if size > 1
    ):
        if stride < reach + out.itemsize:
            return out.size > 0
        reach += stride * (size - 1)
    return False


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _refuse(title: str, wrong: str, *, rule: str, fix: str) -> ProblemError:
    return ProblemError(title, wrong, got={}, rule=rule, fix=fix)


# Batch, group and two channels stand beside the spatial axes.
MOST_AXES = _numpy_axes() - 4
