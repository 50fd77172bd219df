"""The NumPy functions give what PyTorch gives, gradients and short types included."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tconv
from engines import require
from live.compare import check_equal, check_rounded
from live.geometry import QUICK, THOROUGH, Geometry, gathered, scattered

torch = require.module("torch")
functional = torch.nn.functional
torch.set_num_threads(1)  # the cases are small: threads would only wait for each other

pytestmark = pytest.mark.filterwarnings(
    # For padding='same' where both ends cannot be padded alike.
    "ignore:Using padding='same' with even kernel lengths:UserWarning"
)

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

LAYOUTS = st.sampled_from(["NCX", "NXC"])
# The exact value is torch's float64: in short types it rounds parts of a sum on their way.
SHORT = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
FUNCTIONS = {
    "conv": gathered(symmetric=True),
    "conv_grad_input": gathered(symmetric=True),
    "conv_grad_weight": gathered(symmetric=True),
    "conv_transpose": scattered(symmetric=True),
    "conv_transpose_grad_input": scattered(symmetric=True),
    "conv_transpose_grad_weight": scattered(symmetric=True),
}
every_function = pytest.mark.parametrize("name", FUNCTIONS)


@dataclass(frozen=True)
class Roles:
    """Which side of the geometry a function calls its input, and which its output."""

    input: str
    output: str


def roles(name: str) -> Roles:
    """Return the roles of a function's forward operator."""
    return Roles("coarse", "fine") if "transpose" in name else Roles("fine", "coarse")


def arguments(name: str, case: Geometry) -> dict[str, Any]:
    """Return the arguments that tconv and torch both take."""
    more = {"output_padding": case.each("extra")} if "transpose" in name else {}
    return {
        "stride": case.each("stride"),
        "padding": case.each("begin"),
        "dilation": case.each("dilation"),
        "groups": case.groups,
        **more,
    }


def operands(
    name: str, make: Callable[[str], Array], *, with_bias: bool = False
) -> dict[str, Array]:
    """Return a function's arrays: input, weight, grad_output and perhaps a bias."""
    role = roles(name)
    arrays = {
        "input": make(role.input),
        "weight": make("weights"),
        "grad_output": make(role.output),
    }
    return {**arrays, "bias": make(f"{role.output} bias")} if with_bias else arrays


def turned(array: Array, layout: str) -> Array:
    """Move the channels of NCX data to where the layout has them."""
    return array if layout == "NCX" else np.moveaxis(array, 1, -1)


def our_result(name: str, arrays: Arrays, layout: str = "NCX", **given_arguments: Any) -> Array:  # noqa: ANN401 - passed on
    """Call tconv's function; a result that is data comes back as NCX."""
    data, gradient = (turned(arrays[each], layout) for each in ("input", "grad_output"))
    function = getattr(tconv, name)
    if name.endswith("grad_input"):
        result = function(data.shape, arrays["weight"], gradient, layout=layout, **given_arguments)
    elif name.endswith("grad_weight"):
        shape = arrays["weight"].shape
        result = function(data, shape, gradient, layout=layout, **given_arguments)
        return np.asarray(result)
    else:
        weight, bias = arrays["weight"], arrays.get("bias")
        result = function(data, weight, bias, layout=layout, **given_arguments)
    return result if layout == "NCX" else np.moveaxis(result, -1, 1)


def their_result(name: str, tensors: Mapping[str, Any], rank: int, **given_arguments: Any) -> Any:  # noqa: ANN401 - passed on
    """Call torch's function, or let autograd differentiate it."""
    kind = "conv_transpose" if "transpose" in name else "conv"
    forward = getattr(functional, f"{kind}{rank}d")
    data, weight = (tensors[each].clone().requires_grad_() for each in ("input", "weight"))
    result = forward(data, weight, tensors.get("bias"), **given_arguments)
    if name.endswith("grad_input"):
        (result,) = torch.autograd.grad(result, data, tensors["grad_output"])
    elif name.endswith("grad_weight"):
        (result,) = torch.autograd.grad(result, weight, tensors["grad_output"])
    return result.detach()


