"""HOW it will be done: pure data that prints itself."""

from tconv.plan.plan import Plan, Step, TapProducts
from tconv.plan.taps import plan_taps

__all__ = ["Plan", "Step", "TapProducts", "plan_taps"]
