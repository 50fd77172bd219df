"""The library's own sentences of refusal, read from its source, for the page to fill in.

The page refuses what the library refuses, in the same words.  So that there is one place for the
words, the page's table is made from the f-strings at the places that refuse: ``{line.span}`` stays
a gap, and the page has a value for each gap by that name.
"""

import ast
import inspect
from types import ModuleType
from typing import Any

from tconv.dialects import attributes, functional, onnx, padding, record, shapes
from tconv.dialects.onednn import gradients

MODULES: tuple[ModuleType, ...] = (
    attributes, functional, gradients, onnx, padding, record, shapes,
)  # fmt: skip
REFUSALS = ("refuse", "_refuse", "ProblemError")
Sentence = Any  # a text, or {"if": condition, "then": text, "else": text}


def sentences() -> dict[str, dict[str, Sentence]]:
    """Return the parts of every refusal by its place: ``module.Class.function``, ``#2`` and so on.

    >>> sentences()["padding.scattered"]["fix"]
    'take {1 - size} off the pads of that axis'
    """
    found: dict[str, dict[str, Sentence]] = {}
    for module in MODULES:
        tree = ast.parse(inspect.getsource(module))
        _collect(tree, [module.__name__.rpartition(".")[2]], found)
    return found


def _collect(node: ast.AST, path: list[str], found: dict[str, dict[str, Sentence]]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            _collect(child, [*path, child.name], found)
            continue
        if isinstance(child, ast.Call) and _called(child) in REFUSALS:
            parts = _parts(child)
            if parts is not None:
                name, number = ".".join(path), 1
                while (key := name if number == 1 else f"{name}#{number}") in found:
                    number += 1
                found[key] = parts
        _collect(child, path, found)


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _parts(call: ast.Call) -> dict[str, Sentence] | None:
    """Return what is wrong, the rule and the fix of one refusal."""
    named = {each.arg: each.value for each in call.keywords}
    if "rule" not in named or "fix" not in named:
        return None
    texts = [_sentence(argument) for argument in call.args]
    wrong = next((text for text in reversed(texts) if text is not None), None)
    parts = {"wrong": wrong, "rule": _sentence(named["rule"]), "fix": _sentence(named["fix"])}
    return None if None in parts.values() else parts


def _sentence(node: ast.expr) -> Sentence:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
            for part in node.values
            if isinstance(part, ast.Constant | ast.FormattedValue)
        )
    if isinstance(node, ast.IfExp):
        then, other = _sentence(node.body), _sentence(node.orelse)
        return {"if": ast.unparse(node.test), "then": then, "else": other}
    return None
