"""Paint the demo's picture: an evening by a lake, from numbers alone."""

import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.float32]
Field = npt.NDArray[np.float64]
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
    y, x = np.mgrid[0:height, 0:width] + 0.5
    y, x = y / height, x / height
    aspect = width / height
    scene = paint_sky(x, y, aspect, random)
    for middle, relief, knots, top, foot in RANGES:
        ridge = middle - relief * rough_line(x[0] / aspect, knots, random)
        slope = np.clip((y - ridge) / (HORIZON - ridge), 0, 1)[..., None]
        cover(scene, below(ridge, y), (1 - slope) * top + slope * np.array(foot))
    cover(scene, below(tree_line(x[0], aspect, random), y), np.array(FOREST))
    scene = paint_water(scene, x, y, aspect, random)
    paint_boat(scene, x - 0.30 * aspect, y - 0.765)
    scene += random.normal(0, 0.008, scene.shape)  # grain: texture at the finest scale
    return np.clip(scene, 0, 1).astype(np.float32)


def paint_sky(x: Field, y: Field, aspect: float, random: np.random.Generator) -> Field:
    """Paint gradient, stars, sun with its glow, and bands of cloud across it."""
    places = [place * HORIZON for place, _ in SKY]
    bands = [np.interp(y, places, [colour[k] for _, colour in SKY]) for k in range(3)]
    sky = np.stack(bands, axis=-1)
    paint_stars(sky, random)
    distance = np.hypot(x - SUN_PLACE * aspect, y - SUN_Y)
    glow = np.exp(-np.clip(distance - SUN_RADIUS, 0, None) / 0.11)[..., None]
    sky += 0.42 * glow * (1.0, 0.55, 0.35)
    fall = np.clip((y - SUN_Y + SUN_RADIUS) / (2 * SUN_RADIUS), 0, 1)[..., None]
    disc = (1 - fall) * (1.0, 0.97, 0.80) + fall * np.array((1.0, 0.62, 0.36))
    cover(sky, np.clip((SUN_RADIUS - distance) * y.shape[0] + 0.5, 0, 1), disc)
    wave = 0.012 * np.sin(7 * x + 3) + 0.005 * np.sin(23 * x)
    for place, thickness, reach in ((0.30, 0.006, 0.5), (0.385, 0.010, 0.9), (0.455, 0.007, 0.7)):
        along = np.exp(-(((x - SUN_PLACE * aspect) / (reach * 0.6)) ** 2))
        across = np.clip((thickness * along - np.abs(y + wave - place)) / 0.004, 0, 1)
        cover(sky, 0.75 * across, np.array((0.72, 0.27, 0.45)))
    return sky


def paint_stars(sky: Field, random: np.random.Generator) -> None:
    """Add stars, ever fewer towards the horizon; a few are large and have rays."""
    height, width, _ = sky.shape
    count = height * width // 500
    rows = (HORIZON * height * random.random(count) ** 1.6).astype(int)
    columns = random.integers(0, width, count)
    bright = random.random(count) ** 3 * (1 - rows / (HORIZON * height)) ** 2
    sky[rows, columns] += bright[:, None] * (1.0, 0.97, 0.92)
    for place in bright.argsort()[-9:]:
        row, column = int(rows[place]), int(columns[place])
        for reach, light in ((1, 0.45), (2, 0.18), (3, 0.07)):
            for r, c in ((-reach, 0), (reach, 0), (0, -reach), (0, reach)):
                if 0 <= row + r < height and 0 <= column + c < width:
                    sky[row + r, column + c] += light


def paint_water(
    scene: Field, x: Field, y: Field, aspect: float, random: np.random.Generator
) -> Field:
    """Return the scene with everything under the horizon replaced by its reflection."""
    height, width, _ = scene.shape
    depth = np.clip(y - HORIZON, 0, None)
    ripple = np.sin(9 / (depth + 0.03) + 5 * np.sin(3 * x)) + 0.6 * np.sin(170 * depth + 11 * x)
    row = (HORIZON - 0.95 * depth - 0.06 * depth * ripple) * height - 0.5
    column = x * height - 0.5 + 2.2 * ripple * depth / 0.3
    mirror = scene[
        np.clip(row.round().astype(int), 0, height - 1),
        np.clip(column.round().astype(int), 0, width - 1),
    ]
    water = mirror * (0.60, 0.62, 0.78) + np.array((0.00, 0.01, 0.05))
    swell = np.sin(11 / (depth + 0.035) + 2 * np.sin(9 * x) + 9 * random.random((height, 1)))
    path = np.exp(-(((x - SUN_PLACE * aspect) / (0.05 + 0.42 * depth)) ** 2))
    glitter = np.clip(path * (0.62 + 0.75 * swell) - 0.30, 0, 1)[..., None]
    water += glitter * (1.0, 0.74, 0.45)
    cover(scene, below(np.full(width, HORIZON), y), water)
    return scene


def paint_boat(scene: Field, x: Field, y: Field) -> None:
    """Paint a small sailing boat whose waterline's middle is the origin, and its reflection."""
    near = np.s_[
        int(np.searchsorted(y[:, 0], -0.25)) : int(np.searchsorted(y[:, 0], 0.25)),
        int(np.searchsorted(x[0], -0.15)) : int(np.searchsorted(x[0], 0.15)),
    ]
    size, view, x, y = scene.shape[0], scene[near], x[near], y[near]
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
            cover(view, np.clip(inside * size + 0.5, 0, 1) * light, np.array(colour))


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
    edge = ground
    for tree in np.arange(0, aspect + TREE_GAP, TREE_GAP):
        middle = tree + random.normal(0, 0.3 * TREE_GAP)
        distance = np.abs(x - middle)
        tall = (0.03 + 0.16 * abs(middle / aspect - SUN_PLACE)) * random.uniform(0.55, 1.15)
        boughs = tall - 3.4 * distance + 0.004 * np.sin(900 * distance)
        edge = np.minimum(edge, ground - np.clip(boughs, 0, None))
    return edge


def below(edge: Field, y: Field) -> Field:
    """Return how much of each point lies below the line ``edge``: smooth over one row."""
    return np.clip((y - edge) * y.shape[0] + 0.5, 0, 1)


def cover(scene: Field, opacity: Field, colour: Field) -> None:
    """Lay ``colour`` over the scene where ``opacity`` is not zero."""
    scene += opacity[..., None] * (colour - scene)
