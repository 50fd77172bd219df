"""oneDNN's problem notation, as its bug reports have it."""

import json
from pathlib import Path

import numpy as np
import pytest

import tconv
from tconv import benchdnn
from tconv.benchdnn import Asked, check_problem, read_problem
from tconv.cli import main


def answer(text: str) -> tuple[str, tuple[int | None, ...], tuple[tuple[int | None, ...], ...]]:
    """Return the operator's name, its result's shape and its inputs' shapes."""
    asked = read_problem(text)
    return type(asked.operator).__name__, asked.operator.infer_shape(*asked.shapes), asked.shapes


@pytest.mark.parametrize(
    ("text", "name", "result", "shapes"),
    [
        ("g1ic64iw8oc17ow4kw3sw2pw1", "Convolution", (2, 17, 4), ((2, 64, 8), (17, 64, 3))),
        # the output, and the sizes of smaller axes, are implied
        ("mb1ic3ih8oc4kh3ph1", "Convolution", (1, 4, 8, 8), ((1, 3, 8, 8), (4, 3, 3, 3))),
        ("ic2id5oc3kd3", "Convolution", (2, 3, 3, 3, 3), ((2, 2, 5, 5, 5), (3, 2, 3, 3, 3))),
        ("ic2id6ih5oc3kd3kh1", "Convolution", (2, 3, 4, 5, 5), ((2, 2, 6, 5, 5), (3, 2, 3, 1, 1))),
        # the padding is implied by both sizes
        ("ic2iw8oc3ow8kw5", "Convolution", (2, 3, 8), ((2, 2, 8), (3, 2, 5))),
        # the input is implied by the output
        ("--deconv ic2ow16oc3kw4sw2pw1", "ConvTranspose", (2, 3, 16), ((2, 2, 8), (2, 3, 4))),
        # only a deconvolution has these sizes
        ("ic2iw8oc3ow16kw4sw2pw1", "ConvTranspose", (2, 3, 16), ((2, 2, 8), (2, 3, 4))),
        ("--deconv g2ic4iw3oc6kw3sw2", "ConvTranspose", (2, 6, 7), ((2, 4, 3), (4, 3, 3))),
        # one more point than the windows reach: output_padding
        ("--deconv ic2iw3oc3ow8kw3sw2pw0", "ConvTranspose", (2, 3, 8), ((2, 2, 3), (2, 3, 3))),
        # dilation 0 is dense; underscores and names mean nothing
        ('mb1_ic2iw9_oc3_kw3_dw1_n"a name"', "Convolution", (1, 3, 5), ((1, 2, 9), (3, 2, 3))),
        ("--conv --dir=BWD_D ic2iw8oc3ow4kw3sw2pw1", "ConvolutionBackwardData", (2, 2, 8),
         ((2, 3, 4), (3, 2, 3))),
        ("--conv --dir=BWD_WB ic2iw8oc3ow4kw3sw2pw1", "ConvolutionBackwardWeights", (3, 2, 3),
         ((2, 2, 8), (2, 3, 4))),
        ("--deconv --dir=BWD_D ic2iw4oc3ow8kw4sw2pw1", "ConvTransposeBackwardData", (2, 2, 4),
         ((2, 3, 8), (2, 3, 4))),
        ("--deconv --dir=BWD_W ic2iw4oc3ow8kw4sw2pw1", "ConvTransposeBackwardWeights", (2, 3, 4),
         ((2, 2, 4), (2, 3, 8))),
        ("./benchdnn --conv --mb=3 --stag=axb --mode=P ic2iw8oc3kw3", "Convolution", (3, 6, 3),
         ((3, 8, 2), (3, 2, 3))),
    ],
)  # fmt: skip
def test_a_problem_is_an_operator_with_shapes(
    text: str, name: str, result: tuple[int, ...], shapes: tuple[tuple[int, ...], ...]
) -> None:
    """With what its notation implies."""
    assert answer(text) == (name, result, shapes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ic64iw8kw3", "oc is missing"),
        ("ic4oc4kw3", "iw is missing"),
        ("ic4oc4", "no spatial size"),
        ("ic4iw8oc4", "kw is missing"),
        ("ic4iw8oc4kw3xx9", "'xx9' is not part of the notation"),
        ("ic4iw8oc4kw0", "kw is 0"),
        ("ic4iw8oc4kw3sw-1", "sw is -1"),
        ("ic99999999999999999999iw8oc4kw3", "ic is 99999999999999999999"),
        ("g3ic4iw8oc6kw3", "3 groups do not divide ic 4"),
        ("ic4iw2oc4kw5", "imply"),
        ("--conv ic4iw8oc4ow2kw3pw0", "the output would be"),
        ("", "0 problems were found"),
        ("ic4iw8oc4kw3 ic4iw8oc4kw3", "2 problems were found"),
        ("--dir=SIDEWAYS ic4iw8oc4kw3", "there is no direction SIDEWAYS"),
        ("--mb=x ic4iw8oc4kw3", "--mb is 'x'"),
        ("'ic4", "cannot be read"),
    ],
)
def test_a_bad_problem_is_refused_with_its_rule(text: str, words: str) -> None:
    """In the library's form: what is wrong, the problem, the rule and the fix."""
    with pytest.raises(tconv.ProblemError) as refusal:
        read_problem(text)

    assert words in refusal.value.wrong
    assert refusal.value.fix


