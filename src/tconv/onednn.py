"""The operators of oneDNN Graph, by their documents' names."""

from tconv.calls import Runnable
from tconv.dialects import onednn as words

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


class ConvTransposeBackpropData(words.ConvTransposeBackpropData, Runnable):
    """ConvTransposeBackpropData-1: ``op(output_delta, filter)`` gives input_delta."""


class ConvTransposeBackwardData(words.ConvTransposeBackwardData, Runnable):
    """ConvTransposeBackwardData: ``op(diff_dst, weights)`` gives diff_src."""


class ConvolutionBackpropData(words.ConvolutionBackpropData, Runnable):
    """ConvolutionBackpropData-1: ``op(data, filter[, output_shape])`` gives output."""


class Convolution(words.Convolution, Runnable):
    """Convolution: ``op(src, weights[, bias])`` gives dst."""


class ConvolutionBackwardData(words.ConvolutionBackwardData, Runnable):
    """ConvolutionBackwardData: ``op(diff_dst, weights[, dst_shape])`` gives diff_src."""


class ConvolutionBackwardWeights(words.ConvolutionBackwardWeights, Runnable):
    """ConvolutionBackwardWeights: ``op(src, diff_dst[, weights_shape])`` gives diff_weights."""


class ConvTranspose(words.ConvTranspose, Runnable):
    """ConvTranspose: ``op(src, weights[, bias])`` gives dst."""


class ConvTransposeBackwardWeights(words.ConvTransposeBackwardWeights, Runnable):
    """ConvTransposeBackwardWeights: ``op(src, diff_dst[, weights_shape])`` gives diff_weights."""
