"""The report shows what was measured, the rows where we lose too."""

import io
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tconv.bench.page import performance_page
from tconv.bench.plot import ratio_plot
from tconv.bench.progress import Progress
from tconv.bench.report import head_lines, main, row_lines, summary_lines
from tconv.bench.results import Outcome, Results, Row, read_results, write_results
from tconv.bench.summary import summarise
from tconv.errors import ProblemError

FLOPS = 10**9


def timed(name: str, speed: float) -> Outcome:
    """Return an outcome with this many GFLOP/s."""
    return Outcome(name, fastest=1 / speed, median=2 / speed, samples=5, error=1e-7)


def a_row(layer: str, wanted: str, layout: str, *outcomes: Outcome) -> Row:
    """Return a row of one GFLOP that touches half a gigabyte."""
    return Row(layer, wanted, layout, FLOPS, FLOPS // 2, outcomes)


def make_results(*rows: Row) -> Results:
    """Return results of a machine with round numbers."""
    return Results(
        machine={
            "cpu": "A <fast> CPU", "cpus": 2, "system": "S", "python": "3", "numpy": "2",
        },
        versions={"tconv": "1.0", "torch": "2.0"},
        settings={"dtype": "float32", "threads": 2, "calls": "bound", "seconds": 1.0},
        peak=200.0,
        copy=100.0,
        rows=list(rows),
        complete=True,
    )  # fmt: skip


FASTER = a_row("dcgan_2", "fine", "NXC", timed("tconv", 150), timed("torch", 50), timed("b", 75))
SLOWER = a_row("fsrcnn", "fine", "NXC", timed("tconv", 40), timed("torch", 80))
ALONE = a_row("dw-1d", "weights", "NCX", timed("tconv", 40), Outcome("torch", note="refused: no"))
CHEAT = a_row(
    "dw-2d", "weights", "NCX", timed("tconv", 40), Outcome("b", note="wrong: off by 1", wrong=True)
)
RESULTS = make_results(FASTER, SLOWER, ALONE, CHEAT)


def test_a_row_has_our_speed_the_best_peer_and_the_ratio() -> None:
    """The best peer is the fastest one that is right."""
    (line,) = row_lines(RESULTS, FASTER)

    assert line.split() == [
        "dcgan_2", "fine", "NXC", "150.0", "-", "75", "%", "75", "%", "b", "75.0", "2.00",
    ]  # fmt: skip


def test_ours_without_transforms_stands_beside_and_is_no_peer() -> None:
    """However fast it is, it is not whom we race."""
    mine = timed("tconv", 150), timed("tconv direct", 100), timed("torch", 50)
    row = a_row("dcgan_2", "fine", "NXC", *mine)
    (line,) = row_lines(RESULTS, row)

    assert line.split()[3:5] == ["150.0", "100.0"]
    assert line.split()[-3:] == ["torch", "50.0", "3.00"]
    assert row.ratio == pytest.approx(3.0)


def test_a_row_without_peers_has_dashes() -> None:
    """Nothing to compare with is not a ratio of one."""
    (line,) = row_lines(RESULTS, ALONE)

    assert line.split()[-3:] == ["-", "-", "-"]


def test_a_wrong_result_is_shown_below_its_row() -> None:
    """It has no speed, so it cannot be the best peer."""
    line, below = row_lines(RESULTS, CHEAT)

    assert line.split()[-3:] == ["-", "-", "-"]
    assert below == "  ! b wrong: off by 1"


def test_our_own_wrong_result_is_shown_too() -> None:
    """Most of all."""
    row = a_row("dw-2d", "fine", "NCX", Outcome("tconv", note="wrong: off by 2", wrong=True))
    lines = list(row_lines(RESULTS, row))

    assert lines[1:] == ["  ! tconv wrong: off by 2"]


def test_the_head_names_machine_and_versions() -> None:
    """A table that travels alone says where it is from."""
    text = "\n".join(head_lines(RESULTS))

    assert "A <fast> CPU, 2 threads, float32" in text
    assert "peak 200 GFLOP/s, copy 100.0 GB/s" in text
    assert "tconv 1.0, torch 2.0" in text


def test_the_summary_has_means_and_minima() -> None:
    """Ratios 2 and 0.5: the geometric mean is 1, and one row is slower."""
    fine, weights = summarise(RESULTS)
    text = "\n".join(summary_lines(RESULTS))

    assert (fine.wanted, fine.layout, fine.rows, fine.compared) == ("fine", "NXC", 2, 2)
    assert fine.mean == pytest.approx(1.0)
    assert fine.worst is SLOWER
    assert fine.slower == 1
    assert (weights.rows, weights.compared, weights.mean, weights.worst) == (2, 0, None, None)
    assert re.search(r"fine +NXC +2 +1\.00 +0\.50 +1 +39 % +fsrcnn", text)
    assert "torch refused: no (dw-1d weights NCX)" in text


def test_results_survive_their_file(tmp_path: Path) -> None:
    """What is read is what was written."""
    file = tmp_path / "results.json"
    write_results(file, RESULTS)

    assert read_results(file) == RESULTS
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "rows": [1]}'])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    """With a message, not a traceback."""
    file = tmp_path / "results.json"
    file.write_text(text)

    with pytest.raises(ProblemError, match="results"):
        read_results(file)
    with pytest.raises(ProblemError, match="cannot be read"):
        read_results(tmp_path / "none.json")
    with pytest.raises(ProblemError, match="cannot be written"):
        write_results(tmp_path / "none" / "results.json", RESULTS)


