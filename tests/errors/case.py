"""A wrong call, and the first line of the error that must come of it."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import tconv
from tconv.errors import TconvError


@dataclass(frozen=True)
class Case:
    """One wrong call; ``...`` in the expected texts stands for anything."""

    name: str
    title: str  # the operator, function or reader that must be named first
    wrong: str  # what the first line must say after the title
    call: Callable[[], object]
    kind: type[TconvError] = tconv.ProblemError
    fix: str = "..."

    @property
    def first_line(self) -> str:
        """The expected first line as a regular expression."""
        return rf"\A{re.escape(self.title)}: {wildcard(self.wrong)}\n"


def wildcard(text: str) -> str:
    """Return a regular expression for a text in which ``...`` stands for anything.

    >>> bool(re.fullmatch(wildcard("a...z (1)"), "a to z (1)"))
    True
    """
    return ".*".join(map(re.escape, text.split("...")))
