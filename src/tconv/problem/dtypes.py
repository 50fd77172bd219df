"""The element types, their names and what they are summed in."""

import ml_dtypes
import numpy as np
import numpy.typing as npt

DTYPES = ("float32", "float64", "float16", "bfloat16")

_NUMPY: dict[str, np.dtype[np.generic]] = {
    name: np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name) for name in DTYPES
}
_NAMES = {dtype: name for name, dtype in _NUMPY.items()}


def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """Return NumPy's dtype for one of :data:`DTYPES`.

    >>> numpy_dtype("bfloat16").itemsize
    2
    """
    return _NUMPY[name]


def dtype_name(dtype: npt.DTypeLike) -> str | None:
    """Return the name of a dtype in either byte order, or None when it is foreign.

    >>> dtype_name(">f4"), dtype_name("int32")
    ('float32', None)
    """
    if isinstance(dtype, str) and dtype in _NUMPY:
        return dtype
    if dtype is None:  # float64 to NumPy, nothing to us
        return None
    try:
        return _NAMES.get(np.dtype(dtype).newbyteorder("="))
    except Exception:  # noqa: BLE001 - NumPy parses commas, tuples and whole programs here
        return None


def accumulator(name: str) -> np.dtype[np.generic]:
    """Return the type that sums are kept in: f32, except f64 for f64.

    >>> accumulator("float16")
    dtype('float32')
    """
    return _NUMPY["float64" if name == "float64" else "float32"]
