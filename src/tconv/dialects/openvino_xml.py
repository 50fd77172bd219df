"""Read and write OpenVINO's ``<layer>`` elements."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, NoReturn
from xml.etree import ElementTree as ET

from tconv.dialects.attributes import nearest
from tconv.dialects.call import Shape
from tconv.errors import ProblemError

LONGEST = 1_000_000  # a layer is some hundred characters; more is an attack or a whole model
SOURCE = "OpenVINO IR, element layer"


class LayerText(NamedTuple):
    """A ``<layer>`` as written: nothing is checked but the form."""

    kind: str
    attributes: dict[str, object]
    inputs: tuple[Shape, ...]
    output: Shape | None


def read_layer(text: str, known: Mapping[str, Iterable[str]]) -> LayerText:
    """Read one ``<layer>`` element; ``known`` has the attributes of each type.

    Entities could make a short text huge, so a document type is refused unread.
    """
    if not isinstance(text, str):
        kind = "nothing" if text is None else f"a {type(text).__name__}"
        _refuse(f"{kind} was given.", "pass the element as str")
    if len(text) > LONGEST:
        _refuse(f"the text has {len(text)} characters.", f"pass one layer, below {LONGEST}")
    if "<!" in text.replace("<!--", ""):
        _refuse("the text declares a document type or entities.", "remove every <!...> part")
    try:
        layer = ET.fromstring(text)  # noqa: S314 - no document type, see above
    except (ET.ParseError, ValueError) as error:
        _refuse(f"the text is not well-formed XML: {error}.", "pass one whole <layer> element")
    if layer.tag != "layer":
        _refuse(f"the element is <{layer.tag:.60}>.", "pass a <layer> element")
    kind = layer.get("type", "")
    if kind not in known:
        near = nearest(kind, {name.lower() for name in known})
        names = {name.lower(): name for name in known}
        _refuse(
            f"the layer's type is {kind!r:.60}.",
            f"did you mean {names[near]!r}?" if near else f"pass one of: {', '.join(known)}",
        )
    return LayerText(
        kind,
        _attributes(layer, kind, tuple(known[kind])),
        _ports(layer, "input", kind),
        next(iter(_ports(layer, "output", kind)), None),
    )


def layer_text(
    kind: str, attributes: Mapping[str, object], inputs: Sequence[Shape], output: Shape
) -> str:
    """Write one ``<layer>`` element, a port a line."""
    layer = ET.Element("layer", id="0", name=kind, type=kind, version="opset1")
    data = {
        name: ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for name, value in attributes.items()
    }
    ET.SubElement(layer, "data", data)
    ports = iter(range(len(inputs) + 1))
    for side, shapes in (("input", inputs), ("output", [output])):
        parent = ET.SubElement(layer, side)
        for shape in shapes:
            port = ET.SubElement(parent, "port", id=str(next(ports)))
            if side == "output":
                port.set("precision", "FP32")  # the reader of models insists on one
            for size in shape:
                ET.SubElement(port, "dim").text = "-1" if size is None else str(size)
    ET.indent(layer, space="    ")
    return ET.tostring(layer, encoding="unicode")


def _attributes(layer: ET.Element, kind: str, known: Sequence[str]) -> dict[str, object]:
    data = layer.findall("data")
    if len(data) > 1:
        _refuse(f"there are {len(data)} <data> elements.", "keep one")
    values: dict[str, object] = {}
    for name, text in data[0].attrib.items() if data else ():
        if name not in known:
            near = nearest(name, known)
            _refuse(
                f"<data> of {kind} has the attribute {name!r:.60}.",
                f"did you mean {near!r}?" if near else f"pass only: {', '.join(known)}",
            )
        values[name] = text if name == "auto_pad" else _numbers(name, text)
    return values


def _ports(layer: ET.Element, side: str, kind: str) -> tuple[Shape, ...]:
    shapes: list[Shape] = []
    for port in layer.findall(f"{side}/port"):
        sizes = [
            _number(f"a <dim> of {kind}", dim.text or "" if len(dim) == 0 else "<>")
            for dim in port.findall("dim")
        ]
        if min(sizes, default=0) < -1:
            _refuse(f"a <dim> of {kind} is {min(sizes)}.", "write -1 for a size not known")
        shapes.append(tuple(None if size == -1 else size for size in sizes))
    return tuple(shapes)


def _numbers(name: str, text: str) -> list[int]:
    return (
        [_number(f"{name} {text!r:.60}", part) for part in text.split(",")] if text.strip() else []
    )


def _number(what: str, text: str) -> int:
    digits = text.strip()
    if not digits.removeprefix("-").isdigit() or not digits.isascii() or len(digits) > 20:
        _refuse(f"{what}: {text!r:.60} is not a whole number.", "write digits and commas only")
    return int(digits)


def _refuse(wrong: str, fix: str) -> NoReturn:
    raise ProblemError(
        "openvino from_xml",
        wrong,
        got={},
        fix=fix,
        rule=f"one <layer> with a known type, whole numbers in <data> and <dim>   ({SOURCE})",
    )
