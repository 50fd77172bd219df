"""Transposed convolution and the whole convolution-gradient family on CPUs.

Operators by their documents' names: :mod:`tconv.onednn`, :mod:`tconv.openvino`,
:mod:`tconv.onnx`.  The same as NumPy functions: :func:`conv`, :func:`conv_transpose` and
their gradients.
"""

from tconv import onednn, onnx, openvino
from tconv.errors import (
    AmbiguousSpecWarning,
    InternalError,
    ProblemError,
    TconvError,
    UnsupportedError,
)
from tconv.ops import (
    conv,
    conv_grad_input,
    conv_grad_weight,
    conv_transpose,
    conv_transpose_grad_input,
    conv_transpose_grad_weight,
)
from tconv.threads import get_num_threads, set_num_threads
from tconv.translation import translate
from tconv.version import __version__

__all__ = [
    "AmbiguousSpecWarning",
    "InternalError",
    "ProblemError",
    "TconvError",
    "UnsupportedError",
    "__version__",
    "conv",
    "conv_grad_input",
    "conv_grad_weight",
    "conv_transpose",
    "conv_transpose_grad_input",
    "conv_transpose_grad_weight",
    "get_num_threads",
    "onednn",
    "onnx",
    "openvino",
    "set_num_threads",
    "translate",
]
