"""How threads wait until a word changes: spinning for a while, then asleep."""

import platform
import sys
from dataclasses import dataclass, field

from llvmlite import ir

from tconv.codegen.aside import system
from tconv.codegen.build import I32, I64, VOID, declared, function, number, store

WORDS = I64.as_pointer()
ORDER = "seq_cst"  # a hand-off costs a microsecond anyway; weaker orders win nothing

X86 = ("x86_64", "amd64", "i386", "i686")
ARM = ("aarch64", "arm64")
# asm/unistd_64.h, and asm-generic/unistd.h of the younger processors
SYS_FUTEX = {"x86_64": 202, "amd64": 202, "aarch64": 98, "arm64": 98, "riscv64": 98}
FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE = 128, 129
UL_COMPARE_AND_WAIT = 1
NAP_MICROSECONDS = 200


@dataclass(frozen=True, slots=True)
class Host:
    """What waiting needs to know of operating system and processor."""

    system: str = sys.platform
    cpu: str = field(default_factory=lambda: platform.machine().lower())

    @property
    def sleeper(self) -> str:
        """How a thread sleeps until a word changes: futex, ulock, or short naps."""
        if self.system == "linux" and self.cpu in SYS_FUTEX:
            return "futex"
        return {"darwin": "ulock", "win32": "Sleep"}.get(self.system, "nanosleep")

    @property
    def patience(self) -> int:
        """How long to spin before sleeping, at least: tens of microseconds, in cycles or turns."""
        return 100_000 if self.cpu in X86 else 3_000


def emit_spin(module: ir.Module, host: Host) -> ir.Function:
    """Emit the wait that burns cycles: until a word differs from a value, or patience ends."""
    made, b = function(module, "pool_spin", [I32.as_pointer(), I32, I64])
    word, value, patience = made.args
    turns = b.alloca(I64)
    b.store(number(0), turns)
    begin = now(b, host)
    look, pause, end = (b.append_basic_block(name) for name in ("look", "pause", "end"))
    b.branch(look)

    b.position_at_end(look)
    b.cbranch(b.icmp_unsigned("==", b.load_atomic(word, ORDER, 4), value), pause, end)

    b.position_at_end(pause)
    if host.cpu in X86:
        b.call(declared(module, "llvm.x86.sse2.pause", VOID, []), [])
        passed = b.sub(now(b, host), begin)
    else:
        if host.cpu in ARM:  # "yield" does nothing on most chips; this waits some cycles
            b.call(declared(module, "llvm.aarch64.isb", VOID, [I32]), [I32(15)])
        passed = b.add(b.load(turns), number(1))
        b.store(passed, turns)
    b.cbranch(b.icmp_unsigned("<", passed, patience), look, end)

    b.position_at_end(end)
    b.ret_void()
    return made


def emit_sleep(module: ir.Module, host: Host) -> ir.Function:
    """Emit the wait that burns nothing; it may return early, and not when the word differs."""
    made, b = function(module, "pool_sleep", [I32.as_pointer(), I32])
    word, value = made.args
    if host.sleeper == "futex":
        forever = ir.Constant(WORDS, None)
        _futex(b, host, word, FUTEX_WAIT_PRIVATE, b.zext(value, I64), forever)
    elif host.sleeper == "ulock":
        ulock = declared(module, "__ulock_wait", I32, [I32, I32.as_pointer(), I64, I32])
        b.call(ulock, [I32(UL_COMPARE_AND_WAIT), word, b.zext(value, I64), I32(0)])
    elif host.sleeper == "Sleep":
        b.call(declared(module, "Sleep", VOID, [I32]), [I32(1)])
    else:
        length = b.alloca(ir.ArrayType(I64, 2))
        start = b.bitcast(length, WORDS)
        store(b, number(0), start)
        store(b, number(1000 * NAP_MICROSECONDS), start, 1)
        nap = declared(module, "nanosleep", I32, [WORDS, WORDS])
        b.call(nap, [start, ir.Constant(WORDS, None)])
    b.ret_void()
    return made


def emit_wake(module: ir.Module, host: Host) -> ir.Function:
    """Emit the end of such a wait; whoever naps wakes by itself."""
    made, b = function(module, "pool_wake", [I32.as_pointer()])
    word = made.args[0]
    if host.sleeper == "futex":
        _futex(b, host, word, FUTEX_WAKE_PRIVATE, number(1))
    elif host.sleeper == "ulock":
        ulock = declared(module, "__ulock_wake", I32, [I32, I32.as_pointer(), I64])
        b.call(ulock, [I32(UL_COMPARE_AND_WAIT), word, number(0)])
    b.ret_void()
    return made


def _futex(
    b: ir.IRBuilder, host: Host, word: ir.Value, what: int, value: ir.Value, *more: ir.Value
) -> None:
    system(b, SYS_FUTEX[host.cpu], word, number(what), value, *more)


def now(b: ir.IRBuilder, host: Host) -> ir.Value:
    """Return the cycles so far, zero where programs may not read them."""
    if host.cpu not in X86:
        return number(0)
    return b.call(declared(b.module, "llvm.readcyclecounter", I64, []), [])
