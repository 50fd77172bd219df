"""The native thread pool: how parked workers and a caller share items.

Every worker has one word.  Only the moves below exist, each one atomic step, so whoever
loses a race sees it and looks again::

    IDLE   -> ASLEEP    worker   nothing came while it spun
    IDLE   -> CALLED    caller   offers a run
    ASLEEP -> CALLED    caller   the same, and wakes it
    ASLEEP -> IDLE      stopper  wakes it, so that it sees that it shall leave
    CALLED -> BUSY      worker   accepts: from now on it may touch record and scratch
    CALLED -> IDLE      caller   takes the offer back: all items are done already
    BUSY   -> AWAITED   caller   sleeps until this worker is done
    BUSY   -> IDLE      worker   is done
    AWAITED-> IDLE      worker   is done, and wakes the caller

An offer can be taken back, so a caller never waits for a worker that is slow to wake, has
left or never existed; it waits only for workers in the middle of an item.

A brief run is over before a worker that sleeps would be awake, which costs the caller about as
much: such a worker is called only if another run ended just before, so that one more is likely.

Every worker begins with items of its own, side by side and the same in every run: what they read
and write is in its caches still.  Whoever is done goes on with those of others.
"""

from dataclasses import dataclass

from llvmlite import ir

from tconv.codegen.aside import emit_step_aside, note_thread
from tconv.codegen.build import (
    I32,
    I64,
    VOID,
    counted,
    function,
    larger,
    load,
    number,
    place,
    smaller,
    store,
)
from tconv.codegen.waiting import ORDER, WORDS, Host, emit_sleep, emit_spin, emit_wake, now

I8 = ir.IntType(8)
BYTES = I8.as_pointer()
KERNEL = ir.FunctionType(VOID, [WORDS, BYTES, I64]).as_pointer()

# The pool in memory, in words of 8 bytes.  What different threads write lies 128 bytes
# apart: some processors fetch cache lines in pairs.
LINE = 16
LOCK, ENDED = 0, 1  # and when the last run did
PATIENCE, JOB, CPUS, SLOTS = LINE, 2 * LINE, 3 * LINE, 4 * LINE
STATE, STOP, OWNER, ASIDE = 0, 1, 2, 3  # inside a worker's line; ASIDE are two words
TAKEN = 8  # likewise, of its items; all workers count there, so it is far from what one waits on
CAPACITY = 512
POOL_BYTES = 8 * (SLOTS + CAPACITY * LINE)

IDLE, ASLEEP, CALLED, BUSY, AWAITED = range(5)

BRIEF = 1 << 40  # added to the items of such a run

# Sleeping and waking take as long as many spins: a caller waits for a worker's last item, and a
# worker for the next run, about as long as the last one took, up to so many times the patience.
LONG = 10


@dataclass(frozen=True, slots=True)
class _Parts:
    """The functions that the public ones are put together from."""

    sleep: ir.Function
    wake: ir.Function
    spin: ir.Function
    take: ir.Function
    share: ir.Function


def emit_pool(module: ir.Module, host: Host | None = None) -> ir.Function:
    """Emit ``pool_run``, ``pool_work`` and ``pool_stop`` over a zeroed, immortal pool.

    ``pool_run(pool, kernel, record, scratch, scratch_step, items, workers)`` calls
    ``kernel(record, scratch + worker * scratch_step, item)`` once for every item, the caller
    being worker 0; with BRIEF added to the items, the run is a brief one.
    ``pool_work(pool, index)`` is the life of worker ``index``; ``pool_stop(pool, index)`` ends it.
    Returns a worker's part in a job.
    """
    host = host or Host()
    sleep, wake = emit_sleep(module, host), emit_wake(module, host)
    take = _emit_take(module)
    parts = _Parts(sleep, wake, emit_spin(module, host), take, _emit_share(module, take))
    offer, close = _emit_offer(module, parts, host), _emit_close(module, parts)
    _emit_run(module, parts, (offer, close), host)
    _emit_work(module, parts, host)
    _emit_stop(module, parts)
    return parts.share


def _emit_run(
    module: ir.Module, parts: _Parts, ends: tuple[ir.Function, ir.Function], host: Host
) -> None:
    offer, close = ends
    made, b = function(
        module, "pool_run", [WORDS, KERNEL, WORDS, BYTES, I64, I64, I64], public=True
    )
    pool, kernel, record, scratch, step, said, workers = made.args
    items, brief = b.and_(said, number(BRIEF - 1)), b.icmp_signed(">=", said, number(BRIEF))
    used = smaller(b, smaller(b, workers, items), number(CAPACITY))
    wants, shared, alone = (b.append_basic_block(name) for name in ("wants", "shared", "alone"))
    b.cbranch(b.icmp_signed(">", used, number(1)), wants, alone)

    # Another caller has the workers: waiting for it would be slower than doing the work.
    b.position_at_end(wants)
    lock = place(b, pool, LOCK)
    b.cbranch(_swapped(b, lock, number(0), number(1)), shared, alone)

    b.position_at_end(shared)
    describe(b, pool, (kernel, record, scratch, step, items, used))
    ended = place(b, pool, ENDED)
    late = b.icmp_signed(">", b.sub(now(b, host), b.load(ended)), load(b, pool, PATIENCE))
    shy = b.and_(brief, late)
    with counted(b, used, first=number(1)) as worker:
        b.call(offer, [pool, _slot(b, pool, worker.index), b.zext(shy, I64)])
    b.call(parts.take, [pool, kernel, record, scratch, items, used, number(0)])
    with counted(b, used, first=number(1)) as worker:
        patience = b.mul(load(b, pool, PATIENCE), number(LONG))
        b.call(close, [_slot(b, pool, worker.index), patience])
    b.store(now(b, host), ended)
    b.store_atomic(number(0), lock, ORDER, 8)
    b.ret_void()

    b.position_at_end(alone)
    do_alone(b, kernel, record, scratch, items)


