"""Rows of different lengths."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from loopwise.graph import FactorGraph, union
from loopwise.inference.rows import in_rows, out_of_rows, states_in_rows

sizes_strategy = st.lists(st.lists(st.integers(1, 3), max_size=5), min_size=1, max_size=5)


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
