"""The layers that speed is measured on, and the shapes of their arrays."""

import json
import math
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources

import numpy as np
import numpy.typing as npt

from tconv.problem import Axis, Layout, Operand, Problem, fine_points, numpy_dtype, window

Array = npt.NDArray[np.generic]
Shape = tuple[int, ...]

LAYOUTS = ("NXC", "NCX")
# torch's order in either layout: (C_in, C_out / groups, k...).
WEIGHTS_LAYOUT = Layout("gc f x")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One transposed convolution as people run it; its input is the coarse grid.

    FINE is its forward pass, COARSE the gradient by its input (a convolution over an array of
    the output's size), WEIGHTS the gradient by its weights.

    >>> layer = Layer(name="up", what="x2", batch=1, in_channels=8, out_channels=4, spatial=(5,),
    ...               kernel=(4,), strides=(2,), pads_begin=(1,), pads_end=(1,), dilations=(1,),
    ...               output_padding=(0,), groups=1)
    >>> layer.shape(Operand.FINE, "NXC"), layer.flops
    ((1, 10, 4), 1280)
    """

    name: str
    what: str
    batch: int
    in_channels: int
    out_channels: int
    spatial: Shape
    kernel: Shape
    strides: Shape
    pads_begin: Shape
    pads_end: Shape
    dilations: Shape
    output_padding: Shape
    groups: int

    @property
    def flops(self) -> int:
        """Multiplications and additions, those that meet the padding included.

        All three results cost the same, and implementations differ in what they leave out, so
        this one number is what every speed is counted in.
        """
        channels = self.in_channels * self.out_channels // self.groups
        return 2 * self.batch * channels * math.prod(self.spatial) * math.prod(self.kernel)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The relation on each spatial axis."""
        return tuple(
            Axis(
                fine_size=fine_points(coarse, window(taps, dilation), stride, begin + end, extra),
                coarse_size=coarse,
                taps=taps,
                stride=stride,
                dilation=dilation,
                pad_begin=begin,
            )
            for coarse, taps, stride, begin, end, dilation, extra in zip(
                self.spatial,
                self.kernel,
                self.strides,
                self.pads_begin,
                self.pads_end,
                self.dilations,
                self.output_padding,
                strict=True,
            )
        )

    @property
    def output_spatial(self) -> Shape:
        """The spatial sizes of the fine grid."""
        return tuple(axis.fine_size for axis in self.axes)

    def problem(self, wanted: Operand, layout: str = "NCX", dtype: str = "float32") -> Problem:
        """Return the question that this layer asks."""
        data = "n {} x" if layout == "NCX" else "n x {}"
        return Problem(
            wanted,
            batch=self.batch,
            groups=self.groups,
            coarse_channels=self.in_channels // self.groups,
            fine_channels=self.out_channels // self.groups,
            axes=self.axes,
            dtype=dtype,
            coarse_layout=Layout(data.format("gc")),
            fine_layout=Layout(data.format("gf")),
            weights_layout=WEIGHTS_LAYOUT,
        )

    def shape(self, operand: Operand, layout: str = "NCX") -> Shape:
        """Return the shape of one array; the weights have one shape in either layout."""
        return self.problem(operand, layout).shape(operand)

    def arrays(self, wanted: Operand, dtype: str = "float32") -> dict[Operand, Array]:
        """Return the two given arrays in NCX order, filled with numbers from -1 to 1.

        The numbers are the same every time, so that runs can be compared.
        """
        generator = np.random.default_rng(0)
        return {
            operand: generator.uniform(-1, 1, self.shape(operand)).astype(numpy_dtype(dtype))
            for operand in self.problem(wanted).given
        }


@cache
def load_suite() -> tuple[Layer, ...]:
    """Return the layers of the suite in its order.

    >>> load_suite()[0].name
    'dcgan_2'
    """
    text = (resources.files("tconv.bench") / "suite.json").read_text(encoding="utf-8")
    return tuple(parse_layer(record) for record in json.loads(text))


def parse_layer(record: dict[str, object]) -> Layer:
    """Return the layer of one record of the suite's file; JSON has lists where we have tuples."""
    values = {
        field.name: tuple(value) if isinstance(value := record[field.name], list) else value
        for field in fields(Layer)
    }
    return Layer(**values)  # type: ignore[arg-type] # the file is ours, and a test reads it whole
