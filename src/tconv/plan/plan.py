"""A plan: the algorithm chosen, those refused and why, the steps and what they cost."""

from dataclasses import dataclass

from tconv.plan.cells import Cells
from tconv.plan.correlate import Correlate
from tconv.plan.flat import Flat
from tconv.plan.gather import Gather
from tconv.plan.grouped import Grouped
from tconv.plan.grouped_weights import GroupedWeights
from tconv.plan.hops import Hops
from tconv.plan.overlap import Overlap
from tconv.plan.planes import Planes
from tconv.plan.spread import Spread
from tconv.plan.strips import Strips
from tconv.plan.taps import TapProducts
from tconv.plan.thin import Thin
from tconv.plan.winograd import Winograd
from tconv.problem import Problem

Refused = tuple[tuple[str, str], ...]  # (algorithm, why not)


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the table that a plan prints."""

    name: str
    detail: str
    flops: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What will run for a problem, and why."""

    problem: Problem
    algorithm: str
    reason: str
    refused: Refused
    steps: tuple[Step, ...]
    recipe: (
        TapProducts
        | Gather
        | Cells
        | Planes
        | Strips
        | Overlap
        | Spread
        | Grouped
        | GroupedWeights
        | Correlate
        | Winograd
    )
    thin: Thin | None = None  # what the recipe solves, if not the problem itself
    recast: Flat | Hops | None = None  # likewise: arrays seen otherwise

    @property
    def solved(self) -> Problem:
        """The problem that the recipe solves."""
        other = self.thin or self.recast
        return self.problem if other is None else other.problem

    def __str__(self) -> str:
        """Print the table that users see."""
        names = [name for name, _ in self.refused] + [self.algorithm]
        width = max(map(len, names))
        lines = [str(self.problem), f"  chosen   {self.algorithm:<{width}}  {self.reason}"]
        if self.thin is not None:
            steps = " x ".join(map(str, self.thin.steps))
            lines.append(f"  reads    one of {steps} fine points: no window meets the others")
        if self.recast is not None:
            lines.append(f"  reads    {self.recast.told}")
        lines += [f"  refused  {name:<{width}}  {why}" for name, why in self.refused]
        step_width = max(len(step.name) for step in self.steps)
        detail_width = max(len(step.detail) for step in self.steps)
        lines.append(f"  step  {'work':<{step_width}}  {'':<{detail_width}}  {'MFLOP':>10}")
        for number, step in enumerate(self.steps, 1):
            cost = f"{step.flops / 1e6:.3f}" if step.flops else "-"
            work = f"{step.name:<{step_width}}  {step.detail:<{detail_width}}"
            lines.append(f"  {number:<4}  {work}  {cost:>10}")
        total = self.problem.flops()
        lines.append(
            f"  total {total / 1e6:.3f} MFLOP, {self.problem.bytes() / 1e6:.3f} MB in and out"
        )
        return "\n".join(lines)
