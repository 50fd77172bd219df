"""Loops, loads and vectors over llvmlite's builder: the only file with phi and GEP."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

I1, I16, I32, I64 = ir.IntType(1), ir.IntType(16), ir.IntType(32), ir.IntType(64)
F32, F64 = ir.FloatType(), ir.DoubleType()
VOID = ir.VoidType()
# What each type is computed in, how many bytes that takes, and what its arrays hold.
FLOATS = {"float32": F32, "float64": F64, "float16": F32, "bfloat16": F32}
BYTES = {"float32": 4, "float64": 8, "float16": 4, "bfloat16": 4}
LINE = 64  # bytes that caches fetch at a time, on most machines
STORED = {"float32": F32, "float64": F64, "float16": I16, "bfloat16": I16}
STORED_BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}


@dataclass
class Turn:
    """One turn of a loop: its index, the values handed on, and where the next turn begins."""

    index: ir.Value
    carried: list[ir.Value]
    following: ir.Value


def number(value: int) -> ir.Constant:
    """Return a 64-bit constant."""
    return ir.Constant(I64, value)


def function(
    module: ir.Module, name: str, arguments: Sequence[ir.Type], *, public: bool = False
) -> tuple[ir.Function, ir.IRBuilder]:
    """Begin a function without result; only public ones are visible outside the module."""
    made = ir.Function(module, ir.FunctionType(VOID, arguments), name)
    if not public:
        made.linkage = "internal"
        # Each is called for many elements.  In one large function they would crowd each other's
        # registers, and LLVM takes half as long again.
        made.attributes.add("noinline")
    made.attributes.add("nounwind")
    return made, ir.IRBuilder(made.append_basic_block("entry"))


@contextmanager
def counted(
    b: ir.IRBuilder,
    count: ir.Value,
    start: Sequence[ir.Value] = (),
    *,
    step: int = 1,
    first: ir.Value | None = None,
) -> Iterator[Turn]:
    """Emit ``for index in range(first, count, step)``, which may run no turn at all.

    Replace entries of ``turn.carried`` inside the block to hand them on; after the block
    ``turn.carried`` are the values of the last turn, or ``start``.
    """
    origin = number(0) if first is None else first
    before = b.block
    body, after = b.append_basic_block("body"), b.append_basic_block("after")
    b.cbranch(b.icmp_signed("<", origin, count), body, after)
    b.position_at_end(body)
    index = b.phi(I64)
    phis = [b.phi(value.type) for value in start]
    turn = Turn(index, list(phis), index)
    yield turn

    following = b.add(index, number(step), flags=("nsw",))
    entering, returning = [origin, *start], [following, *turn.carried]
    for phi, value, later in zip([index, *phis], entering, returning, strict=True):
        phi.add_incoming(value, before)
        phi.add_incoming(later, b.block)
    last = b.block
    b.cbranch(b.icmp_signed("<", following, count), body, after)
    b.position_at_end(after)
    turn.carried = _merged(b, start, before, turn.carried, last)


def _merged(
    b: ir.IRBuilder,
    start: Sequence[ir.Value],
    before: ir.Block,
    carried: Sequence[ir.Value],
    last: ir.Block,
) -> list[ir.Value]:
    """Return the values behind a loop: of its last turn, or those before it."""
    results = []
    for value, later in zip(start, carried, strict=True):
        merged = b.phi(value.type)
        merged.add_incoming(value, before)
        merged.add_incoming(later, last)
        results.append(merged)
    return results


@contextmanager
def advancing(
    b: ir.IRBuilder, first: ir.Value, end: ir.Value, start: Sequence[ir.Value] = ()
) -> Iterator[Turn]:
    """Emit a loop from first to end whose turns tell where the next one begins.

    Put that into ``turn.following``.  Carried values are handed on as in :func:`counted`.
    """
    before = b.block
    body, after = b.append_basic_block("body"), b.append_basic_block("after")
    b.cbranch(b.icmp_signed("<", first, end), body, after)
    b.position_at_end(body)
    phis = [b.phi(value.type) for value in (first, *start)]
    turn = Turn(phis[0], phis[1:], phis[0])
    yield turn

    returning = [turn.following, *turn.carried]
    for phi, value, later in zip(phis, (first, *start), returning, strict=True):
        phi.add_incoming(value, before)
        phi.add_incoming(later, b.block)
    last = b.block
    b.cbranch(b.icmp_signed("<", turn.following, end), body, after)
    b.position_at_end(after)
    turn.carried = _merged(b, start, before, turn.carried, last)


def place(b: ir.IRBuilder, pointer: ir.Value, index: ir.Value | int) -> ir.Value:
    """Return the address of an element."""
    return b.gep(pointer, [number(index) if isinstance(index, int) else index])


def load(
    b: ir.IRBuilder, pointer: ir.Value, index: ir.Value | int = 0, kind: ir.Type | None = None
) -> ir.Value:
    """Load an element, or a vector that begins at it; no alignment is assumed."""
    where = place(b, pointer, index)
    if kind is not None:
        where = b.bitcast(where, kind.as_pointer())
        return b.load(where, align=_element_bytes(kind))
    return b.load(where)


def store(b: ir.IRBuilder, value: ir.Value, pointer: ir.Value, index: ir.Value | int = 0) -> None:
    """Store an element, or a vector that begins at it; no alignment is assumed."""
    where = place(b, pointer, index)
    if isinstance(value.type, ir.VectorType):
        where = b.bitcast(where, value.type.as_pointer())
        b.store(value, where, align=_element_bytes(value.type))
    else:
        b.store(value, where)


def stream(b: ir.IRBuilder, value: ir.Value, pointer: ir.Value, index: ir.Value) -> None:
    """Store a vector past the caches; it must be aligned.

    Others see it after a fence.
    """
    where = b.bitcast(place(b, pointer, index), value.type.as_pointer())
    stored = b.store(value, where, align=value.type.count * _element_bytes(value.type))
    stored.set_metadata("nontemporal", b.module.add_metadata([ir.Constant(I32, 1)]))


def prefetch(b: ir.IRBuilder, pointer: ir.Value, *, near: int = 3, write: bool = False) -> None:
    """Ask for a cache line that will be read, or written, soon; any address will do.

    ``near`` is 3 for the first cache, 2 for the second.
    """
    byte = ir.IntType(8).as_pointer()
    call = declared(b.module, "llvm.prefetch.p0i8", VOID, [byte, I32, I32, I32])
    numbers = (ir.Constant(I32, value) for value in (int(write), near, 1))
    b.call(call, [b.bitcast(pointer, byte), *numbers])


def prefetch_lines(
    b: ir.IRBuilder, pointer: ir.Value, columns: int, item: int, *, write: bool = False
) -> None:
    """Ask for all cache lines of some columns, of so many bytes each, that begin with one."""
    for element in range(0, columns, LINE // item):
        prefetch(b, place(b, pointer, element), write=write)


def touch(b: ir.IRBuilder, pointer: ir.Value) -> None:
    """Read what lies there, for the caches' sake: machines drop prefetches if there are many.

    Atomic, since nobody uses it: others would be left out.
    """
    b.load_atomic(b.bitcast(pointer, I32.as_pointer()), "monotonic", 4)


def splat(b: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """Return a vector with the same value in every lane."""
    kind = ir.VectorType(value.type, lanes)
    undefined = ir.Constant(kind, ir.Undefined)
    one = b.insert_element(undefined, value, ir.Constant(I32, 0))
    return shuffle(b, one, undefined, [0] * lanes)


def shuffle(b: ir.IRBuilder, left: ir.Value, right: ir.Value, picks: Sequence[int]) -> ir.Value:
    """Pick lanes from two vectors laid end to end."""
    mask = ir.Constant(ir.VectorType(I32, len(picks)), list(picks))
    return b.shuffle_vector(left, right, mask)


def fma(b: ir.IRBuilder, left: ir.Value, right: ir.Value, total: ir.Value) -> ir.Value:
    """Multiply and add with one rounding."""
    kind = total.type
    name = f"llvm.fma.v{kind.count}f{8 * _element_bytes(kind)}"
    return b.call(declared(b.module, name, kind, [kind] * 3), [left, right, total])


def declared(
    module: ir.Module, name: str, result: ir.Type, arguments: Sequence[ir.Type]
) -> ir.Function:
    """Return a function from outside the module, declared once."""
    found = module.globals.get(name)
    return found or ir.Function(module, ir.FunctionType(result, arguments), name)


def opaque(b: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    """Return the same pointer as a number that LLVM knows nothing of.

    Or it keeps one pointer for every place that is read from there, more than registers hold.
    """
    kind = ir.FunctionType(pointer.type, [pointer.type])
    return b.asm(kind, "", "=r,0", [pointer], side_effect=False)


def zeros(kind: ir.VectorType) -> ir.Constant:
    """Return a vector of zeros."""
    return ir.Constant(kind, [0.0] * kind.count)


def transpose(b: ir.IRBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """Transpose a square of vectors, in log2(rows) rounds of two-vector shuffles.

    Fewer rows than lanes are several squares side by side, each transposed in its place.
    """
    lanes = rows[0].type.count
    block = 1
    while block < len(rows):
        low, high = [], []
        for lane in range(lanes):
            inside = lane % (2 * block) < block
            low.append(lane if inside else lanes + lane - block)
            high.append(lane + block if inside else lanes + lane)
        mixed = list(rows)
        for row in range(len(rows)):
            if row % (2 * block) < block:
                pair = rows[row], rows[row + block]
                mixed[row] = shuffle(b, *pair, low)
                mixed[row + block] = shuffle(b, *pair, high)
        rows = mixed
        block *= 2
    return list(rows)


def smaller(b: ir.IRBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    """Return the smaller of two numbers."""
    return b.select(b.icmp_signed("<", left, right), left, right)


def larger(b: ir.IRBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    """Return the larger of two numbers."""
    return b.select(b.icmp_signed(">", left, right), left, right)


def _element_bytes(kind: ir.Type) -> int:
    element = kind.element if isinstance(kind, ir.VectorType) else kind
    return {F32: 4, F64: 8, I64: 8, I32: 4, I16: 2}[element]
