"""U-Nets: the one for pictures (Ronneberger, Fischer, Brox 2015) and nnU-Net's for volumes.

The first has windows of 3 with batch norm, max pooling, and transposed convolutions of window and
stride 2; its windows are padded, as is usual since.  nnU-Net (Isensee et al. 2021, 3d_fullres)
has instance norm, leaky ReLU, strided convolutions instead of pooling, and at most 320 channels.
"""

from itertools import pairwise
from typing import Any

import torch
from torch import nn

Tensor = Any  # torch is not typed

MOST_CHANNELS = 320  # of nnU-Net


class UNet(nn.Module):  # type: ignore[misc] # torch is not typed
    """Down in levels, up again with what was seen on the way down."""

    def __init__(self, downs: list[Tensor], ups: list[Tensor], joins: list[Tensor]) -> None:
        super().__init__()
        self.downs, self.ups = nn.ModuleList(downs), nn.ModuleList(ups)
        self.joins = nn.ModuleList(joins)

    def forward(self, picture: Tensor) -> Tensor:
        """Return class scores for every point."""
        seen = []
        for down in self.downs:
            picture = down(picture)
            seen.append(picture)
        seen.pop()
        for up, join in zip(self.ups, self.joins, strict=True):
            picture = join(torch.cat([seen.pop(), up(picture)], dim=1))
        return picture


def unet_2d(width: int) -> Tensor:
    """Return the U-Net for pictures of one channel; the paper's width is 64, its depth 5."""

    def block(before: int, after: int) -> list[Tensor]:
        return [
            nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
        ]  # fmt: skip

    wide = [width << depth for depth in range(5)]
    downs = [nn.Sequential(*block(1, width))]
    downs += [nn.Sequential(nn.MaxPool2d(2), *block(a, b)) for a, b in _pairs(wide)]
    ups = [nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in reversed(_pairs(wide))]
    joins = [nn.Sequential(*block(2 * a, a)) for a in reversed(wide[:-1])]
    joins[-1].append(nn.Conv2d(width, 2, 1))
    return UNet(downs, ups, joins)


def unet_3d(width: int) -> Tensor:
    """Return nnU-Net's network for volumes of one channel; its width is 32."""

    def block(before: int, after: int, stride: int) -> list[Tensor]:
        layers = []
        for channels, step in ((before, stride), (after, 1)):
            layers += [
                nn.Conv3d(channels, after, 3, stride=step, padding=1),
                nn.InstanceNorm3d(after, affine=True),
                nn.LeakyReLU(0.01),
            ]
        return layers

    wide = [min(width << depth, MOST_CHANNELS) for depth in range(5)]
    downs = [nn.Sequential(*block(1, width, 1))]
    downs += [nn.Sequential(*block(a, b, 2)) for a, b in _pairs(wide)]
    ups = [nn.ConvTranspose3d(b, a, 2, stride=2) for a, b in reversed(_pairs(wide))]
    joins = [nn.Sequential(*block(2 * a, a, 1)) for a in reversed(wide[:-1])]
    joins[-1].append(nn.Conv3d(width, 3, 1))
    return UNet(downs, ups, joins)


def _pairs(widths: list[int]) -> list[tuple[int, int]]:
    return list(pairwise(widths))
