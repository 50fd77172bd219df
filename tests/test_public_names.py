"""The public names are a contract."""

import inspect

import tconv
from tconv import onednn, onnx, openvino

FUNCTIONS = {
    "conv": "input weight bias stride padding dilation groups layout out",
    "conv_transpose": "input weight bias stride padding output_padding groups dilation layout out",
    "conv_grad_input": "input_shape weight grad_output stride padding dilation groups layout out",
    "conv_grad_weight": "input weight_shape grad_output stride padding dilation groups layout out",
    "conv_transpose_grad_input": "input_shape weight grad_output stride padding output_padding"
    " groups dilation layout out",
    "conv_transpose_grad_weight": "input weight_shape grad_output stride padding output_padding"
    " groups dilation layout out",
}


def test_all_is_sorted_and_every_name_is_there() -> None:
    """``__all__`` lists what exists, in order."""
    for module in (tconv, onednn, onnx, openvino):
        names = list(module.__all__)

        assert names == sorted(names)
        assert all(hasattr(module, name) for name in names)


def test_the_functions_take_torchs_arguments_in_torchs_order() -> None:
    """Users of torch.nn.functional and torch.nn.grad find their arguments."""
    for name, arguments in FUNCTIONS.items():
        signature = inspect.signature(getattr(tconv, name))

        assert list(signature.parameters) == arguments.split()


def test_every_operator_has_the_whole_interface() -> None:
    """Each class can be called, bound, planned and asked for shapes and pads."""
    kinds = [
        getattr(module, name)
        for module in (onednn, onnx, openvino)
        for name in module.__all__
        if name[0] == "C" or name[0] == "G"
    ]

    assert len(kinds) == 14
    for kind in kinds:
        for method in ("__call__", "bind", "plan", "infer_shape", "resolve_pads"):
            assert callable(getattr(kind, method))
        assert kind.__doc__
        assert inspect.signature(kind).parameters


def test_the_version_is_one_text() -> None:
    """Programs can ask which version runs."""
    assert tconv.__version__.count(".") == 2
