"""What stands around a call, put together: axes moved, zeros, crops and the bias."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tconv.problem import Layout, Operand
from tconv.translation.ask import Ask
from tconv.translation.fit import Fit
from tconv.translation.notes import NOTES
from tconv.translation.steps import Pair, Step, spatial_pairs
from tconv.translation.translation import Translation


@dataclass(frozen=True)
class Around:
    """The inputs of a call with what is done to each, and what is done to its result."""

    inputs: tuple[tuple[str, tuple[Step, ...]], ...]  # the call's first and second
    shapes: tuple[tuple[int, ...], ...]  # of the inputs as the call takes them
    places: tuple[int, ...]  # where the call's inputs stand among the original's
    after: tuple[Step, ...]
    result: str
    bias_inside: bool  # does the call itself add the bias?


def around(
    ask: Ask, layouts: Mapping[Operand, Layout], fits: Sequence[Fit], *, takes_bias: bool
) -> Around:
    """Return the steps around a call that takes its operands in ``layouts``."""
    problem, wanted = ask.problem, ask.problem.wanted
    given = (
        (Operand.FINE, Operand.COARSE) if wanted is Operand.WEIGHTS else (ask.data, Operand.WEIGHTS)
    )
    scatter = wanted is Operand.FINE
    inputs: list[tuple[str, tuple[Step, ...]]] = []
    shapes: list[tuple[int, ...]] = []
    for operand in given:
        steps = ask.into(operand, layouts[operand])
        spatial: tuple[int, ...] = problem.spatial(operand)
        if operand is Operand.FINE and not scatter:
            steps += _step("pad", layouts[operand], [fit.grow for fit in fits])
            spatial = tuple(n + sum(fit.grow) for n, fit in zip(spatial, fits, strict=True))
        inputs.append((ask.names[operand], steps))
        shapes.append(layouts[operand].shape(problem.sizes, spatial))
    after: tuple[Step, ...] = ()
    grown = scatter and any(any(fit.grow) for fit in fits)
    if grown:
        after += _step("pad", layouts[wanted], [fit.grow for fit in fits])
    after += _step("crop", layouts[wanted], [fit.crop for fit in fits])
    inside = takes_bias and problem.bias and not grown
    if problem.bias and not inside:
        after += (Step("add", bias_shape(layouts[wanted], ask.rank)),)
    after += ask.back(wanted, layouts[wanted])
    return Around(
        tuple(inputs), tuple(shapes), _places(ask, given), after, ask.names[wanted], inside
    )


def rewritten(translation: Translation) -> Translation:
    """Return a gather that stands for a gradient by weights, which is no equivalent."""
    # The gather's data is the original's fine operand: its places are already the original's.
    return replace(translation, exact=False, notes=(NOTES["weights"], *translation.notes))


def bias_shape(layout: Layout, rank: int) -> tuple[int, ...]:
    """Return the shape in which a bias meets the channels of a layout."""
    return (-1,) if layout.words[-1] != "x" else (-1, *(1,) * rank)


def _step(kind: str, layout: Layout, pairs: Sequence[Pair]) -> tuple[Step, ...]:
    return (Step(kind, spatial_pairs(layout, pairs)),) if any(map(any, pairs)) else ()


def _places(ask: Ask, given: Sequence[Operand]) -> tuple[int, ...]:
    return tuple(ask.order.index(ask.names[operand]) for operand in given)
