"""The page of the documentation that a recorded run becomes; rows where we lose included."""

from collections.abc import Iterator

from tconv.bench.results import OURS, Results, Row
from tconv.bench.suite import Layer, load_suite
from tconv.bench.summary import notes, number, percent, rows_of, sections, summarise

MEANINGS = {
    "fine": "`conv_transpose`: the layer's forward pass",
    "coarse": "the gradient by its input: a convolution over an array of the output's size",
    "weights": "the gradient by its weights",
}
CALLS = {
    "bound": "Weights are bound once on our side (`bind`) and constant on theirs",
    "eager": "Weights are packed in every call on our side, as torch has to",
}


def performance_page(results: Results, plot: str) -> str:
    """Return the page in Markdown; ``plot`` is the name of the picture beside it."""
    parts = [
        _opening(results),
        _summary(results, plot),
        *(_section(results, wanted, layout) for wanted, layout in sections(results)),
        _absent(results),
        _layers(results),
    ]
    return "\n".join(line for part in parts for line in part) + "\n"


def table(head: list[str], rows: list[list[str]], words: int = 1) -> Iterator[str]:
    """Yield the lines of a Markdown table whose first ``words`` columns are text.

    >>> list(table(["layer", "ratio"], [["up", "1.20"]]))
    ['| layer | ratio |', '|---|--:|', '| up | 1.20 |', '']
    """
    rule = ["---" if column < words else "--:" for column in range(len(head))]
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join(rule)}|"
    for row in rows:
        yield f"| {' | '.join(text.replace('|', '&#124;') for text in row)} |"
    yield ""


def _opening(results: Results) -> Iterator[str]:
    machine, settings = results.machine, results.settings
    yield "# Performance"
    yield ""
    yield "Generated from a recorded run: no number is typed by hand, and no row is left out."
    if not results.complete:
        yield "The run was interrupted: rows are missing."
    yield ""
    yield "```sh"
    yield "tconv bench --peers --json results.json"
    yield "python -m tconv.bench.report results.json docs/performance.md docs/performance.svg"
    yield "```"
    yield ""
    facts = {
        "processor": str(machine["cpu"]),
        "kernels for": str(machine.get("kernels", "-")),
        "system": f"{machine['system']}, Python {machine['python']}, NumPy {machine['numpy']}",
        "threads": str(settings["threads"]),
        "type": str(settings["dtype"]),
        "measured peak": f"{results.peak:.0f} GFLOP/s",
        "measured copy": f"{results.copy:.1f} GB/s, read and written",
        "engines": ", ".join(f"{name} {text}" for name, text in results.versions.items()),
    }
    yield from table(["", ""], [[name, text] for name, text in facts.items()], words=2)
    yield (
        "- All candidates run in one process and take turns of equally many calls, so that noise "
        "hits all alike."
    )
    yield (
        "- Before each sample a candidate runs for ten milliseconds: after a pause processors are "
        "slow for some, whoever asks them."
    )
    yield f"- {CALLS[str(settings['calls'])]}; inputs are in place, outputs if they can be."
    yield "- Every result is compared with the definition in float64 before anything is timed."
    yield "- Speeds are those of the fastest sample; the JSON file has the medians too."
    yield "- Multiplications that meet the padding count, for all candidates alike."
    yield "- *tconv direct* is ours without Winograd's transforms, where they are chosen; no peer."
    yield "- *of copy* compares with a plain copy that touches as many bytes as all three arrays."
    yield ""


def _summary(results: Results, plot: str) -> Iterator[str]:
    yield "## Summary"
    yield ""
    yield "The ratio is our speed as a multiple of the best peer's on the same layer: above 1 we"
    yield "are faster."
    yield ""
    rows = []
    for each in summarise(results):
        worst = each.worst
        least = f"{number(worst.ratio, 2)} ({worst.layer})" if worst else "-"
        slower = f"{each.slower} of {each.compared}"
        rows.append(
            [each.wanted, each.layout, number(each.mean, 2), least, slower, percent(each.share)]
        )
    head = ["wanted", "layout", "mean ratio", "least ratio", "slower rows", "mean of peak"]
    yield from table(head, rows, words=2)
    yield f"![Our speed as a multiple of the best peer's, layer by layer]({plot})"
    yield ""


def _section(results: Results, wanted: str, layout: str) -> Iterator[str]:
    rows = rows_of(results, wanted, layout)
    names = list(dict.fromkeys(each.name for row in rows for each in row.outcomes))
    others = [name for name in names if name != OURS]
    yield f"## {wanted}, {layout}"
    yield ""
    yield f"{MEANINGS[wanted][0].upper()}{MEANINGS[wanted][1:]}. GFLOP/s of each candidate;"
    yield "the best peer in bold, and the ratio in bold where we are slower."
    yield ""
    head = ["layer", OURS, "of peak", "of copy", *others, "ratio"]
    yield from table(head, [_cells(results, row, others) for row in rows])


def _cells(results: Results, row: Row, others: list[str]) -> list[str]:
    outcomes = {each.name: each for each in row.outcomes}
    speeds = []
    for name in others:
        each = outcomes.get(name)
        text = "wrong" if each and each.wrong else number(row.speed(each), 1)
        speeds.append(f"**{text}**" if each and each is row.best_peer else text)
    ratio = number(row.ratio, 2)
    ours = "wrong" if row.ours.wrong else number(row.speed(row.ours), 1)
    return [
        row.layer,
        ours,
        percent(results.share(row)),
        percent(results.copy_share(row)),
        *speeds,
        f"**{ratio}**" if row.ratio is not None and row.ratio < 1 else ratio,
    ]


def _absent(results: Results) -> Iterator[str]:
    rows = [[name, note, places] for name, note, places in notes(results)]
    if rows:
        yield "## What did not run"
        yield ""
        yield from table(["candidate", "why", "where"], rows, words=3)


def _layers(results: Results) -> Iterator[str]:
    measured = {row.layer for row in results.rows}
    layers = [layer for layer in load_suite() if layer.name in measured]
    yield "## The layers"
    yield ""
    head = ["layer", "what", "input (NCX)", "output", "window", "stride", "groups", "GFLOP"]
    yield from table(head, [_facts(layer) for layer in layers], words=2)


def _facts(layer: Layer) -> list[str]:
    inputs = (layer.batch, layer.in_channels, *layer.spatial)
    outputs = (layer.batch, layer.out_channels, *layer.output_spatial)
    sizes = ["x".join(map(str, each)) for each in (inputs, outputs, layer.kernel, layer.strides)]
    return [layer.name, layer.what, *sizes, str(layer.groups), f"{layer.flops / 1e9:.3f}"]
