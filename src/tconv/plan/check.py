"""A plan's tables, run as kernels run them and held against the relation.

Kernels trust a plan blindly.  Here every index that they would compute is computed again, one
point after the other, and refused if it leaves its array, if an output is written
twice or never, or if other points meet than :meth:`Axis.fine` says.  Tests run this.
"""

from tconv.plan.cells import Cells
from tconv.plan.check_cells import CellsRun
from tconv.plan.check_correlate import CorrelateRun
from tconv.plan.check_gather import GatherRun
from tconv.plan.check_grouped import check_grouped, check_grouped_weights
from tconv.plan.check_overlap import OverlapRun
from tconv.plan.check_planes import PlanesRun
from tconv.plan.check_spread import check_spread
from tconv.plan.check_strips import StripsRun
from tconv.plan.check_winograd import check_winograd
from tconv.plan.correlate import Correlate
from tconv.plan.gather import Gather
from tconv.plan.grouped import Grouped
from tconv.plan.grouped_weights import GroupedWeights
from tconv.plan.overlap import Overlap
from tconv.plan.plan import Plan
from tconv.plan.planes import Planes
from tconv.plan.spread import Spread
from tconv.plan.strips import Strips
from tconv.plan.winograd import Winograd
from tconv.plan.woven import Woven, all_together
from tconv.problem import Problem


def check_plan(plan: Plan, *, tile_rows: int) -> None:
    """Refuse a plan that would make kernels go wrong; their tiles have ``tile_rows`` rows.

    NumPy's tap products have no tables to check.
    """
    problem, recipe = plan.solved, plan.recipe
    if isinstance(recipe, Gather):
        one = all_together(problem) if isinstance(recipe, Woven) else problem
        GatherRun(one, recipe).check(tile_rows)
    elif isinstance(recipe, Cells):
        CellsRun(problem, recipe).check(tile_rows)
    elif isinstance(recipe, Planes | Strips | Spread | Grouped | GroupedWeights):
        _check_alone(problem, recipe)
    elif isinstance(recipe, Overlap):
        OverlapRun(problem, recipe, tile_rows).check()
    elif isinstance(recipe, Correlate):
        CorrelateRun(problem, recipe, tile_rows).check()
    elif isinstance(recipe, Winograd):
        check_winograd(problem, recipe, tile_rows=tile_rows)
    if isinstance(recipe, Spread):
        for variant in recipe.variants:
            check_plan(variant.inner, tile_rows=tile_rows)


def _check_alone(
    problem: Problem, recipe: Planes | Strips | Spread | Grouped | GroupedWeights
) -> None:
    """Refuse a recipe without tiles of rows."""
    if isinstance(recipe, Planes):
        PlanesRun(problem, recipe).check()
    elif isinstance(recipe, Strips):
        StripsRun(problem, recipe).check()
    elif isinstance(recipe, Spread):
        check_spread(problem, recipe)
    elif isinstance(recipe, Grouped):
        check_grouped(problem, recipe)
    else:
        check_grouped_weights(problem, recipe)
