"""Read oneDNN's problem notation: what benchdnn and its bug reports call a problem.

``g2mb1_ic16ih8oc32oh4kh3sh2ph1`` is letters with numbers: groups, batch, channels, then input,
output, window, stride, padding and dilation (0 is dense) for depth, height and width.  An
underscore means nothing; ``n`` and a name end it.  What is left out is implied: a batch of 2, one
group, strides of 1, dense windows, the sizes of height and width by that of the axis before, the
output by the input, and the padding by both.  Whole command lines are read as well.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tconv import onednn
from tconv.calls import Runnable
from tconv.errors import ProblemError, UnsupportedError
from tconv.problem import coarse_points, fine_points, numpy_dtype, window
from tconv.reference import answer

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Numbers = dict[str, int]

ENTRY = re.compile(r"_*(mb|g|ic|oc|[iokspd][dhw])(-?\d+)")
NAME = re.compile(r"_*(n.*)?")
AXES = "dhw"
MOST_FLOPS = 10**10  # the definition takes one Python step for each meeting
DTYPES = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}
KINDS: dict[tuple[str, str], type[Runnable]] = {
    ("conv", "FWD"): onednn.Convolution,
    ("conv", "BWD_D"): onednn.ConvolutionBackwardData,
    ("conv", "BWD_W"): onednn.ConvolutionBackwardWeights,
    ("deconv", "FWD"): onednn.ConvTranspose,
    ("deconv", "BWD_D"): onednn.ConvTransposeBackwardData,
    ("deconv", "BWD_W"): onednn.ConvTransposeBackwardWeights,
}
# Knobs that change how benchdnn measures, and not what is computed.
HARMLESS = ("mode", "engine", "reset", "alg", "wtag", "impl", "skip-impl", "verbose", "mem-check",
            "fast-ref", "ctx-init", "ctx-exe", "allow-enum-tags-only", "canonical")  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A problem as an operator with the shapes of its inputs."""

    operator: Runnable
    shapes: tuple[tuple[int | None, ...], ...]
    dtype: str


def read_problem(text: str, kind: type[Runnable] | None = None) -> Asked:
    """Return the operator and the shapes that a problem in oneDNN's notation asks for.

    Without ``kind`` and without ``--conv`` or ``--deconv`` in the text, it is a convolution unless
    only a deconvolution has these sizes.

    >>> asked = read_problem("g1ic64iw8oc17ow4kw3sw2pw1")
    >>> asked.operator.infer_shape(*asked.shapes)
    (2, 17, 4)
    >>> read_problem("--deconv ic4ih8oc2kh3sh2ph1").shapes
    ((2, 4, 8, 8), (4, 2, 3, 3))
    """
    driver, direction, knobs, described = _command(text)
    if kind is not None:
        driver, direction = _of_kind(text, kind)
    numbers = _numbers(text, described)
    numbers["mb"] = _batch(text, knobs) or numbers.get("mb", 2)
    axes = _axes(text, numbers)
    driver = driver or _guess(axes)
    sized = [_sized(text, driver, axis, letter) for axis, letter in axes]
    return _asked(text, (driver, direction), numbers, sized, knobs)


def check_problem(asked: Asked) -> tuple[Array, str]:
    """Compute a problem on small whole numbers, compare it with the definition, and say so.

    The same problem always has the same numbers, so that a report is one line.
    """
    op = asked.operator
    problem = op.problem(*asked.shapes, dtype=asked.dtype)
    if problem.flops() > MOST_FLOPS:
        raise UnsupportedError(
            op.title(),
            f"the definition would take {problem.flops():,} flops.",
            got={},
            rule=f"problems of at most {MOST_FLOPS:,} flops are compared with the definition",
            fix="pass .npy files to compute without comparing, or a smaller problem",
        )
    random = np.random.default_rng(20)
    dtype = numpy_dtype(asked.dtype)
    shapes = [problem.shape(operand) for operand in op.given]
    arrays = [random.integers(-2, 3, shape).astype(dtype) for shape in shapes]
    result: Array = op(*arrays)
    operands = dict(zip(op.given, arrays, strict=True))
    exact = answer(problem, *(operands[each] for each in problem.given))
    wrong = int((result.astype(np.float64) != exact.astype(dtype).astype(np.float64)).sum())
    verdict = "equal to the definition" if not wrong else f"{wrong} differ from the definition"
    size = "x".join(map(str, result.shape))
    return result, f"{op!r}\n{size} {asked.dtype}: {result.size} values, {verdict}"


