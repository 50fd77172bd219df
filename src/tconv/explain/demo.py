"""The demo: a picture goes down and up through four documents' operators, each result checked."""

import time
from dataclasses import dataclass, field, replace
from math import isqrt
from pathlib import Path
from typing import TextIO

import numpy as np
import numpy.typing as npt

from tconv import onednn, openvino
from tconv.calls import Runnable
from tconv.errors import InternalError, ProblemError
from tconv.explain.canvas import Canvas, Colour, Pixels, text_width, to_pixels
from tconv.explain.picture import HORIZON, brick, bursts, make_picture, square, wave
from tconv.explain.png import write_png
from tconv.reference import answer

Array = npt.NDArray[np.float32]
Window = npt.NDArray[np.float64]
Shape = tuple[int, ...]

PICTURE, PANEL = (672, 1056), (336, 528)  # heights and widths
# The picture travels as a batch of tiles: the reference takes as long for 16 tiles as for 1.
TILES = 4  # down and across
TILE = (PANEL[0] // TILES, PANEL[1] // TILES)
MARGIN, GAP, TITLE, CAPTION = 48, 32, 116, 124

GROUND: Colour = (13, 14, 24)
EDGE: Colour = (58, 60, 82)
BRIGHT: Colour = (238, 238, 246)
QUIET: Colour = (150, 153, 178)
SUNLIGHT: Colour = (255, 214, 150)
ACCENTS: dict[str, Colour] = {
    "onednn.ConvTransposeBackpropData": (104, 222, 236),
    "onednn.ConvTransposeBackwardData": (150, 170, 255),
    "onednn.ConvolutionBackpropData": (255, 190, 98),
    "openvino.GroupConvolutionBackpropData": (255, 128, 158),
}
SLOGAN = "a gather shrinks, a scatter grows, phases interleave"
RELATION = "one relation, four documents:   fine = stride * coarse + dilation * tap - pad_begin"
JOURNEY = "it travels as a batch of tiles that overlap by as much as the windows need"

# float32 sums of at most a few hundred products of numbers near 1 stay far below this.
TOLERANCE = 1e-5
ROW = "{:<37}  {:>18} {:>18} -> {:<18} {:>9} {:>14}"
HEAD = ("operator", "data", "weights", "result", "time", "largest error")

# Four orthonormal numbers of 2 x 2 points: their mean, and what changes across, down, aslant.
HAAR = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]).reshape(4, 2, 2) / 2

# Row, column, pattern and colour of each.
FIREWORKS = (
    (0, 1, 0, (1.0, 0.8, 0.4)),
    (0, 4, 2, (1.0, 0.5, 0.6)),
    (0, 6, 1, (1.0, 0.5, 0.9)),
    (0, 9, 0, (0.6, 0.8, 1.0)),
    (1, 0, 3, (0.6, 1.0, 0.8)),
    (1, 2, 1, (0.4, 0.9, 1.0)),
    (1, 8, 2, (1.0, 0.7, 0.3)),
    (1, 10, 3, (1.0, 0.9, 0.6)),
    (2, 1, 2, (1.0, 0.5, 0.4)),
    (2, 4, 3, (1.0, 0.9, 0.5)),
    (2, 9, 1, (0.7, 1.0, 0.6)),
)


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

    def run(self, op: Runnable, data: Array, weights: Array, shape: Shape | None = None) -> Array:
        """Return what the operator computes; print and keep its row of the table."""
        name = f"{op.dialect}.{type(op).__name__}"
        if self.stream.isatty():
            self.stream.write(f"{name}: checking against the definition ...\r")
            self.stream.flush()
        op(data, weights, shape)  # not measured: the first call also plans
        begin = time.perf_counter()
        result: Array = op(data, weights, shape)
        seconds = time.perf_counter() - begin
        problem = op.problem(data.shape, weights.shape, shape, dtype="float32")
        error = check(name, result, answer(problem, data, weights))
        self.steps.append(Step(name, (data.shape, weights.shape, result.shape), seconds, error))
        self.stream.write(f"{self.steps[-1]}\n")
        return result

    def panel(self, picture: npt.NDArray[np.floating], sentence: str) -> Panel:
        """Return the panel of the step that ran last."""
        return Panel(to_pixels(picture), self.steps[-1], sentence)


