"""oneDNN Graph's eight operators of the family.

Sources: the pages ConvTransposeBackpropData-1 (preview), ConvTransposeBackwardData (v3),
ConvolutionBackpropData-1 (oneAPI specification) and their relatives; where a page
contradicts itself, oneDNN's own shape inference breaks the tie (docs/dialects.md).
"""

from tconv.dialects.onednn.forward import Convolution, ConvTranspose
from tconv.dialects.onednn.gradients import (
    ConvolutionBackpropData,
    ConvolutionBackwardData,
    ConvolutionBackwardWeights,
    ConvTransposeBackpropData,
    ConvTransposeBackwardData,
    ConvTransposeBackwardWeights,
)

__all__ = [
    "ConvTranspose",
    "ConvTransposeBackpropData",
    "ConvTransposeBackwardData",
    "ConvTransposeBackwardWeights",
    "Convolution",
    "ConvolutionBackpropData",
    "ConvolutionBackwardData",
    "ConvolutionBackwardWeights",
]
