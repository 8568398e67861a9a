"""Cost models against counting by hand, and calibrated ones in their files."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise import budget

GRAPH = lw.FactorGraph.from_scopes([2, 3, 2, 4], [[0], [0, 1], [1, 2], [0, 1, 3], []])
OBSERVED = np.array([True, False, False, False])


def test_counts_by_hand() -> None:
    assert float(budget.FactorCost().sweep(GRAPH)) == 3
    assert float(budget.MessageCost().sweep(GRAPH)) == 7
    assert float(budget.CellCost().sweep(GRAPH)) == 2 * 6 + 2 * 6 + 3 * 24
    assert float(budget.SweepCost().sweep(GRAPH)) == 1
    # With variable 0 observed the first pair is unary and the triple is a pair of 3 x 4.
    assert float(budget.FactorCost().sweep(GRAPH, observed=OBSERVED)) == 2
    assert float(budget.MessageCost().sweep(GRAPH, observed=OBSERVED)) == 4
    assert float(budget.CellCost().sweep(GRAPH, observed=OBSERVED)) == 2 * 6 + 2 * 12
    assert float(budget.CellCost(sliced=False).sweep(GRAPH, observed=OBSERVED)) == 96


def test_presences_are_weights() -> None:
    present = {"2x3": torch.tensor([0.25]), "3x2": torch.tensor([[0.5], [1.0]])}
    assert budget.MessageCost().sweep(GRAPH, present).tolist() == [0.5 + 1 + 3, 0.5 + 2 + 3]
    tied = {"pair": torch.tensor([0.5])}
    assert float(budget.MessageCost().sweep(lw.chain(5), tied)) == 4


@pytest.mark.parametrize("schedule", [lw.inference.Flooding()])
def test_beliefs_report_what_was_sent(schedule: object) -> None:
    tables = {group.name: torch.zeros(group.count, *group.shape).double() for group in GRAPH.groups}
    tables["3x2"] = torch.randn(1, 3, 2).double()
    values = np.tile([1, -1, -1, -1], (9, 1))
    beliefs = lw.BP(iterations=30, schedule=schedule)(GRAPH, tables, values)  # type: ignore[arg-type]
    costs = budget.MessageCost().of(beliefs, values)
    assert float(costs.sum()) == beliefs.status.messages
    assert torch.equal(budget.SweepCost().of(beliefs, values), beliefs.status.sweeps.double())
