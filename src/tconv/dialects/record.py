"""Operators as frozen records of their attributes."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tconv.dialects.attributes import nearest, shown
from tconv.errors import ProblemError


@dataclass(frozen=True, kw_only=True, repr=False)
class Record:
    """An operator's attributes: frozen, hashable, comparable, printable.

    Subclasses declare each attribute as a field with its document's name and
    default, through :func:`tconv.dialects.attributes.attribute`.
    """

    dialect: ClassVar[str]
    document: ClassVar[str]  # as cited in messages

    def __new__(cls, /, **attributes: object) -> "Record":  # noqa: PYI034 - Self needs Python 3.11
        """Refuse unknown and missing attributes before the fields are set."""
        known = {each.name: each for each in dataclasses.fields(cls)}
        for name, value in attributes.items():
            if name not in known:
                near = nearest(name, known)
                raise ProblemError(
                    cls.title(),
                    f"{name!r} is not one of its attributes.",
                    got={name: shown(value)},
                    rule=f"the attributes are {', '.join(known)}   ({cls.document})",
                    fix=f"did you mean {near!r}?" if near else f"leave {name!r} out",
                )
        for name, each in known.items():
            if each.default is dataclasses.MISSING and name not in attributes:
                raise missing(cls.title(), cls.document, name, attributes)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Parse every attribute once; behind this line only canonical values exist."""
        for each in dataclasses.fields(self):
            value = each.metadata["parse"](self.title(), each.name, getattr(self, each.name))
            object.__setattr__(self, each.name, value)

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from the attributes, since ``__new__`` insists on them."""
        return _rebuild, (type(self), self.attributes())

    def __repr__(self) -> str:
        """Print the attributes that differ from their defaults."""
        shown = [
            f"{each.name}={getattr(self, each.name)!r}"
            for each in dataclasses.fields(self)
            if getattr(self, each.name) != each.default
        ]
        return f"{self.dialect}.{type(self).__name__}({', '.join(shown)})"

    def attributes(self) -> dict[str, Any]:
        """Return every attribute with its canonical value."""
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}

    @classmethod
    def title(cls) -> str:
        """Return how messages name the operator."""
        return f"{cls.dialect} {cls.__name__}"


def missing(title: str, document: str, name: str, attributes: Mapping[str, object]) -> ProblemError:
    """Return the error for a required attribute that was not given."""
    return ProblemError(
        title,
        f"the attribute {name} is missing.",
        got={key: shown(value) for key, value in attributes.items() if value is not None},
        rule=f"{name} is required   ({document}, attribute {name})",
        fix=f"pass {name}=",
    )


def _rebuild(kind: type[Record], attributes: Mapping[str, object]) -> Record:
    return kind(**attributes)
