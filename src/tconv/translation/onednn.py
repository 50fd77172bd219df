"""oneDNN Graph: it has both orders of the data and four of the filter, and gradients by weights."""

from typing import Any

from tconv import onednn as operators
from tconv.calls import Runnable
from tconv.problem import Layout, Operand
from tconv.translation.around import around, rewritten
from tconv.translation.ask import Ask, as_gather
from tconv.translation.fit import free
from tconv.translation.notes import NOTES
from tconv.translation.translation import Translation
from tconv.translation.write import write

KINDS: dict[Operand, type[Runnable]] = {
    Operand.COARSE: operators.Convolution,
    Operand.FINE: operators.ConvTranspose,
    Operand.WEIGHTS: operators.ConvolutionBackwardWeights,
}
# The formats by the order of the filter, for Convolution; I and O change places in ConvTranspose.
FORMATS = {"gc f x": "OIX", "x f gc": "XIO", "x gc f": "XOI", "f gc x": "IOX"}


def to_onednn(ask: Ask) -> Translation:
    """Say a call with an operator of oneDNN Graph."""
    problem = ask.problem
    wanted = problem.wanted
    gather = Operand.FINE if wanted is Operand.FINE else Operand.COARSE
    fits = [free(axis, gather) for axis in problem.axes]
    if wanted is Operand.WEIGHTS and not all(fit.bare for fit in fits):
        return rewritten(to_onednn(as_gather(ask)))
    data = _data_format(ask)
    # The caller's own order of the filter, where there is a format for it.
    filters = problem.weights_layout if problem.weights_layout.axes in FORMATS else Layout("gc f x")
    layouts = {
        Operand.COARSE: Layout("n gc x" if data == "NCX" else "n x gc"),
        Operand.FINE: Layout("n gf x" if data == "NCX" else "n x gf"),
        Operand.WEIGHTS: filters,
    }
    numbers: dict[str, Any] = {
        "strides": ask.each("stride"),
        "dilations": ask.each("dilation"),
        "pads_begin": tuple(fit.begin for fit in fits),
        "pads_end": tuple(fit.end for fit in fits),
        "groups": problem.groups,
        "data_format": data,
        "weights_format": _filter_format(filters, wanted),
    }
    if any(fit.extra for fit in fits):
        numbers["output_padding"] = tuple(fit.extra for fit in fits)
    if wanted is Operand.WEIGHTS:
        numbers["weights_shape"] = filters.shape(problem.sizes, problem.spatial(wanted))
    operator = KINDS[wanted](**numbers)
    parts = around(ask, layouts, fits, takes_bias=True)
    inputs = [write("numpy", steps, text) for text, steps in parts.inputs]
    if parts.bias_inside:
        inputs.append(str(ask.bias))
    result = write("numpy", parts.after, f"tconv.{operator!r}({', '.join(inputs)})", ask.bias)
    exact = all(fit.bare for fit in fits)
    return Translation(
        "onednn",
        exact,
        () if exact else (NOTES["more"],),
        f"import tconv\n{parts.result} = {result}",
        operator=operator,
        shapes=parts.shapes,
        before=tuple(steps for _, steps in parts.inputs),
        after=parts.after,
        places=parts.places,
    )


def _data_format(ask: Ask) -> str:
    """Return the caller's own order of the data where there is one, so that nothing moves."""
    words = ask.problem.layout(ask.data).words
    return "NCX" if words[-1] == "x" else "NXC"


def _filter_format(layout: Layout, wanted: Operand) -> str:
    spelled = FORMATS[layout.axes]
    return spelled.translate(str.maketrans("IO", "OI")) if wanted is Operand.FINE else spelled
