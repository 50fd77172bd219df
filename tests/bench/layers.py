"""Tiny layers with everything that a peer can get wrong: ranks, groups, pads, holes, strides."""

from dataclasses import replace

from tconv.bench.suite import Layer

ONE = Layer(
    name="1-D",
    what="one axis, output padding",
    batch=2,
    in_channels=6,
    out_channels=4,
    spatial=(5,),
    kernel=(3,),
    strides=(2,),
    pads_begin=(1,),
    pads_end=(1,),
    dilations=(1,),
    output_padding=(1,),
    groups=1,
)
TWO = replace(
    ONE,
    name="2-D",
    what="another window on each axis, one of them dilated",
    in_channels=8,
    spatial=(5, 6),
    kernel=(3, 4),
    strides=(2, 1),
    pads_begin=(1, 2),
    pads_end=(1, 2),
    dilations=(2, 1),
    output_padding=(1, 0),
)
THREE = replace(
    ONE,
    name="3-D",
    what="non-overlapping windows",
    batch=1,
    spatial=(2, 3, 4),
    kernel=(2, 2, 2),
    strides=(2, 2, 2),
    pads_begin=(0, 0, 0),
    pads_end=(0, 0, 0),
    dilations=(1, 1, 1),
    output_padding=(0, 0, 0),
)
GROUPED = replace(ONE, name="grouped", what="two groups", groups=2)
DEPTHWISE = replace(
    TWO, name="depthwise", what="a group for each channel", out_channels=8, groups=8
)
UNEVEN = replace(TWO, name="uneven", what="other pads at the end", pads_end=(0, 1))
POINTWISE = replace(
    TWO, name="pointwise", what="stride > window", kernel=(1, 1), strides=(2, 2),
    pads_begin=(0, 0), pads_end=(0, 0), dilations=(1, 1), output_padding=(0, 0),
)  # fmt: skip

LAYERS = (ONE, TWO, THREE, GROUPED, DEPTHWISE)
