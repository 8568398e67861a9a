"""Parts of a union side by side: every variable has a place of its own, keeps its values, and comes back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loopwise.graph import FactorGraph, union

sizes_strategy = st.lists(st.lists(st.integers(1, 3), max_size=5), min_size=1, max_size=5)


@given(sizes_strategy)
def test_variables_keep_their_row_their_values_and_their_order(sizes: list[list[int]]) -> None:
    whole = union([FactorGraph(part, {}) for part in sizes])
    rows = whole.side_by_side
    assert len(rows) == len(sizes) and len(set(rows.variable_place.tolist())) == whole.graph.variables
    assert np.array_equal(rows.graph.cardinalities[rows.column], whole.graph.cardinalities)
    for part in range(len(sizes)):
        where = whole.variables_of(part)
        for size in (1, 2, 3):
            chosen = whole.graph.cardinalities[where] == size
            assert (np.diff(rows.column[where][chosen]) == 1).all()
    most = {size: max(part.count(size) for part in sizes) for size in (1, 2, 3)}
    assert rows.graph.cardinalities.tolist() == [size for size, count in most.items() for _ in range(count)]


def test_parts_of_one_size_stand_as_they_are() -> None:
    assert union([FactorGraph([2, 2], {})] * 3).side_by_side.as_they_stand
    assert not union([FactorGraph([2, 2], {}), FactorGraph([2], {})]).side_by_side.as_they_stand
    assert not union([FactorGraph([3, 2], {})] * 2).side_by_side.as_they_stand  # fewest values first
