"""A plot of the ratios as SVG: a panel for each wanted array and layout, a bar for each layer."""

import math
from collections.abc import Iterator
from xml.sax.saxutils import escape

from tconv.bench.results import Results, Row
from tconv.bench.summary import rows_of, sections

NAMES, PANEL, GAP, LABEL = 108, 132, 14, 34  # widths: layer names, bars, between, numbers
TOP, LINE, BOTTOM = 64, 19, 44  # heights
TICKS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)

# Its own ground in either theme, so that it can be read on any page.
STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.ground { fill: #ffffff; } .quiet { fill: #59636e; } .title { font-weight: 600; }
.grid { stroke: #d1d9e0; } .one { stroke: #59636e; stroke-width: 1.5; }
.faster { fill: #0a7f4f; } .slower { fill: #c4501b; }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; } .ground { fill: #0d1117; } .quiet { fill: #9198a1; }
.grid { stroke: #30363d; } .one { stroke: #9198a1; }
.faster { fill: #3fb983; } .slower { fill: #f0883e; }
}"""


def ratio_plot(results: Results) -> str:
    """Return the picture; slower layers point left of 1, faster ones right, on a log scale."""
    layers = list(dict.fromkeys(row.layer for row in results.rows))
    panels = sections(results)
    width = NAMES + len(panels) * (PANEL + LABEL + GAP) + GAP
    height = TOP + LINE * len(layers) + BOTTOM
    scale = Scale([row.ratio for row in results.rows if row.ratio])
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        "<title>Our speed as a multiple of the best peer's</title>",
        f"<style>\n{STYLE}\n</style>",
        f'<rect class="ground" width="{width}" height="{height}"/>',
        _text(GAP, 24, "Our speed as a multiple of the best peer's", "title"),
        *(
            _text(NAMES - 8, _line(place) + 4, layer, anchor="end")
            for place, layer in enumerate(layers)
        ),
    ]
    for place, (wanted, layout) in enumerate(panels):
        left = NAMES + place * (PANEL + LABEL + GAP)
        rows = {row.layer: row for row in rows_of(results, wanted, layout)}
        lines += _panel(scale, left, f"{wanted}, {layout}", [rows.get(layer) for layer in layers])
    return "\n".join([*lines, "</svg>"]) + "\n"


class Scale:
    """Ratios on a logarithmic axis that always shows 1, half and double."""

    def __init__(self, ratios: list[float]) -> None:
        low, high = min([0.5, *ratios]), max([2.0, *ratios])
        self.ticks = [tick for tick in TICKS if low / 2 < tick < high * 2]
        self._low = math.log(min(low, self.ticks[0]))
        self._high = math.log(max(high, self.ticks[-1]))

    def __call__(self, ratio: float) -> float:
        """Return how far from the left of a panel a ratio is."""
        return PANEL * (math.log(ratio) - self._low) / (self._high - self._low)


def _panel(scale: Scale, left: float, title: str, rows: list[Row | None]) -> Iterator[str]:
    foot = _line(len(rows)) - LINE / 2
    yield _text(left, TOP - 18, title, "title")
    for tick in scale.ticks:
        x = left + scale(tick)
        kind = "one" if tick == 1 else "grid"
        yield f'<line class="{kind}" x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{foot:.1f}"/>'
        yield _text(x, foot + 16, f"{tick:g}", "quiet", anchor="middle")
    one = left + scale(1)
    for place, row in enumerate(rows):
        ratio = row.ratio if row else None
        if ratio is None:
            continue
        end = left + scale(ratio)
        start, kind = min(one, end), "faster" if ratio >= 1 else "slower"
        yield (
            f'<rect class="{kind}" x="{start:.1f}" y="{_line(place) - 5:.1f}" '
            f'width="{max(abs(end - one), 1):.1f}" height="10"/>'
        )
        yield _text(left + PANEL + 4, _line(place) + 4, f"{ratio:.2f}", kind)


def _line(place: int) -> float:
    return TOP + LINE * (place + 0.5)


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'
    )
