"""Rows of points: packed into scratch, and stored from it, in either layout."""

from collections.abc import Sequence

from llvmlite import ir

from tconv.codegen.build import (
    BYTES,
    FLOATS,
    I1,
    I64,
    STORED,
    counted,
    declared,
    function,
    load,
    number,
    place,
    smaller,
    store,
    transpose,
)
from tconv.codegen.stored import rounded, widen_run, widened

BYTE = ir.IntType(8).as_pointer()


def emit_pack_row(module: ir.Module, dtype: str, lanes: int) -> ir.Function:
    """Emit ``pack_row(target, source, before, count, after, depth, pitch, x_step, c_step)``.

    Writes ``before`` points of zeros, ``count`` points of ``depth`` channels read with the
    given steps, then ``after`` points of zeros, channels side by side and points ``pitch``
    apart, zeros between them.
    """
    pointers = [FLOATS[dtype].as_pointer(), STORED[dtype].as_pointer()]
    made, b = function(module, f"pack_row_{dtype}", [*pointers, *[I64] * 7])
    target, source, before, count, after, depth, pitch, x_step, c_step = made.args
    target.add_attribute("noalias")
    source.add_attribute("noalias")
    zero_fill(b, target, b.mul(before, pitch), dtype)
    begin = place(b, target, b.mul(before, pitch))
    zero_fill(b, place(b, begin, b.mul(count, pitch)), b.mul(after, pitch), dtype)
    tight = b.icmp_signed("==", depth, pitch)
    zero_fill(b, begin, b.select(tight, number(0), b.mul(count, pitch)), dtype)
    with b.if_else(b.icmp_signed("==", c_step, number(1))) as (side_by_side, apart):
        with side_by_side:
            dense = b.and_(tight, b.icmp_signed("==", x_step, depth))
            with b.if_else(dense) as (whole, pointwise):
                with whole:
                    copy(b, begin, source, b.mul(count, depth), dtype, lanes)
                with pointwise, counted(b, count) as point:
                    row = place(b, begin, b.mul(point.index, pitch))
                    read = place(b, source, b.mul(point.index, x_step))
                    vectors = b.and_(depth, number(-lanes))
                    with counted(b, vectors, step=lanes) as c:
                        store(b, widened(b, read, c.index, dtype, lanes), row, c.index)
                    with counted(b, depth, first=vectors) as c:
                        store(b, widened(b, read, c.index, dtype), row, c.index)
        with apart:
            _pack_planes(b, begin, source, (count, depth, pitch), (x_step, c_step), (dtype, lanes))
    b.ret_void()
    return made


def _pack_planes(  # noqa: PLR0913 - the emitted function's own arguments
    b: ir.IRBuilder,
    begin: ir.Value,
    source: ir.Value,
    sizes: tuple[ir.Value, ir.Value, ir.Value],
    steps: tuple[ir.Value, ir.Value],
    kind: tuple[str, int],
) -> None:
    """Transpose squares where points are neighbours in memory, single elements elsewhere."""
    count, depth, pitch = sizes
    x_step, c_step = steps
    dtype, lanes = kind
    neighbours = b.icmp_signed("==", x_step, number(1))
    squares = b.select(neighbours, number(-lanes), number(0))
    whole_c, whole_x = b.and_(depth, squares), b.and_(count, squares)
    with counted(b, whole_c, step=lanes) as c:
        planes = [place(b, source, b.mul(b.add(c.index, number(i)), c_step)) for i in range(lanes)]
        with counted(b, whole_x, step=lanes) as x:
            rows = [widened(b, plane, x.index, dtype, lanes) for plane in planes]
            for i, row in enumerate(transpose(b, rows)):
                point = b.mul(b.add(x.index, number(i)), pitch)
                store(b, row, place(b, begin, point), c.index)
        with counted(b, count, first=whole_x) as x:
            target = place(b, place(b, begin, b.mul(x.index, pitch)), c.index)
            for i, plane in enumerate(planes):
                store(b, widened(b, plane, b.mul(x.index, x_step), dtype), target, i)
    with counted(b, depth, first=whole_c) as c:
        plane = place(b, source, b.mul(c.index, c_step))
        with counted(b, count) as x:
            value = widened(b, plane, b.mul(x.index, x_step), dtype)
            store(b, value, place(b, begin, b.mul(x.index, pitch)), c.index)


