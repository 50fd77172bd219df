"""Arrays with a page behind them that nobody may read."""

import ctypes
import mmap
import sys

import numpy as np
import numpy.typing as npt
import pytest

Floats = npt.NDArray[np.float32]

PROT_NONE = 0


def build_wall(place: int) -> None:
    """Let nobody read a page."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(place), mmap.PAGESIZE, PROT_NONE) == 0


def before_a_wall(shape: tuple[int, ...], room: int) -> Floats:
    """Return zeros, so many elements for each point, whose last channel ends where memory does.

    Behind it lies a page that nobody may read.
    """
    *outer, channels = shape
    points = int(np.prod(outer))
    needed = ((points - 1) * room + channels) * 4
    pages = -(-needed // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    whole = np.frombuffer(memory, np.float32)
    wall = whole.ctypes.data + pages * mmap.PAGESIZE
    build_wall(wall)
    first = pages * mmap.PAGESIZE // 4 - needed // 4
    strides = [4 * room * int(np.prod(outer[place + 1 :])) for place in range(len(outer))]
    return np.lib.stride_tricks.as_strided(whole[first:], shape, [*strides, 4])


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="walls are Linux's")