@pytest.mark.parametrize("text", ["--attr-post-ops=relu ic4iw8oc4kw3", "--dt=s8 ic4iw8oc4kw3"])
def test_what_is_not_done_here_is_unsupported(text: str) -> None:
    """Post-operations and integers."""
    with pytest.raises(tconv.UnsupportedError):
        read_problem(text)


def test_the_command_line_takes_problems(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """shape, plan, explain, translate and run; run needs no files, and checks itself."""
    problem = ["--problem", "--deconv mb1ic4iw5oc2kw4sw2pw1"]
    assert main(["shape", *problem, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["shape"] == [1, 2, 10]
    assert main(["run", *problem]) == 0
    assert "20 values, equal to the definition" in capsys.readouterr().out
    assert main(["explain", *problem]) == 0
    assert main(["plan", *problem]) == 0
    assert main(["translate", *problem, "--to", "torch"]) == 0
    assert "F.conv_transpose1d(src, weights, stride=(2,), padding=(1,))" in capsys.readouterr().out
    np.save(tmp_path / "x.npy", np.ones((1, 4, 5), "f4"))
    np.save(tmp_path / "w.npy", np.ones((4, 2, 4), "f4"))
    files = [str(tmp_path / "x.npy"), str(tmp_path / "w.npy"), "-o", str(tmp_path / "y.npy")]
    assert main(["run", "onednn.ConvTranspose", *problem, *files]) == 0
    assert np.load(tmp_path / "y.npy").shape == (1, 2, 10)
    assert main(["shape", "onnx.Conv", *problem]) == 2
    assert main(["shape", *problem, "--attr", "strides=1"]) == 2
    assert main(["shape", "--problem", "ic4"]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_a_problem_computes_in_its_type(dtype: str) -> None:
    """Small whole numbers are exact in all of them."""
    result, verdict = check_problem(read_problem(f"--dt={dtype} ic4iw8oc4kw3"))

    assert result.dtype.name == benchdnn.DTYPES[dtype]
    assert "equal to the definition" in verdict


def test_a_wrong_result_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison with the definition can fail."""
    asked = read_problem("ic4iw8oc4kw3")
    monkeypatch.setattr(benchdnn, "answer", lambda *_: np.zeros((2, 4, 6)) + 99)
    _, verdict = check_problem(asked)

    assert "48 differ from the definition" in verdict
    assert isinstance(asked, Asked)


def test_a_problem_too_large_for_the_definition_is_said_to_be() -> None:
    """Instead of waiting for hours."""
    with pytest.raises(tconv.UnsupportedError, match="flops"):
        check_problem(read_problem("mb64ic512ih128oc512kh3"))
