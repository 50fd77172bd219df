"""Random legal layers by family: what people run, and what they might."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from random import Random

from tconv.problem import Axis, Layout, Operand, Problem, fine_points, window


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a family draws: one layer but for what is wanted of it."""

    axes: tuple[Axis, ...]
    coarse_channels: int  # of a group
    fine_channels: int
    groups: int = 1
    batch: int = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """How large layers may be."""

    flops: tuple[int, int] = (100_000, 1_000_000_000)
    bytes: int = 64 << 20


Span = tuple[int, int]


def draw_axis(  # noqa: PLR0913 - the numbers of an axis
    draw: Random,
    coarse: Span,
    taps: Span,
    stride: Span = (1, 2),
    dilation: Span = (1, 1),
    pads: float = 0.5,
) -> Axis:
    """Draw an axis as a transposed convolution would have it; pads up to a part of the window."""
    while True:
        points, count, step = (draw.randint(*span) for span in (coarse, taps, stride))
        apart = draw.randint(*dilation)
        most = int(pads * (window(count, apart) - 1))
        begin, end, extra = draw.randint(0, most), draw.randint(0, most), draw.randint(0, step - 1)
        fine = fine_points(points, window(count, apart), step, begin + end, extra)
        if fine > 0:
            return Axis(fine, points, count, step, apart, begin)


def channels(draw: Random, low: int, high: int) -> int:
    """Draw channels, small ones as often as large ones, and often a round number."""
    number = round(math.exp(draw.uniform(math.log(low), math.log(high))))
    unit = draw.choice((1, 8, 16))
    return min(max(low, number // unit * unit), high)


def _square(draw: Random, coarse: Span, taps: Span, stride: Span = (1, 2)) -> tuple[Axis, ...]:
    return tuple(draw_axis(draw, coarse, taps, stride) for _ in range(2))


def _dense(draw: Random) -> Sizes:
    axes = _square(draw, (4, 64), (1, 5), (1, 3))
    return Sizes(axes, channels(draw, 8, 512), channels(draw, 8, 512), batch=draw.choice((1, 1, 4)))


def _grouped(draw: Random) -> Sizes:
    both = channels(draw, 2, 48), channels(draw, 2, 48)
    return Sizes(_square(draw, (4, 56), (1, 5)), *both, groups=channels(draw, 2, 64))


def _depthwise(draw: Random) -> Sizes:
    both = 1, draw.choice((1, 1, 1, 2))
    axes = _square(draw, (4, 112), (2, 7))
    return Sizes(axes, *both, groups=channels(draw, 4, 1024), batch=draw.choice((1, 4)))


def _few_fine(draw: Random) -> Sizes:
    return Sizes(
        _square(draw, (8, 128), (1, 9), (1, 4)), channels(draw, 5, 256), draw.randint(1, 4)
    )


def _few_coarse(draw: Random) -> Sizes:
    return Sizes(
        _square(draw, (8, 128), (1, 9), (1, 4)), draw.randint(1, 4), channels(draw, 5, 256)
    )


def _long_windows(draw: Random) -> Sizes:
    if draw.random() < 0.5:
        axes: tuple[Axis, ...] = (draw_axis(draw, (16, 2048), (16, 1024), (1, 256)),)
    else:
        axes = _square(draw, (4, 48), (7, 31), (1, 4))
    return Sizes(axes, channels(draw, 1, 128), channels(draw, 1, 128))


def _wide_strides(draw: Random) -> Sizes:
    axes = tuple(draw_axis(draw, (2, 32), (1, 4), (5, 16)) for _ in range(draw.randint(1, 2)))
    return Sizes(axes, channels(draw, 1, 256), channels(draw, 1, 256))


def _dilated(draw: Random) -> Sizes:
    axes = tuple(draw_axis(draw, (4, 64), (2, 5), (1, 5), (2, 24)) for _ in range(2))
    return Sizes(axes, channels(draw, 4, 256), channels(draw, 4, 256))


def _large_windows(draw: Random) -> Sizes:
    """Windows as large as what is left of the fine grid between the pads, or larger."""
    axes = tuple(draw_axis(draw, (1, 12), (5, 24), (1, 2), pads=1.0) for _ in range(2))
    return Sizes(axes, channels(draw, 4, 256), channels(draw, 4, 256))


def _points(draw: Random) -> Sizes:
    axes = tuple(draw_axis(draw, (1, 1), (1, 7), (1, 4)) for _ in range(2))
    both = channels(draw, 16, 1024), channels(draw, 16, 1024)
    return Sizes(axes, *both, batch=draw.choice((1, 2, 32, 128)))


def _tiny_images(draw: Random) -> Sizes:
    axes = _square(draw, (2, 8), (1, 5))
    return Sizes(axes, channels(draw, 8, 512), channels(draw, 8, 512), batch=32)


def _ranks(draw: Random) -> Sizes:
    rank = draw.choice((1, 3, 3, 4, 5))
    most = {1: 4096, 3: 24, 4: 8, 5: 5}[rank]
    axes = tuple(draw_axis(draw, (2, most), (1, 4), (1, 3)) for _ in range(rank))
    return Sizes(axes, channels(draw, 4, 128), channels(draw, 4, 128))


FAMILIES: dict[str, Callable[[Random], Sizes]] = {
    "dense": _dense,
    "grouped": _grouped,
    "depthwise": _depthwise,
    "few fine channels": _few_fine,
    "few coarse channels": _few_coarse,
    "long windows": _long_windows,
    "wide strides": _wide_strides,
    "dilated": _dilated,
    "large windows": _large_windows,
    "points": _points,
    "tiny images": _tiny_images,
    "ranks": _ranks,
}


def draw_problem(draw: Random, family: str, wanted: Operand, limits: Limits) -> Problem:
    """Draw layers of a family until one keeps to the limits."""
    while True:
        sizes = FAMILIES[family](draw)
        order = draw.choice(("n {} x", "n x {}"))
        problem = Problem(
            wanted, sizes.batch, sizes.groups, sizes.coarse_channels, sizes.fine_channels,
            sizes.axes, draw.choice(("float32", "float32", "float16")),
            Layout(order.format("gc")), Layout(order.format("gf")), Layout("gc f x"),
        )  # fmt: skip
        low, high = limits.flops
        if low <= problem.flops() <= high and problem.bytes() <= limits.bytes:
            return problem


def draw_layers(
    seed: int, count: int, limits: Limits | None = None
) -> Iterator[tuple[str, Problem]]:
    """Yield so many layers, families and wanted arrays in turns; the same for the same seed."""
    draw = Random(seed)  # noqa: S311 - not for secrets
    turns = cycle((family, wanted) for wanted in Operand for family in FAMILIES)
    for _, (family, wanted) in zip(range(count), turns, strict=False):
        yield family, draw_problem(draw, family, wanted, limits or Limits())
