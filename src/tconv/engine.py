"""Problem to result, one cached path; the only file that knows plans and their runners."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tconv.plan import Plan, plan_taps
from tconv.problem import Operand, Problem, accumulator, numpy_dtype
from tconv.runtime.taps import ORDERS, Array, Floats, run_taps


@lru_cache(maxsize=1024)
def plan(problem: Problem) -> Plan:
    """Return what will run for a problem."""
    return plan_taps(problem)


def pack(problem: Problem, operand: Operand, array: Array) -> Floats:
    """Return a private copy of an operand in the order and type that kernels read."""
    shape, permutation = problem.path(operand, ORDERS[operand])
    view = array.reshape(shape).transpose(permutation)
    return np.array(view, dtype=accumulator(problem.dtype), order="C", copy=True)


def run(
    problem: Problem,
    first: Floats,
    second: Floats,
    bias: Array | None = None,
    out: npt.NDArray[np.generic] | None = None,
) -> npt.NDArray[np.generic]:
    """Compute the wanted operand from the packed given ones (COARSE, FINE, WEIGHTS order).

    ``out`` is touched only when everything else has succeeded.
    """
    wanted = problem.wanted
    shape, permutation = problem.path(wanted, ORDERS[wanted])
    canonical = tuple(shape[place] for place in permutation)
    sums = run_taps(plan(problem).tables, first, second, canonical)
    if bias is not None:
        channels = (problem.groups, *(1,) * len(problem.axes), -1)
        sums += bias.astype(sums.dtype).reshape(channels)
    result = np.empty(problem.shape(wanted), numpy_dtype(problem.dtype)) if out is None else out
    with np.errstate(all="ignore"):  # rounding to infinity is what the type says
        np.copyto(result.reshape(shape).transpose(permutation), sums, casting="unsafe")
    return result


def bytes_needed(problem: Problem) -> int:
    """Return the memory that a call takes beyond its inputs: sums, products and result."""
    sums = accumulator(problem.dtype).itemsize
    sizes = {
        operand: int(np.prod([1, *problem.shape(operand)], dtype=object)) for operand in Operand
    }
    return sums * (sum(sizes.values()) + max(sizes.values())) + (
        numpy_dtype(problem.dtype).itemsize * sizes[problem.wanted]
    )
