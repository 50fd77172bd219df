"""IR becomes code that runs, for this CPU, and code that can be read, for others."""

import ctypes
import gc
import os
import re
import subprocess
import sys

import pytest

from tconv.errors import InternalError
from tconv.jit import Kernel, compile_object, emit_assembly, host_machine, load_object
from tconv.plan.machine import AVX2, AVX512, NEON, SSE2, Machine

TWICE = """
define i64 @twice(i64 %x) {
  %y = add i64 %x, %x
  ret i64 %y
}
"""

CALLS = """
declare i64 @{name}(i64)
define i64 @calls(i64 %x) {{
  %y = call i64 @{name}(i64 %x)
  ret i64 %y
}}
"""

COPY_LOOP = """
define void @add_all(ptr noalias %a, ptr noalias %b, i64 %n) {
entry:
  br label %body
body:
  %i = phi i64 [0, %entry], [%next, %body]
  %p = getelementptr float, ptr %a, i64 %i
  %q = getelementptr float, ptr %b, i64 %i
  %x = load float, ptr %p
  %y = load float, ptr %q
  %z = fadd float %x, %y
  store float %z, ptr %p
  %next = add nsw i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %body, label %end
end:
  ret void
}
"""


def fused(lanes: int) -> str:
    """Return a function that multiplies and adds one vector."""
    kind = f"<{lanes} x float>"
    return f"""
declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})
define void @fused(ptr %a, ptr %b) {{
  %x = load {kind}, ptr %a, align 4
  %y = load {kind}, ptr %b, align 4
  %z = call {kind} @llvm.fma.v{lanes}f32({kind} %x, {kind} %y, {kind} %y)
  store {kind} %z, ptr %a, align 4
  ret void
}}
"""


def compiled(text: str) -> Kernel:
    """Compile a text for this CPU and load it."""
    return load_object(compile_object(text, host_machine()))


def call(kernel: Kernel, name: str, value: int) -> int:
    """Call a function of one whole number."""
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(kernel.address(name))
    return int(function(value))


def run_python(script: str) -> str:
    """Run a script in a fresh interpreter and return what it prints."""
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_compiled_function_runs() -> None:
    """Text in, number out."""
    assert call(compiled(TWICE), "twice", 21) == 42


def test_code_stays_when_its_owner_goes() -> None:
    """A worker may still be inside a kernel that nobody else remembers."""
    kernel = compiled(TWICE)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(kernel.address("twice"))
    del kernel
    gc.collect()

    assert function(4) == 8


def test_two_kernels_may_have_functions_of_one_name() -> None:
    """Each kernel finds its own."""
    first, second = compiled(TWICE), compiled(TWICE.replace("add", "mul"))

    assert (call(first, "twice", 5), call(second, "twice", 5)) == (10, 25)


@pytest.mark.skipif(os.name == "nt", reason="a C library of another kind")
@pytest.mark.parametrize(
    "name", ["getpid", "memcpy", "memset", "sched_yield", "syscall", "pthread_mutex_lock", "fmaf"]
)
def test_code_may_call_the_c_library(name: str) -> None:
    """Symbols are looked up in the process."""
    kernel = compiled(CALLS.format(name=name))

    assert kernel.address("calls")
    assert name != "getpid" or call(kernel, "calls", 0) == os.getpid()


def test_a_missing_symbol_is_refused_before_it_is_called() -> None:
    """LLVM itself links address 0, and the process dies at the call."""
    data = compile_object(CALLS.format(name="no_such_function"), host_machine())
    with pytest.raises(InternalError, match="calls what does not exist") as caught:
        load_object(data)

    assert "no_such_function" in str(caught.value)


def test_a_missing_function_is_our_fault() -> None:
    """Address 0 never reaches a caller."""
    with pytest.raises(InternalError, match="no such function"):
        compiled(TWICE).address("thrice")


@pytest.mark.parametrize("text", ["this is no IR", TWICE.replace("ret i64 %y", "ret i64 %q")])
def test_wrong_ir_is_refused_without_internals(text: str) -> None:
    """The message has LLVM's reason, and no file of ours."""
    with pytest.raises(InternalError, match="LLVM refuses") as caught:
        compile_object(text, host_machine())

    assert "error" in str(caught.value)
    assert ".py" not in str(caught.value)


def test_ir_that_parses_but_breaks_a_rule_is_refused() -> None:
    """The verifier runs before the optimiser, which would crash."""
    loop = "define i64 @f() {\n  %x = add i64 %y, 1\n  %y = add i64 %x, 1\n  ret i64 %y\n}"
    with pytest.raises(InternalError, match="LLVM refuses"):
        compile_object(loop, host_machine())


@pytest.mark.skipif(sys.platform != "linux", reason="the checks read ELF files")
@pytest.mark.parametrize("kind", ["half", "text", "nothing"])
def test_damaged_objects_are_refused(kind: str) -> None:
    """Whole files of whole hashes only get here; these are the plain mistakes."""
    data = compile_object(CALLS.format(name="getpid"), host_machine())
    damaged = {"half": data[: len(data) // 2], "text": b"not an object file", "nothing": b""}
    with pytest.raises(InternalError):
        load_object(damaged[kind])


@pytest.mark.parametrize(
    ("machine", "register"),
    [
        pytest.param(SSE2, r"%xmm\d", id="SSE2"),
        pytest.param(AVX2, r"vfmadd\w+\s.*%ymm\d", id="AVX2"),
        pytest.param(AVX512, r"vfmadd\w+\s.*%zmm\d", id="AVX512"),
        pytest.param(NEON, r"fmla\s+v\d+\.4s", id="NEON"),
    ],
)
def test_vectors_of_the_machines_width_use_its_registers(machine: Machine, register: str) -> None:
    """Any machine's code can be read on any computer."""
    text = emit_assembly(fused(machine.lanes("float32")), machine)

    assert re.search(register, text)
    assert ("zmm" in text) == (machine is AVX512)
    assert ("ymm" in text) == (machine is AVX2)


SLOT = """
define i64 @squared(i64 %x) {
entry:
  %slot = alloca i64
  store i64 %x, ptr %slot
  %y = load i64, ptr %slot
  %product = mul i64 %y, %y
  %unused = mul i64 %product, %y
  ret i64 %product
}
"""


def test_llvm_does_not_vectorise_on_its_own() -> None:
    """A plain loop stays one: emitters decide about vectors and unrolling."""
    text = emit_assembly(COPY_LOOP, AVX2)

    assert text.count("vaddss") == 1
    assert "vaddps" not in text


def test_code_is_optimised() -> None:
    """Values stay in registers, and what nobody needs is not computed."""
    text = emit_assembly(SLOT, AVX2)

    assert "squared:" in text
    assert text.count("imul") == 1
    assert "rsp" not in text


def test_without_llvmlite_the_error_says_what_to_install() -> None:
    """An import error of somebody else's package would not."""
    script = """
import sys
sys.modules["llvmlite"] = None
from tconv.errors import UnsupportedError
try:
    import tconv.jit
except UnsupportedError as error:
    print(error)
"""

    assert "install llvmlite" in run_python(script)


def test_where_code_may_not_be_written_the_error_says_so() -> None:
    """Hardened systems refuse executable memory."""
    script = """
import errno
from llvmlite import binding
def refuse():
    raise OSError(errno.EACCES, "cannot allocate /some/path")
binding.check_jit_execution = refuse
from tconv.errors import UnsupportedError
from tconv.jit import load_object
try:
    load_object(b"")
except UnsupportedError as error:
    print(error)
"""
    text = run_python(script)

    assert "does not let a process run code" in text
    assert "/some/path" not in text