def as_tensors(arrays: Arrays, dtype: Any = None) -> dict[str, Any]:  # noqa: ANN401 - torch is not typed
    """Return torch tensors of a type with the same values."""
    dtype = dtype or torch.float32
    return {
        each: torch.tensor(array.astype(np.float64)).to(dtype) for each, array in arrays.items()
    }


@every_function
def test_whole_numbers_give_the_same_float32(name: str) -> None:
    """All attributes in one to three dimensions and both layouts, to the last bit."""

    @settings(THOROUGH)
    @given(FUNCTIONS[name], LAYOUTS, st.booleans())
    def agree(case: Geometry, layout: str, with_bias: bool) -> None:  # noqa: FBT001 - drawn
        arrays = operands(name, case.array, with_bias=with_bias)
        theirs = their_result(name, as_tensors(arrays), case.rank, **arguments(name, case))

        check_equal(our_result(name, arrays, layout, **arguments(name, case)), theirs.numpy())

    agree()


@pytest.mark.parametrize("name", ["conv", "conv_grad_input", "conv_grad_weight"])
@pytest.mark.parametrize("word", ["same", "valid"])
def test_padding_in_words_means_what_it_means_in_torch(name: str, word: str) -> None:
    """Even windows get their odd pad at the end; gradients know the words too."""

    @settings(QUICK)
    @given(gathered(auto_pads=["valid"]), LAYOUTS)
    def agree(case: Geometry, layout: str) -> None:
        given_arguments = {**arguments(name, case), "padding": word}
        arrays = operands(name, case.array)
        if word == "same":  # torch has it for stride 1 alone, where both sides are alike
            given_arguments["stride"] = 1
            size = (case.batch, case.groups * case.coarse_channels, *case.each("fine"))
            arrays["grad_output"] = np.resize(arrays["grad_output"], size)
        theirs = their_result(name, as_tensors(arrays), case.rank, **given_arguments)

        check_equal(our_result(name, arrays, layout, **given_arguments), theirs.numpy())

    agree()


@settings(QUICK)
@given(gathered(symmetric=True))
def test_torch_nn_grad_gives_the_same_gradients(case: Geometry) -> None:
    """torch.nn.grad takes its arguments in the same order."""
    arrays, given_arguments = operands("conv", case.array), arguments("conv", case)
    tensors = as_tensors(arrays)
    of_input = getattr(torch.nn.grad, f"conv{case.rank}d_input")
    of_weight = getattr(torch.nn.grad, f"conv{case.rank}d_weight")
    shape, weight_shape = arrays["input"].shape, arrays["weight"].shape

    check_equal(
        tconv.conv_grad_input(shape, arrays["weight"], arrays["grad_output"], **given_arguments),
        of_input(shape, tensors["weight"], tensors["grad_output"], **given_arguments).numpy(),
    )
    check_equal(
        tconv.conv_grad_weight(
            arrays["input"], weight_shape, arrays["grad_output"], **given_arguments
        ),
        of_weight(
            tensors["input"], weight_shape, tensors["grad_output"], **given_arguments
        ).numpy(),
    )


@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
def test_an_input_without_a_batch_gives_a_result_without_one(name: str) -> None:
    """One axis fewer than the weight, as in torch."""

    @settings(QUICK)
    @given(FUNCTIONS[name])
    def agree(case: Geometry) -> None:
        arrays = operands(name, case.array, with_bias=True)
        arrays["input"] = arrays["input"][0]
        theirs = their_result(name, as_tensors(arrays), case.rank, **arguments(name, case))
        ours = getattr(tconv, name)(
            arrays["input"], arrays["weight"], arrays["bias"], **arguments(name, case)
        )

        check_equal(ours, theirs.numpy())

    agree()


