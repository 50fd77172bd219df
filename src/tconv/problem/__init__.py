"""WHAT is asked: whole numbers and letters only, frozen and hashable."""

from tconv.problem.activation import Activation
from tconv.problem.axis import Axis, Reach, coarse_points, fine_points, window
from tconv.problem.dtypes import DTYPES, accumulator, dtype_name, numpy_dtype
from tconv.problem.layout import Layout
from tconv.problem.problem import Operand, Problem

__all__ = [
    "DTYPES",
    "Activation",
    "Axis",
    "Layout",
    "Operand",
    "Problem",
    "Reach",
    "accumulator",
    "coarse_points",
    "dtype_name",
    "fine_points",
    "numpy_dtype",
    "window",
]
