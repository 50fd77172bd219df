"""The decoder of a neural audio codec, as in DAC (Kumar et al. 2023), which refines Encodec's.

Frames of 1024 numbers become sound by four transposed convolutions, each followed by three
residual units of growing dilation, with "snake" in between.
"""

from typing import Any

import torch
from torch import nn

Tensor = Any  # torch is not typed

RATES = (8, 8, 4, 2)
DILATIONS = (1, 3, 9)


class Snake(nn.Module):  # type: ignore[misc] # torch is not typed
    """``x + sin(alpha * x) ** 2 / alpha``, with an alpha for each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(channels, 1))

    def forward(self, sound: Tensor) -> Tensor:
        """Bend every number."""
        return sound + torch.sin(self.alpha * sound).square() / (self.alpha + 1e-9)


class Unit(nn.Module):  # type: ignore[misc] # torch is not typed
    """One residual unit: a dilated window of 7, then one of 1."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            Snake(channels),
            nn.Conv1d(channels, channels, 7, dilation=dilation, padding=3 * dilation),
            Snake(channels),
            nn.Conv1d(channels, channels, 1),
        )

    def forward(self, sound: Tensor) -> Tensor:
        """Add what the unit finds."""
        return sound + self.inner(sound)


def decoder(width: int) -> Tensor:
    """Return the decoder; DAC's width is 1536."""
    layers: list[Tensor] = [nn.Conv1d(1024, width, 7, padding=3)]
    for depth, rate in enumerate(RATES):
        wide, narrow = width >> depth, width >> depth + 1
        layers += [
            Snake(wide),
            nn.ConvTranspose1d(wide, narrow, 2 * rate, stride=rate, padding=(rate + 1) // 2),
            *(Unit(narrow, dilation) for dilation in DILATIONS),
        ]
    last = width >> len(RATES)
    return nn.Sequential(*layers, Snake(last), nn.Conv1d(last, 1, 7, padding=3), nn.Tanh())
