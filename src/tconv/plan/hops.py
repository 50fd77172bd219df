"""A signal of one channel, read in steps of whole strides, is frames of as many channels.

Windows whose taps and pads are whole strides (an inverse STFT: 1024 taps that hop by 256) begin
where frames do.  Each then reads a few whole frames, moving by one: an ordinary window over many
channels, which transforms save multiplications of.  All arrays are the same ones, seen otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tconv.problem import Axis, Layout, Operand, Problem


@dataclass(frozen=True, slots=True)
class Hops:
    """A problem of frames, and the layouts of the signal and the weights that it was."""

    problem: Problem
    hop: int
    fine_layout: Layout
    weights_layout: Layout

    @property
    def told(self) -> str:
        """What a plan says of it."""
        frames = self.problem.axes[-1].fine_size
        return f"{frames} frames of {self.hop} channels each: windows begin where frames do"

    def shape(self, operand: Operand) -> tuple[int, ...]:
        """Return the shape of an operand as frames."""
        return self.problem.shape(operand)

    def strides(self, operand: Operand, strides: tuple[int, ...]) -> tuple[int, ...]:
        """Return those of an operand as frames."""
        if operand is Operand.COARSE:
            return strides
        layout = self.fine_layout if operand is Operand.FINE else self.weights_layout
        before, words = layout.words.index("x"), layout.words
        behind = before + len(self.problem.axes)
        spatial, step = strides[before : behind - 1], strides[behind - 1]
        others = zip(words, (*strides[:before], 0, *strides[behind:]), strict=True)
        kept: list[int] = []
        for word, stride in others:
            if word == "x":
                kept += [*spatial, step * self.hop, step]
            elif word != "f":
                kept.append(stride)
        return tuple(kept)


def hopped(problem: Problem) -> Hops | None:
    """Return the problem with frames instead of a signal, if windows begin where those do.

    >>> axis = Axis(fine_size=1536, coarse_size=3, taps=1024, stride=256, dilation=1, pad_begin=0)
    >>> frame_axis(axis)
    Axis(fine_size=6, coarse_size=3, taps=4, stride=1, dilation=1, pad_begin=0)
    """
    if problem.fine_channels != 1 or problem.wanted is Operand.WEIGHTS or not problem.axes:
        return None
    framed = frame_axis(problem.axes[-1])
    if framed is None:
        return None
    fine, weights = problem.fine_layout, problem.weights_layout
    hop = problem.axes[-1].stride
    seen = replace(
        problem,
        fine_channels=hop,
        axes=(*problem.axes[:-1], framed),
        fine_layout=_framed(fine.words),
        weights_layout=_framed(weights.words),
    )
    return Hops(seen, hop, fine, weights)


def frame_axis(axis: Axis) -> Axis | None:
    """Return an axis of frames; None where windows would begin inside of some."""
    hop = axis.stride
    if axis.dilation > 1 or hop in {1, axis.taps}:
        return None
    if any(size % hop for size in (axis.taps, axis.pad_begin, axis.fine_size)):
        return None
    return Axis(
        axis.fine_size // hop, axis.coarse_size, axis.taps // hop, 1, 1, axis.pad_begin // hop
    )


def _framed(words: Sequence[str]) -> Layout:
    """Return the layout in which the channels of a frame follow the frames."""
    kept = (word if word == "x" else word.replace("f", "") for word in words)
    return Layout(" ".join("x f" if word == "x" else word for word in kept if word))
