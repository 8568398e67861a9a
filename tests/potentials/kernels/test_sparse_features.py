"""Scores of sparse features and their transpose, as products with a dense matrix."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.potentials.kernels.sparse_features import distinct, gather_sum, scatter_sum

START = np.array([0, 3, 3, 8])
COLUMNS = np.array([1, -1, 0, 1])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_gathering_and_its_transpose(weighted: bool, precision: type) -> None:
    rng = np.random.default_rng(9)
    weights, index = rng.normal(size=(7, 2)).astype(precision), rng.integers(0, 7, 8)
    value = rng.normal(size=8) if weighted else np.empty(0)
    matrix = np.zeros((3, 7))
    np.add.at(matrix, (np.repeat(np.arange(3), np.diff(START)), index), value if weighted else 1.0)
    reads = np.array([[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0]])  # of each column, by cell
    out = np.empty((3, 4))
    gather_sum(weights, START, index, value, COLUMNS, out)
    assert out == pytest.approx(matrix @ weights.astype(np.float64) @ reads, abs=1e-12)
    adjoint, found = rng.normal(size=(3, 4)), distinct(index)
    sums = np.zeros((len(found[0]), 2))
    scatter_sum(adjoint, START, found[1], value, COLUMNS, sums)
    assert sums == pytest.approx((matrix.T @ adjoint @ reads.T)[found[0]], abs=1e-12)


def test_distinct_numbers_come_in_order_of_appearance() -> None:
    index = np.array([10**12, 3, 10**12, 0, 3, 10**12 + 1])
    numbers, position = distinct(index)
    assert numbers.tolist() == [10**12, 3, 0, 10**12 + 1]
    assert numbers[position].tolist() == index.tolist()
    assert [part.tolist() for part in distinct(np.empty(0, np.int64))] == [[], []]