def _command(text: str) -> tuple[str, str, Mapping[str, str], str]:
    """Take a command line apart: driver, direction, other knobs, and the problem itself."""
    driver, direction = "", "FWD"
    knobs: dict[str, str] = {}
    problems: list[str] = []
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise _refuse(text, f"it cannot be read: {error}.", "close the quotation") from None
    for word in words:
        name, _, value = word.lstrip("-").partition("=")
        if word in ("--conv", "--deconv", "conv", "deconv"):
            driver = name
        elif word.endswith("benchdnn"):
            continue
        elif name == "dir" and word.startswith("--"):
            direction = {"FWD_B": "FWD", "FWD_D": "FWD", "FWD_I": "FWD", "BWD_WB": "BWD_W"}.get(
                value.upper(), value.upper()
            )
        elif word.startswith("--"):
            _check_knob(text, name)
            knobs[name] = value
        else:
            problems.append(word)
    if len(problems) != 1 or ("", direction) not in {("", each) for _, each in KINDS}:
        wrong = (
            f"{len(problems)} problems were found."
            if len(problems) != 1
            else (f"there is no direction {direction}.")
        )
        raise _refuse(text, wrong, "write one problem, and --dir as FWD_D, FWD_B, BWD_D or BWD_W")
    return driver, direction, knobs, problems[0]


def _batch(text: str, knobs: Mapping[str, str]) -> int:
    """Return the batch that the knob --mb states; 0 where the problem's own counts."""
    said = knobs.get("mb", "0")
    if not (said.isascii() and said.isdigit()):
        raise _refuse(text, f"--mb is {said!r:.40}.", "write for example --mb=1")
    return int(said)


def _check_knob(text: str, name: str) -> None:
    if name not in (*HARMLESS, "mb", "dt", "cfg", "stag", "dtag"):
        raise UnsupportedError(
            "tconv --problem",
            f"the knob --{name} is not known here.",
            got={"problem": repr(text)},
            rule="attributes and post-operations of benchdnn are not part of the family",
            fix=f"leave --{name} out",
        )


def _numbers(text: str, described: str) -> Numbers:
    numbers: Numbers = {}
    place = 0
    while (entry := ENTRY.match(described, place)) is not None:
        name, value = entry[1], int(entry[2])
        if value < (0 if name[0] in "pd" or name == "mb" else 1) or value >= 2**63:
            raise _refuse(text, f"{name} is {value}.", f"pass {name} of at least 1")
        numbers[name] = value
        place = entry.end()
    if not NAME.fullmatch(described, place):
        rest = described[place : place + 40]
        raise _refuse(text, f"{rest!r} is not part of the notation.", "leave it out, or mend it")
    for name in ("ic", "oc"):
        if name not in numbers:
            raise _refuse(text, f"{name} is missing.", f"add {name} and its number")
    return numbers


def _axes(text: str, numbers: Numbers) -> list[tuple[Numbers, str]]:
    """Return the numbers of each spatial axis; a smaller one has from the larger what it lacks."""
    said = {
        axis: {name[0]: value for name, value in numbers.items() if name[1:] == axis
               and name not in ("mb", "ic", "oc")}
        for axis in AXES
    }  # fmt: skip
    present = [axis for axis in AXES if said[axis]]
    if not present:
        raise _refuse(text, "no spatial size is given.", "add for example iw8 kw3")
    first = AXES.index(present[0])
    axes: list[tuple[Numbers, str]] = []
    for axis in AXES[first:]:
        axes.append((said[axis] or dict(axes[-1][0]), axis))
    return axes


def _sized(text: str, driver: str, axis: Numbers, letter: str) -> Numbers:
    """Return an axis with all it implies: x, y, k, s, d (1 is dense), p, and r, the last pad."""
    if "k" not in axis:
        raise _refuse(text, f"k{letter} is missing.", f"add k{letter}, the size of the window")
    taps, stride, dilation = axis["k"], axis.get("s", 1), axis.get("d", 0) + 1
    span = window(taps, dilation)
    inner, outer, pad = axis.get("i"), axis.get("o"), axis.get("p")
    small, large = (outer, inner) if driver == "conv" else (inner, outer)
    if small is None and large is None:
        raise _refuse(text, f"i{letter} is missing.", f"add i{letter}, the size of the input")
    if pad is None:
        both = small is not None and large is not None
        pad = int((fine_points(small or 1, span, stride, 0) - (large or 1)) / 2) if both else 0
    if small is None:
        small = coarse_points(large or 1, span, stride, 2 * pad)
    elif large is None:
        large = fine_points(small, span, stride, 2 * pad)
    result = {"x": small, "y": large or 0, "k": taps, "s": stride, "d": dilation, "p": pad}
    if min(result["x"], result["y"]) < 1 or pad < 0:
        wrong = f"the sizes on axis {letter} imply {result['x']}, {result['y']} and a pad of {pad}."
        raise _refuse(text, wrong, f"pass i{letter}, o{letter} and p{letter} that fit together")
    result["r"] = fine_points(small, span, stride, pad) - result["y"]
    return result


