"""Kernels made ready to run: only addresses are missing."""

import ctypes
import secrets
from array import array
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

from tconv.plan.blocks import BYTE
from tconv.problem import Operand, Problem, numpy_dtype
from tconv.runtime import pool
from tconv.runtime.scratch import address, scratch_address
from tconv.threads import get_num_threads

Array = npt.NDArray[Any]

KERNEL = ctypes.CFUNCTYPE(None, *[ctypes.c_size_t] * 3)

_calls = count(secrets.randbits(62))  # scratch may hold anything, but hardly this

_WRITE = [Struct(f"{some}q").pack_into for some in range(9)]  # addresses into a record

MOST_LAUNCHES = 64  # kept for each problem; a stream of odd strides must not pile up
CACHE_LINE = 64  # bytes
SAME_BANK = 2048  # bytes from point to point: memory takes lines so far apart one by one
MOST_GAPS = 2  # times as far apart as they are wide: points that are touched first
SMALL = 200_000  # flops below which a worker costs more than it saves
SOON = 3_000_000  # likewise, one that has to be woken


class Launch:
    """A kernel with its record, waiting for addresses.

    Calls may come from several threads at once, so each takes a record of its own: a used
    one if there is one, which costs less than a copy.  A numbered one has a number for each
    call behind the addresses, which tells what is in scratch from what other calls left there.
    """

    __slots__ = (
        "alone",
        "items",
        "kernel",
        "numbered",
        "scratch_bytes",
        "single",
        "spare",
        "template",
    )

    def __init__(  # noqa: PLR0913 - what a kernel needs
        self,
        kernel: int,
        record: list[int],
        scratch_bytes: int,
        items: int,
        *,
        single: bool,
        brief: bool = False,
        numbered: bool = False,
    ) -> None:
        self.numbered = numbered
        self.kernel, self.scratch_bytes = kernel, scratch_bytes
        self.items = items + pool.BRIEF * brief  # as the pool counts them
        self.single = single or items == 1
        # A single work item needs no pool.
        self.alone = KERNEL(kernel) if items == 1 else None
        self.template = array("q", record)
        self.spare: list[tuple[array[int], int]] = []

    def __call__(self, *addresses: int) -> bool | None:
        """Run with the addresses that the record begins with."""
        try:
            record, where = self.spare.pop()
        except IndexError:
            record, where = self.fresh()
        if self.numbered:
            addresses = (*addresses, next(_calls))
        _WRITE[len(addresses)](record, 0, *addresses)
        size = self.scratch_bytes
        if self.alone is not None:
            self.alone(where, scratch_address(size), 0)
        else:
            threads = 1 if self.single else get_num_threads()
            scratch = scratch_address(size * threads)
            pool.run(self.kernel, where, scratch, size, self.items, threads)
        self.spare.append((record, where))
        return None

    def fresh(self) -> "tuple[array[int], int]":
        """Return a record that nobody else uses, and its address."""
        record = self.template[:]
        return record, record.buffer_info()[0]


class Shifted:
    """A launch on data that begins so many bytes behind the array."""

    __slots__ = ("begin", "launch")

    def __init__(self, launch: Callable[..., bool | None], begin: int) -> None:
        self.launch, self.begin = launch, begin

    def __call__(self, data: int, *others: int) -> bool | None:
        """Run with the addresses of arrays."""
        return self.launch(data + self.begin, *others)


class Watched:
    """A launch that tells whether all results are finite."""

    __slots__ = ("batch", "launch")

    def __init__(self, launch: Launch, batch: int) -> None:
        self.launch, self.batch = launch, batch

    def flags(self, *addresses: int) -> "array[int]":
        """Run; return a flag for each image, raised if a result of it is not finite."""
        flags = array("q", bytes(8 * self.batch))
        self.launch(*addresses, flags.buffer_info()[0])
        return flags

    def __call__(self, *addresses: int) -> bool:
        """Run; return whether all results are finite."""
        return not any(self.flags(*addresses))


class PackedWeights:
    """The second operand of a call as kernels read it: weights in the order of tiles."""

    __slots__ = ("address", "finite", "panels", "source")

    def __init__(self, panels: Array, where: int, source: Array, *, finite: bool) -> None:
        self.panels, self.address, self.source = panels, where, source
        self.finite = finite  # with infinities, zeros around the picture must not be multiplied


def as_it_lies(given: Array) -> PackedWeights:
    """Return what is read where it lies."""
    given = addressable(given)
    return PackedWeights(given, address(given), given, finite=True)


def soon_done(problem: Problem, flop: int = 1) -> bool:
    """Tell whether a worker costs more than it saves, by what a flop takes."""
    return flop * problem.flops() + BYTE * problem.bytes() < SMALL


def is_brief(problem: Problem, flops: int) -> bool:
    """Tell whether waking a worker costs more than it saves; so many flops are done."""
    return flops + BYTE * problem.bytes() < SOON


def flows(steps: Iterable[int], apart: int) -> bool:
    """Tell whether memory takes a result past the caches well: by whole lines, in many places.

    The steps are bytes, ``apart`` those from one point that is written to the next.
    """
    return apart % SAME_BANK != 0 and all(step % CACHE_LINE == 0 for step in steps)


def put_steps(  # noqa: PLR0913 - what of which array goes where
    record: list[int],
    fields: Mapping[str, int],
    problem: Problem,
    operand: Operand,
    strides: tuple[int, ...],
    name: str,
    outer: str = "steps",
) -> None:
    """Note how far apart the elements of a data operand lie, under its name in the record."""
    item = numpy_dtype(problem.dtype).itemsize
    letters, spatial = problem.layout(operand).steps([s // item for s in strides], problem.sizes)
    record[fields[f"{name}_g"]] = letters["g"]
    record[fields[f"{name}_c"]] = letters["c" if operand is Operand.COARSE else "f"]
    record[fields[f"{name}_x"]] = spatial[-1]
    begin = record[fields[f"{name}_{outer}"]]
    record[begin : begin + len(spatial)] = (letters["n"], *spatial[:-1])


def addressable(given: Array) -> Array:
    """Return an array whose elements lie at whole numbers of elements from each other."""
    if given.flags.aligned:
        item = given.itemsize
        if given.flags.c_contiguous or all(stride % item == 0 for stride in given.strides):
            return given
    return np.ascontiguousarray(given)
