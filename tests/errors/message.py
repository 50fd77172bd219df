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
    names = [line.split()[0] for line in others if line.strip()]
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    shown = INTERNALS.search(PUBLIC.sub("", text))
    checks = {
        f"a {type(error).__name__}": type(error) in (tconv.ProblemError, tconv.UnsupportedError),
        f"the title is {error.op!r}": error.op == title,
        "the first line is not op and wrong": first == f"{error.op}: {error.wrong}",
        "the first line is no sentence": first.endswith(".") or "cannot be read" in first,
        "a line is not indented": all(re.match(r"  \S", line) for line in others),
        "rule and fix are not the last two lines": names[-2:] == ["rule", "fix"],
        "there is not one line for each part": len(others) == len(error.got) + 2,
        "rule or fix is empty": bool(error.rule and error.fix),
        f"it shows {shown and shown.group()!r}": not shown,
        "it does not survive pickling": (type(copy), str(copy), vars(copy))
        == (type(error), text, vars(error)),
    }
    return [flaw for flaw, good in checks.items() if not good]
