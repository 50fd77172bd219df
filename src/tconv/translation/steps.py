"""What stands around a call: axes moved, zeros added, points cut off; as data, and in NumPy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tconv.problem import Layout, window

Array = npt.NDArray[Any]
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing done to an array.

    ``permute`` and ``reshape`` have one number for each axis of their result, ``flip`` the axes,
    ``pad`` and ``crop`` a pair for each axis, ``spread`` the size and the dilation of each axis,
    and ``add`` the shape in which the bias is added.
    """

    kind: str
    numbers: tuple[Any, ...]


def run(steps: Sequence[Step], array: Array, bias: Array | None = None) -> Array:
    """Do the steps to an array.

    >>> run([Step("pad", ((0, 1),)), Step("crop", ((1, 0),))], np.array([1, 2]))
    array([2, 0])
    """
    for step in steps:
        if step.kind == "permute":
            array = array.transpose(step.numbers)
        elif step.kind == "reshape":
            array = array.reshape(step.numbers)
        elif step.kind == "pad":
            array = np.pad(array, step.numbers)
        elif step.kind == "crop":
            ends = zip(step.numbers, array.shape, strict=True)
            array = array[tuple(slice(begin, size - end) for (begin, end), size in ends)]
        elif step.kind == "flip":
            array = np.flip(array, step.numbers)
        elif step.kind == "spread":
            whole = np.zeros([window(size, by) for size, by in step.numbers], array.dtype)
            whole[tuple(slice(None, None, by) for _, by in step.numbers)] = array
            array = whole
        elif bias is not None:
            array = array + bias.reshape(step.numbers)
    return array


def moves(
    source: Layout, target: Layout, sizes: Mapping[str, int], spatial: Sequence[int]
) -> tuple[Step, ...]:
    """Return the fewest steps that bring an array from one layout to another.

    >>> moves(Layout("n x gc"), Layout("n gc x"), {"n": 1, "g": 2, "c": 3}, (5, 7))
    (Step(kind='permute', numbers=(0, 3, 1, 2)),)
    >>> moves(Layout("gc f x"), Layout("g c f x"), {"g": 2, "c": 3, "f": 4}, (5,))
    (Step(kind='reshape', numbers=(2, 3, 4, 5)),)
    """
    alone = sizes["g"] == 1
    have, want = (_words(layout, alone=alone) for layout in (source, target))
    if sorted(have) == sorted(want):
        return _permute(have, want, len(spatial))
    shape = source.shape(sizes, tuple(spatial))
    letters = [letter for word in have for letter in word if not (alone and letter == "g")]
    wanted = [letter for word in want for letter in word]
    split = tuple(n for letter in letters for n in (spatial if letter == "x" else [sizes[letter]]))
    result = target.shape(sizes, tuple(spatial))
    turn = _permute(letters, wanted, len(spatial))
    if not turn:
        return (Step("reshape", result),) if result != shape else ()
    before = (Step("reshape", split),) if split != shape else ()
    after = (Step("reshape", result),) if len(want) != len(wanted) else ()
    return (*before, *turn, *after)


def spatial_pairs(layout: Layout, pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Return a pair for each axis of an array, from those of its spatial axes."""
    return tuple(pair for word in layout.words for pair in (pairs if word == "x" else [(0, 0)]))


def _words(layout: Layout, *, alone: bool) -> list[str]:
    """Return the words, without the group where it shares an axis and there is but one."""
    return [word.replace("g", "") if alone and len(word) > 1 else word for word in layout.words]


def _permute(have: Sequence[str], want: Sequence[str], rank: int) -> tuple[Step, ...]:
    places: dict[str, list[int]] = {}
    for word in have:
        start = sum(map(len, places.values()))
        places[word] = list(range(start, start + (rank if word == "x" else 1)))
    order = tuple(place for word in want for place in places[word])
    return () if order == tuple(range(len(order))) else (Step("permute", order),)
