"""The oneDNN Graph driver computes what a brute-force loop computes, and admits refusals."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from engines import onednn_graph

Array = npt.NDArray[Any]

pytestmark = pytest.mark.skipif(
    onednn_graph.unavailable() is not None, reason=onednn_graph.unavailable() or "usable"
)

# What each kind reads, in its own order, and what it returns.  "coarse" is the side whose
# positions are a stride apart on the other: a Convolution's output, a ConvTranspose's input.
ROLES = {
    "Convolution": ("fine", "weights", "coarse"),
    "ConvolutionBackwardData": ("coarse", "weights", "fine"),
    "ConvolutionBackwardWeights": ("fine", "coarse", "weights"),
    "ConvTranspose": ("coarse", "weights", "fine"),
    "ConvTransposeBackwardData": ("fine", "weights", "coarse"),
    "ConvTransposeBackwardWeights": ("coarse", "fine", "weights"),
}
SUMS = {"fine": "ngc,gcf->ngf", "coarse": "ngf,gcf->ngc", "weights": "ngc,ngf->gcf"}


@dataclass(frozen=True)
class Case:
    """The sizes of one case; channels are per group, and pads_begin is what auto_pad must give."""

    coarse: tuple[int, ...]
    fine: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    dilations: tuple[int, ...]
    auto_pad: str = "none"
    groups: int = 1
    coarse_channels: int = 3
    fine_channels: int = 2


LINE = Case((4,), (8,), (4,), (2,), (1,), (1,), (1,))
PLANE = Case((3, 5), (6, 5), (3, 2), (2, 1), (1, 0), (0, 1), (1, 1))
SPACE = Case((2, 3, 2), (5, 3, 4), (3, 2, 2), (2, 1, 2), (0, 1, 0), (0, 0, 0), (1, 1, 1))
PLAIN = {"1-D": LINE, "2-D": PLANE, "3-D": SPACE}
GROUPED = {
    "1-D": replace(LINE, groups=2),
    "2-D": replace(PLANE, groups=3),
    "3-D": replace(SPACE, groups=2),
    "depthwise": replace(PLANE, groups=4, coarse_channels=1, fine_channels=1),
}
# Both axes need three pads.
SAME = Case((4, 5), (8, 5), (5, 4), (2, 1), (1, 1), (2, 2), (1, 1), "same_upper")
SAME_LOWER = replace(SAME, pads_begin=(2, 2), pads_end=(1, 1), auto_pad="same_lower")
DILATED = Case((3, 4), (9, 4), (3, 2), (2, 1), (0, 1), (0, 1), (2, 2))


def arrays(case: Case) -> dict[str, Array]:
    """Return small whole numbers, so that float32 sums are exact; groups are axis 1, or 0."""
    random = np.random.default_rng(7)
    groups, batch = case.groups, 2
    shapes = {
        "coarse": (batch, groups, case.coarse_channels, *case.coarse),
        "fine": (batch, groups, case.fine_channels, *case.fine),
        "weights": (groups, case.coarse_channels, case.fine_channels, *case.kernel),
    }
    return {role: random.integers(-4, 5, shape) for role, shape in shapes.items()}


def brute_force(case: Case, values: Mapping[str, Array], wanted: str) -> Array:
    """Add up all products, one pair of coarse position and kernel tap after the other."""
    total = np.zeros_like(values[wanted])
    axes = range(len(case.kernel))
    for coarse in np.ndindex(*case.coarse):
        for tap in np.ndindex(*case.kernel):
            fine = tuple(
                coarse[i] * case.strides[i] + tap[i] * case.dilations[i] - case.pads_begin[i]
                for i in axes
            )
            if all(0 <= fine[i] < case.fine[i] for i in axes):
                at = {"coarse": (..., *coarse), "fine": (..., *fine), "weights": (..., *tap)}
                read = [values[role][at[role]] for role in at if role != wanted]
                total[at[wanted]] += np.einsum(SUMS[wanted], *read)
    return total


def in_memory(role: str, array: Array, *, channels_last: bool) -> Array:
    """Merge the groups into the channels that they divide, and order the axes as a format does.

    The filter is OIX or XIO to a Convolution; a ConvTranspose calls the same memory IOX or XOI.
    """
    if role == "weights":
        merged = array.reshape(-1, *array.shape[2:])
        return np.moveaxis(merged, (1, 0), (-2, -1)) if channels_last else merged
    merged = array.reshape(array.shape[0], -1, *array.shape[3:])
    return np.moveaxis(merged, 1, -1) if channels_last else merged


def computed_and_expected(
    kind: str,
    case: Case,
    data_format: str = "NCX",
    *,
    weights_last: bool = False,
    dtype: npt.DTypeLike = np.float32,
    **more: object,
) -> tuple[Array, Array]:
    """Return the engine's result and the brute-force one; more attributes may be given."""
    *read, wanted = ROLES[kind]
    last = {"coarse": data_format == "NXC", "fine": data_format == "NXC", "weights": weights_last}
    values = arrays(case)
    total = brute_force(case, values, wanted)
    expected = in_memory(wanted, total, channels_last=last[wanted])
    formats = ("IOX", "XOI") if "Transpose" in kind else ("OIX", "XIO")
    attributes: dict[str, object] = {
        "strides": case.strides,
        # Pads that must not count under auto_pad are given wrong on purpose.
        "pads_begin": case.pads_begin if case.auto_pad == "none" else (0,) * len(case.kernel),
        "pads_end": case.pads_end if case.auto_pad == "none" else (0,) * len(case.kernel),
        "dilations": list(case.dilations),
        "auto_pad": case.auto_pad,
        "groups": case.groups,
        "data_format": data_format,
        "weights_format": formats[weights_last],
    }
    if kind == "ConvolutionBackwardData":
        attributes["dst_shape"] = expected.shape
    if wanted == "weights":
        attributes["weights_shape"] = expected.shape
    inputs = [
        in_memory(role, values[role], channels_last=last[role]).astype(dtype) for role in read
    ]
    return onednn_graph.run(kind, {**attributes, **more}, inputs, expected.shape), expected


