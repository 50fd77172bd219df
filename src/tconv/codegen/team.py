"""A pool's run on threads of somebody else's: a team of OpenMP's."""

from llvmlite import ir

from tconv.codegen.build import I32, I64, VOID, function, load, number, smaller, store
from tconv.codegen.pool import BRIEF, BYTES, CAPACITY, KERNEL, LINE, SLOTS, describe, do_alone
from tconv.codegen.waiting import WORDS

WHICH = 0  # where a job has the function that tells which worker one is; it needs no lock


def emit_team(module: ir.Module, share: ir.Function) -> None:
    """Emit ``team_run``, which takes what ``pool_run`` takes.

    In place of the pool stand the addresses of OpenMP's ``GOMP_parallel`` and
    ``omp_get_thread_num``; ``share`` is a worker's part in a job.
    """
    body, b = function(module, "team_body", [WORDS])
    which = b.inttoptr(load(b, body.args[0], WHICH), ir.FunctionType(I32, []).as_pointer())
    b.call(share, [body.args[0], b.zext(b.call(which, []), I64)])
    b.ret_void()

    made, b = function(
        module, "team_run", [WORDS, KERNEL, WORDS, BYTES, I64, I64, I64], public=True
    )
    team, kernel, record, scratch, step, said, workers = made.args
    items = b.and_(said, number(BRIEF - 1))  # OpenMP's threads are awake, or it wakes them
    used = smaller(b, smaller(b, workers, items), number(CAPACITY))
    shared, alone = (b.append_basic_block(name) for name in ("shared", "alone"))
    b.cbranch(b.icmp_signed(">", used, number(1)), shared, alone)

    # On the caller's stack: several callers may be in here, each with a team of its own.
    b.position_at_end(shared)
    job = b.alloca(I64, b.add(b.mul(used, number(LINE)), number(SLOTS)))
    describe(b, job, (kernel, record, scratch, step, items, used))
    store(b, load(b, team, 1), job, WHICH)
    parallel = b.inttoptr(
        load(b, team), ir.FunctionType(VOID, [body.type, WORDS, I32, I32]).as_pointer()
    )
    b.call(parallel, [body, job, b.trunc(used, I32), I32(0)])
    b.ret_void()

    b.position_at_end(alone)
    do_alone(b, kernel, record, scratch, items)
