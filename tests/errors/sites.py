"""Where the library refuses: every ``raise`` and every call of a ``refuse`` function."""

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb

import tconv

PACKAGE = Path(tconv.__file__).parent

# The files that talk to callers; plans, kernels, pictures and the command line have tests of
# their own.
FILES = (
    "arrays.py",
    "calls.py",
    "onednn.py",
    "onnx.py",
    "openvino.py",
    "ops.py",
    "settings.py",
    "threads.py",
    "dialects",
)
# What nobody can reach from outside: abstract methods and mistakes of our own.
# Setting an attribute is no call: tests/inputs/test_operators.py has that one.
UNREACHABLE = ("NotImplementedError", "InternalError", "AssertionError", "FrozenInstanceError")


@dataclass(frozen=True)
class Site:
    """One place in the source that refuses a call."""

    file: str
    start: int
    stop: int
    text: str

    def __str__(self) -> str:
        """Print where it is."""
        return f"{self.file}:{self.start} {self.text}"


def sites() -> Iterator[Site]:
    """Yield every place in the source that refuses a call."""
    for name in FILES:
        path = PACKAGE / name
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            source = file.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(source)):
                if _refuses(node):
                    text = ast.get_source_segment(source, node) or ""
                    if not any(word in text.split("(")[0] for word in UNREACHABLE):
                        place = str(file.relative_to(PACKAGE))
                        start, stop = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]
                        yield Site(place, start, stop, " ".join(text.split())[:80])


def reached(error: BaseException) -> set[tuple[str, int]]:
    """Return the file and line of every frame inside the package that an error came through."""
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    prefix = f"{PACKAGE}{os.sep}"
    return {(name.removeprefix(prefix), line) for name, line in frames if name.startswith(prefix)}


def _refuses(node: ast.AST) -> bool:
    if isinstance(node, ast.Raise):
        return node.exc is not None
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return "refuse" in name
