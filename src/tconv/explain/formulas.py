"""The documents' formulas as text: printed, filled in and evaluated, here and in the page.

The letters are those of docs/dialects.md: X is the size that the stride multiplies, Y the other
one, K the filter, s stride, d dilation, pb and pe the pads, op output_padding, E the window.
A test compares every answer with the operators themselves.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tconv.dialects import functional, onednn, onnx
from tconv.dialects.onednn import gradients
from tconv.dialects.operator import Operator
from tconv.errors import InternalError
from tconv.problem import Operand

NAME = re.compile(r"[A-Za-z]\w*")
SIGNS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


class Formula(NamedTuple):
    """A letter and what it is; without an expression it is given by an attribute."""

    letter: str
    expression: str
    why: str = ""


class Check(NamedTuple):
    """What must hold, and where the library's own words for it stand if it does not."""

    condition: str
    place: str


class Rules(NamedTuple):
    """How one operator finds the pads and the size of an axis."""

    formulas: tuple[Formula, ...]
    checks: tuple[Check, ...]  # a check comes when all its letters are known


WINDOW = Formula("E", "(K - 1) * d + 1", "the window, holes included")
GATHER = Formula("X", "(Y + pb + pe - E) // s + 1", "how many windows fit")
SCATTER = Formula("Y", "s * (X - 1) + E - pb - pe + op", "what the windows cover, less the pads")
GIVEN = (Formula("pb", "", "given"), Formula("pe", "", "given"))
NONE = (Formula("pb", "0", "no padding"), Formula("pe", "0", "no padding"))
LEFTOVER = Formula("total", "max(s * (X - 1) + E + op - Y, 0)", "what the asked size leaves out")

FITS = Check("Y + pb + pe >= E", "padding.gathered")
NOT_EMPTY = Check("Y >= 1", "padding.scattered")
BELOW = "op < max(s, d)"


def rules(op: Operator, *, stated: bool = False) -> Rules:
    """Return the formulas of an operator; ``stated`` tells that the caller asks for a size."""
    families: dict[type[Operator], Callable[[Any], Rules]] = {
        functional._Function: _function,  # noqa: SLF001 - all six functions at once
        gradients._TransposeGradient: _transpose_gradient,  # noqa: SLF001 - all three of them
        gradients._ConvolutionGradient: _convolution_gradient,  # noqa: SLF001 - both of them
    }
    for family, rule in families.items():
        if isinstance(op, family):
            return rule(op)
    if isinstance(op, onnx.ConvTranspose):
        return _onnx_transpose(op, stated=op.output_shape is not None)
    if op.wanted is Operand.FINE and op.dialect == "openvino":
        return _openvino_backward(op, stated=stated)
    if isinstance(op, onednn.ConvTranspose):
        total = Formula("total", "max(E - s, 0)", "what Y = s * X + op leaves over")
        return Rules((WINDOW, *_pads(op, total), SCATTER), (NOT_EMPTY,))
    total = Formula("total", "max(E - (Y % s or s), 0)", "what ceil(Y / s) windows need")
    checks = [FITS]
    if op.wanted is Operand.WEIGHTS:
        checks.append(Check("X == given", "gradients._WeightsGradient._check_count"))
    return Rules((WINDOW, *_pads(op, total), GATHER), tuple(checks))


def evaluate(rule: Rules, letters: Mapping[str, int]) -> dict[str, int]:
    """Return the value of every letter, given those of the attributes and sizes.

    >>> evaluate(Rules((WINDOW, *NONE, GATHER), ()), {"Y": 7, "K": 3, "s": 2, "d": 1})["X"]
    3
    """
    values = dict(letters)
    for formula in rule.formulas:
        if formula.expression:
            values[formula.letter] = value(formula.expression, values)
    return values


def filled(expression: str, values: Mapping[str, int]) -> str:
    """Print an expression with its letters' values.

    >>> filled("max(E - s, 0)", {"E": 3, "s": 2})
    'max(3 - 2, 0)'
    """
    return NAME.sub(lambda name: str(values.get(name[0], name[0])), expression)


def value(expression: str, values: Mapping[str, int]) -> int:
    """Return what an expression comes to.

    >>> value("max(E - (Y % s or s), 0)", {"E": 3, "Y": 6, "s": 2})
    1
    """
    return _value(ast.parse(expression, mode="eval").body, values)


