"""Whole models with transposed convolutions, from their papers' shapes, with random weights."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tconv.bench.models import codec, hifigan, pictures, unet


@dataclass(frozen=True, slots=True)
class Model:
    """A model: how to build it, how wide it is in its paper, and what it is given."""

    name: str
    build: Callable[[int], Any]
    width: int
    shape: tuple[int, ...]
    small_width: int  # for tests
    small_shape: tuple[int, ...]

    def make(self, *, small: bool = False, seed: int = 0) -> tuple[Any, Any]:
        """Return the model with random weights, and an input for it."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.build(self.small_width if small else self.width)
            return model, torch.randn(self.small_shape if small else self.shape)


MODELS = (
    Model("hifigan", hifigan.Generator, 512, (1, 80, 32), 16, (2, 80, 3)),
    Model("unet-2d", unet.unet_2d, 64, (1, 1, 128, 128), 4, (2, 1, 32, 48)),
    Model("unet-3d", unet.unet_3d, 32, (1, 1, 32, 32, 32), 4, (1, 1, 32, 32, 32)),
    Model("dcgan", pictures.dcgan, 1024, (8, 100, 1, 1), 32, (3, 100, 1, 1)),
    Model("pose-head", pictures.pose_head, 256, (4, 2048, 8, 6), 16, (2, 128, 4, 3)),
    Model("codec", codec.decoder, 768, (1, 1024, 32), 32, (2, 1024, 3)),
)
