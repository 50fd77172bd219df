"""The demo: the picture, the sheet, the table, and that its check can fail."""

import io
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tconv import onednn
from tconv.errors import InternalError, ProblemError
from tconv.explain import demo
from tconv.explain.canvas import Canvas, glyphs, text_mask, text_width
from tconv.explain.picture import make_picture

OPERATORS = (
    "onednn.ConvTransposeBackpropData",
    "onednn.ConvTransposeBackwardData",
    "onednn.ConvolutionBackpropData",
    "openvino.GroupConvolutionBackpropData",
)
WHITE = (255, 255, 255)


@dataclass(frozen=True)
class Run:
    """What one run of the demo left behind."""

    text: str
    data: bytes
    written: frozenset[str]  # every character on the sheet


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run the demo once for all tests: its checks take seconds."""
    path, stream = tmp_path_factory.mktemp("demo") / "sheet.png", io.StringIO()
    written: set[str] = set()
    write = Canvas.write

    def listen(
        canvas: Canvas, text: str, at: tuple[int, int], colour: tuple[int, int, int], *, scale: int
    ) -> None:
        written.update(text)
        write(canvas, text, at, colour, scale=scale)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Canvas, "write", listen)
        demo.run_demo(path, stream)
    return Run(stream.getvalue(), path.read_bytes(), frozenset(written))


def test_the_demo_prints_a_row_for_each_result(run: Run) -> None:
    """All four documents' operators appear with shapes, time and error."""
    head, *rows, verdict, place = run.text.splitlines()

    assert {row.split()[0] for row in rows} == set(OPERATORS)
    assert all("ms" in row and "->" in row for row in rows)
    assert head.split() == [
        "operator",
        "data",
        "weights",
        "->",
        "result",
        "time",
        *head.split()[-2:],
    ]
    assert verdict.startswith(f"{len(rows)} results agree with the definition")
    assert place.startswith("wrote ")


def test_the_errors_are_rounding_errors(run: Run) -> None:
    """Values are near 1, so float32 leaves no more than a few units of 1e-7."""
    errors = [float(row.split()[-1]) for row in run.text.splitlines()[1:-2]]

    assert max(errors) < 2e-6


def test_the_demo_writes_one_picture(run: Run) -> None:
    """The file is a PNG of the size that the last line names."""
    width, height = struct.unpack_from(">II", run.data, 16)

    assert run.data.startswith(b"\x89PNG")
    assert run.text.endswith(f"{width} x {height} pixels\n")
    assert 1500 <= width <= 1800


def test_the_font_has_every_character_of_the_sheet(run: Run) -> None:
    """Each character that the demo writes has ink of its own, and so has the rest of ASCII."""
    masks = {mask.tobytes() + bytes([mask.shape[1]]) for mask in glyphs().values()}

    assert set("tconv") <= run.written <= set(glyphs())
    assert list(glyphs()) == [chr(code) for code in range(32, 127)]
    assert len(masks) == len(glyphs()) - 1  # the digit 0 is drawn as the letter O
    assert all(mask.any() for letter, mask in glyphs().items() if letter != " ")


def test_a_wrong_result_stops_the_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One wrong number in one result is an error with the operator's name, and no picture."""
    right = onednn.ConvTransposeBackpropData.__call__

    def wrong(op: onednn.ConvTransposeBackpropData, *inputs: object) -> demo.Array:
        result: demo.Array = right(op, *inputs)
        result[3, 5, 7, 1] += 1e-4
        return result

    monkeypatch.setattr(onednn.ConvTransposeBackpropData, "__call__", wrong)
    with pytest.raises(InternalError, match=r"onednn.ConvTransposeBackpropData is off by 1.0e-04"):
        demo.run_demo(tmp_path / "sheet.png", io.StringIO())

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "result",
    [np.full((2, 2), np.nan), np.full((2, 2), np.inf), np.zeros((2, 1)), np.ones((2, 2))],
    ids=["nan", "infinity", "another shape", "off by one"],
)
def test_the_check_refuses_what_is_not_the_answer(result: demo.Array) -> None:
    """Not a number, infinity and another shape are no rounding errors."""
    with pytest.raises(InternalError, match="is off by"):
        demo.check("an operator", result, np.zeros((2, 2)))


