"""Run compiled plans on arrays."""

import math
from array import array
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tconv.plan import cells as cells_plan
from tconv.plan import gather as gather_plan
from tconv.plan import planes as planes_plan
from tconv.plan.cells import Cells
from tconv.plan.correlate import Correlate
from tconv.plan.dots import Dots
from tconv.plan.gather import Gather
from tconv.plan.grouped import Grouped
from tconv.plan.in_place import segments_in_place
from tconv.plan.overlap import Overlap
from tconv.plan.planes import Planes
from tconv.plan.weights import (
    packing_items,
    packing_scratch,
    plan_cell_packing,
    plan_packing,
    plan_picking,
)
from tconv.plan.winograd import Winograd
from tconv.problem import Operand, Problem, accumulator, numpy_dtype
from tconv.runtime.correlate import CorrelateRunner
from tconv.runtime.kernels import (
    activation_kernel,
    cells_kernel,
    gather_kernel,
    pack_cells_kernel,
    pack_weights_kernel,
    pick_weights_kernel,
    planes_kernel,
)
from tconv.runtime.launch import (
    MOST_LAUNCHES,
    Launch,
    PackedWeights,
    addressable,
    flows,
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

    def __init__(
        self,
        problem: Problem,
        recipe: Gather | Cells | Planes | Overlap | Grouped | Winograd,
        kernel: int,
    ) -> None:
        self.problem, self.kernel = problem, kernel
        self.dtype, self.sums = numpy_dtype(problem.dtype), accumulator(problem.dtype)
        fine = problem.wanted is Operand.FINE
        self.source = Operand.COARSE if fine else Operand.FINE
        self.letters = ("c", "f") if fine else ("f", "c")
        self.record, self.items = list(recipe.record), recipe.items
        self.scratch_bytes = -(-recipe.scratch * self.sums.itemsize // 64) * 64
        self.single = soon_done(problem)
        self.launches: dict[tuple[tuple[int, ...], tuple[int, ...]], Launch] = {}
        self.no_bias = self.padded(np.zeros(problem.groups * problem.sizes[self.letters[1]]))
        if problem.activation is not None:
            kernel = activation_kernel(self.sums.name, problem.activation.name, across=self.across)
            self.record[self.fields["activate"]] = kernel
            bits = array("q", array("d", [problem.activation.slope]).tobytes())
            self.record[self.fields["slope"]] = bits[0]
            self.record[self.fields["zeros"]] = address(self.no_bias)

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
                single=self.single, numbered=self.numbered,
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
        kernel = pick_weights_kernel(self.problem.dtype)
        return Repacking(Launch(kernel, list(record), 0, 1, single=True), size, item)

    def ordered(self, weights: Array) -> Array:
        """Return weights, or numbers for them, in the order that kernels read them."""
        raise NotImplementedError


class PlanesRunner(OrderedRunner):
    """FINE or COARSE with few channels a group."""

    fields, across = planes_plan.FIELDS, True

    def __init__(self, problem: Problem, recipe: Planes) -> None:
        kernel = planes_kernel(problem.dtype, recipe.rows, recipe.merged)
        super().__init__(problem, recipe, kernel)
        self.taps = tuple(np.array(recipe.taps).T) if recipe.taps else None
        self.panels = _plane_order(problem, recipe, self.letters)

    def strided(self, source: tuple[int, ...], target: tuple[int, ...]) -> list[int]:
        """Return the record for arrays of these strides; it tells if data is read in place."""
        record, fields = super().strided(source, target), self.fields
        beside = record[fields["source_x"]] == 1 and self.dtype == self.sums
        if beside and record[fields["unpacked"]]:
            row = record[fields["row"]], record[fields["source_c"]]
            put_segments_in_place(record, fields, [row, (1, 1)])
            record[fields["in_place"]] = 1
        return record

    def ordered(self, weights: Array) -> Array:
        """Return the weights group by group, tap by tap, in the kernel's order of taps."""
        problem = self.problem
        shape, permutation = problem.path(Operand.WEIGHTS, f"xg{''.join(self.letters)}")
        view = weights.reshape(shape).transpose(permutation)
        taken = view[:0].reshape(0, *view.shape[-3:]) if self.taps is None else view[self.taps]
        taken = taken.swapaxes(0, 1)
        if self.panels is None:
            return taken
        found: Array = np.take(taken.reshape(problem.groups, -1), self.panels, axis=1)
        return found


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


def _plane_order(problem: Problem, recipe: Planes, letters: tuple[str, str]) -> Array | None:
    """Return which of a group's weights, tap by tap, tiles read one after the other.

    None where that is their order: with one panel and no merged phases.
    """
    depth, columns = (problem.sizes[letter] for letter in letters)
    rows, merged = recipe.rows, recipe.merged
    if merged == 1 and columns == rows:
        return None
    panels = np.minimum(np.arange(0, columns, rows), columns - rows)
    lines = np.arange(depth)[:, None, None] * columns + np.arange(rows)  # of a tap and panel
    found, tap = [], 0
    for together, *alone in recipe.counts:
        for number, phases in ((together, merged), (sum(alone), 1)):
            taps = tap + np.arange(number * phases).reshape(number, 1, phases, 1)
            found.append((taps * depth * columns + lines).ravel())
            tap += number * phases
    order: Array = panels[:, None] + np.concatenate(found)
    return order.ravel()


class PanelRunner(Runner):
    """What gathers, cells and transforms have in common: panels, packed by a kernel."""

    def __init__(self, problem: Problem, recipe: Gather | Cells | Winograd, kernel: int) -> None:
        self.recipe = recipe
        self.columns = recipe.lanes * recipe.vectors
        super().__init__(problem, recipe, kernel)
        self.packings: dict[tuple[int, ...], Launch] = {}
        self.packed_size = problem.groups * recipe.group_weights
        self.packed_type = self.dtype

    def pack(self, weights: Array) -> PackedWeights:
        """Return the weights as panels, zeros past the last column."""
        weights = addressable(weights)
        panels, target = on_lines(self.packed_size * self.packed_type.itemsize)
        flag = array("q", [0])
        launch = self.packing_launch(weights.strides)
        launch(address(weights), target, flag.buffer_info()[0])
        return PackedWeights(panels, target, weights, finite=not flag[0])

    def repacking(self, strides: tuple[int, ...]) -> "Repacking | None":
        """Return what packs small weights of these strides again and again."""
        size, item = self.packed_size * self.packed_type.itemsize, self.dtype.itemsize
        if size > MOST_KEPT or any(stride % item for stride in strides):
            return None
        return Repacking(self.packing_launch(strides), size, item)

    def packing_launch(self, strides: tuple[int, ...]) -> Launch:
        """Return the kernel that packs weights of these strides."""
        launch = self.packings.get(strides)
        if launch is None:
            steps = tuple(stride // self.dtype.itemsize for stride in strides)
            kernel, record, items, scratch = self.packing(steps)
            single = math.prod(self.problem.shape(Operand.WEIGHTS)) < SMALL_PACKING
            launch = Launch(kernel, list(record), scratch, items, single=single)
            if len(self.packings) < MOST_LAUNCHES:
                self.packings[strides] = launch
        return launch

    def packing(self, steps: tuple[int, ...]) -> tuple[int, tuple[int, ...], int, int]:
        """Return the kernel that packs, its record, work items and bytes of scratch."""
        raise NotImplementedError


class TileRunner(PanelRunner):
    """What gathers and cells have in common: they may read data where it lies."""

    numbered = True

    def strided(self, source: tuple[int, ...], target: tuple[int, ...]) -> list[int]:
        """Return the record for arrays of these strides; it tells if blocks are read in place."""
        record, fields = super().strided(source, target), self.fields
        depth, outer = record[fields["depth"]], record[fields["outer"]]
        item, line = self.sums.itemsize, record[fields["target_x"]]
        begin = record[fields["target_steps"]]
        written = (item * step for step in (*record[begin : begin + outer], line, self.columns))
        record[fields["stream"]] *= flows(written, item * line * record[fields["step_out"]])
        apart, channel = record[fields["source_x"]], record[fields["source_c"]]
        if self.dtype != self.sums or (channel != 1 and depth > 1):
            return record  # runs of channels must lie side by side
        if apart != depth and self.neighbours(record):
            return record  # and so must runs of neighbours
        put_segments_in_place(record, fields, [(depth, apart)])
        record[fields["in_place"]] = 1
        return record

    def neighbours(self, record: list[int]) -> bool:
        """Tell whether tiles read several points as if they lay side by side."""
        begin, end = (record[self.fields[name]] for name in ("segment_depth", "part_segments"))
        return max(record[begin:end]) > record[self.fields["depth"]]


class GatherRunner(TileRunner):
    """FINE or COARSE by a compiled gather."""

    fields, across = gather_plan.FIELDS, False
    recipe: Gather

    def __init__(self, problem: Problem, recipe: Gather) -> None:
        super().__init__(problem, recipe, gather_kernel(problem.dtype, **self.kinds(recipe)))

    def kinds(self, recipe: Gather) -> dict[str, int]:
        """Return which tiles a recipe needs."""
        names = {"few": "together", "past": "stream", "missed": "words"}
        wanted = {kind: recipe.record[self.fields[name]] != 0 for kind, name in names.items()}
        wide = recipe.record[self.fields["wide_panels"]]
        return {**wanted, "joined": 0 < wide < recipe.panels}

    def packing(self, steps: tuple[int, ...]) -> tuple[int, tuple[int, ...], int, int]:
        """Return the kernel that packs, its record, work items and bytes of scratch."""
        problem, recipe = self.problem, self.recipe
        record = plan_packing(problem, recipe, steps)
        kernel, scratch = pack_weights_kernel(problem.dtype), -(-packing_scratch(record) // 64) * 64
        return kernel, record, packing_items(record, problem.groups), scratch

    def padded(self, bias: Array) -> Array:
        """Return the bias with zeros where panels have channels and the result has none."""
        groups = self.problem.groups
        padded = np.zeros((groups, self.recipe.panels * self.columns), self.sums)
        padded[:, : bias.size // groups] = bias.reshape(groups, -1)
        return padded


class DotsRunner(OrderedRunner, GatherRunner):
    """FINE or COARSE with very few written channels: weights are lines of the depth."""

    fields, across, numbered = gather_plan.FIELDS, False, True
    recipe: Dots

    def kinds(self, recipe: Gather) -> dict[str, int]:
        """Return the tile for so many channels."""
        return {"dots": recipe.record[self.fields["columns"]]}

    def ordered(self, weights: Array) -> Array:
        """Return the weights of every segment by vectors of its depth, for each channel a line."""
        problem, lanes = self.problem, self.recipe.lanes
        shape, permutation = problem.path(Operand.WEIGHTS, f"xg{''.join(self.letters)}")
        taken = weights.reshape(shape).transpose(permutation)
        found = []
        for run, depth in zip(self.recipe.runs, self.recipe.depths, strict=True):
            taps = taken[tuple(np.array(run.taps).T)].swapaxes(0, 1)  # group, tap, depth, channel
            lines = taps.reshape(problem.groups, -1, depth, taps.shape[-1])
            # The last vector overlaps the one before.
            begins = np.minimum(np.arange(0, depth, lanes), depth - lanes)
            vectors = lines[:, :, begins[:, None] + np.arange(lanes)]
            found.append(vectors.swapaxes(-1, -2).reshape(problem.groups, -1))
        return np.concatenate(found, axis=1) if found else taken[:0]


class CellsRunner(TileRunner):
    """FINE with phases as columns."""

    fields, across = cells_plan.FIELDS, False
    recipe: Cells

    def __init__(self, problem: Problem, recipe: Cells) -> None:
        super().__init__(problem, recipe, cells_kernel(problem.dtype))

    def packing(self, steps: tuple[int, ...]) -> tuple[int, tuple[int, ...], int, int]:
        """Return the kernel that packs, its record, work items and bytes of scratch."""
        problem, recipe = self.problem, self.recipe
        items = problem.groups * recipe.neighbours * recipe.panels
        return pack_cells_kernel(problem.dtype), plan_cell_packing(problem, recipe, steps), items, 0

    def padded(self, bias: Array) -> Array:
        """Return the bias of every column."""
        groups = self.problem.groups
        padded = np.zeros((groups, self.recipe.panels * self.columns), self.sums)
        padded[:, np.array(self.recipe.columns)] = bias.reshape(groups, 1, -1)
        return padded


def runner(
    problem: Problem, recipe: Gather | Cells | Planes | Correlate
) -> GatherRunner | CellsRunner | PlanesRunner | CorrelateRunner:
    """Return what runs a recipe."""
    if isinstance(recipe, Dots):
        return DotsRunner(problem, recipe)
    if isinstance(recipe, Gather):
        return GatherRunner(problem, recipe)
    if isinstance(recipe, Cells):
        return CellsRunner(problem, recipe)
    return (
        PlanesRunner(problem, recipe)
        if isinstance(recipe, Planes)
        else (CorrelateRunner(problem, recipe))
    )
