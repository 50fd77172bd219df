"""What every peer is asked, and what it answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tconv.bench.suite import Layer, Shape
from tconv.problem import Operand, numpy_dtype

Array = npt.NDArray[np.generic]

CACHE_LINE = 64  # bytes; every engine gets its data on such a border


class Refused(Exception):  # noqa: N818 - a refusal is an answer, not a fault
    """The engine does not compute this; the text says why."""


@dataclass(frozen=True, slots=True)
class Task:
    """One result to compute: a layer, the wanted array, and the two others in NCX order."""

    layer: Layer
    wanted: Operand
    layout: str
    dtype: str
    threads: int
    given: Mapping[Operand, Array]

    def padding(self) -> Shape:
        """Return one pad for both ends, which is all that some engines can be told."""
        if self.layer.pads_begin != self.layer.pads_end:
            raise Refused("pads differ between begin and end")
        return self.layer.pads_begin

    def array(self, operand: Operand) -> Array:
        """Return a given array in this task's layout, on the border of a cache line."""
        ordered = to_layout(self.given[operand], operand, self.layout)
        array = self.empty(operand)
        np.copyto(array, ordered)
        return array

    def empty(self, operand: Operand) -> Array:
        """Return memory for an array in this task's layout, on the border of a cache line."""
        return aligned_empty(self.layer.shape(operand, self.layout), self.dtype)


@dataclass(frozen=True, slots=True)
class Ready:
    """A peer with everything prepared: ``run`` is timed, ``result`` is not.

    ``result`` gives what the last run computed, in NCX order; weights as (C_in, C_out/groups, k).
    """

    run: Callable[[], object]
    result: Callable[[], Array]
    code: str = ""  # the engine's own name for what runs, if it tells
    kept: object = None  # memory that an engine borrows


Prepare = Callable[[Task], Ready]


def to_layout(array: Array, operand: Operand, layout: str) -> Array:
    """View an array in NCX order in another order; weights have only one."""
    if operand is Operand.WEIGHTS or layout == "NCX":
        return array
    return np.moveaxis(array, 1, -1)


def from_layout(array: Array, operand: Operand, layout: str) -> Array:
    """View an array of some layout in NCX order."""
    if operand is Operand.WEIGHTS or layout == "NCX":
        return array
    return np.moveaxis(array, -1, 1)


def aligned_empty(shape: Shape, dtype: str) -> Array:
    """Return an array that starts on the border of a cache line."""
    kind = numpy_dtype(dtype)
    size = int(np.prod(shape)) * kind.itemsize
    memory = np.empty(size + CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    return memory[start : start + size].view(kind).reshape(shape)