def test_the_check_returns_the_largest_error() -> None:
    """The error of the table is the one of the worst point."""
    result = np.array([1.0, 2.0 + 4e-6, 3.0 - 8e-6])

    assert demo.check("an operator", result, np.array([1.0, 2.0, 3.0])) == pytest.approx(8e-6)


@pytest.mark.parametrize(
    ("place", "reason"), [("nowhere/sheet.png", "there is no such folder"), ("", "it is a folder")]
)
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, place: str, reason: str) -> None:
    """A folder that does not exist, or is the file itself, is told before any work."""
    stream = io.StringIO()

    with pytest.raises(ProblemError, match=f"cannot be written: {reason}"):
        demo.run_demo(tmp_path / place, stream)
    assert stream.getvalue() == ""


def test_a_terminal_shows_what_is_being_checked() -> None:
    """On a terminal a line of progress stands where the row will be."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    bench = demo.Bench(Terminal())
    picture = make_picture(32, 32)
    bench.run(
        onednn.ConvTransposeBackpropData(
            strides=[2, 2], dilations=[1, 1], pads_begin=[0, 0], pads_end=[0, 0]
        ),
        picture[None],
        np.ones((2, 2, 3, 3), np.float32),
    )
    progress, row = bench.stream.getvalue().split("\r")  # type: ignore[attr-defined]

    assert progress.startswith("onednn.ConvTransposeBackpropData: checking")
    assert len(row) > len(progress)


def test_tiles_with_halo_overlap_and_join_back() -> None:
    """Cutting without a halo and joining changes nothing; a halo shows the neighbours."""
    picture = make_picture(16, 24)
    tiles, wide = demo.cut(picture, halo=0), demo.cut(picture, halo=1)

    np.testing.assert_array_equal(demo.join(tiles), picture)
    np.testing.assert_array_equal(wide[:, :, 1:-1, 1:-1], tiles)
    np.testing.assert_array_equal(wide[0, :, 1:-1, -1], tiles[1, :, :, 0])
    np.testing.assert_array_equal(demo.channels_first(demo.channels_last(tiles)), tiles)


def test_the_same_size_gives_the_same_picture() -> None:
    """The picture is a function of its size alone, with values a display can show."""
    picture = make_picture(84, 132)

    np.testing.assert_array_equal(picture, make_picture(84, 132))
    assert picture.shape == (84, 132, 3)
    assert picture.dtype == np.float32
    assert picture.min() >= 0
    assert picture.max() <= 1
    assert picture.std(axis=(0, 1)).min() > 0.1  # all three colours take part


@pytest.mark.parametrize(("height", "width"), [(16, 16), (50, 200), (200, 50)])
def test_the_picture_fits_any_frame(height: int, width: int) -> None:
    """Small, wide and tall pictures can be painted as well."""
    assert make_picture(height, width).shape == (height, width, 3)


def test_text_that_does_not_fit_is_refused() -> None:
    """Nothing on the sheet is ever cut off: not by its edge, nor by the next panel."""
    canvas = Canvas(80, 60, (0, 0, 0))

    with pytest.raises(ValueError, match="does not fit"):
        canvas.write("too wide", (2, 2), WHITE, scale=2)
    with pytest.raises(ValueError, match="wider than 20"):
        canvas.caption((("wide", WHITE),), (2, 2), 20)
    assert not canvas.pixels[20:].any()


def test_text_is_ink_of_one_colour() -> None:
    """A letter changes the pixels of its mask and no others."""
    canvas = Canvas(30, 30, (0, 0, 0))
    canvas.write("A", (4, 6), (9, 8, 7), scale=2)
    ink = text_mask("A", 2)

    assert ink.shape == (18, text_width("A", 2)) == (18, 10)
    np.testing.assert_array_equal(canvas.pixels[4:22, 6:16].any(axis=2), ink)
    assert canvas.pixels.sum() == ink.sum() * 24
