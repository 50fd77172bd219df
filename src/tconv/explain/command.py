"""The commands ``tconv explain`` and ``tconv translate``."""

import argparse
import json
import warnings
from pathlib import Path

from tconv.arguments import operator_name, read_asked
from tconv.benchdnn import Asked
from tconv.errors import AmbiguousSpecWarning, ProblemError
from tconv.explain.answer import record
from tconv.explain.drawing import to_pixels, to_svg
from tconv.explain.explanation import Explanation, explain
from tconv.explain.page import write_page
from tconv.explain.png import encode_png
from tconv.explain.state import state_of
from tconv.explain.still import draw_still
from tconv.translation import DIALECTS, translate


def add_explain_options(parser: argparse.ArgumentParser) -> None:
    """Add what ``tconv explain`` takes besides a call."""
    parser.add_argument("--dtype", default=None, help="float32, float64, float16 or bfloat16")
    parser.add_argument("--json", action="store_true", help="print for programs")
    parser.add_argument("--html", type=Path, metavar="F", help="write a page to play with")
    parser.add_argument("--svg", type=Path, metavar="F", help="write a still picture")
    parser.add_argument("--png", type=Path, metavar="F", help="write a still picture")
    parser.set_defaults(command=_explain)


def add_translate_options(parser: argparse.ArgumentParser) -> None:
    """Add what ``tconv translate`` takes besides a call."""
    listed = ", ".join(DIALECTS)
    parser.add_argument(
        "--to", action="append", metavar="DIALECT", help=f"one of {listed}; all of them without it"
    )
    parser.add_argument("--json", action="store_true", help="print for programs")
    parser.set_defaults(command=_translate)


def _explain(options: argparse.Namespace) -> None:
    asked = read_asked(options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AmbiguousSpecWarning)  # both readings are explained
        told = explain(asked.operator, *asked.shapes, dtype=options.dtype or asked.dtype)
        files = _files(options, asked, told)
        for path, content in files:
            _write(path, content)
        print(json.dumps(record(told), indent=2) if options.json else told)
    if not options.json:
        for path, content in files:
            print(f"wrote {path}: {len(content):,} bytes")


def _files(
    options: argparse.Namespace, asked: Asked, told: Explanation
) -> list[tuple[Path, bytes]]:
    """Return the files that were asked for, all made before any is written."""
    files: list[tuple[Path, bytes]] = []
    if options.html:
        state = state_of(operator_name(type(asked.operator)), asked.operator, asked.shapes)
        files.append((options.html, write_page(state).encode()))
    if options.svg or options.png:
        drawing = draw_still(told)
        if options.svg:
            files.append((options.svg, to_svg(drawing).encode()))
        if options.png:
            files.append((options.png, encode_png(to_pixels(drawing))))
    return files


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise ProblemError(
            "tconv explain",
            f"{path} cannot be written: {error.strerror or error}.",
            got={},
            rule="pages and pictures are written to files",
            fix="choose another name, in a folder that is there",
        ) from error


def _translate(options: argparse.Namespace) -> None:
    asked = read_asked(options)
    said = [translate(asked.operator, *asked.shapes, to=to) for to in options.to or DIALECTS]
    if options.json:
        answer = {
            each.to: {
                "exact": each.exact,
                "notes": list(each.notes),
                "code": each.code,
                "operator": None if each.operator is None else repr(each.operator),
                "shapes": [list(shape) for shape in each.shapes],
            }
            for each in said
        }
        print(json.dumps(answer, indent=2))
        return
    print("\n\n".join(map(str, said)))
