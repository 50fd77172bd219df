"""Arrays that cannot take a result, for every operator and function."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from errors.callees import CALLEES, Array, Callee
from errors.case import Case

F32 = np.float32


@dataclass(frozen=True)
class WrongOut:
    """An ``out`` that must be refused, the inputs it is passed with, and what is said."""

    out: Any
    inputs: tuple[Array, Array]
    wrong: str


def wrong_outs(callee: Callee) -> dict[str, WrongOut]:
    """Return every way in which ``out`` can be wrong."""
    shape, inputs = callee.result, callee.arrays()
    more = (*shape[:-1], shape[-1] + 1)
    shown = f"but the result has {shape}."
    locked = np.full(shape, 7, F32)
    locked.flags.writeable = False
    outs: dict[str, tuple[Any, str]] = {
        "list": ([0.0], "out is a list, not a NumPy array."),
        "text": ("y.npy", "out is a str, not a NumPy array."),
        "number": (1.0, "out is a float, not a NumPy array."),
        "dictionary": ({}, "out is a dict, not a NumPy array."),
        "masked": (np.ma.masked_array(np.full(shape, 7, F32)), "out is a MaskedArray, ..."),
        "larger": (np.full(more, 7, F32), f"out has shape {more}, {shown}"),
        "flat": (np.full(int(np.prod(shape)), 7, F32), f"out has shape ..., {shown}"),
        "more axes": (np.full((1, *shape), 7, F32), f"out has shape {(1, *shape)}, {shown}"),
        "0-d": (np.array(7, F32), f"out has shape (), {shown}"),
        "wider": (np.full(shape, 7, "f8"), "out is float64, but the result is float32."),
        "narrower": (np.full(shape, 7, "f2"), "out is float16, but the result is float32."),
        "integers": (np.full(shape, 7, "i4"), "out is int32, but the result is float32."),
        "swapped": (
            np.full(shape, 7, np.dtype(F32).newbyteorder()),
            "out is float32 (byte-swapped), but the result is float32.",
        ),
        "read-only": (locked, "out is read-only."),
        "broadcast": (np.broadcast_to(np.full(shape[1:], 7, F32), shape), "out is read-only."),
        "folded": (folded(shape), "out has elements that share memory with each other."),
        "staggered": (staggered(shape), "out has elements that share memory with each other."),
    }
    wrongs = {note: WrongOut(out, inputs, wrong) for note, (out, wrong) in outs.items()}
    for place, name in enumerate(callee.inputs):
        for note, offset in {"wholly": 0, "partly": 5}.items():
            out, mine = shared(shape, callee.shapes[place], offset)
            mine[...] = inputs[place]
            both = (mine, inputs[1]) if place == 0 else (inputs[0], mine)
            text = f"out overlaps the input {name}."
            wrongs[f"overlaps {name} {note}"] = WrongOut(out, both, text)
    return wrongs


def folded(shape: tuple[int, ...]) -> Array:
    """Return a writable array whose first axis has stride 0."""
    one = np.full(shape[1:], 7, F32)
    return as_strided(one, shape, (0, *one.strides), writeable=True)


def staggered(shape: tuple[int, ...]) -> Array:
    """Return a writable array in which each row begins inside the one before."""
    flat = np.full(2 * int(np.prod(shape)), 7, F32)
    strides = list(np.empty(shape, F32).strides)
    strides[0] -= 4
    return as_strided(flat, shape, strides, writeable=True)


def shared(shape: tuple[int, ...], other: tuple[int, ...], offset: int) -> tuple[Array, Array]:
    """Return two arrays in one piece of memory, the second ``offset`` elements further on."""
    sizes = int(np.prod(shape)), int(np.prod(other))
    memory = np.full(max(sizes[0], sizes[1] + offset), 7, F32)
    return memory[: sizes[0]].reshape(shape), memory[offset : offset + sizes[1]].reshape(other)


def _of(callee: Callee) -> Iterator[Case]:
    for note, wrong in wrong_outs(callee).items():
        yield Case(
            f"{callee.name}-out {note}",
            callee.title,
            wrong.wrong,
            lambda wrong=wrong: callee.run(*wrong.inputs, out=wrong.out),  # type: ignore[misc]
        )
    bias = callee.bias()
    if bias is not None:
        memory = np.full(int(np.prod(callee.result)), 7, F32)
        inside = memory[2 : 2 + len(bias)]
        inputs, out = callee.arrays(), memory.reshape(callee.result)
        yield Case(
            f"{callee.name}-out overlaps the bias",
            callee.title,
            f"out overlaps the input {callee.kind.third}.",
            lambda: callee.run(*inputs, inside, out=out),
        )


def _without_batch() -> Iterator[Case]:
    """Pass one picture alone; its ``out`` has no batch either."""
    for name in ("conv", "conv_transpose"):
        callee = CALLEES[f"tconv.{name}"]
        first, second = callee.arrays()
        shape = callee.result[1:]
        for note, out, wrong in (
            ("list", [1.0], "out is a list, not a NumPy array."),
            ("dictionary", {}, "out is a dict, not a NumPy array."),
            ("text", "y.npy", "out is a str, not a NumPy array."),
            ("number", 1.0, "out is a float, not a NumPy array."),
            ("batched", np.zeros((1, *shape), F32), "out has shape ..."),
            ("0-d", np.array(0, F32), "out has shape ..."),
            ("wider", np.zeros(shape, "f8"), "out is float64, but the result is float32."),
        ):
            yield Case(
                f"tconv.{name}-without batch, out {note}",
                callee.title,
                wrong,
                lambda callee=callee, arrays=(first[0], second), out=out: (  # type: ignore[misc]
                    callee.run(*arrays, out=out)
                ),
            )


CASES = [*(case for callee in CALLEES.values() for case in _of(callee)), *_without_batch()]
