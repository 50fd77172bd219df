"""What every message must be, whatever went wrong."""

import pickle
import re

import tconv
from tconv.errors import TconvError

# Words of our own that a caller never used.
INTERNALS = re.compile(
    r"\b(coarse|taps?|Operand|Layout|Resolved|Record|Sized|NoneType|Traceback)\b"
    r"|\bfine (grid|points?|size|channels?)\b|\b_[a-z]\w+|\.py\b|src/tconv|lambda"
)
# The DLPack and array protocols are spelled with underscores everywhere.
PUBLIC = re.compile(r"__(array|dlpack|dlpack_device|index)__")


def flaws(error: TconvError, title: str) -> list[str]:
    """Return everything that is wrong with a message; nothing for a good one."""
    text = str(error)
    first, *others = text.split("\n")
    wrong = []
    if type(error) not in (tconv.ProblemError, tconv.UnsupportedError):
        wrong.append(f"a {type(error).__name__}")
    if isinstance(error, tconv.ProblemError) and not isinstance(error, ValueError):
        wrong.append("ProblemError is no ValueError")
    if first != f"{error.op}: {error.wrong}":
        wrong.append("the first line is not op and wrong")
    if error.op != title:
        wrong.append(f"the title is {error.op!r}")
    if not first.endswith((".", "?")) and "..." not in first and "cannot be read" not in first:
        wrong.append("the first line is no sentence")
    if not all(re.match(r"  \S", line) for line in others):
        wrong.append("a line after the first is not indented by two")
    names = [line.split()[0] for line in others if line.strip()]
    if names[-2:] != ["rule", "fix"]:
        wrong.append("rule and fix are not the last two lines")
    if len(others) != len(error.got) + 2:
        wrong.append("there is not one line for each part")
    if not (error.rule and error.fix):
        wrong.append("rule or fix is empty")
    found = INTERNALS.search(PUBLIC.sub("", text))
    if found:
        wrong.append(f"it shows {found.group()!r}")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    if (type(copy), str(copy), vars(copy)) != (type(error), text, vars(error)):
        wrong.append("it does not survive pickling")
    return wrong
