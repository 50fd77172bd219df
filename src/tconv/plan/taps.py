"""The portable algorithm: one matrix product a tap, no loop over points."""

import math

from tconv.plan.plan import Plan, Step, TapProducts
from tconv.problem import Operand, Problem, accumulator

ALGORITHM = "tap products"


def plan_taps(problem: Problem) -> Plan:
    """Plan ``problem`` as one matrix product for each tap of the window."""
    reaches = tuple(tuple(axis.reach(tap) for tap in range(axis.taps)) for axis in problem.axes)
    taps = math.prod(axis.taps for axis in problem.axes)
    used = math.prod(sum(reach.count > 0 for reach in axis) for axis in reaches)
    first, second = problem.given
    sums = accumulator(problem.dtype).name
    verb = {Operand.COARSE: "gather", Operand.FINE: "scatter", Operand.WEIGHTS: "correlate"}
    matrix = f"{problem.coarse_channels} x {problem.fine_channels}"
    epilogue = "add bias, round" if problem.bias else "round"
    return Plan(
        problem=problem,
        algorithm=ALGORITHM,
        reason=f"NumPy runs {used} matrix products for {taps} taps, on any machine",
        refused=(("compiled kernels", "this version has none"),),
        steps=(
            Step("pack", f"{first.name} and {second.name} as {sums}", 0),
            Step(
                verb[problem.wanted],
                f"{used} products of {matrix} channels, {problem.groups} group{'s' if problem.groups > 1 else ''}",
                problem.flops(),
            ),
            Step("store", f"{epilogue} to {problem.dtype}, layout {_layout(problem)}", 0),
        ),
        tables=TapProducts(problem.wanted, tuple(axis.stride for axis in problem.axes), reaches),
    )


def _layout(problem: Problem) -> str:
    return str(problem.layout(problem.wanted))
