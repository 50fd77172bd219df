"""Results for people: the table on the terminal, and the page of the documentation.

``python -m tconv.bench.report results.json docs/performance.md docs/performance.svg`` writes the
page and its plot from a recorded run.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tconv.bench.page import performance_page
from tconv.bench.plot import ratio_plot
from tconv.bench.results import Results, Row, read_results
from tconv.bench.summary import notes, number, percent, summarise
from tconv.errors import TconvError

ROW = "{:<13} {:<8} {:<6} {:>8} {:>8} {:>8} {:>8}   {:<20} {:>8} {:>7}"
HEAD = ROW.format(
    *("layer", "wanted", "layout", "GFLOP/s", "direct", "of peak", "of copy"),
    *("best peer", "GFLOP/s", "ratio"),
)
SUMMARY = "{:<8} {:<6} {:>5} {:>9} {:>9} {:>7} {:>8}   {}"
SUMMARY_HEAD = SUMMARY.format(
    "wanted", "layout", "rows", "mean", "minimum", "slower", "of peak", "least in"
)


def head_lines(results: Results) -> Iterator[str]:
    """Yield what stands above the table: the machine, the versions, the columns."""
    machine, settings = results.machine, results.settings
    yield f"{machine['cpu']}, {settings['threads']} threads, {settings['dtype']}"
    yield f"peak {results.peak:.0f} GFLOP/s, copy {results.copy:.1f} GB/s"
    yield ", ".join(f"{name} {version}" for name, version in results.versions.items())
    yield ""
    yield HEAD


def row_lines(results: Results, row: Row) -> Iterator[str]:
    """Yield a row of the table, and a line below it for each result that is wrong."""
    ours, peer = row.ours, row.best_peer
    yield ROW.format(
        row.layer,
        row.wanted,
        row.layout,
        number(row.speed(ours), 1),
        number(row.speed(row.direct), 1),
        percent(results.share(row)),
        percent(results.copy_share(row)),
        peer.name if peer else "-",
        number(row.speed(peer), 1),
        number(row.ratio, 2),
    ).rstrip()
    for each in row.outcomes:
        if each.wrong or (each is ours and each.note):
            yield f"  ! {each.name} {each.note}"


def summary_lines(results: Results) -> Iterator[str]:
    """Yield means and minima for each wanted array and layout, and what did not take part."""
    yield ""
    yield f"peak at the end {results.peak:.0f} GFLOP/s"
    yield "tconv's speed as a multiple of the best peer's, in the fastest samples"
    yield SUMMARY_HEAD
    for each in summarise(results):
        worst = each.worst
        yield SUMMARY.format(
            each.wanted,
            each.layout,
            each.rows,
            number(each.mean, 2),
            number(worst.ratio if worst else None, 2),
            each.slower if worst else "-",
            percent(each.share),
            worst.layer if worst else "no peer",
        )
    for name, note, places in notes(results):
        yield f"{name} {note} ({places})"


def main(arguments: Sequence[str]) -> int:
    """Write the page and its plot from the file of a recorded run."""
    if len(arguments) != 3:
        sys.stderr.write("usage: python -m tconv.bench.report RESULTS.json PAGE.md PLOT.svg\n")
        return 2
    source, page, plot = map(Path, arguments)
    try:
        results = read_results(source)
    except TconvError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    page.write_text(performance_page(results, plot.name), encoding="utf-8")
    plot.write_text(ratio_plot(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
