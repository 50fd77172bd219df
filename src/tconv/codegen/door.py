"""A call that Python makes straight into compiled code: arrays in, the result out.

Looking at arrays, writing addresses into a record and calling a kernel takes Python as long as a
small layer takes.  A door does it in compiled code: a builtin function whose ``self`` is an array
of words that say which arrays fit, and what runs on them.
"""

from llvmlite import ir

from tconv.codegen.build import I32, I64, VOID, counted, function, load, number, place, store
from tconv.codegen.pool import BYTES, KERNEL
from tconv.codegen.waiting import ORDER, WORDS

OBJECT = ir.IntType(8).as_pointer()

FIELDS = (
    "state",  # what all doors share
    "kind", "dtype",  # of both arrays: Python's objects
    "source_axes", "target_axes",
    "mask",  # bits of an address that must be zero
    "low", "high",  # how far from its first element the source's bytes reach
    "size",  # bytes of the target
    "make",  # an object that makes a target when it is called
    "begin",  # bytes of the source that are left out
    "record", "weights", "bias", "numbered",
    "watched", "flags",  # how many images a kernel watches; where it raises flags for them
    "kernel", "items", "scratch_bytes", "single",
)  # fmt: skip
"""The words of a door; behind them come sizes and strides of source and target."""

STATE = (
    "lock",  # doors share record and scratch: one caller at a time
    "threads",  # zero until it is known
    "run", "pool",
    "scratch", "scratch_size",
    "number",  # of the last call that was numbered
    "none", "keep", "drop", "make", "clear", "release", "acquire",  # Python's object and functions
)  # fmt: skip
"""The words that all doors share."""

WRITEABLE = 0x400  # numpy's flag


def emit_door(module: ir.Module, header: int) -> None:
    """Emit ``door(self, arguments, count)``, and ``fit(state, threads, run, ...)``.

    The first is for Python: arguments are an array, and the result's or None.  It gives None
    where the arrays are not those that it is made for, or somebody else is inside.  The second
    changes the words of the state from ``threads`` to ``scratch_size`` unless somebody is
    inside, and tells whether it did.  An object's own words begin behind ``header`` bytes.
    """
    _emit_fit(module)
    kind = ir.FunctionType(OBJECT, [OBJECT, OBJECT.as_pointer(), I64])
    made = ir.Function(module, kind, "door")
    made.attributes.add("nounwind")
    b = ir.IRBuilder(made.append_basic_block("entry"))
    refuse, drop = (b.append_basic_block(name) for name in ("refuse", "drop"))
    own, arguments, _ = made.args
    door = _Door(b, _pointer(b, _word(b, own, header), WORDS), header)
    first, second = (load(b, arguments, index) for index in (0, 1))
    axes = door.field("source_axes")
    sizes = place(b, door.words, len(FIELDS))
    _demand(b, _fits(b, door, first, (axes, sizes)), refuse)
    source = _word(b, first, header)
    result = _find_target(b, door, (source, second), place(b, sizes, b.add(axes, axes)), refuse)
    target = _word(b, result, header)
    askew = b.and_(b.or_(source, target), door.field("mask"))
    _demand(b, b.icmp_unsigned("==", askew, number(0)), drop)
    _demand(b, _locked(b, door.state), drop)
    _run(b, door, (source, target), drop)
    b.ret(result)

    b.position_at_end(drop)
    b.call(door.function("drop", VOID, OBJECT), [result])
    b.branch(refuse)
    b.position_at_end(refuse)
    none = _pointer(b, door.shared("none"), OBJECT)
    b.call(door.function("keep", VOID, OBJECT), [none])
    b.ret(none)


class _Door:
    """The words of a door and those that all share."""

    def __init__(self, b: ir.IRBuilder, words: ir.Value, header: int) -> None:
        self.b, self.words, self.header = b, words, header
        self.state = _pointer(b, self.field("state"), WORDS)

    def field(self, name: str) -> ir.Value:
        """Load a word of the door."""
        return load(self.b, self.words, FIELDS.index(name))

    def shared(self, name: str) -> ir.Value:
        """Load a word that all share."""
        return load(self.b, self.state, STATE.index(name))

    def function(self, name: str, result: ir.Type, *kinds: ir.Type) -> ir.Value:
        """Return a function whose address all share."""
        kind = ir.FunctionType(result, kinds)
        return _pointer(self.b, self.shared(name), kind.as_pointer())