def check(name: str, result: Array, expected: Window) -> float:
    """Return the largest error of a result; refuse it when that is no rounding error."""
    same = result.shape == expected.shape
    error = float(np.abs(result - expected).max()) if same else float("inf")
    if not error <= TOLERANCE * max(1.0, float(np.abs(expected).max())):
        raise InternalError(
            "tconv demo",
            f"{name} is off by {error:.1e}.",
            got={"result": result.shape, "definition": expected.shape},
            rule=f"the largest error is at most {TOLERANCE:.0e}   (tconv.reference)",
            fix="please report this, with the machine it happened on",
        )
    return error


def run_demo(path: Path, stream: TextIO) -> None:
    """Send a picture through the operators, print the table and write the sheet to ``path``."""
    if path.is_dir() or not path.parent.is_dir():  # known now, so nobody waits for it
        raise unwritable(path, "it is a folder" if path.is_dir() else "there is no such folder")
    bench = Bench(stream)
    stream.write(ROW.format(*HEAD) + "\n")
    picture = make_picture(*PICTURE)
    half, first = halve(bench, picture)
    quarter, eighth, tiny, second = shrink(bench, half)
    grown = grow(bench, eighth)
    bands, third = take_apart(bench, half)
    back = put_together(bench, bands, half)
    fun = [stamp(bench, quarter), lay_bricks(bench, tiny), light_fireworks(bench, half)]
    worst = max(step.error for step in bench.steps)
    verdict = f"{len(bench.steps)} results agree with the definition; largest error {worst:.1e}"
    sheet = compose(to_pixels(picture), (first, second), [grown, third, back, *fun], verdict)
    try:
        write_png(path, sheet)
    except OSError as error:
        raise unwritable(path, error.strerror or str(error)) from error
    stream.write(f"{verdict}\nwrote {path}: {sheet.shape[1]} x {sheet.shape[0]} pixels\n")


def unwritable(path: Path, reason: str) -> ProblemError:
    """Return the error of a path that cannot be written."""
    return ProblemError(
        "tconv demo",
        f"{path} cannot be written: {reason}.",
        got={},
        rule="the picture is written as a PNG file",
        fix="choose another -o",
    )


# -- the steps: gathers go down, scatters go up ------------------------------------------


def halve(bench: Bench, picture: Array) -> tuple[Array, Panel]:
    """Gather: each point of the result reads one window of the picture."""
    op = onednn.ConvTransposeBackpropData(
        strides=[2, 2], dilations=[1, 1], pads_begin=[0, 0], pads_end=[0, 0]
    )
    weights = np.multiply.outer(square([1, 3, 3, 1]) / 64, np.eye(3)).astype(np.float32)
    tiles = channels_last(cut(picture, halo=1, tiles=2 * TILES))
    half = join(channels_first(bench.run(op, tiles, weights)))
    return half, bench.panel(half, "gather, stride 2: 4 x 4 points become one")


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
    by_three = replace(by_two, strides=[3, 3], dilations=[2, 2])
    soft = for_each_colour(square([1, 3, 3, 1]) / 64)
    holes = for_each_colour(square([1, 2, 1]) / 16)
    quarter = join(bench.run(by_two, cut(half, halo=1), soft))
    step = bench.steps[-1]
    eighth = join(bench.run(by_two, cut(quarter, halo=1), soft))
    tiny = join(bench.run(by_three, cut(eighth, halo=1), holes))
    levels = [to_pixels(level) for level in (quarter, eighth, tiny)]
    row = Canvas(len(quarter), PANEL[1], GROUND)
    left, gap = 0, (PANEL[1] - sum(level.shape[1] for level in levels)) // 2
    for level in levels:
        row.paste(level, (len(quarter) - len(level), left))
        left += level.shape[1] + gap
    return quarter, eighth, tiny, Panel(row.pixels, step, "gather, colour by colour: by 2, 2 and 3")


def grow(bench: Bench, eighth: Array) -> Panel:
    """Scatter: each point adds one window to the result, here a smooth one."""
    op = onednn.ConvolutionBackpropData(strides=[4, 4], dilations=[1, 1], auto_pad="same_upper")
    weights = np.multiply.outer(square(wave(4)), np.eye(3)).astype(np.float32)
    shape = (TILES * TILES, *TILE, 3)
    result = bench.run(op, channels_last(cut(eighth, halo=1)), weights, shape)
    sentence = "scatter, stride 4: overlapping waves add up"
    return bench.panel(join(channels_first(result)), sentence)


