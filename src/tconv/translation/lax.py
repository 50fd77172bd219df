"""JAX: conv_general_dilated says every member of the family in one call."""

from collections.abc import Mapping

from tconv.problem import Layout, Operand
from tconv.translation.around import around
from tconv.translation.ask import Ask, as_gather
from tconv.translation.fit import Fit, end_of, span
from tconv.translation.steps import Step
from tconv.translation.translation import Translation
from tconv.translation.write import keywords, write

SPATIAL = "DHW"
MORE_SPATIAL = "abdefghjklmpqrstuvwxyz"  # for more axes: any letters but those with a meaning


def to_lax(ask: Ask) -> Translation:
    """Say a call with jax.lax.conv_general_dilated."""
    problem = ask.problem
    if problem.wanted is Operand.WEIGHTS:
        return to_lax(as_gather(ask))
    scatter = problem.wanted is Operand.FINE
    channels = {Operand.COARSE: "n gc x", Operand.FINE: "n gf x"}
    channels[Operand.WEIGHTS] = "gf c x" if scatter else "gc f x"
    layouts = {
        operand: _own(problem.layout(operand), usual, problem.groups)
        for operand, usual in channels.items()
    }
    reach = [(span(axis) - 1 if scatter else 0) for axis in problem.axes]
    sign = -1 if scatter else 1
    pads = tuple(
        (most + sign * axis.pad_begin, most + sign * end_of(axis))
        for most, axis in zip(reach, problem.axes, strict=True)
    )
    parts = around(ask, layouts, [Fit()] * ask.rank, takes_bias=False)
    (data, data_steps), (weights, weights_steps) = parts.inputs
    if scatter and any(axis.taps > 1 for axis in problem.axes):
        weights_steps += (Step("flip", _window_places(layouts[Operand.WEIGHTS], ask.rank)),)
    ones = (1,) * ask.rank
    numbers = keywords(
        {
            "window_strides": (ones if scatter else ask.each("stride"), None),
            "padding": (pads, None),
            "lhs_dilation": (ask.each("stride") if scatter else ones, ones),
            "rhs_dilation": (ask.each("dilation"), ones),
            "dimension_numbers": (_dimensions(ask, layouts), None),
            "feature_group_count": (problem.groups, 1),
        }
    )
    inputs = f"{write('lax', data_steps, data)}, {write('lax', weights_steps, weights)}"
    result = write("lax", parts.after, f"lax.conv_general_dilated({inputs}{numbers})", ask.bias)
    flips = "lax, numpy as jnp" if "jnp." in inputs else "lax"
    code = f"from jax import {flips}\n{parts.result} = {result}"
    return Translation("lax", exact=True, notes=(), code=code)


def _own(layout: Layout, usual: str, groups: int) -> Layout:
    """Return the caller's own order where dimension_numbers can say it, so that nothing moves."""

    def words(axes: str) -> list[str]:
        return sorted(axes.replace("g", "").split() if groups == 1 else axes.split())

    return (
        layout
        if words(layout.axes) == words(usual) and " g " not in f" {layout} "
        else Layout(usual)
    )


def _window_places(layout: Layout, rank: int) -> tuple[int, ...]:
    start = layout.words.index("x")
    return tuple(range(start, start + rank))


def _dimensions(ask: Ask, layouts: Mapping[Operand, Layout]) -> tuple[str, ...]:
    """Return how the axes of the data, the filter and the result stand, in lax's letters."""
    spatial = SPATIAL[-ask.rank :] if ask.rank <= len(SPATIAL) else MORE_SPATIAL[: ask.rank]
    wanted = ask.problem.wanted
    out = "f" if wanted is Operand.FINE else "c"
    texts = []
    for operand in (ask.data, Operand.WEIGHTS, wanted):
        letters = {"n": "N", "c": "C", "f": "C", "x": spatial}
        if operand is Operand.WEIGHTS:
            letters |= {"c": "O" if out == "c" else "I", "f": "O" if out == "f" else "I"}
        texts.append("".join(letters[word[-1]] for word in layouts[operand].words))
    return tuple(texts)
