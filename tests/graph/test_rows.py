"""Parts of a union side by side: every variable has a place of its own, keeps its values, and comes back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loopwise.graph import FactorGraph, union
from loopwise.inference.rows import in_rows, out_of_rows, states_in_rows

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


@given(sizes_strategy)
def test_there_and_back(sizes: list[list[int]]) -> None:
    whole = union([FactorGraph(part, {}) for part in sizes])
    rows = whole.side_by_side
    numbers = torch.arange(whole.graph.variables)
    table = in_rows(rows, numbers, -1)
    assert table.shape == (len(sizes), rows.graph.variables)
    assert torch.equal(out_of_rows(rows, table), numbers)
    assert int((table >= 0).sum()) == whole.graph.variables
    states = torch.rand(whole.graph.layout.states, dtype=torch.float64, requires_grad=True)
    spread = states_in_rows(rows, states)
    assert torch.equal(spread.reshape(-1)[torch.as_tensor(rows.state_place)], states)
    padded = int(spread.shape[0] * rows.graph.variables - whole.graph.variables)
    assert float((spread.sum() - states.sum()).detach()) == pytest.approx(padded, abs=1e-9)  # a point mass each
    (slope,) = torch.autograd.grad((spread * spread.detach()).sum(), states)
    assert torch.equal(slope, states.detach())


def test_parts_of_one_size_stand_as_they_are() -> None:
    assert union([FactorGraph([2, 2], {})] * 3).side_by_side.as_they_stand
    assert not union([FactorGraph([2, 2], {}), FactorGraph([2], {})]).side_by_side.as_they_stand
    assert not union([FactorGraph([3, 2], {})] * 2).side_by_side.as_they_stand  # fewest values first
