"""Run Winograd's algorithm with weights that are transformed in every call, slice by slice."""

from array import array

from tconv.plan import winograd_weights
from tconv.plan.winograd import FIELDS, MULTIPLY, TRANSFORM, Winograd
from tconv.runtime import pool
from tconv.runtime.launch import MOST_LAUNCHES, Array, Launch, PackedWeights, Watched, as_it_lies
from tconv.runtime.scratch import scratch_address
from tconv.runtime.winograd import WinogradRunner
from tconv.threads import get_num_threads


class SlicedRunner(WinogradRunner):
    """FINE or COARSE by a transform whose weights are too many to be there at once.

    What it takes for packed weights are the weights themselves.  Those that are not finite make
    results that are not, which is seen as in any transform.
    """

    def pack(self, weights: Array) -> PackedWeights:
        """Return the weights as they are: they are transformed when they are needed."""
        return as_it_lies(weights)

    def repacking(self, strides: tuple[int, ...]) -> None:
        """Return None: nothing is packed beforehand."""

    def ready(
        self, source: tuple[int, ...], target: tuple[int, ...], weights: tuple[int, ...]
    ) -> Watched:
        """Return the kernels made ready for arrays of these strides."""
        key = (*source, *weights), target
        found = self.launches.get(key)
        if found is None:
            kernel = super(WinogradRunner, self).launch(source, target)
            found = Slices(kernel, self.packing_launch(weights), self)
            if len(self.launches) < MOST_LAUNCHES:
                self.launches[key] = found
        return Watched(found, self.problem.batch)


class Slices(Launch):
    """A launch in rounds of boxes, and for each of them in slices of weights.

    Slices are small enough to stay in the last cache until they are multiplied, and all of them
    are transformed into the same memory.
    """

    __slots__ = ("groups", "packing", "recipe", "sizes")

    def __init__(self, launch: Launch, packing: Launch, runner: SlicedRunner) -> None:
        super().__init__(
            launch.kernel, list(launch.template), launch.scratch_bytes, 0, single=launch.single
        )
        self.packing, self.groups = packing, runner.problem.groups
        self.recipe: Winograd = runner.recipe
        kept = -(-runner.packed_size * runner.packed_type.itemsize // 64) * 64
        self.sizes = runner.shared_bytes, kept

    def __call__(self, *addresses: int) -> None:
        """Run with the addresses of data, result, weights as they are, bias and flags."""
        recipe, packing = self.recipe, self.packing
        threads = 1 if self.single else get_num_threads()
        shared_bytes, kept = self.sizes
        size = max(self.scratch_bytes, packing.scratch_bytes)
        shared = scratch_address(shared_bytes + kept + size * threads)
        panels = shared + shared_bytes
        source, target, weights, bias, flags = addresses
        record, pack = self.template[:], packing.template[:]
        unused = array("q", [0])
        record[:6] = array("q", (source, target, panels, bias, flags, shared))
        pack[:3] = array("q", (weights, panels, unused.buffer_info()[0]))

        def run(kernel: int, numbers: "array[int]", items: int) -> None:
            where = numbers.buffer_info()[0]
            pool.run(kernel, where, panels + kept, size, items, threads)

        fields = winograd_weights.FIELDS
        blocks = pack[fields["blocks"]]
        a_chunk = record[FIELDS["panels_a_chunk"]]
        for first in range(0, recipe.boxes, recipe.round):
            boxes = min(recipe.round, recipe.boxes - first)
            record[FIELDS["first_box"]], record[FIELDS["boxes"]] = first, boxes
            record[FIELDS["stage"]] = TRANSFORM
            run(self.kernel, record, boxes * recipe.slabs)
            record[FIELDS["stage"]] = MULTIPLY
            for panel in range(0, recipe.panels, recipe.slice):
                count = min(recipe.slice, recipe.panels - panel)
                pack[fields["first_panel"]], pack[fields["panels"]] = panel, count
                run(packing.kernel, pack, self.groups * count * blocks)
                record[FIELDS["first_panel"]] = panel
                run(self.kernel, record, boxes * -(-count // a_chunk))