def _find_target(
    b: ir.IRBuilder,
    door: _Door,
    arrays: tuple[ir.Value, ir.Value],
    sizes: ir.Value,
    refuse: ir.Block,
) -> ir.Value:
    """Return the result's array, with a reference of our own: the given one, or a new one.

    Arrays are where the source begins and the second argument.
    """
    source, second = arrays
    given, fresh, missing, found = (
        b.append_basic_block(name) for name in ("given", "fresh", "missing", "found")
    )
    none = b.icmp_unsigned("==", b.ptrtoint(second, I64), door.shared("none"))
    b.cbranch(none, fresh, given)

    b.position_at_end(fresh)
    maker = _pointer(b, door.field("make"), OBJECT)
    created = b.call(door.function("make", OBJECT, OBJECT), [maker])
    b.cbranch(b.icmp_unsigned("!=", b.ptrtoint(created, I64), number(0)), found, missing)
    b.position_at_end(missing)  # who looks closer can tell what there is no memory for
    b.call(door.function("clear", VOID), [])
    b.branch(refuse)

    b.position_at_end(given)
    _demand(b, _fits(b, door, second, (door.field("target_axes"), sizes)), refuse)
    flags = _word(b, second, door.header + 48, I32)
    _demand(b, b.icmp_unsigned("!=", b.and_(flags, I32(WRITEABLE)), I32(0)), refuse)
    there = _word(b, second, door.header)
    before = b.icmp_signed("<=", b.add(there, door.field("size")), b.add(source, door.field("low")))
    behind = b.icmp_signed(">=", there, b.add(source, door.field("high")))
    _demand(b, b.or_(before, behind), refuse)
    b.call(door.function("keep", VOID, OBJECT), [second])
    kept = b.block
    b.branch(found)

    b.position_at_end(found)
    result = b.phi(OBJECT)
    result.add_incoming(created, fresh)
    result.add_incoming(second, kept)
    return result


def _run(
    b: ir.IRBuilder, door: _Door, ends: tuple[ir.Value, ir.Value], otherwise: ir.Block
) -> None:
    """Run the kernel, alone inside and without Python's lock, and unlock the door.

    Of images that were flagged Python computes some again.
    """
    leave = b.append_basic_block("leave")
    source, target = ends
    alone = b.icmp_unsigned("!=", door.field("single"), number(0))
    known = door.shared("threads")
    threads = b.select(alone, number(1), known)
    needed = b.mul(threads, door.field("scratch_bytes"))
    enough = b.icmp_signed("<=", needed, door.shared("scratch_size"))
    _demand(b, b.and_(enough, b.icmp_signed(">", known, number(0))), leave)
    record = _pointer(b, door.field("record"), WORDS)
    read = b.add(source, door.field("begin"))
    for index, value in enumerate((read, target, door.field("weights"), door.field("bias"))):
        store(b, value, record, index)
    with b.if_then(b.icmp_unsigned("!=", door.field("numbered"), number(0))):
        mine = b.add(door.shared("number"), number(1))
        store(b, mine, door.state, STATE.index("number"))
        store(b, mine, record, 4)
    watched, flags = door.field("watched"), _pointer(b, door.field("flags"), WORDS)
    with b.if_then(b.icmp_unsigned("!=", watched, number(0))):
        store(b, door.field("flags"), record, 4)
    with counted(b, watched) as image:
        store(b, number(0), flags, image.index)
    thread = b.call(door.function("release", OBJECT), [])
    pool, scratch = (
        _pointer(b, door.shared("pool"), WORDS),
        _pointer(b, door.shared("scratch"), BYTES),
    )
    job = [_pointer(b, door.field("kernel"), KERNEL), record, scratch]
    sizes = [door.field("scratch_bytes"), door.field("items"), threads]
    run = door.function("run", VOID, WORDS, KERNEL, WORDS, BYTES, I64, I64, I64)
    b.call(run, [pool, *job, *sizes])
    with counted(b, watched, [number(0)]) as image:
        image.carried = [b.or_(image.carried[0], load(b, flags, image.index))]
    _unlock(b, door.state)
    b.call(door.function("acquire", VOID, OBJECT), [thread])
    _demand(b, b.icmp_unsigned("==", image.carried[0], number(0)), otherwise)
    done = b.block

    b.position_at_end(leave)
    _unlock(b, door.state)
    b.branch(otherwise)
    b.position_at_end(done)


