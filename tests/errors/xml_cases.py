"""Texts that are not one sound ``<layer>`` element of an OpenVINO model."""

from collections.abc import Iterator

import numpy as np

from errors.callees import CALLEES
from errors.case import Case
from tconv import openvino

TITLE = "openvino from_xml"
DATA = '<data strides="2,1" dilations="1,1" pads_begin="0,0" pads_end="0,0"/>'
PORTS = ((2, 4, 3, 4), (4, 6, 3, 2))
LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10 if i else "ha"}">' for i in range(10))


def port(sizes: tuple[object, ...]) -> str:
    """Write one port."""
    return "<port>" + "".join(f"<dim>{size}</dim>" for size in sizes) + "</port>"


def layer(
    data: str = DATA,
    ports: tuple[tuple[object, ...], ...] = PORTS,
    kind: str = "ConvolutionBackpropData",
    more: str = "",
) -> str:
    """Write a layer, sound unless an argument says otherwise."""
    written = "".join(map(port, ports))
    return f'<layer type="{kind}">{data}<input>{written}</input>{more}</layer>'


def output(*sizes: object) -> str:
    """Write the output port."""
    return f"<output>{port(sizes)}</output>"


def _read(name: str, wrong: str, text: object, title: str = TITLE, fix: str = "...") -> Case:
    return Case(
        f"from_xml-{name}",
        title,
        wrong,
        lambda: openvino.from_xml(text),  # type: ignore[arg-type]
        fix=fix,
    )


def _forms() -> Iterator[Case]:
    for note, value, wrong in (
        ("bytes", b"<layer/>", "a bytes was given."),
        ("nothing", None, "..."),
        ("number", 5, "a int was given."),
        ("array", np.array(["<layer/>"]), "a ndarray was given."),
        ("list", ["<layer/>"], "a list was given."),
        ("whole model", layer(more=" " * 1_000_000), "the text has ... characters."),
    ):
        yield _read(note, wrong, value)
    malformed = {
        "empty": "",
        "blank": " \n ",
        "words": "a layer, please",
        "truncated": layer()[:-9],
        "cut in an attribute": layer()[:40],
        "two layers": layer() * 2,
        "unknown entity": layer(data="&ha;"),
        "null": "\0",
        "control": "<layer>\x01</layer>",
        "half a character": "<layer>\ud800</layer>",
        "attribute twice": '<layer type="a" type="b"/>',
        "open elements": "<layer>" * 100_000,
        "many attributes": "<layer " + " ".join(f'a{i}="1"' for i in range(50_000)),
        "unbound prefix": "<a:layer/>",
        "processing": "<?layer?>",
    }
    for note, text in malformed.items():
        yield _read(note, "the text is not well-formed XML: ...", text)
    for note, text in {
        "document type": f"<!DOCTYPE layer>{layer()}",
        "laughs": f'<!DOCTYPE l [{LAUGHS}]><layer type="&l9;"/>',
        "file entity": f'<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/passwd">]>{layer("&x;")}',
        "characters": layer(more="<![CDATA[<dim>1</dim>]]>"),
        "declaration behind a comment": f"<!-- a --><!DOCTYPE layer>{layer()}",
        "declaration in two halves": "<!<!--DOCTYPE layer>",
    }.items():
        yield _read(note, "the text declares a document type or entities.", text)


def _names() -> Iterator[Case]:
    yield _read("other element", "the element is <net>.", f"<net>{layer()}</net>")
    yield _read("long element", "the element is <aaa...", f"<{'a' * 999}/>")
    yield _read("namespace", "the element is <{u}layer>.", '<layer xmlns="u"/>')
    deep = "<layer>" * 50_000 + "</layer>" * 50_000
    yield _read("deep", "the layer's type is ''.", deep)
    yield _read("no type", "the layer's type is ''.", "<layer/>")
    for kind, meant in (
        ("Convolutoin", "Convolution"),
        ("convolution", "Convolution"),
        ("GroupConvBackpropData", "GroupConvolutionBackpropData"),
    ):
        wrong = f"the layer's type is {kind!r}."
        yield _read(f"type {kind}", wrong, layer(kind=kind), fix=f"did you mean {meant!r}?")
    yield _read("type Pooling", "the layer's type is 'zzzz'.", layer(kind="zzzz"))
    yield _read("long type", "the layer's type is 'aaa...", layer(kind="a" * 9999))
    wrong = "<data> of ConvolutionBackpropData has the attribute 'stride'."
    data = DATA.replace("strides", "stride")
    yield _read("attribute", wrong, layer(data), fix="did you mean 'strides'?")
    wrong = "<data> of ConvolutionBackpropData has the attribute 'reading'."
    yield _read("reading", wrong, layer(DATA.replace("/>", ' reading="engine"/>')))
    yield _read("data twice", "there are 2 <data> elements.", layer(DATA * 2))


