"""The command line, as a person or a program meets it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tconv
from tconv.cli import main

SHAPE = [
    "shape", "openvino.GroupConvolutionBackpropData", "--attr", "strides=2,2",
    "--attr", "pads_begin=1,1", "--attr", "pads_end=1,1", "--attr", "dilations=1,1",
]  # fmt: skip
CONV = ["--attr", "strides=1", "--attr", "dilations=1", "--attr", "auto_pad=valid",
        "--attr", "data_format=NCX", "--attr", "weights_format=OIX"]  # fmt: skip


def test_shape_prints_the_documents_example(capsys: pytest.CaptureFixture[str]) -> None:
    """The example that the document's XML lost."""
    code = main([*SHAPE, "1x20x224x224", "4x5x2x3x3"])

    assert code == 0
    assert capsys.readouterr().out.splitlines() == [
        "1x8x447x447", "pads_begin  1,1", "pads_end    1,1",
    ]  # fmt: skip


def test_shape_speaks_json_to_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """Sizes that are not known are null."""
    main([*SHAPE, "1x20x?x224", "4x5x2x3x3", "--json"])
    answer = json.loads(capsys.readouterr().out)

    assert answer["shape"] == [1, 8, None, 447]
    assert answer["pads_begin"] == answer["pads_end"] == [1, 1]


@pytest.mark.parametrize(
    ("arguments", "first_line"),
    [
        (["shape", "onedn.ConvTrans", "1x1x1", "1x1x1"], "there is no operator 'onedn.ConvTrans'"),
        ([*SHAPE, "1x18x224x224", "4x5x2x3x3"], "filter takes 4 x 5 = 20 input channels"),
        ([*SHAPE, "1x20xhello", "4x5x2x3x3"], "'1x20xhello' is not a shape"),
        ([*SHAPE, "1x20x4x4"], "1 inputs were given"),
        ([*SHAPE, "--attr", "stride=1", "1x20x4x4", "4x5x2x3x3"], "'stride' is not one of"),
        ([*SHAPE, "--attr", "strides=1,1", "1x20x4x4", "4x5x2x3x3"], "repeats strides"),
        ([*SHAPE, "--attr", "auto_pad", "1x20x4x4", "4x5x2x3x3"], "has no value"),
        (["run", "onnx.Conv", "no.npy", "no.npy", "-o", "out.npy"], "no.npy cannot be read"),
        (["plan", "onnx.Conv", "1x?x8", "4x2x3"], "a size is not known"),
        (["plan", "onnx.Conv", "1x2x8", "4x2x3", "--dtype", "int8"], "element type is int8"),
    ],
)
def test_a_wrong_call_exits_2_with_the_librarys_message(
    arguments: list[str], first_line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error's text on standard error, nothing on standard output."""
    code = main(arguments)
    seen = capsys.readouterr()

    assert code == 2
    assert first_line in seen.err.splitlines()[0]
    assert "fix" in seen.err
    assert "Traceback" not in seen.err
    assert seen.out == ""


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_run_reads_and_writes_npy_files(dtype: type, tmp_path: Path) -> None:
    """Every type goes through files, bfloat16 as two bytes without a name."""
    x: npt.NDArray[Any] = np.ones((1, 2, 8), dtype)
    w: npt.NDArray[Any] = np.ones((4, 2, 3), dtype)
    for name, array in (("x", x), ("w", w)):
        bare = array.view("V2") if array.dtype == ml_dtypes.bfloat16 else array
        np.save(tmp_path / f"{name}.npy", bare)
    output = tmp_path / "y.npy"
    files = [str(tmp_path / "x.npy"), str(tmp_path / "w.npy"), "-o", str(output)]
    code = main(["run", "onednn.Convolution", *CONV, *files])
    result = np.load(output)

    assert code == 0
    assert result.dtype.itemsize == np.dtype(dtype).itemsize
    np.testing.assert_array_equal(result.view(dtype), tconv.conv(x, w))


def test_run_does_not_overwrite_unless_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An existing file is safe without --force, and a failed run leaves nothing behind."""
    np.save(tmp_path / "x.npy", np.ones((1, 2, 8), "f4"))
    np.save(tmp_path / "w.npy", np.ones((4, 2, 3), "f4"))
    output = tmp_path / "y.npy"
    output.write_bytes(b"precious")
    call = ["run", "onednn.Convolution", *CONV, str(tmp_path / "x.npy"), str(tmp_path / "w.npy")]

    assert main([*call, "-o", str(output)]) == 2
    assert output.read_bytes() == b"precious"
    assert "pass --force" in capsys.readouterr().err
    assert main([*call, "-o", str(output), "--force"]) == 0
    assert np.load(output).shape == (1, 4, 6)
    assert main([*call, "-o", str(tmp_path / "no" / "y.npy")]) == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["w.npy", "x.npy", "y.npy"]


def test_run_refuses_files_that_hold_objects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pickle is never opened."""
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    code = main(["run", "onnx.Conv", *[str(tmp_path / "x.npy")] * 2, "-o", str(tmp_path / "y")])

    assert code == 2
    assert "cannot be read" in capsys.readouterr().err


def test_ops_lists_the_fourteen_operators(capsys: pytest.CaptureFixture[str]) -> None:
    """And the attributes of one."""
    main(["ops"])
    listed = capsys.readouterr().out.splitlines()
    main(["ops", "onednn.convtransposebackwarddata"])
    one = capsys.readouterr().out
    main(["ops", "--json"])

    assert len(listed) == len(json.loads(capsys.readouterr().out)) == 14
    assert "weights_format  XOI" in one


def test_an_ambiguous_call_warns_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """The answer stays clean for programs."""
    attributes = ["strides=2", "dilations=1", "auto_pad=same_upper", "output_shape=7"]
    flags = [part for text in attributes for part in ("--attr", text)]
    code = main(["shape", "onednn.ConvolutionBackpropData", *flags, "1x3x5", "4x2x5", "--json"])
    seen = capsys.readouterr()

    assert code == 0
    assert json.loads(seen.out)["pads_begin"] == [0]
    assert seen.err.startswith("warning: onednn ConvolutionBackpropData")


def test_plan_prints_and_cache_answers(capsys: pytest.CaptureFixture[str]) -> None:
    """What runs, and where compiled kernels would lie."""
    main(["plan", "onnx.Conv", "1x2x8", "4x2x3", "--dtype", "bfloat16"])
    main(["cache"])
    main(["cache", "--clear"])
    text = capsys.readouterr().out

    assert "chosen" in text
    assert "compiled kernels" in text


def test_the_module_runs_as_a_program() -> None:
    """``python -m tconv --version`` and ``--help`` work in a fresh process."""
    for flag, expected in (("--version", tconv.__version__), ("--help", "COMMAND")):
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-m", "tconv", flag], capture_output=True, text=True, check=True
        )

        assert expected in done.stdout
