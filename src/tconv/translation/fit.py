"""What one axis becomes in a dialect: the numbers of the call, and what is done around it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tconv.problem import Axis, Operand, coarse_points, fine_points, window
from tconv.translation.steps import Pair


@dataclass(frozen=True, slots=True)
class Fit:
    """One axis of a call: its pads and output_padding, and what is done around it.

    A gather's data grows by zeros before the call and its result is cropped afterwards; a
    scatter's result grows, then is cropped.
    """

    begin: int = 0
    end: int = 0
    extra: int = 0
    grow: Pair = (0, 0)
    crop: Pair = (0, 0)

    @property
    def bare(self) -> bool:
        """Whether the call alone is enough."""
        return self.grow == self.crop == (0, 0)


def span(axis: Axis) -> int:
    """Return how many points the window covers."""
    return window(axis.taps, axis.dilation)


def end_of(axis: Axis) -> int:
    """Return the padding at the end that makes the windows meet the grid's end exactly.

    Below 0 there are points at the end that no window reaches.
    """
    whole = fine_points(axis.coarse_size, span(axis), axis.stride, axis.pad_begin)
    return whole - axis.fine_size


def gather(axis: Axis, begin: int, end: int, grow: Pair = (0, 0)) -> Fit:
    """Return the fit of a gather with these pads; windows too many are cropped."""
    pads = begin + end + sum(grow)
    more = coarse_points(axis.fine_size, span(axis), axis.stride, pads) - axis.coarse_size
    return Fit(begin, end, 0, grow, (0, more))


def free(axis: Axis, wanted: Operand, most_extra: int | None = None) -> Fit:
    """Fit a call whose pads may differ and whose output_padding has a limit, or none."""
    begin, end = axis.pad_begin, end_of(axis)
    if wanted is not Operand.FINE:
        return gather(axis, begin, max(end, 0))
    extra = max(-end, 0)
    if most_extra is None or extra <= most_extra:
        return Fit(begin, max(end, 0), extra)
    return Fit(grow=(0, extra), crop=(begin, 0))


def symmetric(axis: Axis, wanted: Operand) -> Fit:
    """Fit a call with one padding for both ends and output_padding below stride or dilation."""
    begin, end = axis.pad_begin, end_of(axis)
    if wanted is not Operand.FINE:
        alike = gather(axis, begin, begin)
        return alike if alike.bare else gather(axis, 0, 0, (begin, max(end, 0)))
    limit = max(axis.stride, axis.dilation)
    if 0 <= begin - end < limit:
        return Fit(begin, begin, begin - end)
    if end >= 0:
        both = min(begin, end)
        return Fit(both, both, 0, crop=(begin - both, end - both))
    if -end >= limit:
        return Fit(grow=(0, -end), crop=(begin, 0))
    both = min(begin, limit - 1 + end)
    return Fit(both, both, both - end, crop=(begin - both, 0))


def unpadded(axis: Axis, wanted: Operand) -> Fit:
    """Fit a call that knows no pads; its scatter fills up the last stride."""
    begin, end = axis.pad_begin, end_of(axis)
    if wanted is not Operand.FINE:
        return gather(axis, 0, 0, (begin, max(end, 0)))
    spare = end + max(axis.stride - span(axis), 0)  # what Keras' "valid" gives beyond the window
    return Fit(grow=(0, max(-spare, 0)), crop=(begin, max(spare, 0)))


def is_same(axes: Sequence[Axis], wanted: Operand) -> bool:
    """Tell whether "same" of TensorFlow, Keras and torch means these very pads."""
    for axis in axes:
        last = axis.stride
        if wanted is not Operand.FINE:
            last = axis.fine_size % axis.stride or axis.stride
        begin = max(span(axis) - last, 0) // 2
        if wanted is Operand.FINE:
            alike = axis.fine_size == axis.stride * axis.coarse_size
        else:
            alike = axis.coarse_size == -(-axis.fine_size // axis.stride)
        if begin != axis.pad_begin or not alike:
            return False
    return True
