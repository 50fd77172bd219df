"""The same numbers in every form that an array can have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from errors.callees import Callee
from tconv import reference

Array = npt.NDArray[Any]


class Subclass(np.ndarray[Any, np.dtype[Any]]):
    """An array of a class that the library has never seen."""


class OnlyArray:
    """An object that is no array, but can be read as one."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: object = None) -> Array:
        """Return the array itself."""
        del copy
        return self.array if dtype is None else self.array.astype(dtype)


class OnlyDlpack:
    """An object that knows nothing but the DLPack protocol."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __dlpack__(self, **words: object) -> object:
        """Hand out the array's memory."""
        return self.array.__dlpack__(**words)  # type: ignore[arg-type]

    def __dlpack_device__(self) -> tuple[int, int]:
        """Say that the memory is the CPU's."""
        kind, number = self.array.__dlpack_device__()
        return int(kind), int(number)


def fortran(array: Array) -> Array:
    """First axis fastest."""
    return np.asfortranarray(array)


def reversed_axes(array: Array) -> Array:
    """Every stride negative."""
    return np.flip(np.flip(array).copy())


def strided(array: Array) -> Array:
    """Every second element of a row twice as long."""
    wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), 99, array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


def sliced(array: Array) -> Array:
    """Cut from the inside of a larger array."""
    whole = np.full([size + 2 for size in array.shape], 99, array.dtype)
    inside = whole[(slice(1, -1),) * array.ndim]
    inside[...] = array
    return inside


def rotated(array: Array) -> Array:
    """Axes in an order that neither C nor Fortran has."""
    order = [*range(1, array.ndim), 0]
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


def locked(array: Array) -> Array:
    """Read-only."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def swapped(array: Array) -> Array:
    """In the byte order of other machines."""
    return array.astype(array.dtype.newbyteorder())


def unaligned(array: Array) -> Array:
    """One byte off."""
    memory = bytearray(b"\0" + array.tobytes())
    return np.frombuffer(memory, array.dtype, offset=1).reshape(array.shape)


def subclassed(array: Array) -> Array:
    """Of a class of its own."""
    return array.copy().view(Subclass)


def mapped(array: Array, folder: Path) -> Array:
    """In a file."""
    memory: Array = np.memmap(folder / "array.bin", array.dtype, "w+", shape=array.shape)
    memory[...] = array
    return memory


FORMS: dict[str, Callable[[Array], Any]] = {
    "Fortran": fortran,
    "negative strides": reversed_axes,
    "every second element": strided,
    "slice": sliced,
    "rotated axes": rotated,
    "read-only": locked,
    "byte-swapped": swapped,
    "unaligned": unaligned,
    "subclass": subclassed,
    "__array__": OnlyArray,
    "__dlpack__": OnlyDlpack,
}
# The forms in which a result can be written.
WRITABLE = {
    name: form
    for name, form in FORMS.items()
    if name not in ("read-only", "byte-swapped", "__array__", "__dlpack__")
}


def definition(
    callee: Callee,
    arrays: tuple[Array, Array],
    third: Any = None,  # noqa: ANN401 - a bias or sizes
    **changes: Any,  # noqa: ANN401 - any attribute
) -> Array:
    """Return what the definition says of a call, rounded once to the element type."""
    op = callee.op(**changes)
    bias = third if isinstance(third, np.ndarray) and third.dtype.kind not in "iu" else None
    request = bias.shape if bias is not None else callee.third if third is None else third
    dtype = arrays[0].dtype
    problem = op.problem(arrays[0].shape, arrays[1].shape, request, dtype=dtype)
    operands = dict(zip(op.given, arrays, strict=True))
    first, second = (operands[operand] for operand in problem.given)
    with np.errstate(all="ignore"):
        return reference.answer(problem, first, second, bias).astype(dtype)


def bits(array: Array) -> bytes:
    """Return the elements as bytes, so that equal means equal in every bit."""
    return np.ascontiguousarray(array).tobytes()
