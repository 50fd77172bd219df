"""oneDNN's primitives through the C API of ``libdnnl.so.3`` in the wheel ``onednn-cpu-gomp``.

The wheel has no headers: the numbers below are those of ``dnnl_common_types.h`` and
``dnnl_types.h``, which every 3.x shares.  Memory formats are given as strides, since their tags
are not numbered alike in all versions.
"""

import ctypes
import importlib.metadata
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tconv.bench.peers.peer import Refused

Array = npt.NDArray[np.generic]

DISTRIBUTION = "onednn-cpu-gomp"
LIBRARY = "libdnnl.so.3"

MAX_RANK = 12  # DNNL_MAX_NDIMS
CPU = 1  # dnnl_cpu
IN_ORDER = 1  # dnnl_stream_default_flags
ANY = 1  # dnnl_format_tag_any
ALLOCATE = ctypes.c_void_p(-1)  # DNNL_MEMORY_ALLOCATE
IMPLEMENTATION = 8  # dnnl_query_impl_info_str
DTYPES = {"float16": 1, "bfloat16": 2, "float32": 3, "float64": 7}
STATUS = (
    *("success", "out_of_memory", "invalid_arguments", "unimplemented", "last_impl_reached"),
    *("runtime_error", "not_required"),
)

Pointer = ctypes.c_void_p
Dims = ctypes.c_int64 * MAX_RANK
_INT, _OUT = ctypes.c_int, ctypes.POINTER(Pointer)


class Argument(ctypes.Structure):
    """dnnl_exec_arg_t: which argument of a primitive a memory is."""

    _fields_ = (("number", _INT), ("memory", Pointer))


class Version(ctypes.Structure):
    """The leading part of dnnl_version_t."""

    _fields_ = (("major", _INT), ("minor", _INT), ("patch", _INT))


_MDS, _DIMS = (Pointer,) * 4, (Dims,) * 4
# Handles are pointers: without these ctypes would pass them as 32-bit integers.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "dnnl_engine_create": (_OUT, _INT, ctypes.c_size_t),
    "dnnl_stream_create": (_OUT, Pointer, ctypes.c_uint),
    "dnnl_stream_wait": (Pointer,),
    "dnnl_memory_desc_create_with_strides": (_OUT, _INT, Dims, _INT, Dims),
    "dnnl_memory_desc_create_with_tag": (_OUT, _INT, Dims, _INT, _INT),
    "dnnl_memory_desc_destroy": (Pointer,),
    "dnnl_memory_create": (_OUT, Pointer, Pointer, Pointer),
    "dnnl_memory_destroy": (Pointer,),
    "dnnl_reorder_primitive_desc_create": (_OUT, *(Pointer,) * 5),
    "dnnl_convolution_forward_primitive_desc_create": (
        *(_OUT, Pointer, _INT, _INT),
        *(*_MDS, *_DIMS, Pointer),
    ),
    "dnnl_deconvolution_forward_primitive_desc_create": (
        *(_OUT, Pointer, _INT, _INT),
        *(*_MDS, *_DIMS, Pointer),
    ),
    "dnnl_convolution_backward_weights_primitive_desc_create": (
        *(_OUT, Pointer, _INT),
        *(*_MDS, *_DIMS, Pointer, Pointer),
    ),
    "dnnl_primitive_desc_query": (Pointer, _INT, _INT, ctypes.POINTER(ctypes.c_char_p)),
    "dnnl_primitive_desc_destroy": (Pointer,),
    "dnnl_primitive_create": (_OUT, Pointer),
    "dnnl_primitive_execute": (Pointer, Pointer, _INT, ctypes.POINTER(Argument)),
    "dnnl_primitive_destroy": (Pointer,),
}


class Owned:
    """A handle that is destroyed with its Python object; it keeps alive what it was made from."""

    def __init__(self, noun: str, create: str, *arguments: object) -> None:
        self.handle = Pointer()
        self._parts = arguments
        values = [each.handle if isinstance(each, Owned) else each for each in arguments]
        check(f"dnnl_{create}", ctypes.byref(self.handle), *values)
        destroy = getattr(library(), f"dnnl_{noun}_destroy")
        # Not at exit: the library's own threads and tables may be gone by then.
        weakref.finalize(self, destroy, self.handle).atexit = False


