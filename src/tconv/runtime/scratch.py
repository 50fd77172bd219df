"""Reusable working memory, one piece for each Python thread; and where arrays begin."""

import ctypes
import math
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

LINE = 64
LARGE = 1 << 20  # bytes of an array from which on it begins with a line: others stay in caches

Address = Callable[[npt.NDArray[Any]], int]


class _Piece(threading.local):
    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)
        self.size = 0
        self.address = 0


_piece = _Piece()


def scratch_address(size: int) -> int:
    """Return the address of at least ``size`` bytes on a cache line of their own.

    The bytes hold whatever was left there, and are this thread's until its next call.
    """
    piece = _piece
    if piece.size < size:
        piece.size = 0
        piece.memory = np.empty(0, np.uint8)  # let go before asking for more
        piece.memory = np.empty(size + LINE, np.uint8)
        piece.address = -(-_asked(piece.memory) // LINE) * LINE
        piece.size = size
    return piece.address


def _asked(array: npt.NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _found() -> Address:
    """Return the quickest way to an array's first element.

    CPython's id is an address, and the pointer stands behind the object's header.  Asking
    the array takes six times as long, a tenth of a whole small layer; it is done where the
    pointer is not where it should be.
    """
    offset, word = object.__basicsize__, ctypes.sizeof(ctypes.c_size_t)
    memory = (ctypes.c_size_t * (sys.maxsize // word)).from_address(0)  # all that there is

    def found(array: npt.NDArray[Any]) -> int:
        return memory[(id(array) + offset) // word]

    trial = np.arange(24).reshape(2, 3, 4)
    views = (trial, trial[1:], trial[:, ::-1], np.empty(3, np.float32), trial.T)
    return found if all(found(view) == _asked(view) for view in views) else _asked


address: Address = _found()


def on_lines(size: int) -> tuple[npt.NDArray[Any], int]:
    """Return memory for so many bytes, and where in it a cache line begins with room for them.

    Vectors that lie on two lines take longer to read.
    """
    memory = np.empty(size + LINE, np.uint8)
    return memory, -(-address(memory) // LINE) * LINE


def maker(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], npt.NDArray[Any]]:
    """Return what makes new arrays; large ones begin with a cache line.

    NumPy's begin 16 bytes further, and what goes past the caches goes by whole lines.

    >>> address(maker((1 << 20,), np.dtype("float32"))()) % LINE
    0
    """
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE:
        return partial(np.empty, shape, dtype)

    def large() -> npt.NDArray[Any]:
        memory, begin = on_lines(size)
        return np.ndarray(shape, dtype, memory, begin - address(memory))

    return large
