"""Columns as variables."""

from __future__ import annotations

import numpy as np
import pytest

from loopwise.apps.table.features import TableColumns, as_table
from loopwise.formats.coding import Numbers, Texts


def test_text_and_what_is_missing() -> None:
    table = as_table([["b", 1, None, ""], ["a", 2.5, "x", np.nan], [np.nan, None, "y", "z"]])
    columns = TableColumns.of(table, ("t", "n", "u", "v"), 8)
    assert columns.labels == (("a", "b"), ("1", "2.5"), ("x", "y"), ("z",))
    assert columns.codes(table).tolist() == [[1, 0, -1, -1], [0, 1, 0, -1], [-1, -1, 1, 0]]
    new = as_table(np.array([["c", 2.0, "x", "z"]], dtype=object))
    assert columns.codes(new).tolist() == [[-1, 1, 0, 0]]  # a label that training had not is missing
    assert isinstance(TableColumns.of(as_table([[True, 1], [False, 2]]), ("a", "b"), 4).columns[0], Numbers)
    many = Texts.of(["often"] * 3 + [f"row {row}" for row in range(1000)])
    assert len(many.labels) == 100 and many.labels[-1] == "(other)" and "often" in many.labels
    assert many.codes(["often", "row 999", "never seen", None]).tolist() == [many.labels.index("often"), 99, 99, -1]
    with pytest.raises(ValueError, match="infinity: column 'a' holds inf in row 0; give finite"):
        TableColumns.of(as_table(np.array([[np.inf], ["a"]], dtype=object)[:1]), ("a",), 4)
    for shape in ((0, 3), (3, 0), (3,)):
        with pytest.raises(ValueError, match=r"minimum of 1|Expected 2D"):
            as_table(np.empty(shape, dtype=object))


def test_intervals_take_any_finite_number() -> None:
    """Large ones need no scale here; an infinite one is named by its row and column."""
    table = as_table(np.array([[1e300, 1.0], [-1e300, 2.0], [0.0, 3.0]]))
    columns = TableColumns.of(table, ("a", "b"), 4)
    assert columns.codes(table).tolist() == [[2, 0], [0, 1], [1, 2]]
    with pytest.raises(ValueError, match="infinity: row 1, column 0 holds -inf"):
        as_table(np.array([[1.0, 2.0], [-np.inf, 3.0]]))
