"""Reusable working memory, one piece for each Python thread."""

import threading

import numpy as np

LINE = 64


class _Piece(threading.local):
    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)
        self.address = 0


_piece = _Piece()


def scratch_address(size: int) -> int:
    """Return the address of at least ``size`` bytes on a cache line of their own.

    The bytes hold whatever was left there, and are this thread's until its next call.
    """
    if _piece.memory.size < size + LINE:
        _piece.memory = np.empty(0, np.uint8)  # let go before asking for more
        _piece.memory = np.empty(size + LINE, np.uint8)
        start = _piece.memory.__array_interface__["data"][0]
        _piece.address = -(-start // LINE) * LINE
    return _piece.address
