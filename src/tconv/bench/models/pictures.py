"""Heads that make pictures of few points: DCGAN's generator and SimpleBaseline's pose head."""

from typing import Any

from torch import nn

Tensor = Any  # torch is not typed


def dcgan(width: int) -> Tensor:
    """Return the generator of DCGAN (Radford, Metz, Chintala 2016, figure 1); its width is 1024.

    100 numbers become 4 x 4 points, then a picture of 64 x 64.
    """
    layers = [nn.ConvTranspose2d(100, width, 4, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    for depth in range(3):
        wide, narrow = width >> depth, width >> depth + 1
        layers += [
            nn.ConvTranspose2d(wide, narrow, 4, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(narrow),
            nn.ReLU(),
        ]
    return nn.Sequential(
        *layers, nn.ConvTranspose2d(width >> 3, 3, 4, stride=2, padding=1), nn.Tanh()
    )


def pose_head(width: int) -> Tensor:
    """Return the head of SimpleBaseline (Xiao, Wu, Wei 2018); its width is 256.

    "Three deconvolutional layers with batch normalization and ReLU", windows of 4 and stride 2,
    on ResNet's last features (2048 channels), and a convolution of window 1 to 17 joints.
    """
    layers: list[Tensor] = []
    for before in (8 * width, width, width):
        layers += [
            nn.ConvTranspose2d(before, width, 4, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.Conv2d(width, 17, 1))