@every_function
def test_torch_tensors_are_taken_as_they_are(name: str) -> None:
    """Tensors of torch on the CPU need no conversion, whatever their strides."""

    @settings(QUICK)
    @given(FUNCTIONS[name], LAYOUTS)
    def agree(case: Geometry, layout: str) -> None:
        arrays = operands(name, case.array)
        tensors = {
            each: tensor if each == "weight" or layout == "NCX" else tensor.movedim(1, -1)
            for each, tensor in as_tensors(arrays).items()
        }
        given_arguments = {**arguments(name, case), "layout": layout}
        data, weight, gradient = tensors["input"], tensors["weight"], tensors["grad_output"]
        parts = {
            "input": (data.shape, weight, gradient),
            "weight": (data, weight.shape, gradient),
        }.get(name.rpartition("_grad_")[2], (data, weight))
        ours = getattr(tconv, name)(*parts, **given_arguments)
        if layout == "NXC" and not name.endswith("grad_weight"):
            ours = np.moveaxis(ours, -1, 1)

        check_equal(ours, our_result(name, arrays, **arguments(name, case)))

    agree()


@every_function
@pytest.mark.parametrize("short", SHORT)
def test_short_types_are_added_up_in_float32_and_rounded_once(name: str, short: str) -> None:
    """Numbers with all the digits that the type has."""
    dtype = SHORT[short]

    @settings(QUICK)
    @given(FUNCTIONS[name], LAYOUTS, st.booleans())
    def agree(case: Geometry, layout: str, with_bias: bool) -> None:  # noqa: FBT001 - drawn
        arrays = operands(name, lambda role: case.noise(role).astype(dtype), with_bias=with_bias)
        absolute = {each: np.abs(array.astype(np.float64)) for each, array in arrays.items()}
        exact, magnitude = (
            their_result(name, as_tensors(a, torch.float64), case.rank, **arguments(name, case))
            for a in (arrays, absolute)
        )
        ours = our_result(name, arrays, layout, **arguments(name, case))

        assert ours.dtype == dtype
        check_rounded(ours, exact.numpy(), magnitude.numpy(), most_terms(case))

    agree()


@every_function
@pytest.mark.parametrize("short", SHORT)
def test_whole_numbers_too_large_for_a_short_type_are_rounded_once(name: str, short: str) -> None:
    """Sums beyond 256 or 2048 are exact in float32: rounding them is the only rounding."""
    dtype = SHORT[short]

    @settings(QUICK)
    @given(FUNCTIONS[name], LAYOUTS, st.booleans())
    def agree(case: Geometry, layout: str, with_bias: bool) -> None:  # noqa: FBT001 - drawn
        arrays = operands(name, lambda role: 8 * case.array(role) + 1, with_bias=with_bias)
        tensors = as_tensors(arrays, torch.float64)
        exact = their_result(name, tensors, case.rank, **arguments(name, case))
        shortened = {each: array.astype(dtype) for each, array in arrays.items()}
        ours = our_result(name, shortened, layout, **arguments(name, case))

        check_equal(ours, exact.numpy().astype(dtype))

    agree()


@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
def test_what_torch_refuses_is_refused(name: str) -> None:
    """Windows that do not fit, results without elements, too much output_padding."""

    @settings(THOROUGH)
    @given(FUNCTIONS[name], st.integers(0, 4), st.integers(1, 9), st.integers(0, 4))
    def agree(case: Geometry, padding: int, size: int, extra: int) -> None:
        given_arguments = {**arguments(name, case), "padding": padding}
        if name == "conv_transpose":
            given_arguments["output_padding"] = extra
        arrays = operands(name, case.array)
        arrays["input"] = np.resize(
            arrays["input"], (*arrays["input"].shape[:2], *[size] * case.rank)
        )
        try:
            theirs = their_result(name, as_tensors(arrays), case.rank, **given_arguments)
        except (RuntimeError, ValueError):
            theirs = torch.empty(0)
        if theirs.numel():
            check_equal(our_result(name, arrays, **given_arguments), theirs.numpy())
            return
        # Some of torch's kernels refuse an empty result, others return it: we refuse.
        with pytest.raises(tconv.ProblemError):
            our_result(name, arrays, **given_arguments)

    agree()


def most_terms(case: Geometry) -> int:
    """Return a number of products that no element of any result exceeds, and the bias."""
    along = {"coarse": 1, "taps": 1}
    for field in along:
        for size in case.each(field):
            along[field] *= size
    channels = max(case.coarse_channels, case.fine_channels)
    return max(along["taps"] * channels, along["coarse"] * case.batch) + 1
