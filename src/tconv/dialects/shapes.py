"""Parse shapes, requested shapes and dtypes as people write them."""

import numpy as np

from tconv.dialects.attributes import LARGEST, digits, shown, whole_numbers
from tconv.dialects.call import Shape, Size, shape_text
from tconv.errors import ProblemError, TconvError, UnsupportedError
from tconv.problem import DTYPES, dtype_name


def parse_shape(title: str, name: str, value: object, *, batched: bool) -> Shape:
    """Parse a shape; only a batch, the first axis, may be empty."""
    shape = _sizes(value)
    if shape is None:
        raise ProblemError(
            title,
            f"the shape of {name} is {shown(value)}, not a list of sizes.",
            got={name: shown(value, 200)},
            rule="a shape is a list or tuple of whole numbers, None where a size is not known",
            fix=f"pass the shape of {name}, for example {name}.shape",
        )
    _check_64_bits(title, name, shape)
    for place, size in enumerate(shape):
        if size is not None and size < 0:
            _refuse(
                title,
                name,
                shape,
                f"has a negative size, {size}.",
                rule="a size is at least 0, or None where it is not known",
                fix="pass None for a size that is not known",
            )
        if size == 0 and (place > 0 or not batched):
            _refuse(
                title,
                name,
                shape,
                "is empty.",
                rule="only the batch may be 0",
                fix=f"pass {name} with every size at least 1",
            )
    return shape


def parse_request(title: str, name: str, value: object, *, scalar: bool = False) -> Shape:
    """Parse the values of an output_shape or weights_shape, or the shape of a bias."""
    shape = _sizes(value)
    if shape is None or not (shape or scalar):
        raise ProblemError(
            title,
            f"{name} is {shown(value)}, not a list of whole numbers.",
            got={name: shown(value, 200)},
            rule=f"{name} is one list of integers",
            fix=f"pass {name} as a list, a tuple or a 1-D integer array",
        )
    _check_64_bits(title, name, shape)
    check_request(title, name, shape, batched=True)
    return shape


def check_request(title: str, name: str, shape: Shape, *, batched: bool) -> None:
    """Refuse an empty request; only a batch, the first entry, may be 0."""
    for place, size in enumerate(shape):
        if size is not None and size < (0 if batched and place == 0 else 1):
            _refuse(
                title,
                name,
                shape,
                f"has {size}, but a size is at least 1.",
                rule=f"every entry of {name} is at least 1",
                fix="pass positive sizes",
            )


def _check_64_bits(title: str, name: str, shape: Shape) -> None:
    for size in shape:
        if size is not None and abs(size) > LARGEST:
            raise ProblemError(
                title,
                f"{name} has a size of {digits(size)}, which overflows 64 bits.",
                got={},
                rule="size <= 2**63 - 1",
                fix="pass smaller sizes",
            )


def parse_dtype(
    title: str, document: str, value: object, allowed: tuple[str, ...], *, any_number: bool
) -> str:
    """Parse a dtype given as name, type or NumPy dtype into one of ``allowed``.

    ``any_number`` tells that the document itself allows every numeric type.
    """
    name = dtype_name(value)  # type: ignore[arg-type]
    if name in allowed:
        return name
    shown = name or getattr(value, "name", None) or str(value)
    listed = ", ".join(allowed)
    refusal: type[TconvError] = ProblemError
    if any_number and _is_numeric(value):
        refusal = UnsupportedError  # defined, but not done here
    raise refusal(
        title,
        f"the element type is {shown}, which is not one of its types.",
        got={"dtype": shown},
        rule=f"tconv computes {document} in: {listed}",
        fix=f"convert the inputs to {DTYPES[0]}, for example with .astype({DTYPES[0]!r})",
    )


def _is_numeric(dtype: object) -> bool:
    try:
        return np.dtype(dtype).kind in "iufc" if dtype is not None else False  # type: ignore[call-overload]
    except Exception:  # noqa: BLE001 - NumPy parses commas, tuples and whole programs here
        return False


def _sizes(value: object) -> Shape | None:
    """Return list-like sizes, None among them allowed, or None when it is no such list."""
    if isinstance(value, list | tuple):
        sizes: list[Size] = []
        for size in value:
            whole = (None,) if size is None else whole_numbers([size])
            if whole is None:
                return None
            sizes += whole
        return tuple(sizes)
    return whole_numbers(value)


def _refuse(  # noqa: PLR0913 - the parts of a message
    title: str, name: str, shape: Shape, wrong: str, *, rule: str, fix: str
) -> None:
    raise ProblemError(title, f"{name} {wrong}", got={name: shape_text(shape)}, rule=rule, fix=fix)
