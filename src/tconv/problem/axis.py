"""The one relation of the whole family; no other file does index arithmetic of its own."""

from dataclasses import dataclass
from functools import lru_cache


def window(taps: int, dilation: int) -> int:
    """Return how many fine points one window spans, holes included.

    >>> window(taps=3, dilation=2)
    5
    """
    return (taps - 1) * dilation + 1


def fine_points(coarse_size: int, span: int, stride: int, pads: int, extra: int = 0) -> int:
    """Return the fine size that ``coarse_size`` windows of ``span`` points leave.

    >>> fine_points(coarse_size=224, span=3, stride=2, pads=2)
    447
    """
    return stride * (coarse_size - 1) + span - pads + extra


def coarse_points(fine_size: int, span: int, stride: int, pads: int) -> int:
    """Return how many windows fit; below 1 when not even one does.

    >>> coarse_points(fine_size=447, span=3, stride=2, pads=2)
    224
    """
    return (fine_size + pads - span) // stride + 1


@dataclass(frozen=True, slots=True)
class Reach:
    """Where one tap of one axis meets: ``count`` pairs of points.

    The pairs are ``(coarse_start + k, fine_start + k * stride)``.
    """

    coarse_start: int
    fine_start: int
    count: int


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis of the relation that all three operations share.

    A coarse point ``c`` and a tap ``t`` meet at the fine point::

        fine(c, t) = stride * c + dilation * t - pad_begin

    and nowhere when that number falls outside ``range(fine_size)``.
    Convolution reads along the relation, transposed convolution writes along
    it, and the weight gradient sums over it.

    >>> axis = Axis(fine_size=5, coarse_size=3, taps=3, stride=2, dilation=1, pad_begin=1)
    >>> axis.fine(1, 2)
    3
    >>> axis.fine(0, 0) is None  # falls in the padding
    True
    """

    fine_size: int
    coarse_size: int
    taps: int
    stride: int
    dilation: int
    pad_begin: int

    def fine(self, coarse: int, tap: int) -> int | None:
        """Return the fine point where a coarse point and a tap meet."""
        point = self.stride * coarse + self.dilation * tap - self.pad_begin
        return point if 0 <= point < self.fine_size else None

    def reach(self, tap: int) -> Reach:
        """Return every meeting of one tap as one run of points.

        >>> Axis(5, 3, taps=3, stride=2, dilation=1, pad_begin=1).reach(0)
        Reach(coarse_start=1, fine_start=1, count=2)
        """
        shift = self.dilation * tap - self.pad_begin
        first = max(0, -(shift // self.stride))  # ceil(-shift / stride)
        last = min(self.coarse_size - 1, (self.fine_size - 1 - shift) // self.stride)
        count = max(0, last - first + 1)
        return Reach(first, self.stride * first + shift, count) if count else Reach(0, 0, 0)

    def meetings(self) -> int:
        """Return how many ``(coarse, tap)`` pairs meet inside the fine grid.

        >>> Axis(5, 3, taps=3, stride=2, dilation=1, pad_begin=1).meetings()
        7
        """
        return _meetings(self)

    def __str__(self) -> str:
        """Print the relation with its numbers."""
        return (
            f"{self.fine_size} = {self.stride}*{self.coarse_size} + {self.dilation}*{self.taps}"
            f" - {self.pad_begin}"
        )


@lru_cache(maxsize=1024)
def _meetings(axis: Axis) -> int:
    """Count once: every plan asks several times, and windows may be long.

    Coarse points and taps are counted alike: for each of the fewer, how many of the others meet.
    """
    sides = sorted([(axis.coarse_size, axis.stride), (axis.taps, axis.dilation)])
    (turns, step), (most, other) = sides
    total = 0
    for turn in range(turns):
        begin = axis.pad_begin - step * turn
        first, last = -(-begin // other), (axis.fine_size - 1 + begin) // other
        total += max(0, min(last, most - 1) - max(first, 0) + 1)
    return total
