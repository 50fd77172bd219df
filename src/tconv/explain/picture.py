"""Paint the demo's picture, an evening by a lake, and the patterns to stamp it with."""

from typing import Any

import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.float32]
Field = npt.NDArray[np.floating[Any]]  # float32 wherever it is as large as the picture
Pattern = npt.NDArray[np.float64]
Colour = tuple[float, float, float]

SEED = 20
# Lengths are parts of the picture's height, measured from its upper left corner.
HORIZON = 0.66
SUN_Y, SUN_RADIUS = 0.40, 0.15
SUN_PLACE = 0.60  # part of the width

# Colours of the sky from the zenith (0) down to the horizon (1).
SKY: tuple[tuple[float, Colour], ...] = (
    (0.00, (0.04, 0.05, 0.20)),
    (0.22, (0.14, 0.10, 0.38)),
    (0.45, (0.45, 0.17, 0.52)),
    (0.68, (0.88, 0.32, 0.45)),
    (0.86, (1.00, 0.57, 0.36)),
    (1.00, (1.00, 0.84, 0.52)),
)

# Mountain ranges from far to near: (height of its middle, relief, knots, top, foot).
RANGES: tuple[tuple[float, float, int, Colour, Colour], ...] = (
    (0.53, 0.150, 6, (0.62, 0.30, 0.52), (0.93, 0.50, 0.45)),
    (0.57, 0.120, 9, (0.40, 0.20, 0.47), (0.72, 0.35, 0.46)),
    (0.61, 0.080, 12, (0.21, 0.12, 0.35), (0.42, 0.20, 0.40)),
)
FOREST: Colour = (0.05, 0.05, 0.15)
TREE_GAP = 0.021


def make_picture(height: int, width: int) -> Picture:
    """Return an evening landscape of shape ``(height, width, 3)`` in ``[0, 1]``.

    It has what shows a resampling's faults: smooth gradients, hard edges, fine texture
    and single bright points.  The same size always gives the same picture.
    """
    random = np.random.default_rng(SEED)
    y = (np.arange(height, dtype=np.float32)[:, None] + 0.5) / height
    x = (np.arange(width, dtype=np.float32) + 0.5) / height
    aspect = width / height
    shore = round(HORIZON * height)
    air, deep = y[:shore], y[shore:]
    land = paint_sky(x, air, aspect, height)
    paint_stars(land, random)
    for middle, relief, knots, top, foot in RANGES:
        ridge = middle - relief * rough_line(x / aspect, knots, random)
        slope = np.clip((air - ridge) / (HORIZON - ridge), 0, 1)[..., None]
        cover(land, (air - ridge) * height, shade(top) + slope * (shade(foot) - shade(top)))
    cover(land, (air - tree_line(x, aspect, random)) * height, shade(FOREST))
    scene = np.concatenate([land, paint_water(land, x, deep, aspect, random)])
    paint_boat(scene, x - 0.30 * aspect, y - 0.765)
    # Grain is texture at the finest scale.
    scene += 0.004 * random.standard_normal(scene.shape, np.float32)
    picture: Picture = np.clip(scene, 0, 1).astype(np.float32, copy=False)
    return picture


def paint_sky(x: Field, y: Field, aspect: float, height: int) -> Field:
    """Paint the gradient, the sun with its glow, and bands of cloud across it."""
    places = [place * HORIZON for place, _ in SKY]
    line = [np.interp(y[:, 0], places, [colour[k] for _, colour in SKY]) for k in range(3)]
    distance = np.hypot(x - SUN_PLACE * aspect, y - SUN_Y)
    glow = np.exp(np.minimum(SUN_RADIUS - distance, 0) / 0.11)[..., None]
    sky: Field = np.stack(line, axis=-1).astype(np.float32)[:, None] + glow * shade(
        (0.42, 0.23, 0.15)
    )
    fall = np.clip((y - SUN_Y + SUN_RADIUS) / (2 * SUN_RADIUS), 0, 1)[..., None]
    disc = shade((1.0, 0.97, 0.80)) + fall * shade((0.0, -0.35, -0.44))
    cover(sky, (SUN_RADIUS - distance) * height, disc)
    wave = 0.012 * np.sin(7 * x + 3) + 0.005 * np.sin(23 * x)
    for place, thickness, reach in (
        (0.30, 0.006, 0.30),
        (0.385, 0.010, 0.54),
        (0.455, 0.007, 0.42),
    ):
        along = thickness * np.exp(-(((x - SUN_PLACE * aspect) / reach) ** 2))
        inside = (along - np.abs(y + wave - place)) / 0.004
        cover(sky, inside - 0.5, shade((0.72, 0.27, 0.45)), strength=0.75)
    return sky