def _numbers() -> Iterator[Case]:
    for text in (
        "2,,1",
        "2;1",
        "2.0,1",
        "2,one",
        "0x2,1",
        "1_0,1",
        "²,1",
        "٢,1",
        "-,1",
        "--1,1",
        "+1,1",
        "1e3,1",
        "9" * 21,
        "9" * 5000,
        ",",
    ):
        wrong = f"strides {text!r:.60}: ... is not a whole number."
        yield _read(f"strides {text:.20} of {len(text)}", wrong, layer(DATA.replace("2,1", text)))
    for size in ("", "x", "3.0", "3 4", "<b/>3", "9" * 21, "٣"):
        wrong = "a <dim> of ConvolutionBackpropData: ... is not a whole number."
        yield _read(f"size {size:.20}", wrong, layer(ports=((2, 4, size, 4), PORTS[1])))
    wrong = "a <dim> of ConvolutionBackpropData is -2."
    yield _read("size -2", wrong, layer(ports=((2, 4, -2, 4), PORTS[1])))
    wrong = "a <dim> of ConvolutionBackpropData..."
    yield _read("size in two parts", wrong, layer(ports=((2, 4, "3<b/>5", 4), PORTS[1])))


def _operators() -> Iterator[Case]:
    """Errors behind the form carry the operator's own title."""
    title = "openvino ConvolutionBackpropData"
    for name, data, wrong in (
        ("negative stride", DATA.replace("2,1", "-2,1"), "strides has -2, ..."),
        ("huge stride", DATA.replace("2,1", f"{2**63},1"), f"strides has {2**63}, ..."),
        ("missing strides", "", "the attribute strides is missing."),
        ("three strides", DATA.replace("2,1", "2,1,1"), "strides has 3 values (2, 1, 1), ..."),
        ("word", DATA.replace("/>", ' auto_pad="same"/>'), "auto_pad is 'same', ..."),
    ):
        yield _read(name, wrong, layer(data), title)
    for name, ports, wrong in (
        ("no ports", (), "there are 0 input ports."),
        ("one port", PORTS[:1], "there are 1 input ports."),
        ("four ports", (*PORTS, (2,), (2,)), "there are 4 input ports."),
        ("channels", ((2, 5, 3, 4), PORTS[1]), "filter takes 4 input channels, but data has 5."),
        ("no sizes", ((), PORTS[1]), "data has 0 axes, but at least 3 are needed."),
        ("zero", ((2, 0, 3, 4), PORTS[1]), "data is empty."),
        ("huge", ((2**63, 4, 3, 4), PORTS[1]), f"data has a size of {2**63}, ..."),
        (
            "shape without output",
            (*PORTS, (2,)),
            "output_shape is a port, but there is no <output>.",
        ),
    ):
        yield _read(name, wrong, layer(ports=ports), title)
    wrong = "there are 3 input ports."
    text = layer(ports=(*PORTS, (2,)), kind="Convolution")
    yield _read("third port", wrong, text, "openvino Convolution")
    wrong = "the output port says (2, 6, 7, 6), but the inputs give (2, 6, 7, 5)."
    yield _read("other output", wrong, layer(more=output(2, 6, 7, 6)), title)
    wrong = "the output port says (2, 6, 7), but the inputs give (2, 6, 7, 5)."
    yield _read("short output", wrong, layer(more=output(2, 6, 7)), title)
    text = layer(ports=(*PORTS, (2,)), more=output(2, 6))
    yield _read("output without points", "output_shape is (), ...", text, title)
    text = layer(ports=(*PORTS, (2,)), more=output(2, 7, 7, 5))
    wrong = "the output port says (2, 7, 7, 5), but the inputs give (2, 6, 7, 5)."
    yield _read("other channels", wrong, text, title)


def _written() -> Iterator[Case]:
    """Ask for the text of a layer whose ports do not fit."""
    both = "openvino.ConvolutionBackpropData", "openvino.Convolution"
    for name, shapes, wrong in (
        (both[0], ("2,4,3,4", PORTS[1]), "the shape of data is '2,4,3,4', not a list of sizes."),
        (both[0], ((2, 5, 3, 4), PORTS[1]), "filter takes 4 input channels, but data has 5."),
        (both[0], (*PORTS, (7,)), "output_shape has 1 values (7,), but data has ..."),
        (both[0], (*PORTS, 7), "output_shape is 7, not a list of whole numbers."),
        (both[1], ((2, 6, 3, 4), PORTS[1], (7, 5)), "it takes two inputs, but a third ..."),
    ):
        op = CALLEES[name].op(dilations=(1, 1))
        yield Case(
            f"to_xml-{name} {shapes[0]} {shapes[2:]}",
            CALLEES[name].title,
            wrong,
            lambda op=op, shapes=shapes: op.to_xml(*shapes),  # type: ignore[misc]
        )


CASES = [*_forms(), *_names(), *_numbers(), *_operators(), *_written()]
