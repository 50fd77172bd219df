"""In which order an array keeps its axes, whatever a document calls them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tconv.errors import InternalError

LETTERS = "ngcfx"


@dataclass(frozen=True, slots=True)
class Layout:
    """The axes of an array in memory order, in one-letter words.

    ``n`` batch, ``g`` group, ``c`` coarse channel of a group, ``f`` fine channel of
    a group, ``x`` all spatial axes.  Letters written together share one axis, the
    first varying slowest, so ``"gc f x"`` is PyTorch's filter and
    ``"n x gc"`` a channels-last picture.

    >>> Layout("gc f x").shape({"g": 2, "c": 3, "f": 5}, (7, 7))
    (6, 5, 7, 7)
    """

    axes: str

    def __post_init__(self) -> None:
        """Refuse a letter that is unknown or stands twice."""
        letters = self.axes.replace(" ", "")
        if len(set(letters)) != len(letters) or not set(letters) <= set(LETTERS):
            raise InternalError(
                "tconv",
                f"{self.axes!r} is not a layout.",
                got={},
                rule=f"each of the letters {LETTERS} at most once",
                fix="please report this call",
            )

    @property
    def words(self) -> tuple[str, ...]:
        """The words, one for each axis, ``x`` standing for all spatial axes."""
        return tuple(self.axes.split())

    def rank(self, spatial: int) -> int:
        """Return the number of axes when there are ``spatial`` spatial ones."""
        return len(self.words) - 1 + spatial

    def shape(self, sizes: Mapping[str, int], spatial: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape in memory for the given size of each letter."""
        return tuple(
            size
            for word in self.words
            for size in (spatial if word == "x" else (_product(sizes, word),))
        )

    def path(
        self, order: str, sizes: Mapping[str, int], spatial: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return ``(shape, permutation)`` that lead from memory to ``order``.

        ``array.reshape(shape).transpose(permutation)`` is then a view whose axes
        are the letters of ``order``; reshaping only splits axes, so it never copies.
        A letter that the layout lacks counts as an axis of size 1.

        >>> Layout("n x gc").path("ngxc", {"n": 1, "g": 2, "c": 3}, (5, 7))
        ((1, 5, 7, 2, 3), (0, 3, 1, 2, 4))
        """
        letters = [letter for word in self.words for letter in word]
        letters += [letter for letter in order if letter not in letters]
        shape: list[int] = []
        places: dict[str, tuple[int, ...]] = {}
        for letter in letters:
            part = spatial if letter == "x" else (sizes[letter] if letter in self.axes else 1,)
            places[letter] = tuple(range(len(shape), len(shape) + len(part)))
            shape += part
        return tuple(shape), tuple(place for letter in order for place in places[letter])

    def steps(
        self, strides: Sequence[int], sizes: Mapping[str, int]
    ) -> tuple[dict[str, int], tuple[int, ...]]:
        """Return how far apart neighbours lie, for each letter and for each spatial axis.

        >>> Layout("n x gc").steps((210, 42, 6, 1), {"n": 1, "g": 2, "c": 3})
        ({'n': 210, 'c': 1, 'g': 3}, (42, 6))
        """
        letters: dict[str, int] = {}
        before = self.words.index("x")
        behind = len(self.words) - before - 1
        spatial = tuple(strides[before : len(strides) - behind])
        others = (*strides[:before], *strides[len(strides) - behind :])
        words = (*self.words[:before], *self.words[before + 1 :])
        for word, stride in zip(words, others, strict=True):
            step = stride
            for letter in reversed(word):
                letters[letter] = step
                step *= sizes[letter]
        return letters, spatial

    def __str__(self) -> str:
        """Print the words."""
        return self.axes


def _product(sizes: Mapping[str, int], word: str) -> int:
    total = 1
    for letter in word:
        total *= sizes[letter]
    return total
