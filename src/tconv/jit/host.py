"""The description of the CPU that this process runs on."""

from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from tconv.errors import ProblemError, UnsupportedError
from tconv.jit.compiler import llvm
from tconv.plan.machine import KIB, Machine

SYSFS = Path("/sys/devices/system/cpu/cpu0/cache")
UNITS = {"K": KIB, "M": KIB**2, "G": KIB**3}
USUAL = (32 * KIB, 512 * KIB, 8192 * KIB)  # bytes of the caches where nobody tells
# Virtual machines report zeros and other nonsense; outside these a number is not believed.
BELIEVED = {1: (8 * KIB, KIB**2), 2: (64 * KIB, 256 * KIB**2), 3: (256 * KIB, 4 * KIB**3)}

# CPUs that do the halves of their longest vectors one after the other.
DOUBLED = frozenset({"znver4"})

# The CPUs that a user may name, and what the host must have to run their code.
LEVELS = {
    "x86-64": (),
    "x86-64-v2": ("sse4.2", "ssse3", "popcnt", "cx16"),
    "x86-64-v3": ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "f16c", "fma"),
}


@cache
def host_machine(cpu: str | None = None) -> Machine:
    """Describe this CPU, or one of :data:`LEVELS` for code that must also run elsewhere."""
    architecture = llvm.get_process_triple().partition("-")[0]
    if architecture not in {"x86_64", "aarch64", "arm64"}:
        raise UnsupportedError(
            "tconv compiler",
            f"kernels are not made for {architecture}.",
            got={"architecture": architecture},
            rule="kernels are made for x86_64 and aarch64",
            fix="use TCONV_ENGINE=numpy",
        )
    listed = llvm.get_host_cpu_features()
    features = listed.flatten()
    if architecture != "x86_64" and not listed.get("neon"):
        features = f"+neon,{features}"  # part of the architecture, though not always listed
    machine = describe(llvm.get_host_cpu_name(), features.strip(","), cache_sizes(SYSFS))
    return machine if cpu is None else _level(cpu, machine)


def describe(cpu: str, features: str, caches: tuple[int, int, int]) -> Machine:
    """Return the machine whose vectors and registers follow from its features.

    >>> describe("znver3", "+avx2,+fma", USUAL).vector_bytes
    32
    """
    machine = Machine(cpu, features, 16, 16, *caches)
    if machine.has("neon"):
        return Machine(cpu, features, 16, 32, *caches)
    if machine.has("avx512f"):
        return Machine(cpu, features, 64, 32, *caches, doubled=cpu in DOUBLED)
    if machine.has("avx2") and machine.has("fma"):
        return Machine(cpu, features, 32, 16, *caches)
    return machine


def cache_sizes(folder: Path) -> tuple[int, int, int]:
    """Return the bytes of the data caches of levels 1 to 3 that Linux reports.

    A system with two levels has its last cache there.  Nonsense, and silence of the
    system, give the usual sizes.
    """
    found: dict[int, int] = {}
    for entry in sorted(folder.glob("index*")):
        with suppress(OSError, ValueError):
            level, kind, size = (
                (entry / name).read_text(encoding="ascii").strip()
                for name in ("level", "type", "size")
            )
            if kind != "Instruction":
                found[int(level)] = int(size.rstrip("KMG")) * UNITS.get(size[-1:], 1)
    believed = {
        level: found[level]
        for level, (least, most) in BELIEVED.items()
        if least <= found.get(level, 0) <= most
    }
    l1, l2 = believed.get(1, USUAL[0]), believed.get(2, USUAL[1])
    last = l2 if 2 in believed and 3 not in found else USUAL[2]
    return l1, max(l1, l2), max(l1, l2, believed.get(3, last))


def _level(cpu: str, host: Machine) -> Machine:
    """Describe a level of x86-64 with this machine's caches."""
    if host.architecture != "x86_64":
        raise _wrong(cpu, "only for x86-64")
    if cpu not in LEVELS:
        raise _wrong(cpu, f"one of: {', '.join(LEVELS)}")
    missing = [name for name in LEVELS[cpu] if not host.has(name)]
    if missing:
        raise _wrong(cpu, f"a level that this CPU has, and it lacks {', '.join(missing)}")
    features = ",".join(f"+{name}" for name in LEVELS[cpu])
    level = describe(cpu, features, (host.l1, host.l2, host.l3))
    return replace(level, doubled=host.doubled and level.vector_bytes == host.vector_bytes)


def _wrong(cpu: str, rule: str) -> ProblemError:
    return ProblemError(
        "tconv settings",
        f"the environment variable TCONV_CPU is {cpu!r}.",
        got={"TCONV_CPU": repr(cpu)},
        rule=f"TCONV_CPU is {rule}",
        fix="unset TCONV_CPU to use all of this CPU",
    )
