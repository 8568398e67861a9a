"""A prefetch is a hint: it changes nothing, for arrays of any stride; loops with it sum what loops without it do."""

import numpy as np
import pytest
from numba import njit

from loopwise.compiled.prefetch import AHEAD, prefetch


@njit
def gather(table, rows):
    total = 0.0
    for place in range(len(rows)):
        if place + AHEAD < len(rows):
            prefetch(table, rows[place + AHEAD])
        total += table[rows[place], 0]
    return total


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("column", [0, 2])
def test_a_hint_changes_nothing(kind, column):
    cells = np.random.default_rng(0).normal(size=(50, 4))
    before, rows = cells.copy(), np.random.default_rng(1).integers(50, size=200).astype(kind)
    assert gather(cells[:, column : column + 1], rows) == pytest.approx(cells[rows, column].sum(), abs=1e-12)
    np.testing.assert_array_equal(cells, before)


def test_the_hint_is_in_the_machine_code():
    gather(np.zeros((3, 1)), np.zeros(2, np.int64))
    assert all("prefetch" in text for text in gather.inspect_llvm().values())
