"""Run Winograd's algorithm on arrays."""

from array import array

import numpy as np

from tconv.plan import winograd as winograd_plan
from tconv.plan.winograd import FIELDS, MULTIPLY, TRANSFORM, Winograd
from tconv.plan.winograd_weights import plan_weight_transform, transform_work
from tconv.problem import Problem
from tconv.runtime import pool
from tconv.runtime.kernels import transform_weights_kernel, winograd_kernel
from tconv.runtime.launch import Array, Launch, PackedWeights, Watched, addressable
from tconv.runtime.panels import PanelRunner
from tconv.runtime.scratch import address, scratch_address
from tconv.threads import get_num_threads


class WinogradRunner(PanelRunner):
    """FINE or COARSE by a compiled Winograd transform."""

    fields, across = winograd_plan.FIELDS, False
    recipe: Winograd

    def __init__(self, problem: Problem, recipe: Winograd) -> None:
        self.kind = problem.dtype, recipe.lanes, recipe.vectors, recipe.forms
        super().__init__(problem, recipe, winograd_kernel(*self.kind))
        self.packed_type = self.sums
        self.shared_bytes = -(-recipe.shared * self.sums.itemsize // 64) * 64

    def packing(self, steps: tuple[int, ...]) -> tuple[int, tuple[int, ...], int, int]:
        """Return the kernel that transforms weights, its record, items and scratch."""
        kernel = transform_weights_kernel(*self.kind)
        record = plan_weight_transform(self.problem, self.recipe, steps)
        items, working = transform_work(record, self.problem, self.recipe)
        return kernel, record, items, -(-working * self.dtype.itemsize // 64) * 64

    def run(self, data: Array, packed: PackedWeights, bias: Array | None, out: Array) -> list[int]:
        """Compute into ``out``; return the images with results that are not finite.

        Transforms mix the outputs of a tile, so an infinity may have spread in there.
        """
        data = addressable(data)
        added = self.no_bias if bias is None else self.padded(bias)
        watched = self.ready(data.strides, out.strides, packed.source.strides)
        flags = watched.flags(address(data), address(out), packed.address, address(added))
        return [image for image, flag in enumerate(flags) if flag]

    def ready(
        self, source: tuple[int, ...], target: tuple[int, ...], weights: tuple[int, ...]
    ) -> Watched:
        """Return the kernel made ready for arrays of these strides."""
        del weights  # they are packed
        return Watched(self.launch(source, target), self.problem.batch)

    def launch(self, source: tuple[int, ...], target: tuple[int, ...]) -> Launch:
        """Return the kernel made ready for arrays of these strides, in stages if need be."""
        found = super().launch(source, target)
        if self.recipe.staged and not isinstance(found, Stages):
            found = Stages(found, self.recipe, self.shared_bytes)
            if (source, target) in self.launches:
                self.launches[source, target] = found
        return found

    def padded(self, bias: Array) -> Array:
        """Return the bias with zeros where panels have channels and the result has none."""
        groups = self.problem.groups
        padded = np.zeros((groups, self.recipe.panels * self.columns), self.sums)
        padded[:, : bias.size // groups] = bias.reshape(groups, -1)
        padded += 0  # results that go by way of sums add zeros: no sign may depend on that
        return padded


class Stages(Launch):
    """A launch in rounds: some boxes are transformed by all workers, then multiplied by all."""

    __slots__ = ("recipe", "shared_bytes")

    def __init__(self, launch: Launch, recipe: Winograd, shared_bytes: int) -> None:
        super().__init__(
            launch.kernel, list(launch.template), launch.scratch_bytes, 0, single=launch.single
        )
        self.recipe, self.shared_bytes = recipe, shared_bytes

    def __call__(self, *addresses: int) -> None:
        """Run with the addresses that the record begins with, but that of shared memory."""
        recipe, kernel, size = self.recipe, self.kernel, self.scratch_bytes
        threads = 1 if self.single else get_num_threads()
        shared = scratch_address(self.shared_bytes + size * threads)
        scratch = shared + self.shared_bytes
        record = self.template[:]
        where = record.buffer_info()[0]
        record[: len(addresses) + 1] = array("q", (*addresses, shared))
        for first in range(0, recipe.boxes, recipe.round):
            boxes = min(recipe.round, recipe.boxes - first)
            record[FIELDS["first_box"]], record[FIELDS["boxes"]] = first, boxes
            for stage, items in ((TRANSFORM, recipe.slabs), (MULTIPLY, recipe.chunks)):
                record[FIELDS["stage"]] = stage
                pool.run(kernel, where, scratch, size, boxes * items, threads)
