"""Draw on a sheet: panels, frames, and text in a bitmap font of its own."""

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Colour = tuple[int, int, int]
Place = tuple[int, int]  # rows from the top, columns from the left

FIRST, GLYPH_HEIGHT, GLYPH_WIDTH = " ", 9, 5
BLANK_WIDTH = 3  # of a space: letters have their own widths

# Every printable character from space to tilde, sixteen in a row.  The seventh line of a
# glyph stands on the writing line; two more are for tails.
GLYPHS = """
..... #.... #.#.. .#.#. ..#.. ##... .##.. #.... ..#.. #.... ..... ..... ..... ..... ..... ....#
..... #.... #.#.. .#.#. .#### ##..# #..#. #.... .#... .#... ..#.. ..#.. ..... ..... ..... ....#
..... #.... #.#.. ##### #.#.. ...#. #.#.. #.... #.... ..#.. #.#.# ..#.. ..... ..... ..... ...#.
..... #.... ..... .#.#. .###. ..#.. .#... ..... #.... ..#.. .###. ##### ..... ####. ..... ..#..
..... #.... ..... ##### ..#.# .#... #.#.# ..... #.... ..#.. #.#.# ..#.. ..... ..... ..... .#...
..... ..... ..... .#.#. ####. #..## #..#. ..... #.... ..#.. ..#.. ..#.. .#... ..... ##... #....
..... #.... ..... .#.#. ..#.. ...## .##.# ..... #.... ..#.. ..... ..... .#... ..... ##... #....
..... ..... ..... ..... ..... ..... ..... ..... .#... .#... ..... ..... .#... ..... ..... .....
..... ..... ..... ..... ..... ..... ..... ..... ..#.. #.... ..... ..... #.... ..... ..... .....

.###. .#... .###. .###. ...#. ##### ..##. ##### .###. .###. ..... ..... ...#. ..... #.... .###.
#...# ##... #...# #...# ..##. #.... .#... ....# #...# #...# ##... .##.. ..#.. ..... .#... #...#
#...# .#... ....# ....# .#.#. ####. #.... ...#. #...# #...# ##... .##.. .#... ##### ..#.. ....#
#...# .#... ...#. ..##. #..#. ....# ####. ...#. .###. .#### ..... ..... #.... ..... ...#. ...#.
#...# .#... ..#.. ....# ##### ....# #...# ..#.. #...# ....# ..... ..... .#... ##### ..#.. ..#..
#...# .#... .#... #...# ...#. #...# #...# ..#.. #...# ...#. ##... .##.. ..#.. ..... .#... .....
.###. ###.. ##### .###. ...#. .###. .###. ..#.. .###. .##.. ##... .##.. ...#. ..... #.... ..#..
..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..#.. ..... ..... ..... .....
..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .#... ..... ..... ..... .....

.###. .###. ####. .###. ###.. ##### ##### .###. #...# ###.. ....# #...# #.... #...# #...# .###.
#...# #...# #...# #...# #..#. #.... #.... #...# #...# .#... ....# #..#. #.... ##.## ##..# #...#
#.### #...# #...# #.... #...# #.... #.... #.... #...# .#... ....# #.#.. #.... #.#.# ##..# #...#
#.#.# ##### ####. #.... #...# ####. ####. #.### ##### .#... ....# ##... #.... #.#.# #.#.# #...#
#.### #...# #...# #.... #...# #.... #.... #...# #...# .#... ....# #.#.. #.... #...# #..## #...#
#.... #...# #...# #...# #..#. #.... #.... #...# #...# .#... #...# #..#. #.... #...# #..## #...#
.###. #...# ####. .###. ###.. ##### #.... .###. #...# ###.. .###. #...# ##### #...# #...# .###.
..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....
..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....

####. .###. ####. .#### ##### #...# #...# #...# #...# #...# ##### ###.. #.... ###.. ..#.. .....
#...# #...# #...# #.... ..#.. #...# #...# #...# #...# #...# ....# #.... #.... ..#.. .#.#. .....
#...# #...# #...# #.... ..#.. #...# #...# #...# .#.#. .#.#. ...#. #.... .#... ..#.. #...# .....
####. #...# ####. .###. ..#.. #...# #...# #.#.# ..#.. ..#.. ..#.. #.... ..#.. ..#.. ..... .....
#.... #.#.# #.#.. ....# ..#.. #...# .#.#. #.#.# .#.#. ..#.. .#... #.... ...#. ..#.. ..... .....
#.... #..#. #..#. ....# ..#.. #...# .#.#. ##.## #...# ..#.. #.... #.... ....# ..#.. ..... .....
#.... .##.# #...# ####. ..#.. .###. ..#.. #...# #...# ..#.. ##### #.... ....# ..#.. ..... .....
..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... #.... ..... ..#.. ..... #####
..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ###.. ..... ###.. ..... .....

#.... ..... #.... ..... ....# ..... ..##. ..... #.... #.... ..#.. #.... #.... ..... ..... .....
.#... ..... #.... ..... ....# ..... .#... ..... #.... ..... ..... #.... #.... ..... ..... .....
..... .###. ####. .###. .#### .###. ####. .#### ####. #.... ..#.. #..#. #.... ####. ####. .###.
..... ....# #...# #.... #...# #...# .#... #...# #...# #.... ..#.. #.#.. #.... #.#.# #...# #...#
..... .#### #...# #.... #...# ##### .#... #...# #...# #.... ..#.. ##... #.... #.#.# #...# #...#
..... #...# #...# #.... #...# #.... .#... #...# #...# #.... ..#.. #.#.. #.... #.#.# #...# #...#
..... .#### ####. .###. .#### .###. .#... .#### #...# #.... ..#.. #..#. .#... #.#.# #...# .###.
..... ..... ..... ..... ..... ..... ..... ....# ..... ..... ..#.. ..... ..... ..... ..... .....
..... ..... ..... ..... ..... ..... ..... .###. ..... ..... ##... ..... ..... ..... ..... .....

..... ..... ..... ..... .#... ..... ..... ..... ..... ..... ..... ..#.. #.... #.... .....
..... ..... ..... ..... .#... ..... ..... ..... ..... ..... ..... .#... #.... .#... .....
####. .#### #.##. .#### ####. #...# #...# #...# #...# #...# ##### .#... #.... .#... .#..#
#...# #...# ##... #.... .#... #...# #...# #.#.# .#.#. #...# ...#. .#... #.... .#... #.##.
#...# #...# #.... .###. .#... #...# .#.#. #.#.# ..#.. #...# ..#.. #.... #.... ..#.. .....
#...# #...# #.... ....# .#... #...# .#.#. #.#.# .#.#. #...# .#... .#... #.... .#... .....
####. .#### #.... ####. ..##. .#### ..#.. .#.#. #...# .#### ##### .#... #.... .#... .....
#.... ....# ..... ..... ..... ..... ..... ..... ..... ....# ..... .#... #.... .#... .....
#.... ....# ..... ..... ..... ..... ..... ..... ..... .###. ..... ..#.. #.... #.... .....
"""


