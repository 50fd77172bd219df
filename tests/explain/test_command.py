"""``tconv explain`` and ``tconv translate``, as a person or a program meets them."""

import json
import re
from pathlib import Path

import pytest

import tconv
from tconv.cli import main

CALL = ["onnx.ConvTranspose", "--attr", "strides=2", "--attr", "auto_pad=SAME_UPPER"]
SHAPES = ["1x2x5", "2x3x3"]


def test_explain_prints_words_and_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """For people; attributes may stand on either side of the shapes."""
    assert main(["explain", *CALL, *SHAPES]) == 0
    text = capsys.readouterr().out
    assert main(["explain", "onnx.ConvTranspose", *SHAPES, *CALL[1:]]) == 0

    assert "Y     = s * (X - 1) + E - pb - pe + op" in text
    assert "the odd one went to the end" in text
    assert capsys.readouterr().out == text


def test_explain_speaks_json_to_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """The record that the page shows, translations included."""
    main(["explain", *CALL, *SHAPES, "--json"])
    answer = json.loads(capsys.readouterr().out)

    assert answer["shape"] == [1, 3, 10]
    assert (answer["pads_begin"], answer["pads_end"]) == ([0], [1])
    assert set(answer["translations"]) == {"torch", "onnx", "openvino", "onednn", "keras", "lax"}


def test_explain_writes_a_page_and_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One self-contained page, opened at the call; an SVG and a PNG file."""
    files = {kind: tmp_path / f"a.{kind}" for kind in ("html", "svg", "png")}
    flags = [part for kind, path in files.items() for part in (f"--{kind}", str(path))]
    assert main(["explain", *CALL, *SHAPES, *flags]) == 0
    page = files["html"].read_text(encoding="utf-8")
    start = re.search(r'id="start">(.*?)</script>', page)

    assert start is not None
    assert json.loads(start[1])["op"] == "onnx.ConvTranspose"
    assert json.loads(start[1])["auto_pad"] == "SAME_UPPER"
    assert not re.search(r"/\*(STYLE|SCRIPT|TABLE|START)\*/", page)
    assert files["svg"].read_text(encoding="utf-8").startswith("<svg ")
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.count("wrote ") == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["explain", *CALL, "--attr", "output_padding=4", *SHAPES], "output_padding is 4"),
        (["explain", "onnx.Conv", "--attr", "strides=0", *SHAPES], "strides has 0"),
        (["explain", "onnx.Conv", "1x2x?", "3x2x3"], "a size is not known"),
        (["explain", *CALL, *SHAPES, "--html", "/no/such/folder/a.html"], "cannot be written"),
        (["explain", "onnx.Conv", "1x1x9x9x9", "1x1x3x3x3", "--svg", "a.svg"], "make no picture"),
        (["explain", "onnx.Conv", "1x1x9x9x9", "1x1x3x3x3", "--html", "a"], "has no picture"),
        (["explain", "onnx.Conv", "1x2x5", "3x2x3", "--dtype", "int8"], "element type is int8"),
        (["translate", *CALL, *SHAPES, "--to", "caffe"], "there is no dialect 'caffe'"),
        (["translate", *CALL, "1x2x5"], "1 inputs were given"),
        (["translate", "torch.conv3", *SHAPES], "there is no operator"),
    ],
)
def test_what_is_wrong_exits_2_with_the_librarys_text(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error, nothing on standard output, nothing written but what can be."""
    code = main(arguments)
    seen = capsys.readouterr()

    assert code == 2
    assert words in seen.err
    assert seen.out == ""
    assert "fix" in seen.err
    assert "Traceback" not in seen.err


def test_translate_prints_all_dialects_or_one(capsys: pytest.CaptureFixture[str]) -> None:
    """And torch's functions can be what is translated."""
    main(["translate", *CALL, *SHAPES])
    everything = capsys.readouterr().out
    main(["translate", "torch.conv2d", "--attr", "padding=1", "1x4x8x8", "2x4x3x3", "--to", "ONNX"])
    one = capsys.readouterr().out
    main(["translate", *CALL, *SHAPES, "--json"])
    answer = json.loads(capsys.readouterr().out)

    assert [line.partition(":")[0] for line in everything.splitlines() if line[:1].islower()] == [
        "torch", "onnx", "openvino", "onednn", "keras", "lax",
    ]  # fmt: skip
    assert 'make_node("Conv", ["input", "weight"], ["output"], pads=[1, 1, 1, 1])' in one
    assert answer["torch"]["exact"] is False
    assert answer["onnx"]["operator"].startswith("onnx.ConvTranspose(")
    assert callable(tconv.translate)
