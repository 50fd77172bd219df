"""A short tour of the public interface; quick enough to run before every commit."""

from typing import Any

import numpy as np
import pytest

import tconv


def test_a_picture_goes_down_and_up_again() -> None:
    """The operator of the documents' title, and its transpose."""
    down = tconv.onednn.ConvTransposeBackwardData(
        strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1]
    )
    up = tconv.onednn.ConvTranspose(
        strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1]
    )
    picture = np.ones((1, 8, 8, 3), np.float32)
    weights = np.ones((4, 4, 3, 2), np.float32)
    small = down(picture, weights)

    assert small.shape == down.infer_shape(picture.shape, weights.shape) == (1, 4, 4, 2)
    assert down.resolve_pads(picture.shape, weights.shape) == ((1, 1), (1, 1))
    assert up(small, weights).shape == picture.shape
    assert (small[0, 1, 1] == 4 * 4 * 3).all()


def test_bound_weights_serve_pictures_of_any_size() -> None:
    """Weights are packed once, then used on every batch and spatial size."""
    op = tconv.openvino.GroupConvolutionBackpropData(
        strides=[2], pads_begin=[0], pads_end=[0], dilations=[1]
    )
    weights = np.arange(2 * 1 * 1 * 2, dtype=np.float32).reshape(2, 1, 1, 2)
    bound = op.bind(weights)
    for batch, size in ((1, 3), (2, 5)):
        data = np.ones((batch, 2, size), np.float32)
        out = np.empty((batch, 2, 2 * size), np.float32)

        np.testing.assert_array_equal(bound(data), op(data, weights))
        assert bound(data, out=out) is out


def test_a_wrong_call_is_explained() -> None:
    """The message of the design, letter by letter."""
    op = tconv.openvino.GroupConvolutionBackpropData(
        strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1]
    )
    with pytest.raises(tconv.ProblemError) as caught:
        op.infer_shape((1, 18, 224, 224), (4, 5, 2, 3, 3))

    assert str(caught.value) == (
        "openvino GroupConvolutionBackpropData: filter takes 4 x 5 = 20 input channels, "
        "but data has 18.\n"
        "  data    (1, 18, 224, 224)   N G*CIN X1 X2\n"
        "  filter  (4, 5, 2, 3, 3)     G CIN COUT K1 K2\n"
        "  rule    data.shape[1] == filter.shape[0] * filter.shape[1]"
        "   (GroupConvolutionBackpropData-1, input data)\n"
        "  fix     pass data with 20 channels"
    )


def test_two_readings_are_named_until_one_is_chosen() -> None:
    """The printed formula and the engine split an odd padding differently."""
    arguments: dict[str, Any] = {
        "strides": [2],
        "dilations": [1],
        "auto_pad": "same_upper",
        "output_shape": [7],
    }
    op = tconv.onednn.ConvolutionBackpropData(**arguments)
    with pytest.warns(tconv.AmbiguousSpecWarning, match=r"pads_begin \(0,\).*\n.*\(1,\)") as seen:
        pads = op.resolve_pads((1, 3, 5), (4, 2, 5))
    document = tconv.onednn.ConvolutionBackpropData(**arguments, reading="document")

    assert pads == ((0,), (1,))
    assert document.resolve_pads((1, 3, 5), (4, 2, 5)) == ((1,), (0,))
    assert seen[0].filename == __file__


def test_gradients_agree_with_the_operators_of_the_documents() -> None:
    """conv_transpose's gradient by its input is ConvTransposeBackwardData."""
    x, w = np.ones((1, 2, 4), np.float32), np.ones((2, 3, 3), np.float32)
    y = tconv.conv_transpose(x, w, stride=2)
    by_input = tconv.conv_transpose_grad_input(x.shape, w, y, stride=2)
    op = tconv.onednn.ConvTransposeBackwardData(
        strides=[2], pads_begin=[0], pads_end=[0], dilations=[1],
        data_format="NCX", weights_format="IOX",
    )  # fmt: skip

    np.testing.assert_array_equal(by_input, op(y, w))
    assert tconv.conv_transpose_grad_weight(x, w.shape, y, stride=2).shape == w.shape
