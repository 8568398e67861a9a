"""The plan by which observed variables are sliced out of factors."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from loopwise.graph import FREE, chain
from loopwise.graph.conditioning import Conditioning
from loopwise.potentials.conditioning import slice_tables
from oracles.strategies import Model, evidence_for, models

LIKE = torch.empty(0, dtype=torch.float64)


@given(st.data(), models())
def test_the_plan_keeps_every_factor_once(data: st.DataObject, model: Model) -> None:
    graph, _ = model
    values = data.draw(evidence_for(graph, (3,), same_variables=False))
    always, ever = (values != FREE).all(0), (values != FREE).any(0)
    plan = Conditioning.of(graph, always, ever & ~always)
    assert plan.graph.cardinalities.tolist() == graph.cardinalities[~always].tolist()
    assert sorted([*plan.observed.tolist(), *plan.free.tolist()]) == list(range(graph.variables))
    for group in graph.groups:
        pieces = [piece for piece in plan.pieces if piece.source == group.name]
        rows = [row for piece in pieces for row in piece.rows.tolist()]
        assert sorted(rows) == list(range(group.count))
        for piece in pieces:
            small = plan.graph.group(piece.target)
            for row, scope in zip(piece.rows, small.scopes, strict=True):
                left = [variable for variable in group.scopes[row].tolist() if not always[variable]]
                assert plan.free[scope].tolist() == left
    clamped = [variable for members in plan.point_masses.values() for variable in members.tolist()]
    assert sorted(clamped) == np.flatnonzero(ever & ~always).tolist()


def test_groups_that_lose_nothing_are_passed_on_without_a_copy() -> None:
    graph = chain(4)
    tables = {"unary": torch.zeros(4, 2), "pair": torch.zeros(3, 2, 2)}
    plan = Conditioning.of(graph, np.zeros(4, dtype=bool), np.array([True, False, False, True]))
    sliced = slice_tables(plan, tables, torch.tensor([[1, -1, -1, -1], [-1, -1, -1, 0]]), LIKE)
    assert sliced["unary"] is tables["unary"]
    assert sliced["pair"] is tables["pair"]
    inf = torch.inf
    assert sliced["evidence|2"].tolist() == [[[-inf, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, -inf]]]
    assert sliced["evidence|2"].dtype == torch.float64