def _emit_fit(module: ir.Module) -> None:
    """Emit ``fit(state, threads, run, pool, scratch, scratch_size, done)``."""
    made, b = function(module, "fit", [WORDS, *[I64] * 5, WORDS], public=True)
    state, *values, done = made.args
    free = _locked(b, state)
    store(b, b.zext(free, I64), done)
    with b.if_then(free):
        for place_, value in enumerate(values, STATE.index("threads")):
            store(b, value, state, place_)
        _unlock(b, state)
    b.ret_void()


def _demand(b: ir.IRBuilder, held: ir.Value, otherwise: ir.Block) -> None:
    """Go on only if something holds."""
    good = b.append_basic_block("good")
    b.cbranch(held, good, otherwise)
    b.position_at_end(good)


def _fits(
    b: ir.IRBuilder, door: _Door, array: ir.Value, due: tuple[ir.Value, ir.Value]
) -> ir.Value:
    """Tell whether an object is an array of the door's kind and dtype, and of these sizes.

    They are so many axes, and their sizes and strides in a row.
    """
    axes, words = due
    header = door.header
    answer, look, compare = (b.append_basic_block(name) for name in ("fits", "look", "compare"))
    wrong: list[ir.Block] = []

    def go_on(held: ir.Value, following: ir.Block) -> None:
        wrong.append(b.block)
        b.cbranch(held, following, answer)
        b.position_at_end(following)

    kind, dtype = door.field("kind"), door.field("dtype")
    # The kind first: only of an array the other words are where they should be.
    go_on(b.icmp_unsigned("==", _word(b, array, header - 8), kind), look)
    same = b.icmp_unsigned("==", _word(b, array, header + 40), dtype)
    alike = b.icmp_unsigned("==", b.zext(_word(b, array, header + 8, I32), I64), axes)
    go_on(b.and_(same, alike), compare)
    sizes, strides = (_pointer(b, _word(b, array, header + at), WORDS) for at in (16, 24))
    with counted(b, axes, [number(0)]) as axis:
        found = axis.carried[0]
        for values, behind in ((sizes, number(0)), (strides, axes)):
            asked = load(b, words, b.add(axis.index, behind))
            found = b.or_(found, b.xor(load(b, values, axis.index), asked))
        axis.carried = [found]
    right = b.icmp_unsigned("==", axis.carried[0], number(0))
    end = b.block
    b.branch(answer)
    b.position_at_end(answer)
    fits = b.phi(ir.IntType(1))
    for block in wrong:
        fits.add_incoming(ir.Constant(ir.IntType(1), 0), block)
    fits.add_incoming(right, end)
    return fits


def _locked(b: ir.IRBuilder, state: ir.Value) -> ir.Value:
    """Try to be the only one inside."""
    lock = place(b, state, STATE.index("lock"))
    return b.extract_value(b.cmpxchg(lock, number(0), number(1), ORDER), 1)


def _unlock(b: ir.IRBuilder, state: ir.Value) -> None:
    b.store_atomic(number(0), place(b, state, STATE.index("lock")), ORDER, 8)


def _word(b: ir.IRBuilder, thing: ir.Value, at: int, kind: ir.Type = I64) -> ir.Value:
    """Return a word of an object, at so many bytes."""
    return b.load(b.bitcast(place(b, thing, at), kind.as_pointer()))


def _pointer(b: ir.IRBuilder, value: ir.Value, kind: ir.Type) -> ir.Value:
    return b.inttoptr(value, kind)
