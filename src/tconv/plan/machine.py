"""The numbers of a CPU that plans and kernels depend on."""

from dataclasses import dataclass, replace

from tconv.problem.dtypes import accumulator

KIB = 1024
LONG, MANY = 64, 32  # bytes of a vector, and registers


@dataclass(frozen=True, slots=True)
class Machine:
    """A CPU as a planner sees it: vectors, registers and bytes of cache.

    ``cpu`` and ``features`` are LLVM's words for it; the caches are those of one core, and
    the last one is what all cores share.

    >>> AVX2.lanes("float32"), AVX512.lanes("float64"), NEON.lanes("float32")
    (8, 8, 4)
    >>> print(AVX2)
    znver3: 16 registers of 32 bytes, caches 32 KiB, 512 KiB, 32768 KiB
    """

    cpu: str
    features: str
    vector_bytes: int
    registers: int
    l1: int
    l2: int
    l3: int
    doubled: bool = False  # whether instructions on a whole vector take a turn for each half

    @property
    def half(self) -> "Machine | None":
        """The same CPU with half vectors, where these do as much in a turn; None elsewhere.

        Few channels leave less of them empty.  Without the longer instructions that come with
        whole vectors, and their registers, code is shorter and was faster.

        >>> print(ZEN4.half)
        znver4: 16 registers of 32 bytes, caches 32 KiB, 1024 KiB, 32768 KiB
        >>> ZEN4.half.has("avx512f"), AVX512.half
        (False, None)
        """
        if not self.doubled:
            return None
        names = (name for name in self.features.split(",") if "avx512" not in name)
        features = ",".join((*names, "-avx512f"))
        half, few = self.vector_bytes // 2, self.registers // 2
        return replace(self, features=features, vector_bytes=half, registers=few, doubled=False)

    @property
    def turns(self) -> int:
        """How many turns an instruction on a whole vector takes."""
        return 2 if self.doubled else 1

    @property
    def long(self) -> bool:
        """Tell whether vectors are long, registers many, and a whole one takes a single turn.

        >>> AVX512.long, ZEN4.long, AVX2.long
        (True, False, False)
        """
        return self.registers >= MANY and self.vector_bytes >= LONG and not self.doubled

    def lanes(self, dtype: str) -> int:
        """Return how many sums of a type one vector register holds.

        float16 and bfloat16 are summed in float32, so they count like it.

        >>> AVX2.lanes("bfloat16")
        8
        """
        return self.vector_bytes // accumulator(dtype).itemsize

    def has(self, feature: str) -> bool:
        """Tell whether a feature is named as present.

        >>> AVX2.has("fma"), AVX2.has("avx512f")
        (True, False)
        """
        return f"+{feature}" in self.features.split(",")

    @property
    def converts_halves(self) -> bool:
        """Tell whether one instruction converts a vector of float16.

        >>> AVX2.converts_halves, NEON.converts_halves, SSE2.converts_halves
        (True, True, False)
        """
        return self.has("f16c") or self.has("neon")

    @property
    def architecture(self) -> str:
        """Return the first word of LLVM's triples for this CPU."""
        return "aarch64" if self.has("neon") else "x86_64"

    def __str__(self) -> str:
        """Return one line for people."""
        caches = ", ".join(f"{size // KIB} KiB" for size in (self.l1, self.l2, self.l3))
        return (
            f"{self.cpu}: {self.registers} registers of {self.vector_bytes} bytes, caches {caches}"
        )


def padded(channels: int, lanes: int) -> float:
    """Return how many channels tiles of two vectors take the time of.

    One vector a row is too few sums to hide how long an addition takes.
    """
    rest = channels % (2 * lanes)
    return channels - rest + (0 if rest == 0 else lanes * 4 / 3 if rest <= lanes else 2 * lanes)


SSE2 = Machine("x86-64", "+sse2", 16, 16, 32 * KIB, 256 * KIB, 8192 * KIB)
AVX2 = Machine("znver3", "+avx2,+f16c,+fma", 32, 16, 32 * KIB, 512 * KIB, 32768 * KIB)
AVX512 = Machine(
    "sapphirerapids", "+avx512f,+avx512vl,+f16c,+fma", 64, 32, 48 * KIB, 2048 * KIB, 32768 * KIB
)
ZEN4 = Machine(
    "znver4", "+avx2,+avx512f,+avx512vl,+f16c,+fma", 64, 32, 32 * KIB, 1024 * KIB, 32768 * KIB,
    doubled=True,
)  # fmt: skip
NEON = Machine("neoverse-n1", "+neon", 16, 32, 64 * KIB, 1024 * KIB, 32768 * KIB)