def describe(b: ir.IRBuilder, pool: ir.Value, job: tuple[ir.Value, ...]) -> None:
    """Write down what there is to do: kernel, record, scratch, its step, items and workers."""
    for index, value in enumerate(job):
        word = b.ptrtoint(value, I64) if isinstance(value.type, ir.PointerType) else value
        store(b, word, pool, JOB + index)
    with counted(b, job[-1]) as worker:
        b.store_atomic(number(0), place(b, _slot(b, pool, worker.index), TAKEN), ORDER, 8)


def do_alone(
    b: ir.IRBuilder, kernel: ir.Value, record: ir.Value, scratch: ir.Value, items: ir.Value
) -> None:
    """Run all items, and return."""
    with counted(b, items) as item:
        b.call(kernel, [record, scratch, item.index])
    b.ret_void()


def _emit_work(module: ir.Module, parts: _Parts, host: Host) -> None:
    made, b = function(module, "pool_work", [WORDS, I64], public=True)
    pool, index = made.args
    slot = _slot(b, pool, index)
    state = _word(b, slot, STATE)
    owner, stop = place(b, slot, OWNER), place(b, slot, STOP)
    took = b.alloca(I64)
    b.store(number(0), took)
    names = ("begin", "look", "wait", "tire", "rest", "drowse", "answer", "accept", "leave", "end")
    begin, look, wait, tire, rest, drowse, answer, accept, leave, end = (
        b.append_basic_block(name) for name in names
    )
    # Two threads in one slot would share scratch: the second goes home.
    b.cbranch(_swapped(b, owner, number(0), number(1)), begin, end)

    b.position_at_end(begin)
    if host.sleeper == "futex":
        note_thread(b, place(b, slot, ASIDE), host.cpu)
    b.branch(look)

    b.position_at_end(look)
    b.cbranch(_is(b, b.load_atomic(stop, ORDER, 8), number(0)), wait, leave)

    b.position_at_end(wait)
    patience = load(b, pool, PATIENCE)
    most = b.mul(patience, number(LONG - 1))
    b.call(parts.spin, [state, I32(IDLE), b.add(patience, smaller(b, b.load(took), most))])
    seen = b.switch(b.load_atomic(state, ORDER, 4), look)
    for value, block in ((IDLE, tire), (ASLEEP, rest), (CALLED, answer)):
        seen.add_case(I32(value), block)

    b.position_at_end(tire)
    b.cbranch(_swapped(b, state, I32(IDLE), I32(ASLEEP)), rest, look)

    # Looks for the stop once more after saying ASLEEP: the stopper writes the stop first
    # and reads the state second, so one of the two sees the other.
    b.position_at_end(rest)
    b.cbranch(_is(b, b.load_atomic(stop, ORDER, 8), number(0)), drowse, leave)

    b.position_at_end(drowse)
    b.call(parts.sleep, [state, I32(ASLEEP)])
    b.branch(look)

    b.position_at_end(answer)
    b.cbranch(_swapped(b, state, I32(CALLED), I32(BUSY)), accept, look)

    b.position_at_end(accept)
    begun = now(b, host)
    b.call(parts.share, [pool, index])
    passed = b.sub(now(b, host), begun)  # less than nothing where processors' clocks differ
    b.store(larger(b, passed, number(0)), took)
    before = b.atomic_rmw("xchg", state, I32(IDLE), ORDER)
    with b.if_then(_is(b, before, I32(AWAITED)), likely=False):
        b.call(parts.wake, [state])
    b.branch(look)

    b.position_at_end(leave)
    b.store_atomic(number(0), owner, ORDER, 8)
    b.branch(end)

    b.position_at_end(end)
    b.ret_void()


def _emit_stop(module: ir.Module, parts: _Parts) -> None:
    made, b = function(module, "pool_stop", [WORDS, I64], public=True)
    slot = _slot(b, *made.args)
    state = _word(b, slot, STATE)
    b.store_atomic(number(1), place(b, slot, STOP), ORDER, 8)
    with b.if_then(_swapped(b, state, I32(ASLEEP), I32(IDLE))):
        b.call(parts.wake, [state])
    b.ret_void()


