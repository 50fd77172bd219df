"""Patches: transformed from a packed region, and back into sums."""

from collections.abc import Sequence
from itertools import product

from llvmlite import ir

from tconv.codegen.block import KernelShape
from tconv.codegen.build import (
    FLOATS,
    I64,
    counted,
    fma,
    function,
    load,
    number,
    place,
    smaller,
    store,
    zeros,
)
from tconv.codegen.linear import emit_map_axes
from tconv.plan.transforms import Form, transforms

TABLE = I64.as_pointer()


def emit_transform_data(
    module: ir.Module, shape: KernelShape, forms: Sequence[Form]
) -> ir.Function:
    """Emit ``transform_data(target, source, places, pitch, begin, end, last)``.

    For each vector of some channels, transforms the box of a patch: its spots lie at ``places`` in
    ``source``, points of the transform ``pitch`` apart in ``target``.  No vector begins behind the
    ``last`` channel: it begins there instead, so that it ends with the last one of a point.
    """
    scalar = FLOATS[shape.dtype]
    pointer, vector = scalar.as_pointer(), ir.VectorType(scalar, shape.lanes)
    made, b = function(module, "transform_data", [pointer, pointer, TABLE, *[I64] * 4])
    target, source, places, pitch, begin, end, last = made.args
    for argument in made.args[:3]:
        argument.add_attribute("noalias")
    box = list(product(*(range(form.points) for form in forms)))
    reads = _listed_places(b, source, places, len(box))
    writes = [place(b, target, b.mul(number(index), pitch)) for index in range(len(box))]
    with counted(b, end, first=begin, step=shape.lanes) as c:
        channel = smaller(b, c.index, last)
        values = {
            spot: load(b, read, channel, vector) for spot, read in zip(box, reads, strict=True)
        }
        mapped = emit_map_axes(b, [transforms(form).data for form in forms], values)
        for spot, write in zip(box, writes, strict=True):
            store(b, mapped[spot], write, channel)
    b.ret_void()
    return made


def emit_transform_result(
    module: ir.Module, shape: KernelShape, forms: Sequence[Form]
) -> ir.Function:
    """Emit ``transform_result(target, source, places, pitch, bias, flag)``.

    Transforms the products of a patch, points ``pitch`` apart, to its outputs, which lie at
    ``places``, and adds the bias.  The flag is raised if any output is not finite.
    """
    scalar = FLOATS[shape.dtype]
    pointer, vector = scalar.as_pointer(), ir.VectorType(scalar, shape.lanes)
    made, b = function(module, "transform_result", [pointer, pointer, TABLE, I64, pointer, TABLE])
    target, source, places, pitch, bias, flag = made.args
    for argument in made.args[:3]:
        argument.add_attribute("noalias")
    box = list(product(*(range(form.points) for form in forms)))
    reads = [place(b, source, b.mul(number(index), pitch)) for index in range(len(box))]
    spots = list(product(*(range(form.outputs) for form in forms)))
    writes = _listed_places(b, target, places, len(spots))
    zero = zeros(vector)
    with counted(b, number(shape.columns), [zero], step=shape.lanes) as c:
        added = load(b, bias, c.index, vector)
        values = {
            spot: load(b, read, c.index, vector) for spot, read in zip(box, reads, strict=True)
        }
        mapped = emit_map_axes(b, [transforms(form).result for form in forms], values)
        for spot, write in zip(spots, writes, strict=True):
            store(b, b.fadd(mapped[spot], added), write, c.index)
            # Zero times a finite number is zero, times any other NaN.
            c.carried = [fma(b, mapped[spot], zero, c.carried[0])]
    total = c.carried[0]
    doubtful = b.bitcast(b.fcmp_unordered("uno", total, total), ir.IntType(shape.lanes))
    with b.if_then(b.icmp_signed("!=", doubtful, ir.Constant(doubtful.type, 0)), likely=False):
        store(b, number(1), flag)
    b.ret_void()
    return made


def _listed_places(
    b: ir.IRBuilder, origin: ir.Value, places: ir.Value, count: int
) -> list[ir.Value]:
    """Return the addresses of spots that a list tells."""
    return [place(b, origin, load(b, places, index)) for index in range(count)]