def paint_stars(sky: Field, random: np.random.Generator) -> None:
    """Add stars, ever fewer towards the horizon; a few are large and have rays."""
    height, width, _ = sky.shape
    count = height * width // 450
    rows = (height * random.random(count) ** 1.3).astype(int)
    columns = random.integers(0, width, count)
    bright = random.random(count) ** 3 * (1 - rows / height) ** 1.5
    sky[rows, columns] += bright[:, None] * (1.0, 0.97, 0.92)
    for place in bright.argsort()[-9:]:
        row, column = int(rows[place]), int(columns[place])
        for reach, light in ((1, 0.45), (2, 0.18), (3, 0.07)):
            for r, c in ((-reach, 0), (reach, 0), (0, -reach), (0, reach)):
                if 0 <= row + r < height and 0 <= column + c < width:
                    sky[row + r, column + c] += light


def paint_water(
    land: Field, x: Field, y: Field, aspect: float, random: np.random.Generator
) -> Field:
    """Return the reflection of the land and of the sun's path below the horizon."""
    shore, width, _ = land.shape
    height = shore + len(y)
    depth = y - HORIZON
    ripple = np.sin(9 / (depth + 0.03) + 5 * np.sin(3 * x)) + 0.6 * np.sin(170 * depth + 11 * x)
    row = (HORIZON - 0.95 * depth - 0.06 * depth * ripple) * height - 0.5
    column = x * height - 0.5 + 7.3 * ripple * depth
    mirror = land[
        np.clip(row.round().astype(int), 0, shore - 1),
        np.clip(column.round().astype(int), 0, width - 1),
    ]
    unrest = 9 * random.random((len(y), 1), np.float32)
    swell = np.sin(11 / (depth + 0.035) + 2 * np.sin(9 * x) + unrest)
    path = np.exp(-(((x - SUN_PLACE * aspect) / (0.05 + 0.42 * depth)) ** 2))
    glitter = np.clip(path * (0.62 + 0.75 * swell) - 0.30, 0, 1)[..., None]
    water: Field = mirror * shade((0.60, 0.62, 0.78)) + shade((0.00, 0.01, 0.05))
    water += glitter * shade((1.0, 0.74, 0.45))
    return water


def paint_boat(scene: Field, x: Field, y: Field) -> None:
    """Paint a small sailing boat whose waterline's middle is the origin, and its reflection."""
    near = np.s_[
        int(np.searchsorted(y[:, 0], -0.25)) : int(np.searchsorted(y[:, 0], 0.25)),
        int(np.searchsorted(x, -0.15)) : int(np.searchsorted(x, 0.15)),
    ]
    size, view, x, y = len(scene), scene[near], x[near[1]], y[near[0]]
    shaken = x + 0.006 * np.sin(260 * y)
    for up, side, light in ((-y, x, 1.0), (1.1 * y, shaken, 0.45)):
        shapes = (
            ((up + 0.002, 0.026 - up, 0.070 + 0.9 * up - np.abs(side)), (0.10, 0.06, 0.16)),
            ((up - 0.034, side - 0.003, (0.200 - up - 2.6 * side) / 2.8), (1.00, 0.93, 0.80)),
            ((up - 0.034, -0.003 - side, (0.170 - up + 2.7 * side) / 2.9), (0.95, 0.42, 0.38)),
        )
        for edges, colour in shapes:
            # A shape is where the distances to all of its edges are positive.
            inside = np.minimum(np.minimum(edges[0], edges[1]), edges[2])
            cover(view, inside * size, shade(colour), strength=light)


def rough_line(place: Field, knots: int, random: np.random.Generator) -> Field:
    """Return a jagged line with values about ``[0, 1]`` over ``place`` in ``[0, 1]``."""
    line = np.zeros_like(place)
    for octave in range(5):
        count = knots * 2**octave + 1
        line += np.interp(place, np.linspace(0, 1, count), random.random(count)) / 2.1**octave
    return line / 1.6 - 0.1


