"""The numbers that sum up a run, for each wanted array and layout, and how they are printed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tconv.bench.results import Results, Row


@dataclass(frozen=True, slots=True)
class Summary:
    """How the rows of one wanted array in one layout compare with the best peer of each."""

    wanted: str
    layout: str
    rows: int
    compared: int
    mean: float | None  # geometric
    worst: Row | None
    slower: int
    share: float | None  # of the peak, geometric mean


def summarise(results: Results) -> tuple[Summary, ...]:
    """Return one summary for each wanted array and layout, in the order of the run."""
    return tuple(_summary(results, wanted, layout) for wanted, layout in sections(results))


def sections(results: Results) -> tuple[tuple[str, str], ...]:
    """Return the pairs of wanted array and layout in the order that they were first measured."""
    return tuple(dict.fromkeys((row.wanted, row.layout) for row in results.rows))


def rows_of(results: Results, wanted: str, layout: str) -> tuple[Row, ...]:
    """Return the rows of one wanted array in one layout."""
    return tuple(row for row in results.rows if (row.wanted, row.layout) == (wanted, layout))


def notes(results: Results) -> Iterator[tuple[str, str, str]]:
    """Yield candidate, note and rows for all that was refused, failed or wrong."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in results.rows:
        for each in row.outcomes:
            if each.note:
                place = f"{row.layer} {row.wanted} {row.layout}"
                found.setdefault((each.name, each.note), []).append(place)
    for (name, note), places in found.items():
        yield name, note, f"{len(places)} rows" if len(places) > 3 else ", ".join(places)


def geometric_mean(values: list[float]) -> float | None:
    """Return the mean of ratios.

    >>> geometric_mean([0.5, 2.0])
    1.0
    """
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def number(value: float | None, digits: int) -> str:
    """Print a number, or a dash where there is none.

    >>> number(3.14159, 2), number(None, 2)
    ('3.14', '-')
    """
    return "-" if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    """Print a share, or a dash where there is none.

    >>> percent(0.884)
    '88 %'
    """
    return "-" if value is None else f"{100 * value:.0f} %"


def _summary(results: Results, wanted: str, layout: str) -> Summary:
    rows = rows_of(results, wanted, layout)
    ratios = {row: row.ratio for row in rows if row.ratio is not None}
    shares = [share for row in rows if (share := results.share(row)) is not None]
    return Summary(
        wanted,
        layout,
        rows=len(rows),
        compared=len(ratios),
        mean=geometric_mean(list(ratios.values())),
        worst=min(ratios, key=lambda row: ratios[row], default=None),
        slower=sum(ratio < 1 for ratio in ratios.values()),
        share=geometric_mean(shares),
    )
