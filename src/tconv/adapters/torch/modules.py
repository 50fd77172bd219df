"""torch.nn's convolution modules, computed by tconv.

Each is a subclass of torch's module of the same name, with its constructor, parameters,
``state_dict`` and printed form; only what ``forward`` calls is another.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from tconv.adapters.torch.functional import convolve

Tensor = Any  # torch is not typed


class _Convolves(torch.nn.Module):  # type: ignore[misc] # torch is not typed
    """What ``forward`` of torch's Conv1d, Conv2d and Conv3d calls."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # noqa: A002 - torch's word
        padding = self.padding
        if self.padding_mode != "zeros":
            pads = self._reversed_padding_repeated_twice
            input = functional.pad(input, pads, mode=self.padding_mode)  # noqa: A001 - torch's word
            padding = 0
        return convolve(
            f"conv{len(self.kernel_size)}d",
            input,
            weight,
            bias,
            self.stride,
            padding,
            0,
            self.groups,
            self.dilation,
            keep=not self.training,
        )


class _ConvolvesTransposed(torch.nn.Module):  # type: ignore[misc] # torch is not typed
    """``forward`` of ConvTranspose1d, ConvTranspose2d and ConvTranspose3d."""

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:  # noqa: A002 - torch's word
        """Convolve transposed, to a result of ``output_size`` if it is given."""
        if self.padding_mode != "zeros":
            raise ValueError(f"tconv {type(self).__name__}: padding_mode must be 'zeros'")
        rank = len(self.kernel_size)
        output_padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, rank, self.dilation
        )
        return convolve(
            f"conv_transpose{rank}d",
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
            keep=not self.training,
        )


class Conv1d(_Convolves, torch.nn.Conv1d):  # type: ignore[misc] # torch is not typed
    """A drop-in for ``torch.nn.Conv1d``."""


class Conv2d(_Convolves, torch.nn.Conv2d):  # type: ignore[misc] # torch is not typed
    """A drop-in for ``torch.nn.Conv2d``."""


class Conv3d(_Convolves, torch.nn.Conv3d):  # type: ignore[misc] # torch is not typed
    """A drop-in for ``torch.nn.Conv3d``."""


class ConvTranspose1d(_ConvolvesTransposed, torch.nn.ConvTranspose1d):  # type: ignore[misc] # torch is not typed
    """A drop-in for ``torch.nn.ConvTranspose1d``."""


class ConvTranspose2d(_ConvolvesTransposed, torch.nn.ConvTranspose2d):  # type: ignore[misc] # torch is not typed
    """A drop-in for ``torch.nn.ConvTranspose2d``."""


class ConvTranspose3d(_ConvolvesTransposed, torch.nn.ConvTranspose3d):  # type: ignore[misc] # torch is not typed
    """A drop-in for ``torch.nn.ConvTranspose3d``."""


OURS: dict[type, type] = {
    getattr(torch.nn, kind.__name__): kind
    for kind in (Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
}
