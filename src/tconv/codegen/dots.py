"""Dots: tiles of points by very few channels, vectors along what is read."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv.codegen.block import Block, KernelShape, Record
from tconv.codegen.build import (
    FLOATS,
    I32,
    I64,
    STORED,
    counted,
    fma,
    function,
    load,
    number,
    place,
    shuffle,
    smaller,
    splat,
    store,
    zeros,
)
from tconv.codegen.places import Place
from tconv.codegen.points import point_lines, point_steps, points_of
from tconv.codegen.stored import rounded
from tconv.plan.dots import ROWS


def dot_line_meaning(  # noqa: PLR0913 - the emitted function's own arguments
    target: npt.NDArray[np.floating],
    bias: npt.NDArray[np.floating],
    data: npt.NDArray[np.floating],
    weights: npt.NDArray[np.floating],
    segments: npt.NDArray[np.int64],
    sizes: tuple[int, int, int, int, int],
) -> None:
    """Compute in NumPy what the code from :func:`emit_dot_line` computes.

    ``target[p * between + c * channel] = bias[c] +
    sum of data[p * apart + segments[s] + k] * weights[s, c, k]``,
    where the sizes are depth, points, apart, between and channel.
    """
    depth, points, apart, between, channel = sizes
    rows = np.arange(points)[:, None, None] * apart + segments[:, None] + np.arange(depth)
    sums = np.einsum("psk,sck->pc", data[rows], weights)
    places = np.arange(points)[:, None] * between + np.arange(weights.shape[1]) * channel
    target[places] = bias[: weights.shape[1]] + sums


def emit_dot_line(
    module: ir.Module, shape: KernelShape, channels: int, *, rounds: bool = True
) -> ir.Function:
    """Emit ``dot_line(target, bias, data, weights, segments, count, ...)``.

    Further ``depth, points, apart, between, channel``, as its meaning has them.  Of weights every
    vector of the depth has one for each channel, and the last one of a depth that is no whole
    vectors overlaps the one before: there what is read again counts for nothing.  The depth is a
    vector at least.  Rows of a last tile that there are no points for repeat the last point.
    What is written is as arrays hold it if it ``rounds``, else as sums are.
    """
    lanes, rows = shape.lanes, ROWS[channels]
    scalar = FLOATS[shape.dtype]
    vector, pointer = ir.VectorType(scalar, lanes), scalar.as_pointer()
    written = STORED[shape.dtype].as_pointer() if rounds else pointer
    name = f"dot_line_{shape.dtype}_{rows}x{channels}x{lanes}{'' if rounds else '_sums'}"
    kinds = [written, *[pointer] * 3, I64.as_pointer(), *[I64] * 6]
    made, b = function(module, name, kinds)
    target, bias, data, weights, segments, count, depth, length = made.args[:8]
    apart, between, channel = made.args[8:]
    for argument in made.args[:5]:
        argument.add_attribute("noalias")
    whole = b.and_(depth, number(-lanes))
    rest = b.sub(depth, whole)
    counting = ir.Constant(ir.VectorType(I64, lanes), list(range(lanes)))
    fresh = b.icmp_signed(">=", counting, splat(b, b.sub(number(lanes), rest), lanes))
    added = [load(b, bias, c) for c in range(channels)]
    tiles = b.sdiv(b.add(length, number(rows - 1)), number(rows))
    last = b.sub(length, number(1))
    with counted(b, tiles) as turn:
        first = b.mul(turn.index, number(rows))
        each = [smaller(b, b.add(first, number(r)), last) for r in range(rows)]
        points = [place(b, data, b.mul(point, apart)) for point in each]

        def multiply(
            where: ir.Value, carried: Sequence[ir.Value], *, overlaps: bool = False,
            points: Sequence[ir.Value] = points,
        ) -> list[ir.Value]:  # fmt: skip
            line, *totals = carried
            lines = [load(b, line, c * lanes, vector) for c in range(channels)]
            for r, point in enumerate(points):
                values = load(b, point, where, vector)
                if overlaps:
                    values = b.select(fresh, values, zeros(vector))
                for c in range(channels):
                    k = r * channels + c
                    totals[k] = fma(b, values, lines[c], totals[k])
            return [place(b, line, channels * lanes), *totals]

        nothing = [zeros(vector)] * (rows * channels)
        with counted(b, count, [weights, *nothing]) as segment:
            begin = load(b, segments, segment.index)
            end = b.add(begin, whole)
            with counted(b, end, segment.carried, first=begin, step=lanes) as k:
                k.carried = multiply(k.index, k.carried)
            # Once, or not at all.
            more = b.select(b.icmp_signed(">", rest, number(0)), number(1), number(0))
            with counted(b, more, k.carried) as once:
                begins = b.sub(b.add(begin, depth), number(lanes))
                once.carried = multiply(begins, once.carried, overlaps=True)
            segment.carried = once.carried
        totals = _added_up(b, segment.carried[1:])
        for r, point in enumerate(each):
            out = place(b, target, b.mul(point, between))
            for c in range(channels):
                of, lane = divmod(r * channels + c, lanes)
                total = b.fadd(b.extract_element(totals[of], ir.Constant(I32, lane)), added[c])
                total = rounded(b, total, shape.dtype) if rounds else total
                store(b, total, out, b.mul(number(c), channel))
    b.ret_void()
    return made


def _added_up(b: ir.IRBuilder, vectors: Sequence[ir.Value]) -> list[ir.Value]:
    """Return the sums of all lanes of each vector, as lanes of as few vectors as there need be.

    Halves of two vectors are added first, then neighbours inside of halves, which is where most
    machines shuffle in one step.
    """
    lanes = vectors[0].type.count
    half = lanes // 2
    found = []
    for first in range(0, len(vectors), lanes):
        some = list(vectors[first : first + lanes])
        some += [some[-1]] * (lanes - len(some))
        mixed = [_pair(b, some[i], some[i + half]) for i in range(half)]
        width = half  # partial sums that stand side by side for one vector
        while width > 1:
            # Of each half: the first, or last, parts of every sum of one vector, then of the other.
            picks = [start + k for start in range(0, half, width) for k in range(width // 2)]
            lower = [*picks, *(lanes + k for k in picks)]
            both = [*lower, *(half + k for k in lower)]
            mixed = [
                b.fadd(
                    shuffle(b, left, right, both),
                    shuffle(b, left, right, [k + width // 2 for k in both]),
                )
                for left, right in zip(mixed[::2], mixed[1::2], strict=True)
            ]
            width //= 2
        found += mixed
    return found


def _pair(b: ir.IRBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    """Return one vector of two: in either half the sum of the halves of one."""
    lanes = left.type.count
    lower = [*range(lanes // 2), *range(lanes, lanes + lanes // 2)]
    upper = [k + lanes // 2 for k in lower]
    return b.fadd(shuffle(b, left, right, lower), shuffle(b, left, right, upper))


def emit_dots(module: ir.Module, shape: KernelShape, channels: int) -> dict[bool, ir.Function]:
    """Emit what sums lines, by whether sums are rounded and final."""
    final = emit_dot_line(module, shape, channels)
    if STORED[shape.dtype] == FLOATS[shape.dtype]:
        return {True: final, False: final}
    return {True: final, False: emit_dot_line(module, shape, channels, rounds=False)}


def run_dots(  # noqa: PLR0913 - which phase of what
    b: ir.IRBuilder,
    r: Record,
    lines_of: dict[bool, ir.Function],
    block: Block,
    where: Place,
    phase_lines: tuple[ir.Value, ir.Value],
) -> ir.Value:
    """Sum all points of a phase, line by line, to the target; if not all is done then, to sums.

    Return whether it is.
    """
    phase, lines = phase_lines
    final = b.icmp_signed("==", r.activate, number(0))
    steps = point_steps(b, r, where)
    with counted(b, r.phases) as x:
        both = b.add(b.mul(phase, r.phases), x.index)
        points = points_of(b, r, block, x.index)
        segments = place(b, where.data.segments, r.at("segment_start", both))
        weights = place(b, where.weights, r.at("dot_weights", both))
        counts = r.at("segment_count", both), r.at("segment_depth", both)
        some = b.select(b.icmp_signed(">", points.length, number(0)), lines, number(0))
        with point_lines(b, r, block, where, points, (phase, some)) as (_, first):
            given = [where.bias, place(b, where.data.origin, first.read), weights, segments]
            sizes = [*counts, points.length, steps.read]
            with b.if_else(final) as (stored, kept):
                with stored:
                    target = place(b, where.target, first.stored)
                    b.call(lines_of[True], [target, *given, *sizes, steps.stored, r.target_c])
                with kept:
                    sums = place(b, where.sums, first.summed)
                    b.call(lines_of[False], [sums, *given, *sizes, steps.summed, number(1)])
    return final
