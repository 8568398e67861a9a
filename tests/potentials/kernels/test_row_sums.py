"""Sums of rows are the product of a sparse matrix with a dense one."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.potentials.kernels.row_sums import sum_rows


@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_the_product(weighted: bool) -> None:
    rng = np.random.default_rng(5)
    table, start = rng.normal(size=(10, 3)), np.array([0, 0, 1, 6, 11])  # no entry, one, and more than four
    index = rng.integers(0, 10, 11)
    value = rng.normal(size=11) if weighted else np.empty(0)
    out = np.full(12, np.nan)
    sum_rows(table.reshape(-1), 3, start, index, value, 1, 4, out)
    scaled = table[index] * (value[:, None] if weighted else 1.0)
    expected = [scaled[start[row] : start[row + 1]].sum(0) for row in range(1, 4)]
    assert out[3:].reshape(3, 3) == pytest.approx(np.array(expected), abs=1e-14)
    assert np.isnan(out[:3]).all()
