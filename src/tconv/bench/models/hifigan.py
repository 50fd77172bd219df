"""The generator of HiFi-GAN, version V1 (Kong, Kim, Bae 2020, table 5): a vocoder.

Mel spectra of 80 bands become sound by four transposed convolutions, each followed by residual
blocks of three window sizes whose sum is taken.
"""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

Tensor = Any  # torch is not typed

RATES = (8, 8, 2, 2)  # "h_u upsample rates"; windows are twice as long
WINDOWS = (3, 7, 11)  # "k_r"
DILATIONS = (1, 3, 5)  # "D_r", each followed by a convolution without
SLOPE = 0.1


class Residual(nn.Module):  # type: ignore[misc] # torch is not typed
    """One residual block: three pairs of convolutions."""

    def __init__(self, channels: int, window: int) -> None:
        super().__init__()

        def layer(dilation: int) -> Tensor:
            padding = dilation * (window - 1) // 2
            return nn.Conv1d(channels, channels, window, dilation=dilation, padding=padding)

        self.dilated = nn.ModuleList(layer(dilation) for dilation in DILATIONS)
        self.plain = nn.ModuleList(layer(1) for _ in DILATIONS)

    def forward(self, sound: Tensor) -> Tensor:
        """Add what each pair finds."""
        for dilated, plain in zip(self.dilated, self.plain, strict=True):
            inner = dilated(functional.leaky_relu(sound, SLOPE))
            sound = sound + plain(functional.leaky_relu(inner, SLOPE))
        return sound


class Generator(nn.Module):  # type: ignore[misc] # torch is not typed
    """The generator; the paper's width is 512."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, width, 7, padding=3)
        self.ups = nn.ModuleList()
        self.blocks = nn.ModuleList()
        for depth, rate in enumerate(RATES):
            wide, narrow = width >> depth, width >> depth + 1
            self.ups.append(
                nn.ConvTranspose1d(wide, narrow, 2 * rate, stride=rate, padding=rate // 2)
            )
            self.blocks.append(nn.ModuleList(Residual(narrow, window) for window in WINDOWS))
        self.last = nn.Conv1d(width >> len(RATES), 1, 7, padding=3)

    def forward(self, mel: Tensor) -> Tensor:
        """Return the sound of mel spectra ``(batch, 80, frames)``."""
        sound = self.first(mel)
        for up, blocks in zip(self.ups, self.blocks, strict=True):
            sound = up(functional.leaky_relu(sound, SLOPE))
            sound = sum(block(sound) for block in blocks) / len(WINDOWS)
        return torch.tanh(self.last(functional.leaky_relu(sound)))
