"""OpenVINO: nodes made by its Python functions."""

from typing import Any

from tconv import openvino as operators
from tconv.calls import Runnable
from tconv.problem import Layout, Operand
from tconv.translation.around import around, rewritten
from tconv.translation.ask import Ask, as_gather
from tconv.translation.fit import free
from tconv.translation.notes import NOTES
from tconv.translation.translation import Translation
from tconv.translation.write import write

DATA = {Operand.COARSE: Layout("n gc x"), Operand.FINE: Layout("n gf x")}
FUNCTIONS: dict[tuple[bool, bool], tuple[str, type[Runnable]]] = {
    # The key tells whether it scatters, and whether there are groups.
    (False, False): ("convolution", operators.Convolution),
    (False, True): ("group_convolution", operators.GroupConvolution),
    (True, False): ("convolution_backprop_data", operators.ConvolutionBackpropData),
    (True, True): ("group_convolution_backprop_data", operators.GroupConvolutionBackpropData),
}


def to_openvino(ask: Ask) -> Translation:
    """Say a call with OpenVINO's functions."""
    problem = ask.problem
    if problem.wanted is Operand.WEIGHTS:
        return rewritten(to_openvino(as_gather(ask)))
    scatter, grouped = problem.wanted is Operand.FINE, problem.groups > 1
    fits = [free(axis, problem.wanted) for axis in problem.axes]
    name, kind = FUNCTIONS[scatter, grouped]
    numbers: dict[str, Any] = {
        "strides": ask.each("stride"),
        "pads_begin": tuple(fit.begin for fit in fits),
        "pads_end": tuple(fit.end for fit in fits),
        "dilations": ask.each("dilation"),
    }
    if scatter and any(fit.extra for fit in fits):
        numbers["output_padding"] = tuple(fit.extra for fit in fits)
    layouts = {**DATA, Operand.WEIGHTS: Layout("g c f x" if grouped else "gc f x")}
    parts = around(ask, layouts, fits, takes_bias=False)
    inputs = ", ".join(write("openvino", steps, text) for text, steps in parts.inputs)
    given = "".join(f", {key}={list(value)}" for key, value in numbers.items())
    result = write("openvino", parts.after, f"ov.{name}({inputs}{given})", ask.bias)
    exact = all(fit.bare for fit in fits)
    return Translation(
        "openvino",
        exact,
        () if exact else (NOTES["more"],),
        f"from openvino import opset13 as ov\n{parts.result} = {result}",
        operator=kind(**numbers),
        shapes=parts.shapes,
        before=tuple(steps for _, steps in parts.inputs),
        after=parts.after,
        places=parts.places,
    )