def _value(node: ast.expr, values: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in SIGNS:
            return SIGNS[type(sign)](_value(left, values), _value(right, values))
        case ast.BoolOp(op=ast.Or(), values=parts):
            return next((found for part in parts if (found := _value(part, values))), 0)
        case ast.Call(func=ast.Name(id="max"), args=parts):
            return max(_value(part, values) for part in parts)
    raise InternalError(
        "tconv explain",
        f"{ast.unparse(node)!r} is not part of a formula.",
        got={},
        rule="formulas have + - * // % max and or",
        fix="please report this",
    )


def _split(*, odd_at_end: bool) -> tuple[Formula, Formula]:
    small, large = ("pb", "pe") if odd_at_end else ("pe", "pb")
    halves = (
        Formula(small, "total // 2", "the smaller half"),
        Formula(large, f"total - {small}", "the odd one, if there is one"),
    )
    return halves if odd_at_end else (halves[0], halves[1])


def _mode(op: Operator) -> str:
    mode = str(op.attributes()["auto_pad"]).lower()
    return "none" if mode in ("explicit", "notset") else mode


def _pads(op: Operator, total: Formula) -> tuple[Formula, ...]:
    """Return the pads of an operator whose ``same_upper`` has the odd element at the end."""
    mode = _mode(op)
    if mode == "none":
        return GIVEN
    return NONE if mode == "valid" else (total, *_split(odd_at_end=mode == "same_upper"))


def _transpose_gradient(op: Operator) -> Rules:
    bare = Formula("Y1", "Y - op", "what the forward operator had before output_padding")
    total = Formula("total", "max(E - (Y1 % s or s), 0)", "what ceil(Y1 / s) windows need")
    count = Formula("X", "(Y1 + pb + pe - E) // s + 1", "how many windows fit")
    exact = Formula("whole", "s * (X - 1) + E - pb - pe + op", "what the forward operator gives")
    checks = [
        Check("Y1 >= 1", "gradients._TransposeGradient._gathered"),
        Check("Y1 + pb + pe >= E", "padding.gathered"),
        Check("op == 0 or whole == Y", "gradients._TransposeGradient._check_exact"),
    ]
    if op.wanted is Operand.WEIGHTS:
        checks.append(Check("X == given", "gradients._WeightsGradient._check_count"))
    return Rules((WINDOW, bare, *_pads(op, total), count, exact), tuple(checks))


def _convolution_gradient(op: Operator) -> Rules:
    mode, attributes = _mode(op), op.attributes()
    if mode.startswith("same"):
        upper = mode == "same_upper"
        odd_at_end = upper if attributes["reading"] != "document" else not upper
        return Rules((WINDOW, LEFTOVER, *_split(odd_at_end=odd_at_end)), ())
    natural = Formula("natural", "s * (X - 1) + E - pb - pe", "the smallest Y that X comes from")
    last = Formula("last", "natural + s - 1", "the largest")
    check = Check(
        "natural <= Y <= last or Y == natural + op", "gradients._ConvolutionGradient._check_asked"
    )
    return Rules((WINDOW, *_pads(op, LEFTOVER), natural, last), (check,))


def _openvino_backward(op: Operator, *, stated: bool) -> Rules:
    mode = _mode(op)
    by_formula = stated and (mode.startswith("same") or op.attributes()["reading"] == "document")
    if by_formula:
        return Rules((WINDOW, LEFTOVER, *_split(odd_at_end=mode != "same_upper")), ())
    pads = GIVEN if mode == "none" else NONE
    if stated:
        return Rules((WINDOW, *pads), ())
    return Rules((WINDOW, *pads, SCATTER), (NOT_EMPTY,))


def _onnx_transpose(op: onnx.ConvTranspose, *, stated: bool) -> Rules:
    mode = _mode(op)
    halves = _split(odd_at_end=(mode == "same_upper") == (op.opset >= 11))
    limit = Check(BELOW, "onnx.ConvTranspose._sized")
    if stated:
        most = Formula(
            "most", "s * (X - 1) + E + op + s - 1", "the largest Y that may be asked for"
        )
        asked = Check("Y <= most", "onnx.ConvTranspose._check_asked")
        return Rules((WINDOW, most, LEFTOVER, *halves), (limit, asked))
    if mode.startswith("same"):
        total = Formula(
            "total", "max(s * (X - 1) + E + op - s * X, 0)", "what Y = s * X leaves out"
        )
        return Rules((WINDOW, total, *halves, SCATTER), (limit, NOT_EMPTY))
    pads = GIVEN if mode == "none" else NONE
    return Rules((WINDOW, *pads, SCATTER), (limit, NOT_EMPTY))


def _function(op: Operator) -> Rules:
    padding = op.attributes()["padding"]
    if isinstance(op, functional._ConvTranspose):  # noqa: SLF001 - the three of conv_transpose
        limit = Check(BELOW, "functional._ConvTranspose._scattered")
        return Rules((WINDOW, *GIVEN, SCATTER), (limit, NOT_EMPTY))
    if padding == "same":
        total = Formula("total", "E - 1", "what X = Y needs")
        pads: tuple[Formula, ...] = (total, *_split(odd_at_end=True))
        checks = (Check("s == 1", "functional._Conv._gathered"), FITS)
        return Rules((WINDOW, *pads, GATHER), checks)
    return Rules((WINDOW, *(NONE if padding == "valid" else GIVEN), GATHER), (FITS,))
