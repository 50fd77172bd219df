"""Write the explorer: one page with its pictures, rules and words inside, for any browser."""

import dataclasses
import inspect
import json
from collections.abc import Mapping
from importlib import resources
from itertools import product
from typing import Any

from tconv.calls import Runnable
from tconv.dialects.functional import PADDING_WORDS, padding_or_word
from tconv.errors import ProblemError
from tconv.explain.explanation import ODD, READINGS
from tconv.explain.formulas import Rules, rules
from tconv.explain.palette import PALETTE
from tconv.explain.sentences import sentences
from tconv.explain.state import State, page_operators
from tconv.problem import Operand
from tconv.translation.notes import NOTES
from tconv.translation.write import LANGUAGES
from tconv.version import __version__

SCRIPTS = ("evaluate", "refuse", "answer", "moves", "translate", "picture", "app")
NONE = {"onednn": "none", "openvino": "explicit", "onnx": "NOTSET", "tconv": "none"}
ONE = {"strides": [1], "dilations": [1], "pads_begin": [0], "pads_end": [0]}


def write_page(state: State) -> str:
    """Return the page, opened at a setting."""
    parts = {name: _read(f"{name}.js") for name in SCRIPTS}
    script = "\n".join(parts.values())
    text = _read("page.html").replace("/*STYLE*/", _read("style.css")).replace("/*SCRIPT*/", script)
    embedded = json.dumps(table(), separators=(",", ":")).replace("</", "<\\/")
    start = json.dumps(dataclasses.asdict(state)).replace("</", "<\\/")
    return text.replace("/*TABLE*/", embedded).replace("/*START*/", start)


def table() -> dict[str, Any]:
    """Return what the page knows of the library: operators, rules, words and sentences."""
    shared: dict[Rules, int] = {}
    described = {name: _operator(name, kind, shared) for name, kind in page_operators().items()}
    used = {check.place for rule in shared for check in rule.checks}
    return {
        "version": __version__,
        "operators": described,
        "rules": [
            {"formulas": [list(each) for each in rule.formulas],
             "checks": [list(each) for each in rule.checks]}
            for rule in shared
        ],
        "sentences": {
            place: parts for place, parts in sentences().items()
            if place in used or place.partition(".")[0] in ("attributes", "shapes", "gradients")
        },
        "languages": LANGUAGES,
        "notes": NOTES,
        "readings": READINGS,
        "odd": ODD,
        "palette": PALETTE,
    }  # fmt: skip


def _operator(name: str, kind: type[Runnable], shared: dict[Rules, int]) -> dict[str, Any]:
    fields = {each.name: each for each in dataclasses.fields(kind)}
    modes = _words(fields["auto_pad"]) if "auto_pad" in fields else _function_modes(kind)
    sample = _make(kind, modes[0])
    formats = next((f for f in ("weights_format", "filter_format") if f in fields), None)
    found: dict[str, int] = {}
    for mode, stated, document, old in product(modes, (0, 1), (0, 1), (0, 1)):
        if (document and "reading" not in fields) or (old and "opset" not in fields):
            continue
        more: dict[str, Any] = {"reading": "document"} if document else {}
        more |= {"opset": 1} if old else {}
        if stated and "output_shape" in fields and kind.dialect == "onnx":
            more["output_shape"] = [1]
        rule = rules(_make(kind, mode, **more), stated=bool(stated))
        found[f"{mode}|{stated}|{document}|{old}"] = shared.setdefault(rule, len(shared))
    return {
        "title": kind.title(),
        "document": kind.document,
        "dialect": kind.dialect,
        "name": name.partition(".")[2],
        "inputs": list(kind.inputs),
        "third": kind.third,
        "result": kind.result,
        "given": [each.value for each in kind.given],
        "wanted": kind.wanted.value,
        "fields": [_field(each) for each in fields.values()],
        "modes": modes,
        "stated": _stated(kind, fields),
        "data": {
            order: {o.value: str(_make(kind, modes[0], **_order(fields, order)).data_layout(o))
                    for o in (Operand.COARSE, Operand.FINE)}
            for order in (("NCX", "NXC") if _order(fields, "NXC") else ("NCX",))
        },
        "filters": {
            spelled: str(_make(kind, modes[0], **{formats: spelled}).weights_layouts()[0])
            for spelled in _words(fields[formats])
        } if formats else {"": str(sample.weights_layouts()[0])},
        "format": formats,
        "words": {o.value: dict(sample._words(o)) for o in Operand},  # noqa: SLF001 - the document's words are the dialect's own
        "rules": found,
    }  # fmt: skip


def _make(kind: type[Runnable], mode: str, **more: Any) -> Runnable:  # noqa: ANN401 - attributes
    """Return an operator of a kind with as little said as it allows."""
    fields = {each.name for each in dataclasses.fields(kind)}
    attributes: dict[str, Any] = {key: value for key, value in ONE.items() if key in fields}
    if "auto_pad" in fields:
        attributes["auto_pad"] = mode
    elif mode != "none":
        attributes["padding"] = mode
    return kind(**attributes | more)


def _order(fields: dict[str, Any], order: str) -> dict[str, str]:
    return {name: order for name in ("data_format", "layout") if name in fields}


def _function_modes(kind: type[Runnable]) -> list[str]:
    return ["none", "valid", "same"] if kind.wanted is Operand.COARSE else ["none"]


def _stated(kind: type[Runnable], fields: dict[str, Any]) -> str:
    """Tell whether a size can be asked for: never, optional or required."""
    if kind.wanted is not Operand.FINE or not (
        "output_shape" in (*fields, kind.third) or kind.third == "dst_shape"
    ):
        return "never"
    return "required" if kind.dialect == "onednn" else "optional"


def _field(each: "dataclasses.Field[Any]") -> dict[str, Any]:
    default = None if each.default is dataclasses.MISSING else each.default
    parser = _closure(each)
    return {
        "name": each.name,
        "default": default,
        "words": _words(each),
        "known": parser.get("known", {}),  # every spelling in small letters, and its word
        "choices": [] if "known" in parser else list(parser.get("choices", ())),
        "least": _least(each),
    }


def _words(each: "dataclasses.Field[Any]") -> list[str]:
    """Return the words that an attribute takes, if it takes words in any case."""
    parser = _closure(each)
    return list(parser["choices"]) if "known" in parser else []


def _closure(each: "dataclasses.Field[Any]") -> Mapping[str, Any]:
    """Return what an attribute's parser was made from."""
    parse = each.metadata["parse"]
    return inspect.getclosurevars(PADDING_WORDS if parse is padding_or_word else parse).nonlocals


def _least(each: "dataclasses.Field[Any]") -> int | None:
    """Return the smallest number that an attribute takes, from its own refusals."""
    for number in (0, 1):
        for value in ([number], number):
            try:
                each.metadata["parse"]("", each.name, value)
            except ProblemError:
                continue
            return number
    return None


def _read(name: str) -> str:
    return (resources.files("tconv.explain") / "web" / name).read_text(encoding="utf-8")
