"""Workers that are woken on another processor than their caller's.

Linux likes to wake a thread where its waker runs, which goes on running there: the worker would
wait for milliseconds until somebody moves it.
"""

from llvmlite import ir

from tconv.codegen.build import I32, I64, declared, function, load, number, place, store

WORDS = I64.as_pointer()
MASK_WORDS = 16  # processors that are told apart, in 64s; those beyond are left to the system
SHUNNED, THREAD = 0, 1  # a worker's words

# asm/unistd_64.h, and asm-generic/unistd.h of the younger processors
SYS_GETTID = {"x86_64": 186, "amd64": 186, "aarch64": 178, "arm64": 178, "riscv64": 178}
SYS_SETAFFINITY = {"x86_64": 203, "amd64": 203, "aarch64": 122, "arm64": 122, "riscv64": 122}


def system(b: ir.IRBuilder, call: int, *arguments: ir.Value) -> ir.Value:
    """Call the kernel through the C library's variadic function; both C libraries have it."""
    made = b.module.globals.get("syscall") or ir.Function(
        b.module, ir.FunctionType(I64, [I64], var_arg=True), "syscall"
    )
    return b.call(made, [number(call), *arguments])


def emit_step_aside(module: ir.Module, cpu: str) -> ir.Function:
    """Emit ``step_aside(mask, worker)``: keep a worker from the processor that this runs on.

    ``mask`` are the processors that workers may use, none to leave them alone.  A worker's
    words are the processor that it shuns already, plus one, and its thread.
    """
    made, b = function(module, "pool_step_aside", [WORDS, WORDS])
    mask, worker = made.args
    here = b.sext(b.call(declared(module, "sched_getcpu", I32, []), []), I64)
    word, bit = b.lshr(here, number(6)), b.shl(number(1), b.and_(here, number(63)))
    known = b.icmp_unsigned("<", word, number(MASK_WORDS))
    other = b.icmp_signed("!=", load(b, worker, SHUNNED), b.add(here, number(1)))
    begun = b.icmp_signed("!=", load(b, worker, THREAD), number(0))
    with b.if_then(b.and_(begun, b.and_(known, other))):
        copy = b.bitcast(b.alloca(ir.ArrayType(I64, MASK_WORDS)), WORDS)
        left: ir.Value = number(0)
        for index in range(MASK_WORDS):
            allowed = load(b, mask, index)
            mine = b.icmp_unsigned("==", word, number(index))
            kept = b.and_(allowed, b.select(mine, b.not_(bit), number(-1)))
            store(b, kept, copy, index)
            left = b.or_(left, kept)
        with b.if_then(b.icmp_unsigned("!=", left, number(0))):
            size = number(8 * MASK_WORDS)
            system(b, SYS_SETAFFINITY[cpu], load(b, worker, THREAD), size, copy)
            store(b, b.add(here, number(1)), worker, SHUNNED)
    b.ret_void()
    return made


def note_thread(b: ir.IRBuilder, worker: ir.Value, cpu: str) -> None:
    """Write down which thread a worker is, and that it shuns nothing yet."""
    store(b, system(b, SYS_GETTID[cpu]), place(b, worker, THREAD))
    store(b, number(0), place(b, worker, SHUNNED))
