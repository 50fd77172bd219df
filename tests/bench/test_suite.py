"""The suite's layers have the sizes and flops that the suite is known by."""

import dataclasses
from importlib import resources

import numpy as np
import pytest

from tconv.bench.suite import LAYOUTS, Layer, load_suite, parse_layer
from tconv.problem import Operand

# name: (spatial sizes of the output, flops), as the suite was first written down.
KNOWN: dict[str, tuple[tuple[int, ...], int]] = {
    "dcgan_2": ((16, 16), 2_147_483_648),
    "dcgan_4": ((64, 64), 2_147_483_648),
    "dcgan_rgb": ((128, 128), 201_326_592),
    "pose_up": ((64, 48), 1_610_612_736),
    "pix2pix_in": ((4, 4), 33_554_432),
    "unet_up1": ((56, 56), 3_288_334_336),
    "unet_up4": ((392, 392), 2_517_630_976),
    "style_up": ((256, 256), 2_415_919_104),
    "s1_3x3": ((64, 64), 1_207_959_552),
    "dil_3x3": ((64, 64), 1_207_959_552),
    "fsrcnn": ((384, 384), 148_635_648),
    "big-k2d": ((128, 128), 536_870_912),
    "fcn_dw": ((512, 512), 44_040_192),
    "centernet_dw": ((128, 128), 33_554_432),
    "grouped_4": ((64, 64), 536_870_912),
    "dw-1d": ((96,), 3_145_728),
    "dw-2d": ((28, 28), 51_380_224),
    "hifigan_1": ((1600,), 838_860_800),
    "hifigan_2": ((12800,), 1_677_721_600),
    "hifigan_4": ((51200,), 419_430_400),
    "encodec": ((5001,), 655_360_000),
    "oobleck-2": ((1200,), 2_516_582_400),
    "istft-a": ((58112,), 470_679_552),
    "nnunet_up": ((96, 96, 96), 3_623_878_656),
    "unet3d-b": ((32, 40, 48), 4_026_531_840),
    "vnet_deep": ((16, 16, 16), 905_969_664),
    "gan3d": ((16, 16, 16), 8_589_934_592),
    "3d-one": ((128, 128, 64), 452_984_832),
}
every_layer = pytest.mark.parametrize("layer", load_suite(), ids=lambda layer: layer.name)


def test_the_suite_has_every_known_layer_in_order() -> None:
    """No layer is lost, added or renamed unseen."""
    assert [layer.name for layer in load_suite()] == list(KNOWN)


@every_layer
def test_sizes_and_flops_are_derived_right(layer: Layer) -> None:
    """What the file leaves out follows from what it has."""
    assert (layer.output_spatial, layer.flops) == KNOWN[layer.name]


@every_layer
def test_flops_count_what_meets_the_padding_too(layer: Layer) -> None:
    """The definition never needs more, and just as much where nothing is padded."""
    needed = layer.problem(Operand.FINE).flops()
    padded = any(layer.pads_begin + layer.pads_end)

    assert needed < layer.flops if padded else needed == layer.flops


@every_layer
@pytest.mark.parametrize("layout", LAYOUTS)
def test_shapes_have_channels_where_the_layout_says(layer: Layer, layout: str) -> None:
    """Data follows the layout; weights lie as torch has them in either."""
    coarse, fine = layer.shape(Operand.COARSE, layout), layer.shape(Operand.FINE, layout)
    weights = (layer.in_channels, layer.out_channels // layer.groups, *layer.kernel)
    channels = slice(1, 2) if layout == "NCX" else slice(-1, None)

    assert coarse[channels] == (layer.in_channels,)
    assert fine[channels] == (layer.out_channels,)
    assert sorted(coarse) == sorted((layer.batch, layer.in_channels, *layer.spatial))
    assert sorted(fine) == sorted((layer.batch, layer.out_channels, *layer.output_spatial))
    assert layer.shape(Operand.WEIGHTS, layout) == weights


@pytest.mark.parametrize("wanted", list(Operand))
def test_arrays_are_the_two_given_ones_and_always_the_same(wanted: Operand) -> None:
    """Two runs measure the same numbers."""
    layer = next(layer for layer in load_suite() if layer.name == "dw-1d")
    arrays, again = layer.arrays(wanted), layer.arrays(wanted)

    assert set(arrays) == set(Operand) - {wanted}
    for operand, array in arrays.items():
        assert array.shape == layer.shape(operand)
        assert array.dtype == np.float32
        assert np.abs(array).max() <= 1
        np.testing.assert_array_equal(array, again[operand])


def test_the_file_ships_inside_the_package() -> None:
    """A wheel holds everything inside the package's folder."""
    assert (resources.files("tconv.bench") / "suite.json").is_file()


def test_a_record_without_a_number_is_noticed() -> None:
    """A layer is never completed by guessing."""
    record = dataclasses.asdict(load_suite()[0])
    del record["strides"]

    with pytest.raises(KeyError, match="strides"):
        parse_layer(record)
