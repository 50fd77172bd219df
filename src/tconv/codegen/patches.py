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
    store,
    zeros,
)
from tconv.codegen.linear import emit_map_axes
from tconv.plan.transforms import Form, transforms


def emit_transform_data(
    module: ir.Module, shape: KernelShape, forms: Sequence[Form]
) -> ir.Function:
    """Emit ``transform_data(target, source, steps, pitch, vectors)``.

    For each of some vectors, transforms the box of a patch: neighbours on an axis lie
    ``steps[axis]`` apart in ``source``, points of the transform ``pitch`` in ``target``.
    """
    scalar = FLOATS[shape.dtype]
    pointer, vector = scalar.as_pointer(), ir.VectorType(scalar, shape.lanes)
    made, b = function(module, "transform_data", [pointer, pointer, I64.as_pointer(), I64, I64])
    target, source, steps, pitch, vectors = made.args
    target.add_attribute("noalias")
    source.add_attribute("noalias")
    box = list(product(*(range(form.points) for form in forms)))
    reads = _box_places(b, source, steps, box)
    writes = [place(b, target, b.mul(number(index), pitch)) for index in range(len(box))]
    with counted(b, b.mul(vectors, number(shape.lanes)), step=shape.lanes) as c:
        values = {spot: load(b, read, c.index, vector) for spot, read in reads.items()}
        mapped = emit_map_axes(b, [transforms(form).data for form in forms], values)
        for spot, write in zip(box, writes, strict=True):
            store(b, mapped[spot], write, c.index)
    b.ret_void()
    return made


def emit_transform_result(
    module: ir.Module, shape: KernelShape, forms: Sequence[Form]
) -> ir.Function:
    """Emit ``transform_result(target, source, steps, pitch, flag)``.

    Transforms the products of a patch, points ``pitch`` apart, to its outputs, neighbours on an
    axis ``steps[axis]`` apart.  The flag is raised if any output is not finite.
    """
    scalar = FLOATS[shape.dtype]
    pointer, vector = scalar.as_pointer(), ir.VectorType(scalar, shape.lanes)
    made, b = function(
        module, "transform_result", [pointer, pointer, I64.as_pointer(), I64, I64.as_pointer()]
    )
    target, source, steps, pitch, flag = made.args
    target.add_attribute("noalias")
    source.add_attribute("noalias")
    box = list(product(*(range(form.points) for form in forms)))
    reads = [place(b, source, b.mul(number(index), pitch)) for index in range(len(box))]
    spots = list(product(*(range(form.outputs) for form in forms)))
    writes = _box_places(b, target, steps, spots)
    zero = zeros(vector)
    with counted(b, number(shape.columns), [zero], step=shape.lanes) as c:
        values = {
            spot: load(b, read, c.index, vector) for spot, read in zip(box, reads, strict=True)
        }
        mapped = emit_map_axes(b, [transforms(form).result for form in forms], values)
        for spot, write in writes.items():
            store(b, mapped[spot], write, c.index)
            # Zero times a finite number is zero, times any other NaN.
            c.carried = [fma(b, mapped[spot], zero, c.carried[0])]
    total = c.carried[0]
    doubtful = b.bitcast(b.fcmp_unordered("uno", total, total), ir.IntType(shape.lanes))
    with b.if_then(b.icmp_signed("!=", doubtful, ir.Constant(doubtful.type, 0)), likely=False):
        store(b, number(1), flag)
    b.ret_void()
    return made


def _box_places(
    b: ir.IRBuilder, origin: ir.Value, steps: ir.Value, box: Sequence[tuple[int, ...]]
) -> dict[tuple[int, ...], ir.Value]:
    """Return the address of every spot of a box whose axes have steps."""
    made = {}
    for spot in box:
        where = origin
        for axis, index in enumerate(spot):
            if index:
                where = place(b, where, b.mul(number(index), load(b, steps, axis)))
        made[spot] = where
    return made
