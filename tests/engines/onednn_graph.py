"""Run one operation of the convolution family on oneDNN Graph, through its C API.

The library is ``libdnnl.so.3`` from the wheel ``onednn-cpu-gomp``.  The wheel has no headers: the
numbers below are those of ``dnnl_common_types.h`` and ``dnnl_graph_types.h``, whose enumerations
only ever grow at their end.

Where the engine finds no implementation, it throws a C++ exception that nobody catches, and the
process is gone.  So ``run`` computes in a worker process, which is this file run as a script.

What version 3.2 was seen to do, besides what its documents say:

* ConvolutionBackwardData with groups is refused.
* ConvTransposeBackwardData computes as if dilations were 1: mostly no implementation fits the
  sizes then, but where one does, the result is wrong.
* ConvTransposeBackwardWeights derives SAME pads from the spatial sizes of src instead of diff_dst:
  wrong pads, hence a refusal or a wrong result.
* ConvolutionBackwardData ignores output_padding; only ConvTranspose honours it, and the other four
  refuse it.
* Empty pads are refused.  A dilation of 0 counts as 1.
"""

import atexit
import ctypes
import importlib.metadata
import os
import pickle
import platform
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

DISTRIBUTION = "onednn-cpu-gomp"
LIBRARY = "libdnnl.so.3"
# The AVX2 kernel for the weights gradient of a 1x1 convolution with strides writes past the end of
# its scratch memory when channels do not fill a vector.  The older kernels are sound, and this
# also makes every machine refuse the same cases.
INSTRUCTIONS = {"ONEDNN_MAX_CPU_ISA": "AVX"}

MAX_RANK = 12  # DNNL_MAX_NDIMS
CPU = 1  # dnnl_cpu
IN_ORDER = 1  # dnnl_stream_default_flags
ONE_OP_PER_PARTITION = 2  # dnnl_graph_partition_policy_debug
VARIABLE = 1  # dnnl_graph_tensor_property_variable: nothing may be remembered between runs

STATUS = (
    *("success", "out_of_memory", "invalid_arguments", "unimplemented", "last_impl_reached"),
    *("runtime_error", "not_required"),
    *("invalid_graph", "invalid_graph_op", "invalid_shape", "invalid_data_type"),
)
KIND = {
    "Convolution": 13,
    "ConvolutionBackwardData": 14,
    "ConvolutionBackwardWeights": 15,
    "ConvTranspose": 16,
    "ConvTransposeBackwardData": 17,
    "ConvTransposeBackwardWeights": 18,
}
DTYPE = {"float16": 1, "bfloat16": 2, "float32": 3}
ATTRIBUTE = {
    "groups": 0x32,
    "dilations": 0x41,
    "dst_shape": 0x42,
    "output_padding": 0x45,
    "pads_begin": 0x46,
    "pads_end": 0x47,
    "strides": 0x4B,
    "weights_shape": 0x4C,
    "auto_pad": 0x81,
    "data_format": 0x83,
    "weights_format": 0x87,
}

Handle = ctypes.c_void_p
_INT = ctypes.c_int
_SIZE = ctypes.c_size_t
_DIMS = ctypes.c_int64 * MAX_RANK


class Refused(Exception):  # noqa: N818 - a refusal is an answer of the engine, not a fault here
    """oneDNN Graph does not support this case; the text says which call refused."""


class LogicalTensor(ctypes.Structure):
    """dnnl_graph_logical_tensor_t: an identity, a shape and a memory layout, without data."""

    _fields_ = (
        ("id", _SIZE),
        ("ndims", _INT),
        ("dims", _DIMS),
        ("data_type", _INT),
        ("property", _INT),
        ("layout_type", _INT),
        ("strides", _DIMS),
    )


class Version(ctypes.Structure):
    """The leading part of dnnl_version_t."""

    _fields_ = (("major", _INT), ("minor", _INT), ("patch", _INT))


_HANDLES = ctypes.POINTER(Handle)
_TENSOR = ctypes.POINTER(LogicalTensor)
_TENSORS = ctypes.POINTER(_TENSOR)
_FLAG = ctypes.POINTER(ctypes.c_uint8)

