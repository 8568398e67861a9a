"""Rows and how much they count."""

from __future__ import annotations

import numpy as np

from loopwise.apps.table.rows import CountedRows


def test_the_order_in_which_rows_came_is_forgotten() -> None:
    values = np.array([[1, -1], [0, 2], [1, -1], [0, 1]])
    counts = np.array([2.0, 1.0, 0.5, 3.0])
    first = CountedRows.of(values, counts).in_order()
    second = CountedRows.of(values[::-1], counts[::-1]).in_order()
    np.testing.assert_array_equal(first.values, second.values)
    np.testing.assert_array_equal(first.counts, second.counts)
    assert first.values.tolist() == [[0, 1], [0, 2], [1, -1], [1, -1]] and first.total == 6.5
    assert CountedRows.of(values)[1:3].total == 2.0
