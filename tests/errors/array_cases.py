"""Arrays that cannot be taken: their kinds, their element types, and results too large."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import tconv
from errors.callees import CALLEES, OPERATORS, Array, Callee
from errors.case import Case

F32 = np.float32


class Broken:
    """An object that says it is an array, and is not."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def __array__(self, dtype: object = None, copy: object = None) -> object:
        """Fail, or return something that is no array."""
        del dtype, copy
        if self.error is not None:
            raise self.error
        return "no array"


class NoDevice:
    """An object with one half of the DLPack protocol."""

    def __dlpack__(self, **_: object) -> object:
        """Return no capsule."""
        return "no capsule"


def foreign() -> dict[str, npt.DTypeLike]:
    """Return element types that no operator here computes with."""
    types: dict[str, npt.DTypeLike] = {
        name: np.dtype(name)
        for name in ("int8", "int32", "int64", "uint8", "uint64", "complex64", "complex128")
    }
    if np.dtype(np.longdouble).itemsize > 8:
        types["longdouble"] = np.dtype(np.longdouble)
    return types


NUMERIC = foreign()
NOT_NUMERIC: dict[str, npt.DTypeLike] = {
    "bool": np.dtype(bool),
    "object": np.dtype(object),
    "str": np.dtype("U4"),
    "bytes": np.dtype("S4"),
    "datetime": np.dtype("M8[s]"),
    "record": np.dtype([("a", "f4")]),
}

# What is no array at all, and how the first line names it.
NO_ARRAYS: dict[str, tuple[Any, str]] = {
    "None": (None, "..."),
    "list": ([[[1.0]]], "a list, not an array."),
    "tuple": ((1.0,), "a tuple, not an array."),
    "text": ("x.npy", "a str, not an array."),
    "number": (1, "a int, not an array."),
    "dictionary": ({}, "a dict, not an array."),
    "memory": (memoryview(b"1234"), "a memoryview, not an array."),
}


def _case(callee: Callee, note: str, wrong: str, *arrays: object, **more: Any) -> Case:  # noqa: ANN401 - handed on
    return Case(f"{callee.name}-{note}", callee.title, wrong, lambda: callee.run(*arrays), **more)


def _kinds(callee: Callee) -> Iterator[Case]:
    first, second = callee.arrays()
    for place, name in enumerate(callee.inputs):
        for note, (value, wrong) in NO_ARRAYS.items():
            arrays = (value, second) if place == 0 else (first, value)
            yield _case(callee, f"{name} is {note}", f"{name} is {wrong}", *arrays)
        for note, broken, wrong in (
            ("broken", Broken(RuntimeError("it is\non the moon")), "it is"),
            ("silent", Broken(KeyError()), "KeyError"),
            ("false", Broken(), "..."),
            ("halved", NoDevice(), "..."),
        ):
            arrays = (broken, second) if place == 0 else (first, broken)
            text = f"{name} cannot be read as an array: {wrong}"
            yield _case(callee, f"{name} is {note}", text, *arrays)
        masked = np.ma.masked_array((first, second)[place])
        arrays = (masked, second) if place == 0 else (first, masked)
        yield _case(callee, f"{name} is masked", f"{name} is a masked array.", *arrays)
    for scalar in (np.float32(1), np.array(1, F32)):
        if callee.is_function and "grad" not in callee.name:
            continue
        note = f"{callee.inputs[0]} is {type(scalar).__name__}"
        wrong = f"{callee.inputs[0]} has 0 axes, but at least 3 are needed."
        yield _case(callee, note, wrong, scalar, second)


def _biases(callee: Callee) -> Iterator[Case]:
    bias = callee.bias()
    if bias is None:
        return
    name, arrays = callee.kind.third, callee.arrays()
    first = callee.inputs[0]
    yield _case(callee, "list bias", f"{name} is a list, not an array.", *arrays, list(bias))
    yield _case(callee, "number bias", f"{name} is a float, not an array.", *arrays, 1.0)
    masked = np.ma.masked_array(bias)
    yield _case(callee, "masked bias", f"{name} is a masked array.", *arrays, masked)
    wrong = f"{name} is float64, but {first} is float32."
    yield _case(callee, "float64 bias", wrong, *arrays, bias.astype("f8"))
    wrong = f"{name} has shape (7,), but shape ({len(bias)},) is needed."
    yield _case(callee, "long bias", wrong, *arrays, np.ones(7, F32))


def _shown(dtype: npt.DTypeLike) -> str:
    return f"the element type is {np.dtype(dtype).name}, which is not one of its types."