class Canvas:
    """A sheet of pixels that refuses whatever would not fit on it.

    >>> canvas = Canvas(40, 60, (0, 0, 0))
    >>> canvas.write("up", (4, 4), (255, 255, 255), scale=2)
    >>> int(canvas.pixels.max())
    255
    """

    def __init__(self, height: int, width: int, colour: Colour) -> None:
        self.pixels: Pixels = np.full((height, width, 3), colour, np.uint8)

    def area(self, at: Place, height: int, width: int) -> Pixels:
        """Return a view of part of the sheet."""
        top, left = at
        rows, columns, _ = self.pixels.shape
        if min(top, left) < 0 or top + height > rows or left + width > columns:
            message = f"{height} x {width} at {at} does not fit on a sheet of {rows} x {columns}"
            raise ValueError(message)
        return self.pixels[top : top + height, left : left + width]

    def fill(self, at: Place, size: Place, colour: Colour) -> None:
        """Paint a rectangle."""
        self.area(at, *size)[:] = colour

    def paste(self, panel: Pixels, at: Place) -> None:
        """Lay a panel on the sheet."""
        self.area(at, *panel.shape[:2])[:] = panel

    def panel(self, panel: Pixels, at: Place, edge: Colour) -> None:
        """Lay a panel on the sheet, in a frame of two pixels around it."""
        self.fill((at[0] - 2, at[1] - 2), (panel.shape[0] + 4, panel.shape[1] + 4), edge)
        self.paste(panel, at)

    def caption(self, lines: tuple[tuple[str, Colour], ...], at: Place, width: int) -> None:
        """Write lines under a panel that ends at ``at``, below a bar of the first line's colour."""
        top, left = at
        self.fill((top + 2, left - 2), (4, width + 4), lines[0][1])
        for text, colour in lines:
            if text_width(text, 2) > width:
                message = f"a caption of {text_width(text, 2)} pixels is wider than {width}: {text}"
                raise ValueError(message)
            self.write(text, (top + 18, left), colour, scale=2)
            top += 26

    def write(self, text: str, at: Place, colour: Colour, *, scale: int) -> None:
        """Write one line of text whose upper left corner is ``at``."""
        ink = text_mask(text, scale)
        self.area(at, *ink.shape)[ink] = colour


