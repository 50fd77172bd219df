"""PNG files: what is written is what a reader finds."""

import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tconv.explain.png import encode_png, write_png

Pixels = npt.NDArray[np.uint8]


def read_chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """Return the kind and content of every chunk; refuse a wrong signature or checksum."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, place = [], 8
    while place < len(data):
        (length,) = struct.unpack_from(">I", data, place)
        body = data[place + 4 : place + 8 + length]
        (checksum,) = struct.unpack_from(">I", data, place + 8 + length)
        assert zlib.crc32(body) == checksum
        chunks.append((body[:4], body[4:]))
        place += 12 + length
    return chunks


def predict(number: int, left: int, up: int, corner: int) -> int:
    """Return what filter ``number`` of the PNG specification expects of a byte."""
    nearest = min((left, up, corner), key=lambda byte: abs(left + up - corner - byte))
    return (0, left, up, (left + up) // 2, nearest)[number]


def decode_png(data: bytes) -> tuple[Pixels, set[int]]:
    """Return the pixels of a PNG file and the filters that its rows use, byte by byte."""
    chunks = read_chunks(data)
    width, height, *kind = struct.unpack(">IIBBBBB", chunks[0][1])
    assert [name for name, _ in chunks] == [b"IHDR", b"IDAT", b"IEND"]
    assert kind == [8, 2, 0, 0, 0]
    stride = 3 * width
    raw = zlib.decompress(chunks[1][1])
    assert len(raw) == height * (stride + 1)
    rows, filters, above = [], set(), [0] * (stride + 3)
    for start in range(0, len(raw), stride + 1):
        row = [0, 0, 0]
        for place, byte in enumerate(raw[start + 1 : start + 1 + stride]):
            expected = predict(raw[start], row[place], above[place + 3], above[place])
            row.append((byte + expected) % 256)
        filters.add(raw[start])
        rows.append(row[3:])
        above = row
    return np.array(rows, np.uint8).reshape(height, width, 3), filters


def gradients_and_noise() -> Pixels:
    """Return a picture whose rows suit different filters."""
    random = np.random.default_rng(3)
    y, x = np.indices((64, 40))
    picture = np.stack([4 * x, 3 * y, 2 * (x + y)], axis=-1)
    picture[16:24] = random.integers(0, 256, (8, 40, 3))
    picture[24:32] = picture[16]
    picture[32:40] = random.integers(0, 256, (8, 1, 3))
    picture[40:48] = np.where(x[40:48, :, None] % 3, 0, random.integers(0, 9, (8, 40, 3)))
    picture[56:] += random.integers(0, 6, (8, 40, 3))
    return picture.astype(np.uint8)


def test_pixels_come_back_as_they_went_in() -> None:
    """A decoder written from the specification finds the same bytes, whatever the filter."""
    pixels = gradients_and_noise()
    decoded, filters = decode_png(encode_png(pixels))

    np.testing.assert_array_equal(decoded, pixels)
    assert len(filters) >= 4


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 7), (5, 1)])
def test_the_smallest_pictures_have_files_too(height: int, width: int) -> None:
    """One point, one row and one column are pictures."""
    pixels = np.random.default_rng(1).integers(0, 256, (height, width, 3)).astype(np.uint8)
    decoded, _ = decode_png(encode_png(pixels))

    np.testing.assert_array_equal(decoded, pixels)


def test_smooth_rows_become_small() -> None:
    """Filters turn a gradient into equal bytes, which is what they are for."""
    pixels = np.broadcast_to(np.arange(256)[:, None], (256, 256, 3)).astype(np.uint8)

    assert len(encode_png(pixels + pixels.swapaxes(0, 1))) < 3000


def test_the_file_is_the_encoded_picture(tmp_path: Path) -> None:
    """Writing adds nothing to encoding."""
    pixels = gradients_and_noise()
    write_png(tmp_path / "picture.png", pixels)

    assert (tmp_path / "picture.png").read_bytes() == encode_png(pixels)


@pytest.mark.parametrize(
    "pixels",
    [np.zeros((2, 2, 3)), np.zeros((2, 2), np.uint8), np.zeros((2, 2, 4), np.uint8)],
    ids=["floats", "grey", "four channels"],
)
def test_what_is_no_picture_is_refused(pixels: Pixels) -> None:
    """Another type or shape would give a file that shows something else."""
    with pytest.raises(ValueError, match=r"uint8 of shape \(height, width, 3\)"):
        encode_png(pixels)


def test_the_decoder_notices_a_wrong_byte() -> None:
    """A check that cannot fail checks nothing."""
    data = bytearray(encode_png(gradients_and_noise()))
    data[60] ^= 1

    with pytest.raises(AssertionError):
        decode_png(bytes(data))
