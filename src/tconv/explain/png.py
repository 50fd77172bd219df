"""Write pictures as PNG files with nothing but the standard library and NumPy."""

import struct
import zlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

SIGNATURE = b"\x89PNG\r\n\x1a\n"
BITS_PER_SAMPLE, TRUE_COLOUR = 8, 2


def encode_png(pixels: Pixels) -> bytes:
    r"""Return the PNG file of a picture of shape ``(height, width, 3)``.

    >>> encode_png(np.zeros((2, 3, 3), np.uint8))[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        message = (
            f"a picture is uint8 of shape (height, width, 3), not {pixels.dtype} {pixels.shape}"
        )
        raise ValueError(message)
    height, width, _ = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, BITS_PER_SAMPLE, TRUE_COLOUR, 0, 0, 0)
    body = zlib.compress(filter_rows(pixels), level=7)
    return SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def write_png(path: Path, pixels: Pixels) -> None:
    """Write the picture to the file ``path``."""
    path.write_bytes(encode_png(pixels))


def chunk(kind: bytes, data: bytes) -> bytes:
    """Return one PNG chunk: length, kind, data, checksum."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def filter_rows(pixels: Pixels) -> bytes:
    """Return, for each row, the number of a filter and the bytes that filter leaves.

    A filter predicts each byte from its left (``a``), upper (``b``) and upper left (``c``)
    neighbour and keeps the difference.  Of the five filters each row takes the one with the
    smallest sum of differences: that compresses best, or nearly so, without trying all.
    """
    bordered = np.pad(pixels.astype(np.int16), ((1, 0), (1, 0), (0, 0)))
    rows = []
    for above, row in pairwise(bordered):
        x, a, b, c = row[1:], row[:-1], above[1:], above[:-1]
        to_a, to_b, to_c = np.abs(b - c), np.abs(a - c), np.abs(a + b - 2 * c)
        paeth = np.where((to_a <= to_b) & (to_a <= to_c), a, np.where(to_b <= to_c, b, c))
        left = [(x - guess).astype(np.uint8) for guess in (0 * x, a, b, (a + b) // 2, paeth)]
        sums = [int(np.abs(rest.view(np.int8).astype(np.int16)).sum()) for rest in left]
        number = sums.index(min(sums))
        rows.append(bytes([number]) + left[number].tobytes())
    return b"".join(rows)