def _emit_take(module: ir.Module) -> ir.Function:
    """Emit the loop over a worker's own items, then over those that others have not taken yet."""
    made, b = function(module, "pool_take", [WORDS, KERNEL, WORDS, BYTES, I64, I64, I64])
    pool, kernel, record, scratch, items, workers, index = made.args
    with counted(b, workers) as turn:
        owner = b.srem(b.add(index, turn.index), workers)
        first, last = (
            b.sdiv(b.mul(worker, items), workers) for worker in (owner, b.add(owner, number(1)))
        )
        taken = place(b, _slot(b, pool, owner), TAKEN)
        names = ("look", "take", "run", "end")
        look, attempt, run, end = (b.append_basic_block(name) for name in names)
        b.branch(look)
        # Looked at before it is counted: all workers come by here in the end.
        b.position_at_end(look)
        known = b.add(first, b.load_atomic(taken, ORDER, 8))
        b.cbranch(b.icmp_signed("<", known, last), attempt, end)
        b.position_at_end(attempt)
        item = b.add(first, b.atomic_rmw("add", taken, number(1), ORDER))
        b.cbranch(b.icmp_signed("<", item, last), run, end)
        b.position_at_end(run)
        b.call(kernel, [record, scratch, item])
        b.branch(look)
        b.position_at_end(end)
    b.ret_void()
    return made


def _emit_share(module: ir.Module, take: ir.Function) -> ir.Function:
    """Emit a worker's part in the job that a pool or a team describes."""
    made, b = function(module, "pool_share", [WORDS, I64])
    pool, index = made.args
    kernel, record, scratch, step, items, workers = (load(b, pool, JOB + part) for part in range(6))
    mine = b.add(scratch, b.mul(index, step))
    pointers = [
        b.inttoptr(value, kind)
        for value, kind in ((kernel, KERNEL), (record, WORDS), (mine, BYTES))
    ]
    b.call(take, [pool, *pointers, items, workers, index])
    b.ret_void()
    return made


def _emit_offer(module: ir.Module, parts: _Parts, host: Host) -> ir.Function:
    step_aside = emit_step_aside(module, host.cpu) if host.sleeper == "futex" else None
    made, b = function(module, "pool_offer", [WORDS, WORDS, I64])
    pool, slot, shy = made.args
    state = _word(b, slot, STATE)
    asleep = _is(b, b.load_atomic(state, ORDER, 4), I32(ASLEEP))
    with b.if_then(b.and_(asleep, b.icmp_signed("!=", shy, number(0)))):
        b.ret_void()
    # Awake ones too: a caller that was moved to its worker's processor would do all alone, and
    # the worker, never done waiting for its turn there, would not fall asleep either.
    if step_aside is not None:
        b.call(step_aside, [place(b, pool, CPUS), place(b, slot, ASIDE)])
    before = b.atomic_rmw("xchg", state, I32(CALLED), ORDER)
    with b.if_then(_is(b, before, I32(ASLEEP))):
        b.call(parts.wake, [state])
    b.ret_void()
    return made


def _emit_close(module: ir.Module, parts: _Parts) -> ir.Function:
    """Emit the end of an offer: take it back, or wait until the worker is done."""
    made, b = function(module, "pool_close", [WORDS, I64])
    slot, patience = made.args
    state = _word(b, slot, STATE)
    names = ("look", "revoke", "linger", "doze", "end")
    look, revoke, linger, doze, end = (b.append_basic_block(name) for name in names)
    b.branch(look)

    b.position_at_end(look)
    seen = b.switch(b.load_atomic(state, ORDER, 4), end)
    for value, block in ((CALLED, revoke), (BUSY, linger), (AWAITED, doze)):
        seen.add_case(I32(value), block)

    b.position_at_end(revoke)
    b.cbranch(_swapped(b, state, I32(CALLED), I32(IDLE)), end, look)

    b.position_at_end(linger)
    b.call(parts.spin, [state, I32(BUSY), patience])
    b.cbranch(_swapped(b, state, I32(BUSY), I32(AWAITED)), doze, look)

    b.position_at_end(doze)
    b.call(parts.sleep, [state, I32(AWAITED)])
    b.branch(look)

    b.position_at_end(end)
    b.ret_void()
    return made


def _slot(b: ir.IRBuilder, pool: ir.Value, worker: ir.Value) -> ir.Value:
    return place(b, pool, b.add(b.mul(worker, number(LINE)), number(SLOTS)))


def _word(b: ir.IRBuilder, slot: ir.Value, index: int) -> ir.Value:
    """Return the address of a word as the operating system waits on it: 32 bits."""
    return b.bitcast(place(b, slot, index), I32.as_pointer())


def _is(b: ir.IRBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    return b.icmp_unsigned("==", left, right)


def _swapped(b: ir.IRBuilder, word: ir.Value, old: ir.Value, new: ir.Value) -> ir.Value:
    """Replace ``old`` by ``new`` in one step; tell whether that happened."""
    return b.extract_value(b.cmpxchg(word, old, new, ORDER), 1)