def _fits(driver: str, axis: Numbers) -> bool:
    """Tell whether the output that is said is what the driver would give."""
    if "i" not in axis or "o" not in axis or "k" not in axis:
        return True
    span = window(axis["k"], axis.get("d", 0) + 1)
    small, large = (axis["o"], axis["i"]) if driver == "conv" else (axis["i"], axis["o"])
    right = fine_points(small, span, axis.get("s", 1), axis.get("p", 0)) - large
    return right > -axis.get("s", 1) and ("p" in axis or right >= 0) and right <= 2 * span


def _guess(axes: list[tuple[Numbers, str]]) -> str:
    """Return the driver that a problem without one is for."""
    conv, deconv = (all(_fits(driver, axis) for axis, _ in axes) for driver in ("conv", "deconv"))
    return "deconv" if deconv and not conv else "conv"


def _asked(
    text: str,
    what: tuple[str, str],
    numbers: Numbers,
    axes: list[Numbers],
    knobs: Mapping[str, str],
) -> Asked:
    """Put the numbers into an operator of oneDNN Graph and its shapes."""
    driver, direction = what
    groups = numbers.get("g", 1)
    for name in ("ic", "oc"):
        if numbers[name] % groups:
            wrong = f"{groups} groups do not divide {name} {numbers[name]}."
            raise _refuse(text, wrong, f"pass {name} as a multiple of {groups}")
    conv = driver == "conv"
    last = "axb" in (knobs.get("stag") or knobs.get("dtag") or "")
    attributes: dict[str, Any] = {
        "strides": [axis["s"] for axis in axes],
        "dilations": [axis["d"] for axis in axes],
        "pads_begin": [axis["p"] for axis in axes],
        "pads_end": [max(axis["r"], 0) for axis in axes],
        "groups": groups,
        "data_format": "NXC" if last else "NCX",
        "weights_format": "OIX" if conv else "IOX",
    }
    if not conv and any(axis["r"] < 0 for axis in axes):
        attributes["output_padding"] = [max(-axis["r"], 0) for axis in axes]
    small, large = [axis["x"] for axis in axes], [axis["y"] for axis in axes]
    taps = [axis["k"] for axis in axes]
    source, result = (large, small) if conv else (small, large)

    def data(channels: str, spatial: list[int]) -> Shape:
        ends = [[numbers[channels]], spatial]
        first, second = reversed(ends) if last else ends
        return (numbers["mb"], *first, *second)

    src, dst = data("ic", source), data("oc", result)
    into, per_group = ("oc", "ic") if conv else ("ic", "oc")
    weights = (numbers[into], numbers[per_group] // groups, *taps)
    shapes = {"FWD": (src, weights), "BWD_D": (dst, weights), "BWD_W": (src, dst)}[direction]
    if direction == "BWD_W":
        attributes["weights_shape"] = weights
    if conv and direction == "BWD_D":
        attributes["dst_shape"] = src
    operator = KINDS[driver, direction](**attributes)
    asked = Asked(operator, shapes, _dtype(text, knobs))
    _check(text, asked, {"FWD": dst, "BWD_D": src, "BWD_W": weights}[direction])
    return asked


def _check(text: str, asked: Asked, expected: Shape) -> None:
    """Refuse an output that the operator would not give."""
    inferred = asked.operator.infer_shape(*asked.shapes)
    if inferred != expected:
        wrong = f"the output would be {inferred}, but the problem says {expected}."
        raise _refuse(text, wrong, "mend the sizes, or leave those of the output out")


def _dtype(text: str, knobs: Mapping[str, str]) -> str:
    said = (knobs.get("dt") or knobs.get("cfg") or "f32").split(":")
    if len(set(said)) > 1 or said[0] not in DTYPES:
        raise UnsupportedError(
            "tconv --problem",
            f"the types are {':'.join(said)}.",
            got={"problem": repr(text)},
            rule=f"all arrays have one of the types {', '.join(DTYPES)}",
            fix="leave --dt out",
        )
    return DTYPES[said[0]]


def _of_kind(text: str, kind: type[Runnable]) -> tuple[str, str]:
    names = {**KINDS, ("conv", " BWD_D"): onednn.ConvolutionBackpropData,
             ("deconv", " BWD_D"): onednn.ConvTransposeBackpropData}  # fmt: skip
    for (driver, direction), each in names.items():
        if kind is each:
            return driver, direction.strip()
    raise _refuse(
        text,
        f"it is not a problem of {kind.title()}.",
        "leave the operator out, or name one of tconv.onednn; `tconv translate` says it elsewhere",
    )


def _refuse(text: str, wrong: str, fix: str) -> ProblemError:
    return ProblemError(
        "tconv --problem",
        wrong,
        got={"problem": f"{text!r:.100}"},
        rule="gX mbX icX idX ihX iwX ocX odX ohX owX kdX khX kwX sdX shX swX pdX phX pwX"
        " ddX dhX dwX nS   (oneDNN, benchdnn problem descriptor)",
        fix=fix,
    )