# Handles are pointers: without these ctypes would pass them as 32-bit integers.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "dnnl_engine_create": (_HANDLES, _INT, _SIZE),
    "dnnl_engine_destroy": (Handle,),
    "dnnl_stream_create": (_HANDLES, Handle, ctypes.c_uint),
    "dnnl_stream_wait": (Handle,),
    "dnnl_stream_destroy": (Handle,),
    "dnnl_graph_set_compiled_partition_cache_capacity": (_INT,),
    "dnnl_graph_logical_tensor_init_with_strides": (_TENSOR, _SIZE, _INT, _INT, _DIMS, _DIMS, _INT),
    "dnnl_graph_logical_tensor_is_equal": (_TENSOR, _TENSOR, _FLAG),
    "dnnl_graph_graph_create": (_HANDLES, _INT),
    "dnnl_graph_graph_destroy": (Handle,),
    "dnnl_graph_op_create": (_HANDLES, _SIZE, _INT, ctypes.c_char_p),
    "dnnl_graph_op_destroy": (Handle,),
    "dnnl_graph_op_set_attr_s64": (Handle, _INT, ctypes.POINTER(ctypes.c_int64), _SIZE),
    "dnnl_graph_op_set_attr_str": (Handle, _INT, ctypes.c_char_p, _SIZE),
    "dnnl_graph_op_add_input": (Handle, _TENSOR),
    "dnnl_graph_op_add_output": (Handle, _TENSOR),
    "dnnl_graph_add_op": (Handle, Handle),
    "dnnl_graph_graph_finalize": (Handle,),
    "dnnl_graph_graph_filter": (Handle, _INT),
    "dnnl_graph_graph_get_partition_num": (Handle, ctypes.POINTER(_SIZE)),
    "dnnl_graph_graph_get_partitions": (Handle, _SIZE, _HANDLES),
    "dnnl_graph_partition_destroy": (Handle,),
    "dnnl_graph_partition_is_supported": (Handle, _FLAG),
    "dnnl_graph_compiled_partition_create": (_HANDLES, Handle),
    "dnnl_graph_compiled_partition_destroy": (Handle,),
    "dnnl_graph_partition_compile": (Handle, Handle, _SIZE, _TENSORS, _SIZE, _TENSORS, Handle),
    "dnnl_graph_compiled_partition_query_logical_tensor": (Handle, _SIZE, _TENSOR),
    "dnnl_graph_tensor_create": (_HANDLES, _TENSOR, Handle, ctypes.c_void_p),
    "dnnl_graph_tensor_destroy": (Handle,),
    "dnnl_graph_compiled_partition_execute": (Handle, Handle, _SIZE, _HANDLES, _SIZE, _HANDLES),
}


