"""NumPy twins of emitters that have none beside them, and a way to call emitted functions."""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv.jit import Kernel, compile_object, host_machine, load_object

Array = npt.NDArray[Any]
Emitted = Callable[..., None]


class Code:
    """A module for this machine, compiled when first called, its functions all public."""

    def __init__(self) -> None:
        self.module = ir.Module("test")
        self._kernel: Kernel | None = None
        self._counts: dict[str, int] = {}

    def add(self, function: ir.Function) -> str:
        """Make an emitted function callable from outside; return its name."""
        function.linkage = ""
        self._counts[function.name] = len(function.args)
        return function.name

    def call(self, name: str, *arguments: Array | int) -> None:
        """Call a function with the addresses of arrays, and with whole numbers."""
        assert len(arguments) == self._counts[name], "the emitted function takes other arguments"
        if self._kernel is None:
            self._kernel = load_object(compile_object(str(self.module), host_machine()))
        kinds = [ctypes.c_int64 if isinstance(a, int) else ctypes.c_void_p for a in arguments]
        values = [a if isinstance(a, int) else a.ctypes.data for a in arguments]
        ctypes.CFUNCTYPE(None, *kinds)(self._kernel.address(name))(*values)


def pack_row_meaning(
    target: Array,
    source: Array,
    start: int,
    sizes: tuple[int, int, int, int, int],
    steps: tuple[int, int],
) -> None:
    """Compute in NumPy what the code from ``emit_pack_row`` computes.

    ``target[(before + p) * pitch + c] = source[start + p * x_step + c * c_step]``, zeros before
    and after, and nothing between; ``sizes`` are ``(before, count, after, depth, pitch)``,
    ``steps`` are ``(x_step, c_step)``.
    """
    before, count, after, depth, pitch = sizes
    points, channels = np.arange(count)[:, None], np.arange(depth)
    read = source[start + points * steps[0] + channels * steps[1]]
    packed = np.zeros((before + count + after, depth), target.dtype)
    packed[before : before + count] = read
    rows = np.arange(len(packed))[:, None] * pitch
    target[rows + channels] = packed


def store_row_meaning(  # noqa: PLR0913 - the emitted function's own arguments
    target: Array,
    start: int,
    sums: Array,
    bias: Array,
    sizes: tuple[int, int],
    steps: tuple[int, int, int],
) -> None:
    """Compute in NumPy what the code from ``emit_store_row`` computes.

    ``target[start + p * x_step + c * c_step] = sums[p * pitch + c] + bias[c]``; ``sizes`` are
    ``(count, used)``, ``steps`` are ``(x_step, c_step, pitch)``.
    """
    count, used = sizes
    x_step, c_step, pitch = steps
    points, channels = np.arange(count)[:, None], np.arange(used)
    values = sums[points * pitch + channels] + bias[channels]
    target[start + points * x_step + channels * c_step] = values


def paired(panel: Array, lanes: int) -> Array:
    """Return lines of a panel as tiles read them: bfloat16 of two vectors lies in pairs."""
    if panel.dtype.name != "bfloat16" or panel.shape[-1] != 2 * lanes:
        return panel
    halves = panel.reshape(*panel.shape[:-1], 2, lanes)
    return halves.swapaxes(-1, -2).reshape(panel.shape)


def pack_weights_meaning(
    target: Array,
    source: Array,
    numbers: Mapping[str, int],
    arrays: Mapping[str, Array],
    shape: tuple[int, int],
) -> bool:
    """Compute in NumPy what the code from ``emit_pack_weights`` computes for all its items.

    ``numbers`` and ``arrays`` are the record by name, ``shape`` is ``(lanes, columns)``.
    Returns whether all weights are finite.
    """
    lanes, columns = shape
    groups = target.size // numbers["group_weights"]
    unit, entries = numbers["unit"], numbers["entries"]
    finite = True
    for group, panel, first in np.ndindex(groups, numbers["panels"], -(-numbers["depth"] // unit)):
        channel, k = panel * columns, first * unit
        left = numbers["columns"] - channel
        width = lanes if left <= lanes else columns
        # The last vector ends with the last channel, if there are enough.
        lie = np.minimum(np.arange(0, width, lanes), max(left, lanes) - lanes)
        if left < lanes <= numbers["columns"]:
            channel, left = channel - (lanes - left), lanes
        taken = (lie[:, None] + np.arange(lanes)).ravel()
        taken = taken if left >= lanes else np.arange(left)
        places = arrays["narrow"] if left <= lanes else arrays["wide"]
        origin = group * numbers["group_step"] + channel * numbers["column_step"]
        origin += k * numbers["depth_step"]
        wide = taken * numbers["column_step"]
        count = min(unit, numbers["depth"] - k) * entries
        for which, entry in np.ndindex(numbers["sets"], count):
            line = which * unit * entries + entry
            read = source[origin + arrays["offsets"][line] + wide]
            packed = np.zeros((1, width), target.dtype)
            packed[0, : read.size] = read
            begin = group * numbers["group_weights"] + places[line]
            begin += panel * arrays["panel_steps"][line] + k * width
            target[begin : begin + width] = paired(packed, lanes)[0]
            finite = finite and bool(np.isfinite(read).all())
    return finite
