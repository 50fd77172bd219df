"""The compiled kernels of this machine, loaded when first needed."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

from llvmlite import ir

from tconv import codegen, plan
from tconv.codegen.activation import emit_activation
from tconv.codegen.block import KernelShape, SweepShape, TransformShape
from tconv.codegen.cells import emit_cells
from tconv.codegen.correlate import emit_correlate
from tconv.codegen.gather import emit_gather
from tconv.codegen.grouped import emit_grouped
from tconv.codegen.grouped_weights import emit_grouped_weights
from tconv.codegen.overlap import emit_overlap
from tconv.codegen.parts import Kinds
from tconv.codegen.planes import emit_planes
from tconv.codegen.spread import emit_spread
from tconv.codegen.strips import emit_strips
from tconv.codegen.sweep import emit_sweep
from tconv.codegen.weights import emit_pack_cells, emit_pack_weights, emit_pick_weights
from tconv.codegen.winograd import emit_winograd
from tconv.codegen.winograd_weights import emit_transform_weights
from tconv.jit import KernelSource, Machine, host_machine, load_kernel, source_version
from tconv.plan.stretches import Kind
from tconv.plan.tiles import SMALL_TILE, VECTORS, tile_rows
from tconv.plan.transforms import Form
from tconv.settings import settings

Shape = TypeVar("Shape", KernelShape, TransformShape, SweepShape)


@cache
def machine() -> Machine:
    """Return the machine that kernels are made for."""
    return host_machine(settings().cpu)


def machine_of(dtype: str, lanes: int) -> Machine:
    """Return the machine whose vectors hold so many sums: this one, or it with half vectors."""
    whole = machine()
    half = whole.half
    if half is None or whole.lanes(dtype) == lanes:
        return whole
    return half


def kernel_shape(dtype: str, target: Machine, vectors: int = VECTORS) -> KernelShape:
    """Return the register tiles for a machine: a large one, and one for what is left."""
    rows = tile_rows(target, vectors), SMALL_TILE
    return KernelShape(dtype, target.lanes(dtype), vectors, rows)


def _tiles(dtype: str, lanes: int, vectors: int = VECTORS) -> KernelShape:
    return kernel_shape(dtype, machine_of(dtype, lanes), vectors)


@cache
def gather_kernel(  # noqa: PLR0913 - the kinds of tiles
    dtype: str,
    lanes: int,
    vectors: int,
    *,
    few: bool = False,
    past: bool = False,
    missed: bool = False,
    joined: bool = False,
    dots: int = 0,
    woven: tuple[int, int] | None = None,
) -> int:
    """Return the address of ``gather(record, scratch, item)``.

    Few channels have more tiles, and so have results that go past the caches; tiles that leave
    out taps are others, and so are those for a wide panel and the narrow one behind it, those for
    one to four channels whose weights are lines of the depth, and those for groups of so many
    channels, read and written, that share a vector.
    """
    shape = _tiles(dtype, lanes, vectors)
    if woven:  # each row has data of its own for every vector, and needs a register for it
        shape = replace(shape, rows=(SMALL_TILE, SMALL_TILE))
    name = "gather" + "_few" * few + "_past" * past
    name += "_missed" * missed + "_joined" * joined
    name += f"_dots{dots}" if dots else ""
    name += "_woven{}x{}".format(*woven) if woven else ""
    kinds = Kinds(few=few, past=past, missed=missed, joined=joined, dots=dots, woven=woven)
    return _loaded(name, shape, partial(emit_gather, kinds=kinds), f"gather_{dtype}")


@cache
def cells_kernel(dtype: str, lanes: int) -> int:
    """Return the address of ``cells(record, scratch, item)``."""
    return _address("cells", dtype, lanes, emit_cells)


@cache
def correlate_kernel(part: str, dtype: str, lanes: int, *, swapped: bool, groups: bool) -> int:
    """Return the address of ``correlate``, ``add_pieces`` or ``pack_sides``, all of one module.

    Each takes ``(record, scratch, item)``.  Sides change places, or lanes are ``groups``.
    """
    shape = _tiles(dtype, lanes)
    if groups:
        shape = replace(shape, groups=shape.lanes)
    name = "correlate_swapped" if swapped else "correlate_groups" if groups else "correlate"
    return _loaded(name, shape, partial(emit_correlate, swapped=swapped), f"{part}_{dtype}")


@cache
def grouped_kernel(dtype: str, lanes: int) -> int:
    """Return the address of ``grouped(record, scratch, item)``."""
    return _address("grouped", dtype, lanes, emit_grouped)


@cache
def sweep_kernel(  # noqa: PLR0913 - all that is baked
    dtype: str, lanes: int, kind: Kind, lines: int, *, reads_stored: bool, writes_stored: bool
) -> int:
    """Return the address of a ``sweep`` that grouped layers call: each window has its own."""
    shape = SweepShape(_tiles(dtype, lanes), kind, lines, reads_stored, writes_stored)
    return _loaded("sweep", shape, emit_sweep, f"sweep_{dtype}")


@cache
def grouped_weights_kernel(part: str, dtype: str, lanes: int, *, widening: bool) -> int:
    """Return the address of ``grouped_weights`` or ``add_parts``, both of one module.

    Each takes ``(record, scratch, item)``.
    """
    name = "grouped_weights_widening" if widening else "grouped_weights"
    emit, shape = partial(emit_grouped_weights, widening=widening), _tiles(dtype, lanes)
    return _loaded(name, shape, emit, f"{part}_{dtype}")


@cache
def planes_kernel(dtype: str, lanes: int, vectors: int, rows: int, merged: int) -> int:
    """Return the address of ``planes(record, scratch, item)`` for so many channels and phases.

    A tile takes no more than so many vectors of a line.
    """
    shape = KernelShape(dtype, lanes, vectors, (rows, merged))
    return _compiled("planes", shape, emit_planes)


@cache
def strips_kernel(dtype: str, lanes: int, merged: int) -> int:
    """Return the address of ``strips(record, scratch, item)`` for so many phases."""
    shape = KernelShape(dtype, lanes, 1, (1, merged))
    return _compiled("strips", shape, emit_strips)


@cache
def spread_kernel(dtype: str, lanes: int) -> int:
    """Return the address of ``spread(record, scratch, item)``."""
    return _address("spread", dtype, lanes, emit_spread)


@cache
def overlap_kernel(dtype: str, lanes: int) -> int:
    """Return the address of ``overlap(record, scratch, item)``."""
    return _address("overlap", dtype, lanes, emit_overlap)


@cache
def pack_weights_kernel(dtype: str, lanes: int, vectors: int) -> int:
    """Return the address of ``pack_weights(record, scratch, item)`` for panels of so many."""
    return _compiled("pack_weights", _tiles(dtype, lanes, vectors), emit_pack_weights)


@cache
def pack_cells_kernel(dtype: str, lanes: int) -> int:
    """Return the address of ``pack_cells(record, scratch, item)``."""
    return _address("pack_cells", dtype, lanes, emit_pack_cells)


@cache
def pick_weights_kernel(dtype: str, lanes: int) -> int:
    """Return the address of ``pick_weights(record, scratch, item)``."""
    return _address("pick_weights", dtype, lanes, emit_pick_weights)


@cache
def activation_kernel(dtype: str, lanes: int, name: str, *, across: bool) -> int:
    """Return the address of ``activate(sums, bias, rows, length, pitch, slope)``."""
    shape = KernelShape(dtype, lanes, 1, (1,))
    title = f"activate_{name}_{'rows' if across else 'points'}"
    return _compiled(title, shape, partial(emit_activation, name=name, across=across))


@cache
def winograd_kernel(dtype: str, lanes: int, vectors: int, forms: tuple[Form, ...]) -> int:
    """Return the address of ``winograd(record, scratch, item)`` for forms of the axes."""
    shape = TransformShape(_tiles(dtype, lanes, vectors), forms)
    return _loaded("winograd", shape, emit_winograd, f"winograd_{dtype}")


@cache
def transform_weights_kernel(dtype: str, lanes: int, vectors: int, forms: tuple[Form, ...]) -> int:
    """Return the address of ``transform_weights(record, scratch, item)``, likewise."""
    shape = TransformShape(_tiles(dtype, lanes, vectors), forms)
    return _loaded("transform_weights", shape, emit_transform_weights, f"transform_weights_{dtype}")


def _address(
    name: str, dtype: str, lanes: int, emit: Callable[[ir.Module, KernelShape], object]
) -> int:
    return _compiled(name, _tiles(dtype, lanes), emit)


def _compiled(
    name: str, shape: KernelShape, emit: Callable[[ir.Module, KernelShape], object]
) -> int:
    return _loaded(name, shape, emit, f"{name}_{shape.dtype}")


def _loaded(
    name: str, shape: Shape, emit: Callable[[ir.Module, Shape], object], symbol: str
) -> int:
    def text() -> str:
        module = ir.Module(name)
        emit(module, shape)
        return str(module)

    tile = shape if isinstance(shape, KernelShape) else shape.shape
    source = KernelSource(name, repr(shape), _version(), text)
    target = machine_of(tile.dtype, tile.lanes)
    return load_kernel(source, target, settings().cache_dir).address(symbol)


@cache
def _version() -> str:
    """Return what changes with any file that kernels are made from."""
    return "".join(source_version(Path(package.__path__[0])) for package in (codegen, plan))
