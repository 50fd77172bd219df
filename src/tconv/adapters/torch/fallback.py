"""What happens to calls that are not for us: torch's own operator, or an error of its type."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tconv.adapters.torch.memory import DTYPES
from tconv.dialects.functional import Conv, ConvTranspose
from tconv.errors import ProblemError, TconvError

# What torch raises for bad arguments; any other error is no matter of arguments.
THEIRS = (TypeError, ValueError, RuntimeError, NotImplementedError, IndexError, OverflowError)

_noted: set[tuple[str, str]] = set()


class FallbackWarning(UserWarning):
    """A call that tconv leaves to torch's own operator; each reason is given once."""


def leave_to_torch(
    name: str,
    reason: str,
    arguments: dict[str, Any],
    function: Callable[..., Any],
) -> Any:  # noqa: ANN401 - a tensor
    """Run torch's own function; what it refuses is refused with its type and our message."""
    if torch.compiler.is_compiling():
        return function(**arguments)
    try:
        result = function(**arguments)
    except THEIRS as theirs:
        ours = _explain(name, arguments)
        if ours is None or type(theirs) not in THEIRS:
            raise
        raise type(theirs)(str(ours)) from theirs
    note(name, reason)
    return result


def note(name: str, reason: str) -> None:
    """Say once, for each function and reason, that torch's own operator runs."""
    if (name, reason) not in _noted:
        _noted.add((name, reason))
        message = f"{name}: {reason}; torch's own operator is used"
        warnings.warn(message, FallbackWarning, stacklevel=2)


def _explain(name: str, arguments: dict[str, Any]) -> TconvError | None:
    """Return our error for arguments that torch refuses, or None where we see nothing wrong."""
    title = f"tconv {name}"
    rank = int(name[-2])
    given = {
        key: arguments[key]
        for key in ("input", "weight", "bias")
        if key != "bias" or arguments[key] is not None
    }
    error = _not_tensors(title, given) or _mixed(title, given) or _wrong_ranks(title, given, rank)
    if error is not None:
        return error
    kind = ConvTranspose if "transpose" in name else Conv
    try:
        words = ("stride", "padding", "output_padding", "dilation", "groups")
        op = kind(**{word: arguments[word] for word in words if word in arguments})
        shapes = [tuple(tensor.shape) for tensor in given.values()]
        if len(shapes[0]) == rank + 1:
            shapes[0] = (1, *shapes[0])
        op.resolve(*shapes, dtype=DTYPES.get(given["input"].dtype, "an unknown type"))
    except TconvError as found:
        rule = found.rule.replace(kind.document, f"torch.nn.functional.{name}")
        return type(found)(title, found.wrong, got=found.got, rule=rule, fix=found.fix)
    return None


def _not_tensors(title: str, given: dict[str, Any]) -> ProblemError | None:
    for key, value in given.items():
        if not isinstance(value, torch.Tensor):
            return ProblemError(
                title,
                f"{key} is a {type(value).__name__}, not a tensor.",
                got={name: type(each).__name__ for name, each in given.items()},
                rule="input, weight and bias are torch tensors",
                fix=f"pass torch.as_tensor({key})",
            )
    return None


def _mixed(title: str, given: dict[str, Any]) -> ProblemError | None:
    for what in ("dtype", "device"):
        kinds = {key: getattr(tensor, what) for key, tensor in given.items()}
        first = kinds["input"]
        for key, kind in kinds.items():
            if kind != first:
                return ProblemError(
                    title,
                    f"{key} has {what} {kind}, but input has {first}.",
                    got=kinds,
                    rule=f"all tensors have the same {what}",
                    fix=f"pass {key}.to({first!r})",
                )
    return None


def _wrong_ranks(title: str, given: dict[str, Any], rank: int) -> ProblemError | None:
    allowed = {"input": (rank + 1, rank + 2), "weight": (rank + 2,)}
    for key, ranks in allowed.items():
        shape = tuple(given[key].shape)
        if len(shape) not in ranks:
            return ProblemError(
                title,
                f"{key} has {len(shape)} axes, but {_either(ranks)} are needed.",
                got={name: tuple(tensor.shape) for name, tensor in given.items()},
                rule=f"{title.removeprefix('tconv ')} has {rank} spatial axes"
                " beside channels and an optional batch",
                fix=f"pass {key} with {_either(ranks)} axes",
            )
    return None


def _either(ranks: Sequence[int]) -> str:
    return " or ".join(map(str, ranks))
