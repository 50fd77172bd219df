"""The sizes and pads that several documents share, each axis by itself.

Every function answers None when a size it needs is not known yet.
"""

from tconv.dialects.call import Call, Line, Size, Sized
from tconv.problem import Operand, coarse_points, fine_points


def split(total: Size, *, odd_at_end: bool) -> tuple[Size, Size]:
    """Split a total padding into ``(begin, end)``.

    >>> split(3, odd_at_end=True), split(3, odd_at_end=False)
    ((1, 2), (2, 1))
    """
    if total is None:
        return None, None
    small, large = total // 2, total - total // 2
    return (small, large) if odd_at_end else (large, small)


def same_total(line: Line) -> Size:
    """Return the padding that makes ``ceil(fine / stride)`` windows fit.

    >>> same_total(Line(0, None, 5, 3, 2, 1, 0, 0, 0))
    2
    """
    if line.span is None or line.fine is None:
        return None
    last = line.fine % line.stride or line.stride
    return max(line.span - last, 0)


def leftover_total(line: Line) -> Size:
    """Return how much of the whole scatter lies outside the size that was asked for.

    The printed formula ``stride * (X - 1) + (K - 1) * dilation + 1 - output_shape +
    output_padding``, clamped at 0: below it the extra points stay zero at the end.
    """
    if line.coarse is None or line.span is None or line.asked is None:
        return None
    whole = fine_points(line.coarse, line.span, line.stride, 0, line.extra)
    return max(whole - line.asked, 0)


def gathered(call: Call, line: Line, pads: tuple[Size, Size]) -> Sized:
    """Return how many windows fit into the padded input; refuse when none does."""
    begin, end = pads
    if line.fine is None:
        return Sized(begin, end, None)
    if begin is None or end is None:  # "same", whatever the window: ceil(fine / stride)
        return Sized(begin, end, -(-line.fine // line.stride))
    if line.span is None:
        return Sized(begin, end, None)
    count = coarse_points(line.fine, line.span, line.stride, begin + end)
    if count < 1:
        weights, data = call.name(Operand.WEIGHTS), call.name(Operand.FINE)
        padded = line.fine + begin + end
        call.refuse(
            f"the window of {weights} spans {line.span} points on spatial axis {line.index + 1}, "
            f"but {data} has {padded} there, padding included.",
            rule="(K - 1) * dilation + 1 <= X + pads_begin + pads_end",
            fix=f"pad that axis by {line.span - padded} more, or pass a smaller window",
            show=line.show(pads),
        )
    return Sized(begin, end, count)


def scattered(call: Call, line: Line, pads: tuple[Size, Size]) -> Sized:
    """Return the size that the padded scatter leaves; refuse when nothing is left."""
    begin, end = pads
    if line.coarse is None or line.span is None or begin is None or end is None:
        return Sized(begin, end, None)
    size = fine_points(line.coarse, line.span, line.stride, begin + end, line.extra)
    if size < 1:
        call.refuse(
            f"the result would be empty: spatial axis {line.index + 1} would have size {size}.",
            rule="stride * (X - 1) + (K - 1) * dilation + 1 - pads_begin - pads_end"
            " + output_padding >= 1",
            fix=f"take {1 - size} off the pads of that axis",
            show=line.show(pads),
        )
    return Sized(begin, end, size)
