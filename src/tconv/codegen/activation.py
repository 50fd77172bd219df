"""Activations of sums, in place, while they are still in scratch.

A gather calls one of these by its address in the record, so that it is compiled only for
those who use it.  What each computes is said in :mod:`tconv.problem.activation`; how exactly,
in docs/numerics.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal

from llvmlite import ir

from tconv.codegen.block import KernelShape, Record
from tconv.codegen.build import (
    F64,
    FLOATS,
    I32,
    I64,
    VOID,
    counted,
    declared,
    fma,
    function,
    load,
    number,
    place,
    splat,
    store,
)


def activated(
    b: ir.IRBuilder,
    r: Record,
    sums: ir.Value,
    bias: ir.Value,
    sizes: tuple[ir.Value, ir.Value, ir.Value],
) -> ir.Value:
    """Add the bias and apply the activation, if there is one; return what is left to add.

    ``sizes`` are how many rows of sums there are, how long they are and how far apart.
    """
    wanted = b.icmp_signed("!=", r.activate, number(0))
    kind = ir.FunctionType(VOID, [sums.type, bias.type, *[I64] * 4])
    with b.if_then(wanted, likely=False):
        b.call(r.pointer_to("activate", kind.as_pointer()), [sums, bias, *sizes, r.slope])
    return b.select(wanted, r.pointer_to("zeros", bias.type), bias)


def emit_activation(
    module: ir.Module, shape: KernelShape, name: str, *, across: bool
) -> ir.Function:
    """Emit ``activate(sums, bias, rows, length, pitch, slope)``, public.

    ``sums[r * pitch + k] = activation(sums[r * pitch + k] + bias[k])``, or ``bias[r]`` with
    ``across``.  The length is rounded up to whole vectors; the slope is the bits of a double.
    """
    scalar = FLOATS[shape.dtype]
    pointer, lanes = scalar.as_pointer(), shape.lanes
    order = "rows" if across else "points"
    title = f"activate_{name}_{order}_{shape.dtype}"
    made, b = function(module, title, [pointer, pointer, *[I64] * 4], public=True)
    sums, bias, rows, length, pitch, slope = made.args
    for argument in made.args[:2]:
        argument.add_attribute("noalias")
    parameter = b.bitcast(slope, F64)
    if scalar != F64:
        parameter = b.fptrunc(parameter, scalar)
    m = _Maths(b, shape.dtype, lanes)
    formula, alpha = FORMULAS[name], splat(b, parameter, lanes)
    with counted(b, rows) as row:
        line = place(b, sums, b.mul(row.index, pitch))
        same = splat(b, load(b, bias, row.index), lanes) if across else None
        with counted(b, length, step=lanes) as k:
            added = load(b, bias, k.index, m.vector) if same is None else same
            total = b.fadd(load(b, line, k.index, m.vector), added)
            store(b, formula(m, total, alpha), line, k.index)
    b.ret_void()
    return made


@dataclass(frozen=True, slots=True)
class Format:
    """Numbers of a floating-point type that the formulas need."""

    mantissa: int  # bits stored of it
    exponent: int  # what is added to an exponent to store it
    terms: int  # of the exponential's series that are larger than a rounding
    floor: float  # the exponential of less is zero, even times as much
    nearly: float  # of less it cannot be told from zero when one is taken away
    tail: float  # a normal number is less than minus this with probability zero
    normal: tuple[float, ...]


# The probability of a normal number below -a, divided by exp(-a * a / 2) * 4 / (4 + a), as a
# polynomial in (4 - a) / (4 + a): interpolated between Chebyshev points in 60 digits.
FORMATS = {
    "float32": Format(23, 127, 8, -110.0, -30.0, 15.0, (
        0.18882128596305847, 0.151974156498909, 0.09678435325622559, 0.04663054272532463,
        0.01509914081543684, 0.001884419354610145, -0.0008698970195837319,
        -0.00040548748802393675, 3.3236156014027074e-05, 5.387101191445254e-05,
        -2.749756617959065e-07, -5.287619387672748e-06, -5.2676920603289545e-08,
    )),
    "float64": Format(52, 1023, 14, -760.0, -60.0, 39.0, (
        0.18882128260393788, 0.15197416049297308, 0.09678435018555363, 0.04663046448990883,
        0.015099143722734017, 0.0018850472418548913, -0.0008699230918471039,
        -0.0004077046169516111, 3.333607817507696e-05, 5.777375499800162e-05,
        -4.770662713356697e-07, -8.786280640031454e-06, 1.791815994676254e-07,
        1.4804097004947042e-06, -1.5749935662910555e-07, -2.562081265236581e-07,
        6.817940208155963e-08, 3.995669152609669e-08, -2.1783236553668727e-08,
        -4.470468102375854e-09, 5.401106710680101e-09, 1.505250931987869e-10,
        -9.495104649893623e-10, 2.9355268848117663e-11, 8.789231066702325e-11,
    )),
}  # fmt: skip
LOG2 = Decimal(2).ln(Context(prec=60))


class _Maths:
    """Elementary functions of vectors of one type."""

    def __init__(self, b: ir.IRBuilder, dtype: str, lanes: int) -> None:
        self.b = b
        self.name = "float64" if FLOATS[dtype] == F64 else "float32"
        self.format = FORMATS[self.name]
        self.vector = ir.VectorType(FLOATS[dtype], lanes)
        self.whole = ir.VectorType(I64 if self.name == "float64" else I32, lanes)

    def constant(self, value: float) -> ir.Constant:
        """Return a value in every lane."""
        return ir.Constant(self.vector, [value] * self.vector.count)

    def integer(self, value: int) -> ir.Constant:
        """Return a whole number in every lane."""
        return ir.Constant(self.whole, [value] * self.whole.count)

    def below(self, x: ir.Value, limit: float) -> ir.Value:
        """Tell which lanes are less; no NaN is."""
        return self.b.fcmp_ordered("<", x, self.constant(limit))

    def at_least(self, x: ir.Value, limit: float) -> ir.Value:
        """Return the larger of lanes and a limit; NaN stays."""
        return self.b.select(self.below(x, limit), self.constant(limit), x)

    def at_most(self, x: ir.Value, limit: float) -> ir.Value:
        """Return the smaller of lanes and a limit; NaN stays."""
        above = self.b.fcmp_ordered(">", x, self.constant(limit))
        return self.b.select(above, self.constant(limit), x)

    def call(self, name: str, *arguments: ir.Value) -> ir.Value:
        """Call what LLVM knows for vectors of this type."""
        bits = 64 if self.name == "float64" else 32
        full = f"llvm.{name}.v{self.vector.count}f{bits}"
        kinds = [self.vector] * len(arguments)
        return self.b.call(declared(self.b.module, full, self.vector, kinds), arguments)

    def polynomial(self, x: ir.Value, coefficients: tuple[float, ...]) -> ir.Value:
        """Return the sum of coefficients times rising powers."""
        total: ir.Value = self.constant(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            total = fma(self.b, total, x, self.constant(coefficient))
        return total

    def reduced(self, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Return whole ``n`` and ``exp(r) - 1`` for ``x = n * log(2) + r``, r around zero."""
        b = self.b
        # Adding a number this large leaves no bits behind the point, and n in the last ones.
        large = self.constant(1.5 * 2**self.format.mantissa)
        shifted = fma(b, x, self.constant(1 / float(LOG2)), large)
        n = b.fsub(shifted, large)
        # The logarithm of two in two parts: whole multiples of the first are exact.
        unit = 2 ** (self.format.mantissa - 11)
        high = int(LOG2 * unit) / unit
        rest = fma(b, n, self.constant(-high), x)
        rest = fma(b, n, self.constant(-float(LOG2 - Decimal(high))), rest)
        series = tuple(1 / math.factorial(k) for k in range(2, self.format.terms + 1))
        grown = fma(b, b.fmul(rest, rest), self.polynomial(rest, series), rest)
        return b.sub(b.bitcast(shifted, self.whole), b.bitcast(large, self.whole)), grown

    def power_of_two(self, n: ir.Value) -> ir.Value:
        """Return ``2 ** n``, for what is neither too large nor too small to be written so."""
        stored = self.b.add(n, self.integer(self.format.exponent))
        return self.b.bitcast(self.b.shl(stored, self.integer(self.format.mantissa)), self.vector)

    def exp(self, x: ir.Value, *factors: ir.Value) -> list[ir.Value]:
        """Return the exponential of what is not positive, times each of the factors."""
        b = self.b
        n, grown = self.reduced(self.at_least(x, self.format.floor))
        half = b.ashr(n, self.integer(1))
        # In two steps: the last one may leave the normal range, and rounds.
        first = b.fmul(b.fadd(grown, self.constant(1.0)), self.power_of_two(half))
        last = self.power_of_two(b.sub(n, half))
        return [b.fmul(b.fmul(first, factor), last) for factor in factors]

    def exp_less_one(self, x: ir.Value) -> ir.Value:
        """Return ``exp(x) - 1`` of what is not positive, however small."""
        n, grown = self.reduced(self.at_least(x, self.format.nearly))
        scale = self.power_of_two(n)
        return fma(self.b, scale, grown, self.b.fsub(scale, self.constant(1.0)))

    def sigmoid(self, x: ir.Value, factor: ir.Value) -> ir.Value:
        """Return ``factor / (1 + exp(-x))``, without an exponential that could overflow."""
        b, one = self.b, self.constant(1.0)
        small, product = self.exp(b.fneg(self.call("fabs", x)), one, factor)
        above = b.select(self.below(x, 0.0), product, factor)
        return b.fdiv(above, b.fadd(small, one))

    def silu(self, x: ir.Value) -> ir.Value:
        """Return ``x`` times its sigmoid."""
        return self.but_endless(x, self.sigmoid(x, self.at_least(x, self.format.floor)))

    def but_endless(self, x: ir.Value, value: ir.Value) -> ir.Value:
        """Return a value, but NaN for minus infinity: its formula multiplies that by zero."""
        endless = self.b.fcmp_ordered("==", x, self.constant(-math.inf))
        return self.b.select(endless, self.constant(math.nan), value)

    def tanh(self, x: ir.Value) -> ir.Value:
        """Return the hyperbolic tangent."""
        b = self.b
        less = self.exp_less_one(b.fmul(self.call("fabs", x), self.constant(-2.0)))
        size = b.fdiv(b.fneg(less), b.fadd(less, self.constant(2.0)))
        return self.call("copysign", size, x)

    def gelu(self, x: ir.Value) -> ir.Value:
        """Return ``x`` times the probability of a smaller normal number."""
        b = self.b
        size = self.at_most(self.call("fabs", x), self.format.tail)
        ratio = b.fdiv(self.constant(4.0), b.fadd(size, self.constant(4.0)))
        middle = fma(b, ratio, self.constant(2.0), self.constant(-1.0))
        scaled = b.fmul(ratio, self.polynomial(middle, self.format.normal))
        square = b.fmul(size, size)
        lost = fma(b, size, size, b.fneg(square))  # what rounding took from the square
        scaled = fma(b, b.fmul(lost, self.constant(-0.5)), scaled, scaled)
        half = b.fmul(square, self.constant(-0.5))
        (tail,) = self.exp(half, b.fmul(scaled, self.call("copysign", size, x)))
        value = b.select(self.below(x, 0.0), tail, b.fsub(x, tail))
        return self.but_endless(x, value)

    def relu6(self, x: ir.Value) -> ir.Value:
        """Return what lies between 0 and 6."""
        return self.at_most(self.at_least(x, 0.0), 6.0)

    def hard_sigmoid(self, x: ir.Value) -> ir.Value:
        """Return a straight line from 0 at -3 to 1 at 3."""
        return self.b.fdiv(self.relu6(self.b.fadd(x, self.constant(3.0))), self.constant(6.0))


Formula = Callable[[_Maths, ir.Value, ir.Value], ir.Value]


def _where_below_zero(m: _Maths, x: ir.Value, value: ir.Value) -> ir.Value:
    return m.b.select(m.below(x, 0.0), value, x)


FORMULAS: dict[str, Formula] = {
    "relu": lambda m, x, _: m.at_least(x, 0.0),
    "leaky_relu": lambda m, x, slope: _where_below_zero(m, x, m.b.fmul(x, slope)),
    "relu6": lambda m, x, _: m.relu6(x),
    "elu": lambda m, x, slope: _where_below_zero(
        m, x, m.b.fmul(slope, m.exp_less_one(m.at_most(x, 0.0)))
    ),
    "hardsigmoid": lambda m, x, _: m.hard_sigmoid(x),
    "hardswish": lambda m, x, _: m.b.fmul(x, m.hard_sigmoid(x)),
    "sigmoid": lambda m, x, _: m.sigmoid(x, m.constant(1.0)),
    "silu": lambda m, x, _: m.silu(x),
    "tanh": lambda m, x, _: m.tanh(x),
    "gelu": lambda m, x, _: m.gelu(x),
}
