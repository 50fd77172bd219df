"""Where a packed region's segments lie in the source itself, read without packing."""

from collections.abc import Sequence


def segments_in_place(
    segments: Sequence[int], pitches: Sequence[int], steps: Sequence[int]
) -> list[int]:
    """Return where segments of a packed region lie in an array of other steps, axis by axis.

    >>> segments_in_place([0, 4, 12, 16], pitches=(12, 4), steps=(100, 4))
    [0, 4, 100, 104]
    """
    found = []
    for segment in segments:
        offset, rest = 0, segment
        for pitch, step in zip(pitches, steps, strict=True):
            here, rest = divmod(rest, pitch)
            offset += here * step
        found.append(offset)
    return found
