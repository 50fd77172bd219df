"""Packed weights that are kept between calls, for as long as the weights stay what they are."""

import weakref
from typing import Any

import numpy as np

from tconv.adapters.torch.memory import Array, array
from tconv.calls import Settled

MOST_PACKS = 8  # of one tensor: pictures of many sizes may want their weights in many orders
SAMPLES = 64  # values that are compared in every call

_kept: dict[int, "Kept"] = {}


class Kept:
    """What was packed from one tensor, and how to tell that the tensor has changed.

    torch counts changes of a tensor, but not those through ``.data`` or a NumPy view; a sample
    of the values shows the usual ones, which are changes of the whole tensor.
    """

    __slots__ = (
        "alias",
        "pack_of",
        "pointer",
        "reference",
        "sample",
        "sampled",
        "shape",
        "version",
    )

    def __init__(self, weight: Any) -> None:  # noqa: ANN401 - torch is not typed
        number = id(weight)
        self.reference: Any = weakref.ref(weight, lambda _: _kept.pop(number, None))
        self.version, self.pointer = weight._version, weight.data_ptr()  # noqa: SLF001 - torch's name for it
        self.shape = weight.shape, weight.stride(), weight.dtype
        self.alias = weight.detach()  # keeps the memory, whatever the tensor is made to point to
        self.sampled = _sampled(array(weight))
        self.sample = self.sampled.tobytes()
        self.pack_of: dict[object, object] = {}

    def holds(self, weight: Any) -> bool:  # noqa: ANN401 - torch is not typed
        """Tell whether the tensor is still the one that was packed."""
        return (
            self.reference() is weight
            and self.version == weight._version  # noqa: SLF001 - torch's name for it
            and self.pointer == weight.data_ptr()
            and self.shape == (weight.shape, weight.stride(), weight.dtype)
            and self.sample == self.sampled.tobytes()
        )


def kept_pack(weight: Any, settled: Settled) -> object:  # noqa: ANN401 - torch is not typed
    """Return the weights packed, from an earlier call if they have not changed since."""
    if weight.is_inference():  # torch does not count changes of these
        return settled.pack(array(weight))
    kept = _kept.get(id(weight))
    if kept is None or not kept.holds(weight):
        kept = _kept[id(weight)] = Kept(weight)
    pack = kept.pack_of.get(settled.packing)
    if pack is None:
        if len(kept.pack_of) >= MOST_PACKS:
            kept.pack_of.clear()
        pack = kept.pack_of[settled.packing] = settled.pack(array(weight))
    return pack


def _sampled(values: Array) -> Array:
    """Return a view of some values, spread evenly over the memory."""
    flat = values.transpose(np.argsort(values.strides)[::-1]).reshape(-1)
    if not np.may_share_memory(flat, values):  # there are gaps: no flat view
        return values[(slice(None, 2),) * values.ndim]
    # An odd step does not stay in one column.
    return flat[:: max(1, flat.size // SAMPLES) | 1]
