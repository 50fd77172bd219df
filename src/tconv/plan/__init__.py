"""HOW it will be done: pure data that prints itself."""

from tconv.plan.choose import choose_plan
from tconv.plan.correlate import Correlate
from tconv.plan.gather import Gather
from tconv.plan.grouped import Grouped
from tconv.plan.grouped_weights import GroupedWeights
from tconv.plan.machine import Machine
from tconv.plan.plan import Plan, Step
from tconv.plan.planes import Planes
from tconv.plan.taps import TapProducts, tap_products

__all__ = [
    "Correlate",
    "Gather",
    "Grouped",
    "GroupedWeights",
    "Machine",
    "Plan",
    "Planes",
    "Step",
    "TapProducts",
    "choose_plan",
    "tap_products",
]
