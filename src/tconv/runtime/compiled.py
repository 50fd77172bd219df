"""Run compiled plans on arrays."""

import math
from array import array
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tconv.plan.cells import Cells
from tconv.plan.gather import Gather
from tconv.plan.grouped import Grouped
from tconv.plan.in_place import segments_in_place
from tconv.plan.overlap import Overlap
from tconv.plan.planes import Planes
from tconv.plan.strips import Strips
from tconv.plan.weights import (
    plan_picking,
)
from tconv.plan.winograd import Winograd
from tconv.problem import Operand, Problem, accumulator, numpy_dtype
from tconv.runtime.kernels import (
    activation_kernel,
    pick_weights_kernel,
)
from tconv.runtime.launch import (
    MOST_LAUNCHES,
    Launch,
    PackedWeights,
    addressable,
    is_brief,
    put_steps,
    soon_done,
)
from tconv.runtime.scratch import address, on_lines

Array = npt.NDArray[Any]

SPARE = 64  # elements that kernels may read past the end of a bias
SMALL_PACKING = 32_768  # weights, likewise
MOST_ORDERED = 1 << 17  # weights whose order is kept
MOST_KEPT = 1 << 14  # bytes of packed weights whose memory is used again


class Room(PackedWeights):
    """Memory for packed weights that are needed once, and for the flag of infinite ones."""

    __slots__ = ("flag", "flag_address")

    def __init__(self, size: int) -> None:
        super().__init__(*on_lines(size), np.empty(0), finite=False)
        self.flag = array("q", [0])
        self.flag_address = self.flag.buffer_info()[0]


class Repacking:
    """Packs small weights again and again.

    Calls may come from several threads at once: each takes memory of its own, and whoever has
    used it appends it to ``spare`` again.
    """

    __slots__ = ("item", "launch", "size", "spare")

    def __init__(self, launch: Launch, size: int, item: int) -> None:
        self.launch, self.size, self.item = launch, size, item
        self.spare: list[Room] = []

    def __call__(self, weights: Array) -> Room:
        """Return the weights as panels; they are as infinite as any if they lie askew."""
        try:
            room = self.spare.pop()
        except IndexError:
            room = Room(self.size)
        source, flag = address(weights), room.flag
        room.finite = False
        if source % self.item == 0:
            flag[0] = 0
            self.launch(source, room.address, room.flag_address)
            room.finite = flag[0] == 0
        return room


