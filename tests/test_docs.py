"""The documentation runs: its examples, its links, its lists of names."""

import dataclasses
import doctest
import io
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import tconv
from engines import require
from tconv.arguments import operators
from tconv.cli import main
from test_architecture import MAY_IMPORT

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page for folder in ("", "docs", "changelog.d") for page in (ROOT / folder).glob("*.md")
)
EXAMPLES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DIALECTS = ROOT / "docs" / "dialects.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
VARIABLE = re.compile(r'environment\.get\("(\w+)"')
PLATFORM = {"XDG_CACHE_HOME", "LOCALAPPDATA"}  # set by the platform, and documented as well

FUNCTIONS = sorted(
    f"tconv.{name}" for name in tconv.__all__ if name == "conv" or name.startswith("conv_")
)


def read(page: Path) -> str:
    """Return the text of a page."""
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    """Return a page's name inside the repository, to name tests after it."""
    return page.relative_to(ROOT).as_posix()


def blocks(text: str, language: str) -> Iterator[tuple[int, str]]:
    """Yield the fenced blocks of one language, each with the line it starts after."""
    for block in FENCED.finditer(text):
        if block[1] == language:
            yield text.count("\n", 0, block.start()) + 1, block[2]


def run_example(source: str, name: str, line: int = 0) -> str:
    """Run a block as a doctest with names of its own; return what is wrong with it."""
    test = doctest.DocTestParser().get_doctest(source, {}, name, name, line)
    assert test.examples, f"{name}, line {line}: a Python block without >>> is not run"
    report = io.StringIO()
    doctest.DocTestRunner(verbose=False).run(test, out=report.write)
    return report.getvalue()


def run_console(source: str) -> str:
    """Run the ``$ tconv`` lines of a block; return it with what they really print."""
    lines: list[str] = []
    for line in source.splitlines():
        if line.startswith("$ "):
            program, *arguments = shlex.split(line[2:])
            assert program == "tconv", f"only tconv can be run here, not {program}"
            with redirect_stdout(io.StringIO()) as printed:
                main(arguments)
            lines += [line, *printed.getvalue().splitlines()]
    return "".join(f"{line}\n" for line in lines)


def anchors(text: str) -> set[str]:
    r"""Return the anchors of a page's headings, made as repository pages make them.

    >>> sorted(anchors("# A page\n## `onnx.Conv`, again\n## A page\n"))
    ['a-page', 'a-page-1', 'onnxconv-again']
    """
    seen: Counter[str] = Counter()
    found: set[str] = set()
    for heading in HEADING.findall(FENCED.sub("", text)):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def dead_links(page: Path, text: str) -> list[str]:
    """Return the relative links of a page that lead nowhere."""
    dead: list[str] = []
    for link in LINK.findall(CODE.sub("code", FENCED.sub("", text))):
        if link.startswith(("https://", "http://")):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        there = target.exists()
        if there and anchor:
            there = anchor in anchors(text if target == page else read(target))
        if not there:
            dead.append(link)
    return dead


def chapter(text: str, title: str) -> str:
    """Return the part of a page from one second-level heading to the next."""
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def named(name: str, text: str) -> bool:
    """Tell whether a text has a name in code, alone or among others."""
    return any(name in re.split(r"[^\w.]+", code) for code in CODE.findall(text))


@pytest.mark.parametrize(
    ("page", "line", "source"),
    [
        pytest.param(page, line, source, id=f"{name_of(page)}-{line}")
        for page in EXAMPLES
        for line, source in blocks(read(page), "python")
    ],
)
def test_every_python_example_runs_as_printed(page: Path, line: int, source: str) -> None:
    """A reader can paste any block by itself and see what the page shows."""
    if "import torch" in source:
        require.module("torch")
    wrong = run_example(source, name_of(page), line)

    assert wrong == ""


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(source, id=f"{name_of(page)}-{line}")
        for page in EXAMPLES
        for line, source in blocks(read(page), "console")
    ],
)
def test_every_command_line_example_runs_as_printed(source: str) -> None:
    """What stands below a ``$ tconv`` line is what it prints."""
    assert run_console(source) == source


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    """Files and headings that a page names are there."""
    assert dead_links(page, read(page)) == []


@pytest.mark.parametrize("page", [ROOT / "README.md", DIALECTS], ids=name_of)
@pytest.mark.parametrize("name", [*operators(), *FUNCTIONS])
def test_every_operator_and_function_is_named(page: Path, name: str) -> None:
    """The README lists all public names, and each has a section in docs/dialects.md."""
    text = read(page)

    assert f"[`{name}`]" in text or f"\n### {name}\n" in text


@pytest.mark.parametrize("name", operators())
def test_every_attribute_is_in_its_documents_chapter(name: str) -> None:
    """A reader finds default, range and treatment of each attribute."""
    title = {"onednn": "oneDNN Graph", "openvino": "OpenVINO", "onnx": "ONNX"}
    text = chapter(read(DIALECTS), title[name.partition(".")[0]])
    fields = [each.name for each in dataclasses.fields(operators()[name])]
    missing = [field for field in fields if not named(field, text)]

    assert missing == []


def test_every_environment_variable_is_documented() -> None:
    """What settings.py reads stands in a table that a user can find."""
    source = read(ROOT / "src" / "tconv" / "settings.py")
    variables = set(VARIABLE.findall(source))
    text = "".join(read(page) for page in EXAMPLES)

    assert {"TCONV_ENGINE", "TCONV_NUM_THREADS", "TCONV_CACHE_DIR"} | PLATFORM <= variables
    assert [variable for variable in sorted(variables) if not named(variable, text)] == []


def test_the_printed_layer_table_is_the_one_that_is_enforced() -> None:
    """docs/architecture.md has the rows of MAY_IMPORT, in their order, and no others."""
    rows = [row.split("|") for row in chapter(read(ARCHITECTURE), "Layers").splitlines()]
    table = {
        CODE.findall(row[1])[0].strip("`"): tuple(code.strip("`") for code in CODE.findall(row[3]))
        for row in rows
        if len(row) == 5 and CODE.findall(row[1])
    }

    assert list(table.items()) == list(MAY_IMPORT.items())


def test_the_checks_can_fail() -> None:
    """A wrong output, a dead link and a missing name are each noticed."""
    page = ROOT / "README.md"
    links = "[a](docs/none.md) [b](docs/dialects.md#nowhere) [c](#gone) [d](docs/dialects.md)"

    assert "Expected:" in run_example(">>> 1 + 1\n3\n", "sum")
    with pytest.raises(AssertionError, match="is not run"):
        run_example("1 + 1\n", "sum")
    assert run_console("$ tconv ops onnx.Conv\nnothing\n").startswith(
        "$ tconv ops onnx.Conv\nonnx."
    )
    assert dead_links(page, links) == ["docs/none.md", "docs/dialects.md#nowhere", "#gone"]
    assert not named("pads", "the attribute `pads_begin`")
