"""Settle batch, groups and channels, on which the operands must agree."""

from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from tconv.dialects.call import Call, Given, Size
from tconv.problem import Operand


class Channels(NamedTuple):
    """Sizes that the operands agree on; channels are those of one group."""

    groups: Size
    coarse: Size
    fine: Size
    batch: Size


def settle_channels(call: Call, groups: Size, words: Mapping[str, str]) -> Channels:
    """Return the sizes that all operands agree on, or refuse the call.

    ``words`` gives the document's word for the channels of each grid
    ("input", "output").
    """
    per_group: dict[str, Size] = {}
    for letter in "cf":
        owners = [given for given in call.operands.values() if _word(given, letter)]
        # The filter comes last, so that a message compares it with the data.
        owners.sort(key=lambda given: given is call.operands[Operand.WEIGHTS])
        total: Size = None
        for given in owners:
            said = _total(given, letter, groups)
            if None not in (said, total) and said != total:
                _refuse_channels(call, owners[0], given, letter, groups, words[letter])
            total = total if said is None else said
        for given in owners:
            _check_divides(call, given, letter, groups)
        one = [given.size(letter) for given in owners if _word(given, letter) == letter]
        known = total is not None and groups is not None
        per_group[letter] = total // groups if known else next(iter(one), None)  # type: ignore[operator]
    return Channels(groups, per_group["c"], per_group["f"], _batch(call))


def _word(given: Given, letter: str) -> str | None:
    """Return the layout word that holds a channel letter, alone or with the group."""
    return next((word for word in given.layout.words if word in (letter, f"g{letter}")), None)


def _total(given: Given, letter: str, groups: Size) -> Size:
    """Return how many channels an operand states for all groups together."""
    word = _word(given, letter)
    size = given.size(word) if word else None
    if size is None or word != letter:
        return size
    return None if groups is None else size * groups


def _check_divides(call: Call, given: Given, letter: str, groups: Size) -> None:
    size = _total(given, letter, groups)
    if size is not None and groups is not None and size % groups != 0:
        call.refuse(
            f"{groups} groups do not divide the {size} channels of {given.name}.",
            rule=f"the channels of {given.name} are divisible by the number of groups",
            fix=f"pass {given.name} with a multiple of {groups} channels, or other groups",
        )


def _refuse_channels(  # noqa: PLR0913 - the parts of a message
    call: Call, data: Given, weights: Given, letter: str, groups: Size, direction: str
) -> NoReturn:
    have, needed = _total(data, letter, groups), _total(weights, letter, groups)
    product = str(needed)
    if _word(weights, letter) == letter and groups != 1:
        product = f"{groups} x {weights.size(letter)} = {needed}"
    call.refuse(
        f"{weights.name} takes {product} {direction} channels, but {data.name} has {have}.",
        rule=f"{_code(data, f'g{letter}')} == {_formula(weights, letter, groups)}",
        fix=f"pass {data.name} with {needed} channels",
        where=f"input {data.name}",
    )


def _formula(weights: Given, letter: str, groups: Size) -> str:
    """Return how the filter's shape gives a total of channels, as code."""
    word = _word(weights, letter) or letter
    if word != letter:
        return _code(weights, word)
    if "g" in weights.layout.words:
        return f"{_code(weights, 'g')} * {_code(weights, word)}"
    return _code(weights, word) if groups == 1 else f"groups * {_code(weights, word)}"


def _code(given: Given, word: str) -> str:
    """Return the code for one size, counted from the end behind the spatial axes."""
    words = given.layout.words
    place = words.index(word)
    return f"{given.name}.shape[{place if place < words.index('x') else place - len(words)}]"


def _batch(call: Call) -> Size:
    """Return the batch, which two data operands must share."""
    batch: Size = None
    owner = ""
    for given in call.operands.values():
        size = given.size("n") if "n" in given.layout.words else None
        if size is None:
            continue
        if batch not in (None, size):
            call.refuse(
                f"{given.name} has a batch of {size}, but {owner} has {batch}.",
                rule=f"{owner} and {given.name} have the same batch",
                fix=f"pass {given.name} with a batch of {batch}",
            )
        batch, owner = size, given.name
    return batch