def emit_store_row(module: ir.Module, dtype: str, lanes: int) -> ir.Function:
    """Emit ``store_row(target, sums, bias, count, used, x_step, c_step, pitch)``.

    Adds ``bias`` to ``count`` points of channels side by side in ``sums``, ``pitch`` apart, and
    writes the first ``used`` channels of each with the given steps.
    """
    scalar = FLOATS[dtype]
    pointer = scalar.as_pointer()
    pointers = [STORED[dtype].as_pointer(), pointer, pointer]
    made, b = function(module, f"store_row_{dtype}", [*pointers, *[I64] * 5])
    target, sums, bias, count, used, x_step, c_step, pitch = made.args
    for argument in made.args[:3]:
        argument.add_attribute("noalias")
    vector = ir.VectorType(scalar, lanes)
    whole = b.and_(used, number(-lanes))
    with b.if_else(b.icmp_signed("==", c_step, number(1))) as (side_by_side, apart):
        with side_by_side, counted(b, count) as point:
            line = place(b, sums, b.mul(point.index, pitch))
            out = place(b, target, b.mul(point.index, x_step))
            with counted(b, whole, step=lanes) as c:
                value = b.fadd(load(b, line, c.index, vector), load(b, bias, c.index, vector))
                store(b, rounded(b, value, dtype), out, c.index)
            with counted(b, used, first=whole) as c:
                value = b.fadd(load(b, line, c.index), load(b, bias, c.index))
                store(b, rounded(b, value, dtype), out, c.index)
        with apart:
            _store_planes(b, made.args, dtype, lanes)
    b.ret_void()
    return made


def _store_planes(b: ir.IRBuilder, arguments: Sequence[ir.Value], dtype: str, lanes: int) -> None:
    """Transpose squares where points are neighbours in memory, single elements elsewhere."""
    target, sums, bias, count, used, x_step, c_step, pitch = arguments
    vector = ir.VectorType(sums.type.pointee, lanes)
    neighbours = b.icmp_signed("==", x_step, number(1))
    whole_x = b.and_(count, b.select(neighbours, number(-lanes), number(0)))
    with counted(b, used, step=lanes) as c:
        added = load(b, bias, c.index, vector)
        plane = place(b, target, b.mul(c.index, c_step))
        rows_used = smaller(b, b.sub(used, c.index), number(lanes))
        with counted(b, whole_x, step=lanes) as x:
            rows = []
            for i in range(lanes):
                line = place(b, sums, b.mul(b.add(x.index, number(i)), pitch))
                rows.append(b.fadd(load(b, line, c.index, vector), added))
            for i, row in enumerate(transpose(b, rows)):
                with b.if_then(b.icmp_signed("<", number(i), rows_used), likely=True):
                    kept = rounded(b, row, dtype)
                    store(b, kept, place(b, plane, b.mul(number(i), c_step)), x.index)
        with counted(b, count, first=whole_x) as x, counted(b, rows_used) as k:
            channel = b.add(c.index, k.index)
            value = load(b, sums, b.add(b.mul(x.index, pitch), channel))
            value = rounded(b, b.fadd(value, load(b, bias, channel)), dtype)
            store(b, value, place(b, plane, b.mul(k.index, c_step)), b.mul(x.index, x_step))


def copy(  # noqa: PLR0913 - where from, where to, and by what
    b: ir.IRBuilder,
    target: ir.Value,
    source: ir.Value,
    count: ir.Value,
    dtype: str,
    lanes: int,
) -> None:
    """Copy elements that lie side by side."""
    if STORED[dtype] != FLOATS[dtype]:
        widen_run(b, target, source, count, dtype, lanes)
        return
    call = declared(b.module, "llvm.memcpy.p0i8.p0i8.i64", ir.VoidType(), [BYTE, BYTE, I64, I1])
    size = b.mul(count, number(BYTES[dtype]))
    b.call(call, [b.bitcast(target, BYTE), b.bitcast(source, BYTE), size, ir.Constant(I1, 0)])


def zero_fill(b: ir.IRBuilder, target: ir.Value, count: ir.Value, dtype: str) -> None:
    """Write zeros; nothing when there are none to write."""
    call = declared(b.module, "llvm.memset.p0i8.i64", ir.VoidType(), [BYTE, ir.IntType(8), I64, I1])
    size = b.mul(count, number(BYTES[dtype]))
    with b.if_then(b.icmp_signed(">", size, number(0))):
        zero = ir.Constant(ir.IntType(8), 0)
        b.call(call, [b.bitcast(target, BYTE), zero, size, ir.Constant(I1, 0)])
