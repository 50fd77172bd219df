"""Calls of the six functions that torch and the adapter both understand, with whole numbers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

import tconv.adapters.torch as adapter

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


@dataclass(frozen=True)
class Call:
    """One call: the function's name, the shapes of its tensors and its other arguments."""

    name: str
    input: tuple[int, ...]
    weight: tuple[int, ...]
    bias: int | None
    arguments: tuple[tuple[str, Any], ...]

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return int(self.name[-2])

    def tensors(self, dtype: Any = torch.float64) -> list[Any]:  # noqa: ANN401 - torch is not typed
        """Return small whole numbers, so that every sum is exact."""
        generator = torch.Generator().manual_seed(7)
        shapes = [self.input, self.weight, *([] if self.bias is None else [(self.bias,)])]
        made = [torch.randint(-2, 3, shape, generator=generator).to(dtype) for shape in shapes]
        return made if self.bias is not None else [*made, None]

    def ours(self, *tensors: Any) -> Any:  # noqa: ANN401 - as above
        """Call the adapter's function."""
        return getattr(adapter, self.name)(*tensors, **dict(self.arguments))

    def theirs(self, *tensors: Any) -> Any:  # noqa: ANN401 - as above
        """Call torch's function."""
        return getattr(torch.nn.functional, self.name)(*tensors, **dict(self.arguments))

    def __str__(self) -> str:
        """Name the test."""
        window = "x".join(map(str, self.weight[2:]))
        return f"{self.name} {window} {dict(self.arguments)}"


def made(name: str, *, groups: int = 1, size: int = 6, window: int = 3, **more: Any) -> Call:  # noqa: ANN401 - any argument
    """Return a call of four channels to six, with a bias."""
    rank, transposed = int(name[-2]), "transpose" in name
    sizes, windows = range(size, size + rank), range(window, window + rank)
    channels = (4, 6 // groups) if transposed else (6, 4 // groups)
    arguments = (("groups", groups), *more.items())
    return Call(name, (2, 4, *sizes), (*channels, *windows), 6, arguments)


def calls() -> Iterator[Call]:
    """Yield calls of every function with every kind of argument."""
    for rank in (1, 2, 3):
        for kind in ("conv", "conv_transpose"):
            name = f"{kind}{rank}d"
            yield made(name)
            yield made(name, stride=2, padding=1, groups=2)
            yield made(name, dilation=2, padding=[1] * rank, window=2)
            yield made(name, stride=[3], window=1)
            yield made(name, window=1)
        yield made(f"conv{rank}d", padding="same", dilation=2)
        yield made(f"conv{rank}d", padding="same", window=2)
        yield made(f"conv{rank}d", padding="valid")
        yield made(f"conv{rank}d", window=6, padding=3)
        yield made(f"conv_transpose{rank}d", stride=3, output_padding=2, padding=1)
        # More output padding than stride: some points are met by no window at all.
        yield made(f"conv_transpose{rank}d", dilation=4, output_padding=3, padding=2, window=1)
    yield Call("conv2d", (0, 4, 6, 6), (6, 4, 3, 3), 6, ())
    yield Call("conv_transpose1d", (4, 6), (4, 3, 5), None, (("stride", 2),))
    yield Call("conv2d", (2, 6, 8, 8), (12, 1, 3, 3), None, (("groups", 6), ("padding", 1)))
    yield Call("conv_transpose2d", (2, 6, 5, 5), (6, 1, 4, 4), 6, (("groups", 6), ("stride", 2)))


CALLS = list(calls())
