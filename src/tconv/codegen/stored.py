"""Elements as arrays hold them: widened when they are read, rounded once when they are written.

float16 is converted by the CPU; bfloat16 is the upper half of a float32, so whole-number
arithmetic does it.  float32 and float64 are stored as they are computed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from tconv.codegen.build import (
    FLOATS,
    I16,
    I32,
    STORED,
    counted,
    load,
    number,
    shuffle,
    smaller,
    store,
)

HALF = ir.HalfType()
# A single element is converted in a vector: alone it would become a call of a function.
ALONE = 4


def widened(
    b: ir.IRBuilder, pointer: ir.Value, index: ir.Value | int, dtype: str, lanes: int = 0
) -> ir.Value:
    """Load an element, or a vector of them, in the type that sums are kept in."""
    stored, scalar = STORED[dtype], FLOATS[dtype]
    if stored == scalar:
        return load(b, pointer, index, ir.VectorType(scalar, lanes) if lanes else None)
    if lanes:
        return widen(b, load(b, pointer, index, ir.VectorType(stored, lanes)), dtype)
    return _alone(b, load(b, pointer, index), lambda vector: widen(b, vector, dtype))


def widened_line(
    b: ir.IRBuilder, pointer: ir.Value, index: int, dtype: str, shape: tuple[int, int]
) -> list[ir.Value]:
    """Load a line of a panel of weights as so many vectors of so many lanes."""
    vectors, lanes = shape
    if not lies_in_pairs(dtype, vectors):
        return [widened(b, pointer, index + v * lanes, dtype, lanes) for v in range(vectors)]
    return widened_pair(b, pointer, index, lanes)


def widened_pair(
    b: ir.IRBuilder, pointer: ir.Value, index: ir.Value | int, lanes: int
) -> list[ir.Value]:
    """Load bfloat16 that lie side by side as two vectors: the even ones, and the odd ones."""
    whole, vector = ir.VectorType(I32, lanes), ir.VectorType(FLOATS["bfloat16"], lanes)
    bits = b.bitcast(load(b, pointer, index, ir.VectorType(I16, 2 * lanes)), whole)
    low, high = b.shl(bits, _all(whole, 16)), b.and_(bits, _all(whole, -0x10000))
    return [b.bitcast(low, vector), b.bitcast(high, vector)]


def lies_in_pairs(dtype: str, vectors: int) -> bool:
    """Tell whether panels of weights are laid out in pairs: the first lanes of both vectors, ...

    Two bfloat16 side by side are the upper halves of two float32: what takes four
    instructions otherwise takes two, and tiles do it for every line.
    """
    return dtype == "bfloat16" and vectors == 2


def line_place(b: ir.IRBuilder, column: ir.Value, dtype: str, shape: tuple[int, int]) -> ir.Value:
    """Return where in a line of a panel a column lies."""
    vectors, lanes = shape
    if not lies_in_pairs(dtype, vectors):
        return column
    lane = b.mul(b.urem(column, number(lanes)), number(2))
    return b.add(lane, b.udiv(column, number(lanes)))


def store_line(
    b: ir.IRBuilder, vectors: Sequence[ir.Value], line: ir.Value, *, pairs: bool
) -> None:
    """Store the line of a panel that vectors of columns make: in order, or two in pairs."""
    lanes = vectors[0].type.count
    if pairs and len(vectors) > 1:
        paired = [each for lane in range(lanes) for each in (lane, lanes + lane)]
        store(b, shuffle(b, vectors[0], vectors[1], paired), line)
        return
    for place_of, vector in enumerate(vectors):
        store(b, vector, line, place_of * lanes)


def rounded(b: ir.IRBuilder, value: ir.Value, dtype: str) -> ir.Value:
    """Return a sum, or a vector of them, as arrays hold it: to nearest, ties to even."""
    if STORED[dtype] == FLOATS[dtype]:
        return value
    if isinstance(value.type, ir.VectorType):
        return narrow(b, value, dtype)
    return _alone(b, value, lambda vector: narrow(b, vector, dtype))


def widen(b: ir.IRBuilder, vector: ir.Value, dtype: str) -> ir.Value:
    """Return 16-bit elements as float32, exactly."""
    lanes = vector.type.count
    if dtype == "float16":
        halves = b.bitcast(vector, ir.VectorType(HALF, lanes))
        return b.fpext(halves, ir.VectorType(FLOATS[dtype], lanes))
    whole = ir.VectorType(I32, lanes)
    return b.bitcast(
        b.shl(b.zext(vector, whole), _all(whole, 16)), ir.VectorType(FLOATS[dtype], lanes)
    )


def narrow(b: ir.IRBuilder, vector: ir.Value, dtype: str) -> ir.Value:
    """Return float32 as 16-bit elements: to nearest, ties to even; a NaN stays one.

    Sums of widened bfloat16 that are NaN have no bits beyond those of a bfloat16, and nor have
    the activations of them: rounding carries nothing into what makes them NaN.
    """
    lanes = vector.type.count
    if dtype == "float16":
        halves = b.fptrunc(vector, ir.VectorType(HALF, lanes))
        return b.bitcast(halves, ir.VectorType(I16, lanes))
    whole = ir.VectorType(I32, lanes)
    bits = b.bitcast(vector, whole)
    # Half a step less one, and one more where the last kept bit is odd.
    odd = b.and_(b.lshr(bits, _all(whole, 16)), _all(whole, 1))
    near = b.lshr(b.add(bits, b.add(odd, _all(whole, 0x7FFF))), _all(whole, 16))
    return b.trunc(near, ir.VectorType(I16, lanes))


def narrow_pair(b: ir.IRBuilder, even: ir.Value, odd: ir.Value) -> ir.Value:
    """Return two vectors of float32 as bfloat16 that lie side by side, the first one's first.

    To nearest, ties to even; NaNs as :func:`narrow` says.
    """
    lanes = even.type.count
    whole, short = ir.VectorType(I32, lanes), ir.VectorType(I16, 2 * lanes)
    even, odd = b.bitcast(even, whole), b.bitcast(odd, whole)

    def mixed(low: ir.Value, high: ir.Value) -> ir.Value:
        picks = [place + 2 * lanes * (place % 2) for place in range(2 * lanes)]
        return shuffle(b, b.bitcast(low, short), b.bitcast(high, short), picks)

    kept = mixed(b.lshr(even, _all(whole, 16)), odd)
    lost = mixed(even, b.shl(odd, _all(whole, 16)))
    # More than half of the last kept bit, or half where that is odd: one more.
    above = b.xor(lost, _all(short, -0x8000))
    least = b.sub(_all(short, 0), b.and_(kept, _all(short, 1)))
    return b.sub(kept, b.sext(b.icmp_signed(">", above, least), short))


def widen_each(b: ir.IRBuilder, places: Sequence[ir.Value], target: ir.Value, dtype: str) -> None:
    """Widen one element from each place; write them side by side."""
    if STORED[dtype] == FLOATS[dtype]:
        for i, each in enumerate(places):
            store(b, load(b, each), target, i)
        return
    found: ir.Value = ir.Constant(ir.VectorType(STORED[dtype], len(places)), ir.Undefined)
    for i, each in enumerate(places):
        found = b.insert_element(found, load(b, each), ir.Constant(I32, i))
    store(b, widen(b, found, dtype), target)


def store_each(
    b: ir.IRBuilder, vector: ir.Value, pointer: ir.Value, places: Sequence[ir.Value]
) -> None:
    """Store each lane at a place of its own."""
    for i, each in enumerate(places):
        store(b, b.extract_element(vector, ir.Constant(I32, i)), pointer, each)


@contextmanager
def covered(b: ir.IRBuilder, count: ir.Value, lanes: int) -> Iterator[ir.Value]:
    """Emit a loop over vectors that cover ``range(count)``; the last may do some of it again.

    The count is 0, or there are as many as a vector has lanes.
    """
    with counted(b, count, step=lanes) as k:
        yield smaller(b, k.index, b.sub(count, number(lanes)))


def if_enough(b: ir.IRBuilder, count: ir.Value, lanes: int) -> ir.Value:
    """Return the count if it fills a vector, else 0."""
    return b.select(b.icmp_signed(">=", count, number(lanes)), count, number(0))


def widen_run(  # noqa: PLR0913 - where from, where to, and by what
    b: ir.IRBuilder,
    target: ir.Value,
    source: ir.Value,
    count: ir.Value,
    dtype: str,
    lanes: int,
) -> None:
    """Widen elements that lie side by side; the last vector may do some of them again."""
    vectors = if_enough(b, count, lanes)
    with covered(b, vectors, lanes) as k:
        store(b, widened(b, source, k, dtype, lanes), target, k)
    with counted(b, count, first=vectors) as single:
        store(b, widened(b, source, single.index, dtype), target, single.index)


def _alone(b: ir.IRBuilder, value: ir.Value, convert: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """Convert a single element in the first lane of a vector."""
    kind = ir.VectorType(value.type, ALONE)
    one = b.insert_element(ir.Constant(kind, [0] * ALONE), value, ir.Constant(I32, 0))
    return b.extract_element(convert(one), ir.Constant(I32, 0))


def _all(kind: ir.VectorType, value: int) -> ir.Constant:
    return ir.Constant(kind, [value] * kind.count)
