"""What a dialect lacks, and what makes up for it; the explorer page reads this table too."""

NOTES = {
    "torch gather": "torch pads both ends alike: zeros are added to the data first.",
    "torch grow": "torch's output_padding is below stride or dilation: zeros are added at the end.",
    "torch crop": "torch pads both ends alike: the rest of the padding is cropped off the result.",
    "onnx grow": "output_padding is below the stride: zeros are added at the end.",
    "more": "all windows that fit are computed: those too many are cropped off the result.",
    "weights": "there is no gradient by weights: a convolution over the batch computes it.",
    "keras gather": 'the pads are neither "valid" nor "same": zeros are added to the data first.',
    "keras crop": 'the pads are neither "valid" nor "same": the result of "valid" is cropped.',
    "keras grow": 'the result is larger than that of "valid": zeros are added at the end.',
    "keras groups": "conv_transpose has no groups: each is computed by itself.",
    "keras spread": "strides with a dilation_rate are refused: zeros are put between taps instead.",
}
