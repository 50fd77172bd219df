"""Linear maps of boxes of vectors: the code equals its meaning."""

import numpy as np
import pytest
from llvmlite import ir

from codegen.meanings import Code
from tconv.codegen.build import F64, function, load, store
from tconv.codegen.linear import emit_map_axes, map_axes_meaning
from tconv.plan.transforms import Form, transforms

LANES = 4
BOXES = [(Form(3, 2),), (Form(4, 3),), (Form(3, 2), Form(2, 3)), (Form(1, 2), Form(4, 2))]


@pytest.mark.parametrize("kind", ["data", "weights", "result"])
@pytest.mark.parametrize("forms", BOXES, ids=str)
def test_mapped_boxes_equal_their_meaning(kind: str, forms: tuple[Form, ...]) -> None:
    """In float64 small whole numbers times small fractions are nearly exact."""
    matrices = [getattr(transforms(form), kind) for form in forms]
    sizes = [len(matrix[0]) for matrix in matrices]
    code = Code()
    pointer, vector = F64.as_pointer(), ir.VectorType(F64, LANES)
    made, b = function(code.module, "mapped", [pointer, pointer])
    box = {
        spot: load(b, made.args[1], LANES * int(np.ravel_multi_index(spot, sizes)), vector)
        for spot in np.ndindex(*sizes)
    }
    wide = [len(matrix) for matrix in matrices]
    for spot, value in emit_map_axes(b, matrices, box).items():
        store(b, value, made.args[0], LANES * int(np.ravel_multi_index(spot, wide)))
    b.ret_void()
    code.add(made)
    numbers = np.random.default_rng(0).integers(-9, 10, (*sizes, LANES)).astype(float)
    found = np.empty((*wide, LANES))
    code.call("mapped", found, numbers)

    np.testing.assert_allclose(found, map_axes_meaning(matrices, numbers), rtol=0, atol=1e-12)