def _types(callee: Callee) -> Iterator[Case]:
    first, second = callee.inputs
    one, two = callee.arrays()
    for other in ("float64", "float16", "int32", "bool"):
        wrong = f"{second} is {other}, but {first} is float32."
        yield _case(callee, f"mixed with {other}", wrong, one, two.astype(other))
    wrong = f"{second} is float32, but {first} is float64."
    yield _case(callee, "mixed the other way", wrong, one.astype("f8"), two)
    defined = callee.name.startswith("openvino")  # "any numeric type"
    for types, kind in (
        (NUMERIC, tconv.UnsupportedError if defined else tconv.ProblemError),
        (NOT_NUMERIC, tconv.ProblemError),
    ):
        for note, dtype in types.items():
            arrays: list[Array] = [np.zeros(shape, dtype) for shape in callee.shapes]
            yield _case(callee, f"of {note}", _shown(dtype), *arrays, kind=kind)
    swapped = [np.zeros(callee.shapes[0], "<i4"), np.zeros(callee.shapes[1], ">i4")]
    kind = tconv.UnsupportedError if defined else tconv.ProblemError
    yield _case(callee, "of int32 in both byte orders", _shown("i4"), *swapped, kind=kind)


def _named_types() -> Iterator[Case]:
    """Name the element type for plan, in ways that it must refuse."""
    for document in ("onednn", "openvino", "onnx"):
        callee = CALLEES[f"{document}.Conv{'' if document == 'onnx' else 'olution'}"]
        defined = document == "openvino"
        for note, value, numeric in (
            ("int32 class", np.int32, True),
            ("int32", "int32", True),
            ("bool class", bool, False),
            ("unheard-of", "float33", False),
            ("number", 5, False),
            ("nothing", None, False),
            ("object", object, False),
            ("two commas", "f4,,", False),
            ("comma", ",", False),
            ("negative subarray", (np.float32, -1), False),
            ("abstract class", np.floating, False),
        ):
            yield Case(
                f"{callee.name}-plan for {note}",
                callee.title,
                "the element type is ..., which is not one of its types.",
                lambda callee=callee, value=value: callee.op().plan(  # type: ignore[misc]
                    *callee.shapes, callee.third, dtype=value
                ),
                kind=tconv.UnsupportedError if defined and numeric else tconv.ProblemError,
            )
    for name in ("Conv", "ConvTranspose"):
        callee = CALLEES[f"onnx.{name}"]
        for opset in (1, 11, 21):
            arrays = callee.arrays("bfloat16")
            yield Case(
                f"{callee.name}-bfloat16 in opset {opset}",
                callee.title,
                "the element type is bfloat16, which is not one of its types.",
                lambda callee=callee, arrays=arrays, opset=opset: callee.run(  # type: ignore[misc]
                    *arrays, opset=opset
                ),
            )


def _binds() -> Iterator[Case]:
    for callee in OPERATORS.values():
        second = callee.inputs[1]
        sound = callee.arrays()[1]
        wrongs: dict[str, tuple[object, str]] = {
            "list": ([1.0], f"{second} is a list, not an array."),
            "masked": (np.ma.masked_array(sound), f"{second} is a masked array."),
            "integers": (sound.astype("i4"), _shown("i4")),
            "no axes": (sound[(0,) * sound.ndim], f"{second} has 0 axes, but at least ..."),
            "two axes": (np.ones((4, 6), F32), f"{second} has 2 axes, but at least ..."),
            "empty": (sound[:, :0], f"{second} is empty."),
        }
        if "Weights" in callee.name:  # what they bind is data
            wrongs = {note: wrongs[note] for note in ("list", "masked", "integers")}
        for note, (value, wrong) in wrongs.items():
            defined = callee.name.startswith("openvino") and note == "integers"
            yield Case(
                f"{callee.name}-bind {note}",
                callee.title,
                wrong,
                lambda callee=callee, value=value: callee.op().bind(value),  # type: ignore[misc]
                kind=tconv.UnsupportedError if defined else tconv.ProblemError,
            )
        yield from _bound_biases(callee, sound)


def _bound_biases(callee: Callee, sound: Array) -> Iterator[Case]:
    name, bias = callee.kind.third, callee.bias()
    values: dict[str, tuple[object, str]] = {"bias": (np.ones(7, F32), "it takes no bias.")}
    if bias is not None:
        values = {
            "long bias": (np.ones(7, F32), f"{name} has shape (7,), but shape ..."),
            "float64 bias": (bias.astype("f8"), f"{name} is float64, but ... is float32."),
            "list bias": ([1.0], f"{name} is a list, not an array."),
        }
        yield Case(
            f"{callee.name}-bias bound and given",
            callee.title,
            f"{name} is given, but one is bound already.",
            lambda: callee.op().bind(sound, bias)(callee.arrays()[0], bias),
        )
    for note, (value, wrong) in values.items():
        yield Case(
            f"{callee.name}-bind with {note}",
            callee.title,
            wrong,
            lambda value=value: callee.op().bind(sound, value),  # type: ignore[misc]
        )


CASES = [
    *(
        case
        for callee in CALLEES.values()
        for cases in (_kinds, _biases, _types)
        for case in cases(callee)
    ),
    *_named_types(),
    *_binds(),
]
