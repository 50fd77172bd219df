"""The test vectors beside the repository: find them, load them, compare answers with them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tconv.calls import Runnable

Array = npt.NDArray[Any]
Sizes = tuple[int | None, ...]

DTYPES: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}

FORMATS = ("XIO", "OIX", "XOI", "IOX")
"""How weights may lie: X is all spatial axes."""

# Four units in the last place of the largest value; literals are printed with eight digits.
TOLERANCES = {"float64": 1e-7, "float32": 2**-21, "float16": 2**-8, "bfloat16": 2**-5}

SPECIFICATIONS: dict[str, dict[str, str]] = {
    "openvino": {
        "openvino_convolution.json": "",
        "openvino_convolution_backprop.json": "",
        "openvino_group_convolution.json": "",
        "openvino_group_convolution_backprop.json": "",
        "engine_probes.json": "ov_",
    },
    "onednn": {
        "onednn_deconv_shapes.json": "",
        "onednn_graph_execute.json": "",
        "onednn_graph_shape_infer.json": "",
    },
    "onnx": {
        "onnx_conv.json": "",
        "onnx_convtranspose.json": "",
        "engine_probes.json": "onnx_",
    },
    "torch": {
        "torch_conv_family.json": "",
        "engine_probes.json": "dtype_",
    },
}
"""For each specification its files, and how the names of its cases begin there."""


@dataclass(frozen=True, eq=False)
class Case:
    """One case of a file, as it stands there."""

    id: str
    op: str
    kind: str
    attrs: Mapping[str, Any]
    fields: Mapping[str, Any]

    def __str__(self) -> str:
        """Name the test after the case."""
        return self.id

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - JSON has no types
        """Return a field that the case must have."""
        return self.fields[name]

    def tensor(self, part: str, name: str) -> Array:
        """Return a flat tensor of ``inputs`` or ``expected`` in its shape, in float64."""
        return tensor(self[part][name], self["shapes"][name])


def folder() -> Path | None:
    """Return where the vectors lie: in ``shared`` beside the repository's root."""
    root = next(p for p in Path(__file__).resolve().parents if (p / "pyproject.toml").exists())
    found = root.parent / "shared" / "vectors"
    return found if found.is_dir() else None


def read(place: Path) -> tuple[Mapping[str, Any], list[Case]]:
    """Return what a file says of itself, and its cases."""
    whole = json.loads(place.read_text(encoding="utf-8"))
    cases = [
        Case(each["id"], each["op"], each["kind"], each.get("attrs", {}), each)
        for each in whole["cases"]
    ]
    return whole["meta"], cases


def cases(specification: str) -> list[Case]:
    """Return every case of a specification, or skip the module that asks."""
    place = folder()
    if place is None:
        pytest.skip(
            "the test vectors (../shared/vectors beside the repository) are not here",
            allow_module_level=True,
        )
    return [
        case
        for name, start in SPECIFICATIONS[specification].items()
        for case in read(place / name)[1]
        if case.id.startswith(start)
    ]


def tensor(values: Sequence[float], shape: Sequence[int]) -> Array:
    """Return a flat, row-major tensor in its shape, in float64."""
    return np.array(values, np.float64).reshape(tuple(shape))


def sizes(shape: Sequence[Any]) -> Sizes:
    """Return a shape with None for what is not known: -1, null or an interval.

    >>> sizes([1, -1, [3, 5], None])
    (1, None, None, None)
    """
    return tuple(size if isinstance(size, int) and size != -1 else None for size in shape)


def relaid(weights: Array, said: str, wanted: str) -> Array:
    """Return weights of one format in another; X is all spatial axes."""
    count = weights.ndim - 2
    places = {letter: said.replace("X", "X" * count).index(letter) for letter in "XOI"}
    spatial = list(range(places["X"], places["X"] + count))
    order = [axis for each in wanted for axis in (spatial if each == "X" else [places[each]])]
    return weights.transpose(order)


def every_way(op: Runnable, first: Array, second: Array, third: Any = None) -> Iterator[Array]:  # noqa: ANN401 - bias or sizes
    """Yield the answer of a call and of a bound call, each without and with ``out``."""
    answer = op(first, second, third)
    yield answer
    out = np.full_like(answer, np.nan)
    yield op(first, second, third, out=out)
    yield out
    holds_bias = op.third in ("bias", "B")
    bound = op.bind(second, third) if holds_bias else op.bind(second)
    later = None if holds_bias else third
    yield bound(first, later)
    out = np.full_like(answer, np.nan)
    yield bound(first, later, out=out)
    yield out


def check_answer(actual: Array, expected: Array, *inputs: Array | None) -> None:
    """Refuse an answer other than the expected one, rounded once to the answer's type.

    ``inputs`` are the two factors and perhaps a bias, before they were converted.  Where
    they make every sum exact, the answer must match bit for bit; otherwise within the
    error that their conversion brings.
    """
    dtype = actual.dtype
    found = actual.astype(np.float64)

    assert actual.shape == expected.shape
    if sums_are_exact(dtype, *(each for each in inputs if each is not None)):
        np.testing.assert_array_equal(found, expected.astype(dtype).astype(np.float64))
    else:
        error = TOLERANCES[dtype.name] * float(np.abs(expected).max())
        np.testing.assert_allclose(found, expected, rtol=0, atol=error)


def sums_are_exact(dtype: np.dtype[Any], first: Array, second: Array, *bias: Array) -> bool:
    """Tell whether sums of products are exact in the float32 that f16 and bf16 add in.

    They are for multiples of 1/4 that ``dtype`` holds, while all sixteenths in a sum,
    positive and negative together, number less than 2**24.
    """
    for each in (first, second, *bias):
        kept = each.astype(dtype).astype(np.float64)
        if not np.array_equal(kept, each) or not np.array_equal(np.rint(4 * each), 4 * each):
            return False
    reach = np.abs(first).sum() * np.abs(second).max() + sum(np.abs(each).max() for each in bias)
    return bool(16 * reach < 2**24)