class Runner:
    """What FINE and COARSE by any compiled algorithm have in common."""

    fields: Mapping[str, int]
    across: bool  # whether a row of sums is one channel's points
    numbered = False  # whether a kernel tells calls apart
    nothing = 0.0  # what is added where the bias is in the sums already

    def __init__(
        self,
        problem: Problem,
        recipe: Gather | Cells | Planes | Strips | Overlap | Grouped | Winograd,
        kernel: int,
    ) -> None:
        self.problem, self.kernel, self.lanes = problem, kernel, recipe.lanes
        self.dtype, self.sums = numpy_dtype(problem.dtype), accumulator(problem.dtype)
        fine = problem.wanted is Operand.FINE
        self.source = Operand.COARSE if fine else Operand.FINE
        self.letters = ("c", "f") if fine else ("f", "c")
        self.record, self.items = list(recipe.record), recipe.items
        self.scratch_bytes = -(-recipe.scratch * self.sums.itemsize // 64) * 64
        self.single = soon_done(problem)
        flops = problem.flops()
        if isinstance(recipe, Winograd):
            flops = 2 * recipe.multiplications
        self.brief = is_brief(problem, flops)
        self.launches: dict[tuple[tuple[int, ...], tuple[int, ...]], Launch] = {}
        self.no_bias = self.padded(np.zeros(problem.groups * problem.sizes[self.letters[1]]))
        for name, value in activation_numbers(problem, recipe.lanes, across=self.across).items():
            self.record[self.fields[name]] = value
        self.no_more = self.no_bias
        if math.copysign(1, self.nothing) < 0:
            self.no_more = np.full_like(self.no_bias, self.nothing)
        self.record[self.fields["zeros"]] = address(self.no_more)

    def run(
        self, data: Array, packed: PackedWeights, bias: Array | None, out: Array
    ) -> list[int] | None:
        """Compute into ``out``; return the images that cannot be answered for."""
        data = addressable(data)
        added = self.no_bias if bias is None else self.padded(bias)
        launch = self.launch(data.strides, out.strides)
        launch(address(data), address(out), packed.address, address(added))
        return None

    def ready(
        self, source: tuple[int, ...], target: tuple[int, ...], weights: tuple[int, ...]
    ) -> "Callable[..., bool | None]":
        """Return what takes addresses of arrays of these strides, False where it is in doubt."""
        del weights  # they are packed
        return self.launch(source, target)

    def launch(self, source: tuple[int, ...], target: tuple[int, ...]) -> "Launch":
        """Return the kernel made ready for arrays of these strides."""
        found = self.launches.get((source, target))
        if found is None:
            record = self.strided(source, target)
            found = Launch(
                self.kernel, record, self.scratch_bytes, self.items,
                single=self.single, brief=self.brief, numbered=self.numbered,
            )  # fmt: skip
            if len(self.launches) < MOST_LAUNCHES:
                self.launches[source, target] = found
        return found

    def padded(self, bias: Array) -> Array:
        """Return the bias as kernels read it, with a vector to spare at the end."""
        padded = np.zeros(bias.size + SPARE, self.sums)
        padded[: bias.size] = bias
        return padded

    def strided(self, source: tuple[int, ...], target: tuple[int, ...]) -> list[int]:
        """Return the record for arrays of these strides."""
        record, problem = list(self.record), self.problem
        put_steps(record, self.fields, problem, self.source, source, "source")
        put_steps(record, self.fields, problem, problem.wanted, target, "target")
        return record


class OrderedRunner(Runner):
    """What planes, overlap and grouped layers have in common: weights in another order."""

    order: Array | None = None  # where packed weights come from, once it is known

    def pack(self, weights: Array) -> PackedWeights:
        """Return the weights as kernels read them.

        Few of them are picked one by one, which takes a tenth of the time that NumPy needs to
        find their order.
        """
        if weights.size > MOST_ORDERED:
            found = self.ordered(weights)
        else:
            if self.order is None:
                self.order = self.ordered(np.arange(weights.size).reshape(weights.shape))
            found = weights.take(self.order)
        panels = np.ascontiguousarray(found, self.sums)
        finite = bool(np.isfinite(panels).all())
        return PackedWeights(panels, address(panels), weights, finite=finite)

    def repacking(self, strides: tuple[int, ...]) -> "Repacking | None":
        """Return what packs few weights of these strides again and again."""
        item, shape = self.dtype.itemsize, self.problem.shape(Operand.WEIGHTS)
        if math.prod(shape) > MOST_ORDERED or any(stride % item for stride in strides):
            return None
        order = self.ordered(np.arange(math.prod(shape)).reshape(shape)).ravel()
        size = order.size * self.sums.itemsize
        if size > MOST_KEPT or order.size == 0:
            return None
        places = np.unravel_index(order, shape)
        steps = (place * (stride // item) for place, stride in zip(places, strides, strict=True))
        record = plan_picking(sum(steps, np.zeros(order.size, int)).tolist())
        kernel = pick_weights_kernel(self.problem.dtype, self.lanes)
        return Repacking(Launch(kernel, list(record), 0, 1, single=True), size, item)

    def ordered(self, weights: Array) -> Array:
        """Return weights, or numbers for them, in the order that kernels read them."""
        raise NotImplementedError


def activation_numbers(problem: Problem, lanes: int, *, across: bool) -> dict[str, int]:
    """Return what records have of an activation: the address of its kernel, bits of its slope."""
    if problem.activation is None:
        return {}
    sums, name = accumulator(problem.dtype).name, problem.activation.name
    bits = array("q", array("d", [problem.activation.slope]).tobytes())
    return {"activate": activation_kernel(sums, lanes, name, across=across), "slope": bits[0]}


def put_segments_in_place(
    record: list[int], fields: Mapping[str, int], inner: list[tuple[int, int]]
) -> None:
    """Note where segments lie in the source itself.

    Inside the outer axes come pitches of what is packed, and steps of the source for them.
    """
    begin, room, outer = (
        record[fields[name]] for name in ("segments", "segments_in_place", "outer")
    )
    pitches, steps = (
        record[record[fields[name]] :][:outer] for name in ("pitches", "source_steps")
    )
    ends = [*zip(pitches, steps, strict=True), *inner]
    found = segments_in_place(record[begin:room], *zip(*ends, strict=True))
    record[room : room + len(found)] = found
