"""What is to be translated: the problem, and the caller's word for each array."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tconv.problem import Axis, Layout, Operand, Problem
from tconv.translation.steps import Step, moves


@dataclass(frozen=True)
class Ask:
    """A problem with the caller's names."""

    problem: Problem
    names: Mapping[Operand, str]
    order: tuple[str, ...]  # the names of the inputs as the caller passes them
    bias: str | None = None

    @property
    def data(self) -> Operand:
        """The operand that windows read, or spread over the result."""
        return Operand.COARSE if self.problem.wanted is Operand.FINE else Operand.FINE

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return len(self.problem.axes)

    def each(self, number: str) -> tuple[int, ...]:
        """Return one number of every axis."""
        return tuple(getattr(axis, number) for axis in self.problem.axes)

    def into(self, operand: Operand, layout: Layout) -> tuple[Step, ...]:
        """Return the steps that bring an operand from the caller's layout into another."""
        have, problem = self.problem.layout(operand), self.problem
        return moves(have, layout, problem.sizes, problem.spatial(operand))

    def back(self, operand: Operand, layout: Layout) -> tuple[Step, ...]:
        """Return the steps that bring an operand from another layout into the caller's."""
        want, problem = self.problem.layout(operand), self.problem
        return moves(layout, want, problem.sizes, problem.spatial(operand))


def as_gather(ask: Ask) -> Ask:
    """Return the gather that computes a gradient by weights: taps and windows change places.

    Sums run over the batch and the coarse grid, so the batch takes the place of the fine
    channels, the coarse operand that of the weights, and the stride that of the dilation.
    """
    problem, names = ask.problem, ask.names
    axes = tuple(
        Axis(
            fine_size=axis.fine_size,
            coarse_size=axis.taps,
            taps=axis.coarse_size,
            stride=axis.dilation,
            dilation=axis.stride,
            pad_begin=axis.pad_begin,
        )
        for axis in problem.axes
    )
    swapped = replace(
        problem,
        wanted=Operand.COARSE,
        batch=problem.fine_channels,
        fine_channels=problem.batch,
        axes=axes,
        fine_layout=_swap(problem.fine_layout),
        weights_layout=_swap(problem.coarse_layout),
        coarse_layout=_swap(problem.weights_layout),
    )
    roles = {
        Operand.FINE: names[Operand.FINE],
        Operand.WEIGHTS: names[Operand.COARSE],
        Operand.COARSE: names[Operand.WEIGHTS],
    }
    return Ask(swapped, roles, ask.order)


def _swap(layout: Layout) -> Layout:
    return Layout(layout.axes.translate(str.maketrans("nf", "fn")))
