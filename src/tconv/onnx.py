"""The operators of ONNX, by their documents' names."""

from tconv.calls import Runnable
from tconv.dialects import onnx as words

__all__ = ["Conv", "ConvTranspose"]


class Conv(words.Conv, Runnable):
    """Conv: ``op(X, W[, B])`` gives Y."""


class ConvTranspose(words.ConvTranspose, Runnable):
    """ConvTranspose: ``op(X, W[, B])`` gives Y."""
