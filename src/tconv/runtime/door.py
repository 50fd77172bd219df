"""Doors from Python into compiled code, for calls whose arrays are known by shape and strides.

Python reads the words of an array where CPython and NumPy keep them; whether they are there is
tried once, and without them there are no doors.
"""

import ctypes
import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tconv import codegen
from tconv.codegen.door import FIELDS, STATE, WRITEABLE, emit_door
from tconv.errors import TconvError
from tconv.jit import KernelSource, host_machine, load_kernel, source_version
from tconv.runtime import pool
from tconv.runtime.launch import Launch, PackedWeights, Shifted, Watched
from tconv.runtime.scratch import address, maker, on_lines
from tconv.settings import settings
from tconv.threads import get_num_threads, watch

Array = npt.NDArray[Any]
Call = Callable[[object, object], Any]

FASTCALL = 0x80  # METH_FASTCALL
HEADER = object.__basicsize__
MOST_SCRATCH = 1 << 23  # bytes that doors keep: what needs more takes long enough anyway


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _State:
    """What all doors share: compiled code, the words that it reads, and scratch."""

    def __init__(self, door: int, fit: int) -> None:
        api = ctypes.pythonapi
        self.method = _Method(b"door", door, FASTCALL, None)
        self.fit = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 7)(fit)
        new = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
        )
        self.builtin = new(("PyCFunction_NewEx", api))
        self.lock = threading.Lock()
        self.words = np.zeros(len(STATE), np.int64)
        self.where = address(self.words)
        self.scratch, self.size = on_lines(0), 0
        self.kept: list[tuple[Array, int]] = []
        functions = {
            "keep": api.Py_IncRef, "drop": api.Py_DecRef, "make": api.PyObject_CallNoArgs,
            "clear": api.PyErr_Clear, "release": api.PyEval_SaveThread,
            "acquire": api.PyEval_RestoreThread,
        }  # fmt: skip
        for name, function in functions.items():
            self.put(name, ctypes.cast(function, ctypes.c_void_p).value or 0)
        self.put("none", id(None))
        self.put("number", secrets.randbits(62))

    def put(self, name: str, value: int) -> None:
        """Write one word."""
        self.words[STATE.index(name)] = value

    def arrange(self, needed: int, threads: int) -> None:
        """Let doors run with so many threads, and so much scratch, if nobody is inside one now."""
        with self.lock:
            way = pool.way(threads)
            scratch, size = self.scratch, self.size
            if needed > size:
                scratch, size = on_lines(needed), needed
            # An interrupt may come at any time: what compiled code may have been told of is kept.
            self.kept.append(scratch)
            done = np.zeros(1, np.int64)
            self.fit(self.where, threads, *way, scratch[1], size, address(done))
            if done[0]:  # or somebody computes in the old memory
                self.scratch, self.size, self.kept = scratch, size, [scratch]
            else:
                self.kept.pop()
            if (get_num_threads(), pool.way(threads)) != (threads, way):
                self.forget()

    def forget(self, _: int = 0) -> None:
        """Let nobody in until it is arranged anew."""
        self.put("threads", 0)

    def begin(self) -> None:
        """Begin in a forked child, where nobody can be inside."""
        self.forget()
        self.put("lock", 0)
        self.lock = threading.Lock()


class _Words(np.ndarray[Any, np.dtype[np.int64]]):
    """The words of a door, with all that they have addresses of."""

    kept: object


_shared: list[_State | None] = []


class Door:
    """A call for arrays of one shape and strides: ``call(source, target or None)``."""

    __slots__ = ("call", "launch", "state")

    def __init__(self, state: _State, words: _Words, launch: Launch) -> None:
        self.call: Call = state.builtin(ctypes.addressof(state.method), words, None)
        self.state, self.launch = state, launch

    def arrange(self) -> None:
        """See to it that the next call goes through, if it can be."""
        threads = get_num_threads()
        needed = _needed(self.launch, threads)
        if needed <= MOST_SCRATCH:
            self.state.arrange(needed, threads)


def _needed(launch: Launch, threads: int) -> int:
    """Return the bytes of scratch that so many threads need."""
    return launch.scratch_bytes * (1 if launch.single else threads)