def test_the_page_has_every_row_and_marks_the_slower_ones() -> None:
    """Nothing is left out because it looks bad."""
    page = performance_page(RESULTS, "performance.svg")

    assert "| dcgan_2 | 150.0 | 75 % | 75 % | 50.0 | **75.0** | 2.00 |" in page
    assert "| fsrcnn | 40.0 | 20 % | 20 % | **80.0** | - | **0.50** |" in page
    assert "| dw-2d | 40.0 | 20 % | 20 % | - | wrong | - |" in page
    assert "| torch | refused: no | dw-1d weights NCX |" in page
    assert "(performance.svg)" in page
    assert "| fine | NXC | 1.00 | 0.50 (fsrcnn) | 1 of 2 | 39 % |" in page
    assert "interrupted" not in page
    assert "interrupted" in performance_page(make_interrupted(), "performance.svg")


def make_interrupted() -> Results:
    """Return results of a run that did not get to its end."""
    results = make_results(FASTER)
    results.complete = False
    return results


def test_tables_of_the_page_have_as_many_cells_in_every_row() -> None:
    """A cell more or less would shift a number into another column."""
    page = performance_page(RESULTS, "performance.svg")
    for block in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1


def test_the_plot_is_a_picture_with_a_bar_for_each_ratio() -> None:
    """Well-formed, readable in both themes, slower layers in another colour."""
    picture = ratio_plot(RESULTS)
    root = ET.fromstring(picture)  # noqa: S314 - our own text
    space = "{http://www.w3.org/2000/svg}"
    bars = [each.get("class") for each in root.iter(f"{space}rect")]
    texts = [each.text for each in root.iter(f"{space}text")]

    assert bars == ["ground", "faster", "slower"]
    assert {"dcgan_2", "fsrcnn", "dw-1d", "fine, NXC", "weights, NCX", "2.00", "0.50"} <= {*texts}
    assert "prefers-color-scheme: dark" in picture


def test_the_plot_holds_any_ratio() -> None:
    """However far off, a bar stays inside the picture."""
    rows = [
        a_row("a", "fine", "NXC", timed("tconv", 1), timed("torch", 1000)),
        a_row("b", "fine", "NXC", timed("tconv", 1000), timed("torch", 1)),
    ]
    root = ET.fromstring(ratio_plot(make_results(*rows)))  # noqa: S314 - our own text
    for bar in root.iter("{http://www.w3.org/2000/svg}rect"):
        end = float(bar.get("x", "0")) + float(bar.get("width", "0"))

        assert 0 <= float(bar.get("x", "0")) <= end <= float(root.get("width", "0"))


def test_the_module_writes_page_and_plot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``python -m tconv.bench.report`` is how the documentation is made."""
    source, page, plot = (str(tmp_path / name) for name in ("r.json", "p.md", "p.svg"))
    write_results(Path(source), RESULTS)

    assert main([source, page, plot]) == 0
    assert Path(page).read_text(encoding="utf-8") == performance_page(RESULTS, "p.svg")
    assert Path(plot).read_text(encoding="utf-8") == ratio_plot(RESULTS)
    assert main([source]) == 2
    assert main([page, page, plot]) == 2
    assert "usage:" in capsys.readouterr().err


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_the_bar_is_shown_on_a_terminal_and_erased() -> None:
    """What remains on the screen is the table."""
    stream = Terminal()
    progress = Progress(stream, 2)
    progress.show("first")
    progress.step()
    progress.show("second")
    progress.clear()

    assert "0/2" in stream.getvalue()
    assert "[############............] 1/2  0:00 left  second" in stream.getvalue()
    assert stream.getvalue().endswith("\r\033[K")


def test_the_bar_is_silent_elsewhere() -> None:
    """A log file has no bar in it."""
    stream = io.StringIO()
    progress = Progress(stream, 1)
    progress.show("first")
    progress.clear()

    assert stream.getvalue() == ""