def unavailable() -> str | None:
    """Return None when the engine can be used here, else the reason why not."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"{DISTRIBUTION} exists for Linux on x86_64 only"
    try:
        _library()
    except importlib.metadata.PackageNotFoundError:
        return f"{DISTRIBUTION} is not installed"
    except OSError as error:  # the file is gone, or libgomp is not on this machine
        return f"{LIBRARY} of {DISTRIBUTION} does not load: {error}"
    return None


def version() -> str:
    """Return the version of the loaded library, such as "3.2.0"."""
    number = _library().dnnl_version().contents
    return f"{number.major}.{number.minor}.{number.patch}"


def run(
    kind: str,
    attributes: Mapping[str, object],
    inputs: Sequence[Array],
    output_shape: tuple[int, ...],
) -> Array:
    """Compute one operation; raise Refused when the engine does not take it.

    The inputs are in the operation's own order and in the layouts that the attributes name.
    Attributes go to the engine as they are: what is left out gets the engine's default, and the
    engine insists on strides, dilations and both pads, even where auto_pad overrides the pads.
    """
    answer = _ask((kind, dict(attributes), list(inputs), output_shape))
    if isinstance(answer, str):
        raise Refused(answer)
    if isinstance(answer, Exception):
        raise answer
    output: Array = answer
    return output


@cache
def _library() -> ctypes.CDLL:
    """Load the library; raises PackageNotFoundError or OSError."""
    files = importlib.metadata.files(DISTRIBUTION) or ()
    path = next((file.locate() for file in files if file.name == LIBRARY), None)
    if path is None:
        raise FileNotFoundError(f"the distribution lists no {LIBRARY}")
    library = ctypes.CDLL(str(path))
    for name, arguments in ARGUMENTS.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = ctypes.c_int
    library.dnnl_version.restype = ctypes.POINTER(Version)
    # Every graph is new here, so a cache of compiled ones would only grow.
    library.dnnl_graph_set_compiled_partition_cache_capacity(0)
    return library


@cache
def _worker() -> subprocess.Popen[bytes]:
    worker = subprocess.Popen(  # noqa: S603 - the script is this file
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # The safe path: a neighbour of this file must not pass for the library of its name.
        env={"PYTHONSAFEPATH": "1", **os.environ, **INSTRUCTIONS},
    )
    atexit.register(worker.communicate)  # closes its input, which ends it, and waits
    return worker


def _ask(request: object) -> Any:  # noqa: ANN401 - whatever _serve answers
    """Return an array, the text of a refusal, or an exception."""
    worker = _worker()
    assert worker.stdin
    assert worker.stdout
    try:
        pickle.dump(request, worker.stdin)
        worker.stdin.flush()
        return pickle.load(worker.stdout)  # noqa: S301 - from our own process
    except (EOFError, BrokenPipeError):
        _worker.cache_clear()
        atexit.unregister(worker.communicate)
        text = worker.communicate()[1].decode(errors="replace").strip()
    if worker.returncode >= 0:  # no signal: the script failed, not the engine
        raise RuntimeError(text)
    name = signal.Signals(-worker.returncode).name
    return f"the engine ended its process with {name}: {text.rpartition('what():')[2].strip()}"


def _serve() -> None:
    """Answer requests until there are no more."""
    import resource  # noqa: PLC0415 - exists on Unix only, and only this process needs it

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # ONEDNN_VERBOSE writes to standard output: that must not come between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our own parent
        except EOFError:
            return
        answer: object
        try:
            answer = _run_here(*request)
        except Refused as refusal:  # as a text: in the parent this class has another module name
            answer = str(refusal)
        except Exception as error:  # noqa: BLE001 - the parent raises it
            answer = error
        pickle.dump(answer, answers)
        answers.flush()


def _run_here(
    kind: str,
    attributes: Mapping[str, object],
    inputs: Sequence[Array],
    output_shape: tuple[int, ...],
) -> Array:
    arrays = [np.ascontiguousarray(array) for array in inputs]
    tensors = [_describe(number, array) for number, array in enumerate(arrays)]
    # NaN shows which elements the engine never wrote.
    output = np.full(output_shape, np.nan, arrays[0].dtype)
    tensors.append(_describe(len(tensors), output))
    with ExitStack() as stack:
        engine = _create(stack, "engine", CPU, 0)
        stream = _create(stack, "stream", engine, IN_ORDER)
        partition = _build(stack, KIND[kind], attributes, tensors)
        compiled = _compile(stack, partition, tensors, engine)
        values = [
            _create(stack, "graph_tensor", ctypes.byref(tensor), engine, array.ctypes.data)
            for tensor, array in zip(tensors, [*arrays, output], strict=True)
        ]
        _call(
            "dnnl_graph_compiled_partition_execute",
            *(compiled, stream),
            *(len(arrays), (Handle * len(arrays))(*values[:-1])),
            *(1, (Handle * 1)(values[-1])),
        )
        _call("dnnl_stream_wait", stream)
    return output


def _call(name: str, *arguments: object) -> None:
    status: int = getattr(_library(), name)(*arguments)
    if status:
        word = STATUS[status] if 0 < status < len(STATUS) else f"status {status}"
        raise Refused(f"{name}: {word}")


def _create(stack: ExitStack, name: str, *arguments: object) -> Handle:
    """Call ``dnnl_<name>_create``; the stack will call ``dnnl_<name>_destroy``."""
    handle = Handle()
    _call(f"dnnl_{name}_create", ctypes.byref(handle), *arguments)
    stack.callback(_call, f"dnnl_{name}_destroy", handle)
    return handle


def _describe(number: int, array: Array) -> LogicalTensor:
    if array.dtype.name not in DTYPE:
        raise Refused(f"dtype {array.dtype.name}: oneDNN Graph has {', '.join(DTYPE)}")
    if array.ndim > MAX_RANK:
        raise Refused(f"rank {array.ndim}: oneDNN Graph describes at most {MAX_RANK} dimensions")
    # Not array.strides: NumPy may say anything for a dimension of size one.
    strides = [int(np.prod(array.shape[axis + 1 :])) for axis in range(array.ndim)]
    tensor = LogicalTensor()
    _call(
        "dnnl_graph_logical_tensor_init_with_strides",
        *(ctypes.byref(tensor), number, DTYPE[array.dtype.name], array.ndim),
        *(_DIMS(*array.shape), _DIMS(*strides), VARIABLE),
    )
    return tensor


def _build(
    stack: ExitStack,
    kind: int,
    attributes: Mapping[str, object],
    tensors: Sequence[LogicalTensor],
) -> Handle:
    """Make a graph of one operation and return its only partition."""
    graph = _create(stack, "graph_graph", CPU)
    operation = _create(stack, "graph_op", 0, kind, b"operation")
    for name, value in attributes.items():
        _set_attribute(operation, name, value)
    for tensor in tensors[:-1]:
        _call("dnnl_graph_op_add_input", operation, ctypes.byref(tensor))
    _call("dnnl_graph_op_add_output", operation, ctypes.byref(tensors[-1]))
    _call("dnnl_graph_add_op", graph, operation)
    _call("dnnl_graph_graph_finalize", graph)
    _call("dnnl_graph_graph_filter", graph, ONE_OP_PER_PARTITION)
    count = ctypes.c_size_t()
    _call("dnnl_graph_graph_get_partition_num", graph, ctypes.byref(count))
    if count.value != 1:
        raise Refused(f"dnnl_graph_graph_get_partition_num: {count.value} partitions, not 1")
    partition = Handle()
    _call("dnnl_graph_graph_get_partitions", graph, 1, ctypes.byref(partition))
    stack.callback(_call, "dnnl_graph_partition_destroy", partition)
    supported = ctypes.c_uint8()
    _call("dnnl_graph_partition_is_supported", partition, ctypes.byref(supported))
    if not supported.value:
        raise Refused("dnnl_graph_partition_is_supported: no")
    return partition


def _set_attribute(operation: Handle, name: str, value: object) -> None:
    if isinstance(value, str):
        if name == "auto_pad":  # the engine wants None, SAME_UPPER, SAME_LOWER or VALID
            value = value.upper().replace("NONE", "None")
        text = value.encode()
        _call("dnnl_graph_op_set_attr_str", operation, ATTRIBUTE[name], text, len(text))
        return
    numbers = [int(number) for number in np.atleast_1d(np.asarray(value))]
    array = (ctypes.c_int64 * len(numbers))(*numbers)
    _call("dnnl_graph_op_set_attr_s64", operation, ATTRIBUTE[name], array, len(numbers))


def _compile(
    stack: ExitStack,
    partition: Handle,
    tensors: Sequence[LogicalTensor],
    engine: Handle,
) -> Handle:
    compiled = _create(stack, "graph_compiled_partition", partition)
    pointers = [ctypes.pointer(tensor) for tensor in tensors]
    _call(
        "dnnl_graph_partition_compile",
        *(partition, compiled),
        *(len(tensors) - 1, (_TENSOR * (len(tensors) - 1))(*pointers[:-1])),
        *(1, (_TENSOR * 1)(pointers[-1])),
        engine,
    )
    # The engine writes where its own idea of the output says: make sure that it is ours.
    planned, same = LogicalTensor(), ctypes.c_uint8()
    name = "dnnl_graph_compiled_partition_query_logical_tensor"
    _call(name, compiled, tensors[-1].id, ctypes.byref(planned))
    _call("dnnl_graph_logical_tensor_is_equal", planned, tensors[-1], ctypes.byref(same))
    if not same.value:
        shape = tuple(planned.dims[: planned.ndims])
        raise Refused(f"{name}: the engine computes an output of shape {shape}")
    return compiled


if __name__ == "__main__":
    _serve()