def take_apart(bench: Bench, half: Array) -> tuple[Array, Panel]:
    """Gather four numbers for every 2 x 2 points: their mean and three differences."""
    op = onednn.ConvTransposeBackpropData(
        strides=[2, 2],
        dilations=[1, 1],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        groups=3,
        data_format="NCX",
        filter_format="OIX",
    )
    weights = np.tile(HAAR, (3, 1, 1))[None].astype(np.float32)
    bands = bench.run(op, cut(half, halo=0), weights)
    shown = np.abs(join(bands)).reshape(*(size // 2 for size in PANEL), 3, 4)
    mean, across, down, aslant = np.moveaxis(shown * (0.5, 8, 8, 16), 3, 0)
    panel = np.concatenate([np.hstack([mean, across]), np.hstack([down, aslant])])
    return bands, bench.panel(panel, "gather into 4 channels a colour: mean and edges")


def put_together(bench: Bench, bands: Array, half: Array) -> Panel:
    """Scatter with the same weights: because they are orthonormal, all comes back."""
    op = openvino.GroupConvolutionBackpropData(
        strides=[2, 2], pads_begin=[0, 0], pads_end=[0, 0], dilations=[1, 1]
    )
    weights = np.broadcast_to(HAAR[:, None], (3, 4, 1, 2, 2)).astype(np.float32)
    again = join(bench.run(op, bands, weights))
    change = float(np.abs(again - half).max())
    return bench.panel(again, f"scatter, same weights: all back within {change:.0e}")


def stamp(bench: Bench, quarter: Array) -> Panel:
    """Scatter the same points with five windows at once, one for each strip of the panel."""
    op = openvino.GroupConvolutionBackpropData(
        strides=[6, 6], dilations=[1, 1], auto_pad="same_upper"
    )
    place = np.arange(12) - 5.5
    near = np.abs(place)
    weights = np.zeros((3, 1, 5, 12, 12), np.float32)
    weights[:, 0, 0] = square(near < 1)
    for colour in range(3):  # each colour has two of the six columns: phases of its own
        weights[colour, 0, 1, 3:8, 3 + 2 * colour : 5 + 2 * colour] = 1.5
    weights[:, 0, 2] = np.clip(3 - np.hypot(near, near[:, None]), 0, 1)
    weights[:, 0, 3] = square(near < 3)
    weights[:, 0, 4] = square(1 - near / 6)
    sun = quarter[36:92, 112:200]
    grown = join(bench.run(op, cut(sun, halo=1), weights, TILE)).reshape(*PANEL, 3, 5)
    y, x = np.indices(PANEL)
    slant = (x - (y - PANEL[0] / 2) / 5) * 5 / PANEL[1]
    strip = np.clip(slant.astype(int), 0, 4)
    panel = np.take_along_axis(grown, strip[..., None, None], axis=3)[..., 0]
    panel[np.abs(slant - np.clip(slant.round(), 1, 4)) < 0.012] = 0
    return bench.panel(panel, "scatter, stride 6: five windows, same points")


def lay_bricks(bench: Bench, tiny: Array) -> Panel:
    """Scatter toy bricks: every point stamps its colour, its light and its shadow."""
    op = onednn.ConvolutionBackpropData(
        strides=[12, 12],
        dilations=[1, 1],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        output_shape=[TILES * TILES, 3, *TILE],
        data_format="NCX",
        filter_format="OIX",
    )
    shade, shine = brick(12)
    weights = np.multiply.outer(np.eye(3), shade) + shine / 3  # white light mixes the colours
    bricks = join(bench.run(op, cut(tiny, halo=0), weights.astype(np.float32)))
    return bench.panel(bricks, "scatter, stride 12: 28 x 44 points lay bricks")


def light_fireworks(bench: Bench, half: Array) -> Panel:
    """Scatter a few points, each through the pattern whose channel it lies in."""
    op = openvino.GroupConvolutionBackpropData(
        strides=[48, 48], pads_begin=[8, 8], pads_end=[8, 8], dilations=[1, 1]
    )
    points = np.zeros((3, 4, 3, 11), np.float32)
    for row, column, pattern, colour in FIREWORKS:
        points[:, pattern, row, column] = colour
    weights = np.broadcast_to(bursts(64)[:, None], (3, 4, 1, 64, 64)).astype(np.float32)
    sky = bench.run(op, points.reshape(1, 12, 3, 11), weights)[0].transpose(1, 2, 0)
    light = np.zeros((*PANEL, 3))
    light[: len(sky)] = sky
    shore = int(HORIZON * PANEL[0])
    light[shore:] = 0.4 * light[2 * shore - PANEL[0] : shore][::-1]
    return bench.panel(0.7 * half + light, "scatter, stride 48: few points, four patterns")


# -- tiles -------------------------------------------------------------------------------


def for_each_colour(window: Window) -> Array:
    """Return the weights that treat each of the three colours with the same window."""
    return np.broadcast_to(window, (3, 1, *window.shape)).astype(np.float32)


def cut(picture: Array, *, halo: int, tiles: int = TILES) -> Array:
    """Return the picture as a batch of tiles, each with ``halo`` points of its neighbours."""
    height, width = picture.shape[0] // tiles, picture.shape[1] // tiles
    padded = np.pad(picture, ((halo, halo), (halo, halo), (0, 0)), mode="edge")
    pieces = [
        padded[top : top + height + 2 * halo, left : left + width + 2 * halo]
        for top in range(0, height * tiles, height)
        for left in range(0, width * tiles, width)
    ]
    return channels_first(np.stack(pieces))


def join(tiles: Array) -> Array:
    """Return the picture that a batch of tiles without a halo makes."""
    count, channels, height, width = tiles.shape
    side = isqrt(count)
    grid = tiles.reshape(side, side, channels, height, width).transpose(0, 3, 1, 4, 2)
    return grid.reshape(side * height, side * width, channels)


def channels_first(tiles: Array) -> Array:
    """Return NXC tiles as NCX."""
    return np.ascontiguousarray(np.moveaxis(tiles, -1, 1))


def channels_last(tiles: Array) -> Array:
    """Return NCX tiles as NXC."""
    return np.ascontiguousarray(np.moveaxis(tiles, 1, -1))


# -- the sheet ---------------------------------------------------------------------------


def compose(picture: Pixels, down: tuple[Panel, Panel], up: list[Panel], verdict: str) -> Pixels:
    """Return the sheet: the picture large, what shrank beside it, what grew below."""
    top, column, row = MARGIN + TITLE, PANEL[1] + GAP, PANEL[0] + CAPTION
    below = top + PICTURE[0] + CAPTION
    height = below + len(up) // 3 * row + MARGIN + 18
    canvas = Canvas(height, 2 * MARGIN + 3 * column - GAP, GROUND)
    left = MARGIN + text_width("tconv", 8) + 56
    canvas.write("tconv", (MARGIN, MARGIN), SUNLIGHT, scale=8)
    canvas.write(SLOGAN, (MARGIN, left), BRIGHT, scale=4)
    canvas.write(RELATION, (MARGIN + 46, left), QUIET, scale=2)
    canvas.panel(picture, (top, MARGIN), EDGE)
    size = " x ".join(map(str, picture.shape))
    lines = (("the picture, painted by a program", SUNLIGHT), (size, QUIET), (JOURNEY, BRIGHT))
    canvas.caption(lines, (top + PICTURE[0], MARGIN), PICTURE[1])
    draw(canvas, down[0], (top, MARGIN + 2 * column))
    draw(canvas, down[1], (top + PICTURE[0] - len(down[1].pixels), MARGIN + 2 * column))
    for place, panel in enumerate(up):
        draw(canvas, panel, (below + place // 3 * row, MARGIN + place % 3 * column))
    canvas.write(verdict, (height - MARGIN - 18, MARGIN), QUIET, scale=2)
    return canvas.pixels


def draw(canvas: Canvas, panel: Panel, at: tuple[int, int]) -> None:
    """Draw a panel with its frame and caption."""
    accent = ACCENTS[panel.step.operator]
    number = list(ACCENTS).index(panel.step.operator) + 1
    given, weights, result = (str(shape).replace(" ", "") for shape in panel.step.shapes)
    lines = (
        (f"{number}  {panel.step.operator}", accent),
        (f"{given} * {weights} -> {result}", QUIET),
        (panel.sentence, BRIGHT),
    )
    canvas.panel(panel.pixels, at, EDGE)
    canvas.caption(lines, (at[0] + len(panel.pixels), at[1]), PANEL[1])
