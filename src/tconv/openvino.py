"""The operators of OpenVINO, by their documents' names, and their ``<layer>`` elements."""

import dataclasses
from typing import NamedTuple

from tconv.calls import Runnable
from tconv.dialects import openvino as words
from tconv.dialects.call import Shape, shape_text
from tconv.dialects.openvino_xml import read_layer
from tconv.errors import ProblemError

__all__ = [
    "Convolution",
    "ConvolutionBackpropData",
    "GroupConvolution",
    "GroupConvolutionBackpropData",
    "Layer",
    "from_xml",
]


class GroupConvolutionBackpropData(words.GroupConvolutionBackpropData, Runnable):
    """GroupConvolutionBackpropData-1: ``op(data, filter[, output_shape])`` gives output."""


class ConvolutionBackpropData(words.ConvolutionBackpropData, Runnable):
    """ConvolutionBackpropData-1: ``op(data, filter[, output_shape])`` gives output."""


class Convolution(words.Convolution, Runnable):
    """Convolution-1: ``op(data, filter)`` gives output."""


class GroupConvolution(words.GroupConvolution, Runnable):
    """GroupConvolution-1: ``op(data, filter)`` gives output."""


Operators = GroupConvolutionBackpropData | ConvolutionBackpropData | Convolution | GroupConvolution

_KINDS: dict[str, type[Operators]] = {
    kind.__name__: kind
    for kind in (
        GroupConvolutionBackpropData,
        ConvolutionBackpropData,
        Convolution,
        GroupConvolution,
    )
}


class Layer(NamedTuple):
    """An operator with the shapes of its ports, ready for ``operator.infer_shape(*shapes)``.

    With a third port (output_shape) the shapes end with its values, taken from the
    spatial sizes of the output port.
    """

    operator: Operators
    shapes: tuple[Shape, ...]


def from_xml(text: str) -> Layer:
    """Read a ``<layer>`` element into an operator with its port shapes.

    >>> op, shapes = from_xml('''
    ...   <layer type="GroupConvolutionBackpropData">
    ...     <data dilations="1,1" pads_begin="1,1" pads_end="1,1" strides="2,2"/>
    ...     <input>
    ...       <port id="0"> <dim>1</dim> <dim>20</dim> <dim>224</dim> <dim>224</dim> </port>
    ...       <port id="1"> <dim>4</dim> <dim>5</dim> <dim>2</dim> <dim>3</dim> <dim>3</dim> </port>
    ...     </input>
    ...   </layer>''')
    >>> op.infer_shape(*shapes)
    (1, 8, 447, 447)
    """
    attributes = {
        name: [each.name for each in dataclasses.fields(kind) if each.name != "reading"]
        for name, kind in _KINDS.items()
    }
    layer = read_layer(text, attributes)
    op = _KINDS[layer.kind](**layer.attributes)  # type: ignore[arg-type]
    shapes = layer.inputs
    most = 2 if op.third is None else 3
    if not 2 <= len(shapes) <= most:
        raise _refuse(
            op,
            layer.inputs,
            f"there are {len(shapes)} input ports.",
            f"write 2{' or 3' if most == 3 else ''} <port> elements in <input>",
        )
    if len(shapes) == 3:
        if layer.output is None:
            raise _refuse(
                op,
                layer.inputs,
                "output_shape is a port, but there is no <output>.",
                "write the output port; its sizes are the values of output_shape",
            )
        shapes = (*shapes[:2], layer.output[2:])
    inferred = op.infer_shape(*shapes)
    if layer.output is not None and not _fits(inferred, layer.output):
        raise _refuse(
            op,
            layer.inputs,
            f"the output port says {shape_text(layer.output)}, but "
            f"the inputs give {shape_text(inferred)}.",
            "mend the output port, or leave it out",
        )
    return Layer(op, shapes)


def _fits(inferred: Shape, said: Shape) -> bool:
    return len(inferred) == len(said) and all(
        None in pair or pair[0] == pair[1] for pair in zip(inferred, said, strict=True)
    )


def _refuse(op: Operators, inputs: tuple[Shape, ...], wrong: str, fix: str) -> ProblemError:
    return ProblemError(
        op.title(),
        wrong,
        got={f"port {i}": shape_text(s) for i, s in enumerate(inputs)},
        rule="the ports are data, filter and, for *BackpropData, output_shape"
        f"   ({op.document}, inputs)",
        fix=fix,
    )
