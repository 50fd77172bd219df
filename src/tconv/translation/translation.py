"""A call said in another dialect."""

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tconv.calls import Runnable
from tconv.errors import UnsupportedError
from tconv.translation.steps import Step, run

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Translation:
    """A call said in another dialect; call it to run the object on arrays of the original's shapes.

    ``exact`` tells that one call is enough, whatever the order of axes; if it is False,
    ``notes`` say what the dialect lacks and what makes up for it.
    """

    to: str
    exact: bool
    notes: tuple[str, ...]
    code: str  # to paste: it sets the result's name from the inputs' names
    operator: Runnable | None = None  # the call itself, where tconv has the dialect
    shapes: tuple[tuple[int, ...], ...] = ()  # of the operator's inputs
    before: tuple[tuple[Step, ...], ...] = ()  # what is done to each input, in the order of shapes
    after: tuple[Step, ...] = ()
    places: tuple[int, ...] = (0, 1)  # which of the original's inputs comes first, and second
    third: tuple[int, ...] | None = None  # a shape that the operator takes as third input

    def __call__(self, first: Array, second: Array, bias: Array | None = None) -> Array:
        """Compute with the operator and what stands around it, on the original's arrays."""
        if self.operator is None:
            raise UnsupportedError(
                f"translation to {self.to}",
                "there is no object to run, only code.",
                got={},
                rule="tconv has the operators of onednn, openvino, onnx and torch",
                fix=f"paste the code where {self.to} is installed",
            )
        given = [(first, second)[place] for place in self.places]
        inputs = [run(steps, array) for steps, array in zip(self.before, given, strict=True)]
        later = any(step.kind == "add" for step in self.after)
        first, second = inputs
        third: object = self.third if bias is None or later else bias
        return run(self.after, self.operator(first, second, third), bias)

    def __str__(self) -> str:
        """Print how it is said, and the code."""
        verdict = "one call" if self.exact else "no equivalent call; rewritten exactly"
        notes = [f"  {note}" for note in self.notes]
        return "\n".join(
            [f"{self.to}: {verdict}", *notes, *(f"    {x}" for x in self.code.split("\n"))]
        )
