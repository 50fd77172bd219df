"""Runs of tiles: how rows are split among large tiles and small ones."""

import numpy as np
import pytest
from llvmlite import ir

from codegen.meanings import Code
from tconv.codegen.build import I64, function, store
from tconv.codegen.runs import split_rows
from tconv.plan.tiles import SMALL_TILE, whole_tiles


@pytest.mark.parametrize("sizes", [(6, 4), (8, 4), (5, 5), (4, 4)])
def test_tiles_cover_all_rows_and_few_more(sizes: tuple[int, int]) -> None:
    """As plans count them, for the tiles that plans know."""
    code = Code()
    made, b = function(code.module, "split", [I64.as_pointer(), I64])
    for place, count in enumerate(split_rows(b, made.args[1], sizes)):
        assert isinstance(count, ir.Value)
        store(b, count, made.args[0], place)
    b.ret_void()
    name = code.add(made)
    large, small = sizes
    for rows in range(60):
        found = np.zeros(2, np.int64)
        code.call(name, found, rows)
        covered = int(found @ sizes)

        assert rows <= covered < rows + max(sizes)
        assert (found >= 0).all()
        if small == SMALL_TILE < large:
            assert covered == whole_tiles(rows, large)
