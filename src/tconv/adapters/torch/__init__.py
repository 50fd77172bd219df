"""A drop-in for torch.nn's convolutions on CPUs.

``accelerate(model)`` replaces the layers of a model; the modules and functions have torch's own
names, arguments and results.  This package is imported on request only, and imports torch.
"""

from tconv.adapters.torch.fallback import FallbackWarning
from tconv.adapters.torch.functional import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from tconv.adapters.torch.modules import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from tconv.adapters.torch.replace import Report, accelerate, restore

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "FallbackWarning",
    "Report",
    "accelerate",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "restore",
]
