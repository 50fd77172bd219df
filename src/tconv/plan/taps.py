"""The portable algorithm: one matrix product a tap, no loop over points."""

from dataclasses import dataclass

from tconv.problem import Operand, Problem, Reach


@dataclass(frozen=True, slots=True)
class TapProducts:
    """One matrix product for each tap, on the points that the tap reaches.

    ``reaches[axis][tap]`` is the run of points where a tap of an axis meets, so the
    table has as many entries as the axes have taps, whatever the picture's size.
    """

    wanted: Operand
    strides: tuple[int, ...]
    reaches: tuple[tuple[Reach, ...], ...]


def tap_products(problem: Problem) -> TapProducts:
    """Plan ``problem`` as one matrix product for each tap of the window."""
    reaches = tuple(tuple(axis.reach(tap) for tap in range(axis.taps)) for axis in problem.axes)
    return TapProducts(problem.wanted, tuple(axis.stride for axis in problem.axes), reaches)
