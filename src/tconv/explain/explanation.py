"""A call explained in words and numbers: sizes step by step, pads, phases, cost and plan."""

from collections.abc import Sequence
from dataclasses import dataclass

from tconv.calls import Runnable
from tconv.dialects.call import Given, Shape, shape_text
from tconv.dialects.operator import BIAS, ShapeLike
from tconv.explain.formulas import Rules, evaluate, filled, rules
from tconv.problem import Axis, Operand, Problem

MOST = 12  # numbers of a list that are worth printing

VERBS = {
    Operand.COARSE: "gather: every point of {result} reads one window of {fine}",
    Operand.FINE: "scatter: every point of {coarse} spreads one window over {result}",
    Operand.WEIGHTS: "correlate: every tap of {result} sums where {coarse} and {fine} meet",
}
LETTERS = ["X", "Y", "K", "s", "d", "op"]

# Sentences that the page fills in as well.
READINGS = {
    "one": "{document} has one reading of this call",
    "same": "{used} ({how}); {other} gives the same: {pads}",
    "used": "used      {used} ({how}): {pads}",
    "other": "not used  {used} ({how}): {pads}",
    "pads": "pads_begin {begin}, pads_end {end}",
    "engine": "as its engine computes",
    "document": "by the printed formula",
    "opset 1": "odd padding as version 1 prints it",
    "opset 11": "as from version 11 on",
}
ODD = {
    "even": "; the total is even",
    "end": "; the odd one went to the end",
    "begin": "; the odd one went to the beginning",
}


@dataclass(frozen=True)
class Line:
    """One formula, filled in."""

    letter: str
    expression: str
    filled: str
    value: int
    why: str


@dataclass(frozen=True)
class Phase:
    """Fine points that meet the same taps."""

    number: int
    points: tuple[int, ...]
    taps: tuple[int, ...]


@dataclass(frozen=True)
class Explanation:
    """Everything that is said of one call."""

    op: Runnable
    shapes: tuple[Shape, ...]
    result: Shape
    problem: Problem
    names: dict[Operand, str]
    letters: tuple[dict[str, int], ...]  # of each axis, the given ones
    lines: tuple[tuple[Line, ...], ...]  # of each axis
    pads: tuple[Shape, Shape]
    readings: tuple[str, ...]
    plan: str

    def __str__(self) -> str:
        """Print it for a terminal."""
        parts = [_head(self), _relation(self)]
        parts += [_axis(self, number) for number in range(len(self.lines))]
        parts.append("\n".join(["reading", *(f"  {line}" for line in self.readings)]))
        parts.append(_cost(self.problem))
        parts.append("\n".join(["plan", *(f"  {line}" for line in self.plan.split("\n"))]))
        return "\n\n".join(parts)


def explain(op: Runnable, *shapes: ShapeLike, dtype: str = "float32") -> Explanation:
    """Return what happens when ``op`` is called with inputs of these shapes.

    >>> from tconv import onnx
    >>> told = explain(onnx.ConvTranspose(strides=[2], auto_pad="SAME_UPPER"), (1, 1, 3), (1, 1, 3))
    >>> [(line.letter, line.filled, line.value) for line in told.lines[0]][1]
    ('total', 'max(2 * (3 - 1) + 3 + 0 - 2 * 3, 0)', 1)
    """
    problem = op.problem(*shapes, dtype=dtype)
    resolved = op.resolve(*shapes, dtype=dtype)
    stated = len(shapes) > 2 and op.third not in BIAS
    rule = rules(op, stated=stated)
    letters = tuple(given_letters(op, problem, number) for number in range(len(problem.axes)))
    names = dict(zip(op.given, op.inputs, strict=True)) | {op.wanted: op.result}
    return Explanation(
        op=op,
        shapes=tuple(tuple(shape) for shape in shapes),
        result=resolved.shape,
        problem=problem,
        names=names,
        letters=letters,
        lines=tuple(_lines(rule, values) for values in letters),
        pads=resolved.pads,
        readings=_readings(op, shapes),
        plan=str(op.plan(*shapes, dtype=dtype)),
    )


def given_letters(op: Runnable, problem: Problem, number: int) -> dict[str, int]:
    """Return the letters of one axis that sizes and attributes give."""
    axis = problem.axes[number]
    values = {"X": axis.coarse_size, "Y": axis.fine_size, "K": axis.taps, "s": axis.stride}
    values |= {"d": axis.dilation, "op": _attribute(op, "output_padding", number)}
    attributes = op.attributes()
    if "pads" in attributes:
        pads = attributes["pads"] or (0,) * (2 * len(problem.axes))
        values |= {"pb": pads[number], "pe": pads[number + len(problem.axes)]}
    elif "padding" in attributes:
        both = 0 if isinstance(attributes["padding"], str) else _attribute(op, "padding", number)
        values |= {"pb": both, "pe": both}
    else:
        values["pb"] = _attribute(op, "pads_begin", number)
        values["pe"] = _attribute(op, "pads_end", number)
    return values


def phases(axis: Axis) -> list[Phase]:
    """Return the phases of the fine grid that have points, or those of its first points.

    >>> phases(Axis(fine_size=5, coarse_size=3, taps=3, stride=2, dilation=1, pad_begin=1))[1]
    Phase(number=1, points=(0, 2, 4), taps=(1,))
    """
    found = []
    for first in range(min(axis.stride, axis.fine_size, MOST + 1)):
        number = (first + axis.pad_begin) % axis.stride
        points = tuple(range(first, axis.fine_size, axis.stride)[: MOST + 1])
        taps = [t for t in range(axis.taps) if axis.dilation * t % axis.stride == number]
        found.append(Phase(number, points, tuple(taps[: MOST + 1])))
    return sorted(found, key=lambda phase: phase.number)


