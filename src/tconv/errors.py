"""Every exception and warning of the package.

::

    TconvError
    ├── ProblemError      (ValueError)           the call breaks its document
    ├── UnsupportedError  (NotImplementedError)  defined, but not done here
    └── InternalError     (RuntimeError)         our fault
    AmbiguousSpecWarning  (UserWarning)          the document has two answers
"""

from collections.abc import Mapping

__all__ = [
    "AmbiguousSpecWarning",
    "InternalError",
    "ProblemError",
    "TconvError",
    "UnsupportedError",
]


class TconvError(Exception):
    """What tconv raises: the caller's words, both numbers, the rule and the fix.

    The parts are kept as fields for programs; the text is for people.

    >>> print(ProblemError("onnx Conv", "group is 0.", got={"group": 0},
    ...                    rule="group >= 1   (ONNX Conv-22, group)", fix="pass group=1"))
    onnx Conv: group is 0.
      group  0
      rule   group >= 1   (ONNX Conv-22, group)
      fix    pass group=1
    """

    def __init__(
        self, op: str, wrong: str, *, got: Mapping[str, object], rule: str, fix: str
    ) -> None:
        self.op, self.wrong, self.got, self.rule, self.fix = op, wrong, dict(got), rule, fix
        lines = {**{name: str(value) for name, value in got.items()}, "rule": rule, "fix": fix}
        width = max(map(len, lines))
        body = "\n".join(f"  {name:<{width}}  {text}" for name, text in lines.items())
        super().__init__(f"{op}: {wrong}\n{body}")

    def __reduce__(self) -> tuple[object, ...]:
        """Cross process borders whole: pools pickle exceptions."""
        return _rebuild, (type(self), self.op, self.wrong, self.got, self.rule, self.fix)


def _rebuild(  # noqa: PLR0913 - the parts of a message
    kind: type[TconvError], op: str, wrong: str, got: Mapping[str, object], rule: str, fix: str
) -> TconvError:
    return kind(op, wrong, got=got, rule=rule, fix=fix)


class ProblemError(TconvError, ValueError):
    """The call asks for something that its document does not define."""


class UnsupportedError(TconvError, NotImplementedError):
    """The document defines it, but it is not done here."""


class InternalError(TconvError, RuntimeError):
    """A mistake of ours; the message asks for a report."""


class AmbiguousSpecWarning(UserWarning):
    """The document and its engine give different answers to this very call."""
