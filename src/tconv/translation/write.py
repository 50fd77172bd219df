"""Write steps as code: one expression around another."""

from collections.abc import Sequence

from tconv.translation.steps import Pair, Step

# Each language's words for a step; the explorer page reads this table too.
LANGUAGES: dict[str, dict[str, str]] = {
    "torch": {
        "permute": "{x}.permute{tuple}",
        "reshape": "{x}.reshape{tuple}",
        "pad": "F.pad({x}, {last_first})",
        "crop": "{x}[{slices}]",
        "add": "({x} + {bias}.reshape{tuple})",
    },
    "numpy": {
        "permute": "{x}.transpose{tuple}",
        "reshape": "{x}.reshape{tuple}",
        "pad": "np.pad({x}, {tuple})",
        "crop": "{x}[{slices}]",
        "add": "({x} + {bias}.reshape{tuple})",
    },
    "lax": {
        "permute": "{x}.transpose{tuple}",
        "reshape": "{x}.reshape{tuple}",
        "flip": "jnp.flip({x}, {tuple})",
        "add": "({x} + {bias}.reshape{tuple})",
    },
    "keras": {
        "permute": "keras.ops.transpose({x}, {tuple})",
        "reshape": "keras.ops.reshape({x}, {tuple})",
        "pad": "keras.ops.pad({x}, {tuple})",
        "crop": "{x}[{slices}]",
        "insert": "np.insert({x}, np.repeat(range(1, {size}), {by}), 0, axis={axis})",
        "add": "({x} + {bias})",
    },
    "openvino": {
        "permute": "ov.transpose({x}, {list})",
        "reshape": "ov.reshape({x}, {list}, False)",
        "pad": "ov.pad({x}, {begins}, {ends}, 'constant')",
        "crop": "ov.pad({x}, {less_begins}, {less_ends}, 'constant')",
        "add": "ov.add({x}, ov.reshape({bias}, {list}, False))",
    },
}


def write(language: str, steps: Sequence[Step], text: str, bias: str | None = None) -> str:
    """Return the expression that does the steps to what ``text`` stands for.

    >>> write("numpy", [Step("permute", (1, 0)), Step("crop", ((0, 0), (1, 2)))], "x")
    'x.transpose(1, 0)[:, 1:-2]'
    """
    words = LANGUAGES[language]
    for step in steps:
        if step.kind == "spread":
            for axis, (size, by) in enumerate(step.numbers):
                if by > 1 and size > 1:
                    fields = {"x": text, "size": size, "by": by - 1, "axis": axis}
                    text = words["insert"].format(**fields)
            continue
        if step.kind == "add" and len(step.numbers) == 1:
            text = f"({text} + {bias})"
            continue
        text = words[step.kind].format(x=text, bias=bias, **_fields(step))
    return text


def tuple_text(numbers: Sequence[object]) -> str:
    """Print numbers as a Python tuple."""
    return str(tuple(numbers))


def keywords(given: dict[str, tuple[object, object]]) -> str:
    """Return ``, name=value`` for each value that is not its default, given as a pair.

    >>> keywords({"stride": ((2,), (1,)), "groups": (1, 1)})
    ', stride=(2,)'
    """
    return "".join(f", {name}={value}" for name, (value, usual) in given.items() if value != usual)


def _fields(step: Step) -> dict[str, str]:
    fields = {"tuple": tuple_text(step.numbers), "list": str(list(step.numbers))}
    if step.kind in ("pad", "crop"):
        pairs: Sequence[Pair] = step.numbers
        fields |= {
            "slices": ", ".join(f"{b or ''}:{-e if e else ''}" for b, e in pairs),
            "last_first": tuple_text(_last_first(pairs)),
            "begins": str([begin for begin, _ in pairs]),
            "ends": str([end for _, end in pairs]),
            "less_begins": str([-begin for begin, _ in pairs]),
            "less_ends": str([-end for _, end in pairs]),
        }
    return fields


def _last_first(pairs: Sequence[Pair]) -> list[int]:
    """Return pads as torch has them: from the last axis back to the first that has any."""
    first = next(place for place, pair in enumerate(pairs) if any(pair))
    return [number for pair in reversed(pairs[first:]) for number in pair]
