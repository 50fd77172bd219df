"""ONNX: nodes of Conv and ConvTranspose, with Transpose, Reshape and Pad around them."""

import json
from collections.abc import Sequence

from tconv.onnx import Conv, ConvTranspose
from tconv.problem import Layout, Operand
from tconv.translation.around import around, rewritten
from tconv.translation.ask import Ask, as_gather
from tconv.translation.fit import free
from tconv.translation.notes import NOTES
from tconv.translation.steps import Step
from tconv.translation.translation import Translation

LAYOUTS = {
    Operand.COARSE: Layout("n gc x"),
    Operand.FINE: Layout("n gf x"),
    Operand.WEIGHTS: Layout("gc f x"),
}


def to_onnx(ask: Ask) -> Translation:
    """Say a call as ONNX nodes."""
    problem = ask.problem
    if problem.wanted is Operand.WEIGHTS:
        return rewritten(to_onnx(as_gather(ask)))
    # ONNX Runtime takes an output_padding below the stride alone.
    fits = [free(axis, problem.wanted, axis.stride - 1) for axis in problem.axes]
    scatter = problem.wanted is Operand.FINE
    numbers: dict[str, object] = {
        "strides": ask.each("stride"),
        "dilations": ask.each("dilation"),
        "pads": (*(fit.begin for fit in fits), *(fit.end for fit in fits)),
        "group": problem.groups,
    }
    if scatter:
        numbers["output_padding"] = tuple(fit.extra for fit in fits)
    ones, zeros = (1,) * ask.rank, (0,) * ask.rank
    usual = {"strides": ones, "dilations": ones, "pads": zeros * 2, "output_padding": zeros}
    numbers = {key: value for key, value in numbers.items() if value != usual.get(key, 1)}
    operator = (ConvTranspose if scatter else Conv)(**numbers)  # type: ignore[arg-type]
    parts = around(ask, LAYOUTS, fits, takes_bias=True)
    nodes = Nodes()
    inputs = [nodes.after(text, steps) for text, steps in parts.inputs]
    if parts.bias_inside:
        inputs.append(str(ask.bias))
    nodes.call(type(operator).__name__, inputs, numbers, parts.result, parts.after, ask.bias)
    exact = all(fit.bare for fit in fits)
    return Translation(
        "onnx",
        exact,
        () if exact else (NOTES["onnx grow" if scatter else "more"],),
        nodes.code(),
        operator=operator,
        shapes=parts.shapes,
        before=tuple(steps for _, steps in parts.inputs),
        after=parts.after,
        places=parts.places,
    )


class Nodes:
    """Lines of code that make nodes, and names for the values between them."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count: dict[str, int] = {}

    def fresh(self, name: str) -> str:
        """Return a new name for a value made from ``name``."""
        stem = name.partition("_step")[0]
        self._count[stem] = self._count.get(stem, 0) + 1
        return f"{stem}_step{self._count[stem]}"

    def add(self, kind: str, inputs: Sequence[str], output: str, **attributes: object) -> None:
        """Add one node."""
        more = "".join(f", {name}={value}" for name, value in attributes.items())
        self._lines.append(f'make_node("{kind}", {_quoted(inputs)}, {_quoted([output])}{more})')

    def after(
        self, text: str, steps: Sequence[Step], bias: str | None = None, end: str = ""
    ) -> str:
        """Add the nodes that do the steps to a value; return the name of the result."""
        for number, step in enumerate(steps, 1):
            output = end if end and number == len(steps) else self.fresh(text)
            if step.kind == "permute":
                self.add("Transpose", [text], output, perm=list(step.numbers))
            elif step.kind == "reshape":
                self.add("Reshape", [text, self.constant(text, step.numbers)], output)
            elif step.kind == "add":
                flat = self.fresh(str(bias))
                self.add("Reshape", [str(bias), self.constant(str(bias), step.numbers)], flat)
                self.add("Add", [text, flat], output)
            else:
                sign = 1 if step.kind == "pad" else -1  # a negative pad removes points
                ends = [sign * pair[side] for side in (0, 1) for pair in step.numbers]
                self.add("Pad", [text, self.constant(text, ends)], output)
            text = output
        return text

    def call(  # noqa: PLR0913 - the parts of a call
        self,
        kind: str,
        inputs: Sequence[str],
        numbers: dict[str, object],
        result: str,
        after: Sequence[Step],
        bias: str | None,
    ) -> None:
        """Add the node itself and what comes after it."""
        output = self.fresh(result) if after else result
        attributes = {name: list(v) if isinstance(v, tuple) else v for name, v in numbers.items()}
        self.add(kind, inputs, output, **attributes)
        self.after(output, after, bias, result)

    def constant(self, name: str, numbers: Sequence[int]) -> str:
        """Add a node for a list of numbers; return its name."""
        output = self.fresh(f"{name.partition('_step')[0]}_numbers")
        self.add("Constant", [], output, value_ints=list(numbers))
        return output

    def code(self) -> str:
        """Return the code that makes all nodes."""
        lines = "".join(f"    {line},\n" for line in self._lines)
        return f"from onnx.helper import make_node\nnodes = [\n{lines}]"


def _quoted(names: Sequence[str]) -> str:
    return json.dumps(list(names))
