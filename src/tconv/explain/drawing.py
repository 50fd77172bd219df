"""A picture as a list of shapes, written as SVG or painted as pixels."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from tconv.explain.canvas import Canvas, Pixels, text_mask, text_width

SCALE = 2  # pixels of a painted picture for each unit of a drawing
GLYPH = 9  # the height of a painted letter, in units of its scale
TEXT_SCALE = 2


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle; a dash of 0 is a whole line."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    stroke: str = ""
    thick: float = 1
    dash: int = 0


@dataclass(frozen=True, slots=True)
class Stroke:
    """A straight line."""

    start: tuple[float, float]
    end: tuple[float, float]
    colour: str
    thick: float = 1


@dataclass(frozen=True, slots=True)
class Words:
    """A line of text; ``anchor`` tells whether ``x`` is its start, middle or end."""

    x: float
    y: float  # of its middle
    text: str
    colour: str
    anchor: str = "start"
    bold: bool = False


Mark = Box | Stroke | Words


@dataclass(frozen=True, slots=True)
class Drawing:
    """Shapes on paper, with a title for those who cannot see it."""

    width: int
    height: int
    paper: str
    title: str
    marks: tuple[Mark, ...]


def to_svg(drawing: Drawing) -> str:
    """Return a drawing as an SVG file."""
    size = f'viewBox="0 0 {drawing.width} {drawing.height}"'
    font = 'font-family="DejaVu Sans, Verdana, Helvetica, Arial, sans-serif" font-size="13"'
    size += f' width="{drawing.width}" height="{drawing.height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="t" {font}>',
        f'<title id="t">{escape(drawing.title)}</title>',
        f'<rect width="{drawing.width}" height="{drawing.height}" fill="{drawing.paper}"/>',
        *map(_svg, drawing.marks),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def to_pixels(drawing: Drawing) -> Pixels:
    """Paint a drawing, two pixels for each of its units.

    >>> to_pixels(Drawing(4, 3, "#ffffff", "", (Box(1, 1, 2, 1, "#000000"),)))[3, :, 0].tolist()
    [255, 255, 0, 0, 0, 0, 255, 255]
    """
    canvas = Canvas(SCALE * drawing.height, SCALE * drawing.width, _colour(drawing.paper))
    for mark in drawing.marks:
        if isinstance(mark, Box):
            _paint_box(canvas, mark)
        elif isinstance(mark, Stroke):
            _paint_line(canvas, mark.start, mark.end, mark.colour, mark.thick)
        else:
            _paint_words(canvas, mark)
    return canvas.pixels


def width_of(text: str) -> int:
    """Return how wide a text is when painted, in units of a drawing."""
    return -(-text_width(text, TEXT_SCALE) // SCALE)


def _svg(mark: Mark) -> str:
    if isinstance(mark, Box):
        dash = f' stroke-dasharray="{mark.dash}"' if mark.dash else ""
        edge = f' stroke="{mark.stroke}" stroke-width="{mark.thick:g}"{dash}' if mark.stroke else ""
        place = f'x="{mark.x:g}" y="{mark.y:g}" width="{mark.width:g}" height="{mark.height:g}"'
        return f'<rect {place} rx="3" fill="{mark.fill}"{edge}/>'
    if isinstance(mark, Stroke):
        (x1, y1), (x2, y2) = mark.start, mark.end
        ends = f'x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
        return f'<line {ends} stroke="{mark.colour}" stroke-width="{mark.thick:g}"/>'
    weight = ' font-weight="bold"' if mark.bold else ""
    place = f'x="{mark.x:g}" y="{mark.y:g}" dominant-baseline="central"'
    text = escape(mark.text)
    return f'<text {place} text-anchor="{mark.anchor}" fill="{mark.colour}"{weight}>{text}</text>'


def _paint_box(canvas: Canvas, box: Box) -> None:
    left, top = round(SCALE * box.x), round(SCALE * box.y)
    width, height = round(SCALE * box.width), round(SCALE * box.height)
    canvas.fill((top, left), (height, width), _colour(box.fill))
    if not box.stroke:
        return
    corners = [(box.x, box.y), (box.x + box.width, box.y), (box.x + box.width, box.y + box.height),
               (box.x, box.y + box.height)]  # fmt: skip
    for start, end in zip(corners, [*corners[1:], corners[0]], strict=True):
        _paint_line(canvas, start, end, box.stroke, box.thick, box.dash)


def _paint_line(  # noqa: PLR0913 - the parts of a line
    canvas: Canvas,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str,
    thick: float,
    dash: int = 0,
) -> None:
    """Blend a line into the sheet; a point counts by its distance from the line."""
    (x1, y1), (x2, y2) = ((SCALE * x, SCALE * y) for x, y in (start, end))
    reach = SCALE * thick / 2 + 1
    rows, columns, _ = canvas.pixels.shape
    top, bottom = max(int(min(y1, y2) - reach), 0), min(int(max(y1, y2) + reach) + 2, rows)
    left, right = max(int(min(x1, x2) - reach), 0), min(int(max(x1, x2) + reach) + 2, columns)
    y, x = np.mgrid[top:bottom, left:right] + 0.5
    length = max(np.hypot(x2 - x1, y2 - y1), 1e-9)
    along = ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / length
    nearest = np.clip(along, 0, length)
    distance = np.hypot(
        x - x1 - nearest * (x2 - x1) / length, y - y1 - nearest * (y2 - y1) / length
    )
    opacity = np.clip(SCALE * thick / 2 + 0.5 - distance, 0, 1)
    if dash:
        opacity = opacity * ((along // (SCALE * dash)) % 2 == 0)
    part = canvas.pixels[top:bottom, left:right]
    blended = part + opacity[..., None] * (np.array(_colour(colour)) - part.astype(float))
    part[:] = blended.round().astype(np.uint8)


def _paint_words(canvas: Canvas, words: Words) -> None:
    mask = text_mask(words.text, TEXT_SCALE)
    height, width = mask.shape
    before = {"start": 0.0, "middle": width / 2, "end": float(width)}[words.anchor]
    left = round(SCALE * words.x - before)
    top = round(SCALE * words.y - 0.4 * height)
    canvas.area((top, left), height, width)[mask] = _colour(words.colour)
    if words.bold:
        canvas.area((top, left + 1), height, width)[mask] = _colour(words.colour)


def _colour(text: str) -> tuple[int, int, int]:
    red, green, blue = (int(text[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue


def fitted(marks: Sequence[Mark], paper: str, title: str, margin: int = 16) -> Drawing:
    """Return a drawing that is large enough for its shapes."""
    right = bottom = 0.0
    for mark in marks:
        if isinstance(mark, Box):
            right, bottom = max(right, mark.x + mark.width), max(bottom, mark.y + mark.height)
        elif isinstance(mark, Words):
            after = {"start": 1.0, "middle": 0.5, "end": 0.0}[mark.anchor]
            # Fonts of a browser are up to a quarter wider than the painted one.
            right = max(right, mark.x + after * 1.25 * width_of(mark.text))
            bottom = max(bottom, mark.y + GLYPH)
    return Drawing(int(right) + margin, int(bottom) + margin, paper, title, tuple(marks))
