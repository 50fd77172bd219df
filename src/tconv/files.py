"""Arrays in .npy files, bfloat16 too."""

import os
import tempfile
from pathlib import Path

import numpy as np

from tconv.arrays import NPArray
from tconv.errors import ProblemError
from tconv.problem import numpy_dtype

# NumPy has no name for bfloat16 and stores it as two nameless bytes.
NAMELESS = np.dtype("V2")


def read_array(path: object) -> NPArray:
    """Read a .npy file; two nameless bytes an element are bfloat16."""
    try:
        array = np.load(str(path), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise _refuse(f"{path} cannot be read: {_reason(error)}", "pass a .npy file") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise _refuse(f"{path} holds several arrays.", "pass a .npy file, not .npz")
    return array.view(numpy_dtype("bfloat16")) if array.dtype == NAMELESS else array


def write_array(path: Path, array: NPArray) -> None:
    """Write a .npy file whole or not at all."""
    named = array.dtype != numpy_dtype("bfloat16")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".npy")
        try:
            with os.fdopen(handle, "wb") as file:
                np.save(file, array if named else array.view(NAMELESS))
            Path(name).chmod(0o666 & ~_umask())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _refuse(f"{path} cannot be written: {_reason(error)}", "choose another -o") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.splitlines()[0] if text else type(error).__name__


def _refuse(wrong: str, fix: str) -> ProblemError:
    return ProblemError(
        "tconv run", wrong, got={}, rule="inputs and output are .npy files", fix=fix
    )
