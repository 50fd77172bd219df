"""Rows in memory to vectors across them, and back: squares, transposed in registers.

What is left behind the last whole square is covered by one more that begins earlier, so
nothing is read or written past the ends, and some elements are moved twice.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from tconv.codegen.build import (
    FLOATS,
    I64,
    STORED,
    STORED_BYTES,
    counted,
    function,
    load,
    number,
    place,
    prefetch,
    shuffle,
    smaller,
    store,
    transpose,
)
from tconv.codegen.stored import rounded, widen

AHEAD = 256  # bytes of a row, until they come from memory


def sizes(most: int) -> list[int]:
    """Return powers of two from the largest down to one.

    >>> sizes(8)
    [8, 4, 2, 1]
    """
    return [1 << power for power in reversed(range(most.bit_length()))]


@contextmanager
def covered(
    b: ir.IRBuilder, count: ir.Value, size: int, most: int, factor: int = 2
) -> Iterator[ir.Value]:
    """Emit a loop over the beginnings of pieces of one size, the last one moved to fit.

    It runs where this is the largest that fits into ``count``: of ``sizes(most)``, or of others
    if the next one is larger by another factor.
    """
    fits = b.icmp_signed(">=", count, number(size))
    if size < most:
        fits = b.and_(fits, b.icmp_signed("<", count, number(factor * size)))
    with b.if_then(fits):
        last = b.sub(count, number(size))
        with counted(b, count, step=size) as piece:
            yield smaller(b, piece.index, last)


def emit_turn_in(module: ir.Module, dtype: str, lanes: int) -> ir.Function:
    """Emit ``turn_in(target, source, rows, pitch, row_step, count, *repeated)``.

    ``target[j * pitch + lane] = source[lane * row_step + j]`` for every lane and j < count,
    as often as is told, each time a step further; the last row stands for those that there
    are not.
    """
    pointers = [FLOATS[dtype].as_pointer(), STORED[dtype].as_pointer()]
    made, b = function(module, f"turn_in_{dtype}", [*pointers, *[I64] * 7])
    target, source, rows, pitch, row_step, count, *repeated = made.args
    steps = _row_steps(b, lanes, rows, row_step)
    target.add_attribute("noalias")
    source.add_attribute("noalias")
    for size in sizes(lanes):
        with covered(b, count, size, lanes) as first, _again(b, repeated, target, source) as ends:
            to, read = ends
            begin = place(b, read, first)
            starts = [place(b, begin, step) for step in steps]
            if size == lanes:
                for start in starts:
                    prefetch(b, place(b, start, AHEAD // STORED_BYTES[dtype]))
            for j, vector in enumerate(turned_in(b, starts, size, dtype)):
                store(b, vector, to, b.mul(b.add(first, number(j)), pitch))
    b.ret_void()
    return made


def emit_turn_out(module: ir.Module, dtype: str, lanes: int) -> ir.Function:
    """Emit ``turn_out(target, source, rows, row_step, pitch, count, *repeated)``.

    ``target[lane * row_step + j] = source[j * pitch + lane]`` for every lane that is a row and
    j < count, as often as is told, each time a step further.
    """
    scalar = FLOATS[dtype]
    pointers = [STORED[dtype].as_pointer(), scalar.as_pointer()]
    made, b = function(module, f"turn_out_{dtype}", [*pointers, *[I64] * 7])
    target, source, rows, row_step, pitch, count, *repeated = made.args
    steps = _row_steps(b, lanes, rows, row_step)
    target.add_attribute("noalias")
    source.add_attribute("noalias")
    vector = ir.VectorType(scalar, lanes)
    for size in sizes(lanes):
        with covered(b, count, size, lanes) as first, _again(b, repeated, target, source) as ends:
            to, read = ends
            begin = place(b, to, first)
            vectors = [
                load(b, read, b.mul(b.add(first, number(j)), pitch), vector) for j in range(size)
            ]
            if size == lanes:
                for step in steps:
                    ahead = b.add(step, number(AHEAD // STORED_BYTES[dtype]))
                    prefetch(b, place(b, begin, ahead), write=True)
            # Lanes that are no rows are written where the last row is, before it.
            for step, row in reversed([*zip(steps, turned_out(b, vectors, dtype), strict=True)]):
                store(b, row, place(b, begin, step))
    b.ret_void()
    return made


def _row_steps(b: ir.IRBuilder, lanes: int, rows: ir.Value, row_step: ir.Value) -> list[ir.Value]:
    """Return where the row of each lane lies; the last one's for lanes that have none."""
    final = b.sub(rows, number(1))
    return [b.mul(smaller(b, number(lane), final), row_step) for lane in range(lanes)]


@contextmanager
def _again(
    b: ir.IRBuilder, repeated: Sequence[ir.Value], target: ir.Value, source: ir.Value
) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Emit a loop over places in target and source, each a step further than the last."""
    times, target_step, source_step = repeated
    with counted(b, times, [target, source]) as turn:
        to, read = turn.carried
        yield to, read

        turn.carried = [place(b, to, target_step), place(b, read, source_step)]


def turned_in(
    b: ir.IRBuilder, starts: list[ir.Value], size: int, dtype: str | None = None
) -> list[ir.Value]:
    """Return ``size`` vectors across rows that begin at the given places.

    Elements of a type that is named are widened to what it is summed in.
    """
    kind = ir.VectorType(starts[0].type.pointee, size)
    parts = [load(b, start, 0, kind) for start in starts]
    # One vector holds rows i, i + size, i + 2 * size and so on, end to end.
    rows = [_joined(b, parts[i::size]) for i in range(size)]
    if dtype is not None and STORED[dtype] != FLOATS[dtype]:
        rows = [widen(b, row, dtype) for row in rows]
    return transpose(b, rows) if len(starts) > 1 else rows


def turned_out(
    b: ir.IRBuilder, vectors: list[ir.Value], dtype: str | None = None
) -> list[ir.Value]:
    """Return a row of ``len(vectors)`` elements for each lane.

    With the name of a type they are as its arrays hold them.
    """
    size, lanes = len(vectors), vectors[0].type.count
    turned = transpose(b, vectors)
    if dtype is not None:
        turned = [rounded(b, vector, dtype) for vector in turned]
    return [
        shuffle(b, turned[lane % size], turned[lane % size], range(begin, begin + size))
        for lane in range(lanes)
        for begin in [lane // size * size]
    ]


def _joined(b: ir.IRBuilder, parts: list[ir.Value]) -> ir.Value:
    """Return short vectors laid end to end."""
    while len(parts) > 1:
        width = parts[0].type.count
        parts = [
            shuffle(b, left, right, range(2 * width))
            for left, right in zip(parts[::2], parts[1::2], strict=True)
        ]
    return parts[0]