def tree_line(x: Field, aspect: float, random: np.random.Generator) -> Field:
    """Return the upper edge of a forest of firs along the shore, lower towards the sun."""
    away = np.abs(x - SUN_PLACE * aspect) / aspect
    ground = HORIZON - 0.012 - 0.05 * np.clip(away - 0.12, 0, None)
    edge: Field = ground
    for tree in np.arange(0, aspect + TREE_GAP, TREE_GAP):
        middle = tree + random.normal(0, 0.3 * TREE_GAP)
        distance = np.abs(x - middle)
        tall = (0.03 + 0.16 * abs(middle / aspect - SUN_PLACE)) * random.uniform(0.55, 1.15)
        boughs = tall - 3.4 * distance + 0.004 * np.sin(900 * distance)
        edge = np.minimum(edge, ground - np.clip(boughs, 0, None))
    return edge


def shade(colour: Colour) -> Field:
    """Return a colour as an array."""
    return np.array(colour, np.float32)


def cover(scene: Field, inside: Field, colour: Field, *, strength: float = 1.0) -> None:
    """Lay ``colour`` over the scene where ``inside``, a distance in points, is positive.

    The edge is smooth over one point.
    """
    touched = np.flatnonzero((inside > -0.5).any(axis=1))
    rows = slice(touched[0], touched[-1] + 1) if touched.size else slice(0)
    opacity = strength * np.clip(inside[rows] + 0.5, 0, 1)[..., None]
    scene[rows] += opacity * ((colour if colour.ndim == 1 else colour[rows]) - scene[rows])


def square(line: npt.ArrayLike) -> Pattern:
    """Return the window that is the product of the same line down and across."""
    window: Pattern = np.multiply.outer(np.asarray(line, float), np.asarray(line, float))
    return window


def wave(stride: int) -> Pattern:
    """Return a smooth line three points wide (Lanczos), for growing ``stride`` times.

    >>> wave(4).reshape(3, 4).sum(axis=0)  # what each phase adds up to
    array([1., 1., 1., 1.])
    """
    place = (np.arange(3 * stride) + 0.5) / stride - 1.5
    line = (np.sinc(place) * np.sinc(place / 1.5)).reshape(3, stride)
    return np.asarray(line / line.sum(axis=0), float).reshape(-1)


def brick(size: int) -> tuple[Pattern, Pattern]:
    """Return how a toy brick seen from above shades its colour, and where it shines white."""
    y, x = np.indices((size, size)) + 0.5 - size / 2
    rim = np.maximum(np.abs(x), np.abs(y)) > size / 2 - 1
    shade = np.where(rim, np.where(x + y < 0, 1.12, 0.62), 0.92)
    distance = np.hypot(x, y)
    stud = np.clip(0.32 * size + 0.5 - distance, 0, 1)
    shadow = np.clip(0.34 * size + 0.5 - np.hypot(x - 1.2, y - 1.2), 0, 1)
    shade = shade * (1 - 0.45 * shadow)
    shade = shade + stud * (1.08 - shade)
    ring = stud * np.exp(-((distance - 0.27 * size) ** 2)) * -(x + y) / size
    return shade + 0.35 * np.clip(ring, -1, 0), 0.55 * np.clip(ring, 0, 1)


def bursts(size: int) -> Pattern:
    """Return four fireworks: rays from the middle to a rim, broken into sparks."""
    y, x = np.indices((size, size)) + 0.5 - size / 2
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    patterns = []
    for rays, twist, begin, end, sharp in (
        (14, 0.0, 3, 27, 14),
        (24, 0.0, 16, 25, 10),
        (9, 0.05, 2, 29, 22),
        (34, 0.0, 8, 20, 6),
    ):
        ray = np.abs(np.cos(rays * angle / 2 + twist * radius)) ** sharp
        reach = np.clip((radius - begin) / 3, 0, 1) * np.exp(-((radius / end) ** 4))
        spark = 0.6 + 0.4 * np.cos(1.3 * radius)
        patterns.append(1.2 * ray * reach * spark + np.exp(-((radius / 2.2) ** 2)))
    return np.stack(patterns)
