"""The demo: a picture goes down and up through four documents' operators, each result checked."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TextIO

import numpy as np
import numpy.typing as npt

from tconv import onednn, openvino
from tconv.errors import InternalError
from tconv.explain.canvas import Canvas, Colour, Pixels, text_width, to_pixels
from tconv.explain.picture import make_picture
from tconv.explain.png import write_png
from tconv.problem import Problem
from tconv.reference import answer

Array = npt.NDArray[np.float32]
Shape = tuple[int, ...]

PICTURE, PANEL = (672, 1056), (336, 528)  # heights and widths
TILES = 4  # down and across: what travels is a batch of 16 tiles
MARGIN, GAP, TITLE, CAPTION = 48, 32, 116, 124
GROUND: Colour = (13, 14, 24)
EDGE: Colour = (58, 60, 82)
BRIGHT: Colour = (238, 238, 246)
QUIET: Colour = (150, 153, 178)

ACCENTS: dict[str, Colour] = {
    "onednn.ConvTransposeBackpropData": (104, 222, 236),
    "onednn.ConvTransposeBackwardData": (150, 170, 255),
    "onednn.ConvolutionBackpropData": (255, 190, 98),
    "openvino.GroupConvolutionBackpropData": (255, 128, 158),
}

# float32 sums of at most 768 products of numbers near 1 stay far below this.
TOLERANCE = 1e-5
ROW = "{:<38} {:>19} {:>17}    {:<19} {:>10} {:>14}"
HEAD = ("operator", "data", "weights", "-> result", "time", "largest error")


class Operator(Protocol):
    """What the demo needs of an operator."""

    def __call__(self, first: Array, second: Array, third: Shape | None, /) -> Array:
        """Compute."""
        ...

    def problem(
        self, first: Shape, second: Shape, third: Shape | None, /, *, dtype: str
    ) -> Problem:
        """Return the canonical question that the call asks."""
        ...


@dataclass(frozen=True)
class Step:
    """One call of an operator: what went in and out, how fast, and how far off at most."""

    operator: str
    shapes: tuple[Shape, Shape, Shape]
    seconds: float
    error: float

    def __str__(self) -> str:
        """Print as one row of the table."""
        milliseconds = f"{self.seconds * 1e3:.2f} ms"
        return ROW.format(self.operator, *map(str, self.shapes), milliseconds, f"{self.error:.1e}")


@dataclass(frozen=True)
class Panel:
    """A picture on the sheet, the step that made it, and a sentence about it."""

    pixels: Pixels
    step: Step
    sentence: str


@dataclass
class Bench:
    """Runs operators, judges their results and keeps the steps."""

    stream: TextIO
    steps: list[Step] = field(default_factory=list)

    def run(self, op: Operator, first: Array, second: Array, third: Shape | None = None) -> Array:
        """Return what the operator computes; print and keep its row of the table."""
        name = f"{type(op).__module__.rpartition('.')[2]}.{type(op).__name__}"
        if self.stream.isatty():
            self.stream.write(f"{name}: checking against the definition ...\r")
            self.stream.flush()
        op(first, second, third)  # not measured: the first call also plans
        begin = time.perf_counter()
        result = op(first, second, third)
        seconds = time.perf_counter() - begin
        problem = op.problem(first.shape, second.shape, third, dtype="float32")
        error = check(name, result, answer(problem, first, second))
        self.steps.append(Step(name, (first.shape, second.shape, result.shape), seconds, error))
        self.stream.write(f"{self.steps[-1]}\n")
        return result

    def panel(self, pixels: Pixels, sentence: str) -> Panel:
        """Return the panel of the step that ran last."""
        return Panel(pixels, self.steps[-1], sentence)


def check(name: str, result: Array, expected: npt.NDArray[np.float64]) -> float:
    """Return the largest error of a result; refuse it when that is no rounding error."""
    error = float("inf")
    if result.shape == expected.shape:
        error = float(np.abs(result - expected).max())
    if not error <= TOLERANCE * max(1.0, float(np.abs(expected).max())):
        raise InternalError(
            "tconv demo",
            f"{name} is off by {error:.1e}.",
            got={"result": result.shape, "definition": expected.shape},
            rule=f"largest error <= {TOLERANCE:.0e}   (tconv.reference)",
            fix="please report this, with the machine it happened on",
        )
    return error


def run_demo(path: Path, stream: TextIO) -> None:
    """Send a picture through the operators, print the table and write the sheet to ``path``."""
    bench = Bench(stream)
    stream.write(ROW.format(*HEAD) + "\n")
    picture = make_picture(*PICTURE)
    half, first = halve(bench, picture)
    quarter, eighth, tiny, second = shrink(bench, half)
    bands, third = take_apart(bench, half)
    panels = [
        grow(bench, eighth),
        third,
        put_together(bench, bands, half),
        stamp(bench, quarter),
        lay_bricks(bench, tiny),
        light_pixels(bench, eighth),
    ]
    worst = max(step.error for step in bench.steps)
    verdict = f"{len(bench.steps)} results agree with the definition; largest error {worst:.1e}"
    sheet = compose(to_pixels(picture), (first, second), panels, verdict)
    write_png(path, sheet)
    stream.write(f"{verdict}\nwrote {path}: {sheet.shape[1]} x {sheet.shape[0]} pixels\n")


# -- the steps: gathers go down, scatters go up ------------------------------------------


def halve(bench: Bench, picture: Array) -> tuple[Array, Panel]:
    """Gather: each point of the result reads one window of the picture."""
    op = onednn.ConvTransposeBackpropData(
        strides=[2, 2],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        dilations=[1, 1],
        data_format="NXC",
        filter_format="XIO",
    )
    window = [1, 3, 3, 1]
    weights = np.multiply.outer(square(window) / 64, np.eye(3)).astype(np.float32)
    half = join(first(bench.run(op, last(cut(picture, halo=1)), weights)))
    return half, bench.panel(to_pixels(half), "gather, stride 2: 4 x 4 points become one")


def shrink(bench: Bench, half: Array) -> tuple[Array, Array, Array, Panel]:
    """Gather again, each colour for itself; at last by 3, with holes in the window."""
    by_two = onednn.ConvTransposeBackwardData(
        strides=[2, 2],
        dilations=[1, 1],
        auto_pad="valid",
        groups=3,
        data_format="NCX",
        weights_format="IOX",
    )
    by_three = onednn.ConvTransposeBackwardData(
        strides=[3, 3],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        dilations=[2, 2],
        groups=3,
        data_format="NCX",
        weights_format="IOX",
    )
    soft, wide = colours(square([1, 3, 3, 1]) / 64), colours(square([1, 2, 1]) / 16)
    quarter = join(bench.run(by_two, cut(half, halo=1), soft))
    step = bench.steps[-1]
    eighth = join(bench.run(by_two, cut(quarter, halo=1), soft))
    tiny = join(bench.run(by_three, cut(eighth, halo=1), wide))
    row = Canvas(quarter.shape[0], PANEL[1], GROUND)
    left = 0
    for level in (quarter, eighth, tiny):
        row.paste(to_pixels(level), (quarter.shape[0] - level.shape[0], left))
        left += level.shape[1] + (PANEL[1] - 264 - 132 - 44) // 2
    return quarter, eighth, tiny, Panel(row.pixels, step, "gather, colour by colour: by 2, 2 and 3")


def grow(bench: Bench, eighth: Array) -> Panel:
    """Scatter: each point adds one window to the result, here a smooth one."""
    op = onednn.ConvolutionBackpropData(
        strides=[4, 4],
        dilations=[1, 1],
        auto_pad="same_upper",
        data_format="NXC",
        filter_format="XIO",
    )
    weights = np.multiply.outer(square(lanczos(4)), np.eye(3)).astype(np.float32)
    shape = (TILES * TILES, PANEL[0] // TILES, PANEL[1] // TILES, 3)
    large = join(first(bench.run(op, last(cut(eighth, halo=2)), weights, shape)))
    return bench.panel(to_pixels(large), "scatter, stride 4: overlapping waves add up")


def take_apart(bench: Bench, half: Array) -> tuple[Array, Panel]:
    """Gather four numbers for every 2 x 2 points: their mean and three differences."""
    op = onednn.ConvTransposeBackpropData(
        strides=[2, 2],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        dilations=[1, 1],
        groups=3,
        data_format="NCX",
        filter_format="OIX",
    )
    bands = bench.run(op, cut(half, halo=0), np.tile(HAAR, (3, 1, 1))[None])
    shown = join(bands).reshape(*join(bands).shape[:2], 3, 4)
    mean, *edges = (shown[..., band] for band in range(4))
    rows = [[mean / 2, 8 * np.abs(edges[0])], [8 * np.abs(edges[1]), 16 * np.abs(edges[2])]]
    panel = np.concatenate([np.concatenate(row, axis=1) for row in rows])
    return bands, bench.panel(to_pixels(panel), "gather into 4 channels a colour: mean and edges")


def put_together(bench: Bench, bands: Array, half: Array) -> Panel:
    """Scatter with the same weights: because they are orthonormal, all comes back."""
    op = openvino.GroupConvolutionBackpropData(
        strides=[2, 2], pads_begin=[0, 0], pads_end=[0, 0], dilations=[1, 1]
    )
    again = join(bench.run(op, bands, np.tile(HAAR, (3, 1, 1)).reshape(3, 4, 1, 2, 2)))
    change = float(np.abs(again - half).max())
    return bench.panel(to_pixels(again), f"scatter, same weights: all back within {change:.0e}")


def stamp(bench: Bench, quarter: Array) -> Panel:
    """Scatter the same points with four windows at once, one for each strip of the panel."""
    stride = 6
    op = openvino.GroupConvolutionBackpropData(
        strides=[stride] * 2, pads_begin=[], pads_end=[], dilations=[], auto_pad="same_upper"
    )
    place = np.abs(np.arange(2 * stride) + 0.5 - stride)
    distance = np.hypot(*np.meshgrid(place, place))
    windows = np.stack(
        [
            square(place < 1),
            np.clip(0.42 * stride - distance + 0.5, 0, 1),
            square(place < stride / 2),
            square(1 - place / stride),
        ]
    )
    weights = np.broadcast_to(windows, (3, 1, *windows.shape)).astype(np.float32)
    sun = quarter[36:92, 112:200]
    shape = (PANEL[0] // TILES, PANEL[1] // TILES)
    grown = join(bench.run(op, cut(sun, halo=1), weights, shape)).reshape(*PANEL, 3, 4)
    y, x = np.indices(PANEL)
    slant = (x - (y - PANEL[0] / 2) / 4) * 4 / PANEL[1]
    strip = np.clip(slant.astype(int), 0, 3)
    panel = np.take_along_axis(grown, strip[..., None, None], axis=3)[..., 0]
    panel[np.abs(slant - np.clip(slant.round(), 1, 3)) < 0.01] = 0
    return bench.panel(to_pixels(panel), "scatter, stride 6: a point, a dot, a square, a slope")


def lay_bricks(bench: Bench, tiny: Array) -> Panel:
    """Scatter toy bricks: every point stamps its colour, its light and its shadow."""
    op = onednn.ConvolutionBackpropData(
        strides=[12, 12],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        dilations=[1, 1],
        output_shape=[TILES * TILES, 3, PANEL[0] // TILES, PANEL[1] // TILES],
        data_format="NCX",
        filter_format="OIX",
    )
    shade, shine = brick(12)
    weights = shade * np.eye(3)[..., None, None] + shine * np.full((3, 3, 1, 1), 1 / 3)
    bricks = join(bench.run(op, cut(tiny, halo=0), weights.astype(np.float32)))
    return bench.panel(to_pixels(bricks), "scatter, stride 12: 28 x 44 points lay bricks")


def light_pixels(bench: Bench, eighth: Array) -> Panel:
    """Scatter each colour to columns of its own: the phases interleave as on a display."""
    op = openvino.GroupConvolutionBackpropData(
        strides=[12, 12], pads_begin=[0, 0], pads_end=[0, 0], dilations=[1, 1]
    )
    lamps = np.zeros((3, 1, 1, 12, 12), np.float32)
    for colour in range(3):
        lamps[colour, 0, 0, 1:, 4 * colour + 1 : 4 * colour + 4] = 1.8
    boat = eighth[45:73, 18:62]
    shown = join(bench.run(op, cut(boat, halo=0), lamps))
    return bench.panel(to_pixels(shown), "scatter, stride 12: each colour has its own phases")


# -- windows and tiles -------------------------------------------------------------------

HAAR = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]], np.float32)
HAAR = (HAAR / 2).reshape(4, 2, 2)


def square(line: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the window that is the product of the same line down and across."""
    return np.multiply.outer(np.asarray(line, float), np.asarray(line, float))