def check(kind: str, case: Case, data_format: str = "NCX", *, weights_last: bool = False) -> None:
    """Fail unless the engine agrees with the brute-force loop to the last bit."""
    computed, expected = computed_and_expected(kind, case, data_format, weights_last=weights_last)
    np.testing.assert_array_equal(computed, expected)
    assert computed.dtype == np.float32


@pytest.mark.parametrize("weights_last", [False, True], ids=["weights X last", "weights X first"])
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("case", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize("kind", ROLES)
def test_every_kind_agrees_with_the_brute_force_loop(
    kind: str, case: Case, data_format: str, *, weights_last: bool
) -> None:
    """All kinds, ranks and formats, with strides and one-sided pads."""
    check(kind, case, data_format, weights_last=weights_last)


@pytest.mark.parametrize("weights_last", [False, True], ids=["weights X last", "weights X first"])
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("case", GROUPED.values(), ids=GROUPED)
@pytest.mark.parametrize("kind", [kind for kind in ROLES if kind != "ConvolutionBackwardData"])
def test_groups_are_blocks_of_channels(
    kind: str, case: Case, data_format: str, *, weights_last: bool
) -> None:
    """The coarse side's channels are the blocked ones in every filter format."""
    check(kind, case, data_format, weights_last=weights_last)


@pytest.mark.parametrize("case", [SAME, SAME_LOWER], ids=["upper", "lower"])
@pytest.mark.parametrize("kind", ROLES)
def test_same_padding_puts_the_odd_element_where_its_name_says(kind: str, case: Case) -> None:
    """SAME_UPPER pads more at the end and SAME_LOWER more at the beginning, in every kind."""
    check(kind, case)


@pytest.mark.parametrize("kind", [kind for kind in ROLES if kind != "ConvTransposeBackwardData"])
def test_dilations_spread_the_kernel(kind: str) -> None:
    """Dilations are honoured, except by ConvTransposeBackwardData, which has its own test."""
    check(kind, DILATED)


def test_output_padding_lengthens_a_transposed_convolution() -> None:
    """The added elements are at the end."""
    case = replace(LINE, fine=(9,))
    computed, expected = computed_and_expected("ConvTranspose", case, output_padding=[1])
    np.testing.assert_array_equal(computed, expected)


@pytest.mark.parametrize("kind", ["Convolution", "ConvTranspose"])
def test_a_third_input_is_the_bias(kind: str) -> None:
    """Each output channel starts from its own bias."""
    attributes = {
        "strides": [1],
        "pads_begin": [0],
        "pads_end": [0],
        "dilations": [1],
        "data_format": "NCX",
        "weights_format": "IOX" if "Transpose" in kind else "OIX",
    }
    data, weights = np.ones((1, 1, 3), np.float32), np.ones((1, 2, 1), np.float32)
    weights = weights if "Transpose" in kind else weights.reshape(2, 1, 1)
    bias = np.array([10, 20], np.float32)
    computed = onednn_graph.run(kind, attributes, [data, weights, bias], (1, 2, 3))
    np.testing.assert_array_equal(computed, [[[11, 11, 11], [21, 21, 21]]])


@pytest.mark.parametrize("kind", ROLES)
def test_a_wrong_value_would_be_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check fails when one element of the result is off by one."""
    right = onednn_graph.run

    def off_by_one(*arguments: Any) -> Array:  # noqa: ANN401 - passed on as they are
        result = right(*arguments)
        result.flat[-1] += 1
        return result

    monkeypatch.setattr(onednn_graph, "run", off_by_one)
    with pytest.raises(AssertionError, match="Mismatched elements: 1 /"):
        check(kind, PLANE)


@pytest.mark.parametrize("axis", range(3), ids=["channels", "filters", "kernel"])
def test_the_cases_tell_swapped_and_flipped_filters_apart(axis: int) -> None:
    """Turning a filter around along any axis changes the expected value."""
    values = arrays(PLANE)
    turned = {**values, "weights": np.flip(values["weights"], axis + 1)}
    assert not np.array_equal(
        brute_force(PLANE, values, "coarse"), brute_force(PLANE, turned, "coarse")
    )


def test_groups_on_convolution_backward_data_are_refused() -> None:
    """The engine's shape inference does not accept a case that its document allows."""
    with pytest.raises(
        onednn_graph.Refused, match=r"^dnnl_graph_partition_compile: invalid_shape$"
    ):
        check("ConvolutionBackwardData", GROUPED["1-D"])


def test_output_padding_on_a_gradient_is_refused() -> None:
    """The document lists the attribute, the engine does not know it there."""
    with pytest.raises(onednn_graph.Refused, match=r"^dnnl_graph_add_op: invalid_graph_op$"):
        computed_and_expected("ConvTransposeBackwardData", LINE, output_padding=[0])


def test_a_dtype_that_the_engine_lacks_is_refused() -> None:
    """No operation of the family takes float64."""
    with pytest.raises(onednn_graph.Refused, match="dtype float64"):
        computed_and_expected("Convolution", LINE, dtype=np.float64)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_half_precision_computes_or_is_refused(dtype: npt.DTypeLike) -> None:
    """Which of the two depends on the machine and on ONEDNN_MAX_CPU_ISA."""
    try:
        computed, expected = computed_and_expected("ConvTranspose", LINE, dtype=dtype)
    except onednn_graph.Refused as refusal:
        assert "could not create a primitive descriptor" in str(refusal)  # noqa: PT017 - both ends are right
    else:
        np.testing.assert_array_equal(computed.astype(np.int64), expected)


def test_an_abort_of_the_engine_is_a_refusal_and_the_next_call_works() -> None:
    """Dilations drop out of ConvTransposeBackwardData, and then no implementation fits."""
    with pytest.raises(onednn_graph.Refused, match=r"SIGABRT: could not create a primitive"):
        check("ConvTransposeBackwardData", DILATED)
    check("ConvTransposeBackwardData", PLANE)


def test_dilations_drop_out_of_conv_transpose_backward_data() -> None:
    """Where sizes fit a dense kernel too, the engine silently computes with that."""
    case = Case((2,), (5,), (2,), (2,), (0,), (0,), (2,))
    computed, documented = computed_and_expected("ConvTransposeBackwardData", case)
    assert not np.array_equal(computed, documented)
    dense = replace(case, dilations=(1,))
    values = brute_force(dense, arrays(dense), "coarse")
    np.testing.assert_array_equal(computed, in_memory("coarse", values, channels_last=False))


def test_conv_transpose_backward_weights_takes_same_pads_from_the_wrong_side() -> None:
    """Six elements, stride 2 and kernel 3 need one pad; the engine looks at three and pads two."""
    case = Case((3,), (6,), (3,), (2,), (0,), (1,), (1,), "same_upper")
    computed, documented = computed_and_expected("ConvTransposeBackwardWeights", case)
    assert not np.array_equal(computed, documented)
    wrong = replace(case, pads_begin=(1,))
    values = brute_force(wrong, arrays(wrong), "weights")
    np.testing.assert_array_equal(computed, in_memory("weights", values, channels_last=False))


def test_mistakes_of_the_caller_are_not_refusals() -> None:
    """An attribute or a kind that does not exist is a KeyError."""
    with pytest.raises(KeyError, match="stride"):
        computed_and_expected("Convolution", LINE, stride=[1])
    with pytest.raises(KeyError, match="Deconvolution"):
        onednn_graph.run("Deconvolution", {}, [np.ones((1, 1, 1), np.float32)] * 2, (1, 1, 1))


def test_the_library_tells_its_version() -> None:
    """The installed wheel carries oneDNN 3.2."""
    assert onednn_graph.version().startswith("3.2.")


@pytest.mark.parametrize(
    ("platform", "machine"),
    [("linux", "aarch64"), ("win32", "x86_64"), ("darwin", "arm64")],
)
def test_other_machines_get_a_reason(
    platform: str, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere nothing is loaded; the reason can be shown as that of a skip."""
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert onednn_graph.unavailable() == "onednn-cpu-gomp exists for Linux on x86_64 only"


def test_a_missing_wheel_gives_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh copy of the driver is asked: the usual one has loaded its library already."""
    spec = importlib.util.spec_from_file_location("fresh_driver", onednn_graph.__file__)
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    monkeypatch.setattr(fresh, "DISTRIBUTION", "no-such-wheel")
    assert fresh.unavailable() == "no-such-wheel is not installed"
    monkeypatch.setattr(fresh, "DISTRIBUTION", "numpy")
    assert "the distribution lists no libdnnl.so.3" in fresh.unavailable()