def _attribute(op: Runnable, name: str, number: int) -> int:
    numbers = op.attributes().get(name) or 0
    return int(numbers if isinstance(numbers, int) else numbers[number])


def _lines(rule: Rules, letters: dict[str, int]) -> tuple[Line, ...]:
    values = evaluate(rule, letters)
    return tuple(
        Line(each.letter, each.expression, filled(each.expression, values), values[each.letter],
             each.why)
        for each in rule.formulas
    )  # fmt: skip


def _head(told: Explanation) -> str:
    op = told.op
    rows = []
    for operand in (*op.given, op.wanted):
        shape, layout = told.problem.shape(operand), told.problem.layout(operand)
        words = op._words(operand)  # noqa: SLF001 - the document's words are the dialect's own
        given = Given(told.names[operand], shape, layout, words)
        rows.append((given.name, shape, given.axes_text()))
    width = max(len(name) for name, _, _ in rows)
    shape_width = max(len(shape_text(shape)) for _, shape, _ in rows)
    verb = VERBS[op.wanted].format(
        result=op.result,
        fine=told.names[Operand.FINE],
        coarse=told.names[Operand.COARSE],
    )
    lines = [f"{op!r}", f"  {verb}"]
    for name, shape, words_text in rows:
        wanted = "   (the result)" if name == op.result else ""
        lines.append(f"  {name:<{width}}  {shape_text(shape):<{shape_width}}  {words_text}{wanted}")
    return "\n".join(lines)


def _relation(told: Explanation) -> str:
    coarse, fine = told.names[Operand.COARSE], told.names[Operand.FINE]
    return (
        "relation\n  y = s * x + d * k - pb: "
        f"point x of {coarse} and tap k meet at point y of {fine};"
        "\n  what falls outside 0 .. Y-1 is dropped"
    )


def _axis(told: Explanation, number: int) -> str:
    letters, lines = told.letters[number], told.lines[number]
    found = {line.letter for line in lines}
    shown = ", ".join(f"{letter} {letters[letter]}" for letter in LETTERS if letter not in found)
    rows = [
        (line.letter, line.expression or "given", line.filled or str(line.value)) for line in lines
    ]
    letter_width, text_width, filled_width = (
        max(map(len, column)) for column in zip(*rows, strict=True)
    )
    text = [f"spatial axis {number + 1}   {shown}"]
    for (letter, expression, numbers), line in zip(rows, lines, strict=True):
        start = f"  {letter:<{letter_width}} = {expression:<{text_width}} "
        text.append(f"{start} = {numbers:<{filled_width}} = {line.value:<4}  {line.why}".rstrip())
    begin, end = (side[number] for side in told.pads)
    text.append(f"  pads   {begin} at the beginning, {end} at the end{odd_one(begin, end, lines)}")
    for phase in phases(told.problem.axes[number]):
        points, taps = _listed(phase.points), _listed(phase.taps)
        name = told.names[Operand.FINE]
        text.append(f"  phase {phase.number}: {name} points {points}; taps {taps or 'none: zero'}")
    return "\n".join(text)


def odd_one(begin: int | None, end: int | None, lines: Sequence[Line]) -> str:
    """Say where the odd element of a split padding went."""
    if not any(line.letter == "total" for line in lines):
        return ""
    if begin == end:
        return ODD["even"]
    return ODD["end" if (begin or 0) < (end or 0) else "begin"]


def _readings(op: Runnable, shapes: Sequence[ShapeLike]) -> tuple[str, ...]:
    """Say which reading of the document was used, and what the other one gives."""
    attributes = op.attributes()
    if "reading" in attributes:
        used = attributes["reading"] or "engine"
        other = "document" if used == "engine" else "engine"
        pair = {each: _with(op, reading=each) for each in (used, other)}
    elif "opset" in attributes and op.wanted is Operand.FINE:
        used, other = "opset 11", "opset 1"
        if attributes["opset"] < 11:
            used, other = other, used
        pair = {each: _with(op, opset=int(each[6:])) for each in (used, other)}
    else:
        return (READINGS["one"].format(document=op.document),)
    answers = {each: kind.resolve(*shapes).pads for each, kind in pair.items()}
    texts = {
        each: READINGS["pads"].format(begin=shape_text(pads[0]), end=shape_text(pads[1]))
        for each, pads in answers.items()
    }
    if answers[used] == answers[other]:
        same = READINGS["same"]
        return (same.format(used=used, how=READINGS[used], other=other, pads=texts[used]),)
    return tuple(
        READINGS[role].format(used=each, how=READINGS[each], pads=texts[each])
        for role, each in (("used", used), ("other", other))
    )


def _with(op: Runnable, **changes: object) -> Runnable:
    """Return an operator with other attributes."""
    return type(op)(**op.attributes() | changes)


def _cost(problem: Problem) -> str:
    flops, size = problem.flops(), problem.bytes()
    return (
        f"cost\n  {flops:,} flops and {size:,} bytes in and out: "
        f"{flops / max(size, 1):.2f} flops a byte"
    )


def _listed(numbers: Sequence[int]) -> str:
    shown = " ".join(map(str, numbers[:MOST]))
    return f"{shown} ..." if len(numbers) > MOST else shown