def to_pixels(picture: npt.NDArray[np.floating[Any]]) -> Pixels:
    """Return the pixels of a picture whose values mean 0 for dark and 1 for bright."""
    pixels: Pixels = (np.clip(picture, 0, 1) * 255 + 0.5).astype(np.uint8)
    return pixels


def text_width(text: str, scale: int) -> int:
    """Return how many pixels wide a line of text is."""
    return int(text_mask(text, scale).shape[1])


@cache
def text_mask(text: str, scale: int) -> Mask:
    """Return where the ink of a line of text is; ``scale`` is a power of two.

    >>> text_mask("I", 1).astype(int)[:3]
    array([[1, 1, 1],
           [0, 1, 0],
           [0, 1, 0]])
    """
    gap = np.zeros((GLYPH_HEIGHT, 1), np.bool_)
    columns = [part for letter in text for part in (glyphs()[letter], gap)]
    mask = np.concatenate(columns[:-1], axis=1)
    while scale > 1:
        mask, scale = doubled(mask), scale // 2
    return mask


def doubled(mask: Mask) -> Mask:
    """Return the mask at twice the size with its stairs smoothed.

    Each point becomes four.  One of the four takes the value of its two outer neighbours if
    these agree with each other and not with the neighbours opposite (the rule "Scale2x").
    """
    height, width = mask.shape
    large = mask.repeat(2, axis=0).repeat(2, axis=1)
    around = np.pad(mask, 1)
    up, down = around[:-2, 1:-1], around[2:, 1:-1]
    left, right = around[1:-1, :-2], around[1:-1, 2:]
    corners = large.reshape(height, 2, width, 2)
    for row, vertical, far_vertical in ((0, up, down), (1, down, up)):
        for column, side, far_side in ((0, left, right), (1, right, left)):
            agree = (vertical == side) & (vertical != far_side) & (side != far_vertical)
            corners[:, row, :, column][agree] = side[agree]
    return large


@cache
def glyphs() -> dict[str, Mask]:
    """Return the ink of each character, blank columns at its sides removed."""
    masks: dict[str, Mask] = {}
    for block in GLYPHS.strip().split("\n\n"):
        lines = np.array([list(line) for line in block.split("\n")]) == "#"
        for left in range(0, lines.shape[1], GLYPH_WIDTH + 1):
            mask = lines[:, left : left + GLYPH_WIDTH]
            inked = np.flatnonzero(mask.any(axis=0))
            narrow = mask[:, inked[0] : inked[-1] + 1] if inked.size else mask[:, :BLANK_WIDTH]
            masks[chr(ord(FIRST) + len(masks))] = narrow
    return masks