@cache
def library() -> ctypes.CDLL:
    """Load the library, or refuse with the reason."""
    try:
        files = importlib.metadata.files(DISTRIBUTION) or ()
        path = next((file.locate() for file in files if file.name == LIBRARY), None)
        if path is None:
            raise Refused(f"{DISTRIBUTION} lists no {LIBRARY}")
        loaded = ctypes.CDLL(str(path))
    except importlib.metadata.PackageNotFoundError as error:
        raise Refused(f"{DISTRIBUTION} is not installed") from error
    except OSError as error:  # the file is gone, or libgomp is not on this machine
        raise Refused(f"{LIBRARY} of {DISTRIBUTION} does not load: {error}") from error
    for name, arguments in ARGUMENTS.items():
        function = getattr(loaded, name)
        function.argtypes = arguments
        function.restype = ctypes.c_int
    query = loaded.dnnl_primitive_desc_query_md
    query.argtypes, query.restype = (Pointer, _INT, _INT), Pointer
    loaded.dnnl_version.restype = ctypes.POINTER(Version)
    loaded.omp_set_num_threads.argtypes = (_INT,)  # found through the library's own OpenMP
    return loaded


def check(name: str, *arguments: object) -> None:
    """Call a function and refuse with its status if it failed."""
    status: int = getattr(library(), name)(*arguments)
    if status:
        word = STATUS[status] if 0 < status < len(STATUS) else f"status {status}"
        raise Refused(f"{name}: {word}")


def version() -> str:
    """Return the version of the loaded library, such as "3.2.0"."""
    number = library().dnnl_version().contents
    return f"{number.major}.{number.minor}.{number.patch}"


@cache
def engine() -> Pointer:
    """Return the CPU; it lives as long as the process."""
    handle = Pointer()
    check("dnnl_engine_create", ctypes.byref(handle), CPU, 0)
    return handle


@cache
def stream() -> Pointer:
    """Return the queue that everything runs in, one after the other."""
    handle = Pointer()
    check("dnnl_stream_create", ctypes.byref(handle), engine(), IN_ORDER)
    return handle


def plain(shape: Sequence[int], dtype: str, order: Sequence[int]) -> Owned:
    """Describe a dense array whose axes lie in memory in ``order``, slowest first."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return Owned(
        "memory_desc",
        "memory_desc_create_with_strides",
        *(len(shape), Dims(*shape), DTYPES[dtype], Dims(*strides)),
    )


def free(shape: Sequence[int], dtype: str) -> Owned:
    """Describe an array whose format the primitive chooses."""
    return Owned(
        "memory_desc",
        "memory_desc_create_with_tag",
        *(len(shape), Dims(*shape), DTYPES[dtype], ANY),
    )


def chosen(primitive_desc: Owned, query: int) -> Pointer:
    """Return the format that a primitive chose for one of its arguments; it owns it."""
    return Pointer(library().dnnl_primitive_desc_query_md(primitive_desc.handle, query, 0))


def memory(descriptor: Owned | Pointer, array: Array | None = None) -> Owned:
    """Return memory of a format: the array's own, or new."""
    where = ALLOCATE if array is None else Pointer(array.ctypes.data)
    return Owned("memory", "memory_create", descriptor, engine(), where)


def implementation(primitive_desc: Owned) -> str:
    """Return the engine's name for the code that will run, such as "jit:avx2"."""
    text = ctypes.c_char_p()
    library().dnnl_primitive_desc_query(
        primitive_desc.handle, IMPLEMENTATION, 0, ctypes.byref(text)
    )
    return (text.value or b"").decode(errors="replace")


class Execution:
    """A primitive with its arguments: call it to run it."""

    def __init__(self, primitive_desc: Owned, arguments: Mapping[int, Owned]) -> None:
        self._primitive = Owned("primitive", "primitive_create", primitive_desc)
        self._memories = tuple(arguments.values())
        pairs = [Argument(number, each.handle) for number, each in arguments.items()]
        self._arguments = (Argument * len(pairs))(*pairs)
        self._call = (self._primitive.handle, stream(), len(pairs), self._arguments)
        self._execute = library().dnnl_primitive_execute

    def __call__(self) -> None:
        """Run; on a CPU this returns when the result is there."""
        if self._execute(*self._call):
            raise Refused("dnnl_primitive_execute failed")


def reorder(
    descriptors: tuple[Owned | Pointer, Owned | Pointer], memories: Sequence[Owned]
) -> None:
    """Copy from the first memory to the second, from format to format."""
    source, target = descriptors
    how = Owned(
        "primitive_desc",
        "reorder_primitive_desc_create",
        *(source, engine(), target, engine(), None),
    )
    Execution(how, {1: memories[0], 17: memories[1]})()  # DNNL_ARG_FROM, DNNL_ARG_TO
    check("dnnl_stream_wait", stream())
