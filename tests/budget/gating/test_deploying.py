"""Deployed systems: without gates they are as they were, and with everything shut only unary factors are left."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import loopwise as lw
from loopwise import budget
from loopwise.notices import BudgetWarning


def test_without_gates_nothing_changes() -> None:
    graph = lw.grid(2, 3)
    plain = lw.System(lw.TablePotentials.random(graph, seed=0), lw.BP(iterations=3, tolerance=0))
    found = budget.deploy(plain)
    assert found.graph is graph and torch.equal(found.beliefs().states, plain.beliefs().states)


def test_weak_factors_take_their_gates_with_them() -> None:
    graph = lw.chain(4)
    pair = torch.stack([scale * torch.eye(2).double() for scale in (3.0, 0.01, 3.0)])
    gated = budget.Gated(
        lw.TablePotentials(graph, {"unary": torch.zeros(4, 2).double(), "pair": pair}),
        budget.Gate(strength=budget.Raw()),
    )
    gates = budget.MessageGates(graph, 2)
    with torch.no_grad():
        gates.logits[:, 4] = -1.0  # the third pair does not tell its first variable
    method = budget.ByEvidence(lw.BP(iterations=2, tolerance=0, weights=gates), budget.EvidenceGate(graph))
    small = budget.deploy(lw.System(gated, method))
    inner = small.inference.inference  # type: ignore[attr-defined]
    assert small.graph.group("pair").scopes.tolist() == [[0, 1], [2, 3]]
    assert inner.sent.tolist() == [[True, True, False, True]] * 2
    assert set(map(tuple, small.inference.gate.near["pair"].tolist())) == {  # type: ignore[attr-defined]
        (0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (1, 3),
    }  # fmt: skip
    assert small.beliefs().status.messages == 6


def test_where_no_factor_is_left_no_gate_is() -> None:
    graph = lw.chain(3)
    weak = lw.TablePotentials(graph, {"unary": torch.zeros(3, 2).double(), "pair": torch.zeros(2, 2, 2).double()})
    method = budget.ByEvidence(lw.BP(iterations=2, tolerance=0), budget.EvidenceGate(graph))
    with pytest.warns(BudgetWarning, match="every factor"):
        small = budget.deploy(lw.System(budget.Gated(weak), method))
    assert isinstance(small.inference, lw.BP)
    np.testing.assert_allclose(small.beliefs().states.detach().numpy(), 0.5)
