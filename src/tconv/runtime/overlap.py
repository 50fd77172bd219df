"""Run products and folds on arrays."""

from array import array
from itertools import pairwise

from tconv.plan import overlap as overlap_plan
from tconv.plan.overlap import FIELDS, FOLD, MULTIPLY, SLACK, Overlap, stage_items
from tconv.problem import Operand, Problem
from tconv.runtime import pool
from tconv.runtime.compiled import OrderedRunner
from tconv.runtime.kernels import overlap_kernel
from tconv.runtime.launch import MOST_GAPS, Array, Launch
from tconv.runtime.scratch import scratch_address
from tconv.threads import get_num_threads

MOST_APART = 8  # elements from point to point: more would be mostly gaps


class OverlapRunner(OrderedRunner):
    """FINE or COARSE with few written channels: products, then sums of them."""

    fields, across = overlap_plan.FIELDS, True

    def __init__(self, problem: Problem, recipe: Overlap) -> None:
        super().__init__(problem, recipe, overlap_kernel(problem.dtype, recipe.lanes))
        self.recipe = recipe

    def ordered(self, weights: Array) -> Array:
        """Return the weights group by group, tap by tap: written channels, then read ones."""
        read, written = self.letters
        shape, permutation = self.problem.path(Operand.WEIGHTS, f"gx{written}{read}")
        view = weights.reshape(shape).transpose(permutation)
        taps = (slice(first, stop) for first, stop in self.recipe.taps)
        return view[(slice(None), *taps)]

    def launch(self, source: tuple[int, ...], target: tuple[int, ...]) -> Launch:
        """Return the kernel made ready for arrays of these strides, in rounds."""
        found = super().launch(source, target)
        if not isinstance(found, Rounds):
            found = Rounds(found, self.recipe, self.problem.batch, self.sums.itemsize)
            if (source, target) in self.launches:
                self.launches[source, target] = found
        return found

    def strided(self, source: tuple[int, ...], target: tuple[int, ...]) -> list[int]:
        """Return the record for arrays of these strides; it tells which points lie evenly apart."""
        record, fields = super().strided(source, target), self.fields
        outer, begin = record[fields["outer"]], record[fields["source_steps"]]
        steps = [*record[begin : begin + outer], record[fields["source_x"]]]
        strides = self.recipe.strides
        sizes = [self.problem.batch, *self.problem.spatial(self.source)]
        sizes = [-(-size // stride) for size, stride in zip(sizes, strides, strict=True)]
        steps = [step * stride for step, stride in zip(steps, strides, strict=True)]
        run_axes, run = outer, sizes[-1]
        for (step, below), size in zip([*pairwise(steps)][::-1], sizes[-2::-1], strict=True):
            if step != below * sizes[run_axes] or max(strides) > 1:
                break  # the points of a residue may be fewer than room is left for
            run_axes, run = run_axes - 1, run * size
        record[fields["run"]], record[fields["run_axes"]] = run, run_axes
        record[fields["run_step"]] = steps[-1]
        # Nothing but what is read, or little: other arrays may lie there, or nothing at all.
        depth, beside = record[fields["depth"]], record[fields["source_c"]] == 1
        record[fields["afar"]] *= beside and depth <= steps[-1] <= MOST_GAPS * depth
        # A run of points of one channel is asked for line by line, with all that lies between.
        record[fields["ahead"]] *= beside or 0 < steps[-1] <= MOST_APART
        for name, values in (("run_sizes", sizes), ("run_steps", steps)):
            place = record[fields[name]]
            record[place : place + len(values)] = values
        return record


class Rounds(Launch):
    """A launch in rounds of images: all workers multiply, then all add up."""

    __slots__ = ("batch", "item", "recipe", "shared_bytes")

    def __init__(self, launch: Launch, recipe: Overlap, batch: int, item: int) -> None:
        super().__init__(
            launch.kernel, list(launch.template), launch.scratch_bytes, 0, single=launch.single
        )
        self.recipe, self.batch, self.item = recipe, batch, item
        self.shared_bytes = -(-recipe.shared * item // 64) * 64

    def __call__(self, *addresses: int) -> None:
        """Run with the addresses that the record begins with, but that of the products."""
        recipe, kernel, size = self.recipe, self.kernel, self.scratch_bytes
        threads = 1 if self.single else get_num_threads()
        shared = scratch_address(self.shared_bytes + size * threads)
        scratch = shared + self.shared_bytes
        record = self.template[:]
        where = record.buffer_info()[0]
        products = shared + SLACK * self.item
        record[: len(addresses) + 1] = array("q", (*addresses, products))
        for first in range(0, self.batch, recipe.round):
            images = min(recipe.round, self.batch - first)
            record[FIELDS["first"]], record[FIELDS["images"]] = first, images
            for stage, items in zip((MULTIPLY, FOLD), stage_items(recipe, images), strict=True):
                record[FIELDS["stage"]] = stage
                pool.run(kernel, where, scratch, size, items, threads)