def make_door(  # noqa: PLR0913 - what a call needs
    launch: object,
    source: Array,
    target: tuple[int, ...],
    weights: PackedWeights,
    bias: Array,
    owner: object,
) -> Door | None:
    """Return a door for sources like this one and targets of a shape; None where there is none.

    Weights are packed ones; they, the bias, the launch's record and its owner, with what is
    mentioned there, are kept.
    """
    begin = launch.begin if isinstance(launch, Shifted) else 0
    launch = launch.launch if isinstance(launch, Shifted) else launch
    flags = np.zeros(launch.batch if isinstance(launch, Watched) else 0, np.int64)
    launch = launch.launch if isinstance(launch, Watched) else launch
    state = _state()
    if state is None or type(launch) is not Launch or not weights.finite or source.ndim == 0:
        return None
    if _needed(launch, get_num_threads()) > MOST_SCRATCH:
        return None
    out = np.empty(target, source.dtype)
    record, where = launch.fresh()
    make = maker(target, source.dtype)
    reaches = [(size - 1) * step for size, step in zip(source.shape, source.strides, strict=True)]
    if min(source.size, out.size) == 0:
        return None
    words = {
        "state": state.where,
        "kind": id(np.ndarray),
        "dtype": id(source.dtype),
        "source_axes": source.ndim,
        "target_axes": out.ndim,
        "mask": source.dtype.alignment - 1,
        "low": sum(min(reach, 0) for reach in reaches),
        "high": sum(max(reach, 0) for reach in reaches) + source.itemsize,
        "size": out.nbytes,
        "make": id(make),
        "begin": begin,
        "record": where,
        "weights": weights.address,
        "bias": address(bias),
        "numbered": launch.numbered,
        "watched": flags.size,
        "flags": address(flags),
        "kernel": launch.kernel,
        "items": launch.items,
        "scratch_bytes": launch.scratch_bytes,
        "single": launch.single,
    }
    ends = (*source.shape, *source.strides, *out.shape, *out.strides)
    numbers = np.array([*(words[name] for name in FIELDS), *ends], np.int64).view(_Words)
    numbers.kept = state, record, weights, bias, owner, flags, make, source.dtype
    return Door(state, numbers, launch)


def _state() -> _State | None:
    """Return what doors share; None where Python or arrays are not as they should be."""
    if not _shared:
        made = _make_state()
        _shared.append(made)  # several threads may come here: the first one's counts
        if made is not None and _shared[0] is made:
            watch(made.forget)
            pool.watch_way(made.forget)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=made.begin)
    return _shared[0]


def _make_state() -> _State | None:
    """Load the code of doors, where it can run."""
    try:
        if not _as_expected():
            return None
        code = load_kernel(
            KernelSource("door", str(HEADER), source_version(Path(codegen.__path__[0])), _emit),
            host_machine(settings().cpu),
            settings().cache_dir,
        )
        return _State(code.address("door"), code.address("fit"))
    except (AttributeError, TconvError):  # another Python
        return None


def _emit() -> str:
    module = ir.Module("door")
    emit_door(module, HEADER)
    return str(module)


def _as_expected() -> bool:
    """Tell whether the words of arrays are where compiled code looks for them."""
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    trial = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    frozen = trial[:, ::-1]
    frozen.flags.writeable = False
    for view in (trial, trial[1:], frozen, trial.T, trial[0, 0], np.empty((5, 2), np.int16)):
        at = id(view)
        kind, data, sizes, strides, dtype = (
            ctypes.c_size_t.from_address(at + HEADER + by).value for by in (-8, 0, 16, 24, 40)
        )
        axes, flags = (ctypes.c_int.from_address(at + HEADER + by).value for by in (8, 48))
        if (kind, data, axes) != (id(np.ndarray), view.ctypes.data, view.ndim):
            return False
        found = [tuple((ctypes.c_ssize_t * axes).from_address(where)) for where in (sizes, strides)]
        if found != [view.shape, view.strides] or dtype != id(view.dtype):
            return False
        if bool(flags & WRITEABLE) != view.flags.writeable:
            return False
    return True
