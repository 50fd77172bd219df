"""HOW it will be done: pure data that prints itself."""

from tconv.plan.choose import ALGORITHMS, choose_alike, choose_plan, kind_of, spread_plan
from tconv.plan.correlate import Correlate
from tconv.plan.flat import Flat, flattened
from tconv.plan.gather import Gather
from tconv.plan.grouped import Grouped
from tconv.plan.grouped_weights import GroupedWeights
from tconv.plan.hops import Hops, hopped
from tconv.plan.machine import Machine
from tconv.plan.overlap import Overlap
from tconv.plan.plan import Plan, Step
from tconv.plan.planes import Planes
from tconv.plan.spread import Spread
from tconv.plan.spread_times import spreading
from tconv.plan.strips import Strips
from tconv.plan.taps import TapProducts, tap_products
from tconv.plan.thin import Thin, thinned
from tconv.plan.winograd import Winograd

__all__ = [
    "ALGORITHMS",
    "Correlate",
    "Flat",
    "Gather",
    "Grouped",
    "GroupedWeights",
    "Hops",
    "Machine",
    "Overlap",
    "Plan",
    "Planes",
    "Spread",
    "Step",
    "Strips",
    "TapProducts",
    "Thin",
    "Winograd",
    "choose_alike",
    "choose_plan",
    "flattened",
    "hopped",
    "kind_of",
    "spread_plan",
    "spreading",
    "tap_products",
    "thinned",
]
