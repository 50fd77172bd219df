"""Random legal sizes and attributes of the convolution family, with whole numbers to go with them.

On every spatial axis a coarse point ``c`` and a tap ``t`` of the window meet at the fine point
``stride * c + dilation * t - begin``.  A convolution reads the fine side and returns the coarse
one, a transposed convolution the other way round.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import settings
from hypothesis import strategies as st

Array = npt.NDArray[Any]
Sizes = tuple[int, ...]

QUICK = settings(deadline=None, max_examples=60)
THOROUGH = settings(QUICK, max_examples=120)

# By number of spatial axes: three axes of five points are slow and tell nothing new.
LARGEST = {1: 6, 2: 4, 3: 3}
WIDEST = {1: 5, 2: 4, 3: 3}
MODES = ("none", "same_upper", "same_lower", "valid")


class Axis(NamedTuple):
    """One spatial axis; ``extra`` is its output_padding."""

    coarse: int
    fine: int
    taps: int
    stride: int
    dilation: int
    begin: int
    end: int
    extra: int

    @property
    def span(self) -> int:
        """How many points the window covers, holes included."""
        return (self.taps - 1) * self.dilation + 1


@dataclass(frozen=True)
class Geometry:
    """Everything about one case; channels are counted per group."""

    axes: tuple[Axis, ...]
    auto_pad: str
    batch: int
    groups: int
    coarse_channels: int
    fine_channels: int
    seed: int

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return len(self.axes)

    def each(self, field: str) -> Sizes:
        """Return one number of every axis, in their order."""
        return tuple(getattr(axis, field) for axis in self.axes)

    def shape(self, role: str) -> Sizes:
        """Return the shape of an operand as PyTorch and ONNX have it."""
        coarse, fine = self.groups * self.coarse_channels, self.groups * self.fine_channels
        return {
            "coarse": (self.batch, coarse, *self.each("coarse")),
            "fine": (self.batch, fine, *self.each("fine")),
            "weights": (coarse, self.fine_channels, *self.each("taps")),
            "coarse bias": (coarse,),
            "fine bias": (fine,),
        }[role]

    def array(self, role: str) -> Array:
        """Return small whole numbers: all sums of their products are exact in float32."""
        random = np.random.default_rng([self.seed, *role.encode()])
        return random.integers(-4, 5, self.shape(role)).astype(np.float32)

    def noise(self, role: str) -> Array:
        """Return numbers with as many digits as float32 has."""
        random = np.random.default_rng([self.seed, *role.encode()])
        return random.standard_normal(self.shape(role)).astype(np.float32)


@st.composite
def gathered(  # noqa: PLR0913 - each has a default
    draw: st.DrawFn,
    *,
    ranks: Sequence[int] = (1, 2, 3),
    auto_pads: Sequence[str] = ("none",),
    symmetric: bool = False,
    dilated: bool = True,
    groups: Sequence[int] = (1, 2, 3),
) -> Geometry:
    """Draw a case from its fine side: the coarse one has every window that fits.

    SAME pads are those of a Convolution in oneDNN Graph, OpenVINO and ONNX alike.
    """
    rank = draw(st.sampled_from(ranks))
    auto_pad = draw(st.sampled_from(auto_pads))
    axes = []
    for _ in range(rank):
        taps, stride, dilation = _window(draw, rank, dilated=dilated)
        span = (taps - 1) * dilation + 1
        begin = end = 0
        if auto_pad == "none":
            begin = draw(st.integers(0, 3))
            end = begin if symmetric else draw(st.integers(0, 3))
        least = 1 if auto_pad.startswith("same") else max(span - begin - end, 1)
        fine = least + draw(st.integers(0, 2 * LARGEST[rank]))
        if auto_pad.startswith("same"):
            total = max(span - (fine % stride or stride), 0)
            begin = total // 2 if auto_pad == "same_upper" else total - total // 2
            end = total - begin
        coarse = (fine + begin + end - span) // stride + 1
        axes.append(Axis(coarse, fine, taps, stride, dilation, begin, end, 0))
    return _with_channels(draw, axes, auto_pad, groups)


@st.composite
def scattered(  # noqa: PLR0913 - each has a default
    draw: st.DrawFn,
    *,
    ranks: Sequence[int] = (1, 2, 3),
    auto_pads: Sequence[str] = ("none",),
    symmetric: bool = False,
    dilated: bool = True,
    groups: Sequence[int] = (1, 2, 3),
    extra: str = "below stride or dilation",
) -> Geometry:
    """Draw a case from its coarse side: the fine one has whatever the windows reach.

    Under auto_pad, every document splits the pads in its own way: then pads are drawn as zeros,
    and the fine size is that of no padding.
    """
    rank = draw(st.sampled_from(ranks))
    auto_pad = draw(st.sampled_from(auto_pads))
    axes = []
    for _ in range(rank):
        taps, stride, dilation = _window(draw, rank, dilated=dilated)
        coarse = draw(st.integers(1, LARGEST[rank]))
        limit = {
            "none": 1,
            "below stride": stride,
            "below stride or dilation": max(stride, dilation),
            "any": 6,
        }[extra]
        more = draw(st.integers(0, limit - 1))
        whole = stride * (coarse - 1) + (taps - 1) * dilation + 1 + more
        begin = end = 0
        if auto_pad == "none":
            begin = draw(st.integers(0, min(3, (whole - 1) // 2 if symmetric else whole - 1)))
            end = begin if symmetric else draw(st.integers(0, min(3, whole - 1 - begin)))
        axes.append(Axis(coarse, whole - begin - end, taps, stride, dilation, begin, end, more))
    return _with_channels(draw, axes, auto_pad, groups)


def _window(draw: st.DrawFn, rank: int, *, dilated: bool) -> tuple[int, int, int]:
    """Return taps, stride and dilation."""
    return (
        draw(st.integers(1, WIDEST[rank])),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3 if dilated else 1)),
    )


def _with_channels(
    draw: st.DrawFn, axes: Sequence[Axis], auto_pad: str, groups: Sequence[int]
) -> Geometry:
    return Geometry(
        axes=tuple(axes),
        auto_pad=auto_pad,
        batch=draw(st.integers(1, 2)),
        groups=draw(st.sampled_from(groups)),
        coarse_channels=draw(st.integers(1, 3)),
        fine_channels=draw(st.integers(1, 3)),
        seed=draw(st.integers(0, 2**16)),
    )
