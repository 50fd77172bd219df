"""What runs each recipe."""

from typing import Any

from tconv.plan.cells import Cells
from tconv.plan.correlate import Correlate
from tconv.plan.dots import Dots
from tconv.plan.gather import Gather
from tconv.plan.grouped import Grouped
from tconv.plan.grouped_weights import GroupedWeights
from tconv.plan.overlap import Overlap
from tconv.plan.planes import Planes
from tconv.plan.strips import Strips
from tconv.plan.winograd import Winograd
from tconv.plan.woven import Woven
from tconv.problem import Problem
from tconv.runtime.correlate import CorrelateRunner
from tconv.runtime.grouped import GroupedRunner, GroupedWeightsRunner
from tconv.runtime.overlap import OverlapRunner
from tconv.runtime.panels import CellsRunner, DotsRunner, GatherRunner, WovenRunner
from tconv.runtime.planes import PlanesRunner
from tconv.runtime.sliced import SlicedRunner
from tconv.runtime.strips import StripsRunner
from tconv.runtime.winograd import WinogradRunner

RUNNERS: dict[type, Any] = {
    Cells: CellsRunner,
    Correlate: CorrelateRunner,
    Dots: DotsRunner,
    Gather: GatherRunner,
    Grouped: GroupedRunner,
    GroupedWeights: GroupedWeightsRunner,
    Overlap: OverlapRunner,
    Planes: PlanesRunner,
    Strips: StripsRunner,
    Winograd: WinogradRunner,
    Woven: WovenRunner,
}


def runner(problem: Problem, recipe: object) -> Any:  # noqa: ANN401 - one of the above
    """Return what runs a recipe; transforms whose weights do not fit memory go in slices."""
    if isinstance(recipe, Winograd) and recipe.slice < recipe.panels:
        return SlicedRunner(problem, recipe)
    return RUNNERS[type(recipe)](problem, recipe)