def lanczos(stride: int) -> npt.NDArray[np.float64]:
    """Return a wave two points wide to each side, for growing ``stride`` times.

    >>> lanczos(4).reshape(4, 4).sum(axis=0)  # what each phase adds up to
    array([1., 1., 1., 1.])
    """
    place = (np.arange(4 * stride) + 0.5) / stride - 2
    wave = (np.sinc(place) * np.sinc(place / 2)).reshape(4, stride)
    return np.asarray(wave / wave.sum(axis=0)).reshape(-1)


def brick(size: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return how a toy brick seen from above shades its colour, and where it shines white."""
    y, x = np.indices((size, size)) + 0.5 - size / 2
    rim = np.maximum(np.abs(x), np.abs(y)) > size / 2 - 1
    shade = np.where(rim, np.where(x + y < 0, 1.12, 0.62), 0.92)
    distance = np.hypot(x, y)
    stud = np.clip(size * 0.32 - distance + 0.5, 0, 1)
    shadow = np.clip(size * 0.34 - np.hypot(x - 1.2, y - 1.2) + 0.5, 0, 1)
    shade = shade * (1 - 0.45 * shadow)
    shade = shade + stud * (1.08 - shade)
    ring = stud * np.exp(-((distance - size * 0.27) ** 2)) * -(x + y) / size
    return shade + 0.35 * np.clip(ring, -1, 0), 0.55 * np.clip(ring, 0, 1)


def colours(window: npt.NDArray[np.float64]) -> Array:
    """Return the weights that treat each of the three colours with the same window."""
    return np.broadcast_to(window, (3, 1, *window.shape)).astype(np.float32)


def cut(picture: Array, *, halo: int) -> Array:
    """Return the picture as a batch of tiles, each with ``halo`` points of its neighbours."""
    height, width = picture.shape[0] // TILES, picture.shape[1] // TILES
    padded = np.pad(picture, ((halo, halo), (halo, halo), (0, 0)), mode="edge")
    tiles = [
        padded[top : top + height + 2 * halo, left : left + width + 2 * halo]
        for top in range(0, height * TILES, height)
        for left in range(0, width * TILES, width)
    ]
    return first(np.stack(tiles))


def join(tiles: Array) -> Array:
    """Return the picture that a batch of tiles without a halo makes."""
    _, channels, height, width = tiles.shape
    grid = tiles.reshape(TILES, TILES, channels, height, width).transpose(0, 3, 1, 4, 2)
    return grid.reshape(TILES * height, TILES * width, channels)


def first(tiles: Array) -> Array:
    """Return tiles with channels last (NXC) as tiles with channels first (NCX)."""
    return np.ascontiguousarray(np.moveaxis(tiles, -1, 1))


def last(tiles: Array) -> Array:
    """Return tiles with channels first (NCX) as tiles with channels last (NXC)."""
    return np.ascontiguousarray(np.moveaxis(tiles, 1, -1))


# -- the sheet ---------------------------------------------------------------------------


def compose(picture: Pixels, down: tuple[Panel, Panel], up: list[Panel], verdict: str) -> Pixels:
    """Return the sheet: the picture large, what shrank beside it, what grew below."""
    top, column, row = MARGIN + TITLE, PANEL[1] + GAP, PANEL[0] + CAPTION
    height = top + PICTURE[0] + CAPTION + len(up) // 3 * row + 40
    canvas = Canvas(height, 2 * MARGIN + 3 * column - GAP, GROUND)
    draw_title(canvas)
    canvas.frame((top, MARGIN), PICTURE, EDGE)
    canvas.paste(picture, (top, MARGIN))
    size = " x ".join(map(str, picture.shape))
    caption = ("a picture made of numbers", size, "it travels as a batch of 16 overlapping tiles")
    draw_caption(canvas, caption, (top + PICTURE[0], MARGIN), BRIGHT)
    draw_panel(canvas, down[0], (top, MARGIN + 2 * column))
    beside = top + PICTURE[0] - down[1].pixels.shape[0]
    draw_panel(canvas, down[1], (beside, MARGIN + 2 * column))
    for place, panel in enumerate(up):
        below = top + PICTURE[0] + CAPTION + place // 3 * row
        draw_panel(canvas, panel, (below, MARGIN + place % 3 * column))
    canvas.write(verdict, (height - 58, MARGIN), QUIET, scale=2)
    return canvas.pixels


def draw_title(canvas: Canvas) -> None:
    """Write the head of the sheet."""
    canvas.write("tconv", (MARGIN, MARGIN), BRIGHT, scale=8)
    left = MARGIN + text_width("tconv", 8) + 56
    slogan = "a gather shrinks, a scatter grows, phases interleave"
    canvas.write(slogan, (MARGIN, left), BRIGHT, scale=4)
    relation = "one relation, four documents:   fine = stride * coarse + dilation * tap - pad_begin"
    canvas.write(relation, (MARGIN + 44, left), QUIET, scale=2)


def draw_panel(canvas: Canvas, panel: Panel, at: tuple[int, int]) -> None:
    """Draw a panel with its frame and caption."""
    height, width, _ = panel.pixels.shape
    canvas.frame(at, (height, width), EDGE)
    canvas.paste(panel.pixels, at)
    given, weights, result = (str(shape).replace(" ", "") for shape in panel.step.shapes)
    number = list(ACCENTS).index(panel.step.operator) + 1
    lines = (f"{number}  {panel.step.operator}", f"{given} * {weights} -> {result}", panel.sentence)
    draw_caption(canvas, lines, (at[0] + height, at[1]), ACCENTS[panel.step.operator])


def draw_caption(
    canvas: Canvas, lines: tuple[str, str, str], at: tuple[int, int], colour: Colour
) -> None:
    """Write a name, shapes and a sentence below a panel, under a bar of the name's colour."""
    canvas.fill((at[0] + 2, at[1] - 2), (4, PANEL[1] + 4), colour)
    for line, (text, ink) in enumerate(zip(lines, (colour, QUIET, BRIGHT), strict=True)):
        if text_width(text, 2) > PANEL[1]:
            raise ValueError(f"a caption is wider than its panel: {text}")
        canvas.write(text, (at[0] + 18 + 26 * line, at[1]), ink, scale=2)
