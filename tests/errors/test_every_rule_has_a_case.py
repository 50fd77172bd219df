"""The table of wrong calls is complete: no place in the source refuses unseen."""

import contextlib
from functools import cache

from errors.callees import CALLEES
from errors.sites import Site, reached, sites
from errors.table import CASES
from tconv.errors import TconvError


@cache
def seen() -> set[tuple[str, int]]:
    """Return every line of the package that some case of the table comes through."""
    lines: set[tuple[str, int]] = set()
    for case in CASES:
        with contextlib.suppress(Exception):  # other tests tell what must come out
            try:
                case.call()
            except TconvError as error:
                lines |= reached(error)
    return lines


def unseen(found: list[Site]) -> list[str]:
    """Return the places that no case of the table reaches."""
    return [
        str(site)
        for site in found
        if not any((site.file, line) in seen() for line in range(site.start, site.stop + 1))
    ]


def test_every_place_that_refuses_has_a_case() -> None:
    """Whoever adds a rule adds a wrong call that breaks it."""
    assert unseen(list(sites())) == []


def test_a_place_without_a_case_would_be_found() -> None:
    """The check above can fail."""
    found = list(sites())
    nowhere = Site("arrays.py", 1, 1, "raise Nothing")

    assert len(found) > 50
    assert unseen([nowhere]) == [str(nowhere)]


def test_every_operator_and_function_is_in_the_table() -> None:
    """Fourteen operators and six functions, each with cases of its own."""
    titles = {case.title for case in CASES}

    assert len(CALLEES) == 20
    assert {callee.title for callee in CALLEES.values()} <= titles
